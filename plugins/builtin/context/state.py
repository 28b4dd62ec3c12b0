"""The place of each turn: in play, and how; or gone, and by what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from channels.language import _
from memory.context.change import ViewEvent
from memory.context.replay import list_effective
from memory.context.view import View
from memory.turns import Turn
from plugins.wording import format_turns

IN_PLAY, RUNNING, PINNED = "in play", "running", "pinned"
SQUEEZED, CLIPPED, STUBBED = "squeezed", "clipped", "results as stubs"
LOGGED, SUMMARISED, CLEARED = "in the log", "summarised", "cleared"
DROPPED, GONE = "dropped", "gone"
STATES = (
    RUNNING,
    PINNED,
    IN_PLAY,
    SQUEEZED,
    CLIPPED,
    STUBBED,
    LOGGED,
    SUMMARISED,
    CLEARED,
    DROPPED,
    GONE,
)


class States(Struct, frozen=True):
    """The states of all turns of a conversation; `moves` are the events that hold, in order, and
    `in_play` the turns in play, whole, by their numbers."""

    view: View
    moves: tuple[ViewEvent, ...]
    in_play: Mapping[int, Turn]

    def of(self, number: int) -> tuple[str, ...]:
        """Return a turn's states, the one that says most first."""
        if number in self.in_play:
            return self._find_labels(self.in_play[number])
        if number in self.view.logged:
            return (LOGGED,)
        state = GONE
        for move in self.moves:
            state = _after(move, number, state)
        return (state,)

    def of_all(self, newest: int) -> list[tuple[str, ...]]:
        """Return the states of all turns up to this one, t1 first; each event is looked at once."""
        gone = [GONE] * (newest + 1)
        for move in self.moves:
            is_sweep = move.kind in ("new", "clear")
            touched = range(1, move.turn + 1) if is_sweep else {*move.change.drop, *move.leaving}
            for number in touched:
                if number <= newest:
                    gone[number] = _after(move, number, gone[number])
        known = self.in_play.keys() | set(self.view.logged)
        return [self.of(n) if n in known else (gone[n],) for n in range(1, newest + 1)]

    def _find_labels(self, whole: Turn) -> tuple[str, ...]:
        bounds = self.view.boundaries
        signs = {
            RUNNING: whole.number == self.view.current,
            PINNED: whole.number in bounds.pinned,
            SQUEEZED: whole.number in bounds.squeezed and whole.squeezed != whole.entries,
            CLIPPED: any(entry.seq in bounds.clipped for entry in whole.entries),
            STUBBED: any(entry.seq in bounds.stubbed for entry in whole.entries),
        }
        return tuple(sign for sign, holds in signs.items() if holds) or (IN_PLAY,)


def states(view: View, events: Sequence[ViewEvent], strategy: str) -> States:
    """Return the states while `strategy` is in force."""
    held = [e for e in list_effective(events) if e.actor != "strategy" or e.strategy == strategy]
    return States(view, tuple(held), {turn.number: turn for turn in view.whole})


def _after(event: ViewEvent, number: int, state: str) -> str:
    """Return the state of a turn that is gone, after one more event."""
    if number in event.change.drop:
        return DROPPED
    if event.kind == "new" and number <= event.turn and state in (GONE, SUMMARISED):
        return GONE  # no summary stands in the context for it
    if number in event.leaving:
        return CLEARED if event.kind == "clear" else SUMMARISED
    is_swept = event.kind == "clear" and number <= event.turn and state == SUMMARISED
    return CLEARED if is_swept else state  # its summary left the context, too


def say_of(numbers: Sequence[int], one: str, many: str, **values: Any) -> str:
    """Return a sentence about these turns: `say_of((3,), "{turns} is pinned.", "{turns} are
    pinned.")`."""
    return _(one if len(numbers) == 1 else many, turns=format_turns(numbers), **values)


def say_gone(numbers: Sequence[int]) -> str:
    """Return why nothing is done to turns that are not in play."""
    return say_of(
        numbers,
        "{turns} is not in play (see /context turns); nothing was changed.",
        "{turns} are not in play (see /context turns); nothing was changed.",
    )


def name_states(states: Iterable[str]) -> str:
    """Return a turn's states in a line."""
    return ", ".join(map(_, states))
