"""The settings of the tools `web_fetch` and `web_search`, in the section `tools`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from memory.setting_notes import FIXED, TURN, StrictModel
from plugins.features import SettingsSection


class WebSearch(StrictModel):
    """The group `web_search` of the section `tools`: the search provider."""

    provider: Literal["", "searxng", "brave", "tavily"] = Field(
        default="",
        description="Search service for the model; empty: it can't search the web.",
        json_schema_extra={"wants": "searxng, brave or tavily, or empty", **FIXED},
    )
    base_url: Annotated[
        str, StringConstraints(pattern=r"^(https?://[^\s\p{C}]+)?$", max_length=1_000)
    ] = Field(
        default="",
        description="The address of the search provider; empty means its own. A SearXNG has none "
        "but yours, which may be on this machine.",
        json_schema_extra={"wants": "an address with http:// or https://", **FIXED},
    )
    api_key: Annotated[str, StringConstraints(pattern=r"^[^\s\p{C}]*$", max_length=1_000)] = Field(
        default="",
        repr=False,
        description="The key for the search provider; SearXNG needs none.",
        json_schema_extra={
            "wants": "{{secret.NAME}}, with NAME in the environment or .env",
            **FIXED,
        },
    )
    results: Annotated[int, Field(ge=1, le=20)] = Field(
        default=5,
        description="Maximum search results that the model gets.",
        json_schema_extra={"unit": "results", **TURN},
    )


class WebToolSettings(SettingsSection):
    """The settings that this feature adds to the section `tools`."""

    SECTION: ClassVar[str] = "tools"

    web_fetch: bool = Field(
        default=False,
        description="Let the model ask to read web pages.",
        json_schema_extra=TURN,
    )
    web_search: WebSearch = WebSearch()

    @property
    def can_search(self) -> bool:
        """Return whether a search provider is set."""
        return bool(self.web_search.provider)
