"""What of a conversation is in play: its events, its boundaries, and the view they make.

The base of `Conversation`, which adds, each on top of the one before, the cuts
(`memory/cutting.py`), what a person does to the view (`memory/steering.py`), and the turns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory import files
from memory.context.change import (
    Boundaries,
    Outcome,
    ViewEvent,
    outcome,
)
from memory.context.compaction import Wanted
from memory.context.framing import Framing
from memory.context.limits import Limits
from memory.context.log import log_lines
from memory.context.meter import Frame
from memory.context.scribe import Prepared, Scribe
from memory.context.snapshot import Snapshot, note, taken
from memory.context.strategies import STRATEGIES, Strategy
from memory.context.view import LogLine, Preface, Scale, View, in_play, marked, shown
from memory.files import Written
from memory.keys import ConversationKey
from memory.messages import Message
from memory.quarantine import Quarantine
from memory.recollection import Recollection
from memory.record import ledger, passages, search, summaries, transcript
from memory.record.ledger import Bill, Spent
from memory.record.recall import Scope
from memory.record.search import Found
from memory.record.summaries import Job, Summary
from memory.turns import Entry, Turn

if TYPE_CHECKING:
    from memory.conversations import Conversations

log = logging.getLogger(__name__)

FOLDED_TURNS = 7
"""Turns that `slim` folds at a time where the provider caches (docs/performance.md)."""
_READ_AT_ONCE = 1_000  # turns
_BEGINNING = 400  # characters of a message that a line of the activity log may be made from


@dataclass(frozen=True, slots=True)
class Anchor:
    """The last request that the provider counted: its tokens by the provider, and raw."""

    reported: int
    raw: int
    model: str
    boundaries: Boundaries


@dataclass(frozen=True, slots=True)
class Keepsake:
    """What is known of a conversation that left memory and is not on disk: what the provider
    counted last, the summary that was prepared for the next cut, and whether a session is on."""

    anchor: Anchor | None
    prepared: Prepared | None
    is_in_session: bool


class Stage:
    """One conversation: its turns in play, its boundaries, its meter."""

    def __init__(self, house: Conversations, key: ConversationKey) -> None:
        self.key = key
        self.bill = Bill()
        self._house, self._room = house, house.room
        self._row = self._last_seq = self._last_turn = self._last_inbox = 0
        self._person = ""
        self._framing: Framing = {}
        self._framed_by: Frame | None = None
        self._whole: tuple[Turn, ...] = ()
        self._shown: tuple[Turn, ...] = ()
        self._outcome = Outcome()
        self._strategy = ""
        self._preface: Preface | None = None
        self._lines: tuple[LogLine, ...] = ()
        self._is_held_off = False
        self._limits: tuple[Limits, tuple[int, str, int], Limits] | None = None
        self._current = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._anchor: Anchor | None = None
        self._is_in_session = False
        self._changing = asyncio.Lock()
        self._filing = asyncio.Lock()

    async def _read_all(self) -> None:

        def read(db: Any) -> tuple[Any, ...]:
            row = transcript.find_or_create(db, self.key)
            jobs = summaries.undone_of(db, row.id)
            return row, transcript.events_of(db, row.id), jobs, ledger.bill(db, row.id)

        row, events, jobs, self.bill = await self._room.store.write(read)
        self._row, self._last_seq, self._last_turn = row.id, row.last_seq, row.last_turn
        self._last_inbox, self._person = row.last_inbox, row.person
        self._framing, self._framed_by = row.framing, None
        self._strategy = self.limits.strategy
        self.scribe = Scribe(self._room, self.key, self._row, self._spent)
        self._outcome, self._preface, self._anchor = Outcome(), None, None
        await self._reload(events)
        self._take_up(jobs)

    # --- what is there ---------------------------------------------------------------------

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing happens here: no turn, no change, no summary, no strategy that waits for
        the next turn."""
        is_busy = self._current or self._changing.locked() or self.scribe.is_busy
        return not is_busy and self._strategy == self._room.limits_for(self.key).strategy

    @property
    def keepsake(self) -> Keepsake:
        """What must be kept of this conversation besides what is on disk."""
        return Keepsake(self._anchor, self.scribe.written_ahead, self._is_in_session)

    @property
    def limits(self) -> Limits:
        """The limits in force now: a window that the provider has named is believed, a changed
        strategy holds from the next turn on, and turns fold one by one until the provider reports
        that it caches."""
        limits = self._room.limits_for(self.key)
        window = min(limits.window, self._house.windows.get(limits.model, limits.window))
        folds = limits.fold_turns or (FOLDED_TURNS if self.bill.cached else 1)
        own = (window, self._strategy or limits.strategy, folds)
        if self._limits is None or self._limits[0] is not limits or self._limits[1] != own:
            made = replace(limits, window=own[0], strategy=own[1], fold_turns=own[2])
            self._limits = (limits, own, made)  # asked for many times a message, seldom changed
        return self._limits[2]

    @property
    def strategy(self) -> Strategy:
        """The strategy in force now."""
        return STRATEGIES[self._strategy]

    @property
    def frame(self) -> Frame:
        """What would be sent besides the conversation now."""
        return self._room.frame_for(self.key)

    async def history(self) -> list[ViewEvent]:
        """All that ever changed the view, oldest first."""
        return await self._room.store.read(lambda db: transcript.events_of(db, self._row))

    @property
    def outcome(self) -> Outcome:
        """What all that comes to."""
        return self._outcome

    @property
    def _boundaries(self) -> Boundaries:
        return self._outcome.boundaries

    @property
    def memory(self) -> Recollection:
        """What this conversation's audience remembers."""
        begin = self._whole[-1].entries[0].seq if self._current else 0
        scope = Scope(self.key.audience, running=(self._row, begin) if begin else (0, 0))
        return Recollection(self._room, self._house.indexer, scope)

    @property
    def quarantine(self) -> Quarantine:
        """What waits until an owner has looked through it, here and elsewhere."""
        return Quarantine(self._room, self._house.looked_through)

    @property
    def current(self) -> int:
        """The number of the turn that runs, or 0."""
        return self._current

    @property
    def newest(self) -> int:
        """The number of the newest turn, in play or not; 0 before the first."""
        return self._last_turn

    @property
    def pressure(self) -> float:
        """How full the window is: tokens by the meter / (window - reserve) (Digitorn)."""
        limits = self.limits
        return self.view(limits=limits).tokens / limits.ceiling

    def view(self, frame: Frame | None = None, limits: Limits | None = None) -> View:
        """What the model would see now."""
        limits = limits or self.limits
        view = View(
            self._whole,
            self._shown,
            self._room.meter.frame(frame or self.frame),
            self._boundaries,
            preface=self._preface,
            lines=self._lines,
            rendering=self.strategy.preface,
            merges_system=limits.merge_system,
            current=self._current,
            newest=self._last_turn,
        )
        return replace(view, scale=self._scale(view, limits))

    async def wait_for_turn(self) -> None:
        """Wait until no turn is open."""
        await self._idle.wait()

    async def tokens_of(self, text: str) -> int:
        """Raw tokens of a text, for figures that no provider reported."""
        return await self._room.meter.message(Message("assistant", text))

    async def count(self) -> int:
        """How many messages the transcript holds, in play or not."""
        return await self._room.store.read(lambda db: transcript.count_messages(db, self._row))

    async def turns(self, numbers: Sequence[int]) -> tuple[Turn, ...]:
        """Turns of the transcript, in play or not."""
        return transcript.as_turns(
            await self._room.store.read(
                lambda db: transcript.entries_of_turns(db, self._row, numbers)
            )
        )

    @property
    def folder(self) -> Path:
        """Where what is written out of this conversation is."""
        return self._room.session_folder(self.key)

    async def write_files(self) -> Written:
        """Write all that was said, and a line for each turn, into this conversation's folder.
        Raises OSError."""
        async with self._filing:
            turns: list[Turn] = []
            for first in range(1, self._last_turn + 1, _READ_AT_ONCE):
                turns += await self.turns(range(first, first + _READ_AT_ONCE))
            return await asyncio.to_thread(
                files.write, self.folder, turns, self.key.id, self._room.hide
            )

    def _mirror(self) -> None:
        """Something was said, or forgotten: have the files written, where that is wanted."""
        if self._room.keeps_files(self.key):
            self._house.mirror.touch(self)

    async def search(self, words: Sequence[str], most: int) -> Found:
        """The messages of the transcript that hold the most of these words, in play or not."""
        return await self._room.store.read(lambda db: search.search(db, self._row, words, most))

    async def passages(self, wanted: passages.Wanted) -> passages.Passages:
        """Parts of what was said before the running turn, for the model: what a person has cleared
        is left out."""
        scope = passages.Scope(self._current, self._outcome.cleared)
        return await self._room.store.read(lambda db: passages.find(db, self._row, scope, wanted))

    def _scale(self, view: View, limits: Limits) -> Scale:
        ratio = self._house.ratios.get(limits.model, 1.0)
        anchor = self._anchor
        if anchor is None or anchor.model != limits.model:
            return Scale(ratio)
        raw = view.raw_tokens
        is_measured = anchor.boundaries == self._boundaries and anchor.raw <= raw
        return Scale(ratio, anchor.reported - ratio * anchor.raw, is_measured)

    def _spent(self, spent: Spent) -> None:
        self.bill = self.bill.plus(spent)
        self._house.on_spent(self.key, self._person, spent)

    # --- boundaries ------------------------------------------------------------------------

    async def _reload(self, events: Sequence[ViewEvent]) -> None:
        """Build the turns in play anew from the transcript and those of these events that hold."""
        result = outcome(events, self._strategy)
        boundaries = result.boundaries
        has_log = self.strategy.preface == "exchange"

        def read(db: Any) -> tuple[list[Entry], list[Entry]]:
            kept = transcript.entries_of_turns(db, self._row, boundaries.keep)
            kept += transcript.entries_from(db, self._row, boundaries.cut)
            first = boundaries.rolled
            logged = transcript.beginnings_from(db, self._row, first, _BEGINNING) if has_log else []
            return kept, logged

        entries, logged = await self._room.store.read(read)
        unique = {entry.seq: entry for entry in entries}
        whole = transcript.as_turns(unique[seq] for seq in sorted(unique))
        self._lines = log_lines(transcript.as_turns(logged), self._room.meter)
        await self._show(whole, result)

    async def _show(self, whole: tuple[Turn, ...], result: Outcome) -> None:
        boundaries = result.boundaries
        if boundaries.preface != self._boundaries.preface:
            self._preface = await self._read_preface(boundaries.preface)
        self._outcome = result
        self._whole = in_play(whole, boundaries)
        self._shown = shown(self._whole, boundaries)
        self._lines = tuple(line for line in self._lines if line.turn >= boundaries.rolled)

    async def read_preface_again(self) -> None:
        """A summary was looked through: it may be the one in front."""
        async with self._changing:
            self._preface = await self._read_preface(self._boundaries.preface)

    async def _read_preface(self, summary_id: int) -> Preface | None:
        summary = await self.scribe.read(summary_id) if summary_id else None
        if summary is None:
            return None
        at_hand = await self._room.store.read(
            lambda db: transcript.snapshot_of(db, self._row, summary_id)
        )
        return self._as_preface(summary, at_hand)

    def _as_preface(self, summary: Summary, at_hand: Snapshot | None) -> Preface:
        """A summary as it stands in front: as a system message, with what was at hand when its
        turns left."""
        told = note(at_hand) if at_hand is not None and self.strategy.preface == "system" else ""
        text = "\n\n".join(filter(None, (summary.text, told)))
        return Preface(text, self._room.meter.count(marked(text)), summary.is_untrusted)

    def _snapshot(self, view: View) -> Snapshot:
        return taken(self.frame.tools, view.turns, view.boundaries.preface)

    async def _carry_out(self, event: ViewEvent, job: Job | None = None) -> ViewEvent:
        """Store an event, and with it the job for what leaves; then move the boundaries by it."""
        stored, kept = await self._store_event(event, job)
        await self._show(self._whole, self._outcome.after(stored, self._strategy))
        if kept is not None:
            self.scribe.add(kept, self._wanted_by(kept))
        self._house.on_change(self)
        return stored

    def _take_up(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self.scribe.add(job, self._wanted_by(job))

    def _wanted_by(self, job: Job) -> Wanted:
        return Wanted(job.turns, job.prior, job.focus, self._boundaries.pinned, job.style)

    async def _store_event(
        self, event: ViewEvent, job: Job | None = None
    ) -> tuple[ViewEvent, Job | None]:
        def insert(db: Any) -> tuple[ViewEvent, Job | None]:
            stored = replace(event, id=transcript.insert_event(db, self._row, event))
            if job is None:
                return stored, None
            kept = replace(job, event=stored.id)
            return stored, replace(kept, id=summaries.insert_job(db, self._row, kept))

        return await self._room.store.write(insert)
