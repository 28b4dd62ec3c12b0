"""`python main.py export FOLDER`: all messages as lines of JSON, and a file about each
conversation, which can be read without our program. They are written to a temporary folder, which
is renamed at the end, so that a partial export never has the target's name."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Annotated, Any, Literal
from urllib.parse import quote, unquote

import msgspec
import orjson
from msgspec import Struct
from pydantic import AwareDatetime, FailFast, Field, ValidationError

from bot.listing import title_of
from bot.received import key_of
from channels.message import Address
from memory.keys import BRANCH, file_name, home_of
from memory.long_term.memory import HELD
from memory.messages import Image, Mark, Message, Role, ToolCall
from memory.plain_text import paragraphs
from memory.record import daily, memory_file
from memory.record.conversations import Standing
from memory.record.store import Store
from memory.setting_notes import StrictModel
from memory.tasks import SILENT, TaskProgress
from memory.turns import Entry
from plugins.features import find_modules
from plugins.moving import record
from plugins.moving.record import ArchivedConversation
from plugins.moving.source import MovingError
from plugins.wording import clip, literal

ABOUT, MESSAGES, READABLE = "about.json", "messages.jsonl", "conversation.md"
CARRIED = "carried"
"""The module of a feature that exports data of a conversation. `FILE` is the name of its file next
to these, which `write(database, conversation)` creates and `import_entry` imports. `NOUN` is the
name of one of its rows for people, and `WHERE` the command that lists them."""
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


class UnsupportedFormat(Exception):
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
    data: dict[str, Any] = {
        "seq": entry.seq,
        "turn": entry.turn,
        "at": entry.at.astimezone(UTC).isoformat(),
        "role": message.role,
        "text": message.text,
    }
    data |= {
        name: getattr(message, name)
        for name in _SAME
        if getattr(message, name) and name not in (*data, "offloaded")
    }
    if message.tool_calls:
        data["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": call.arguments}
            for call in message.tool_calls
        ]
    if message.images:
        data["images"] = [
            {"sha256": image.sha256, "media_type": image.media_type} for image in message.images
        ]
    if message.files:
        data["files"] = list(message.files)
    return orjson.dumps(data, option=orjson.OPT_APPEND_NEWLINE)


def read_message(line: bytes) -> Entry:
    """Return the entry of a line; its tokens are not counted yet. Raises UnsupportedFormat."""
    try:
        data = _PlainMessage.model_validate_json(line)
    except ValidationError as error:
        raise UnsupportedFormat(_describe_damage(error)) from None
    message = Message(
        tool_calls=tuple(ToolCall(one.id, one.name, one.arguments) for one in data.tool_calls),
        images=tuple(Image(one.sha256, one.media_type) for one in data.images),
        files=data.files,
        **{name: getattr(data, name) for name in _SAME},
    )
    return Entry(data.seq, data.turn, message, 0, data.at.astimezone(UTC))


def write_about(one: ArchivedConversation) -> bytes:
    """Return the file about a conversation."""
    data: dict[str, Any] = {
        "format": "parley-conversation",
        "version": VERSION,
        "id": one.id,
        "title": one.title,
        "standing": one.standing,
    }
    if one.parent:
        data |= {
            "branch_of": one.parent,
            "after_turn": one.after_turn,
            "after_seq": one.after_seq,
        }
    return orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def read_about(content: bytes) -> ArchivedConversation:
    """Return the conversation of such a file; its audience follows from its id. Raises
    UnsupportedFormat."""
    try:
        data = _PlainAbout.model_validate_json(content)
    except ValidationError as error:
        raise UnsupportedFormat(_describe_damage(error)) from None
    if data.branch_of and home_of(data.branch_of) != home_of(data.id):
        raise UnsupportedFormat("is about a branch of another chat")
    if data.id.count(BRANCH) and not data.branch_of:
        raise UnsupportedFormat("is about a branch, and does not say of what")
    return ArchivedConversation(
        data.id,
        audience_of(data.id),
        " ".join(data.title.split()),
        data.standing,
        data.branch_of,
        data.after_turn,
        data.after_seq,
    )


def audience_of(identity: str) -> str:
    """Return the audience of the conversation with this id."""
    channel, chat, *thread = home_of(identity).split("/")
    return key_of(Address(unquote(channel), unquote(chat), "".join(map(unquote, thread)))).audience


def _describe_damage(error: ValidationError) -> str:
    first: Mapping[str, Any] = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return "is damaged: something is missing, or was added"
    place = ".".join(map(str, first["loc"]))
    return f"says what no export says{f' (in {place})' if place else ''}"


KEPT = ("memory", "files", "data")
"""The parts of an audience's folder that are exported."""
SOURCES = ".sources.json"
"""The file next to `MEMORY.md` that says where its lines are from, which decides what corrects
them."""
_AT_ONCE = 500
_LONGEST_NAME = 100  # maximum characters of a conversation's name in the index
_README = """# What was said with Parley

Written on {day}. Each folder here is one chat: a private one, or a group with all who are in it.

- `*/conversation.md` is to be read.
- `messages.jsonl` beside it has all of it, a line of JSON (UTF-8) a message: `turn` and `seq` count
  up, `at` is the time, `role` is who speaks (`user` the person, `assistant` the model, `tool` a
  result of a tool, `note` the bot to the model), `text` what was said. `tool_calls` are what the
  model asked tools for, which `call_id` of a result refers to; `images` are pictures, in the folder
  `data/` of the chat, by their SHA-256.
- `about.json` says what the conversation is called, and whether it is a branch of another one,
  whose beginning it shares.
- `rules.json` has the standing instructions (`/rules`) that were given in the conversation.
- `memory/` is what was remembered: `MEMORY.md` for good, and a file for each day. The model reads
  them with the corrections in `.corrected.json`; `.sources.json` says where each line is from.
- `files/` are the files of the chat.

What a person had taken away (`/undo`, `/context clear`) is not here, nor what waited to be
remembered when this was written (`/memory pending`, `/memory diff`). Nor are settings, people, jobs
and keys: `python main.py backup` saves those.

Parley takes it in again: `python main.py import parley FOLDER`.

## Conversations

"""


class ExportResult(Struct):
    """The size of an export. `left_out` counts messages that a person removed, `waiting` sections
    of the daily memory in the quarantine, `proposed` chats with a proposed change of
    `MEMORY.md`."""

    conversations: int = 0
    messages: int = 0
    left_out: int = 0
    files: int = 0
    waiting: int = 0
    proposed: int = 0


async def export(
    store: Store, data: Path, target: Path, progress: TaskProgress = SILENT
) -> ExportResult:
    """Write everything into the new folder `target`. Raises MovingError and StoreError."""
    work = await asyncio.to_thread(_prepare, data, target)
    try:
        done = await _write_all(store, data, work, progress)
        await asyncio.to_thread(work.rename, target)
    except OSError as error:
        place = error.filename or target
        raise MovingError(f"The export was not made: {place}: {error.strerror}.") from None
    finally:
        await asyncio.to_thread(shutil.rmtree, work, ignore_errors=True)
    return done


def _prepare(data: Path, target: Path) -> Path:
    """Return a temporary folder next to the target. Raises MovingError."""
    if target.exists():
        raise MovingError(f"{target} already exists; choose another name.")
    if target.resolve().is_relative_to(data.resolve()):
        raise MovingError(f"{target} is inside the data folder; choose a place outside it.")
    try:
        return Path(tempfile.mkdtemp(dir=target.absolute().parent, prefix=".parley-export-"))
    except OSError as error:
        raise MovingError(f"{target} can't be written ({error.strerror}).") from None


async def _write_all(store: Store, data: Path, work: Path, progress: TaskProgress) -> ExportResult:
    done = ExportResult()
    index: list[str] = []
    every = await store.read(record.list_all)
    for one in every:
        place = work / one.audience / file_name(one.id)
        place.mkdir(parents=True, exist_ok=True)
        (place / ABOUT).write_bytes(write_about(one))
        begun, called = await _write_conversation(store, one, place, done)
        link = quote((place / READABLE).relative_to(work).as_posix())
        index.append(f"- {begun} [{literal(clip(called, _LONGEST_NAME))}]({link})\n")
        progress.show_progress(done.conversations, len(every))
    for audience in sorted({one.audience for one in every} | _audiences(data)):
        for name in KEPT:
            source = data / "audiences" / audience / name
            done.files += await asyncio.to_thread(_copy, source, work / audience / name)
        held = await store.read(
            partial(memory_file.versions, audience=audience, states=HELD, most=1)
        )
        if held:
            place = work / audience / "memory"
            place.mkdir(parents=True, exist_ok=True)
            (place / SOURCES).write_bytes(msgspec.json.encode(held[0].lines))
    done.waiting = await asyncio.to_thread(_count_waiting, data)
    done.proposed = len(await store.read(memory_file.list_proposed))
    readme = _README.format(day=f"{datetime.now(UTC):%Y-%m-%d}")
    (work / "README.md").write_text(readme + "".join(sorted(index)), "utf-8")
    return done


def _count_waiting(data: Path) -> int:
    """Return the number of sections of the daily memory that wait for review."""
    place = daily.quarantine(data)
    names = daily.audiences(place)
    days = ((name, day) for name in names for day in daily.days(place, name))
    return sum(note.job > 0 for one in days for note in daily.notes(place, *one))


def _audiences(data: Path) -> set[str]:
    """Return the audiences that have anything to export."""
    found = (data / "audiences").glob("*/*")
    return {path.parent.name for path in found if path.name in KEPT and any(path.iterdir())}


async def _write_conversation(
    store: Store, one: ArchivedConversation, place: Path, done: ExportResult
) -> tuple[str, str]:
    """Write a conversation; return the date of its beginning, and its name."""
    begun = called = ""
    with (place / MESSAGES).open("xb") as lines, (place / READABLE).open("xb") as text:
        after = turn = 0
        while True:
            entries, after, left_out = await store.read(
                partial(record.read_entries, conversation=one.row, after=after, most=_AT_ONCE)
            )
            done.left_out += left_out
            if not called and (entries or not after):
                called = one.title or _call(entries) or one.id
                text.write(_head(one, called).encode())
            if not after:
                break
            turn = await asyncio.to_thread(_write_entries, entries, lines, text, turn)
            done.messages += len(entries)
            begun = begun or next((f"{e.at.astimezone(UTC):%Y-%m-%d}" for e in entries), "")
    for module in find_modules(CARRIED):
        carried = await store.read(partial(module.write, conversation=one.id))
        if carried:
            (place / module.FILE).write_bytes(carried)
    done.conversations += 1
    return begun, called


def _call(entries: Sequence[Entry]) -> str:
    """Return the name of a conversation without a title: its first words, as on the page."""
    return title_of(next((e.message.text for e in entries if e.message.role == "user"), ""))


def _head(one: ArchivedConversation, called: str) -> str:
    head = f"# {literal(called)}\n\n"
    if one.parent:
        head += f"It goes on from {one.parent} after t{one.after_turn}.\n\n"
    return head


def _write_entries(entries: Sequence[Entry], lines: IO[bytes], text: IO[bytes], turn: int) -> int:
    """Write the entries into both files; return the turn of the last one."""
    for entry in entries:
        lines.write(write_message(entry))
        if entry.turn != turn:
            turn = entry.turn
            head = f"## t{turn} · {entry.at.astimezone(UTC):%Y-%m-%d %H:%M} UTC\n\n"
            text.write(head.encode())
        for piece in (*paragraphs(entry.message), *_pictures(entry)):
            text.write(f"{piece}\n\n".encode())
    return turn


def _pictures(entry: Entry) -> Iterator[str]:
    for image in entry.message.images:
        yield f"![a picture](../{image.file})"


def _copy(source: Path, target: Path) -> int:
    """Copy the regular files below a folder, without links, and return their number."""
    count = 0
    for path in sorted(source.rglob("*")):
        is_plain = path.is_file() and not path.is_symlink()
        if is_plain and not any(parent.is_symlink() for parent in _between(path, source)):
            place = target / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # a draft that was deleted meanwhile
                shutil.copyfile(path, place)
                count += 1
    return count


def _between(path: Path, top: Path) -> Iterator[Path]:
    for parent in path.parents:
        yield parent
        if parent == top:
            return
