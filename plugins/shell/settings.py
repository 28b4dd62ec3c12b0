"""The settings of the tool `shell`, in the section `tools`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from memory.setting_notes import TURN
from plugins.features import SettingsSection


class ShellSettings(SettingsSection):
    """The settings that this feature adds to the section `tools`."""

    SECTION: ClassVar[str] = "tools"

    shell: bool = Field(
        default=False,
        description="Let the model ask to run shell commands, in a sandbox (bubblewrap) "
        "with the chat's folder and no network.",
        json_schema_extra=TURN,
    )
    shell_timeout: Annotated[int, Field(ge=1, le=3_600)] = Field(
        default=60,
        description="Time limit for a command; after it, the command and everything it "
        "started are killed.",
        json_schema_extra={"unit": "seconds", **TURN},
    )
    shell_memory: Annotated[int, Field(ge=50, le=1_000_000)] = Field(
        default=2_000,
        description="Maximum memory for a command and everything it starts; beyond that it is "
        "killed.",
        json_schema_extra={"unit": "MB", **TURN},
    )
