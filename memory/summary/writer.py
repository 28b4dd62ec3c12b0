"""The writer of a conversation's summaries, in the background, and of their sections in the daily
memory file.

One at a time and in order, since each summary continues the one before. The work for removed turns
is a job on disk, so it is resumed after a crash too, and takes effect once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from memory.context import summary as words
from memory.context.continued import RequestBeginning, find_beginning
from memory.context.plan import SummarySpec
from memory.context_state import ContextState
from memory.corrections.ended_values import (
    EndedByPerson,
    choose_ended,
    occurs_once,
    show_corrected,
)
from memory.ledger import Spent
from memory.long_term import ended
from memory.record import daily, offload, summaries, transcript
from memory.record.daily import Note, Section
from memory.record.database import Database
from memory.record.offload import Offloader
from memory.record.search.corrected import FoundCorrection
from memory.record.summaries import Job, Summary
from memory.services import MemoryServices
from memory.summary.drafter import SummaryDrafter
from memory.summary.source import SummarySource
from memory.tasks import BackgroundTasks, cancel_and_wait, run_shielded
from memory.text.receipt import Receipt
from memory.turns import Entry, Turn, format_turns

log = logging.getLogger(__name__)


_EXCERPTS = 100  # turns in a section of excerpts


Prepared = tuple[SummarySpec, Summary]
"""A summary that was written ahead, and its specification."""
_Heard = tuple[FoundCorrection, ...] | None


class SummaryWriter:
    """The writer of a conversation's summaries. Turns that a person removed are in no summary and
    in no file. `written_ahead` is the summary prepared for a compaction, if there is one.
    `reference` is the newest reference to removed turns, unless the offloader names it in the
    prompt. `on_written` is called once the summary of a job exists."""

    def __init__(
        self,
        services: MemoryServices,
        state: ContextState,
        on_written: Callable[[Job, Summary], Awaitable[None]],
    ) -> None:
        self._services, self._state, self._key = services, state, state.key
        self._on_written = on_written
        self._drafter = SummaryDrafter(services, state.key, self._book)
        self._one_at_a_time = asyncio.Lock()
        self._tasks = BackgroundTasks()
        self._awaited: asyncio.Task[Summary] | None = None
        self._loads = self._corrections = 0
        self.load()

    def load(self, reference: str = "") -> None:
        """Begin with what is on disk of the conversation; nothing is under way."""
        self.reference = reference
        self._loads += 1
        self._unwritten: set[int] = set()  # jobs whose file could not be written
        self.written_ahead: Prepared | None = None
        self._preparing: SummarySpec | None = None

    # --- the existing summaries ------------------------------------------------------------

    async def summary_of(self, event: int) -> int:
        """Return the id of the summary of the turns that an event removed; 0 while there is
        none."""
        return await self._state.read(summaries.summary_of, event)

    def forget_prepared(self) -> None:
        """Discard the summary of the next compaction: a person has corrected a value that it may
        have."""
        self._corrections += 1
        self.written_ahead = self._preparing = None

    def find_prepared(self, spec: SummarySpec) -> Summary | None:
        """Return the summary that was written ahead, if its specification is the same."""
        if self.written_ahead is None or self.written_ahead[0] != spec:
            return None
        return self.written_ahead[1]

    def _find_prepared_for(self, job: Job, entries: Sequence[Entry]) -> Summary | None:
        """Return the same for a job, whose turns are removed, if the summary has read all of
        them."""
        if self.written_ahead is None or not entries:
            return None
        spec, _ = self.written_ahead
        if spec.until not in (0, max(entry.seq for entry in entries)):
            return None
        return self.find_prepared(replace(job.spec, until=spec.until, pinned=spec.pinned))

    async def at_once(self, spec: SummarySpec) -> Summary | None:
        """Return the summary for this specification if it was written ahead, or if it needs no
        model and continues an existing one. The model's next request can wait for it."""
        if (known := self.find_prepared(spec)) is not None or spec.style != "reminder":
            return known
        if spec.after and not await self.summary_of(spec.after):
            return None  # it is written later, in its order
        return await self._make(spec)

    @property
    def is_busy(self) -> bool:
        """Return whether a summary is running or waiting."""
        return bool(self._tasks) or self._one_at_a_time.locked()

    async def read(self, summary_id: int) -> Summary | None:
        """Return a summary by its id, as stored now: a person may have reviewed it."""
        return await self._services.store.read(lambda db: summaries.summary(db, summary_id))

    async def read_all(self) -> list[Summary]:
        """Return the summaries that are or were in the context, oldest first."""
        return await self._state.read(summaries.list_numbered)

    # --- the jobs --------------------------------------------------------------------------

    def prepare(self, spec: SummarySpec) -> None:
        """Write the summary of a near compaction ahead, unless that is done or running."""
        if self._preparing != spec and self.find_prepared(spec) is None:
            self._preparing = spec

            async def work() -> None:
                if self._preparing == spec:  # or another cut has become the next one meanwhile
                    await self._write_ahead(spec)

            self._start(work)

    def add(self, *jobs: Job) -> None:
        """Add jobs that are on disk: write their turns to the daily memory."""
        if self._unwritten:
            self._start(self._write_again)
        for job in jobs:
            self._start(partial(self._finish, job))

    async def keep_excerpts(self, numbers: Collection[int]) -> None:
        """Add jobs that write to the daily memory those of these turns that it does not have, since
        they are about to be deleted: the question and the final reply of each. Turns with text from
        outside get sections of their own."""
        rest = sorted(set(numbers) - await self._state.read(summaries.find_recorded_turns))
        for first in range(0, len(rest), _EXCERPTS):
            for part in _apart(await self._turns(rest[first : first + _EXCERPTS])):
                job, _ = await self._write_excerpt(part)
                self.add(job)

    async def _write_excerpt(self, turns: Sequence[Turn], event: int = 0) -> tuple[Job, Summary]:
        text = words.without_model("excerpt", turns, "")
        summary = Summary(
            tuple(turn.number for turn in turns),
            prior=0,
            focus="",
            text=text,
            section=text,
            tokens=self._services.meter.count(text),
            model="",
            is_untrusted=any(turn.has_outside for turn in turns),
        )
        return await self._state.write(summaries.insert_excerpt, summary, event)

    async def ahead(self, spec: SummarySpec) -> Summary | None:
        """Write the summary of a compaction that is due, and wait for it. None: it was cancelled
        (`halted`)."""
        self._preparing = spec  # one prepared for another compaction must not replace it
        loads = self._loads
        async with self._one_at_a_time:
            if self._loads != loads:  # its turns may be deleted
                return None
            self._awaited = asyncio.create_task(self._write_ahead(spec))
            try:
                await asyncio.wait({self._awaited})
            finally:
                await cancel_and_wait(self._awaited)
            return None if self._awaited.cancelled() else self._awaited.result()

    def write_for(self, spec: SummarySpec, then: Callable[[Summary], Awaitable[None]]) -> None:
        """Write the summary of a compaction that needs approval, then call `then` with it."""

        async def work() -> None:
            self._preparing = spec
            await then(await self._write_ahead(spec))

        self._start(work)

    def do_afterwards(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do this once the work that is running or waiting is done."""
        self._start(work)

    async def cancel(self) -> None:
        """Cancel all running and waiting work, on disk too (`/context clear`). Jobs that have their
        summary already go on."""
        self._tasks.cancel()
        await self._state.write(summaries.cancel)
        self._unwritten.clear()
        self.written_ahead = self._preparing = None
        self.add(*await self._state.read(summaries.list_open_jobs))

    async def idle(self) -> None:
        """Wait until all work is done."""
        await self._tasks.idle()

    async def close(self) -> None:
        """Stop; unfinished jobs are on disk, and are resumed at the next start."""
        await self._tasks.stop()

    @asynccontextmanager
    async def halted(self) -> AsyncIterator[None]:
        """Stop, and cancel a summary that a person waits for. Nothing is written until this is
        over, and no earlier work is resumed if there was a `load`. All messages of the conversation
        wait meanwhile, so no model is awaited."""
        await self.close()
        if self._awaited is not None:
            self._awaited.cancel()
        async with self._one_at_a_time:
            yield

    # --- the work --------------------------------------------------------------------------

    def _start(self, work: Callable[[], Awaitable[None]]) -> None:
        self._tasks.start(self._in_turn(work, self._loads), f"summaries {self._key.id}")

    async def _in_turn(self, work: Callable[[], Awaitable[None]], loads: int) -> None:
        async with self._one_at_a_time:
            if self._loads != loads:
                return
            try:
                await work()
            except Exception:
                log.exception(
                    "a summary for %s failed; it is tried again at the next start", self._key.id
                )

    async def _write_ahead(self, spec: SummarySpec) -> Summary:
        """Write the summary of a cut, unless that is done."""
        if (summary := self.find_prepared(spec)) is None:
            summary = await self._make(spec)
            self.written_ahead = (spec, summary)
        return summary

    async def _write_again(self) -> None:
        """Retry the jobs whose file could not be written: the disk may have space now. A summary
        that is on disk is not requested again."""
        open_jobs = await self._state.read(summaries.list_open_jobs)
        left, self._unwritten = self._unwritten, set()
        for job in open_jobs:
            if job.id in left:
                await self._finish(job)

    async def _finish(self, job: Job) -> None:
        try:
            await self._execute(job)
        except OSError as error:
            self._unwritten.add(job.id)
            log.error(
                "the daily memory of %s can't be written (%s); it is tried again when more turns "
                "leave the context, or at the next start",
                self._key.id,
                error,
            )

    async def _execute(self, job: Job) -> None:
        offloader, style = self._services.rules.offloader(self._key), job.spec.style
        if style == "excerpt" and job.event:  # another job of its event has stored it
            offloader = None
        own = self._state.layout.removed_turns

        def read(db: Database, row: int) -> tuple[list[Entry], frozenset[int], Summary | None]:
            entries = transcript.entries_of_turns(db, row, job.turns)
            made = summaries.summary(db, job.summary) if job.summary else None
            away = transcript.find_removed_anywhere(db, row, own) if offloader else frozenset()
            return entries, away, made

        entries, away, made = await self._state.read(read)
        turns = self._leave_out_removed(entries)
        if offloader is not None:
            there = [turn for turn in turns if turn.number not in away]
            await self._offload(job, offloader, [e for turn in there for e in turn.entries])
        if not job.summary:
            made = self._find_prepared_for(job, entries)
        summary, turns = await self._summary_for(job, made, turns)
        told = await self._publish_summary(job, summary, turns)
        if summary is not None and summary.model and summary.section:
            await self._drop_excerpts(summary.is_untrusted)
        if style not in words.OUT_OF_CONTEXT:
            for part in _apart([turn for turn in turns if turn.number not in told]):
                excerpt = await self._write_excerpt(part, job.event)
                await self._publish_summary(*excerpt, part)

    async def _publish_summary(
        self, job: Job, summary: Summary | None, turns: Sequence[Turn]
    ) -> frozenset[int]:
        """Write a summary to the daily memory and into the context, and finish its job. Return the
        turns that the daily memory has now, if that matters."""
        async with self._services.telling[self._key.audience]:  # or branches would write it twice
            if (
                summary is not None
                and summary.section
                and not await self._is_written(summary.turns)
            ):
                section = self._section(job, summary, turns)
                place = self._place(summary.is_untrusted)
                await run_shielded(asyncio.to_thread(self._append, place, section))
            if summary is not None and job.spec.style not in words.OUT_OF_CONTEXT:
                await self._on_written(job, summary)
            return await self._state.write(_finish_job, job)

    def _append(self, place: Path, section: Section) -> None:
        """Write a section, with the values in force."""
        values = ended.read(ended.path_of(self._services.data, self._key.audience))
        day, at = section.at.date(), f"{section.at:%H:%M}"
        note = Note(day, section.text, at, section.key.id, section.turns, section.job)
        daily.append(place, replace(section, text=ended.show_note(note, values)))

    async def _is_written(self, turns: Sequence[int]) -> bool:
        """Return whether another branch that shares these turns has written them to the daily
        memory."""
        return (await self._state.read(summaries.find_recorded_by_others)).issuperset(turns)

    def _place(self, is_untrusted: bool) -> Path:
        data = self._services.data
        return daily.quarantine(data) if is_untrusted else data

    async def _drop_excerpts(self, is_untrusted: bool) -> None:
        """Delete the excerpts of turns that were written in an emergency, once a summary covers all
        of these turns."""
        jobs = await self._state.read(summaries.list_superseded, is_untrusted)
        if not jobs:
            return
        which, place = daily.SectionFilter(frozenset(jobs)), self._place(is_untrusted)
        await run_shielded(asyncio.to_thread(daily.remove, place, self._key.audience, which))
        await self._services.store.write(lambda db: summaries.delete(db, *jobs))

    async def _summary_for(
        self, job: Job, made: Summary | None, turns: tuple[Turn, ...]
    ) -> tuple[Summary | None, tuple[Turn, ...]]:
        """Return the summary of a job, and the remaining turns: the summary that is `made`, if a
        person has removed none of its turns since. None: no turns remain."""
        summary = made
        while turns:
            rest = tuple(turn.number for turn in turns)
            if summary is not None and set(summary.turns) <= set(rest):
                break
            summary = await self._make(replace(job.spec, turns=rest))
            turns = await self._turns(job.turns)  # some may be removed while it is written
        else:
            return None, ()
        if summary.id != job.summary:
            new = summary.id
            write = self._services.store.write
            await write(lambda db: summaries.update_job(db, job.id, summary=new))
        return summary, turns

    async def _offload(self, job: Job, offloader: Offloader, entries: Sequence[Entry]) -> None:
        """Offload the removed entries to a place that the model's file tools can read. It is shared
        with other branches: turns that a person removed there are left out."""
        reference = await run_shielded(
            offload.attempt(lambda: offloader.offload_context(self._key.id, entries))
        )
        if reference and not getattr(offloader, "offers", ""):
            keep = self._services.store.write
            await keep(lambda db: summaries.update_job(db, job.id, reference=reference))
            self.reference = reference

    def _section(self, job: Job, summary: Summary, turns: Sequence[Turn]) -> Section:
        """Return the section, dated by its last turn, whenever it is written."""
        told = frozenset(summary.turns)
        times = [
            entry.at
            for turn in turns
            if turn.number in told
            for entry in turn.entries
            if entry.at is not transcript.DAMAGED
        ]
        at = max(times, default=datetime.now(UTC)).astimezone(self._services.rules.zone())
        return Section(self._key, at, format_turns(summary.turns), summary.section, job.id)

    async def _make(self, spec: SummarySpec) -> Summary:
        """Write and store a summary; again, if a person corrects meanwhile what it may say."""
        limits = self._services.rules.at(self._key).limits.but(**dict(spec.once))
        corrections = -1
        while corrections != self._corrections:
            corrections, source = self._corrections, await self._source(spec)
            beginning, frame = self._find_beginning(spec, source), await self._state.count_frame()
            draft = await self._drafter.draft(spec, source, limits, beginning, frame)
        return await self._state.write(
            summaries.insert_summary,
            Summary(
                turns=tuple(number for number in spec.turns if number not in draft.left_out),
                prior=source.prior.id if source.prior else 0,
                focus=spec.focus,
                text=draft.text,
                section=draft.section,
                tokens=self._services.meter.count(draft.text),
                model=draft.model,
                is_untrusted=source.is_untrusted,
                ranges=tuple(one.id for one in source.stood),
                receipt=draft.receipt,
            ),
            is_numbered=spec.style not in words.OUT_OF_CONTEXT,
        )

    def _find_beginning(self, spec: SummarySpec, source: SummarySource) -> RequestBeginning | None:
        """Find the beginning behind which the summary may be requested in the conversation itself.
        Not for content from outside, since the system prompt and the tools are in such a request,
        too."""
        if source.is_untrusted or source.stood or (sent := self._state.as_sent()) is None:
            return None
        prior = source.prior.id if source.prior else 0
        is_of_log = spec.style == "rollup"
        return find_beginning(sent, source.turns, prior, datetime.now(UTC), of_log=is_of_log)

    async def receipt_of(self, summary: Summary, text: str) -> Receipt:
        """Return the receipt for a text that replaces the text of a summary."""
        turns = await self._turns(summary.turns)
        prior = await self.read(summary.prior) if summary.prior else None
        by_hand = await self._find_ended(turns, prior)
        source = SummarySource(turns, prior, by_hand=by_hand)
        return await asyncio.to_thread(source.receipt, text)

    async def _find_ended(
        self, turns: Sequence[Turn], prior: Summary | None, earlier: Sequence[Turn] = ()
    ) -> tuple[EndedByPerson, ...]:
        """Return the values that a command has ended, or another message of this conversation than
        those in these or `earlier` turns, and that a summary of these turns must not have."""
        data, audience, own = self._services.data, self._key.audience, self._key.id
        values = await asyncio.to_thread(ended.stored, data, audience)
        entries = [entry for turn in turns for entry in turn.entries]
        known = (entry for turn in (*earlier, *turns) for entry in turn.entries)
        times = {entry.seq: entry.at.timestamp() for entry in known}
        ended_here = [
            one
            for one in values
            if not one.conversation or (one.conversation == own and not one.is_in(times))
        ]
        has_prior = prior is not None
        return tuple(
            await asyncio.to_thread(
                lambda: [*choose_ended(ended_here, entries, has_prior=has_prior)]
            )
        )

    async def _with_restored(self, before: Summary) -> Summary:
        """Return a summary that is continued with the values that `/memory undo` has restored."""
        data, audience = self._services.data, self._key.audience
        values = await asyncio.to_thread(ended.find_restored, data, audience)
        # A value without a topic may be of another thing, too, where it is there more than once.
        sure = [one for one in values if one.topic or occurs_once(before.text, one.old)]
        return replace(before, text=show_corrected(before.text, sure)) if sure else before

    async def _source(self, spec: SummarySpec) -> SummarySource:
        """Return the source of a summary. A summary with turns that were removed since is not
        used."""
        after = await self.summary_of(spec.after) if spec.after else 0
        book = self._services.corrections

        def read(
            database: Database, row: int
        ) -> tuple[list[Entry], list[Entry], Summary | None, _Heard]:
            entries = transcript.entries_of_turns(database, row, spec.turns)
            # The summary that it continues is as edited by a person, unless the edit was deleted.
            ids = (one for one in (spec.edited, after) if one)
            found = (summaries.summary(database, one) for one in ids)
            before = next((one for one in found if one is not None), None)
            heard = book.heard(database, row)
            newest = max(spec.turns, default=0)
            numbers = {one.turn for one in heard or () if one.turn < newest} - {*spec.turns}
            earlier = transcript.entries_of_turns(database, row, numbers)
            return entries, earlier, before, heard

        entries, correcting, before, heard = await self._state.read(read)
        turns = self._leave_out_removed(entries)
        there = {turn.number for turn in turns}
        stood = [await self._find_range(event, made) for event, made in spec.ranges]
        whole = (one for one in stood if one is not None and there.issuperset(one.turns))
        corrected = None if heard is None else tuple((one.turn, one.correction) for one in heard)
        earlier = self._leave_out_removed(correcting)
        by_hand = await self._find_ended(turns, before, earlier)
        if before is not None:
            before = await self._with_restored(before)
        return SummarySource(turns, before, tuple(whole), corrected, earlier, by_hand)

    async def _find_range(self, event: int, made: int) -> Summary | None:
        """Return the summary of the turns that an event removed, as edited by a person; its section
        for the daily memory is that of the original."""
        summary = await self.read(made or await self.summary_of(event))
        if summary is None or not summary.edits:
            return summary
        origin = await self.read(summary.origin)
        return replace(summary, section=origin.section if origin else "")

    async def _turns(self, numbers: Sequence[int]) -> tuple[Turn, ...]:
        return self._leave_out_removed(await self._state.read(transcript.entries_of_turns, numbers))

    def _leave_out_removed(self, entries: Sequence[Entry]) -> tuple[Turn, ...]:
        away = self._state.layout.removed_turns
        return transcript.as_turns(e for e in entries if not away.has(e.turn))

    async def _book(self, spent: Sequence[Spent]) -> None:
        ledger, row = self._services.ledger, self._state.row
        for call in spent:
            await self._services.store.write(  # the summary itself, which is next, is synced
                lambda db, call=call: ledger.insert(db, row, 0, call),  # type: ignore[misc]
                is_synced=False,
            )
            self._state.book(call)


def _finish_job(database: Database, row: int, job: Job) -> frozenset[int]:
    """Be done with a job; return the turns of which the daily memory tells by now, where something
    is written beside it."""
    summaries.update_job(database, job.id, is_done=True)
    if job.spec.style in words.OUT_OF_CONTEXT:
        return frozenset()
    return summaries.find_recorded_turns(database, row)


def _apart(turns: Sequence[Turn]) -> Iterator[tuple[Turn, ...]]:
    """Yield the turns in groups for sections of excerpts; those with text from outside are
    separate."""
    for is_outside in (False, True):
        some = tuple(turn for turn in turns if turn.has_outside == is_outside)
        for first in range(0, len(some), _EXCERPTS):
            yield some[first : first + _EXCERPTS]
