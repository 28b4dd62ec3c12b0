"""Parts of the context that cannot leave and are over a limit by themselves, so that nothing leaves
by that limit."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from memory.context.limits import Limits
from memory.context.plan import can_help, count_staying, is_filled_by_pins
from memory.context.view import View
from memory.turns import format_turns

Stuck = Literal["", "turns", "pins", "prompt"]
THRESHOLDS = {
    "trim": "agent_max_context_tokens",
    "truncate": "context.compression_trigger",
    "summarize": "context.compression_trigger",
    "structured": "context.trigger_ratio",
}
"""The setting by which turns leave, of those strategies that go by tokens."""


def find_stuck(view: View, limits: Limits) -> Stuck:
    """Return whether pins are over a limit, by their number or their size, or the system prompt and
    the tools are. A running turn is soon over."""
    is_small = view.tokens + limits.summary_tokens < limits.threshold
    if is_small and not view.layout.pinned:
        return ""  # nearly always
    if is_filled_by_pins(view, limits):
        return "turns"
    over = _when_over(view)
    if limits.strategy not in THRESHOLDS or not limits.threshold:
        return ""  # of 0, whatever leaves is a help
    if can_help(over, limits, limits.threshold):
        return ""
    free = replace(over, layout=replace(view.layout, pinned=frozenset()))
    return "pins" if can_help(free, limits, limits.threshold) else "prompt"


def is_over(view: View, limits: Limits) -> bool:
    """Return whether turns would leave by a limit, if they could."""
    return limits.has_too_many(len(view.turns)) or view.tokens >= limits.threshold


def explain_stuck(view: View, limits: Limits) -> str:
    """Return what is over a limit, and what to do, in a sentence for the person; "" where nothing
    is."""
    stuck = find_stuck(view, limits)
    if not stuck:
        return ""
    if stuck == "turns":
        return (
            f"The pinned turns fill the limit of {limits.max_turns} turns, so it removes no turn "
            "any more. Unpin some with `/context unpin`, or raise `agent_max_context_turns`."
        )
    setting, threshold = THRESHOLDS[limits.strategy], limits.threshold
    size = count_staying(_when_over(view))
    if stuck == "pins":
        turns = format_turns(sorted({t.number for t in view.turns} & view.layout.pinned))
        return (
            f"`{setting}` compacts at {threshold:,} tokens, but what must stay has {size:,} "
            f"already, with the pinned {turns}. So nothing else is compacted either: unpin some "
            "with `/context unpin`, or raise the limit."
        )
    return (
        f"`{setting}` compacts at {threshold:,} tokens, but the system prompt and the tools "
        "already fill that. So nothing is compacted before the model's window is full; `/context` "
        "says what to change."
    )


def _when_over(view: View) -> View:
    """Return the view without the running turn."""
    return replace(view, turns=view.complete)
