"""Strategies: pure functions that say what should leave the view, by their setting's name."""

from __future__ import annotations

from msgspec import Struct

from memory.context.limits import Limits
from memory.context.plan import Plan, Planner, plan_by
from memory.context.strategies import slim, split, stubs, trim
from memory.context.summary import Style
from memory.context.view import Rendering, View


class Strategy(Struct, frozen=True):
    """`plan` says what is due. `preface` is how what left is sent, `style` how it is summarised.

    `waits`: the step waits for the summary that its cut calls for; otherwise the cut is made at
    once, and a summary that was not prepared follows at the next turn. `by_rule`: what is due is
    carried out by the rule `_auto_compact` as a turn begins, and not by every step.
    """

    plan: Planner
    preface: Rendering = "block"
    style: Style = "notes"
    waits: bool = False
    by_rule: bool = False


STRATEGIES: dict[str, Strategy] = {
    "trim": Strategy(trim.plan),
    "slim": Strategy(slim.plan, "exchange", "rollup"),
    "full": Strategy(lambda view, limits: None),  # flo.monster: everything is sent, always
    "stubs": Strategy(stubs.plan),
    "truncate": Strategy(split.plan, "system", "reminder", waits=True, by_rule=True),
    "summarize": Strategy(split.plan, "system", "recap", waits=True, by_rule=True),
    "structured": Strategy(split.plan_structured, "system", "structured", waits=True),
}


def next_plan(view: View, limits: Limits) -> Plan | None:
    """Return what the strategy in force wants done, where that frees enough. With `stub_tools` old
    tool results become stubs first, and only what is due after that is done besides, as a plan of
    its own."""
    plan = plan_by(STRATEGIES[limits.strategy].plan, view, limits)
    if plan is None or not limits.context.stub_tools:
        return plan
    return plan_by(stubs.plan, view, limits) or plan


def next_cut(view: View, limits: Limits) -> Plan | None:
    """Return the same but for a first stage of stubs: what it leaves to be done."""
    plan = next_plan(view, limits)
    if plan is None or plan.name != "stub":
        return plan
    return plan_by(STRATEGIES[limits.strategy].plan, view.apply(plan.change), limits)
