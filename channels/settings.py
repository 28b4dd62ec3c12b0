"""This room's own settings: which channels run, and where."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.config import JsonDict

START: JsonDict = {"holds": "from the next start on"}


class RunningChannels(BaseModel):
    """The section `channels`: what runs beside the terminal or the pipe."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    web: bool = Field(
        default=False,
        description="Serve the web page and the HTTP API; `main.py --web` serves them alone.",
        json_schema_extra={"wants": "true or false", **START},
    )


class WebSettings(BaseModel):
    """The section `web`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    host: Annotated[str, StringConstraints(pattern=r"^[^\s\p{C}]+$", max_length=255)] = Field(
        default="127.0.0.1",
        description="The address to listen at; any but this machine's own wants PARLEY_WEB_TOKEN.",
        json_schema_extra={"wants": "an address or a host's name", **START},
    )
    port: int = Field(
        default=8080,
        ge=0,
        le=65_535,
        description="The port to listen at; 0 takes any that is free.",
        json_schema_extra=START,
    )
    upload_limit: int = Field(
        default=20,
        ge=1,
        le=200,
        description="The most that the files of one message may have together.",
        json_schema_extra={"unit": "MB", **START},
    )


class ChannelSettings(BaseModel):
    """What this room adds at the top level."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    channels: RunningChannels = RunningChannels()
    web: WebSettings = WebSettings()
