"""Strategies: pure functions that plan what to remove from the view, by their setting's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from memory.context.change import Actor
from memory.context.plan import Plan, Planner, plan_by
from memory.context.settings import Limits
from memory.context.strategies import slim, split, stubs, trim
from memory.context.summary import Style
from memory.context.view import Rendering, View


class Strategy(Struct, frozen=True):
    """A strategy. `plan` returns the plan that is due. `preface` is the form in which removed turns
    are sent, `style` the style of their summary. `waits`: the step waits for the summary of its
    compaction; otherwise the compaction is made at once, and a summary that was not prepared
    follows at the next turn. `by_rule`: a plan is carried out by the rule `_auto_compact` at the
    beginning of a turn, and not by every step."""

    plan: Planner
    preface: Rendering = "block"
    style: Style = "notes"
    waits: bool = False
    by_rule: bool = False


STRATEGIES: dict[str, Strategy] = {
    "trim": Strategy(trim.plan),
    "slim": Strategy(slim.plan, "exchange", "rollup"),
    "full": Strategy(lambda view, limits: None),  # flo.monster: everything is always sent
    "stubs": Strategy(stubs.plan),
    "truncate": Strategy(split.plan, "system", "reminder", waits=True, by_rule=True),
    "summarize": Strategy(split.plan, "system", "recap", waits=True, by_rule=True),
    "structured": Strategy(split.plan_structured, "system", "structured", waits=True),
}


def next_plan(view: View, limits: Limits) -> Plan | None:
    """Return the plan of the strategy in force, if it frees enough. With `stub_tools` old tool
    results become stubs first; a compaction that is still due after that is a plan of its own."""
    plan = plan_by(STRATEGIES[limits.strategy].plan, view, limits)
    if plan is None or not limits.context.stub_tools:
        return plan
    return plan_by(stubs.plan, view, limits) or plan


def next_cut(view: View, limits: Limits) -> Plan | None:
    """Return the same without a first stage of stubs: the plan that is due after it."""
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
    `truncate` and `summarize` call no model, since it has just refused a request (Digitorn). A
    person who requests a summary gets one."""
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
