"""Discord, through discord.py: direct messages, servers, threads, slash commands, buttons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from channels.base import Channel
from channels.kit.registration import ChannelType
from channels.settings import START, StrictSettings, WebAddress

TOKEN = "DISCORD_TOKEN"


class DiscordSettings(StrictSettings):
    """The settings `channels.discord`. The token is not a setting: it is in .env as
    DISCORD_TOKEN."""

    conversations: Literal["thread", "channel", "user"] = Field(
        default="thread",
        description="Scope of one conversation on a server: each thread and each channel, a "
        "channel with all its threads, or each person in a channel with the bot.",
        json_schema_extra=START,
    )
    base_url: WebAddress = Field(
        default="",
        description="Another address than Discord's, for tests of the bot.",
        json_schema_extra={"wants": "nothing, or an address: http://127.0.0.1:8081", **START},
    )


def make(settings: DiscordSettings, secrets: Mapping[str, str]) -> Channel:
    """Make the channel; import the SDK here, not where this package is imported."""
    from channels.discord.platform import Discord  # noqa: PLC0415 - it takes half a second
    from channels.kit.messenger import Messenger  # noqa: PLC0415 - as above

    return Messenger(Discord(secrets[TOKEN], settings))


CHANNEL = ChannelType(
    "discord",
    make,
    DiscordSettings,
    secrets=(TOKEN,),
    packages=("discord.py",),
    requirements="channels/discord/requirements.txt",
)
