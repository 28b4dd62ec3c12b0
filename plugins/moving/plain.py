"""The plain files of an export, as values: each message as a line of JSON, and a file about each
conversation. The format is made to last: it can be read by people and by programs without any of
our code."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import Annotated, Any, Literal
from urllib.parse import unquote

import orjson
from pydantic import AwareDatetime, FailFast, Field, ValidationError

from bot.received import key_of
from channels.message import Address
from memory.keys import BRANCH, home_of
from memory.messages import Image, Mark, Message, Role, ToolCall
from memory.record.conversations import Standing
from memory.setting_notes import StrictModel
from memory.turns import Entry
from plugins.moving.record import ArchivedConversation

ABOUT, MESSAGES, READABLE = "about.json", "messages.jsonl", "conversation.md"
CARRIED = "carried"
"""The module of a feature that exports data of a conversation. `FILE` is the name of its file next
to these, which `write(database, conversation)` creates and `bring` imports. `NOUN` is the name of
one of its rows for people, and `WHERE` the command that lists them."""
VERSION = 1
_NUMBER = Annotated[int, Field(ge=1, le=1 << 31)]
_NAME = Annotated[str, Field(max_length=500)]
_SHA256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_FILE = Annotated[str, Field(pattern=r"^data/[0-9a-f]{64}\.[A-Za-z0-9]{1,10}$")]
_ID = Annotated[
    str, Field(pattern=r"^[^/\x00]+/[^/\x00]+(/[^/\x00]+)?(//-?\d{1,9})?$", max_length=500)
]
_SAME = tuple(
    name for name in Message.__struct_fields__ if name not in ("tool_calls", "images", "files")
)
"""The fields that a line shares with `Message`."""


class NotPlain(Exception):
    """A file in another format; the text says what is wrong, after the file's name."""


class _PlainCall(StrictModel):
    id: _NAME
    name: _NAME
    arguments: str


class _PlainImage(StrictModel):
    sha256: _SHA256
    media_type: Annotated[str, Field(pattern=r"^[\w.+-]+/[\w.+-]+$", max_length=100)]


class _PlainMessage(StrictModel):
    seq: _NUMBER
    turn: _NUMBER
    at: AwareDatetime
    role: Role
    text: str = ""
    tool_calls: Annotated[tuple[_PlainCall, ...], FailFast()] = ()
    call_id: str = ""
    tool: str = ""
    speaker: str = ""
    reasoning: str = ""
    is_error: bool = False
    mark: Mark = ""
    kept: Annotated[int, Field(ge=0)] = 0
    offloaded: str = ""
    terse: str = ""
    images: Annotated[tuple[_PlainImage, ...], FailFast()] = ()
    files: Annotated[tuple[_FILE, ...], FailFast()] = ()
    is_untrusted: bool = False
    is_tainted: bool = False
    notice: str = ""
    thoughts: str = ""


class _PlainAbout(StrictModel):
    format: Literal["parley-conversation"]
    version: Literal[1]
    id: _ID
    title: _NAME = ""
    standing: Standing = ""
    branch_of: _NAME = ""
    after_turn: Annotated[int, Field(ge=0, le=1 << 31)] = 0
    after_seq: Annotated[int, Field(ge=0, le=1 << 31)] = 0


def write_message(entry: Entry) -> bytes:
    """Return the line of a message, without empty fields and without the place of its offloaded
    text, which the line contains in full."""
    message = entry.message
    told: dict[str, Any] = {
        "seq": entry.seq,
        "turn": entry.turn,
        "at": entry.at.astimezone(UTC).isoformat(),
        "role": message.role,
        "text": message.text,
    }
    told |= {
        name: getattr(message, name)
        for name in _SAME
        if getattr(message, name) and name not in (*told, "offloaded")
    }
    if message.tool_calls:
        told["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": call.arguments}
            for call in message.tool_calls
        ]
    if message.images:
        told["images"] = [
            {"sha256": image.sha256, "media_type": image.media_type} for image in message.images
        ]
    if message.files:
        told["files"] = list(message.files)
    return orjson.dumps(told, option=orjson.OPT_APPEND_NEWLINE)


def read_message(line: bytes) -> Entry:
    """Return the entry of a line; its tokens are not counted yet. Raises NotPlain."""
    try:
        told = _PlainMessage.model_validate_json(line)
    except ValidationError as error:
        raise NotPlain(_complaint(error)) from None
    message = Message(
        tool_calls=tuple(ToolCall(one.id, one.name, one.arguments) for one in told.tool_calls),
        images=tuple(Image(one.sha256, one.media_type) for one in told.images),
        files=told.files,
        **{name: getattr(told, name) for name in _SAME},
    )
    return Entry(told.seq, told.turn, message, 0, told.at.astimezone(UTC))


def write_about(one: ArchivedConversation) -> bytes:
    """Return the file about a conversation."""
    told: dict[str, Any] = {
        "format": "parley-conversation",
        "version": VERSION,
        "id": one.id,
        "title": one.title,
        "standing": one.standing,
    }
    if one.parent:
        told |= {
            "branch_of": one.parent,
            "after_turn": one.after_turn,
            "after_seq": one.after_seq,
        }
    return orjson.dumps(told, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def read_about(content: bytes) -> ArchivedConversation:
    """Return the conversation of such a file; its audience follows from its id. Raises NotPlain."""
    try:
        told = _PlainAbout.model_validate_json(content)
    except ValidationError as error:
        raise NotPlain(_complaint(error)) from None
    if told.branch_of and home_of(told.branch_of) != home_of(told.id):
        raise NotPlain("is about a branch of another chat")
    if told.id.count(BRANCH) and not told.branch_of:
        raise NotPlain("is about a branch, and does not say of what")
    return ArchivedConversation(
        told.id,
        audience_of(told.id),
        " ".join(told.title.split()),
        told.standing,
        told.branch_of,
        told.after_turn,
        told.after_seq,
    )


def audience_of(identity: str) -> str:
    """Return the audience of the conversation with this id."""
    channel, chat, *thread = home_of(identity).split("/")
    return key_of(Address(unquote(channel), unquote(chat), "".join(map(unquote, thread)))).audience


def _complaint(error: ValidationError) -> str:
    first: Mapping[str, Any] = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return "is damaged: something is missing, or was added"
    place = ".".join(map(str, first["loc"]))
    return f"says what no export says{f' (in {place})' if place else ''}"
