"""The setting of the request log, in the section `context`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from plugins.features import SettingsSection


class RequestLogSettings(SettingsSection):
    """The number of requests that are stored."""

    SECTION: ClassVar[str] = "context"

    keep_requests: Annotated[int, Field(ge=0, le=1_000)] = Field(
        default=20,
        description="Number of the last requests to the model that are kept for /context "
        "request; 0 keeps none.",
        json_schema_extra={"unit": "requests", "here": True},
    )
