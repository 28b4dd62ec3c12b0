"""The limits in force for one conversation; asked for at each step, never kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memory.keys import ConversationKey
from memory.messages import PICTURE_TOKENS

DEFAULT_WINDOW = 128_000


@dataclass(frozen=True, slots=True)
class Limits:
    """All sizes in tokens. `window` is the model's context window, `output_reserved` what its
    reply may need of it; `max_turns` and `max_tokens` govern the strategy `trim` alone. `picture`
    is what an image counts, which is little where the model can't see it.

    `fold_turns` 0 means "auto". What the other fields govern is said where they can be set, in
    `memory.settings`.
    """

    strategy: str = "trim"
    max_turns: int = 20
    max_tokens: int = 50_000
    window: int = DEFAULT_WINDOW
    output_reserved: int = 4_096
    tool_result_limit: int = 0
    summary_max_tokens: int = 1_024
    full_turns: int = 3
    max_terse_entries: int = 50
    fold_turns: int = 0
    keep_recent: int = 10
    compression_trigger: float = 0.75
    auto_compact: bool = True
    trigger_ratio: float = 0.8
    reserve_ratio: float = 0.1
    compression_prompt: str = ""
    summary_template: str = ""
    summary_schema: str = ""
    truncate_oversized: bool = True
    snip_oversized: bool = True
    merge_system: bool = False
    model: str = ""
    picture: int = PICTURE_TOKENS

    @property
    def ceiling(self) -> int:
        """The most that any request may hold, under every strategy."""
        return self.window - min(self.output_reserved, self.window // 4)

    @property
    def budget(self) -> int:
        """What the meter is compared with and shown against."""
        return min(self.max_tokens, self.ceiling) if self.strategy == "trim" else self.ceiling

    @property
    def threshold(self) -> int:
        """Tokens at which the strategy in force lets turns leave."""
        match self.strategy:
            case "structured":
                return min(round(self.trigger_ratio * self.window), self.ceiling)
            case "truncate" | "summarize":
                return round(self.compression_trigger * self.ceiling)
        return self.budget

    @property
    def summary_tokens(self) -> int:
        """The most that a summary may hold: it must not fill what the cut has freed."""
        return min(self.summary_max_tokens, self.budget // 8)

    @property
    def longest_result(self) -> int:
        """The most that one tool result may hold when it arrives."""
        return self.tool_result_limit or min(50_000, self.window // 4)


LimitsFor = Callable[[ConversationKey], Limits]
