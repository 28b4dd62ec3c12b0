"""A streamed answer, put together from the chunks of OpenAI's chat-completions protocol."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import Any
from uuid import uuid4

from msgspec.structs import astuple

from agent.models import chat_thoughts
from agent.models.arguments import repair, to_text
from agent.models.base import ModelReply, Usage
from agent.models.finish import read_finish
from agent.models.history import strict_object
from agent.models.tags import ThoughtFilter, split_thoughts
from memory.messages import ToolCall

MOST_CHARACTERS = 2_000_000
"""Of one answer, with reasoning and arguments: more than any model writes (128,000 tokens)."""
MOST_CALLS = 1_000
"""In one answer; how many of them are run is the setting `agent_max_calls`."""
_MOST_TOKENS = 10**9  # in one answer
LONGEST_NAME = 200  # characters of a model's or a tool's name
_LONGEST_CHECKED = 20_000  # characters of arguments
_ONLY_TEXT = frozenset({"role", "content"})


class Answer:
    """What has come so far.

    Chunks may have any shape: what is not of the protocol counts as absent. An answer that comes
    whole, from an endpoint that does not stream, is one chunk. `size` is what was kept of it, in
    characters; `is_full` says that more came than is kept, and that nothing more will be. A call
    that was cut by that is none. `thought` is what the last chunk brought of the model's reasoning.
    `field` is where something stands that must go back with calls (`chat_thoughts`; "": nothing).
    """

    THINKS_ALOUD = True
    """Whether a server may take all of an answer for a thought, or leave calls in its text."""

    def __init__(self, field: str = "") -> None:
        self._field = field
        self._details: list[dict[str, Any]] = []
        self.finish = ""
        self.size = 0
        self.is_full = False
        self.thought = ""
        self._model = ""
        self._text = StringIO()  # a list of a million small pieces would take 80 MB
        self._reasoning = StringIO()
        self._tags = ThoughtFilter()
        self._has_tags = False
        self._has_refused = False
        self._calls: list[_PartialCall] = []
        self._latest: dict[object, _PartialCall] = {}
        self._usage: Usage | None = None

    def add(self, chunk: object) -> str:
        """Take a chunk in; returns the text that it brought."""
        fields: Mapping[str, Any] = chunk if isinstance(chunk, dict) else {}
        if not self._model and (model := fields.get("model")):
            self._model = model[:LONGEST_NAME] if isinstance(model, str) else ""
        if usage := fields.get("usage"):
            self._usage = _usage(as_mapping(usage), self._usage)
        choices = fields.get("choices")
        choice = as_mapping(choices[0]) if choices and isinstance(choices, list) else {}
        if reason := choice.get("finish_reason"):
            self.finish = reason if isinstance(reason, str) else self.finish
        delta = as_mapping(choice.get("delta") or choice.get("message"))
        self.thought = ""
        content = delta.get("content")
        if delta.keys() <= _ONLY_TEXT and not isinstance(content, list):  # nearly always
            return self._add_text(content)
        return self._add_delta(delta)

    def _add_delta(self, delta: Mapping[str, Any]) -> str:
        if calls := delta.get("tool_calls"):
            for part in calls if isinstance(calls, list) else ():
                self._add_call(as_mapping(part))
        text, reasoning = _read_parts(delta.get("content"))
        reasoning += get_string(delta, "reasoning_content") or get_string(delta, "reasoning")
        self._add_thought(reasoning)
        if self._field == chat_thoughts.DETAILS:
            self.size += chat_thoughts.add_details(self._details, delta.get(self._field))
            self.is_full |= self.size > MOST_CHARACTERS
        if refusal := get_string(delta, "refusal"):
            self._has_refused = True
        return self._add_text(text or refusal)

    def _add_thought(self, piece: str) -> None:
        if piece:
            self._reasoning.write(piece := self._clip(piece))
            self.thought += join_halves(piece)

    def _add_text(self, piece: object) -> str:
        if not (piece and isinstance(piece, str)):
            return ""
        piece = self._tags.feed(self._clip(piece))
        if self._tags.thought:
            self._has_tags = True
            self._reasoning.write(self._tags.thought)
            self.thought += join_halves(self._tags.thought)
        self._text.write(piece)
        return piece if piece.isascii() else join_halves(piece)

    def _clip(self, piece: str) -> str:
        """As much of a piece as there is room for."""
        room = MOST_CHARACTERS - self.size
        if len(piece) > room:
            piece, self.is_full = piece[:room], True
        self.size += len(piece)
        return piece

    def _add_call(self, part: Mapping[str, Any]) -> None:
        function = as_mapping(part.get("function"))
        call = self._call_of(part, get_string(function, "name"))
        if call is None:
            self.is_full = True
            return
        call.id = call.id or self._clip(get_string(part, "id"))
        call.add_name(self._clip(get_string(function, "name")[:LONGEST_NAME]))
        if self._field == chat_thoughts.SIGNATURES and (
            signed := as_mapping(part.get(self._field))
        ):
            self.size += len(str(signed))
            call.signature = None if self.size > MOST_CHARACTERS else signed
        arguments = to_text(function.get("arguments"))
        kept = self._clip(arguments)
        call.arguments.write(kept)
        call.is_cut |= len(kept) < len(arguments)

    def _call_of(self, part: Mapping[str, Any], name: str) -> _PartialCall | None:
        """The call that a part belongs to: by index, else a name opens one and the rest is of the
        last. Some endpoints give every call the index 0 and tell them apart by id alone, or by
        nothing but a name behind arguments that are whole. None for one that is too many."""
        opens = bool(name)
        index, own_id = part.get("index"), part.get("id")
        if index is not None:
            call = self._latest.get(_hashable(index))
        else:
            call = self._calls[-1] if self._calls and not opens else None
        is_other = opens and own_id and call and call.id and own_id != call.id
        if call and not is_other and not (opens and not own_id and call.is_complete):
            return call
        if len(self._calls) >= MOST_CALLS:
            return None
        opened = self._latest[_hashable(index)] = _PartialCall()
        self._calls.append(opened)
        return opened

    @property
    def text(self) -> str:
        """The answer's text, without thoughts that stand in it."""
        text = join_halves(self._text.getvalue())
        return split_thoughts(text)[0] if "</" in text else text

    @property
    def has_begun(self) -> bool:
        """Whether anything has come of what a model writes."""
        return bool(self.size or self.finish or self._usage)

    @property
    def is_paused(self) -> bool:
        """Whether it ended only to be sent back, and to go on then."""
        return False

    @property
    def is_whole(self) -> bool:
        """Whether the end came: a finish reason, or the usage that follows it; or it was put."""
        return self.is_full or bool(self.finish) or self._usage is not None

    @property
    def _is_thought_alone(self) -> bool:
        """Whether thoughts may be the answer: all of it came, in the field of thoughts. What stands
        in tags was thought."""
        return self.THINKS_ALOUD and bool(self.finish) and not self._has_tags

    def reply(self, model: str) -> ModelReply:
        """The answer as a value; `model` names it where the endpoint did not."""
        whole = [call for call in self._calls if call.name and not call.is_cut]
        calls = tuple(call.to_call() for call in whole)
        self._text.write(self._tags.finish())
        reasoning = join_halves(self._reasoning.getvalue() + self._tags.thought)
        text = join_halves(self._text.getvalue())
        if "</" in text:
            text, thought = split_thoughts(text)
            reasoning += thought
            self._has_tags |= bool(thought)
        finish = read_finish(self.finish, has_calls=bool(calls))
        if self._has_refused and finish == "complete":
            finish = "refused"
        is_thought = finish == "complete" and self._is_thought_alone and not text.strip()
        if is_thought:
            text, reasoning = reasoning, ""
        signatures = [call.signature for call in whole]
        kept = chat_thoughts.keep(self._field, reasoning, self._details, signatures)
        return ModelReply(
            text=text,
            tool_calls=calls,
            finish="length" if self.is_full else finish,
            model=join_halves(self._model) or model,
            usage=self._usage,
            reasoning=reasoning,
            thoughts=kept if calls and not self.is_full else "",
            is_bounded=self.is_full,
            is_thought=is_thought and bool(text),
        )


class _PartialCall:
    """A tool call that is still coming in."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments = StringIO()
        self.signature: Mapping[str, Any] | None = None
        self.is_cut = False

    def add_name(self, piece: str) -> None:
        """Add a piece of the name: some send it in pieces, some send it again with each part."""
        if not self.arguments.tell() and not self.name.endswith(piece):
            self.name = (self.name + piece)[:LONGEST_NAME]

    @property
    def is_complete(self) -> bool:
        """Whether the arguments are a whole object; very long ones are not looked at again with
        each part."""
        if self.arguments.tell() > _LONGEST_CHECKED:
            return False
        text = self.arguments.getvalue()
        return text.rstrip().endswith("}") and strict_object(text) == text

    def to_call(self) -> ToolCall:
        arguments = repair(join_halves(self.arguments.getvalue()))
        own_id = join_halves(self.id) or f"call_{uuid4().hex[:16]}"
        return ToolCall(own_id, join_halves(self.name), arguments)


def _hashable(index: object) -> object:
    """What stands in the place of an index, as something that it can be looked up by."""
    return index if isinstance(index, int | str) else repr(index)[:LONGEST_NAME]


def join_halves(text: str) -> str:
    """The text with surrogates joined that came apart, as escapes in two chunks; half a character
    that is left over becomes U+FFFD, since it can be neither stored nor sent."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _read_parts(content: object) -> tuple[str, str]:
    """Return the text and the thoughts of a content, which is a text, or a list of parts (Mistral's
    thinking models: litellm#16272)."""
    if isinstance(content, str):
        return content, ""
    text: list[str] = []
    thoughts: list[str] = []
    for part in map(as_mapping, _list(content)):
        if "thinking" in part:
            inner = part["thinking"]
            pieces = [inner] if isinstance(inner, str) else map(_text_of, _list(inner))
            thoughts.extend(piece for piece in pieces if isinstance(piece, str))
        else:
            text.append(_text_of(part))
    return "".join(text), "".join(thoughts)


def _text_of(part: object) -> str:
    return get_string(as_mapping(part), "text")


def _usage(fields: Mapping[str, Any], before: Usage | None) -> Usage | None:
    """Return what was used. A report never takes back what one before it said: zeros in a last
    chunk are none. What xAI and Gemini leave out of `completion_tokens`, which are thoughts, is in
    the total (sub2api#5771, vercel/ai#6082)."""
    if not fields:
        return before
    details = as_mapping(fields.get("prompt_tokens_details"))
    said = as_mapping(fields.get("completion_tokens_details"))
    prompt = count(fields, "prompt_tokens") or count(fields, "input_tokens")
    completion = count(fields, "completion_tokens") or count(fields, "output_tokens")
    cached = count(details, "cached_tokens") or count(fields, "prompt_cache_hit_tokens")
    cached = cached or count(fields, "cached_tokens")  # Moonshot
    read = Usage(
        prompt=prompt,
        completion=with_thoughts(completion, prompt, cached, count(fields, "total_tokens")),
        cached=cached,
        written=count(details, "cache_write_tokens"),
        reasoning=count(said, "reasoning_tokens"),
    )
    if before is None:
        return read
    return Usage(*(max(pair) for pair in zip(astuple(before), astuple(read), strict=True)))


def with_thoughts(completion: int, prompt: int, cached: int, total: int) -> int:
    """Return the tokens of an answer with those thoughts that are in the total alone. Where what is
    cached is counted besides the prompt, it is in the total, too, and is none of them."""
    rest = total - prompt
    if not prompt or rest - cached == completion:
        return completion
    return max(completion, rest)


def as_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def get_string(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def count(fields: Mapping[str, Any], key: str) -> int:
    """Return a number of tokens, which some write as a float or as text; what can't be one (-1,
    true, 10**40) counts as not reported."""
    value = fields.get(key)
    if isinstance(value, str) and len(value) < 12 and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) <= _MOST_TOKENS:
        value = int(value)
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else 0
