"""The limits in force for one conversation; asked for at each step, never kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from memory.keys import ConversationKey
from memory.messages import PICTURE_TOKENS
from memory.settings import ContextSettings

DEFAULT_WINDOW = 128_000


class Limits(Struct, frozen=True):
    """All sizes in tokens. `window` is the model's context window; `max_turns` and `max_tokens`
    govern the strategy `trim` alone. `strategy`, `fold_turns` (0: as many as pays) and
    `auto_compact` are what is in force, whatever the section says. `picture` is what an image
    counts, which is little where the model can't see it. `context` is the section of the settings,
    which says what its fields govern.
    """

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
        """Return the same with other values, by their names here or in the section."""
        own = {name: value for name, value in changes.items() if name in _OWN}
        section = {name: value for name, value in changes.items() if name not in _OWN}
        return replace(self, context=self.context.model_copy(update=section), **own)

    @property
    def ceiling(self) -> int:
        """The most that any request may hold, under every strategy."""
        return self.window - min(self.context.output_reserved, self.window // 4)

    @property
    def budget(self) -> int:
        """Return the number of tokens that the meter is compared with and shown against."""
        return min(self.max_tokens, self.ceiling) if self.strategy == "trim" else self.ceiling

    @property
    def threshold(self) -> int:
        """Tokens at which the strategy in force lets turns leave."""
        match self.strategy:
            case "structured":
                return min(round(self.context.trigger_ratio * self.window), self.ceiling)
            case "truncate" | "summarize":
                return round(self.context.compression_trigger * self.ceiling)
        return self.budget

    @property
    def summary_tokens(self) -> int:
        """The most that a summary may hold: it must not fill what the cut has freed."""
        return min(self.context.summary_max_tokens, self.budget // 8)

    @property
    def log_tokens(self) -> int:
        """The most that the activity log of `slim` may hold, however many lines it may have."""
        return self.ceiling // 6

    @property
    def stub_batch(self) -> int:
        """Tokens that old tool results must free at least to become stubs."""
        return min(self.context.stub_batch, self.ceiling // 8)

    @property
    def longest_result(self) -> int:
        """The most that one tool result may hold when it arrives."""
        return self.context.tool_result_limit or min(50_000, self.window // 4)


_OWN = frozenset(Limits.__struct_fields__)

LimitsFor = Callable[[ConversationKey], Limits]
