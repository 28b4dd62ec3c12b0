"""Who may talk to the bot, and who owns it. Fails closed: who is not listed is not let in."""

from __future__ import annotations

from collections.abc import Sequence

from channels.message import Address
from plugins.api import Person

LOCAL = frozenset({"terminal", "pipe", "web"})
"""Channels whose other end sits at this machine, under the account that started the bot; the web
channel lets in only such, and who has its token."""


def identify(address: Address, owners: Sequence[str]) -> Person | None:
    """Who speaks, or None for a stranger.

    At the terminal, on the web page, and through the pipe where no `user` is named, speaks whoever
    started the bot: the owner. Anyone else must be listed in `owners`, as "channel/user".
    """
    if address.channel in LOCAL and not address.user:
        return Person(address.channel, "owner")
    name = f"{address.channel}/{address.user}"
    return Person(name, "owner") if address.user and name in owners else None


def refusal(address: Address) -> str:
    """What a stranger is told: nothing about the bot, and what its owner could do."""
    name = f"{address.channel}/{address.user}"
    return (
        "This bot answers only people whom its owner has let in. If you are the owner, add "
        f'"{name}" to `owners` in config.json and start the bot again.'
    )
