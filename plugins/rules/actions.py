"""What a rule does."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AliasChoices, BeforeValidator, Field

from plugins.rules.conditions import Strict, spelled_out

LONGEST = 10_000
"""Characters of a text that a rule says."""


class CompactContext(Strict):
    """Make the context smaller. What is left out is what the settings say at that moment."""

    type: Literal["compact_context"] = "compact_context"
    strategy: Literal["", "truncate", "summarize"] = ""
    keep_recent: int = Field(
        default=0, ge=0, le=1_000, validation_alias=AliasChoices("keep_recent", "keep_last")
    )
    summary_max_tokens: int = Field(default=0, ge=0, le=100_000)


class InjectMessage(Strict):
    """Say something to the model, which reads it at its next step."""

    type: Literal["inject_message"] = "inject_message"
    content: str = Field(min_length=1, max_length=LONGEST)


class LogAction(Strict):
    """Write a line to the bot's log."""

    type: Literal["log"] = "log"
    message: str = Field(min_length=1, max_length=LONGEST)
    level: Literal["debug", "info", "warning", "error"] = "info"


class Notify(Strict):
    """Say something to the person, beside the conversation."""

    type: Literal["notify"] = "notify"
    message: str = Field(min_length=1, max_length=LONGEST)


Action = Annotated[
    Annotated[CompactContext | InjectMessage | LogAction | Notify, Field(discriminator="type")],
    BeforeValidator(spelled_out),
]
