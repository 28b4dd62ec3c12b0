"""A summary of any turns in the middle, which takes their place. Pure."""

from __future__ import annotations

from collections.abc import Collection

from memory.context.change import Change
from memory.context.compaction import ASKED, Planner
from memory.context.forms import RANGE, give
from memory.context.limits import Limits
from memory.context.plan import Plan
from memory.context.view import View


def summarise(numbers: Collection[int], focus: str = "") -> Planner:
    """All complete turns of these that are in context leave, but for pinned ones. A summary that
    stands for one of them goes into the new one with all that it stands for."""

    def plan(view: View, limits: Limits) -> Plan | None:
        del limits
        wanted = frozenset(numbers)
        turns = [turn for turn in view.movable if turn.number in wanted]
        swallowed = [one for one in view.loose if not wanted.isdisjoint(one.turns)]
        if len(turns) + len(swallowed) < (1 if turns else 2):
            return None  # one summary alone is what it would become again
        gone = {turn.number for turn in turns}.union(*(one.turns for one in swallowed))
        leaving = tuple(sorted(gone))
        change = Change(give(leaving, RANGE))
        why = f"{ASKED}: {focus}" if focus else ASKED
        return Plan(change, why, leaving, view.apply(change).tokens, focus=focus)

    return plan
