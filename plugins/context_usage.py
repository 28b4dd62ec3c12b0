"""The context usage of a conversation, as the figures of one line."""

from __future__ import annotations

from agent.models import embedded
from channels.base import ContextUsage
from memory.context_state import ContextState


def usage_of(context: ContextState) -> ContextUsage:
    """Return the figures for the terminal's bar and `/context`."""
    limits = context.limits
    view = context.view(limits=limits)
    bill = context.chat_bill
    nearest, share = limits.nearest(view.tokens, len(view.turns))
    return ContextUsage(
        tokens=view.tokens,
        max_tokens=limits.budget,
        turns=len(view.turns),
        max_turns=limits.most_turns,
        cost=None if bill.unknown else bill.cost,
        is_measured=view.scale.is_measured,
        model=shown_name(limits.model),
        nearest=nearest,
        share=share,
    )


def shown_name(model: str) -> str:
    """Return a model's name as it is shown to people."""
    return embedded.SHOWN if model == embedded.NAME else model
