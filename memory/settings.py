"""This room's own settings: how much the model sees, and how the view is kept within that."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.config import JsonDict

from memory.context.summary_fields import template_error

TURN: JsonDict = {"here": True, "holds": "from the next turn on"}


def _schema_text(value: Any) -> Any:
    """A JSON Schema of an object, given as an object or as its text, as text."""
    if not value or not isinstance(value, str | dict):
        return value
    try:
        schema = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        raise ValueError("no JSON") from None
    if not (isinstance(schema, dict) and schema.get("type") == "object"):
        raise ValueError("no schema of an object")
    if not (isinstance(schema.get("properties"), dict) and schema["properties"]):
        raise ValueError("no properties")
    return json.dumps(schema, ensure_ascii=False)


class ContextSettings(BaseModel):
    """The section `context`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

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
    strategy: Literal["trim", "slim", "full", "truncate", "summarize", "structured"] = Field(
        default="trim",
        description="What happens to older turns: trim lets the oldest half leave once a limit is "
        "passed; slim sends a log of one line a turn and the last full_turns; full sends "
        "everything; truncate lets all but the last keep_recent messages leave once the pressure "
        "reaches compression_trigger, summarize puts a summary in their place; structured "
        "summarises in fields at trigger_ratio and keeps reserve_ratio.",
        json_schema_extra=TURN,
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
        json_schema_extra={"here": True},
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
        ge=1,
        le=100_000,
        description="The longest that a summary may be, at most an eighth of the budget.",
        json_schema_extra={"unit": "tokens", "here": True},
    )
    full_turns: int = Field(
        default=3,
        ge=1,
        le=10,
        description="How many of the last complete turns slim sends in full, besides the running "
        "one.",
        json_schema_extra={"unit": "turns", "here": True},
    )
    max_terse_entries: int = Field(
        default=50,
        ge=1,
        le=500,
        description="How many of the newest lines the activity log of slim holds.",
        json_schema_extra={"unit": "lines", "here": True},
    )
    fold_turns: Literal["auto"] | Annotated[int, Field(ge=1, le=100)] = Field(
        default="auto",
        description="How many turns at a time slim folds into its log, so that the beginning of a "
        "request stays the same in between; auto is 1, or 7 once the provider reports cached "
        "tokens.",
        json_schema_extra={
            "wants": "a whole number from 1 to 100, or auto",
            "unit": "turns",
            "here": True,
        },
    )
    keep_recent: int = Field(
        default=10,
        ge=1,
        le=1_000,
        description="How many of the most recent messages truncate and summarize keep verbatim.",
        json_schema_extra={"unit": "messages", "here": True},
    )
    compression_trigger: float = Field(
        default=0.75,
        ge=0.0,
        le=1.0,
        description="The pressure, which is tokens in use / (max_tokens - output_reserved), at "
        "which truncate and summarize act.",
        json_schema_extra={"here": True},
    )
    auto_compact: bool = Field(
        default=True,
        description="Whether truncate and summarize act by themselves; without it, your own hook "
        "rules or /context compact do, and the emergency when the window is full.",
        json_schema_extra={"here": True},
    )
    trigger_ratio: float = Field(
        default=0.8,
        gt=0,
        le=0.9,
        description="The share of the window above which structured compresses.",
        json_schema_extra={"here": True},
    )
    reserve_ratio: float = Field(
        default=0.1,
        ge=0.01,
        le=0.5,
        description="The share of the window that structured keeps as recent messages.",
        json_schema_extra={"here": True},
    )
    compression_prompt: str = Field(
        default="",
        max_length=20_000,
        description="What structured asks the model for when it compresses; empty for Parley's own "
        "words.",
        json_schema_extra={"wants": "text of at most 20000 characters", "here": True},
    )
    summary_template: str = Field(
        default="",
        max_length=20_000,
        description="How structured writes a summary into the context, with fields of the schema, "
        "and nothing else, in braces: {task_overview}; empty for Parley's own form.",
        json_schema_extra={"wants": "text of at most 20000 characters", "here": True},
    )
    summary_schema: Annotated[str, BeforeValidator(_schema_text)] = Field(
        default="",
        max_length=20_000,
        description="The fields that a summary of structured has; empty for task_overview, "
        "current_state, important_discoveries, next_steps and context_to_preserve.",
        json_schema_extra={
            "wants": "a JSON Schema of an object with properties, of at most 20000 characters",
            "here": True,
        },
    )
    truncate_oversized: bool = Field(
        default=True,
        description="Whether one huge message is clipped, with a marker, when nothing else makes "
        "the request fit; without it the person is told that it does not fit.",
        json_schema_extra={"here": True},
    )
    snip_oversized: bool = Field(
        default=True,
        description="Whether such a clip takes out the middle and leaves beginning and end; "
        "without it the beginning alone is left.",
        json_schema_extra={"here": True},
    )
    context_files: bool = Field(
        default=False,
        description="Whether context.json (all that was said) and context.terse.json (a line for "
        "each turn) are kept up to date in the conversation's folder after each turn.",
        json_schema_extra=TURN,
    )
    merge_system: bool = Field(
        default=False,
        description="Whether a summary that is a system message is put into the first one, for "
        "models that allow only one.",
        json_schema_extra={"here": True},
    )

    @model_validator(mode="after")
    def _template_shows_the_fields(self) -> Self:
        if wrong := template_error(self.summary_template, self.summary_schema):
            raise ValueError(wrong)
        return self

    @model_validator(mode="after")
    def _less_is_kept_than_there_is(self) -> Self:
        if self.reserve_ratio >= self.trigger_ratio:
            raise ValueError(
                f"context.reserve_ratio is {self.reserve_ratio}; it wants less than "
                f"context.trigger_ratio, which is {self.trigger_ratio}, or nothing would leave."
            )
        return self

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
        default="exact",
        description="What a restart restores: exact goes on with just what was in play; recent, "
        "under the strategy trim, with the last max(3, agent_max_context_turns // 6) turns, of "
        "each the question and the final reply alone, as CowAgent does.",
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
