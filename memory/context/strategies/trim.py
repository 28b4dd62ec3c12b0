"""`trim` (CowAgent): turns over the limit make the oldest half of the complete ones leave."""

from __future__ import annotations

from memory.context.change import Change
from memory.context.limits import Limits
from memory.context.plan import Plan
from memory.context.view import View, with_boundaries
from memory.turns import Turn


def plan(view: View, limits: Limits) -> Plan | None:
    """The cut that is due, or None.

    The running turn counts towards the limit and is never cut; half rounds down (of 21 turns, t1 to
    t10 leave); pinned turns stay. Repeated until the limit holds, as after a limit was lowered.
    """
    leaving = _leaving(view, limits)
    if not leaving:
        return None
    change = cut_of(view, leaving)
    after = with_boundaries(view, view.boundaries.moved_by(change))
    why = f"{len(view.turns)} turns are over the limit of {limits.max_turns}"
    return Plan(change, why, tuple(turn.number for turn in leaving), after.tokens)


def cut_of(view: View, leaving: list[Turn]) -> Change:
    """The change that makes exactly these turns leave."""
    gone = {turn.number for turn in leaving}
    cut = max(turn.entries[-1].seq for turn in leaving) + 1
    keep = {t.number for t in view.turns if t.number not in gone and t.entries[0].seq < cut}
    return Change(cut=cut, keep=frozenset(keep))


def _leaving(view: View, limits: Limits) -> list[Turn]:
    turns = len(view.turns)
    movable = [t for t in view.complete if t.number not in view.boundaries.pinned]
    leaving: list[Turn] = []
    while turns > limits.max_turns and len(movable) >= 2:
        half = len(movable) // 2
        leaving += movable[:half]
        movable = movable[half:]
        turns -= half
    return leaving
