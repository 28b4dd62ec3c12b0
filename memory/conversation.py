"""The entry to this layer: a conversation, composed of its parts.

| part | its job |
|---|---|
| `context` | the context: turns, boundaries, preface, log; the resulting view |
| `calibration` | the correction of the meter |
| `compactor` | removal of turns from the view; summaries; its `forecaster` predicts both |
| `corrections` | values that a person ended |
| `editor` | a person's changes of the view |
| `summary` | the summary of the removed turns, as a person sees and changes it |
| `turns` | the running turns |

A conversation is used from the event loop only, and one turn at a time (ensured by `bot/turns`).
Everything else (`/context`, `/context clear`, …) may happen at any moment, also during a turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from memory.audience_memory import AudienceMemory, Indexer, Quarantine
from memory.calibration import Anchor, Calibration, CutPrompts, KnownModels
from memory.compactor import Compactor
from memory.context.layout import NO_REMOVED_TURNS, RemovedTurns
from memory.context.settings import Limits
from memory.context_editor import ContextEditor
from memory.context_state import ContextState
from memory.conversation_corrections import ConversationCorrections
from memory.corrections.edited import find_replaced
from memory.keys import ConversationKey
from memory.ledger import Bill
from memory.long_term.document import DeletedTurns
from memory.long_term.memory import AudienceState, LongTermMemory
from memory.record import (
    branches,
    conversations,
    daily,
    forget,
    offload,
    proposals,
    search,
    summaries,
    transcript,
)
from memory.record.conversations import Standing
from memory.record.forget import StoredCounts
from memory.record.search import SearchHits, Wanted
from memory.record.search.reach import Scope
from memory.services import MemoryServices, Mirror, Redactor
from memory.summary.writer import Prepared
from memory.summary_editor import EditedSummary, SummaryEditor
from memory.turn_log import TurnLog
from memory.turns import Entry, Turn

T = TypeVar("T")
log = logging.getLogger(__name__)

_READ_AT_ONCE = 1_000  # turns
_QUOTABLE = 500  # turns from which text may be quoted
_FEW = 5_000  # messages, which are counted quickly
EDITED = "edited summary"
"""The reason of a correction by the edit of a summary."""


class EvictedState(Struct, frozen=True):
    """The state of a conversation that was evicted from memory and is not on disk: the last count
    of the provider, the summary prepared for the next compaction, whether a session is active, and
    the prompts that a server has truncated."""

    anchor: Anchor | None
    prepared: Prepared | None
    is_in_session: bool
    cuts: CutPrompts


class SharedState(Struct, frozen=True):
    """The objects that all conversations of a store share. `on_release` is called with the
    conversation in which a summary was released from the quarantine; `long_term` is the state of
    each audience's `MEMORY.md`; `on_taken` is called with the conversation and its turns that were
    removed or brought back."""

    models: KnownModels
    mirror: Mirror
    indexer: Indexer
    on_release: Callable[[str], Awaitable[None]]
    long_term: Mapping[str, AudienceState]
    on_taken: Callable[[ConversationKey, Collection[int]], Awaitable[None]]


class Conversation:
    """A conversation, and all its stored data."""

    def __init__(self, services: MemoryServices, key: ConversationKey, shared: SharedState) -> None:
        self.key = key
        self._services, self._shared = services, shared
        self._writing_files = asyncio.Lock()
        self.calibration = Calibration(services.store, shared.models)
        self.context = ContextState(services, key, self.calibration)
        self.compactor = Compactor(services, self.context)
        self.summary = SummaryEditor(services, self.context, self.compactor)
        self.corrections = ConversationCorrections(
            *(services, shared.indexer.corrections, key),
            *(self.context, self.compactor, self.summary),
        )
        self.editor = ContextEditor(
            *(services, self.context, self.compactor), self._follow, self.corrections.mark_undone
        )
        self.turns = TurnLog(services, self.context, self.calibration, self.compactor, self)

    async def restore(self, is_restart: bool, evicted: EvictedState | None = None) -> None:
        """Load the stored state, as a restart restores it, and resume unfinished work."""
        await self._load()
        if evicted is not None:
            self.calibration.anchor, self.calibration.cuts = evicted.anchor, evicted.cuts
            self.turns.is_in_session = evicted.is_in_session
            self.compactor.summaries.written_ahead = evicted.prepared
        if is_restart and self.context.layout.removed_turns != NO_REMOVED_TURNS:
            await self._follow(self.context.layout.removed_turns)  # a crash may have come between
        if is_restart and not self._services.rules.restores_exactly():
            await self.compactor.restore_recent()

    async def _load(self) -> None:
        ledger = self._services.ledger

        def read(db: Any) -> tuple[Any, ...]:
            row = conversations.find_or_create(db, self.key)
            jobs = summaries.list_open_jobs(db, row.id)
            events, bill = transcript.events_of(db, row.id), ledger.bill(db, row.id)
            lineage = branches.lineage(db, row.id)
            shared, affinity = lineage[:-1], conversations.affinity_of(db, lineage[0].conversation)
            caches = any(ledger.bill(db, link.conversation).cached for link in shared)
            rows = {row.id, *branches.list_rows(db, self.key.home)}
            of_chat = sum((ledger.bill(db, one) for one in rows), Bill())
            stored = summaries.newest_reference(db, row.id), proposals.load(db, row.id)
            return affinity, row, events, bill, of_chat, caches, jobs, *stored

        found = await self._services.store.write(read)
        self.context.affinity, row, events, bill, of_chat, caches, *of_summaries = found
        self._services.chat_bills.load(self.key.home, of_chat)
        self.calibration.anchor = None
        await self.context.load(row, events, bill, caches=caches)
        self.compactor.load(*of_summaries)
        self.turns.fitter.load(row.fingerprint)

    async def handle_words(self, texts: Sequence[str]) -> None:
        await self.corrections.note(texts)

    def turn_ended(self) -> None:
        self._shared.indexer.turn_ended(self.context.row)
        self._shared.mirror.touch(self)

    # --- in memory -----------------------------------------------------------------------------

    @property
    def is_inactive(self) -> bool:
        """Return whether the conversation is inactive: without a running turn, a change, a summary
        in progress, and a strategy that waits for the next turn."""
        context, is_writing = self.context, self.compactor.summaries.is_busy
        is_busy = context.current or context.changing.locked() or is_writing
        return not is_busy and not context.waits_for_strategy

    @property
    def evicted(self) -> EvictedState:
        """The state of this conversation that must be kept besides the stored state."""
        prepared = self.compactor.summaries.written_ahead
        calibration, is_in_session = self.calibration, self.turns.is_in_session
        return EvictedState(calibration.anchor, prepared, is_in_session, calibration.cuts)

    # --- memory and search ---------------------------------------------------------------------

    @property
    def memory(self) -> AudienceMemory:
        """The memory of this conversation's audience."""
        context = self.context
        begin = context.whole[-1].entries[0].seq if context.current else 0
        running = (context.row, begin) if begin else (0, 0)
        scope = Scope(self.key.audience, running=running, here=context.row)
        return AudienceMemory(self._services, self._shared.indexer, scope)

    @property
    def long_term(self) -> LongTermMemory:
        """The long-term memory of its audience."""
        state = self._shared.long_term[self.key.audience]
        return LongTermMemory(self._services, self.key, state)

    @property
    def quarantine(self) -> Quarantine:
        """The quarantine: content that waits for the review of an owner, here and elsewhere."""
        return Quarantine(self._services, self._shared.on_release)

    async def search(self, words: Sequence[str], most: int) -> SearchHits:
        """Return the messages of the transcript with the most of these words, in context or not."""
        names, corrections = {self.context.row: self.key.id}, await self.corrections.for_search()
        return await self._services.store.read(
            lambda db: search.scan(db, names, words, most, corrections=corrections)
        )

    async def passages(self, wanted: Wanted) -> SearchHits:
        """Return passages of the turns before the running one, for the model, without turns that a
        person removed."""
        context, away = self.context, self.context.layout.removed_turns
        corrections = await self.corrections.for_search()
        return await self._services.store.read(
            lambda db: search.passages(db, context.row, wanted, context.current, away, corrections)
        )

    async def read_turns_of(self, name: str, spans: Sequence[tuple[int, int]]) -> list[Entry]:
        """Read the messages of people and the model in these turns of a conversation of this
        audience, as far as they are stored."""
        audience = self.key.audience

        def read(db: Any) -> list[Entry]:
            for one in search.index.conversations(db, audience):
                if one.name == name:
                    return transcript.entries_between(db, one.row, spans, _QUOTABLE)
            return []

        found = await self._services.store.read(read)
        return [entry for entry in found if entry.message.role in ("user", "assistant")]

    async def count(self) -> int:
        """Return the number of messages in the transcript, in context or not."""
        row, is_brief = self.context.row, self.context.last_seq <= _FEW
        return await self._services.store.read(
            lambda db: transcript.count_messages(db, row), is_brief=is_brief
        )

    async def bill_for(self, purpose: str) -> Bill:
        """Return the cost of the calls for a purpose in this conversation: "answer", "summary"."""
        return await self.context.read(self._services.ledger.bill, purpose=purpose)

    async def bills_by_turn(self, turns: Collection[int]) -> dict[int, dict[str, Bill]]:
        """Return the cost of these turns, each by model."""
        return await self.context.read(self._services.ledger.bills_by_turn, turns)

    async def prompts_by_turn(self) -> dict[int, int]:
        """Return the tokens of the largest prompt of each turn, in order of the turns."""
        return await self.context.read(self._services.ledger.prompts_by_turn)

    async def rename(self, title: str) -> None:
        """Set the title of this chat, in any of its branches; "" removes it."""
        await self._services.store.write(lambda db: conversations.rename(db, self.key.home, title))

    async def title(self) -> str:
        """Return the title of the chat; "" if it has none."""
        return await self._services.store.read(lambda db: conversations.title(db, self.key.home))

    async def place(self, standing: Standing) -> None:
        """Set the place of this chat in lists."""
        await self._services.store.write(
            lambda db: conversations.place(db, self.key.home, standing)
        )

    async def standing(self) -> Standing:
        """Return the place of this chat in lists."""
        return await self._services.store.read(lambda db: conversations.standing(db, self.key.home))

    # --- files ---------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """The folder of the files that are written for this conversation."""
        return self._services.session_folder(self.key)

    @property
    def limits(self) -> Limits:
        """The limits of the settings."""
        return self._services.rules.at(self.key).limits

    @property
    def redactor(self) -> Redactor:
        """The object that removes secrets from texts."""
        return self._services.redactor

    async def write_turns(self, write: Callable[[Path, Sequence[Turn]], T]) -> T:
        """Call `write` to write the turns into this conversation's folder, without those that a
        person removed, since the model's tools may read there. Raises OSError."""
        async with self._writing_files:
            turns: list[Turn] = []
            away = await self._removed_by_person(self.context.layout.removed_turns)
            for first in range(1, self.context.newest + 1, _READ_AT_ONCE):
                some = (n for n in range(first, first + _READ_AT_ONCE) if n not in away)
                turns += await self.context.turns([*some])
            return await asyncio.to_thread(write, self.folder, turns)

    async def _removed_by_person(self, own: RemovedTurns) -> frozenset[int]:
        """Return the turns that a person removed: here (`own`), or in a branch that shares them."""
        return await self.context.read(transcript.find_removed_anywhere, own)

    async def _follow(self, before: RemovedTurns) -> None:
        """Update the files that the model's tools may read, after a person removed turns, or
        brought back some that were removed `before`: the files have exactly the turns that the
        model may read. A file that can't be written is an error in the log; the turns are removed
        from the context nevertheless."""
        away = await self._removed_by_person(self.context.layout.removed_turns)
        was = await self._removed_by_person(before)
        await self._update_files(away, was - away)
        if away != was:
            await self.corrections.keep()
            await self._shared.on_taken(self.key, away ^ was)

    async def edit_summary(self, text: str, number: int, person: str) -> EditedSummary:
        """Replace a summary by a person's text (`SummaryEditor.edit`). A value that it replaces is
        corrected as by a command. Raises EditRefused."""
        edited = await self.summary.edit(text, number)
        values = await asyncio.to_thread(find_replaced, edited.before.text, edited.after.text)
        if values:
            event = edited.event.id if edited.event else 0
            await self.long_term.end({}, values, person, EDITED, event)
            self.compactor.summaries.forget_prepared()
        return edited

    async def follow_branch(self, turns: Collection[int]) -> None:
        """Update the files after shared turns were removed or brought back in another branch."""
        away = await self._removed_by_person(self.context.layout.removed_turns)
        await self._update_files(away, frozenset(turns) - away)

    async def _update_files(self, away: frozenset[int], back: frozenset[int]) -> None:
        """Remove turns from the files, and write others to them again."""
        try:
            await self._delete_from_files(away)
            await self._put_back(back)
            await self._shared.mirror.renew(self)
        except OSError:
            log.exception("the files of %s could not be written anew, and are deleted", self.key.id)
            with suppress(OSError):
                await asyncio.to_thread(forget.delete_folder, self.folder)

    async def _delete_from_files(self, away: frozenset[int]) -> None:
        row, is_running = self.context.row, bool(self.context.current)
        attached = await self._services.store.read(
            lambda db: forget.list_attached(db, self.key, row, away)
        )

        def goes(name: str) -> bool:
            # A running turn's results are in files before they are in the transcript.
            is_known = name in attached.gone or not is_running
            return name.startswith(offload.RESULT) and is_known and name not in attached.staying

        async with self._writing_files:
            await asyncio.to_thread(offload.remove_turns, self.folder, away, goes)
        if away:
            await self._notify_offloader(away, attached.references)

    async def _notify_offloader(
        self, turns: Collection[int] | None, references: Collection[str]
    ) -> bool:
        """Notify a plugin that stores removed turns of those that a person removed. False: it may
        still have some of them."""
        own = self._services.rules.plugin_offloader
        return own is None or await offload.forget_offloaded(own, self.key.id, turns, references)

    async def _put_back(self, turns: frozenset[int]) -> None:
        """Write turns that were brought back to the files again, if they were there before."""
        offloader = self._services.rules.offloader(self.key)
        if offloader is None or not turns:
            return
        entries = [e for turn in await self.context.turns([*turns]) for e in turn.entries]
        jobs = await self.context.read(summaries.jobs_of)
        left = {turn for job in jobs if job.is_done for turn in job.turns}
        if back := [entry for entry in entries if entry.turn in left]:
            await offload.attempt(lambda: offloader.offload_context(self.key.id, back))
        for message in (entry.message for entry in entries if entry.message.offloaded):
            file = self._services.audience_folder(self.key.audience) / message.offloaded
            is_elsewhere = file.parent != self.folder  # or in a branch's folder that shares it
            if is_elsewhere and await asyncio.to_thread(file.exists):
                continue
            if file.parent != self.folder:
                await offload.attempt(partial(offloader.offload_tool_result, self.key.id, message))
            elif not await asyncio.to_thread(file.exists):
                await asyncio.to_thread(offload.save_once, file, message.text.encode())

    # --- deletion ------------------------------------------------------------------------------

    async def count_stored(
        self, turns: Collection[int] | None = None, *, is_shared_too: bool = False
    ) -> StoredCounts:
        """Count the stored data of these turns (None: of all turns of this conversation, without
        shared ones unless `is_shared_too`)."""
        row, data = self.context.row, self._services.data
        counts = await self._services.store.read(
            lambda db: forget.count_stored(
                db, row, turns, is_shared_too=is_shared_too, features=self._services.feature_rows
            )
        )
        which = self._sections(counts, turns)
        sections = 0
        for place in (data, daily.quarantine(data)):
            sections += await asyncio.to_thread(daily.count, place, self.key.audience, which)
        lines = await self.long_term.count(self._forgotten(counts, turns))
        return replace(counts, sections=sections, lines=lines)

    def _sections(self, counts: StoredCounts, turns: Collection[int] | None) -> daily.SectionFilter:
        is_whole = turns is None and not counts.has_children
        return daily.SectionFilter(frozenset(counts.jobs), self.key.id if is_whole else "")

    def _forgotten(self, counts: StoredCounts, turns: Collection[int] | None) -> DeletedTurns:
        is_whole = turns is None and not counts.has_children
        return DeletedTurns(self.key.id, None if is_whole else counts.turns, frozenset(counts.jobs))

    async def forget(
        self, turns: Collection[int] | None = None, sharing: Sequence[Conversation] = ()
    ) -> StoredCounts:
        """Delete these turns (None: all of this conversation that it does not share) from all data
        of this layer; return the counts. Summaries made from them are deleted too, and their other
        turns are summarised again. `sharing` are the branches that share some of these turns. No
        turn may be running in any of them."""
        data, audience = self._services.data, self.key.audience
        async with AsyncExitStack() as stack:
            for one in (self, *sharing):
                await stack.enter_async_context(one.context.changing)
                await stack.enter_async_context(one.compactor.summaries.halted())
            events = {one.key: await one.context.history() for one in (self, *sharing)}
            try:
                deleted = await self.count_stored(turns)
                which = self._sections(deleted, turns)
                async with self.long_term.hold_while_forgetting(self._forgotten(deleted, turns)):
                    for place in (data, daily.quarantine(data)):
                        await asyncio.to_thread(daily.remove, place, audience, which)
                    is_left = not await self._delete(turns, deleted, sharing)
            finally:
                for one in (self, *sharing):
                    await one._load()
        for one in (self, *sharing):
            is_left |= not await one.corrections.keep()
            is_left |= not await one.corrections.forget(events[one.key], deleted, turns)
            one.context.notify()
            one._shared.mirror.touch(one)
        return replace(deleted, is_left=is_left)

    async def retire(self, is_awaited: Callable[[], bool] = lambda: False) -> bool:
        """Delete the transcript, after its content was written to the daily memory files, which
        stay. False: it was not, or a message waits for an answer by then (`is_awaited`), so nothing
        was deleted. No turn may be running."""
        read = self.context.read
        known = {event.id for event in await self.context.history()}
        shared = (await read(branches.lineage))[-1].after_turn
        recorded = await read(summaries.find_recorded_turns)
        await self.editor.clear(
            "new", recorded | {*range(1, shared + 1)}
        )  # those stay where they are
        await self.compactor.summaries.idle()
        await self._keep_excerpts(shared)
        if is_awaited():
            new = [event.id for event in await self.context.history() if event.id not in known]
            if new:
                await self.editor.undo(new[0])  # it continues unchanged
            return False
        async with self.context.changing:
            if await read(summaries.list_open_jobs):
                return False
            async with self.compactor.summaries.halted():
                await self.long_term.mark_removed_distilled()
                await self._delete(None, await self.count_stored(), is_told=True)
                await self._load()
        return True

    async def _keep_excerpts(self, shared: int) -> None:
        """Write the turns that the daily memory does not have to it, without those that a person
        removed, and without the shared turns, up to `shared`."""
        kept, away = await self.context.kept_turns(), self.context.layout.removed_turns
        there = {turn for turn in kept if turn > shared and not away.has(turn)}
        await self.compactor.summaries.keep_excerpts(there)
        await self.compactor.summaries.idle()

    async def _delete(
        self,
        turns: Collection[int] | None,
        deleted: StoredCounts,
        sharing: Sequence[Conversation] = (),
        *,
        is_told: bool = False,
    ) -> bool:
        """Delete turns from the files and the store; return False if a plugin's offloader may still
        have some of them."""
        row = self.context.row
        async with self._writing_files:
            is_whole = turns is None and not deleted.has_children
            is_deleted = await self._delete_files(None if is_whole else deleted.turns)
            for one in sharing:
                last = deleted.shared[one.context.row]
                mine = [turn for turn in deleted.turns if turn <= last]
                is_deleted &= await one._delete_files(mine)
            await self._services.store.write(
                lambda db: forget.delete(
                    db,
                    self.key,
                    row,
                    turns,
                    search.index.forget,
                    is_told=is_told,
                    features=self._services.feature_rows,
                )
            )
        return is_deleted

    async def _delete_files(self, turns: Collection[int] | None) -> bool:
        row = self.context.row
        attached = await self._services.store.read(
            lambda db: forget.list_attached(db, self.key, row, turns)
        )
        if turns is None:
            await asyncio.to_thread(forget.delete_folder, self.folder)
        else:
            await asyncio.to_thread(
                offload.remove_turns, self.folder, turns, lambda name: name not in attached.staying
            )
        folder = self._services.audience_folder(self.key.audience)
        await asyncio.to_thread(forget.delete_data, folder, attached.lone)
        return await self._notify_offloader(turns, attached.references)
