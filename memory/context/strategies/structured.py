"""`structured` (AgentScope): at `trigger_ratio` of the window all but `reserve_ratio` of it leaves.

Checked before every step. What leaves is summarised in five fields; a tenth of the window stays
free for that call, since the trigger is at most 0.9. The running turn is always kept, and counts
towards the reserve. Where keeping the reserve would not help, nothing is reserved.
"""

from __future__ import annotations

from itertools import accumulate

from memory.context.limits import Limits
from memory.context.plan import Plan, can_help
from memory.context.strategies.split import split_at
from memory.context.view import View


def plan(view: View, limits: Limits) -> Plan | None:
    """Nothing below the threshold, which is the ceiling where that is lower: in a small window the
    room for the reply takes more than a fifth."""
    trigger = round(limits.trigger_ratio * limits.window)
    threshold = min(trigger, limits.ceiling)
    if view.tokens < threshold or not can_help(view, limits, threshold):
        return None
    share = f"{limits.trigger_ratio:g} of the window of {limits.window:,}"
    if limits.ceiling < trigger:
        share = f"{threshold:,}, what the window of {limits.window:,} holds besides the reply"
    why = f"{view.tokens:,} tokens were at or over {share}"
    kept = split_at(view, _split(view, limits.reserve_ratio * limits.window), why)
    if kept is not None and kept.tokens_after < threshold:
        return kept
    return split_at(view, _split(view, 0), why)


def _split(view: View, reserve: float) -> int:
    """The index of the first of the newest messages that together hold at most `reserve` tokens;
    of a call and its results, all or none."""
    entries = [entry for turn in view.turns for entry in turn.entries]
    sizes = accumulate(entry.tokens for entry in reversed(entries))
    index = len(entries) - sum(view.scale.part(size) <= reserve for size in sizes)
    while 0 < index < len(entries) and entries[index].message.role in ("tool", "note"):
        index += 1
    return index
