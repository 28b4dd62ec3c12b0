"""The state of each turn: in context, and in which form; or removed, and by what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from channels.language import _
from memory.context import forms
from memory.context.view import View
from memory.turns import Turn
from plugins.builtin.context.values import sentence_about

IN_PLAY, RUNNING, PINNED = "in context", "running", "pinned"
SQUEEZED, CLIPPED, STUBBED = "shortened", "clipped", "tool results shortened"
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


class TurnStates(Struct, frozen=True):
    """The states of all turns of a conversation. `in_context` has the whole turns in context by
    their numbers."""

    view: View
    in_context: Mapping[int, Turn]

    def of(self, number: int) -> tuple[str, ...]:
        """Return a turn's states, the most important first."""
        if number in self.in_context:
            return self._find_labels(self.in_context[number])
        form = self.view.layout.form(number)
        return (_GONE_BY[form.of] if form.kind == "gone" else _STATES.get(form.kind, GONE),)

    def all_states(self, newest: int) -> list[tuple[str, ...]]:
        """Return the states of all turns up to this one, t1 first."""
        return [self.of(number) for number in range(1, newest + 1)]

    def _find_labels(self, whole: Turn) -> tuple[str, ...]:
        layout = self.view.layout
        is_squeezed = layout.form(whole.number).kind == "squeezed"
        signs = {
            RUNNING: whole.number == self.view.current,
            PINNED: whole.number in layout.pinned,
            SQUEEZED: is_squeezed and whole.squeezed != whole.entries,
            CLIPPED: any(entry.seq in layout.clipped for entry in whole.entries),
            STUBBED: any(entry.seq in layout.stubbed for entry in whole.entries),
        }
        return tuple(sign for sign, holds in signs.items() if holds) or (IN_PLAY,)


_STATES: Mapping[str, str] = {"line": LOGGED, "summary": SUMMARISED, "range": SUMMARISED}
_GONE_BY = {
    forms.ASIDE: GONE,
    forms.DROPPED: DROPPED,
    forms.CLEARED: CLEARED,
    forms.ROLLED: SUMMARISED,
}


def states(view: View) -> TurnStates:
    """Return the states of the turns of a view."""
    return TurnStates(view, {turn.number: turn for turn in view.whole})


def refuse_removed(numbers: Sequence[int]) -> str:
    """Return the refusal of a change to turns that are not in context."""
    return sentence_about(
        numbers,
        "{turns} is not in context (see /context turns); nothing was changed.",
        "{turns} are not in context (see /context turns); nothing was changed.",
    )


def name_states(states: Iterable[str]) -> str:
    """Return a turn's states on one line."""
    return ", ".join(map(_, states))
