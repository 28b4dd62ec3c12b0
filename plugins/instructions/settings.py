"""The section `rules`: the detection of standing instructions, and their maximum size."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from plugins.features import SettingsSection


class RuleSettings(SettingsSection):
    """The settings of standing instructions."""

    SECTION: ClassVar[str] = "rules"
    detect: Literal["ask", "auto", "off"] = Field(
        default="ask",
        description="Standing instructions in your messages (“never …”, “always …”, “from now "
        "on …”). ask: you are asked below the answer whether to keep one as a "
        "rule. auto: it is kept at once if it is plainly yours, and you are told. "
        "off: only /rules add keeps one.",
        json_schema_extra={"here": True, "holds": "from the next message on"},
    )
    max_tokens: int = Field(
        default=1_000,
        ge=50,
        le=100_000,
        description="Maximum tokens of all standing instructions of a conversation together. "
        "They are sent with every request; one that would exceed this is refused.",
        json_schema_extra={"unit": "tokens", "holds": "from the next rule on"},
    )
