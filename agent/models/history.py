"""The rules that providers put on the history of a request, and histories that keep them. Pure.

`normalize` makes of any list of messages in OpenAI's shape one in which all protocols can be
written; `alternate` adds what chat completions want. The rules themselves, each with its source,
are in `tests/agent/request_rules.py`: tests check each request that is made (`inspect`).

A neutral body has its history in the shape that all protocols have in common; `read_history` gives
it to the protocol that makes its own request of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeVar

from msgspec.structs import replace

from agent.models.shapes import read_json
from memory.messages import RequestExtras
from memory.patterns import lazy

Json = dict[str, Any]
Messages = Sequence[Mapping[str, Any]]
Inspected = TypeVar("Inspected")

INTERRUPTED = "(Interrupted by a message.)"
"""An assistant's message between the result of a tool and a person's message."""
NO_RESULT = "(There is no result: the call was interrupted.)"
NOTHING = "(nothing was said)"
NO_OUTPUT = "(nothing was returned)"
_NOTE = "<system-reminder>"
_NAME = lazy(r"[a-zA-Z0-9_-]{1,64}")
_SPOKEN = lazy(r"[^a-zA-Z0-9_-]+")
_LONGEST = 64  # characters of a tool's name


def normalize(messages: Messages) -> list[Mapping[str, Any]]:
    """Return the messages with calls that every protocol accepts: names of allowed letters, unique
    ids, arguments that are a JSON object, one result directly after each call, and no result
    without a call. Valid messages stay unchanged."""
    if not any(one["role"] == "tool" or "tool_calls" in one for one in messages):
        return [*messages]
    made: list[Mapping[str, Any]] = []
    taken: set[str] = set()
    waiting: list[tuple[str, str]] = []  # original and sent ids of calls without a result
    for message in messages:
        if message["role"] == "tool":
            found = next((one for one in waiting if one[0] == message["tool_call_id"]), None)
            if found is not None:
                waiting.remove(found)
                came, own = found
                made.append(message if own == came else {**message, "tool_call_id": own})
            continue
        if waiting:
            made += _missing(waiting)
        if calls := message.get("tool_calls"):
            sent = [_to_call(call, taken) for call in calls]
            waiting = [(call["id"], own["id"]) for call, own in zip(calls, sent, strict=True)]
            is_same = all(own is call for own, call in zip(sent, calls, strict=True))
            message = message if is_same else {**message, "tool_calls": sent}
        made.append(message)
    return [*made, *_missing(waiting)]


def _missing(waiting: list[tuple[str, str]]) -> list[Json]:
    rows: list[Json] = [
        {"role": "tool", "tool_call_id": own, "content": NO_RESULT} for _, own in waiting
    ]
    waiting.clear()
    return rows


def _to_call(call: Mapping[str, Any], taken: set[str]) -> Mapping[str, Any]:
    function = call["function"]
    own = {
        "id": _unique(call["id"], taken),
        "name": clean_name(function["name"]),
        "arguments": strict_object(function["arguments"]),
    }
    taken.add(own["id"])
    if own == {"id": call["id"], "name": function["name"], "arguments": function["arguments"]}:
        return call
    named = {**function, "name": own["name"], "arguments": own["arguments"]}
    return {**call, "id": own["id"], "function": named}


def _unique(call: str, taken: set[str]) -> str:
    """Return an id that no earlier call of the request has; the same for the same history."""
    own = base = call or "call"
    number = 1
    while own in taken:
        number += 1
        own = f"{base}_{number}"
    return own


def clean_name(name: str) -> str:
    """Return a tool's name in the letters that OpenAI's protocol allows
    (`^[a-zA-Z0-9_-]{1,64}$`: vercel/ai#17769, opencode#48750, mastra#13632)."""
    if _NAME.fullmatch(name):
        return name
    return _SPOKEN.sub("_", name).strip("_")[:_LONGEST] or "unknown"


def strict_object(arguments: str) -> str:
    """Return arguments that are a JSON object by RFC 8259, which has no NaN and no Infinity;
    invalid ones become an empty object."""
    return arguments if isinstance(read_json(arguments), dict) else "{}"


def join_system(messages: Messages) -> list[Mapping[str, Any]]:
    """Return the messages with the system prompt prepended to the first user message, for templates
    without a system role (Gemma)."""
    system = [one for one in messages if one["role"] in ("system", "developer")]
    others = [one for one in messages if one["role"] not in ("system", "developer")]
    if not others or others[0]["role"] != "user":
        others.insert(0, {"role": "user", "content": NOTHING})
    first = {"role": "user", "content": ""}
    contents = [one["content"] for one in (*system, others[0])]
    return [_with_joined(first, contents), *others[1:]]


def merge_system(messages: Messages) -> list[Mapping[str, Any]]:
    """Return the messages with one system message before all others, for templates that accept only
    one (Qwen)."""
    system = [one for one in messages if one["role"] in ("system", "developer")]
    others = [one for one in messages if one["role"] not in ("system", "developer")]
    if not system:
        return others
    return [_with_joined(system[0], [one["content"] for one in system[1:]]), *others]


def spell_out(messages: Messages) -> list[Mapping[str, Any]]:
    """Return normalized messages with calls and results as text: for a request without tools, to a
    receiver that refuses them in the history too."""
    names = {call["id"]: call["function"]["name"] for call in _calls(messages)}
    made: list[Mapping[str, Any]] = []
    for message in messages:
        if calls := message.get("tool_calls"):
            lines = [_called(call["function"]) for call in calls]
            plain = {name: value for name, value in message.items() if name != "tool_calls"}
            made.append(_with_joined(plain, ["\n".join(lines)]))
        elif message["role"] == "tool":
            line = f"[{names[message['tool_call_id']]} returned]"
            made.append(_with_joined({"role": "user", "content": line}, [message["content"]]))
        else:
            made.append(message)
    return made


_TURNS = {"user": "assistant", "assistant": "user"}
"""The preceding role of each role, in alternation."""


def _called(function: Mapping[str, Any]) -> str:
    return f"[called {function['name']} with {function['arguments']}]"


def alternate(messages: Messages) -> list[Mapping[str, Any]]:
    """Return the messages as the strictest chat-completions endpoints require them: after the
    system prompt a user's, then alternating; an assistant's after tool results; none empty.

    Consecutive messages of a person become one, and a note of the bot joins the message before it.
    They were recorded together, so nothing changes that was sent before.
    """
    if _alternate(messages):
        return [*messages]
    made: list[tuple[Mapping[str, Any], list[Any]]] = []
    has_begun = False
    for message in messages:
        role, last = message["role"], made[-1][0] if made else _SYSTEM
        before, content = last["role"], message.get("content")
        is_empty = not (content.strip() if isinstance(content, str) else content)
        if has_begun and not is_empty and _TURNS.get(role) == before:  # the usual case
            made.append((message, []))
            continue
        if is_empty and role in ("system", "developer"):
            continue
        joins = role == before == "assistant" and not last.get("tool_calls")
        if is_empty and not joins and not message.get("tool_calls"):
            message = {**message, "content": NO_OUTPUT if role == "tool" else NOTHING}
        if role == "user" and (before == "user" or (before == "tool" and _is_note(message))):
            made[-1][1].append(message["content"])
            continue
        if joins:
            joined = [last.get("content"), *made[-1][1], message.get("content")]
            made[-1] = ({**last, **message, "content": None}, joined)
            continue
        if role == "user" and before == "tool":
            made.append(({"role": "assistant", "content": INTERRUPTED}, []))
        elif role == "assistant" and not has_begun:
            made.append(({"role": "user", "content": NOTHING}, []))
        has_begun |= role not in ("system", "developer")
        made.append((message, []))
    made += () if has_begun else (({"role": "user", "content": NOTHING}, []),)
    return [_with_joined(message, joined) if joined else message for message, joined in made]


def _alternate(messages: Messages) -> bool:
    """Return whether these are an optional system prompt and alternating texts of a person and an
    assistant, the usual case."""
    texts = [one.get("content") for one in messages]
    if not all(isinstance(text, str) and text and not text.isspace() for text in texts):
        return False
    roles = [one["role"] for one in messages]
    dialogue = roles[1:] if roles[:1] == ["system"] else roles
    return bool(dialogue) and dialogue == (["user", "assistant"] * len(dialogue))[: len(dialogue)]


_SYSTEM: Json = {"role": "system"}


def _is_note(message: Mapping[str, Any]) -> bool:
    return isinstance(message["content"], str) and message["content"].startswith(_NOTE)


def _with_joined(message: Mapping[str, Any], joined: Sequence[Any]) -> Mapping[str, Any]:
    """Return a message with further contents appended: as text, or as parts."""
    contents = [one for one in (message.get("content"), *joined) if one]
    if all(isinstance(one, str) for one in contents):
        return {**message, "content": "\n\n".join(contents) or None}
    return {**message, "content": [part for one in contents for part in _parts(one)]}


def _parts(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _calls(messages: Messages) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        yield from message.get("tool_calls") or ()


INSPECTORS: dict[str, Callable[[Any], None]] = {}
"""The checks of requests, by what they look at; only tests put some here."""


def inspect(what: str, value: Inspected) -> Inspected:
    """Return a part of a request after the check of it, which may raise."""
    if look := INSPECTORS.get(what):
        look(value)
    return value


CALL_IDS, THOUGHTS, EMPTY = "call_ids", "thoughts", "empty_content"
"""The keys of a neutral body: the number of letters and digits in a call's id, the field in which
thoughts are sent back, and whether the content of a message with calls alone is "" instead of
null."""
EVERYWHERE = "thoughts_everywhere"
"""The key that says whether answers have the field of thoughts, too."""
OWN = (
    *("protocol", "messages", "tools", "is_once", "without_thoughts"),
    *("no_system", "one_system", "signer", CALL_IDS, THOUGHTS, EVERYWHERE, EMPTY),
)
"""The keys that are not parameters of any protocol, or that each protocol converts."""
_SIGNED = "by:"


def sign(thoughts: str, signer: str) -> str:
    """Return thoughts with the mark of the model that made them: no other model can read signed or
    encrypted thoughts."""
    return f"{_SIGNED}{signer}\n{thoughts}" if thoughts and signer else thoughts


def signer_of(provider: str, model: str) -> str:
    """Return the mark of a model at a provider."""
    return sha256(f"{provider}\0{model}".encode()).hexdigest()[:12]


def _own_thoughts(thoughts: str, signer: str) -> str:
    """Return thoughts made by this model, or without a mark; "" for those of others."""
    if not thoughts.startswith(_SIGNED):
        return thoughts
    mark, _, own = thoughts.partition("\n")
    return own if mark == _SIGNED + signer else ""


def read_history(
    neutral: Mapping[str, Any], beside: RequestExtras
) -> tuple[Sequence[Mapping[str, Any]], RequestExtras]:
    """Return the messages of a body, with calls that every protocol accepts, and the data beside
    them that may be sent to this model."""
    messages: Sequence[Mapping[str, Any]] = normalize(neutral["messages"])
    if not neutral.get("tools"):
        # Claude's API refuses calls of undeclared tools, and templates of models without tools
        # don't support results.
        messages = spell_out(messages)
    if neutral.get("no_system"):
        messages = join_system(messages)
    elif neutral.get("one_system"):
        messages = merge_system(messages)
    if neutral.get("without_thoughts"):
        beside = replace(beside, thoughts={}, reasoning={})
    elif beside.thoughts:
        signer = str(neutral.get("signer", ""))
        own = {call: _own_thoughts(one, signer) for call, one in beside.thoughts.items()}
        beside = replace(beside, thoughts={call: one for call, one in own.items() if one})
    return inspect("calls", messages), beside
