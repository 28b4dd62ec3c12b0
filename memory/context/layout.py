"""The layout: the form of each turn, and how messages are shown; and the sum of a conversation's
events: which of them hold, what they add up to, and which of them hold in a branch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct, field
from msgspec.structs import replace

from memory.context.change import Change, Clip, Kind, ShortenedLog, ViewEvent
from memory.context.forms import (
    CLEARED,
    DROPPED,
    OWN,
    RANGE,
    SHOWN,
    SUMMARY,
    WHOLE,
    FormKind,
    Forms,
    FormSpan,
    TurnForm,
    overlay,
    turns_of,
)


class RangeSummary(Struct, frozen=True):
    """A summary that is sent in place of its `turns`, in ascending order. `event` is the event that
    removed them, `summary` the id of their summary, 0 while it is being written."""

    turns: tuple[int, ...]
    event: int
    summary: int = 0


class RemovedTurns(Struct, frozen=True, dict=True):
    """The turns that a person removed (`/context clear`, `/undo`, `/retry`, `/context drop`). The
    model can't reach them anywhere, and no summary has them, until the person brings them back. The
    person can still find them."""

    spans: tuple[tuple[int, int], ...] = ()

    def has(self, turn: int) -> bool:
        place = bisect_right(self._firsts, turn) - 1
        return place >= 0 and turn <= self.spans[place][1]

    @cached_property
    def _firsts(self) -> list[int]:
        return [first for first, _ in self.spans]


NO_REMOVED_TURNS = RemovedTurns()


class Layout(Struct, frozen=True, dict=True):
    """The form of each turn, and the display of messages: the sum of changes. `texts` are the
    summaries that are shown, and `after` the events that they continue, by the event that removed
    their turns; `edited` are the events whose summary a person has replaced."""

    forms: Forms = ()
    clipped: Mapping[int, Clip] = field(default_factory=dict)
    stubbed: Mapping[int, int] = field(default_factory=dict)
    pinned: frozenset[int] = frozenset()
    texts: Mapping[int, int] = field(default_factory=dict)
    after: Mapping[int, int] = field(default_factory=dict)
    edited: frozenset[int] = frozenset()
    reference: str = ""
    folded: int = 0
    rolled: ShortenedLog = ShortenedLog()

    def apply(self, change: Change, event: int = OWN, *, is_edit: bool = False) -> Layout:
        """Return this layout after one more change, of the event with this id."""
        forms = change.forms
        if event:
            forms = tuple(FormSpan(s.first, s.last, _of(s.form, event)) for s in forms)
        texts, after, edited = self.texts, self.after, self.edited
        if change.texts:
            shown = {slot or event: text for slot, text in change.texts.items()}
            texts = {**texts, **shown}
            edited = edited | shown.keys() if is_edit else edited
        if change.makes("summary") or change.makes("range"):
            after = {**after, event: change.after}
        there = overlay(self.forms, forms)
        if change.forms or change.texts:
            needed = _find_summaries(there, texts, after)
            texts = {slot: text for slot, text in texts.items() if slot in needed}
            after = {slot: before for slot, before in after.items() if slot in needed}
            edited &= needed
        return Layout(
            there,
            {**self.clipped, **change.clip} if change.clip else self.clipped,
            {**self.stubbed, **change.stub} if change.stub else self.stubbed,
            (self.pinned - change.unpin) | change.pin,
            texts,
            after,
            edited,
            self.reference if change.reference is None else change.reference,
            self.folded if change.folded is None else change.folded,
            change.rolled or self.rolled,
        )

    def form(self, turn: int) -> TurnForm:
        """Return the form of a turn."""
        place = bisect_right(self._firsts, turn) - 1
        is_given = place >= 0 and turn <= self.forms[place].last
        return self.forms[place].form if is_given else WHOLE

    @cached_property
    def _firsts(self) -> list[int]:
        return [span.first for span in self.forms]

    def shows(self, turn: int) -> bool:
        """Return whether a turn, or a part of it, is in context."""
        return self.form(turn).kind in SHOWN

    def spans(self, *kinds: FormKind) -> Iterator[tuple[int, int | None]]:
        """Yield the first and last turns of each run of neighbours that are in context or have a
        form of these kinds; the last run is open (None)."""
        first = 1
        for span in self.forms:
            if span.form.kind not in (*SHOWN, *kinds):
                if first < span.first:
                    yield first, span.first - 1
                first = span.last + 1
        yield first, None

    def turns(self, *kinds: FormKind) -> tuple[int, ...]:
        """Return the turns that have a form of these kinds, in order."""
        return turns_of(self.forms, *kinds)

    def turns_removed_by(self, by: int) -> frozenset[int]:
        """Return the turns that are gone for this reason."""
        return frozenset(turns_of(self.forms, "gone", of=by))

    @cached_property
    def front(self) -> int | None:
        """The event whose summary is the one in front; None if no turn is in one."""
        found = {*map(_front_of, (span.form for span in self.forms))} - {None}
        return OWN if OWN in found else max(filter(None, found), default=None)

    @cached_property
    def preface(self) -> int:
        """The id of the summary in front. While it is being written, the one that it continues; 0
        if there is none."""
        slot = self.front
        while slot is not None and slot not in self.texts:
            slot = self.after.get(slot) or None
        return 0 if slot is None else self.texts[slot]

    @cached_property
    def ranges(self) -> tuple[RangeSummary, ...]:
        """The range summaries, in the order in which they are sent."""
        found: dict[int, list[int]] = {}
        for first, last, form in self.forms:
            if form.kind == "range":
                found.setdefault(form.of, []).extend(range(first, last + 1))
        made = (RangeSummary(tuple(t), slot, self.texts.get(slot, 0)) for slot, t in found.items())
        return tuple(sorted(made, key=lambda one: one.turns[-1]))

    @cached_property
    def removed_turns(self) -> RemovedTurns:
        spans = (
            (first, last)
            for first, last, form in self.forms
            if form.kind == "gone" and form.of in (DROPPED, CLEARED)
        )
        return RemovedTurns(tuple(spans))


def _find_summaries(
    forms: Forms, texts: Mapping[int, int], after: Mapping[int, int]
) -> frozenset[int]:
    """Return the events whose summaries are needed to show these forms."""
    found: set[int] = set()
    for span in forms:
        slot = span.form.of if span.form.kind == "range" else _front_of(span.form)
        while slot is not None and slot not in found:
            found.add(slot)
            slot = None if slot in texts else after.get(slot) or None
    return frozenset(found)


def _of(form: TurnForm, event: int) -> TurnForm:
    """Return a form with the id of its event, which was not known before."""
    if form in (SUMMARY, RANGE):
        return TurnForm(form.kind, event)
    return TurnForm(form.kind, form.of, event) if form.by == OWN else form


def _front_of(form: TurnForm) -> int | None:
    """Return the event whose summary in front represents a turn of this form, or its beginning."""
    return form.of if form.kind == "summary" else form.by


# --- the sum of events ----------------------------------------------------------------------------

_VIEW: tuple[Kind, ...] = ("view", "text", "edit", "setting")  # kinds that form a layout
_OF_PEOPLE: tuple[Kind, ...] = ("view", "edit")  # kinds that an undo may revert


def list_effective(events: Iterable[ViewEvent]) -> list[ViewEvent]:
    """Return the events in force: those that were not undone. A late summary, and the edit of a
    summary, are in force as long as the event that removed their turns."""
    undone: set[int] = set()
    others: list[ViewEvent] = []
    for event in events:
        if event.kind == "undo":
            undone.add(event.target)
        elif event.kind == "redo":
            undone.discard(event.target)
        else:
            others.append(event)
    return [e for e in others if e.id not in undone and not _is_ineffective(e, undone)]


def _is_ineffective(event: ViewEvent, undone: set[int]) -> bool:
    of = event.change.texts or ({event.continued} - {0})
    return event.kind in ("text", "edit") and bool(of) and undone.issuperset(of)


def undoable(events: Iterable[ViewEvent]) -> list[ViewEvent]:
    """Return the events that `/context undo` can revert, oldest first. A late summary is reverted
    with its event, a change of strategy or of the prompt with the setting; a refused compaction
    expires."""
    return [event for event in list_effective(events) if event.kind in _OF_PEOPLE]


def newest_undoable(events: Iterable[ViewEvent]) -> ViewEvent | None:
    """Return the event that `/context undo` reverts if none is named. A fold of `slim` belongs to
    its settings, so it comes last; otherwise each turn would hide the event before it."""
    found = undoable(events)
    return next((e for e in reversed(found) if e.name != "fold"), found[-1] if found else None)


def redoable(events: Sequence[ViewEvent]) -> ViewEvent | None:
    """Return the event that `/context redo` would bring back: the last event undone, if nothing
    else has changed the view since."""
    stack: list[int] = []
    for event in events:
        if event.kind == "undo":
            stack.append(event.target)
        elif event.kind == "redo":
            stack.remove(event.target)
        elif event.kind in _OF_PEOPLE:
            stack.clear()
    return next((event for event in events if stack and event.id == stack[-1]), None)


class ReplayedState(Struct, frozen=True):
    """The sum of all events of a conversation while one strategy is in force: all that a request
    needs to know of them, so that it costs the same however many there are.

    `move` is the newest event by which turns were removed or came back, or an undo or redo of one,
    and `compaction` the id of the newest compaction (0: none), whether they hold or not. `last` is
    the newest event that holds and is no pin, and `can_undo` says whether an undo would find one.
    """

    layout: Layout = field(default_factory=Layout)
    move: ViewEvent | None = None
    compaction: int = 0
    last: ViewEvent | None = None
    can_undo: bool = False

    def after(self, event: ViewEvent, strategy: str) -> ReplayedState:
        """Return the state after one more event, which is in force and reverts no other.

        Changes by a person, a person's rule or an emergency are always in force; automatic changes
        of a strategy only while it is in force.
        """
        layout = self.layout
        if _applies(event, strategy) and event.kind in _VIEW:
            layout = layout.apply(event.change, event.id, is_edit=_is_edit(event))
        is_of_people = event.kind in _OF_PEOPLE
        is_last = is_of_people and event.name not in ("pin", "unpin")
        return ReplayedState(
            layout,
            event if event.kind == "hold" or _moves(event) else self.move,
            event.id if event.kind == "view" and event.name == "compact" else self.compaction,
            event if is_last else self.last,
            self.can_undo or is_of_people,
        )


def _applies(event: ViewEvent, strategy: str) -> bool:
    return event.actor != "strategy" or event.strategy == strategy


def _is_edit(event: ViewEvent) -> bool:
    """Return whether the texts of an event are a person's choice of a summary's text."""
    return event.kind == "edit" or (event.kind == "view" and event.name in ("expand", "drop"))


def _moves(event: ViewEvent) -> bool:
    return event.kind == "view" and event.name not in ("pin", "unpin")


def _is_move(event: ViewEvent, events: Iterable[ViewEvent]) -> bool:
    """Return whether an event removed turns or brought them back; an undo or a redo is treated as
    its target."""
    if event.kind in ("undo", "redo"):
        return any(e.id == event.target and _moves(e) for e in events)
    return event.kind == "hold" or _moves(event)


def replay(events: Sequence[ViewEvent], strategy: str) -> ReplayedState:
    """Return the state that results from these events, all of a conversation and oldest first,
    under a strategy."""
    result = ReplayedState()
    effective = list_effective(events)
    holds = {event.id for event in effective if _applies(event, strategy)}
    links = {event.id: event.continued for event in events if event.continued}
    for event in effective:
        before = event.continued
        while before and before not in holds:  # the continued event is not in force
            before = links.get(before, 0)
        if before != event.continued:
            event = replace(event, change=replace(event.change, after=before))
        result = result.after(event, strategy)
    newest = reversed(events)
    return replace(
        result,
        move=next((event for event in newest if _is_move(event, events)), None),
        compaction=max(
            (e.id for e in events if e.name == "compact" and e.kind == "view"), default=0
        ),
    )


# --- in a branch ----------------------------------------------------------------------------------

# A retried question continues in a branch that begins before it. Turns that a person has pinned,
# dropped, removed or restored since are so in the branch, too; automatic changes of a strategy are
# planned again.


def find_steering(
    later: Sequence[ViewEvent], shared: Collection[int], turn: int
) -> list[ViewEvent]:
    """Return the further events of a branch, besides the `shared` ones (by id), which begins after
    `turn`: those of the `later` events with which a person has changed the turns up to it, and
    those that they undid or redid, in order."""
    judged = {event.target for event in later if event.kind in ("undo", "redo")}
    known, found = set(shared), list[ViewEvent]()
    for event in later:
        is_a_persons = event.actor == "person" and event.kind not in ("setting", "prompt")
        is_late_summary = event.kind == "text"
        if not (is_a_persons or is_late_summary or event.id in judged):
            continue
        if not event.named <= known:
            continue  # it refers to something that the branch does not have
        if limit(event, turn) is not None:
            known.add(event.id)
            found.append(event)
    return found


def limit(event: ViewEvent, turn: int, seq: int | None = None) -> ViewEvent | None:
    """Return the event limited to a branch that shares the turns up to `turn`, and the entries up
    to `seq`; None if it does not affect these, or if its summary covers later ones."""
    change = event.change
    makes = change.makes("summary") or change.makes("range")
    if makes and any(number > turn for number in event.leaving):
        return None
    limited = change.up_to(turn, seq)
    if event.kind == "view" and limited.forms == () and not (limited.pin or limited.unpin):
        return None
    leaving = tuple(number for number in event.leaving if number <= turn)
    return replace(event, change=limited, turn=min(event.turn, turn), leaving=leaving)
