"""The sum of a conversation's events: which of them hold, what they add up to, and which of them
hold in a branch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from memory.context.change import Kind, ViewEvent
from memory.context.layout import Layout, TakenAway

_VIEW: tuple[Kind, ...] = ("view", "text", "edit", "setting")  # kinds that a layout is made of
_OF_PEOPLE: tuple[Kind, ...] = ("view", "edit")  # kinds that an undo may take back


def list_effective(events: Iterable[ViewEvent]) -> list[ViewEvent]:
    """Return the events that hold: those that were not undone. A summary that came late, and the
    edit of one, hold as long as the event does whose turns it is of."""
    undone: set[int] = set()
    others: list[ViewEvent] = []
    for event in events:
        if event.kind == "undo":
            undone.add(event.target)
        elif event.kind == "redo":
            undone.discard(event.target)
        else:
            others.append(event)
    return [e for e in others if e.id not in undone and not _is_void(e, undone)]


def _is_void(event: ViewEvent, undone: set[int]) -> bool:
    of = event.change.texts or ({event.continued} - {0})
    return event.kind in ("text", "edit") and bool(of) and undone.issuperset(of)


def undoable(events: Iterable[ViewEvent]) -> list[ViewEvent]:
    """Return the events that `/context undo` can take back, oldest first: a late summary goes with
    its event, a change of strategy or of the prompt with the setting, and a no to a cut lapses."""
    return [event for event in list_effective(events) if event.kind in _OF_PEOPLE]


def newest_move(events: Sequence[ViewEvent], *, are_all: bool) -> ViewEvent | None:
    """Return the last of those that is no pin. Where `events` are the newest only, None as well if
    it takes the older ones to tell."""
    held = (e for e in reversed(undoable(events)) if e.name not in ("pin", "unpin"))
    last = next(held, None)
    is_open = (
        last is not None
        and last.kind == "edit"
        and min(last.change.texts, default=0) < events[0].id
    )
    return None if is_open and not are_all else last


def newest_undoable(events: Iterable[ViewEvent]) -> ViewEvent | None:
    """Return the event that `/context undo` takes back where none is named. A fold of `slim`
    belongs to its settings, so it comes last; otherwise every turn would hide the event before it.
    """
    found = undoable(events)
    return next((e for e in reversed(found) if e.name != "fold"), found[-1] if found else None)


def redoable(events: Sequence[ViewEvent]) -> ViewEvent | None:
    """Return the event that `/context redo` would bring back: the last event undone, as long as
    nothing else has changed the view since."""
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
    and `compaction` the id of the newest compaction (0: none), whether they hold or not.
    """

    layout: Layout = field(default_factory=Layout)
    move: ViewEvent | None = None
    compaction: int = 0

    @property
    def taken_away(self) -> TakenAway:
        return self.layout.taken_away

    def after(self, event: ViewEvent, strategy: str) -> ReplayedState:
        """Return the state after one more event, which holds and takes none back.

        What a person, a rule of theirs or an emergency did always holds; what the strategy in
        force did by itself holds only while it is in force.
        """
        layout = self.layout
        if _applies(event, strategy) and event.kind in _VIEW:
            layout = layout.apply(event.change, event.id, is_edit=_is_edit(event))
        return ReplayedState(
            layout,
            event if event.kind == "hold" or _moves(event) else self.move,
            event.id if event.kind == "view" and event.name == "compact" else self.compaction,
        )


def _applies(event: ViewEvent, strategy: str) -> bool:
    return event.actor != "strategy" or event.strategy == strategy


def _is_edit(event: ViewEvent) -> bool:
    """Return whether the texts of an event are a person's choice of a summary's text."""
    return event.kind == "edit" or (event.kind == "view" and event.name == "expand")


def _moves(event: ViewEvent) -> bool:
    return event.kind == "view" and event.name not in ("pin", "unpin")


def is_move(event: ViewEvent, events: Iterable[ViewEvent]) -> bool:
    """Return whether an event removed turns or brought them back; an undo or a redo is what it
    is of."""
    if event.kind in ("undo", "redo"):
        return any(e.id == event.target and _moves(e) for e in events)
    return event.kind == "hold" or _moves(event)


def replay(events: Sequence[ViewEvent], strategy: str) -> ReplayedState:
    """Return the state that these events, all of a conversation and oldest first, add up to under a
    strategy."""
    result = ReplayedState()
    effective = list_effective(events)
    holds = {event.id for event in effective if _applies(event, strategy)}
    links = {event.id: event.continued for event in events if event.continued}
    for event in effective:
        before = event.continued
        while before and before not in holds:  # what it continued is not in force
            before = links.get(before, 0)
        if before != event.continued:
            event = replace(event, change=replace(event.change, after=before))
        result = result.after(event, strategy)
    newest = reversed(events)
    return replace(
        result,
        move=next((event for event in newest if is_move(event, events)), None),
        compaction=max(
            (e.id for e in events if e.name == "compact" and e.kind == "view"), default=0
        ),
    )


# --- in a branch ----------------------------------------------------------------------------------

# A question that is asked again goes on in a branch that begins before it. What a person pinned,
# dropped, cut or taken back since holds there, too; a strategy plans anew what it did by itself.


def find_steering(
    later: Sequence[ViewEvent], shared: Collection[int], turn: int
) -> list[ViewEvent]:
    """Return the events that a branch has besides the `shared` (by id), which begins after `turn`:
    those of the `later` by which a person has changed what is seen of the turns up to it, with
    those that they took back or brought back, in order."""
    judged = {event.target for event in later if event.kind in ("undo", "redo")}
    known, found = set(shared), list[ViewEvent]()
    for event in later:
        is_a_persons = event.actor == "person" and event.kind not in ("setting", "prompt")
        is_late_summary = event.kind == "text"
        if not (is_a_persons or is_late_summary or event.id in judged):
            continue
        if not event.named <= known:
            continue  # it speaks of what the branch does not have
        if limit(event, turn) is not None:
            known.add(event.id)
            found.append(event)
    return found


def limit(event: ViewEvent, turn: int, seq: int | None = None) -> ViewEvent | None:
    """Return the event as a branch has it that shares the turns up to `turn`, and the entries up to
    `seq`; None where it says nothing of these, or where its summary tells of later ones."""
    change = event.change
    makes = change.makes("summary") or change.makes("range")
    if makes and any(number > turn for number in event.leaving):
        return None
    limited = change.up_to(turn, seq)
    if event.kind == "view" and limited.forms == () and not (limited.pin or limited.unpin):
        return None
    leaving = tuple(number for number in event.leaving if number <= turn)
    return replace(event, change=limited, turn=min(event.turn, turn), leaving=leaving)
