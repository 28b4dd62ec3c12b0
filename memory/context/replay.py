"""The sum of a conversation's events: which of them hold, and what they add up to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from memory.context.change import Boundaries, Change, ViewEvent


def list_effective(events: Iterable[ViewEvent]) -> list[ViewEvent]:
    """Return the events that hold: those that change the view and were not undone. An injection
    holds as long as the event does whose summary it brought, and so does the edit of that."""
    undone: set[int] = set()
    changes: list[ViewEvent] = []
    for event in events:
        if event.kind == "undo":
            undone.add(event.change.target)
        elif event.kind == "redo":
            undone.discard(event.change.target)
        else:
            changes.append(event)
    return [e for e in changes if e.id not in undone and not _is_void(e, undone)]


def _is_void(event: ViewEvent, undone: Collection[int]) -> bool:
    return event.kind in ("inject", "edit") and event.change.target in undone


_BY_THE_WAY = ("inject", "hold", "rebase", "reframe", "unfold")


def undoable(events: Iterable[ViewEvent]) -> list[ViewEvent]:
    """Return the events that `/context undo` can take back, oldest first: an injection goes with
    its cut, a change of strategy or of the prompt with the setting, and a no to a cut lapses."""
    return [event for event in list_effective(events) if event.kind not in _BY_THE_WAY]


def newest_move(events: Sequence[ViewEvent], *, are_all: bool) -> ViewEvent | None:
    """Return the last of those that is no pin. Where `events` are the newest only, None as well if
    it takes the older ones to tell."""
    held = (e for e in reversed(undoable(events)) if e.kind not in ("pin", "unpin"))
    last = next(held, None)
    is_open = last is not None and last.kind == "edit" and last.change.target < events[0].id
    return None if is_open and not are_all else last


def newest_undoable(events: Iterable[ViewEvent]) -> ViewEvent | None:
    """Return the event that `/context undo` takes back where none is named. A fold of `slim`
    belongs to its settings, so it comes last; otherwise every turn would hide the event before it.
    """
    found = undoable(events)
    return next((e for e in reversed(found) if e.kind != "fold"), found[-1] if found else None)


def redoable(events: Sequence[ViewEvent]) -> ViewEvent | None:
    """Return the event that `/context redo` would bring back: the last event undone, as long as
    nothing else has changed the view since."""
    stack: list[int] = []
    for event in events:
        if event.kind == "undo":
            stack.append(event.change.target)
        elif event.kind == "redo":
            stack.remove(event.change.target)
        elif event.kind not in _BY_THE_WAY:
            stack.clear()
    return next((event for event in events if stack and event.id == stack[-1]), None)


class TakenAway(Struct, frozen=True):
    """The turns that a person removed: those before the seq `cleared`, and the turns `dropped` (by
    `/undo`, `/retry` and `/context drop`). It is out of the model's reach everywhere, and in no
    summary, until the person brings it back, who goes on finding it."""

    cleared: int = 0
    dropped: frozenset[int] = frozenset()

    def has(self, seq: int, turn: int) -> bool:
        return seq < self.cleared or turn in self.dropped


NOTHING_AWAY = TakenAway()


class ReplayedState(Struct, frozen=True):
    """The sum of all events of a conversation while one strategy is in force: all that a request
    needs to know of them, so that it costs the same however many there are.

    `cut` is the newest event that holds and by which a summary replaced turns (None: a clear came
    after it), `is_injected` says whether that summary came late and was put in front. `move` is the
    newest event by which turns were removed, or an undo or redo of one, and `compaction` the id of
    the newest compaction (0: none), whether they hold or not. `cleared`: nothing from this seq on
    was cleared by a person; what comes before it was in context at a clear that holds, or was
    removed before that. `reached` is the farthest that any strategy has cut. `edited` is the id of
    the summary by which a person has replaced that of `cut`, by an edit or an expansion (0: none).
    """

    boundaries: Boundaries = field(default_factory=Boundaries)
    cut: ViewEvent | None = None
    is_injected: bool = False
    move: ViewEvent | None = None
    compaction: int = 0
    cleared: int = 0
    reached: int = 0
    edited: int = 0

    @property
    def taken_away(self) -> TakenAway:
        return TakenAway(self.cleared, self.boundaries.dropped)

    def after(self, event: ViewEvent, strategy: str) -> ReplayedState:
        """Return the state after one more event, which holds and takes none back.

        What a person, a rule of theirs or an emergency did always holds; what the strategy in
        force did by itself holds only while it is in force.
        """
        change = event.change
        applies = event.actor != "strategy" or event.strategy == strategy
        is_edit = event.kind == "edit"
        is_of_cut = self.cut is not None and change.target == self.cut.id
        if is_edit and change.stand_in is None and not is_of_cut:
            return self  # of what does not stand while this strategy is in force
        reached = max(self.reached, change.cut, change.folded.cut if change.folded else 0)
        cut = self.cut
        if event.kind in ("clear", "new"):
            cut = None
        elif event.kind == "expand" and change.preface:  # the next continues the summary before
            cut = replace(event, id=change.target) if change.target else None
        elif change.stand_in is not None:
            change = _name_stand_in(event)  # whose summary stands in its place, and continues none
        elif event.leaving and applies and event.kind not in ("fold", "unfold"):
            cut = event  # a fold's turns go to the daily memory as lines, and stand in no summary
        is_put = event.kind in ("edit", "expand") and change.preface > 0 and cut is not None
        is_late = is_put or (event.kind == "inject" and bool(change.preface))
        is_injection = is_late and cut is not None and change.target == cut.id
        edited = self.edited if cut is self.cut else 0
        return ReplayedState(
            self.boundaries.apply(change) if applies else self.boundaries,
            cut,
            is_injection or (self.is_injected and cut is self.cut),
            event if event.kind in _MOVES else self.move,
            event.id if event.kind == "compact" else self.compaction,
            reached if event.kind == "clear" else self.cleared,
            reached,
            change.preface if is_put else edited,
        )


_MOVES = (
    *("compact", "squeeze", "clip", "stub", "fold", "restart", "new", "clear", "drop", "expand"),
    *("hold", "undo", "redo"),
)


def _name_stand_in(event: ViewEvent) -> Change:
    """Return the change of an event whose turns a summary stands for, which knows its event."""
    new = event.change.stand_in
    if new is None or not new.turns:
        return event.change
    return replace(event.change, stand_in=replace(new, event=event.id))


def is_move(event: ViewEvent, events: Iterable[ViewEvent]) -> bool:
    """Return whether an event removed turns or brought them back; an undo or a redo is what it
    speaks of."""
    if event.kind in ("undo", "redo"):
        return any(e.id == event.change.target and e.kind in _MOVES for e in events)
    return event.kind in _MOVES


def replay(events: Sequence[ViewEvent], strategy: str) -> ReplayedState:
    """Return the state that these events, all of a conversation and oldest first, add up to under a
    strategy."""
    result = ReplayedState()
    for event in list_effective(events):
        result = result.after(event, strategy)
    newest = reversed(events)
    return replace(
        result,
        move=next((event for event in newest if is_move(event, events)), None),
        compaction=max((e.id for e in events if e.kind == "compact"), default=0),
    )
