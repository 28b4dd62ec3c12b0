"""This room's own settings: how much the model sees, and how the view is kept within that."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class ContextSettings(BaseModel):
    """The section `context`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    max_tokens: int = Field(
        default=0,
        ge=0,
        le=2_000_000,
        description="The model's context window; 0 takes the window that is known for the model, "
        "or 128000 where none is known.",
        json_schema_extra={"unit": "tokens", "here": True},
    )
    output_reserved: int = Field(
        default=4096,
        ge=0,
        le=200_000,
        description="Room in the window that is kept free for the model's reply, "
        "at most a quarter of the window.",
        json_schema_extra={"unit": "tokens", "here": True},
    )
    strategy: Literal["trim", "full"] = Field(
        default="trim",
        description="What happens to older turns: trim lets the oldest half leave once a limit is "
        "passed, full sends everything.",
        json_schema_extra={"here": True, "holds": "from the next turn on"},
    )
    tool_result_limit: int = Field(
        default=0,
        ge=0,
        le=2_000_000,
        description="A tool's result that is longer is cut when it arrives; 0 takes the smaller "
        "of 50000 and a quarter of the window.",
        json_schema_extra={"unit": "tokens", "here": True},
    )

    offload: bool = Field(
        default=True,
        description="Whether what leaves the context is kept in files that the model can read: "
        "turns, and the whole of tool results that were cut. The transcript has it in any case.",
        json_schema_extra={"wants": "true or false", "here": True},
    )
    max_images: int = Field(
        default=8,
        ge=0,
        le=100,
        description="The most pictures that one request holds; of older ones the model sees "
        "that they were there.",
        json_schema_extra={"unit": "pictures", "here": True},
    )
    summary_max_tokens: int = Field(
        default=1_024,
        ge=16,
        le=100_000,
        description="The longest that a summary may be, at most an eighth of the budget.",
        json_schema_extra={"unit": "tokens", "here": True},
    )

    @model_validator(mode="after")
    def _one_result_fits_the_window(self) -> Self:
        if 0 < self.max_tokens < self.tool_result_limit:
            raise ValueError(
                f"context.tool_result_limit is {self.tool_result_limit}; it wants at most "
                f"context.max_tokens, which is {self.max_tokens}."
            )
        return self


class MemorySettings(BaseModel):
    """What this room adds at the top level. Names and defaults: CowAgent."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    agent_max_context_tokens: int = Field(
        default=50_000,
        ge=1_000,
        le=2_000_000,
        description="Above this many tokens the strategy trim makes the context smaller.",
        json_schema_extra={"unit": "tokens", "here": True},
    )
    agent_max_context_turns: int = Field(
        default=20,
        ge=1,
        le=1_000,
        description="Above this many turns the strategy trim lets the oldest half leave; "
        "a turn is a question and all that follows until the reply.",
        json_schema_extra={"unit": "turns", "here": True},
    )
    restore: Literal["recent", "exact"] = Field(
        default="recent",
        description="What the strategy trim restores after a restart: the last "
        "max(3, agent_max_context_turns // 6) turns as text, or exactly what was in play.",
        json_schema_extra={"holds": "from the next start on"},
    )
    session_retention_days: int = Field(
        default=30,
        ge=0,
        le=36_500,
        description="Conversations in which nothing was said for longer are deleted, once what was "
        "said is in the daily memory; 0 keeps them for ever.",
        json_schema_extra={"unit": "days"},
    )
    context: ContextSettings = ContextSettings()
