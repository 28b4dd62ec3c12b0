"""`structured` (AgentScope): at `trigger_ratio` of the window all but `reserve_ratio` of it leaves.

Checked before every step. What leaves is summarised in five fields; a tenth of the window stays
free for that call, since the trigger is at most 0.9. The running turn is always kept.
"""

from __future__ import annotations

from itertools import accumulate

from memory.context.limits import Limits
from memory.context.plan import Plan
from memory.context.strategies.split import safe_split, split_at
from memory.context.view import View
from memory.turns import Entry


def plan(view: View, limits: Limits) -> Plan | None:
    """Nothing below the threshold, which is the ceiling where that is lower: in a small window the
    room for the reply takes more than a fifth."""
    threshold = min(round(limits.trigger_ratio * limits.window), limits.ceiling)
    if view.tokens < threshold:
        return None
    why = (
        f"{view.tokens:,} tokens were at or over {limits.trigger_ratio:g} of the window of "
        f"{limits.window:,}"
    )
    entries = [entry for turn in view.turns for entry in turn.entries]
    reserve = limits.reserve_ratio * limits.window
    return split_at(view, safe_split(entries, _first_within(view, entries, reserve)), why)


def _first_within(view: View, entries: list[Entry], reserve: float) -> int:
    """The index of the first of the newest messages that together hold at most `reserve` tokens."""
    sizes = accumulate(entry.tokens for entry in reversed(entries))
    return len(entries) - sum(view.scale.part(size) <= reserve for size in sizes)
