"""The messages and events of Discord, converted to the kit's values. Those written while the bot
was offline are fetched chat by chat, since Discord redelivers them only for some minutes."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Literal

import discord
import orjson
from msgspec import Struct
from msgspec.structs import replace

from channels.base import ChannelState
from channels.kit.platform import Author, ButtonPress, File, IncomingMessage, Location, Reaction
from channels.limited import LimitedDict

Scope = Literal["thread", "channel", "user"]
Where = Any  # one of the many kinds of channels

_USER, _ROLE, _CHANNEL = r"<@!?(\d+)>", r"<@&(\d+)>", r"<#(\d+)>"
_EMOJI = re.compile(r"<a?(:\w+:)\d+>")
ARGUMENTS = "arguments"
"""The one option of each slash command: the text after its name."""


def place_at(channel: Where, person: int, message: int) -> Location:
    """Return the place of a message. A private chat has its person's name, by which its own can be
    found."""
    if isinstance(channel, discord.DMChannel) or channel is None:
        return Location(str(person), message=str(message))
    if isinstance(channel, discord.Thread):
        return Location(str(channel.parent_id), str(channel.id), str(message), is_group=True)
    return Location(str(channel.id), "", str(message), is_group=True)


def scope_of(place: Location, scope: Scope, person: int) -> str | None:
    """Return the thread of the conversation, if it differs from the place's."""
    if not place.is_group or scope == "thread":
        return None
    return f"user-{person}" if scope == "user" else ""


def read_message(
    message: discord.Message,
    me: int,
    scope: Scope,
    language: str = "",
    place: Location | None = None,
) -> IncomingMessage | None:
    """Return a person's message; None for anything else: two bots would answer each other
    endlessly."""
    author = message.author
    if author.bot or message.webhook_id or message.is_system():
        return None
    place = place or place_at(message.channel, author.id, message.id)
    return IncomingMessage(
        place,
        Author(str(author.id), author.display_name, language),
        _text_of(message, me),
        tuple(_files(message)),
        is_for_bot=not place.is_group or _is_for(message, me),
        quoted=_quoted(message, me) if place.is_group else None,
        left_out=tuple(_left_out(message)),
        at=message.edited_at or message.created_at,
        scope=scope_of(place, scope, author.id),
    )


def commanded(interaction: discord.Interaction, scope: Scope) -> IncomingMessage:
    """Return a slash command as the line that a person could have typed. Its id is the
    interaction's."""
    data: Mapping[str, Any] = interaction.data or {}
    options = [str(one.get("value", "")) for one in data.get("options", ())]
    place = place_at(interaction.channel, interaction.user.id, interaction.id)
    return IncomingMessage(
        place,
        _sender(interaction),
        " ".join((f"/{data.get('name', '')}", *options)).strip(),
        at=interaction.created_at,
        scope=scope_of(place, scope, interaction.user.id),
    )


def pressed(interaction: discord.Interaction, scope: Scope) -> ButtonPress | None:
    """Return a pressed button; None if its message is deleted."""
    if interaction.message is None:
        return None
    given: Mapping[str, Any] = interaction.data or {}
    data = str(given.get("custom_id", ""))
    place = place_at(interaction.channel, interaction.user.id, interaction.message.id)
    return ButtonPress(
        place,
        _sender(interaction),
        str(interaction.id),
        data,
        _label(interaction.message, data),
        scope_of(place, scope, interaction.user.id),
    )


def reacted(
    reaction: discord.RawReactionActionEvent, channel: Where, me: int, scope: Scope
) -> Reaction | None:
    """Return a person's emoji on a message of the bot."""
    member = reaction.member
    is_of_bot = reaction.user_id == me or (member is not None and member.bot)
    if is_of_bot or reaction.message_author_id != me:
        return None
    place = place_at(channel, reaction.user_id, reaction.message_id)
    sender = Author(str(reaction.user_id), member.display_name if member else "")
    return Reaction(place, sender, str(reaction.emoji), scope_of(place, scope, reaction.user_id))


def _sender(interaction: discord.Interaction) -> Author:
    user = interaction.user
    return Author(str(user.id), user.display_name, str(interaction.locale))


def _label(message: discord.Message, data: str) -> str:
    rows = (one for one in message.components if isinstance(one, discord.ActionRow))
    buttons = (button for row in rows for button in row.children)
    return next(
        (b.label or "" for b in buttons if isinstance(b, discord.Button) and b.custom_id == data),
        "",
    )


def _own_role(message: discord.Message) -> int:
    """Return the role that Discord makes for a bot, which people mention as often as the bot."""
    role = message.guild.self_role if message.guild else None
    return role.id if role else 0


def _is_for(message: discord.Message, me: int) -> bool:
    """Return whether a message on a server addresses the bot: by a mention, or by a reply to it."""
    first = message.reference.resolved if message.reference else None
    is_reply = isinstance(first, discord.Message) and first.author.id == me
    is_named = any(user.id == me for user in message.mentions)
    return is_reply or is_named or _own_role(message) in message.raw_role_mentions


def _text_of(message: discord.Message, me: int) -> str:
    """Return the text, with names in place of Discord's numbers."""
    text = message.content.strip()
    role = _own_role(message)
    own = rf"^<@(?:!?{me}|&{role})>[\s,:]*"
    text = re.sub(own, "", text)
    for snapshot in message.message_snapshots:
        text = f"Forwarded:\n{snapshot.content}\n\n{text}".strip()
    names = {user.id: user.display_name for user in message.mentions}
    text = re.sub(_USER, lambda found: f"@{names.get(int(found[1]), found[1])}", text)
    if message.guild is not None:
        text = re.sub(_ROLE, lambda found: f"@{_name(message, found, 'role')}", text)
        text = re.sub(_CHANNEL, lambda found: f"#{_name(message, found, 'channel')}", text)
    return _EMOJI.sub(r"\1", text)


def _name(message: discord.Message, found: re.Match[str], kind: str) -> str:
    guild, number = message.guild, int(found[1])
    known = guild and (guild.get_role(number) if kind == "role" else guild.get_channel(number))
    return known.name if known else found[1]


def _quoted(message: discord.Message, me: int) -> tuple[str, str] | None:
    """Return the message that it replies to, if another person wrote it."""
    first = message.reference.resolved if message.reference else None
    if not isinstance(first, discord.Message) or first.author.id == me or not first.content:
        return None
    return first.author.display_name, _text_of(first, me)


def _files(message: discord.Message) -> Iterator[File]:
    forwarded = [one for snapshot in message.message_snapshots for one in snapshot.attachments]
    for one in (*message.attachments, *forwarded):
        kind = (one.content_type or "application/octet-stream").partition(";")[0].strip()
        yield File(one.url, one.filename, kind, one.size)


def _left_out(message: discord.Message) -> Iterator[str]:
    if message.stickers:
        yield "stickers"
    if message.poll:
        yield "polls"


log = logging.getLogger(__name__)

_NAME = "read"
_MOST = 100
"""The maximum number of chats that are checked, those with the latest messages."""
LONGEST_AWAY = timedelta(days=2)
"""The maximum age of a message that is answered."""


class LastRead(Struct, frozen=True):
    """The newest stored message of a chat; `place` is the place of its messages."""

    place: Location
    message: int


class ReadMarks:
    """The position up to which each Discord channel is processed."""

    def __init__(self, state: ChannelState, channel: str, kept: Mapping[int, LastRead]) -> None:
        self._state, self._channel = state, channel
        self._kept = LimitedDict[int, LastRead](_MOST)
        self._kept.update(kept)

    @classmethod
    async def load(cls, state: ChannelState, channel: str) -> ReadMarks:
        text = await state.get(channel, _NAME)
        try:
            kept = {
                int(number): LastRead(Location(chat, thread, is_group=is_group), int(message))
                for number, chat, thread, is_group, message in orjson.loads(text or "[]")
            }
        except (ValueError, TypeError):
            log.exception("what was read at Discord is not known any more")
            kept = {}
        return cls(state, channel, kept)

    def all(self) -> dict[int, LastRead]:
        return dict(self._kept)

    async def store_chat(self, message: IncomingMessage, number: int) -> None:
        """Store a chat before its first message is processed: unprocessed messages are found there
        by the next process."""
        if message.is_for_bot and number not in self._kept:
            self._put(message, number, int(message.place.message) - 1)
            await self._keep()

    async def note(self, message: IncomingMessage, number: int) -> None:
        """Note that a message is on disk. Messages between people on a server are noted only where
        the bot was addressed before, and stored with the next one that is for it."""
        known = self._kept.get(number)
        if known is None and not message.is_for_bot:
            return
        newest = max(int(message.place.message), known.message if known else 0)
        self._put(message, number, newest)
        if message.is_for_bot:
            await self._keep()

    def _put(self, message: IncomingMessage, number: int, newest: int) -> None:
        self._kept[number] = LastRead(replace(message.place, message=""), newest)

    async def drop(self, number: int) -> None:
        """Forget a chat that no longer exists."""
        if self._kept.pop(number, None):
            await self._keep()

    async def _keep(self) -> None:
        rows = [
            [str(number), one.place.chat, one.place.thread, one.place.is_group, str(one.message)]
            for number, one in self._kept.items()
        ]
        await self._state.set(self._channel, _NAME, orjson.dumps(rows).decode())


def since(last: int) -> discord.Object:
    """Return the message after which to start fetching."""
    oldest = discord.utils.time_snowflake(discord.utils.utcnow() - LONGEST_AWAY)
    return discord.Object(max(last, oldest))
