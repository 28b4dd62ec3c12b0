"""The files of `/context export` and `import`: turns as JSON, and back with every check.

`context.json` holds the whole history, a message an entry, tagged with its turn's id (flo.monster);
`context.terse.json` one line for each turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memory.messages import Mark, Message, Role, ToolCall
from memory.turns import Entry, Turn
from plugins.api import CommandError
from plugins.wording import beginning

FORMAT = "parley-context"
VERSION = 1
MOST_BYTES = 16_000_000
MOST_MESSAGES = 20_000
_TERSE = 160  # characters of a reply that stand for its turn

Name = Annotated[str, Field(min_length=1, max_length=200)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Call(_Strict):
    id: Name
    name: Name
    arguments: str


class _Message(_Strict):
    turnId: Name  # the name that the format has (flo.monster)
    role: Role
    content: str = ""
    timestamp: str = ""
    tool_calls: tuple[_Call, ...] = ()
    tool_call_id: str = ""
    tool: str = ""
    speaker: str = ""
    reasoning: str = ""
    is_error: bool = False
    mark: Mark = ""

    def as_message(self) -> Message:
        return Message(
            role=self.role,
            text=self.content,
            tool_calls=tuple(ToolCall(c.id, c.name, c.arguments) for c in self.tool_calls),
            call_id=self.tool_call_id,
            tool=self.tool,
            speaker=self.speaker,
            reasoning=self.reasoning,
            is_error=self.is_error,
            mark=self.mark,
        )


class _File(_Strict):
    format: Literal["parley-context"]
    version: Literal[1]
    conversation: str = ""
    exported: str = ""
    messages: tuple[_Message, ...] = Field(min_length=1, max_length=MOST_MESSAGES)


def as_data(turns: Iterable[Turn], conversation: str) -> dict[str, Any]:
    """What `context.json` holds; defaults are left out of each message."""
    return {
        **_head(conversation),
        "messages": [_entry(turn, entry) for turn in turns for entry in turn.entries],
    }


def as_terse(turns: Iterable[Turn], conversation: str) -> dict[str, Any]:
    """What `context.terse.json` holds: a line for each turn, the first words of its reply."""
    entries = [
        {
            "timestamp": turn.entries[-1].at.isoformat(),
            "turnId": turn.id,
            "role": "assistant",
            "summary": beginning(turn.entries[-1].message.text, _TERSE),
        }
        for turn in turns
    ]
    return {**_head(conversation), "entries": entries}


def _head(conversation: str) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat()
    return {"format": FORMAT, "version": VERSION, "conversation": conversation, "exported": now}


def _entry(turn: Turn, entry: Entry) -> dict[str, Any]:
    message = entry.message
    whole = _Message(
        turnId=turn.id,
        role=message.role,
        content=message.text,
        timestamp=entry.at.isoformat(),
        tool_calls=tuple(
            _Call(id=c.id, name=c.name, arguments=c.arguments) for c in message.tool_calls
        ),
        tool_call_id=message.call_id,
        tool=message.tool,
        speaker=message.speaker,
        reasoning=message.reasoning,
        is_error=message.is_error,
        mark=message.mark,
    )
    return whole.model_dump(exclude_defaults=True)


def parsed(content: bytes) -> list[list[Message]]:
    """The turns in a `context.json`, each of which makes a valid part of a request.

    Raises CommandError with a sentence that names the place that is wrong.
    """
    try:
        file = _File.model_validate_json(content)
    except ValidationError as error:
        raise CommandError(_complaint(error)) from None
    turns = [
        (turn_id, [message.as_message() for message in messages])
        for turn_id, messages in groupby(file.messages, key=lambda message: message.turnId)
    ]
    seen: set[str] = set()
    for turn_id, messages in turns:
        if turn_id in seen:
            raise CommandError(f"Turn {turn_id!r} comes twice, with another one between.")
        seen.add(turn_id)
        if wrong := fault(messages):
            raise CommandError(f"Turn {turn_id!r} {wrong}.")
    return [messages for _, messages in turns]


def _complaint(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in first["loc"])
    place = f"at {path.removeprefix('.')}: " if path else ""
    return (
        f"It is no context.json of Parley's: {place}{first['msg'][:1].lower()}{first['msg'][1:]}."
    )


def fault(messages: Sequence[Message]) -> str:
    """What keeps messages from being a whole turn, to follow its name; "" if nothing does."""
    first, *others, last = messages if len(messages) > 1 else (*messages, messages[0])
    if first.role != "user" or not first.text.strip():
        return "does not begin with a user's text"
    if not last.is_final or not last.text.strip():
        return "does not end with a reply of the assistant"
    if any(message.role == "user" for message in others):
        return "holds more than one message of the user"
    if any(message.is_final for message in others):
        return "goes on after its reply"
    return _fault_of_calls(messages)


def _fault_of_calls(messages: Sequence[Message]) -> str:
    """Every call has one result, before the next reply; every result answers a call."""
    open_calls: set[str] = set()
    known: set[str] = set()
    for message in messages:
        if message.role == "tool":
            if message.call_id not in open_calls:
                return f"has a result for the call {message.call_id!r}, which is not open"
            open_calls.remove(message.call_id)
        elif open_calls:
            return f"has no result for the call {min(open_calls)!r}"
        for call in message.tool_calls:
            if message.role != "assistant" or call.id in known:
                return f"has the call {call.id!r} twice, or not from the assistant"
            known.add(call.id)
            open_calls.add(call.id)
    return ""
