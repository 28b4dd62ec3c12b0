"""The setting of the request log, in the section `context`."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from plugins.features import SettingsSection


class RequestLogSettings(SettingsSection):
    """The number of requests that are stored."""

    SECTION: ClassVar[str] = "context"

    keep_requests: int = Field(
        default=20,
        ge=0,
        le=1_000,
        description="Number of the last requests to the model that are kept for /context "
        "request; 0 keeps none.",
        json_schema_extra={"unit": "requests", "here": True},
    )
