"""The import of another program's data into the record, by the same ways as all other data.

Each conversation becomes a chat of its own, named by its origin: a repeated import finds the chat
and adds only new turns. Content for the prompt or the daily memory waits for approval, unless all
of it is the person's own.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from datetime import time as day_time
from pathlib import Path

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from agent.pictures import find_picture_type
from agent.tools.allowance import find_why_full
from bot.app import App
from bot.attachments import AttachmentRefused, store
from bot.paragraphs import count
from bot.received import clean_name, key_of
from channels.message import Address, Attachment, clean_text
from memory.keys import ConversationKey
from memory.long_term.document import LineOperation, MemoryLine, Source, fact, facts
from memory.long_term.memory import LongTermMemory
from memory.messages import Image
from memory.record import daily, memory_file
from memory.record.daily import Note, Section
from memory.record.database import Database
from memory.tasks import SILENT, TaskProgress
from plugins.api import CommandError, Person
from plugins.moving.record import Exchange, exchanges_of
from plugins.moving.source import ForeignChat, ForeignSetting, ImportedProfile, UnreadableChat
from plugins.moving.turns import ImportedMessage, as_turns
from plugins.moving.workspace import ForeignSource, create_jobs

MOST_LINES = 1_000
"""The maximum number of lines imported into `MEMORY.md`."""
_LONGEST_LINE = 1_000  # maximum characters
_ITSELF = Person("main.py", "owner")
_TITLE = 100


class Destination(Struct, frozen=True):
    """The destination of conversations: the chats of a channel, and of one person if the channel
    has several."""

    channel: str
    user: str = ""

    def address(self, chat: str) -> Address:
        """Return the address of a chat there."""
        return Address(self.channel, f"{self.user}/{chat}" if self.user else chat, user=self.user)


class ImportResult(Struct):
    """The result of an import, or of its rehearsal. Conversations are new, grown, unchanged
    (`known`), or have continued differently here than there (`apart`). `unreadable` has the reasons
    for unreadable ones. `days` and `memory` are counts; `carried` counts rows of features, by their
    noun and the command that lists them."""

    new: int = 0
    grown: int = 0
    known: int = 0
    apart: int = 0
    empty: int = 0
    turns: int = 0
    messages: int = 0
    pictures: int = 0
    lacking: int = 0
    unreadable: list[str] = field(default_factory=list)
    memory: int = 0
    days: int = 0
    schedules: int = 0
    carried: dict[tuple[str, str], int] = field(default_factory=dict)
    settings: list[str] = field(default_factory=list)
    first: datetime | None = None
    last: datetime | None = None

    @property
    def was_read(self) -> bool:
        """Return whether there was any readable conversation."""
        return any((self.new, self.grown, self.known, self.apart, self.empty))

    def count(self, turns: int, times: Sequence[datetime]) -> None:
        """Count imported turns, with messages at these times."""
        if times:
            self.turns += turns
            self.messages += len(times)
            self.first = min([*times, *filter(None, [self.first])])
            self.last = max([*times, *filter(None, [self.last])])


def new_part(stored: Sequence[Exchange], found: Sequence[Exchange]) -> int | None:
    """Return the index of the first new turn among those found; their number if none is new, and
    None if the conversation has continued differently. A stored question without an answer is
    imported again with its answer. An older export, in which it still has none, adds nothing."""
    here = at = 0
    while here < len(stored) and at < len(found):
        (question, answer), (asked, answered) = stored[here], found[at]
        if question != asked:
            return None
        if answer == answered:
            at += 1
        elif not answered and at == len(found) - 1:
            return len(found)
        elif answer:
            return None
        here += 1
    return at if here == len(stored) else len(found)


class Importer:
    """The import of one source. `app` is None if there is no bot yet and nothing is written
    (`is_rehearsal`). Raises StoreError and MovingError."""

    def __init__(
        self,
        app: App | None,
        source: ForeignSource,
        destination: Destination,
        *,
        is_own: bool,
        is_rehearsal: bool,
        progress: TaskProgress = SILENT,
    ) -> None:
        self._app, self._source, self._destination = app, source, destination
        self._is_own, self._is_rehearsal, self._progress = is_own, is_rehearsal, progress
        self.prompts: dict[str, str] = {}
        self._slug = "".join(filter(str.isalnum, source.name.lower()))
        self.result = ImportResult()
        self._planned = Counter[Path]()

    async def import_chats(self) -> None:
        """Import the conversations."""
        total, done = await asyncio.to_thread(self._source.count), 0
        chats = iter(self._source.chats())
        while (chat := await asyncio.to_thread(next, chats, None)) is not None:
            if isinstance(chat, UnreadableChat):
                self.result.unreadable.append(str(chat))
            else:
                await self._import_chat(chat)
            done += 1
            self._progress.show_progress(done, total)

    async def _import_chat(self, chat: ForeignChat) -> None:
        now = datetime.now(UTC)
        turns = as_turns(chat.messages, now, is_own=self._is_own, begun=chat.at)
        if not turns:
            self.result.empty += 1
            return
        key = self.key_of(chat)
        stored = await self._stored(key)
        if prompt := clean_text(chat.prompt).strip():
            self.prompts[key.id] = prompt
        first = new_part(stored, [(turn[0].message.text, turn[-1].message.text) for turn in turns])
        if first is None:
            self.result.apart += 1
        elif first == len(turns):
            self.result.known += 1
        else:
            self.result.grown += bool(first)
            self.result.new += not first
            new = turns[first:]
            self.result.count(len(new), [message.at for turn in new for message in turn])
            if self._app is not None and not self._is_rehearsal:
                await self._write(self._app, key, chat, new)
            else:
                for message in (message for turn in new for message in turn):
                    await self._with_pictures(key, message)

    def key_of(self, chat: ForeignChat) -> ConversationKey:
        """Return the key of the conversation that a source's chat becomes."""
        digest = hashlib.sha256(f"{self._slug}\0{chat.identity}".encode("utf-8", "replace"))
        return key_of(self._destination.address(f"{self._slug}-{digest.hexdigest()[:12]}"))

    async def _stored(self, key: ConversationKey) -> list[Exchange]:
        if self._app is None:
            return []
        return await self._app.store.read(lambda db: exchanges_of(db, key.id))

    async def _write(
        self, app: App, key: ConversationKey, chat: ForeignChat, turns: list[list[ImportedMessage]]
    ) -> None:
        conversation = await app.conversations.get(key, is_restart=False)
        if (title := clean_name(chat.title)[:_TITLE]) and not await conversation.title():
            await conversation.rename(title)
        if chat.standing:
            await conversation.place(chat.standing)
        stored = [[await self._with_pictures(key, one) for one in turn] for turn in turns]
        times = [one.at for turn in stored for one in turn]
        await conversation.turns.append([[one.message for one in turn] for turn in stored], times)
        await app.conversations.evict(lambda name: name == key.id)

    async def _with_pictures(
        self, key: ConversationKey, message: ImportedMessage
    ) -> ImportedMessage:
        """Return the message with its available pictures, stored on disk unless this is a
        rehearsal."""
        images = []
        for name in message.pictures:
            content = await asyncio.to_thread(self._source.picture, name)
            image = await self._keep(key, content) if content else None
            if image is None:
                self.result.lacking += 1
                continue
            images.append(image)
            self.result.pictures += 1
        return replace(message, message=replace(message.message, images=tuple(images)))

    async def _keep(self, key: ConversationKey, content: bytes) -> Image | None:
        """Return the picture with this content; None if it is not a picture, or there is no
        room."""
        if not (kind := find_picture_type(content)):
            return None
        image = Image(hashlib.sha256(content).hexdigest(), kind)
        if self._app is None:
            return image
        folder = self._app.config.folder(key)
        quota = self._app.config.book.effective(key.id).tools.files_quota
        if self._is_rehearsal:
            is_there = (folder / image.file).exists()
            return image if is_there or self.has_room(folder, quota, len(content)) else None
        try:
            await store(folder, [Attachment("", kind, content)], quota)
        except AttachmentRefused:
            return None
        return image

    def has_room(self, folder: Path, quota: int, size: int) -> bool:
        """Return whether this many more bytes may be stored there. A rehearsal writes nothing, so
        it counts the bytes that it would have written."""
        planned = self._planned[folder] + size
        if find_why_full(folder, quota, planned):
            return False
        if self._is_rehearsal:
            self._planned[folder] = planned
        return True

    def note_skipped(self, remark: str) -> None:
        """Add a remark about something that is not imported to the report."""
        self._source.skipped.remarks.append(remark)

    # --- memory ---------------------------------------------------------------------------------

    async def import_memory(self, own: ImportedProfile) -> None:
        """Import the memory, into the chat `main`."""
        lines = [clean_text(line).strip()[:_LONGEST_LINE] for line in own.memory]
        lines = [line.removeprefix("- ").removeprefix("* ").strip() for line in lines]
        wanted = [one for one in dict.fromkeys(lines) if MemoryLine(f"- {one}").spoken]
        beyond = "of memory beyond the first thousand"
        self._source.skipped.add_some(max(0, len(wanted) - MOST_LINES), "line", beyond)
        if self._app is None:
            self.result.memory, self.result.days = len(wanted[:MOST_LINES]), len(own.days)
            return
        key = key_of(self._destination.address("main"))
        if wanted or own.days:
            self.result.memory = await self.propose(self._app, key, wanted[:MOST_LINES])
            notes = [Note(day, text) for day, text in sorted(own.days.items())]
            self.result.days = await asyncio.to_thread(
                self.keep_sections, self._app, key.audience, notes
            )

    async def propose(
        self, app: App, key: ConversationKey, lines: Sequence[str], important: Collection[str] = ()
    ) -> int:
        """Propose lines for the file, some of them as `important`; return the number of new ones.
        Lines that were in it before, or were proposed before, are skipped."""
        known = await app.store.read(lambda db: _find_known(db, key.audience))
        now = datetime.now(app.config.zone())
        source = Source("file", f"{now:%Y-%m-%d}", f"{now:%H:%M}")
        found = [(MemoryLine(f"- {line}"), line in important) for line in lines]
        made = [(fact(one.text, one.said or source.day, source), first) for one, first in found]
        new = [one for one in made if one[0].spoken and one[0].spoken not in known]
        if new and not self._is_rehearsal:
            state = app.conversations.long_term[key.audience]
            memory = LongTermMemory(app.conversations.services, key, state)
            by = f"import from {self._source.name}"  # the heading of the proposal, and its reason
            is_alone = (await memory.read()).proposal is None
            async with state.changing:
                adding = [
                    LineOperation("add", line, why=by, is_important=is_important)
                    for line, is_important in reversed(new)
                ]
                await memory.propose(adding, (), by, "imported")
            if self._is_own and is_alone:
                await memory.approve("")
        return len(new)

    def keep_sections(self, app: App, audience: str, notes: Sequence[Note]) -> int:
        """Import parts of daily files that are not there yet; return their number. Parts that are
        not the person's own wait in the quarantine."""
        data = app.config.data
        waiting, count = daily.quarantine(data), 0
        for note in notes:
            section = self._section(audience, note)
            end = f"<!-- end {section.job} -->"
            there = [daily.read(place, audience, note.day) for place in (data, waiting)]
            if any(end in text or section.text in text for text in there):
                continue
            count += 1
            if self._is_rehearsal:
                continue
            if self._is_own and not note.conversation:
                daily.append_note(data, audience, note.day, section.text)
            else:
                daily.append(data if self._is_own else waiting, section)
        return count

    def _section(self, audience: str, note: Note) -> Section:
        """Return a part of a daily file as a section, with a deterministic job number. Its text is
        as in a file."""
        text = clean_text(note.text).strip().replace("<!--", "&lt;!--")
        parts = (self._slug, str(note.day), note.at, note.conversation, text)
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        at = day_time.fromisoformat(note.at) if note.at else day_time.min
        return Section(
            ConversationKey(note.conversation or f"import/{self._slug}", audience),
            datetime.combine(note.day, at),
            note.turns or f"from {self._source.name}",
            text,
            _FIRST_JOB + int(digest[:8], 16),
        )

    async def import_schedules(self, own: ImportedProfile) -> None:
        """Import scheduled tasks as paused jobs of the chat `main`."""
        address = self._destination.address("main")
        self.result.schedules = await create_jobs(
            self._app,
            address,
            key_of(address),
            own.schedules,
            self._source.skipped,
            is_rehearsal=self._is_rehearsal,
        )

    # --- settings ------------------------------------------------------------------------------

    async def import_settings(self, own: ImportedProfile) -> None:
        """Import the settings with a counterpart, like `/config`; report those that can't be
        set."""
        assert self._app is not None
        settings = self._app.bot.settings
        wanted = [(one, "") for one in own.settings]
        wanted += [
            (ForeignSetting("the system prompt of a chat", "system_prompt", prompt), key)
            for key, prompt in self.prompts.items()
        ]
        for one, scope in wanted:
            try:
                text = orjson.dumps(one.value).decode()
                if settings.describe(one.key, scope).value == one.value:
                    continue
                if not self._is_rehearsal:
                    await settings.set(one.key, text, scope, _ITSELF)
                if not scope:
                    self.result.settings.append(f"{one.key} = {text}")
            except (CommandError, TypeError) as error:
                self._source.skipped.remarks.append(f"{one.was} was not set: {error}")
        if self.prompts:
            self.result.settings.append(count_prompts(len(self.prompts)))


def count_prompts(number: int) -> str:
    """Return a text about the number of conversations with a system prompt of their own."""
    prompts = "own system prompt" if number == 1 else "own system prompts"
    return f"{prompts} of {count(number, 'conversation')}"


_FIRST_JOB = 1_000_000_000_000
"""Sections of daily files are identified by job numbers; imported ones use numbers above those of
real jobs."""


def _find_known(database: Database, audience: str) -> set[tuple[str, ...]]:
    """Return the lines that an audience's file ever had, and those ever proposed."""
    versions = memory_file.versions(database, audience)
    held = {line.spoken for one in versions for line in facts(one.lines)}
    return held | {op.line.spoken for one in versions for op in one.operations if op.line}
