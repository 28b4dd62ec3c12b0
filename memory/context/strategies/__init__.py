"""Strategies: pure functions that say what should leave the view, by their setting's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from memory.context.change import Actor
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


def plan_split(
    view: View, limits: Limits, strategy: str, keep_recent: int, summary_max_tokens: int, why: str
) -> Plan | None:
    """Plan Digitorn's action compact_context ("" and 0: as the settings say): all but the last
    messages leave, with a reminder or a recap in their place."""
    made = split.split(
        view, keep_recent or limits.context.keep_recent, why or "a rule asked for it"
    )
    chosen = strategy or ("truncate" if limits.strategy == "truncate" else "summarize")
    once = (("summary_max_tokens", summary_max_tokens),) if summary_max_tokens else ()
    return made and replace(made, strategy=chosen, style=STRATEGIES[chosen].style, once=once)


def plan_once(view: View, limits: Limits, config: Mapping[str, Any]) -> Plan | None:
    """Plan what AgentScope's compress_context() does with these limits for one call."""
    made, once = split.plan_structured(view, limits.but(**config)), tuple(sorted(config.items()))
    return made and replace(made, strategy="structured", style="structured", once=once)


def style_of(plan: Plan, limits: Limits, actor: Actor) -> Style:
    """Return the style of the summary of the turns that this plan removes. In an emergency
    `truncate` and `summarize` ask no model, since it has just refused (Digitorn); a person who asks
    for a summary gets one."""
    if plan.style:
        return plan.style
    strategy = STRATEGIES[limits.strategy]
    if plan.only_tells_lines:
        return "lines"
    if actor == "strategy":
        return strategy.style
    if actor == "emergency":
        return "reminder" if strategy.by_rule else "notes"
    return strategy.style if strategy.style in ("recap", "structured") else "notes"
