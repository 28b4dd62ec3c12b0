"""The text that can be typed next, as the bot says it: asked for when it is needed, and kept until
something is sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from channels.base import Bot
from channels.message import Address
from channels.terminal import conversations, keys
from channels.terminal.completion import (
    SOURCES,
    Offer,
    Suggestion,
    Vocabulary,
    choices,
    find_kind,
    is_known,
    offers_in,
)


class Offers:
    """The vocabulary of the conversation that the person is in."""

    def __init__(self) -> None:
        self._known: Vocabulary | None = None

    def forget(self) -> None:
        """Ask anew next time."""
        self._known = None

    async def find(self, bot: Bot, address: Address, line: str) -> Iterable[Suggestion]:
        """Return the suggestions for the end of a line."""
        known = self._known
        if known is None:
            commands = (await bot.command(address, "/help")).data or {}
            settings = (await bot.command(address, "/config")).data or {}
            own = [{"name": name, "summary": summary} for name, summary in keys.COMMANDS]
            listed = (*(commands.get("commands") or ()), *own)
            known = Vocabulary(listed, settings.get("settings") or (), {})
        if (kind := find_kind(line)) and kind not in known.lists:
            found = await _list(kind, known, bot, address)
            known = replace(known, lists={**known.lists, kind: found})
        self._known = known
        return choices(line, known)


async def _list(kind: str, known: Vocabulary, bot: Bot, address: Address) -> Sequence[Offer]:
    """List what there is of a kind now."""
    if kind == "conversations":
        found = await bot.sessions(conversations.CHANNEL)
        return [(one.chat, one.title) for one in found]
    command, what = SOURCES[kind]
    if not is_known(command, known):
        return ()
    data = (await bot.command(address, command)).data or {}
    return offers_in(kind, data.get(what) or ())
