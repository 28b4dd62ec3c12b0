"""Strategies: pure functions that say what should leave the view, by their setting's name."""

from __future__ import annotations

from collections.abc import Callable

from memory.context.limits import Limits
from memory.context.plan import Plan
from memory.context.strategies.full import plan as full
from memory.context.strategies.trim import plan as trim
from memory.context.view import View

Strategy = Callable[[View, Limits], Plan | None]

STRATEGIES: dict[str, Strategy] = {"full": full, "trim": trim}
