"""Offloading: content that is removed from the context is kept where the model's file tools find it
(AgentScope).

`Offloader` is the interface; any object of that shape is accepted. `LocalWorkspace` writes files:

    {workdir}/data/{sha256}.png                            pictures, sounds, other bytes, once each
    {workdir}/sessions/{session_id}/context.jsonl          removed messages, one a line
    {workdir}/sessions/{session_id}/tool_result-{id}.txt   whole outputs of truncated results
    {workdir}/skills/                                      not offloaded: the agent's skills
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO, Protocol, TypeVar

import orjson
from msgspec import Struct, field

from memory.keys import file_name
from memory.messages import Image, Message
from memory.record import folders
from memory.record.folders import sync_folder
from memory.turns import Entry

log = logging.getLogger(__name__)

T = TypeVar("T")

SESSIONS = "sessions"
CONTEXT = "context.jsonl"
RESULT = "tool_result-"
FLAG = b'"untrusted":true'
"""The mark of a line whose content came from outside."""
_LONGEST_REFERENCE = 500
PATIENCE = 30.0
"""Seconds that an offloader may take before the turn continues without it."""
_ONE_WRITER = threading.Lock()  # keeps concurrent writes of an audience's conversations apart


class Offloader(Protocol):
    """Keeps content that is removed from the context. A reference is shown to the model, so that it
    finds the content again: a path or an address, one line of at most 500 characters; "" for none.
    Each method may be called twice for the same content. Entries and tool results have the names of
    AgentScope's `Msg` (`id`, `role`, `name`, `content`, `model_dump_json()`) and `ToolResultBlock`
    (`id`, `name`, `output`) besides their own.

    Two members are optional. `offers: str` tells the model in the system prompt where all offloaded
    content is; without it, each reference to messages is shown with their summary. `async def
    forget(session_id, turns, references, **kwargs)` is called when a person deletes something: the
    content of these turns (None: of the whole session), and tool results by their references, must
    no longer be found. Content that is only out of context is offloaded again when it is restored.
    """

    async def offload_context(self, session_id: str, msgs: Sequence[Entry], **kwargs: Any) -> str:
        """Keep removed messages; return a reference to all content of this session."""
        ...

    async def offload_tool_result(
        self, session_id: str, tool_result: Message, **kwargs: Any
    ) -> str:
        """Keep the whole of a truncated tool result; return a reference to it."""
        ...


async def attempt(offload: Callable[[], Awaitable[str]]) -> str:
    """Return the reference; "" if it fails, which is logged and does not stop the turn."""
    try:
        reference = await _in_time(offload)
        is_line = isinstance(reference, str) and (reference.isprintable() or not reference)
        if not is_line or len(reference) > _LONGEST_REFERENCE or set("<>'") & set(reference):
            raise ValueError(f"{reference!r:.200} is no reference")
        return reference.strip()
    except Exception:
        log.exception("what left the context could not be offloaded; the transcript has it")
        return ""


async def forget_offloaded(
    offloader: Offloader, session_id: str, turns: Collection[int] | None, references: Iterable[str]
) -> bool:
    """Notify an offloader of deleted data. Return False if it may still have some of it."""
    forget = getattr(offloader, "forget", None)
    if forget is None:
        return False
    try:
        await _in_time(lambda: forget(session_id, turns, sorted(references)))
    except Exception:
        log.exception("an offloader could not forget what was taken away")
        return False
    return True


async def _in_time(work: Callable[[], Awaitable[T]]) -> T:
    """Return the result of a plugin's code within its time limit. Code that can't be cancelled is
    abandoned. Raises TimeoutError, and any error of the code."""

    async def run() -> T:
        try:
            return await work()
        except SystemExit as error:  # it would end the bot
            raise RuntimeError("it wanted to end the process") from error

    task = asyncio.create_task(run())
    done, _ = await asyncio.wait({task}, timeout=PATIENCE)
    if not done:
        task.cancel()
        raise TimeoutError(f"it took longer than {PATIENCE:g} s")
    if task.cancelled():
        raise RuntimeError("it cancelled itself")
    return task.result()


class LocalWorkspace:
    """An `Offloader` that writes files below `workdir`. References are relative to it, as the
    model's tools name files. A crash leaves no file half-written; a truncated last line is
    removed."""

    offers = (
        f"Turns that left are also in {SESSIONS}/*/{CONTEXT} of the workspace, one JSON line a "
        "message, for grep."
    )

    def __init__(self, workdir: str | Path) -> None:
        self.workdir = Path(workdir)

    async def initialize(self) -> None:
        """Create the folders. Raises OSError."""
        for folder in ("data", "sessions", "skills"):
            await asyncio.to_thread((self.workdir / folder).mkdir, parents=True, exist_ok=True)

    async def offload_context(self, session_id: str, msgs: Sequence[Entry], **kwargs: Any) -> str:
        """Append messages, each as a JSON line; a message that is there already is skipped.

        Raises OSError.
        """
        file = self._session(session_id) / CONTEXT
        await asyncio.to_thread(append, file, msgs)
        return self._reference(file)

    async def offload_tool_result(
        self, session_id: str, tool_result: Message, **kwargs: Any
    ) -> str:
        """Write the whole text to a file of its own. Raises OSError."""
        name = f"{RESULT}{file_name(tool_result.call_id)}.txt"
        content = tool_result.text.encode()
        file = await asyncio.to_thread(save_once, self._session(session_id) / name, content)
        return self._reference(file)

    async def keep(self, content: bytes, media_type: str) -> Image:
        """Store a picture, once, under its hash. Raises OSError."""
        image = Image(hashlib.sha256(content).hexdigest(), media_type)
        await asyncio.to_thread(save_once, self.workdir / image.file, content)
        return image

    async def keep_bytes(self, content: bytes, ending: str) -> str:
        """Store bytes that are neither a picture nor text, once, under their hash; return their
        path. Raises OSError."""
        wanted = data_file(self.workdir, content, ending)
        return self._reference(await asyncio.to_thread(save_once, wanted, content))

    async def keep_file(self, content: bytes, name: str) -> str:
        """Store a document in `files/` under its name; return its path. Raises OSError."""
        file = await asyncio.to_thread(save_once, self.workdir / "files" / name, content)
        return self._reference(file)

    def _session(self, session_id: str) -> Path:
        return self.workdir / SESSIONS / file_name(session_id)

    def _reference(self, file: Path) -> str:
        return file.relative_to(self.workdir).as_posix()


def data_file(workdir: Path, content: bytes, ending: str) -> Path:
    """Return the path of bytes by their hash, with the ending that they were first stored with."""
    folder, name = workdir / "data", hashlib.sha256(content).hexdigest()
    return min(folder.glob(f"{name}.*"), default=folder / f"{name}{ending}")


def save_once(wanted: Path, content: bytes) -> Path:
    """Write a file atomically, on disk when this returns, and return its path. The same content is
    written once; other content under the same name gets a number. Raises OSError."""
    with _ONE_WRITER:
        wanted.parent.mkdir(parents=True, exist_ok=True)
        place, is_there = _place(wanted, content)
        if not is_there:
            write_whole(place, content)
        return place


def is_saved(wanted: Path, content: bytes) -> bool:
    """Return whether `save_once` would write nothing. Raises OSError."""
    return _place(wanted, content)[1]


def _place(wanted: Path, content: bytes) -> tuple[Path, bool]:
    """Return the path of a content, and whether it is there already."""
    for file in _names(wanted):
        if not os.path.lexists(file):
            return file, False
        if _holds(file, content):
            return file, True
    raise AssertionError("names don't end")


def _names(wanted: Path) -> Iterator[Path]:
    yield wanted
    yield from (wanted.with_stem(f"{wanted.stem}-{number}") for number in count(2))


def _holds(file: Path, content: bytes) -> bool:
    is_regular = file.is_file() and not file.is_symlink()
    return is_regular and file.stat().st_size == len(content) and file.read_bytes() == content


def write_whole(file: Path, content: bytes, *, is_synced: bool = True) -> None:
    """Write a file atomically, readable by its owner only; on disk when this returns if
    `is_synced`. Raises OSError."""
    draft = file.with_name(f".{token_hex(8)}.draft")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
            if is_synced:
                _put(target, content)
            else:
                target.write(content)
        folders.check_may_write()
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    if is_synced:
        sync_folder(file.parent)


def _put(target: BinaryIO, content: bytes) -> None:
    target.write(content)
    target.flush()
    os.fsync(target.fileno())


class _Held(Struct):
    """The seqs in a `context.jsonl`, as of this size and time of its last change."""

    state: tuple[int, int] = (0, 0)
    seqs: list[range] = field(default_factory=list)

    def has(self, seq: int) -> bool:
        return any(seq in part for part in self.seqs)

    def add(self, seq: int) -> None:
        if self.seqs and self.seqs[-1].stop == seq:
            self.seqs[-1] = range(self.seqs[-1].start, seq + 1)
        else:
            self.seqs.append(range(seq, seq + 1))


_held: OrderedDict[Path, _Held] = OrderedDict()  # avoids reading the whole file for each append
_MOST_HELD = 200


def append(file: Path, entries: Iterable[Entry]) -> None:
    """Append the entries that a `context.jsonl` lacks; on disk when this returns. A last line that
    a crash truncated is removed first. Raises OSError."""
    with _ONE_WRITER:
        file.parent.mkdir(parents=True, exist_ok=True)
        folders.check_may_write()
        with open(os.open(file, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as target:
            held = _held.pop(file, None)
            if held is None or held.state != _state(target):
                held = _read_whole(target)
            new = [entry for entry in entries if not held.has(entry.seq)]
            target.seek(0, os.SEEK_END)
            _put(target, b"".join(map(_line, new)))
            for entry in new:
                held.add(entry.seq)
            held.state = _state(target)
        sync_folder(file.parent)
        _held[file] = held
        if len(_held) > _MOST_HELD:
            _held.popitem(last=False)


def _state(file: BinaryIO) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def _read_whole(file: BinaryIO) -> _Held:
    """Read the seqs in the file; truncate an incomplete last line."""
    held, end = _Held(), 0
    for line in file:
        if line.endswith(b"\n"):
            end += len(line)
            seq = _read(line).get("seq")
            if isinstance(seq, int):
                held.add(seq)
    file.truncate(end)
    return held


def _line(entry: Entry) -> bytes:
    return orjson.dumps(entry.model_dump(), option=orjson.OPT_APPEND_NEWLINE)


def _read(line: bytes) -> dict[str, Any]:
    """Return the fields of a line; {} for a line that a person wrote."""
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return fields if isinstance(fields, dict) else {}


def remove_turns(session: Path, turns: Collection[int], goes: Callable[[str], bool]) -> None:
    """Remove turns from a session's folder: their lines, and each other file whose name `goes`
    accepts. Raises OSError."""
    removed = {f"t{number}" for number in turns}
    with _ONE_WRITER, suppress(FileNotFoundError):
        folders.check_may_write()
        for file in session.iterdir():
            if file.name != CONTEXT and goes(file.name):
                file.unlink()
        lines = (session / CONTEXT).read_bytes().splitlines(keepends=True)
        rest = [line for line in lines if _read(line).get("turn") not in removed]
        if rest != lines:
            write_whole(session / CONTEXT, b"".join(rest))
