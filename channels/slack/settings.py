"""The settings of Slack, as they stand in the configuration."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class SlackSettings(BaseModel):
    """`threads` says where an answer opens a thread, which is a conversation of its own: in
    channels, everywhere (also in private, as Slack's Agent view wants it), or nowhere."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    threads: Literal["channels", "everywhere", "nowhere"] = "channels"
    base_url: Annotated[str, Field(pattern=r"^(https://|http://(127\.0\.0\.1|localhost)[:/])")] = (
        "https://slack.com/api/"
    )
