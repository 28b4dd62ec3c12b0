"""Strategies: pure functions that say what should leave the view, by their setting's name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memory.context.limits import Limits
from memory.context.plan import Plan
from memory.context.strategies import slim, split, trim
from memory.context.summary import Style
from memory.context.view import Rendering, View


@dataclass(frozen=True, slots=True)
class Strategy:
    """`plan` says what is due. `preface` is how what left is sent, `style` how it is summarised.

    `waits`: the step waits for the summary that its cut calls for; otherwise the cut is made at
    once, and a summary that was not prepared follows at the next turn. `by_rule`: what is due is
    carried out by the rule `_auto_compact` as a turn begins, and not by every step.
    """

    plan: Callable[[View, Limits], Plan | None]
    preface: Rendering = "block"
    style: Style = "notes"
    waits: bool = False
    by_rule: bool = False


STRATEGIES: dict[str, Strategy] = {
    "trim": Strategy(trim.plan),
    "slim": Strategy(slim.plan, "exchange", "rollup"),
    "full": Strategy(lambda view, limits: None),  # flo.monster: everything is sent, always
    "truncate": Strategy(split.plan, "system", "reminder", waits=True, by_rule=True),
    "summarize": Strategy(split.plan, "system", "recap", waits=True, by_rule=True),
    "structured": Strategy(split.plan_structured, "system", "structured", waits=True),
}
