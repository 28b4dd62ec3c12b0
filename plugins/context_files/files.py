"""The files of a conversation (flo.monster), written and read.

`context.json` holds the whole history, a message an entry, tagged with its turn's id;
`context.terse.json` the activity log, an entry for each line. Turns come back from JSON with every
check.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import orjson
from msgspec import Struct
from msgspec.structs import replace
from pydantic import AwareDatetime, Field, ValidationError

from memory.context.terse import Line, lines_of
from memory.messages import Image, Mark, Message, Role, ToolCall
from memory.plain_text import literal, paragraphs
from memory.record import offload
from memory.services import READABLE, TERSE, WHOLE, Redactor, remove_files
from memory.setting_notes import StrictModel
from memory.turns import Entry, Turn

FORMAT = "parley-context"
VERSION = 1
SAME = ("tool", "speaker", "reasoning", "is_error", "is_untrusted", "is_tainted", "mark", "terse")
"""The fields that a message in the file shares with `Message`."""


class WrittenFiles(Struct, frozen=True):
    """The files that were written, and the numbers of turns and messages in them; no files if no
    turn is complete."""

    files: tuple[Path, ...]
    turns: int
    messages: int


def write(
    folder: Path,
    turns: Sequence[Turn],
    conversation: str,
    redactor: Redactor,
    title: str = "",
) -> WrittenFiles:
    """Write both files of the complete turns, and the one for people if a `title` is given or the
    file exists. `redactor` removes secrets. Each file is replaced atomically. Raises
    OSError."""
    turns = [turn for turn in turns if turn.is_complete]
    if not turns:
        remove_files(folder)  # their content was deleted
        return WrittenFiles((), 0, 0)
    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        WHOLE: serialize(redactor.hide_all(as_data(turns, conversation))),
        TERSE: serialize(redactor.hide_all(as_terse(turns, conversation))),
    }
    if title or (folder / READABLE).exists():
        hide = redactor.hide
        readable = hide(as_markdown(turns, hide(title or conversation))) + "\n"
        contents[READABLE] = readable.encode()
    for name, content in contents.items():
        offload.write_whole(folder / name, content)
    paths = tuple(folder / name for name in contents)
    return WrittenFiles(paths, len(turns), sum(len(turn.entries) for turn in turns))


def as_data(turns: Iterable[Turn], conversation: str) -> dict[str, Any]:
    """Return the content of `context.json`; default values are omitted from messages."""
    return {
        **_head(conversation),
        "messages": [_entry(turn, entry) for turn in turns for entry in turn.entries],
    }


def as_terse(turns: Iterable[Turn], conversation: str) -> dict[str, Any]:
    """Return the content of `context.terse.json`: the lines of each turn, with times in UTC."""
    entries = [
        {
            "timestamp": line.at.astimezone(UTC).isoformat(),
            "turnId": turn.id,
            "role": line.role,
            "summary": line.text,
        }
        for turn in turns
        for line in lines_of(turn)
    ]
    return {**_head(conversation), "entries": entries}


def as_markdown(turns: Iterable[Turn], title: str) -> str:
    """Return the conversation as text for people: the messages, and the tools that were used."""
    now = datetime.now(UTC)
    pieces = [f"# {literal(title)}", f"Exported from Parley on {now:%Y-%m-%d at %H:%M} UTC."]
    for turn in turns:
        pieces.append(f"## {turn.id} · {turn.entries[0].at.astimezone(UTC):%Y-%m-%d %H:%M} UTC")
        for entry in turn.entries:
            pieces += paragraphs(entry.message)
    return "\n\n".join(pieces)


def serialize(data: Mapping[str, Any]) -> bytes:
    """Return a file's content."""
    return orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _head(conversation: str) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat()
    return {"format": FORMAT, "version": VERSION, "conversation": conversation, "exported": now}


def _entry(turn: Turn, entry: Entry) -> dict[str, Any]:
    """Return the fields of a message, without empty ones."""
    message = entry.message
    fields = {
        "turnId": turn.id,
        "role": message.role,
        "content": message.text,
        "timestamp": entry.at.isoformat(),
        "tool_calls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments}
            for call in message.tool_calls
        ],
        "tool_call_id": message.call_id,
        **{name: getattr(message, name) for name in SAME},
        "images": [
            {"sha256": image.sha256, "media_type": image.media_type} for image in message.images
        ],
    }
    return {name: value for name, value in fields.items() if value}


MOST_BYTES = 16_000_000
MOST_MESSAGES = 20_000

Name = Annotated[str, Field(min_length=1, max_length=200)]
Summary = Annotated[str, Field(min_length=1, max_length=10_000)]


class Unreadable(ValueError):
    """A file that is refused; the text is a sentence that names the invalid place."""


class _ExchangedCall(StrictModel):
    id: Name
    name: Name
    arguments: str


class _Image(StrictModel):
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    media_type: Name


class _Message(StrictModel):
    turnId: Name  # the name in the format (flo.monster)
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


class _LogLineRow(StrictModel):
    timestamp: AwareDatetime
    turnId: Name
    role: Literal["assistant", "subagent"]
    summary: Summary


class _Head(StrictModel):
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
    """Return the turns in a `context.json`, each a valid part of a request, with the lines of a
    `context.terse.json`, if any. Raises Unreadable."""
    file = _validate(_File, whole, "context.json")
    turns: dict[str, list[Message]] = {}
    for turn_id, messages in groupby(file.messages, key=lambda message: message.turnId):
        if turn_id in turns:
            raise Unreadable(f"Turn {turn_id!r} comes twice, with another turn in between.")
        turns[turn_id] = [message.as_message() for message in messages]
        if wrong := fault(turns[turn_id]):
            raise Unreadable(f"Turn {turn_id!r} {wrong}.")
    if terse:
        _attach_lines(turns, _validate(_Log, terse, "context.terse.json").entries)
    return list(turns.values())


def _validate(kind: type[_Kind], content: bytes, name: str) -> _Kind:
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        raise Unreadable(_describe_failure(error, name)) from None


def _describe_failure(error: ValidationError, name: str) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in first["loc"])
    place = f"at {path.removeprefix('.')}: " if path else ""
    text = f"{place}{first['msg'][:1].lower()}{first['msg'][1:]}"
    return f"This is not a {name} saved by Parley ({text})."


def _attach_lines(turns: dict[str, list[Message]], lines: Iterable[_LogLineRow]) -> None:
    """Add the lines to the messages of their turns."""
    by_turn: dict[str, list[_LogLineRow]] = {}
    for line in lines:
        by_turn.setdefault(line.turnId, []).append(line)
    if strangers := by_turn.keys() - turns.keys():
        raise Unreadable(
            f"Its context.terse.json has a line for turn {min(strangers)!r}, which does not exist."
        )
    for turn_id, mine in by_turn.items():
        turns[turn_id] = with_lines(turns[turn_id], [(line.role, line.summary) for line in mine])


def with_lines(messages: list[Message], lines: Sequence[tuple[str, str]]) -> list[Message]:
    """Return a turn's messages with these lines, as (role, text): the sub-agents' lines at the
    results of their tool, in order, and the turn's own at its end. Lines that a turn generates by
    itself are not stored."""
    if [(line.role, line.text) for line in _lines_of(messages)] == list(lines):
        return messages
    plain = [replace(m, terse="") if m.role == "assistant" else m for m in messages]
    places = [n for n, message in enumerate(plain) if _is_user_visible_result(message)]
    helpers = [text for role, text in lines if role == "subagent"]
    for place, text in zip(places, helpers, strict=False):
        plain[place] = replace(plain[place], terse=text)
    own = [text for role, text in lines if role == "assistant"][-1:]
    if own and own != [line.text for line in _lines_of(plain)][-1:]:
        plain[-1] = replace(plain[-1], terse=own[0])
    return plain


def _is_user_visible_result(message: Message) -> bool:
    is_result = message.role == "tool" and not message.is_error
    return is_result and bool(message.terse or message.tool == "delegate")


def _lines_of(messages: Sequence[Message]) -> tuple[Line, ...]:
    entries = (Entry(n, 1, m, 0, _NO_TIME) for n, m in enumerate(messages))
    return lines_of(Turn(1, tuple(entries)))


_NO_TIME = datetime.fromtimestamp(0, UTC)


def fault(messages: Sequence[Message]) -> str:
    """Return the reason why messages are not a whole turn, to follow its name; "" if they are."""
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
    """Check that every call has one result, before the next reply, and every result answers a
    call."""
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
