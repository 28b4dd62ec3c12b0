"""The setting of the titles."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from plugins.features import SettingsSection


class ConversationSettings(SettingsSection):
    """The section `conversations`: their titles."""

    SECTION: ClassVar[str] = "conversations"
    titles: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="Let the model that writes summaries give a conversation a title of three to "
        "five words after its first answer. auto: where context.summary_brain.model names a "
        "model; on: also where the model that answers writes the summaries. The demo model is "
        "never asked; /usage shows the cost.",
        json_schema_extra={"wants": "auto, on or off", "holds": "from the next turn on"},
    )
