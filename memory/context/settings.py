"""The section `context`: the size of the context, and the treatment of older turns; and the limits
in force for one conversation, which are computed at each step and never stored."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.config import JsonDict

from memory.context.summary_fields import template_error
from memory.messages import PICTURE_TOKENS
from memory.plain_text import plain_number
from memory.setting_notes import TURN

HERE: JsonDict = {"here": True, **TURN}


def _schema_text(value: Any) -> Any:
    """Return a JSON Schema of an object, given as an object or as text, as text."""
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

    max_tokens: Annotated[int, Field(ge=0, le=2_000_000)] = Field(
        default=0,
        description="The model's context window; 0 means the known window of the model, or "
        "128000 if none is known.",
        json_schema_extra={"unit": "tokens", "here": True, "zero_is_no_least": True},
    )
    output_reserved: Annotated[int, Field(ge=0, le=200_000)] = Field(
        default=4096,
        description="Room kept free in the window for the model's reply; never more than a "
        "quarter of the window.",
        json_schema_extra={"unit": "tokens", "here": True},
    )
    strategy: Literal["trim", "slim", "full", "truncate", "summarize", "structured", "stubs"] = (
        Field(
            default="trim",
            description="Treatment of older turns. trim: the oldest half is removed once a limit "
            "is passed. slim: older turns are sent as a log with one line each, the last "
            "full_turns in full. full: everything is sent. truncate: all but the last keep_recent "
            "messages are removed once the share in use reaches compression_trigger. summarize: "
            "the same, with a summary in their place. structured: a summary in fields at "
            "trigger_ratio, keeping reserve_ratio. stubs: old tool results become one line each, "
            "and all else stays.",
            json_schema_extra=HERE,
        )
    )
    tool_result_limit: Annotated[int, Field(ge=0, le=2_000_000)] = Field(
        default=0,
        description="A tool result longer than this is shortened when it arrives; 0 means 50000 "
        "or a quarter of the window, whichever is smaller.",
        json_schema_extra={"unit": "tokens", "here": True, "zero_is_no_least": True},
    )

    stub_tools: bool = Field(
        default=False,
        description="Shorten old tool results to one line each before trim, slim, truncate, "
        "summarize or structured remove turns, which they then do only if that does not suffice. "
        "The model can read a result again.",
        json_schema_extra={"here": True},
    )
    stub_keep: Annotated[int, Field(ge=0, le=1_000)] = Field(
        default=3,
        description="Number of the newest tool results that stay whole, in addition to "
        "those of the running turn, while older ones become one line each.",
        json_schema_extra={"unit": "results", "here": True},
    )
    stub_batch: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=4_000,
        description="Least amount that old tool results must free before they become one line "
        "each: every such change breaks the provider's cache. Never more than an eighth of what "
        "the window holds besides the reply.",
        json_schema_extra={"unit": "tokens", "here": True},
    )
    offload: bool = Field(
        default=True,
        description="Keep removed turns and the full text of shortened tool results in files that "
        "the model can read. The transcript has them in any case.",
        json_schema_extra={"here": True},
    )
    max_images: Annotated[int, Field(ge=0, le=100)] = Field(
        default=8,
        description="Maximum pictures in one request; a note replaces each older one.",
        json_schema_extra={"unit": "pictures", "here": True},
    )
    summary_max_tokens: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=1_024,
        description="Maximum length of a summary; never more than an eighth of the budget.",
        json_schema_extra={"unit": "tokens", "here": True},
    )
    compaction_approval: Literal["off", "show", "ask"] = Field(
        default="off",
        description="Notices of compactions that a strategy or a rule makes. off: none. show: the "
        "new summary, to edit or undo. ask: the same before the compaction, which waits ten "
        "minutes for your answer, but not where the window is full; you are not asked about turns "
        "that slim moves into its log.",
        json_schema_extra={"here": True},
    )
    summary_min_kept: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=0.0,
        description="The share of names, numbers, dates, paths and identifiers of the "
        "summarised turns that a summary must keep; below that, the model is asked "
        "once more with the list of what is missing, and the better summary is "
        "used. 0 means never.",
        json_schema_extra={"here": True},
    )
    summary_audit: Literal["strict", "warn", "off"] = Field(
        default="strict",
        description="Treatment of a summary that fails the audit: it breaks off, thinks aloud, is "
        "in another language, invents, or lists finished things as tasks. strict: the model is "
        "asked once more, and then sentences of the turns are used instead. warn: it is used, and "
        "you are told what is wrong. off: only a summary that is empty, a tool call, a refusal or "
        "too long is rejected.",
        json_schema_extra={"here": True},
    )
    summary_least_parameters: Annotated[float, Field(ge=0.0, le=1_000.0)] = Field(
        default=1.0,
        description="A model known to have fewer parameters (in billions) writes no summaries, "
        "since small models invent facts; sentences of the turns are used instead. "
        "0: any model may.",
        json_schema_extra={"here": True},
    )
    full_turns: Annotated[int, Field(ge=1, le=10)] = Field(
        default=3,
        description="Number of the last complete turns that slim sends in full, in "
        "addition to the running one.",
        json_schema_extra={"unit": "turns", "here": True},
    )
    max_terse_entries: Annotated[int, Field(ge=1, le=500)] = Field(
        default=50,
        description="Number of lines in slim's activity log; the newest are kept.",
        json_schema_extra={"unit": "lines", "here": True},
    )
    fold_turns: Literal["auto"] | Annotated[int, Field(ge=1, le=100)] = Field(
        default="auto",
        description="Number of turns that slim moves into its log at a time; in between, the "
        "beginning of each request stays the same, which suits caches. auto is 1, or as many as "
        "pays once the provider reports cached tokens.",
        json_schema_extra={
            "wants": "a whole number from 1 to 100, or auto",
            "unit": "turns",
            "here": True,
        },
    )
    keep_recent: Annotated[int, Field(ge=1, le=1_000)] = Field(
        default=10,
        description="Number of the newest messages that truncate and summarize keep verbatim.",
        json_schema_extra={"unit": "messages", "here": True},
    )
    compression_trigger: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=0.75,
        description="Share of the budget in use from which truncate and summarize act; the budget "
        "is max_tokens - output_reserved.",
        json_schema_extra={"here": True},
    )
    auto_compact: bool = Field(
        default=True,
        description="Compact automatically under the strategies truncate and summarize. If "
        "off, compaction happens only by your own hook rules, by /context compact, "
        "and when the window is full.",
        json_schema_extra={"here": True},
    )
    trigger_ratio: float = Field(
        default=0.8,
        gt=0,
        le=0.9,
        description="The share of the window above which structured writes a summary.",
        json_schema_extra={"here": True},
    )
    reserve_ratio: Annotated[float, Field(ge=0.01, le=0.5)] = Field(
        default=0.1,
        description="The share of the window that structured keeps for recent messages.",
        json_schema_extra={"here": True},
    )
    compression_prompt: str = Field(
        default="",
        max_length=20_000,
        description="Prompt by which structured asks the model for a summary; empty means "
        "Parley's own.",
        json_schema_extra={"wants": "text of at most 20000 characters", "here": True},
    )
    summary_template: str = Field(
        default="",
        max_length=20_000,
        description="Format of the summaries of the strategy structured: its fields in braces, "
        "like {task_overview}; nothing else may be in braces. Empty: Parley's own "
        "format.",
        json_schema_extra={"wants": "text of at most 20000 characters", "here": True},
    )
    summary_schema: Annotated[str, BeforeValidator(_schema_text)] = Field(
        default="",
        max_length=20_000,
        description="The fields of structured's summaries; empty means task_overview, "
        "current_state, important_discoveries, next_steps and context_to_preserve.",
        json_schema_extra={
            "wants": "a JSON Schema of an object with properties, of at most 20000 characters",
            "here": True,
        },
    )
    truncate_oversized: bool = Field(
        default=True,
        description="Clip one huge message, with a marker, when nothing else makes the request "
        "fit; if off, the person is told that it does not fit.",
        json_schema_extra={"here": True},
    )
    snip_oversized: bool = Field(
        default=True,
        description="Clip the middle and keep the beginning and the end; if off, only the "
        "beginning is kept.",
        json_schema_extra={"here": True},
    )
    soft_limit: Annotated[int, Field(ge=0, le=2_000_000)] = Field(
        default=0,
        description="The size from which on /context and /context advise say that the model no "
        "longer handles the context well; 0 goes by published measurements of the model.",
        json_schema_extra={"unit": "tokens", "here": True, "zero_is_no_least": True},
    )
    merge_system: bool = Field(
        default=False,
        description="Merge a summary that is a system message into the first one, for models that "
        "allow only one.",
        json_schema_extra={"here": True},
    )

    @model_validator(mode="after")
    def _template_shows_the_fields(self) -> Self:
        if wrong := template_error(self.summary_template, self.summary_schema):
            raise ValueError(wrong)
        return self

    @model_validator(mode="after")
    def _check_kept_below_limit(self) -> Self:
        if self.reserve_ratio >= self.trigger_ratio:
            kept, trigger = plain_number(self.reserve_ratio), plain_number(self.trigger_ratio)
            raise ValueError(
                f"context.reserve_ratio is {kept}; it must be less than context.trigger_ratio, "
                f"which is {trigger}, or nothing would be removed."
            )
        return self

    @model_validator(mode="after")
    def _one_result_fits_the_window(self) -> Self:
        if 0 < self.max_tokens < self.tool_result_limit:
            raise ValueError(
                f"context.tool_result_limit is {self.tool_result_limit}; it must be at most "
                f"context.max_tokens, which is {self.max_tokens}."
            )
        return self


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
