"""The context length up to which a model performs well, and the source of that figure."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from agent.models.catalogue import UNKNOWN, LongContext
from channels.language import _, explain
from plugins.api import Ask
from plugins.wording import amount


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
