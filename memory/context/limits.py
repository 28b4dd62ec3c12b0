"""The limits in force for one conversation; computed at each step, never stored."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from memory.context.settings import ContextSettings
from memory.messages import PICTURE_TOKENS

DEFAULT_WINDOW = 128_000
NearestLimit = Literal["turns", "tokens"]


class Limits(Struct, frozen=True, dict=True):
    """The limits; all sizes are in tokens. `window` is the model's context window; `max_turns` (0:
    no limit) and `max_tokens` apply to the strategy `trim` alone. `strategy`, `fold_turns` (0: as
    many as pays) and `auto_compact` are the values in force, and override the section. `picture` is
    the size of an image, which is small if the model can't see it. `context` is the section of the
    settings, which documents its fields."""

    strategy: str = "trim"
    max_turns: int = 20
    max_tokens: int = 50_000
    window: int = DEFAULT_WINDOW
    fold_turns: int = 0
    auto_compact: bool = True
    model: str = ""
    picture: int = PICTURE_TOKENS
    context: ContextSettings = field(default_factory=ContextSettings)

    def but(self, **changes: Any) -> Limits:
        """Return the limits with other values, by their names here or in the section."""
        own = {name: value for name, value in changes.items() if name in _OWN}
        section = {name: value for name, value in changes.items() if name not in _OWN}
        return replace(self, context=self.context.model_copy(update=section), **own)

    @cached_property
    def ceiling(self) -> int:
        """The maximum size of a request, under every strategy."""
        return self.window - min(self.context.output_reserved, self.window // 4)

    @cached_property
    def budget(self) -> int:
        """The number of tokens that the meter is compared with and shown against."""
        return min(self.max_tokens, self.ceiling) if self.strategy == "trim" else self.ceiling

    @cached_property
    def threshold(self) -> int:
        """The tokens at which the strategy in force removes turns."""
        match self.strategy:
            case "structured":
                return min(round(self.context.trigger_ratio * self.window), self.ceiling)
            case "truncate" | "summarize":
                return round(self.context.compression_trigger * self.ceiling)
        return self.budget

    @property
    def most_tokens(self) -> int:
        """The tokens at which the context is compacted: the threshold, or the budget if no rule
        compacts before, or if a rule compacts at any size."""
        by_rule = self.strategy in ("truncate", "summarize")
        return self.budget if by_rule and not self.auto_compact else self.threshold or self.budget

    @cached_property
    def most_turns(self) -> int:
        """The maximum number of turns in context; 0: no limit."""
        return self.max_turns if self.strategy == "trim" else 0

    def has_too_many(self, turns: int) -> bool:
        """Return whether this many turns exceed the limit of turns."""
        return 0 < self.most_turns < turns

    def nearest(self, tokens: int, turns: int) -> tuple[NearestLimit, float]:
        """Return the limit that this many tokens and turns reach first, and the share of it in use.
        The limit of tokens is the size at which the strategy compacts."""
        of_tokens = tokens / self.most_tokens
        of_turns = turns / self.most_turns if self.most_turns else 0.0
        return ("turns", of_turns) if of_turns > of_tokens else ("tokens", of_tokens)

    @cached_property
    def summary_tokens(self) -> int:
        """The maximum size of a summary: it must not fill the space that the compaction freed."""
        return min(self.context.summary_max_tokens, self.budget // 8)

    @property
    def log_tokens(self) -> int:
        """The maximum size of the activity log of `slim`, for any number of lines."""
        return self.ceiling // 6

    @property
    def stub_batch(self) -> int:
        """The tokens that old tool results must free at least to become stubs."""
        return min(self.context.stub_batch, self.ceiling // 8)

    @property
    def longest_result(self) -> int:
        """The maximum size of a tool result when it arrives."""
        return self.context.tool_result_limit or min(50_000, self.window // 4)


_OWN = frozenset(Limits.__struct_fields__)
