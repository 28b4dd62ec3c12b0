"""The setting of the file versions, in the section `tools`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from memory.setting_notes import TURN
from plugins.features import SettingsSection


class VersionSettings(SettingsSection):
    """The setting that this feature adds to the section `tools`."""

    SECTION: ClassVar[str] = "tools"

    versions_quota: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=100,
        description="Space for the versions of a chat's files, from which /files restores what "
        "tools have changed; the oldest go first, and a file larger than a quarter of it has "
        "none. 0: no versions are kept.",
        json_schema_extra={"unit": "MB", **TURN},
    )
