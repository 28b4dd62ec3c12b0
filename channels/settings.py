"""This room's own settings: how the platforms are reached, and what is one conversation there."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.config import JsonDict

START: JsonDict = {"holds": "from the next start on"}

WebAddress = Annotated[str, StringConstraints(pattern=r"^(https?://[^\s\p{C}]+)?$", max_length=500)]


class TelegramSettings(BaseModel):
    """The group `telegram`. The token is no setting: it stands in .env as TELEGRAM_BOT_TOKEN."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    conversations: Literal["topic", "chat", "user"] = Field(
        default="topic",
        description="What is one conversation in a group: each topic, the whole chat, or each "
        "person with the bot.",
        json_schema_extra={"holds": "from the next message on"},
    )
    base_url: WebAddress = Field(
        default="https://api.telegram.org",
        min_length=1,
        description="Where the Bot API is served; another one than Telegram's own may run on your "
        "machine.",
        json_schema_extra={"wants": "an address: http://127.0.0.1:8081", **START},
    )
    webhook_url: WebAddress = Field(
        default="",
        description="The public address to which Telegram sends messages, where it can reach "
        "yours; empty: the bot asks for them.",
        json_schema_extra={"wants": "an https address, or nothing", **START},
    )
    webhook_host: str = Field(
        default="127.0.0.1",
        min_length=1,
        max_length=200,
        description="The address on this machine at which the webhook listens, behind whatever "
        "serves the public one.",
        json_schema_extra={"wants": "an address of this machine", **START},
    )
    webhook_port: int = Field(
        default=8443,
        ge=1,
        le=65_535,
        description="The port at which the webhook listens.",
        json_schema_extra=START,
    )


class ChannelSettings(BaseModel):
    """What this room adds at the top level."""

    telegram: TelegramSettings = TelegramSettings()
