"""The settings of this layer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from memory.context.settings import ContextSettings
from memory.setting_notes import StrictModel


class LongTermSettings(StrictModel):
    """The section `memory`."""

    approve: Literal["ask", "auto"] = Field(
        default="ask",
        description="Lines that /memory distill suggests for MEMORY.md. ask: each applies "
        "after your approval (/memory diff). auto: all apply at once, and /memory "
        "undo removes them.",
        json_schema_extra={"here": True, "holds": "from the next /memory distill on"},
    )
    prompt_tokens: Annotated[int, Field(ge=0, le=20_000)] = Field(
        default=600,
        description="Tokens of MEMORY.md in the system prompt: its first lines, at most a "
        "sixteenth of the model's window. The model finds the rest by "
        "memory_search.",
        json_schema_extra={"unit": "tokens", "here": True},
    )
    left_out: tuple[str, ...] = Field(
        default=(),
        strict=False,  # lists become tuples
        max_length=100,
        description="The lines of MEMORY.md that stay out of the system prompt, each by a digest "
        "of it; /without sets it in a branch.",
        json_schema_extra={"wants": "a list of digests", "here": True},
    )


class MemorySettings(StrictModel):
    """The settings that this layer adds at the top level. Names and defaults: CowAgent."""

    agent_max_context_tokens: Annotated[int, Field(ge=1_000, le=2_000_000)] = Field(
        default=50_000,
        description="Above this many tokens, the strategy trim makes the context smaller.",
        json_schema_extra={"unit": "tokens", "here": True},
    )
    agent_max_context_turns: Annotated[int, Field(ge=0, le=1_000)] = Field(
        default=20,
        description="Above this many turns, the strategy trim removes the oldest half from the "
        "context; a turn is a question and everything up to its final reply. 0 means no limit of "
        "turns: compaction goes by tokens only.",
        json_schema_extra={"unit": "turns", "here": True, "zero_is_no_least": True},
    )
    restore: Literal["recent", "exact"] = Field(
        default="exact",
        description="exact: the context is the same as before the restart. recent (strategy "
        "trim only): the newest turns alone, a sixth of agent_max_context_turns "
        "but at least 3, each as its question and its final answer.",
        json_schema_extra={"holds": "from the next start on"},
    )
    session_retention_days: Annotated[int, Field(ge=0, le=36_500)] = Field(
        default=30,
        description="Conversations without a message for this long are deleted, after their "
        "content has been written to the daily memory; 0 keeps them forever.",
        json_schema_extra={"unit": "days", "zero_is_no_least": True},
    )
    memory: LongTermSettings = LongTermSettings()
    context: ContextSettings = ContextSettings()
