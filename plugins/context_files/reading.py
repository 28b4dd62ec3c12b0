"""The files of a conversation (flo.monster) that are brought back: turns from JSON, with
every check."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Annotated, Literal, TypeVar

from msgspec.structs import replace
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from memory.context.lines import Line, lines_of
from memory.messages import Image, Mark, Message, Role, ToolCall
from memory.turns import Entry, Turn
from plugins.context_files.writing import SAME

MOST_BYTES = 16_000_000
MOST_MESSAGES = 20_000

Name = Annotated[str, Field(min_length=1, max_length=200)]
Summary = Annotated[str, Field(min_length=1, max_length=10_000)]


class Unreadable(ValueError):
    """A file that is not taken; the text is a sentence that names the place that is wrong."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _ExchangedCall(_Strict):
    id: Name
    name: Name
    arguments: str


class _Image(_Strict):
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    media_type: Name


class _Message(_Strict):
    turnId: Name  # the name that the format has (flo.monster)
    role: Role
    content: str = ""
    timestamp: str = ""
    tool_calls: tuple[_ExchangedCall, ...] = ()
    tool_call_id: str = ""
    tool: str = ""
    speaker: str = ""
    reasoning: str = ""
    is_error: bool = False
    is_untrusted: bool = False
    is_tainted: bool = False
    mark: Mark = ""
    terse: str = ""
    images: tuple[_Image, ...] = ()

    def as_message(self) -> Message:
        return Message(
            role=self.role,
            text=self.content,
            tool_calls=tuple(ToolCall(c.id, c.name, c.arguments) for c in self.tool_calls),
            call_id=self.tool_call_id,
            images=tuple(Image(image.sha256, image.media_type) for image in self.images),
            **{name: getattr(self, name) for name in SAME},
        )


class _LogLineRow(_Strict):
    timestamp: AwareDatetime
    turnId: Name
    role: Literal["assistant", "subagent"]
    summary: Summary


class _Head(_Strict):
    format: Literal["parley-context"]
    version: Literal[1]
    conversation: str = ""
    exported: str = ""


class _File(_Head):
    messages: tuple[_Message, ...] = Field(min_length=1, max_length=MOST_MESSAGES)


class _Log(_Head):
    entries: tuple[_LogLineRow, ...] = Field(max_length=MOST_MESSAGES)


_Kind = TypeVar("_Kind", _File, _Log)


def parse(whole: bytes, terse: bytes = b"") -> list[list[Message]]:
    """Return the turns in a `context.json`, each of which makes a valid part of a request, with the
    lines of a `context.terse.json` where there is one. Raises Unreadable."""
    file = _validate(_File, whole, "context.json")
    turns: dict[str, list[Message]] = {}
    for turn_id, messages in groupby(file.messages, key=lambda message: message.turnId):
        if turn_id in turns:
            raise Unreadable(f"Turn {turn_id!r} comes twice, with another turn in between.")
        turns[turn_id] = [message.as_message() for message in messages]
        if wrong := fault(turns[turn_id]):
            raise Unreadable(f"Turn {turn_id!r} {wrong}.")
    if terse:
        _take_lines(turns, _validate(_Log, terse, "context.terse.json").entries)
    return list(turns.values())


def _validate(kind: type[_Kind], content: bytes, name: str) -> _Kind:
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        raise Unreadable(_complaint(error, name)) from None


def _complaint(error: ValidationError, name: str) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in first["loc"])
    place = f"at {path.removeprefix('.')}: " if path else ""
    said = f"{place}{first['msg'][:1].lower()}{first['msg'][1:]}"
    return f"This is not a {name} saved by Parley ({said})."


def _take_lines(turns: dict[str, list[Message]], lines: Iterable[_LogLineRow]) -> None:
    """Put the lines into the messages of their turns."""
    by_turn: dict[str, list[_LogLineRow]] = {}
    for line in lines:
        by_turn.setdefault(line.turnId, []).append(line)
    if strangers := by_turn.keys() - turns.keys():
        raise Unreadable(
            f"Its context.terse.json speaks of turn {min(strangers)!r}, which it does not have."
        )
    for turn_id, mine in by_turn.items():
        turns[turn_id] = with_lines(turns[turn_id], [(line.role, line.summary) for line in mine])


def with_lines(messages: list[Message], lines: Sequence[tuple[str, str]]) -> list[Message]:
    """Return a turn's messages with these lines, as (role, text): the sub-agents' at the results
    that their tool returned, in order, the turn's own at its end. What a turn says by itself is not
    written into it."""
    if [(line.role, line.text) for line in _lines_of(messages)] == list(lines):
        return messages
    told = [replace(m, terse="") if m.role == "assistant" else m for m in messages]
    places = [n for n, message in enumerate(told) if _is_errand(message)]
    helpers = [text for role, text in lines if role == "subagent"]
    for place, text in zip(places, helpers, strict=False):
        told[place] = replace(told[place], terse=text)
    own = [text for role, text in lines if role == "assistant"][-1:]
    if own and own != [line.text for line in _lines_of(told)][-1:]:
        told[-1] = replace(told[-1], terse=own[0])
    return told


def _is_errand(message: Message) -> bool:
    is_result = message.role == "tool" and not message.is_error
    return is_result and bool(message.terse or message.tool == "delegate")


def _lines_of(messages: Sequence[Message]) -> tuple[Line, ...]:
    entries = (Entry(n, 1, m, 0, _NO_TIME) for n, m in enumerate(messages))
    return lines_of(Turn(1, tuple(entries)))


_NO_TIME = datetime.fromtimestamp(0, UTC)


def fault(messages: Sequence[Message]) -> str:
    """Return what keeps messages from being a whole turn, to follow its name; "" if nothing
    does."""
    first, *others, last = messages if len(messages) > 1 else (*messages, messages[0])
    if first.role != "user" or not first.text.strip():
        return "does not begin with the user's text"
    if not last.is_final or not (last.text.strip() or last.mark):
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
                return f"has the call {call.id!r} twice, or from somebody other than the assistant"
            known.add(call.id)
            open_calls.add(call.id)
    return ""
