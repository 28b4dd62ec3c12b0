"""The context of a conversation in one line's worth of numbers."""

from __future__ import annotations

from agent.models import embedded
from channels.base import ContextUsage
from memory.context_state import ContextState


def usage_of(context: ContextState) -> ContextUsage:
    """Return the figures for the terminal's bar and `/context`; `max_turns` is 0 where turns have
    no limit."""
    limits = context.limits
    view = context.view(limits=limits)
    bill = context.bill
    return ContextUsage(
        tokens=view.tokens,
        max_tokens=limits.budget,
        turns=len(view.turns),
        max_turns=limits.max_turns if limits.strategy == "trim" else 0,
        cost=None if bill.unknown else bill.cost,
        is_measured=view.scale.is_measured,
        model=shown_name(limits.model),
    )


def shown_name(model: str) -> str:
    """Return a model's name as people are shown it."""
    return embedded.SHOWN if model == embedded.NAME else model
