"""The settings of this layer: the channels that run, their addresses, and the scope of a
conversation."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_network
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic.config import JsonDict
from typing_extensions import TypedDict

START: JsonDict = {"holds": "from the next start on"}

WebAddress = Annotated[str, StringConstraints(pattern=r"^(https?://[^\s\p{C}]+)?$", max_length=500)]


def _network(text: str) -> str:
    return str(ip_network(text, strict=False))


class StrictSettings(BaseModel):
    """Settings that are taken as they are named, and nothing else."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TelegramSettings(StrictSettings):
    """The group `telegram`. The token is not a setting: it is in .env as TELEGRAM_BOT_TOKEN."""

    conversations: Literal["topic", "chat", "user"] = Field(
        default="topic",
        description="Scope of one conversation in a group: each topic, the whole chat, or "
        "each person with the bot.",
        json_schema_extra={"holds": "from the next message on"},
    )
    base_url: WebAddress = Field(
        default="https://api.telegram.org",
        min_length=1,
        description="The address of the Bot API: Telegram's own, or a server that you run "
        "yourself.",
        json_schema_extra={"wants": "an address: http://127.0.0.1:8081", **START},
    )
    webhook_url: WebAddress = Field(
        default="",
        description="The public address of the web channel's server and /webhooks/telegram, if "
        "Telegram can reach you; empty means that the bot fetches messages.",
        json_schema_extra={"wants": "https://…/webhooks/telegram, or nothing", **START},
    )


MESSENGER_NAME = r"^[a-z][a-z0-9_-]{0,31}$"


def gather_messengers(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section `channels` with its objects, `"discord": {…}`, moved into the setting
    `messengers`."""
    kept = {name: value for name, value in section.items() if not isinstance(value, dict)}
    found = [
        {"name": name, "settings": value}
        for name, value in section.items()
        if isinstance(value, dict)
    ]
    return {**kept, "messengers": found} if found else kept


class MessengerEntry(TypedDict):
    """A messenger that runs, and its own settings, which its channel reads."""

    name: Annotated[str, StringConstraints(pattern=MESSENGER_NAME)]
    settings: dict[str, Any]


class RunningChannels(StrictSettings):
    """The section `channels`: the channels that run besides the terminal or the pipe."""

    web: bool = Field(
        default=False,
        description="Serve the web page and the HTTP API; `main.py --web` serves nothing else.",
        json_schema_extra={"wants": "true or false", **START},
    )
    messengers: tuple[MessengerEntry, ...] = Field(
        default=(),
        strict=False,
        max_length=100,
        description="Messengers of the bot; in the configuration each is an object "
        'under its name: `"channels": {"discord": {}}` (documentation: "Channels").',
        json_schema_extra={
            "wants": "messengers by their names, each with an object of its settings",
            "fixed": True,
            **START,
        },
    )


class WebSettings(StrictSettings):
    """The section `web`."""

    host: Annotated[str, StringConstraints(pattern=r"^[^\s\p{C}]+$", max_length=255)] = Field(
        default="127.0.0.1",
        description="The address to listen at; any other than this machine's own needs "
        "PARLEY_WEB_TOKEN.",
        json_schema_extra={"wants": "an address or a host's name", **START},
    )
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        default=8080,
        description="The port to listen at; 0 picks any free one.",
        json_schema_extra=START,
    )
    url: WebAddress = Field(
        default="",
        description="The address at which people find the page, for the links of /invite; empty "
        "means the address at which the bot listens.",
        json_schema_extra={"wants": "an address like https://chat.example.org"},
    )
    trusted_proxies: tuple[Annotated[str, AfterValidator(_network)], ...] = Field(
        default=(),
        strict=False,  # lists become tuples; the networks in them stay strict
        max_length=100,
        description="Proxies in front of the bot whose X-Forwarded-For header is trusted.",
        json_schema_extra={"wants": "addresses or networks: 127.0.0.1, 10.0.0.0/8", **START},
    )
    connections_per_address: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=100,
        description="Maximum connections from one address at once; this machine and trusted "
        "proxies may use all (half of `ulimit -n`).",
        json_schema_extra=START,
    )
    upload_limit: Annotated[int, Field(ge=1, le=200)] = Field(
        default=20,
        description="Maximum size of all files of one message together.",
        json_schema_extra={"unit": "MB", **START},
    )


class TerminalSettings(StrictSettings):
    """The section `terminal`."""

    theme: Literal["auto", "dark", "light"] = Field(
        default="auto",
        description="Background for which the terminal's colours are chosen; auto asks the "
        "terminal, and means dark if it does not answer.",
        json_schema_extra={"holds": "at once"},
    )


class ChannelSettings(StrictSettings):
    """The settings that this layer adds at the top level."""

    channels: RunningChannels = RunningChannels()
    web: WebSettings = WebSettings()
    terminal: TerminalSettings = TerminalSettings()
    telegram: TelegramSettings = TelegramSettings()
