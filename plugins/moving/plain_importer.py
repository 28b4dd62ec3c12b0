"""`python main.py import parley PATH`: the import of an export, back to its place.

Conversations keep their ids, turns and numbers. The turns that a conversation has here already must
be identical in the export; only the turns after them are added.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path, PurePosixPath
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from bot.app import App
from channels.message import clean_text
from memory.keys import ConversationKey, find_fault_here, fold
from memory.long_term import ended
from memory.long_term.document import Lines, facts, is_important, lines_from_json, parse
from memory.long_term.memory import LongTermMemory
from memory.messages import Message
from memory.record import offload
from memory.record.daily import notes_in
from memory.tasks import SILENT, TaskProgress
from memory.turns import Entry
from plugins.features import find_modules
from plugins.moving import record
from plugins.moving.export import (
    ABOUT,
    CARRIED,
    KEPT,
    MESSAGES,
    SOURCES,
    UnsupportedFormat,
    read_about,
    read_message,
)
from plugins.moving.importer import Destination, Importer, ImportResult
from plugins.moving.reading import MOST_PICTURE, MOST_PIECE, MOST_TEXT
from plugins.moving.record import ArchivedConversation, in_order_of_descent
from plugins.moving.source import MovingError
from plugins.moving.workspace import ForeignSource

_AUDIENCE = re.compile(r"[a-z0-9_-]{1,100}")
_PICTURE = re.compile(r"([0-9a-f]{64})\.[A-Za-z0-9]{1,10}")
_PART = re.compile(r"[^\x00-\x1f\\]{1,200}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d\.md")
_MOST_ENTRIES = 2_000_000
_T = TypeVar("_T")


class _Folder(Struct):
    """The files of one chat in the export, except conversations, by their names."""

    memory: str = ""
    corrected: str = ""
    sources: str = ""
    days: dict[date, str] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.memory or self.corrected or self.days or self.data or self.files)


class PlainExport(ForeignSource):
    """The files of an export, which are no other program's chats."""

    name = "an export of Parley"
    levels = 64  # of folders: the files of a chat may be nested deeply

    def __init__(self, path: Path, skills: Path = Path()) -> None:
        super().__init__(path, skills)
        self.files = self._archive
        self._abouts = [one for one in self.files.names if PurePosixPath(one).name == ABOUT]
        if not self._abouts:
            raise MovingError(
                f"There is no {ABOUT} in {path}; name a folder that `python main.py export` made."
            )

    def count(self) -> int:
        return len(self._abouts)

    def conversations(self) -> tuple[list[tuple[ArchivedConversation, str]], list[str]]:
        """Return the conversations with their folders, each after its parent; and the reasons why
        others can't be read."""
        found: dict[str, tuple[ArchivedConversation, str]] = {}
        wrong = []
        for name in self._abouts:
            try:
                one = read_about(self.files.read(name, MOST_TEXT) or b"")
                if one.id in found:
                    raise UnsupportedFormat("is there twice")
                found[one.id] = (one, str(PurePosixPath(name).parent))
            except UnsupportedFormat as error:
                wrong.append(f"{name} {error}")
        ordered = in_order_of_descent([one for one, _ in found.values()])
        return [found[one.id] for one in ordered], wrong

    def entries(self, one: ArchivedConversation, folder: str) -> list[Entry]:
        """Return the messages of a conversation. Raises UnsupportedFormat, which names the wrong
        line."""
        name = f"{folder}/{MESSAGES}" if folder != "." else MESSAGES
        if not self.files.has(name):
            raise UnsupportedFormat(f"it has no {MESSAGES}")
        entries: list[Entry] = []
        with self.files.open(name) as file:
            number = size = 0
            while line := file.readline(MOST_PIECE + 1):
                number += 1
                size += len(line)
                if size > MOST_PIECE or len(entries) > _MOST_ENTRIES:
                    raise UnsupportedFormat("it is too long")
                if line.strip():
                    entries.append(_read_line(line, f"line {number:,} of {name}"))
        check(entries, one)
        return entries

    def folders(
        self, conversations: Sequence[tuple[ArchivedConversation, str]]
    ) -> dict[str, _Folder]:
        """Return all files except conversations, by the audience that they belong to."""
        audiences = {str(PurePosixPath(place).parent): one.audience for one, place in conversations}
        found: defaultdict[str, _Folder] = defaultdict(_Folder)
        for name in self.files.names:
            parts = PurePosixPath(name).parts
            kind = next((n for n, part in enumerate(parts) if part in KEPT), 0)
            top = "/".join(parts[:kind])
            audience = audiences.get(top) or (
                parts[kind - 1] if kind and _AUDIENCE.fullmatch(parts[kind - 1]) else ""
            )
            if not audience:
                continue
            if all(map(_is_plain, parts[kind:])):
                _classify(found[audience], parts[kind], parts[kind + 1 :], name)
            else:
                can_not = "too long, or can't be had here"
                self.skipped.add(
                    1, f"file whose name is {can_not}", f"files whose names are {can_not}"
                )
        return found


def _is_one_file(first: Path, second: Path) -> bool:
    """Return whether both names lead to the same file, as on a disk that ignores case."""
    with suppress(OSError):
        return first.samefile(second)
    return False


def _is_plain(part: str) -> bool:
    is_name = part not in ("..", ".") and _PART.fullmatch(part) is not None
    return is_name and not find_fault_here([part])


def _classify(folder: _Folder, kind: str, rest: tuple[str, ...], name: str) -> None:
    if kind == "files" and rest:
        folder.files["/".join(rest)] = name
    elif kind == "data" and len(rest) == 1 and _PICTURE.fullmatch(rest[0]):
        folder.data[rest[0]] = name
    elif kind == "memory" and rest == ("MEMORY.md",):
        folder.memory = name
    elif kind == "memory" and rest == (ended.NAME,):
        folder.corrected = name
    elif kind == "memory" and rest == (SOURCES,):
        folder.sources = name
    elif kind == "memory" and len(rest) == 1 and _DAY.fullmatch(rest[0]):
        try:
            folder.days[date.fromisoformat(rest[0].removesuffix(".md"))] = name
        except ValueError:
            return


def _read_line(line: bytes, place: str) -> Entry:
    try:
        return read_message(line)
    except UnsupportedFormat as error:
        raise UnsupportedFormat(f"{place} {error}") from None


def check(entries: Sequence[Entry], one: ArchivedConversation) -> None:
    """Raise UnsupportedFormat unless these can be a conversation's messages."""
    seq, turn, is_open = one.after_seq, one.after_turn, dict[str, int]()
    for entry in entries:
        message, place = entry.message, f"message {entry.seq}"
        if entry.seq <= seq or entry.turn < turn or (entry.turn == turn and seq == one.after_seq):
            raise UnsupportedFormat(f"{place} is out of order")
        if entry.turn != turn:
            is_open = {}
            if message.role != "user":
                raise UnsupportedFormat(f"t{entry.turn} does not begin with the person's words")
        if message.role == "tool" and not is_open.pop(message.call_id, 0):
            raise UnsupportedFormat(f"{place} is the result of no call")
        if message.tool_calls and message.role != "assistant":
            raise UnsupportedFormat(f"{place} has calls, and is not the model's")
        is_open |= {call.id: 1 for call in message.tool_calls}
        seq, turn = entry.seq, entry.turn


class PlainImporter:
    """The import of an export. `app` is None if there is no bot yet and nothing is written. Raises
    StoreError and MovingError."""

    def __init__(
        self,
        app: App | None,
        source: PlainExport,
        *,
        is_own: bool,
        is_rehearsal: bool,
        progress: TaskProgress = SILENT,
    ) -> None:
        self._app, self._source, self._progress = app, source, progress
        self._is_own, self._is_rehearsal = is_own, is_rehearsal
        self._memory = Importer(
            app, source, Destination("web"), is_own=is_own, is_rehearsal=is_rehearsal
        )

    @property
    def result(self) -> ImportResult:
        return self._memory.result

    async def import_all(self) -> bool:
        """Import the memory, files, and conversations; return whether any of it could be read."""
        found, wrong = await asyncio.to_thread(self._source.conversations)
        self.result.unreadable += wrong
        folders = self._source.folders(found)
        for audience, folder in folders.items():
            await self._import_folder(audience, folder)
        for number, (one, place) in enumerate(found, 1):
            try:
                entries = await asyncio.to_thread(self._source.entries, one, place)
            except UnsupportedFormat as error:
                self.result.unreadable.append(f"{one.id[:80]}: {error}")
                continue
            await self._import_one(one, entries)
            await self._import_carried(one, place)
            self._progress.show_progress(number, len(found))
        return self.result.was_read or any(map(bool, folders.values()))

    async def _import_one(self, one: ArchivedConversation, entries: Sequence[Entry]) -> None:
        marked = [replace(e, message=mark(e.message, is_own=self._is_own)) for e in entries]
        new = await self._store_conversation(one, marked)
        result = self.result
        if new is None:
            result.apart += 1
        elif not new and entries:
            result.known += 1
        else:
            result.grown += 0 < len(new) < len(entries)
            result.new += len(new) == len(entries)
            result.count(len({e.turn for e in new}), [e.at for e in new])

    async def _import_carried(self, one: ArchivedConversation, place: str) -> None:
        """Import the features' data about a conversation."""
        for module in find_modules(CARRIED):
            name = f"{place}/{module.FILE}" if place != "." else module.FILE
            if not self._source.files.has(name):
                continue
            content = await asyncio.to_thread(self._source.files.read, name, MOST_TEXT)
            services = self._app.features.services if self._app else {}
            how = {"is_own": self._is_own, "is_rehearsal": self._is_rehearsal}
            try:
                number = await module.import_entry(services, one.key, content or b"", **how)
            except ValueError as error:
                self.result.unreadable.append(f"{one.id[:80]}: {error}")
                continue
            if number:
                kind = (module.NOUN, module.WHERE)
                self.result.carried[kind] = self.result.carried.get(kind, 0) + number

    async def _store_conversation(
        self, one: ArchivedConversation, entries: list[Entry]
    ) -> list[Entry] | None:
        if self._app is None:
            return entries
        if self._is_rehearsal:
            return await self._app.store.read(lambda db: record.find_new(db, one, entries))
        meter = self._app.conversations.services.meter
        counted = [replace(e, tokens=await meter.message(e.message)) for e in entries]
        return await self._app.store.write(lambda db: record.import_entry(db, one, counted))

    # --- files ---------------------------------------------------------------------------------

    async def _import_folder(self, audience: str, folder: _Folder) -> None:
        key = ConversationKey("", audience)
        text = self._text(folder.memory)
        no_values: tuple[ended.Kept, int] = (), 0
        no_lines: Lines = ()
        values, left_out = self._decode(folder.corrected, ended.decode, no_values)
        sources = self._decode(folder.sources, lines_from_json, no_lines)
        self._source.skipped.add_some(left_out, "correction", "that can't be used")
        lines = parse(clean_text(text), sources)
        if values and self._app and self._is_own and not self._is_rehearsal:
            await asyncio.to_thread(ended.merge, self._app.config.data, audience, values)
        # Elsewhere the lines have other sources, and nobody else's corrections are applied.
        now = {old: new for old, new, _ in ended.lines_to_change(facts(lines), values)}
        lines = tuple(now.get(line, line) for line in lines)
        spoken = [line for line in facts(lines) if line.spoken]
        known = {line.raw.strip().removeprefix("- "): line for line in spoken}
        important = [name for name, line in known.items() if is_important(lines, line)]
        notes = [
            note
            for day, name in sorted(folder.days.items())
            for note in notes_in(day, self._text(name))
        ]
        if not self._is_own:
            notes = [replace(note, text=ended.show_note(note, values)) for note in notes]
        if self._app is None:
            self.result.memory += len(known)
            self.result.days += len(notes)
            await asyncio.to_thread(self._copy, audience, folder)
            return
        is_new = self._is_own and not self._is_rehearsal and bool(known)
        if is_new and await self._write_memory(self._app, key, text, sources):
            self.result.memory += len(known)
        else:
            self.result.memory += await self._memory.propose(self._app, key, [*known], important)
        self.result.days += await asyncio.to_thread(
            self._memory.keep_sections, self._app, audience, notes
        )
        await asyncio.to_thread(self._copy, audience, folder)

    def _decode(self, name: str, decode: Callable[[bytes], _T], nothing: _T) -> _T:
        """Return the content of a file; `nothing` if there is none, or if it is damaged, which is
        reported."""
        if not self._source.files.has(name):
            return nothing
        content = self._source.files.read(name, MOST_PIECE)
        try:
            if content is None:
                raise ValueError("it is too large")
            return decode(content)
        except ValueError as error:
            self._source.skipped.remarks.append(f"{name} was not imported: {error}.")
            return nothing

    def _text(self, name: str) -> str:
        """Return the text of a memory file; "" if there is none, or if it is unreadable, which is
        counted."""
        text = self._source.files.text(name) if name else ""
        if text is None:
            self._source.skipped.add_unread_file()
        return text or ""

    async def _write_memory(
        self, app: App, key: ConversationKey, text: str, sources: Lines
    ) -> bool:
        """Write the file unchanged if there is none yet; return False if there is one."""
        state = app.conversations.long_term[key.audience]
        memory = LongTermMemory(app.conversations.services, key, state)
        before = await memory.read()
        if before.version or before.proposal:
            return False
        await memory.edit(text, "main.py", known=sources)
        return True

    def _copy(self, audience: str, folder: _Folder) -> None:
        """Copy the files that don't exist yet, without replacing any. A rehearsal only counts
        them."""
        top = self._app.config.folder(ConversationKey("", audience)) if self._app else None
        for kind, names in (("data", folder.data), ("files", folder.files)):
            spelt = dict[str, str]()
            for rest, name in names.items():
                target = top / kind / rest if top else None
                other = spelt.setdefault(fold(rest), rest)
                if target and top and (target.exists() or _is_beyond_a_link(target, top)):
                    if other != rest and _is_one_file(top / kind / other, target):
                        what = "whose name is another's on this disk"
                        self._source.skipped.add_some(1, "file", what)
                    continue
                content = self._read_file(kind, name, PurePosixPath(rest).stem)
                if content is None or not self._has_room(top, len(content)):
                    if kind == "data":
                        self.result.lacking += 1
                    else:
                        self._source.skipped.add_some(1, "file", "beyond tools.files_quota")
                    continue
                if target and not self._is_rehearsal:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    offload.write_whole(target, content)
                self.result.pictures += kind == "data"

    def _read_file(self, kind: str, name: str, digest: str) -> bytes | None:
        """Return the content of a file; None if it is too large, or a picture with a different
        digest."""
        content = self._source.files.read(name, MOST_PICTURE if kind == "data" else MOST_PIECE)
        is_other = kind == "data" and content and _digest(content) != digest
        return None if is_other else content

    def _has_room(self, top: Path | None, size: int) -> bool:
        if self._app is None or top is None:
            return True
        quota = self._app.config.book.effective().tools.files_quota
        return self._memory.has_room(top, quota, size)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _is_beyond_a_link(target: Path, top: Path) -> bool:
    return any(one.is_symlink() for one in target.parents if one.is_relative_to(top))


def mark(message: Message, *, is_own: bool) -> Message:
    """Return a message as it is imported: without the place of its offloaded text, which does not
    exist here, and marked as text from outside unless it is the person's own."""
    if is_own:
        return replace(message, offloaded="")
    is_result = message.role == "tool"
    return replace(
        message,
        offloaded="",
        is_untrusted=message.is_untrusted or is_result,
        is_tainted=True,
    )
