"""Carrying plans out: from what a strategy wants to an event that is on disk."""

from __future__ import annotations

from datetime import UTC, datetime

from memory.context.change import ViewEvent
from memory.context.limits import Limits
from memory.context.plan import Plan
from memory.context.strategies import STRATEGIES
from memory.context.view import View


def due(view: View, limits: Limits) -> Plan | None:
    """What the strategy in force wants done now."""
    return STRATEGIES[limits.strategy](view, limits)


def event_of(plan: Plan, view: View, limits: Limits) -> ViewEvent:
    """The durable event that carrying this plan out is."""
    return ViewEvent(
        at=datetime.now(UTC),
        kind="compact",
        actor="strategy",
        strategy=limits.strategy,
        reason=plan.why,
        change=plan.change,
        tokens_before=view.tokens,
        tokens_after=plan.tokens_after,
    )
