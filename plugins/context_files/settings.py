"""The setting of a conversation's files, in the section `context`."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from memory.setting_notes import TURN
from plugins.features import SettingsSection


class ContextFilesSettings(SettingsSection):
    """The setting that keeps files up to date."""

    SECTION: ClassVar[str] = "context"

    context_files: bool = Field(
        default=False,
        description="After each turn, update context.json (all that was said) and "
        "context.terse.json (a line for each turn) in the conversation's folder.",
        json_schema_extra={"here": True, **TURN},
    )
