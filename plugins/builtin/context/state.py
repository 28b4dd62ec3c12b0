"""The place of each turn: in play, and how; or gone, and by what. And turns as a person names them:
"t3-t5 t9"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from channels.language import _, explain
from memory.context.change import ViewEvent
from memory.context.replay import list_effective
from memory.context.view import View
from memory.turns import Turn, turn_number
from plugins.api import CommandError
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
    """The states while `strategy` is in force."""
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


_LONGEST = 20  # characters of a turn's name
_RANGE = r"t\d+(?:[-–]t?\d+|\s+[-–]\s+t\d+|[-–])?"
_RANGES = re.compile(rf"{_RANGE}(?:[\s,]+{_RANGE})*(?=[\s,:]|$)", re.IGNORECASE)


def turns_of(text: str, newest: int) -> tuple[int, ...]:
    """ "t3-t5, t9" -> (3, 4, 5, 9), and "t9-" up to the newest; `newest` is the number of the
    newest turn there is.

    Raises CommandError with a sentence for what is no turn, or none that there is.
    """
    words = re.sub(r"\s*[-–]\s*", "-", text).replace(",", " ").split()
    numbers = {number for word in words for number in _range(word, newest)}
    return tuple(sorted(numbers))


def split_turns(text: str, newest: int) -> tuple[tuple[int, ...], str]:
    """Return the turns that a text begins with, each written with its t, and the words behind them.

    Raises CommandError as `turns_of` does.
    """
    found = _RANGES.match(text.strip())
    if found is None:
        return (), text.strip()
    return turns_of(found[0], newest), text.strip()[found.end() :].strip(" \t\n,:")


def _range(word: str, newest: int) -> range:
    first, is_range, last = word.partition("-")
    start = _turn(first, newest)
    end = _turn(last, newest) if last else newest if is_range else start
    if end < start:
        raise CommandError(
            _("{word} is backwards; write t{end}-t{start}.", word=word, end=end, start=start)
        )
    return range(start, end + 1)


def _turn(word: str, newest: int) -> int:
    try:
        number = turn_number(word if len(word) <= _LONGEST else f"{word[:_LONGEST]}…")
    except ValueError as error:
        raise CommandError(_("Nothing was done: {error}", error=explain(str(error)))) from None
    if number > newest:
        there_are = (
            _("the newest is t{newest}", newest=newest)
            if newest
            else _("nothing has been said yet")
        )
        raise CommandError(
            _("There is no turn t{number}; {there_are}.", number=number, there_are=there_are)
        )
    return number


def ids(numbers: tuple[int, ...]) -> list[str]:
    """Turns as data names them."""
    return [f"t{number}" for number in numbers]


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
