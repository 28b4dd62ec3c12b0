"""The channels to messengers, as `/status` shows them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Literal, Protocol

from msgspec import Struct

from channels.language import _, explain, number_of
from plugins.wording import literal


class ChannelInfo(Struct, frozen=True):
    """The state of the connection to a platform, `since` when, and why it can't be reached.
    `forged` counts the calls to its webhook that did not come from it."""

    name: str
    state: Literal["starting", "up", "troubled", "down"]
    since: datetime
    reason: str = ""
    forged: int = 0


class ChannelsPort(Protocol):
    async def look(self) -> Sequence[ChannelInfo]:
        """Return the channels that know how they are."""
        ...


def describe_channels(channels: Sequence[ChannelInfo], zone: tzinfo) -> list[str]:
    """Return a line for each that is not well."""
    return [line for one in channels for line in _describe(one, zone)]


def _describe(one: ChannelInfo, zone: tzinfo) -> list[str]:
    lines = []
    known = {
        "name": one.name,
        "time": f"{one.since.astimezone(zone):%d.%m. %H:%M}",
        "why": literal(explain(one.reason)),
    }
    if one.state == "troubled":
        lines.append(
            _(
                "The channel {name} can't be reached since {time}, and is tried again: {why}",
                **known,
            )
        )
    if one.state == "down":
        lines.append(_("The channel {name} does not run, since {time}: {why}", **known))
    if one.forged:
        counted = number_of(one.forged, "{n} call", "{n} calls")
        lines.append(
            _(
                "{calls} to the webhook of {name} did not come from there, and were refused.",
                calls=counted,
                name=one.name,
            )
        )
    return lines
