"""The conditions of rules, which a moment in a conversation may meet."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, Self

from msgspec import Struct
from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from memory.conversation import Conversation
from memory.events import Event
from memory.setting_notes import StrictModel


class RuleEvent(Struct, frozen=True):
    """An event in a conversation, and the number of tool calls that have ended since the session
    began, the context was compacted, or the rule acted, whichever was last."""

    event: Event
    conversation: Conversation
    calls: int = 0


class Strict(StrictModel):
    """A part of a rule, without unknown fields."""

    model_config = ConfigDict(allow_inf_nan=False)


class Always(Strict):
    type: Literal["always"] = "always"

    def holds(self, moment: RuleEvent) -> bool:
        return True


class Never(Strict):
    type: Literal["never"] = "never"

    def holds(self, moment: RuleEvent) -> bool:
        return False


class ContextPressure(Strict):
    """A condition: tokens / (window - reserve), by the meter, is `threshold` or more."""

    type: Literal["context_pressure"] = "context_pressure"
    threshold: float = Field(default=0.75, ge=0, le=1)

    def holds(self, moment: RuleEvent) -> bool:
        return moment.conversation.context.pressure >= self.threshold


class TurnCount(Strict):
    """A condition: the turn is `threshold` or later, and a multiple of `every` if set."""

    type: Literal["turn_count"] = "turn_count"
    threshold: int = Field(default=0, ge=0)
    every: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _check_has_trigger(self) -> Self:
        if not self.threshold and not self.every:
            raise ValueError("can never be true; give it a threshold, or every")
        return self

    def holds(self, moment: RuleEvent) -> bool:
        turn = moment.event.turn
        return turn >= max(1, self.threshold) and not (self.every and turn % self.every)


class ToolCalls(Strict):
    """A condition: `threshold` calls or more have ended (`RuleEvent.calls`)."""

    type: Literal["tool_calls"] = "tool_calls"
    threshold: int = Field(ge=1)

    def holds(self, moment: RuleEvent) -> bool:
        return moment.calls >= self.threshold


class MessageCount(Strict):
    """A condition: the model sees `threshold` messages or more."""

    type: Literal["message_count"] = "message_count"
    threshold: int = Field(ge=1)

    def holds(self, moment: RuleEvent) -> bool:
        return len(moment.conversation.context.view().messages) >= self.threshold


def _alternatives(match: Any) -> Any:
    """Return ["read_*", "grep"] for "read_*|grep"."""
    return [name.strip() for name in match.split("|")] if isinstance(match, str) else match


class ToolName(Strict):
    """A condition: the event's tool has one of these names, in which * and ? are wildcards."""

    type: Literal["tool_name"] = "tool_name"
    match: Annotated[tuple[str, ...], BeforeValidator(_alternatives)] = Field(strict=False)

    def holds(self, moment: RuleEvent) -> bool:
        tool = moment.event.tool
        return bool(tool) and any(fnmatchcase(tool, name) for name in self.match)


class ToolFailed(Strict):
    type: Literal["tool_failed"] = "tool_failed"

    def holds(self, moment: RuleEvent) -> bool:
        return moment.event.name == "tool_end" and moment.event.is_error


class ContentContains(Strict):
    """A condition: the event's text contains these words, in any case."""

    type: Literal["content_contains"] = "content_contains"
    keyword: str = Field(min_length=1)

    def holds(self, moment: RuleEvent) -> bool:
        return self.keyword.casefold() in moment.event.text.casefold()


class AllOf(Strict):
    type: Literal["all_of"] = "all_of"
    conditions: tuple[Condition, ...] = Field(min_length=1, strict=False)

    def holds(self, moment: RuleEvent) -> bool:
        return all(condition.holds(moment) for condition in self.conditions)


class AnyOf(Strict):
    type: Literal["any_of"] = "any_of"
    conditions: tuple[Condition, ...] = Field(min_length=1, strict=False)

    def holds(self, moment: RuleEvent) -> bool:
        return any(condition.holds(moment) for condition in self.conditions)


class Not(Strict):
    type: Literal["not"] = "not"
    condition: Condition

    def holds(self, moment: RuleEvent) -> bool:
        return not self.condition.holds(moment)


def spell_out(value: Any) -> Any:
    """Return the short forms `always` and `turn_count: {every: 10}` in the long form, with a
    type."""
    if isinstance(value, str):
        return {"type": value}
    if not isinstance(value, dict) or "type" in value or len(value) != 1:
        return value
    ((name, inside),) = value.items()
    if name in ("all_of", "any_of"):
        return {"type": name, "conditions": inside}
    if name == "not":
        return {"type": name, "condition": inside}
    return {**inside, "type": name} if isinstance(inside, dict) else {"type": name}


Condition = Annotated[
    Annotated[
        Always
        | Never
        | ContextPressure
        | TurnCount
        | ToolCalls
        | MessageCount
        | ToolName
        | ToolFailed
        | ContentContains
        | AllOf
        | AnyOf
        | Not,
        Field(discriminator="type"),
    ],
    BeforeValidator(spell_out),
]

for _holder in (AllOf, AnyOf, Not):
    _holder.model_rebuild()
