"""The context of a conversation: its turns, the result of its events, and the view made from
them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from msgspec.structs import replace

from memory.calibration import Calibration
from memory.context.change import Actor, Change, Kind, ViewEvent
from memory.context.continued import LastRequest
from memory.context.cut_cost import count_broken
from memory.context.emergency import PASSING
from memory.context.forms import Snapshot, note, take_snapshot
from memory.context.layout import Layout, ReplayedState, replay
from memory.context.meter import PrefixTokens, PromptPrefix
from memory.context.plan import Plan
from memory.context.settings import Limits
from memory.context.strategies import STRATEGIES, Strategy
from memory.context.terse import log_lines
from memory.context.view import LogLine, Preface, View, wrap_summary
from memory.keys import ConversationKey
from memory.ledger import Bill, Spent
from memory.record import daily, summaries, transcript
from memory.record.conversations import ConversationRow
from memory.record.database import Database
from memory.record.summaries import Job, Summary
from memory.services import MemoryServices
from memory.turns import Entry, Turn

T = TypeVar("T")
P = ParamSpec("P")
Query = Callable[Concatenate[Database, int, P], T]
"""Asks the database about a conversation, or changes it there, by its row."""

KEPT = "What has left is kept, whole, in '{}'."
_EMPTY = View((), (), PrefixTokens(0, 0))
_SOME_PREFACE = Preface("", 0)
"""The placeholder for a summary of which it is only known that it differs from the previous one."""
_BEGINNING = 400  # characters of a message from which a line of the activity log may be made


class ContextState:
    """The turns in context, the layout, the preface and the lines of the log: loaded from disk,
    changed by events, and represented as a `View`.

    A caller that changes it holds the lock `changing` meanwhile. `current` is the number of the
    running turn, or 0, and `newest` that of the newest turn, in context or not. `idle` is set while
    no turn runs. `bill` is the cost of the conversation, `last_event` the id of the newest event
    that changed anything.
    """

    def __init__(
        self, services: MemoryServices, key: ConversationKey, calibration: Calibration
    ) -> None:
        self._services, self.key, self._calibration = services, key, calibration
        self.row = self.last_seq = self.last_inbox = self.current = self.last_event = 0
        self.person = ""
        self.affinity = ""  # of its requests, after it is restored
        self.prefix_sent: PromptPrefix | None = None  # in the latest request of the newest turn
        self.bill = Bill()
        self.changing = asyncio.Lock()
        self.idle = asyncio.Event()
        self.idle.set()
        self.replayed = ReplayedState()
        self._strategy, self._caches = "", False
        self.has_passing_steps = False  # something may be out of context for one turn only
        self._view = _EMPTY
        self._limits: tuple[Limits, tuple[int, str, int], Limits] | None = None

    # --- state -----------------------------------------------------------------------------

    @property
    def limits(self) -> Limits:
        """The limits in force now. A window that the provider has named takes precedence; a changed
        strategy applies from the next turn on; and turns fold one by one, instead of when it pays,
        until the provider reports cached tokens."""
        limits = self._services.rules.at(self.key).limits
        folds = limits.fold_turns or (0 if self.bill.cached or self._caches else 1)
        is_named = bool(self._calibration.models.windows)
        window = self._calibration.window(limits) if is_named else limits.window
        own = (window, self._strategy or limits.strategy, folds)
        if self._limits is None or self._limits[0] is not limits or self._limits[1] != own:
            made = replace(limits, window=own[0], strategy=own[1], fold_turns=own[2])
            self._limits = (limits, own, made)  # read many times per message, seldom changed
        return self._limits[2]

    @property
    def limits_as_set(self) -> Limits:
        """The limits of the settings, regardless of values learnt since."""
        return self._services.rules.at(self.key).limits

    @property
    def whole(self) -> tuple[Turn, ...]:
        """The turns in context, as in the transcript."""
        return self._view.whole

    @property
    def newest(self) -> int:
        return self._view.newest

    @property
    def last_complete(self) -> int:
        """The number of the newest complete turn; 0 before the first."""
        is_open = bool(self.whole) and not self.whole[-1].is_complete
        return self.whole[-1].number - 1 if is_open else self.newest

    @property
    def strategy(self) -> Strategy:
        """The strategy in force now."""
        return STRATEGIES[self._strategy]

    @property
    def waits_for_strategy(self) -> bool:
        """Return whether another strategy will be in force from the next turn on."""
        return self._strategy != self._services.rules.at(self.key).limits.strategy

    @property
    def layout(self) -> Layout:
        """The form of each turn now."""
        return self.replayed.layout

    @property
    def prefix(self) -> PromptPrefix:
        """The prompt prefix that would be sent besides the conversation now."""
        return self._services.rules.prefix(self.key)

    @property
    def chat_bill(self) -> Bill:
        """The cost of the chat, with all its branches."""
        return self._services.chat_bills.of(self.key.home)

    def count_tools(self) -> dict[str, int]:
        """Return the size of each tool that would be sent, in raw tokens, by name."""
        return self._services.meter.tools(self.prefix)

    @property
    def pressure(self) -> float:
        """The share of the window in use: tokens by the meter / (window - reserve) (Digitorn)."""
        limits = self.limits
        return self.view(limits=limits).tokens / limits.ceiling

    def view(self, prefix: PromptPrefix | None = None, limits: Limits | None = None) -> View:
        """Return the view that the model would see now."""
        limits, view = limits or self.limits, self._view
        size = self._services.meter.prefix(prefix or self.prefix)
        merges = limits.context.merge_system
        if view.prefix is not size or (view.merges_system, view.current) != (merges, self.current):
            view = replace(view, prefix=size, merges_system=merges, current=self.current)
        self._view = view.with_scale(self._calibration.scale(view, limits.model))
        return self._view

    async def view_with(self, change: Change, view: View) -> View:
        """Return the view after a change that brings turns, or their lines of the log, back into
        the context. They are read for it; the context itself does not change."""
        layout, known = view.layout.apply(change), {line.turn for line in view.lines}
        back = await self.turns(change.turns())
        there = {turn.number: turn for turn in (*back, *view.whole)}
        new = log_lines((t for t in back if t.number not in known), self._services.meter)
        lines = sorted((*view.lines, *new), key=lambda line: line.turn)
        return view.with_layout((there[number] for number in sorted(there)), lines, layout)

    async def read(self, query: Query[P, T], *args: P.args, **more: P.kwargs) -> T:
        """Return what a query finds of this conversation."""
        row = self.row
        return await self._services.store.read(lambda db: query(db, row, *args, **more))

    async def write(self, query: Query[P, T], *args: P.args, **more: P.kwargs) -> T:
        """Return what a query that changes something of this conversation returns."""
        row = self.row
        return await self._services.store.write(lambda db: query(db, row, *args, **more))

    async def history(self) -> list[ViewEvent]:
        """All that ever changed the view, oldest first."""
        return await self.read(transcript.events_of)

    async def turns(self, numbers: Sequence[int]) -> tuple[Turn, ...]:
        """Return turns of the transcript, in context or not."""
        return transcript.as_turns(await self.read(transcript.entries_of_turns, numbers))

    async def kept_turns(self) -> frozenset[int]:
        """Return the numbers of the stored turns."""
        return frozenset(turn for _, turn in await self.read(transcript.places))

    async def count_frame(self) -> int:
        """Return the raw tokens that are added to the context with a summary besides its own: the
        marks around it, and for the first summary in front, the note beside it."""
        is_first = self._view.preface is None and self.strategy.preface == "system"
        note_text = note(await self.snapshot(self.view())) if is_first else ""
        return self._preface_with(note_text).tokens

    async def snapshot(self, view: View) -> Snapshot:
        """Take a snapshot of the tools and memory that the model has now."""
        days = await asyncio.to_thread(daily.days, self._services.data, self.key.audience)
        return take_snapshot(self.prefix.tools, view.turns, view.layout.preface, days)

    # --- loading and appending ---------------------------------------------------------------

    async def load(
        self, row: ConversationRow, events: Sequence[ViewEvent], bill: Bill, *, caches: bool = False
    ) -> None:
        """Load the stored state of this conversation. `caches`: the provider cached tokens in the
        conversation that it was branched off."""
        self._caches = caches
        self.row, self.last_seq, self.last_inbox = row.id, row.last_seq, row.last_inbox
        self.person, self.bill = row.person, bill
        self._strategy = ""
        self._strategy = self.limits.strategy
        self.replayed, self._view = ReplayedState(), replace(_EMPTY, newest=row.last_turn)
        self.last_event = max((event.id for event in events), default=0)
        self.has_passing_steps = any(event.reason in PASSING for event in events)
        await self.replay(events)

    async def under(
        self,
        strategy: str,
        event: float = math.inf,
        seq: float = math.inf,
        more: Sequence[ViewEvent] = (),
    ) -> ContextState:
        """Return the state of the same conversation with this strategy in force, when this event
        was the newest, and so was the entry with this seq, as far as it is kept; and after `more`
        events. Nothing is changed here by it."""
        other = ContextState(self._services, self.key, self._calibration)
        other.row, other._strategy = self.row, strategy
        other._view = replace(_EMPTY, newest=self.newest)
        other.bill, other._caches = self.bill, self._caches
        events = [one for one in await self.history() if one.id <= event]
        await other.replay([*events, *more], until=seq)
        return other

    async def switch(self, strategy: str, events: Sequence[ViewEvent]) -> None:
        """Plan with another strategy from now on, over all turns that the others left in
        context."""
        self._strategy = strategy
        await self.replay(events)
        await self.read_preface_again()

    def append(self, entries: Sequence[Entry]) -> None:
        """Append entries, which are on disk already."""
        view = self._view
        whole, lines = with_entries(view.whole, entries), view.lines
        turns = whole if view.turns is view.whole else with_entries(view.turns, entries)
        if view.rendering == "exchange":
            fresh = {entry.turn for entry in entries}
            grown = (turn for turn in whole if turn.number in fresh)
            lines += log_lines(grown, self._services.meter)
        newest = entries[-1].turn
        self._view = replace(view, whole=whole, turns=turns, lines=lines, newest=newest)
        self._services.on_change(self.key)

    def notify(self) -> None:
        """Notify the listeners of a change."""
        self._services.on_change(self.key)

    def book(self, spent: Spent, person: str = "") -> None:
        """Add a call to a model to the bill; `person` pays for it, or the person who spoke last."""
        self.bill = self.bill.plus(spent)
        self._services.chat_bills.add(self.key.home, spent)
        self._services.on_spent(self.key, person or self.person, spent)

    async def pay(self, spent: Spent, turn: int = 0, person: str = "") -> None:
        """Store a call in the ledger, and add it to the bill. `turn` 0: it belongs to no turn."""
        await self.write(self._services.ledger.insert, turn, spent, person)
        self.book(spent, person)

    # --- events ------------------------------------------------------------------------------

    async def replay(self, events: Sequence[ViewEvent], until: float = math.inf) -> None:
        """Rebuild the context from those of these events that are in force, and from the transcript
        up to the seq `until`."""
        result = replay(events, self._strategy)
        layout = result.layout
        has_log = self.strategy.preface == "exchange"

        def read(db: Any) -> tuple[list[Entry], list[Entry]]:
            shown = transcript.entries_in(db, self.row, [*layout.spans()])
            of_log = [*layout.spans("line", "range")] if has_log else []
            logged = transcript.entries_in(db, self.row, of_log, _BEGINNING)
            return [e for e in shown if e.seq <= until], [e for e in logged if e.seq <= until]

        entries, logged = map(transcript.as_turns, await self._services.store.read(read))
        await self._show(entries, log_lines(logged, self._services.meter), result)

    def event(
        self, plan: Plan, view: View, after: int, actor: Actor = "person", kind: Kind = "view"
    ) -> ViewEvent:
        """Return the durable event that carrying a plan out on this view is, which has `after`
        tokens after it."""
        return ViewEvent(
            at=datetime.now(UTC),
            kind=kind,
            actor=actor,
            strategy=plan.strategy or self.limits.strategy,
            reason=plan.why,
            change=plan.change,
            turn=view.newest,
            leaving=plan.leaving,
            tokens_before=view.tokens,
            tokens_after=after,
        )

    async def record(
        self, event: ViewEvent, job: Job | None = None
    ) -> tuple[ViewEvent, Job | None]:
        """Store an event, with the job for the turns that it removes, and change the layout by it;
        return both with their ids."""
        stored, kept = await self.store(self.count_ahead(event), job)
        await self._move_by(stored)
        return stored, kept

    async def record_summary(
        self, made: Summary, event_of: Callable[[Summary], ViewEvent]
    ) -> tuple[ViewEvent, Summary]:
        """Store a summary with the event that puts it in force, both or neither, and change the
        layout by it; return both with their ids."""

        def insert(db: Any) -> tuple[ViewEvent, Summary]:
            summary = summaries.insert_summary(db, self.row, made)
            return self._insert(db, event_of(summary)), summary

        stored, summary = await self._services.store.write(insert)
        self._note(stored)
        await self._move_by(stored)
        return stored, summary

    def _insert(self, db: Any, event: ViewEvent) -> ViewEvent:
        return replace(event, id=transcript.insert_event(db, self.row, event))

    def _note(self, stored: ViewEvent) -> None:
        self.last_event = stored.id
        self.has_passing_steps |= stored.reason in PASSING
        self._services.on_event(stored)

    async def record_measured(self, event: ViewEvent, before: View) -> ViewEvent:
        """Store an event whose size is only known once what comes back is read, and change the
        layout by it. Raises StoreError."""
        after = (await self.under(self._strategy, more=[event])).view()
        event = self.count_broken(replace(event, tokens_after=after.tokens), before, after)
        stored, _ = await self.store(event)
        await self.replay(await self.history())
        self.notify()
        return stored

    async def set_undone(
        self, kind: Literal["undo", "redo"], event: ViewEvent, actor: Actor, why: str
    ) -> ViewEvent:
        """Undo or redo an event; return the event for that. Raises StoreError."""
        before = self.view()
        move = self.event(Plan(Change.moving(event.id), why), before, 0, actor, kind)
        return await self.record_measured(move, before)

    async def _move_by(self, event: ViewEvent) -> None:
        if event.change.restores_turns or event.kind == "setting":  # what comes back is read
            await self.replay(await self.history())
        else:
            after = self.replayed.after(event, self._strategy)
            await self._show(self.whole, self._view.lines, after)
        self.notify()

    async def store(self, event: ViewEvent, job: Job | None = None) -> tuple[ViewEvent, Job | None]:
        """Store an event with its job, without changing the layout."""

        def insert(db: Any) -> tuple[ViewEvent, Job | None]:
            stored = self._insert(db, event)
            if job is None:
                return stored, None
            kept = replace(job, event=stored.id)
            return stored, replace(kept, id=summaries.insert_job(db, self.row, kept))

        stored = await self._services.store.write(insert)
        self._note(stored[0])
        return stored

    def as_sent(self) -> LastRequest | None:
        """Return the last request sent to the model, if its provider caches requests. Return None,
        too, if it had another model or another prompt, or is unknown after a restart."""
        anchor, prefix = self._calibration.anchor, self.prefix
        if anchor is None or not self.bill.cached:
            return None
        view = self.view(prefix)
        if anchor.model != self.limits.model or anchor.prefix is not view.prefix:
            return None
        return LastRequest(view, prefix, self.affinity)

    @property
    def cached(self) -> int:
        """The number of tokens that the provider may have cached: those of the last request that it
        counted, or if that is unknown, all that would be sent; 0 if it has reported no cached
        tokens here."""
        if not self.bill.cached:
            return 0
        anchor = self._calibration.anchor
        return anchor.reported if anchor else self.view().tokens

    def count_broken(self, event: ViewEvent, before: View, after: View) -> ViewEvent:
        """Return the event with its effect on the provider's cache, when it changes the view from
        `before` to `after`."""
        if not (cached := self.cached):
            return event
        broken, anew = count_broken(before, after, cached)
        return replace(event, broken=broken, anew=anew)

    def count_ahead(self, event: ViewEvent) -> ViewEvent:
        """Return the same for an event that is not in force yet."""
        before = self.view()
        if event.kind == "prompt":
            cached = self.cached
            return replace(event, broken=cached, anew=cached) if cached else event
        after = before.apply(event.change)
        if event.change.summaries:
            after = replace(after, preface=_SOME_PREFACE)
        return self.count_broken(event, before, after)

    async def _show(
        self, turns: tuple[Turn, ...], lines: tuple[LogLine, ...], result: ReplayedState
    ) -> None:
        texts = await self.read_texts(result.layout, self.layout)
        self.replayed, view = result, self._view.with_layout(turns, lines, result.layout)
        self._view = replace(view, rendering=self.strategy.preface, **texts)

    # --- the preface -------------------------------------------------------------------------

    async def read_preface_again(self) -> None:
        """Read the summaries in the preface and in place of turns again, since one of them, or its
        rendering, has changed."""
        texts = await self.read_texts(self.layout)
        self._view = replace(self._view, **texts)

    async def read_texts(self, layout: Layout, known: Layout | None = None) -> dict[str, Any]:
        """Return the summaries that a layout shows, as fields of a view; without those that the
        present view, whose layout is `known`, has already."""
        texts: dict[str, Any] = {}
        front = layout.preface, layout.reference
        if known is None or front != (known.preface, known.reference):
            texts["preface"] = await self._read_preface(*front)
        ids = sorted({one.summary for one in layout.ranges if one.summary})
        if known is None or ids != sorted(self._view.summaries):
            read = self._services.store.read
            found = await read(lambda db: [summaries.summary(db, one) for one in ids])
            made = (one for one in found if one is not None)
            texts["summaries"] = {one.id: self._in_place(one) for one in made}
        return texts

    def _in_place(self, summary: Summary) -> Preface:
        return self._preface_with(summary.text, is_untrusted=summary.is_untrusted)

    async def with_summary(
        self, view: View, made: Summary, at_hand: Snapshot | None = None, *, is_range: bool = False
    ) -> View:
        """Return the view with a summary in front (`_preface_of`), or in place of its turns."""
        if is_range:
            return replace(view, summaries={**view.summaries, made.id: self._in_place(made)})
        return replace(view, preface=await self._preface_of(made, self.layout.reference, at_hand))

    async def _read_preface(self, summary_id: int, kept: str) -> Preface | None:
        if not summary_id:
            return self._preface_with(KEPT.format(kept)) if kept else None
        summary = await self._services.store.read(lambda db: summaries.summary(db, summary_id))
        return None if summary is None else await self._preface_of(summary, kept)

    async def _preface_of(
        self, summary: Summary, kept: str, at_hand: Snapshot | None = None
    ) -> Preface:
        """Return a summary as it stands in the preface: as a system message, with what was at hand
        when its turns were removed (None: as it is stored); and with the reference to these."""
        preface = ""
        if self.strategy.preface == "system":
            known = at_hand or await self.read(transcript.snapshot_of, summary.origin)
            preface = note(known) if known is not None else ""
        where = KEPT.format(kept) if kept else ""
        return self._preface_with(summary.text, preface, where, is_untrusted=summary.is_untrusted)

    def _preface_with(self, *texts: str, is_untrusted: bool = False) -> Preface:
        whole = "\n\n".join(filter(None, texts))
        return Preface(whole, self._services.meter.count(wrap_summary(whole)), is_untrusted)


def with_entries(turns: tuple[Turn, ...], entries: Sequence[Entry]) -> tuple[Turn, ...]:
    """Return the turns with entries added at the end."""
    grown = list(turns)
    for number, added in groupby(entries, key=lambda entry: entry.turn):
        if grown and grown[-1].number == number:
            grown[-1] = grown[-1].plus(*added)
        else:
            grown.append(Turn(number, tuple(added)))
    return tuple(grown)
