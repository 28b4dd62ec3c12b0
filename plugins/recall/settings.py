"""The setting of the search by meaning."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from plugins.features import SettingsSection


class SearchSettings(SettingsSection):
    """The section `search`: the comparison of meanings."""

    SECTION: ClassVar[str] = "search"
    semantic: bool = Field(
        default=False,
        description="Let the model's search also find messages that say the same in other words. "
        "It needs `python main.py add semantic` and 150 MB of memory "
        '(documentation: "Memory").',
        json_schema_extra={"wants": "true or false", "holds": "within a minute"},
    )
