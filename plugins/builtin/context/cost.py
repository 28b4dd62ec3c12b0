"""The cost of a change of the context, by the cached tokens that the provider loses by it; and the
context length up to which a model performs well, with the source of that figure."""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from agent.models.catalogue import UNKNOWN, LongContext
from channels.language import _, explain
from memory.context.change import ViewEvent
from memory.context.cut_cost import CutCost, InputPrice, count_broken, cut_cost
from memory.context.forecast import Preview
from plugins.api import Ask
from plugins.wording import amount, aside, count, money

WITHOUT_MODEL = ("truncate", "slim", "full", "stubs")
"""The strategies that don't summarise the removed turns with a model."""


class Cache(Struct, frozen=True):
    """The known state of the provider's cache: how many tokens of this conversation it may contain
    (0: it has reported no hits), the price of a token (None: unknown), the average number of
    requests per turn, and the strategy in force."""

    tokens: int = 0
    price: InputPrice | None = None
    per_turn: float = 1.0
    strategy: str = ""

    def of_plans(self, preview: Preview, cached: int) -> CutCost | None:
        """Return the cost of the compactions before a request, of which this many tokens are cached
        by then; None if they invalidate no tokens known to be cached."""
        if not preview.plans or not self.tokens:
            return None
        now, removed = preview.now, {number for plan in preview.plans for number in plan.leaving}
        raw = sum(turn.tokens for turn in now.turns if turn.number in removed)
        read = 0 if self.strategy in WITHOUT_MODEL else now.scale.part(raw)
        return _if_any(cut_cost(*count_broken(now, preview.then, cached), self.price, read))

    def of_event(self, event: ViewEvent) -> CutCost | None:
        """Return the cost of a change that was made."""
        is_read = event.leaving and event.strategy not in WITHOUT_MODEL and event.name != "clear"
        read = max(0, event.tokens_before - event.tokens_after) if is_read else 0
        # `anew` was counted before the summary was written.
        anew = max(event.anew, event.broken + event.tokens_after - event.tokens_before)
        return _if_any(cut_cost(event.broken, anew, self.price, read))

    def clause(self, cost: CutCost | None, *, is_past: bool = False) -> str:
        """Return "bills 12k tokens at the full price once more ($0.02), which pays off after 4
        turns"; "" without a cost."""
        if cost is None:
            return ""
        price = aside(money(cost.dollars) if cost.dollars else "")
        broken = _(
            "billed {broken} tokens at the full price once more{price}"
            if is_past
            else "bills {broken} tokens at the full price once more{price}",
            broken=amount(cost.broken),
            price=price,
        )
        turns = self.turns(cost)
        if turns is None:
            return broken
        when = _("after {turns}", turns=count(turns, "turn")) if turns else _("at once")
        return _("{broken}, which pays off {when}", broken=broken, when=when)

    def turns(self, cost: CutCost) -> int | None:
        """Return the number of turns after which the cost is paid back; None if unknown or
        never."""
        if cost.requests is None or math.isinf(cost.requests):
            return None
        return math.ceil(cost.requests / self.per_turn)

    def data(self, cost: CutCost | None) -> dict[str, Any] | None:
        """Return the cost as data for programs."""
        if cost is None:
            return None
        known = {name: value for name, value in asdict(cost).items() if name != "requests"}
        return {**known, "turns": self.turns(cost)}


def _if_any(cost: CutCost) -> CutCost | None:
    return cost if cost.broken > 0 else None


def cache_of(ask: Ask) -> Cache:
    """Return the known state of the cache for the command's conversation."""
    context = ask.conversation.context
    per_turn = context.bill.calls / max(1, context.newest)
    price = ask.bot.models.about(ask.conversation.key).price
    return Cache(context.cached, price, max(1.0, per_turn), context.limits.strategy)


class SoftLimit(Struct, frozen=True):
    """The soft limit of a model. `set` is a person's setting, which overrides the known figure (0:
    not set)."""

    model: str = ""
    known: LongContext = UNKNOWN
    set: int = 0

    @property
    def tokens(self) -> int:
        return self.set or self.known.tokens

    def complaint(self, tokens: int) -> str:
        """Return a warning about a context of this many tokens; "" if it is within the limit."""
        if tokens <= self.tokens:
            return ""
        size = amount(tokens)
        if self.set:
            return _(
                "{size} tokens are more than context.soft_limit, which is {set}.",
                size=size,
                set=amount(self.set),
            )
        if not self.known.benchmark:
            return _(
                "{size} tokens may be more than {model} handles well: no figures are known for "
                "this model; others get worse from about {tokens} on.",
                size=size,
                model=self.model,
                tokens=amount(self.tokens),
            )
        return _(
            "{size} tokens are more than {model} handles well: up to {tokens} {finding} "
            "({benchmark}, {year}).",
            size=size,
            model=self.model,
            tokens=amount(self.tokens),
            finding=explain(self.known.finding),
            benchmark=self.known.benchmark,
            year=self.known.year,
        )

    @property
    def data(self) -> dict[str, Any]:
        """Return the limit as data for programs."""
        source = f"{self.known.benchmark} {self.known.year}" if self.known.benchmark else ""
        return {"tokens": self.tokens, "source": "context.soft_limit" if self.set else source}


def soft_limit_of(ask: Ask) -> SoftLimit:
    """Return the limit in the command's conversation."""
    limits = ask.conversation.context.limits
    model = ask.bot.models.about(ask.conversation.key)
    return SoftLimit(model.name, model.reads, limits.context.soft_limit)
