"""The Discord platform: events from the gateway, and requests for actions."""

from __future__ import annotations

import asyncio
import io
import logging
import re
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

import aiohttp
import discord
from discord.gateway import ReconnectWebSocket
from msgspec.structs import replace

from channels.base import ChannelError, CommandEntry
from channels.discord import DiscordSettings, incoming
from channels.discord.client import DiscordClient, Interactions, point_at
from channels.discord.incoming import LastRead, ReadMarks, since
from channels.discord.rendering import (
    LONGEST,
    commands_as_offered,
    escaped,
    length,
    nonce_of,
    reference_of,
    rendered,
    units,
    view_of,
)
from channels.kit.platform import (
    ButtonPress,
    Event,
    File,
    IncomingHandler,
    IncomingMessage,
    Location,
    Media,
    Platform,
    PlatformFailure,
    Post,
    Traits,
)
from channels.kit.receiver import address_of
from channels.message import Address
from channels.splitting import Length

log = logging.getLogger(__name__)

WRONG_TOKEN = (
    "Discord does not know this token; copy it from the developer portal (Bot, Reset Token) into "
    ".env again, as DISCORD_TOKEN, and restart the bot."
)
NO_CONTENT = (
    "Discord does not let this bot read messages on servers any more; turn on the Message Content "
    "Intent in the developer portal again, or restart the bot, which then does without."
)
_MOST_FETCHED = 200  # messages of one chat written while the bot was offline
_AT_ONCE = 8  # chats that are checked at a time
_GONE = {10003, 10004, 50001, 50007, 50013, 50083, 50278, 160005}
"""Unknown channel or server, no access, no messages to this person, no permission to write, an
archived thread, no shared server with this person, a locked thread."""
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]*)?")
_WAIT = 5.0  # seconds, if Discord, or a proxy, names a date or nothing
_END = "end"
_MOST_LANGUAGES = 1_000  # people whose language is remembered


class Discord(Platform):
    """A Discord bot."""

    name = "discord"
    traits = Traits(
        longest=LONGEST,
        can_edit=True,
        draft=1.2,  # Discord lets a channel have five edits in five seconds
        group_draft=2.5,
        typing=8.0,  # it shows for ten
        longest_button=100,
        overall=40.0,  # of fifty requests of all kinds
        sound="opus",
        message_id=re.compile(r"\d{1,20}"),
    )

    def __init__(self, token: str, settings: DiscordSettings) -> None:
        self._token, self._settings = token.strip(), settings
        self._client: DiscordClient
        self._interactions = Interactions()
        self._languages: dict[int, str] = {}
        self._offered: list[Any] = []
        self._tasks: set[asyncio.Task[None]] = set()
        if settings.base_url:
            point_at(settings.base_url.rstrip("/"))

    async def open(self) -> None:
        client = DiscordClient()
        try:
            await client.login(self._token)
        except discord.LoginFailure:
            await client.close()
            raise ChannelError(WRONG_TOKEN) from None
        except BaseException:
            await client.close()
            raise
        self._client = client

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.close()

    def explain(self, error: BaseException) -> PlatformFailure:
        if isinstance(error, discord.RateLimited):
            return PlatformFailure("wait", error.retry_after)
        if isinstance(error, discord.ConnectionClosed):
            return _explain_close(error)
        if isinstance(error, discord.LoginFailure):
            return PlatformFailure("revoked", advice=WRONG_TOKEN)
        if isinstance(error, discord.HTTPException):
            return _explain_answer(error)
        if isinstance(error, OSError | TimeoutError | aiohttp.ClientError | ReconnectWebSocket):
            return PlatformFailure("passing")
        return PlatformFailure("fatal")

    # Incoming events.

    async def listen(self, handler: IncomingHandler) -> None:
        """Listen to the gateway for one connection; all of its events are passed on before it
        ends."""
        bringing = asyncio.create_task(self._forward_events(handler), name="discord")
        hearing = asyncio.create_task(self._client.run_gateway(), name="discord gateway")
        try:
            await asyncio.wait((bringing, hearing), return_when=asyncio.FIRST_COMPLETED)
            if not bringing.done():
                self._client.happened.put_nowait((_END, None))
                await asyncio.wait((bringing,))
        finally:
            for task in (bringing, hearing):
                task.cancel()
            ended = await asyncio.gather(bringing, hearing, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error

    async def _forward_events(self, handler: IncomingHandler) -> None:
        """Pass on the events, in order, until the connection ends."""
        marks = await ReadMarks.load(handler.bot.state, self.name)
        while True:
            name, what = await self._client.happened.get()
            if name == _END:
                return
            if name in ("connect", "resumed"):
                handler.connected()
                if name == "connect":  # a new session redelivers nothing from before it
                    await self._catch_up(handler, marks)
                continue
            try:
                event = await self._event(what)
            except Exception:
                log.exception("a %s from Discord can't be read and is left out", name)
                continue
            if event is None:
                continue
            is_friend = handler.bot.admits(address_of(self.name, event))
            if isinstance(event, IncomingMessage) and is_friend:
                await marks.store_chat(event, _channel_of(what))
            taking = self._spawn(
                self._handle_event(handler, marks if is_friend else None, event, what)
            )
            if isinstance(what, discord.Interaction) and is_friend:  # others may get no answer
                is_command = isinstance(event, IncomingMessage)
                following = self._interactions.follow(str(what.id), taking, is_command=is_command)
                self._spawn(following)

    async def _handle_event(
        self, handler: IncomingHandler, marks: ReadMarks | None, event: Event, what: Any
    ) -> None:
        await handler.take([event])
        if isinstance(event, IncomingMessage) and marks:  # messages of strangers are not tracked
            await marks.note(event, _channel_of(what))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _catch_up(self, handler: IncomingHandler, marks: ReadMarks) -> None:
        """Process the messages written while the bot was offline, in chats where it was addressed
        before."""
        limit = asyncio.Semaphore(_AT_ONCE)

        async def read_missed(number: int, last: LastRead) -> None:
            async with limit:
                try:
                    found = await handler.patiently(lambda: self._written_since(number, last))
                except discord.HTTPException as error:
                    log.info("the chat %s can't be read any more: %s", number, error)
                    await marks.drop(number)
                    return
            for message in found:
                await handler.take([message])
                await marks.note(message, number)

        await asyncio.gather(*(read_missed(*one) for one in marks.all().items()))

    async def _written_since(self, number: int, last: LastRead) -> list[IncomingMessage]:
        channel, scope = self._client.get_partial_messageable(number), self._settings.conversations
        after = since(last.message)
        return [
            parsed
            async for message in channel.history(
                limit=_MOST_FETCHED, after=after, oldest_first=True
            )
            if (
                parsed := incoming.read_message(
                    message,
                    self._me,
                    scope,
                    self._language_of(message.author),
                    replace(last.place, message=str(message.id)),
                )
            )
        ]

    async def _event(self, what: Any) -> Event | None:
        scope = self._settings.conversations
        match what:
            case discord.RawMessageUpdateEvent() if what.message.edited_at is None:
                return None  # Discord has added a preview
            case discord.Message() | discord.RawMessageUpdateEvent():
                message = what if isinstance(what, discord.Message) else what.message
                if isinstance(message.channel, discord.PartialMessageable):
                    message.channel = await self._channel(message.channel.id)
                return incoming.read_message(
                    message, self._me, scope, self._language_of(message.author)
                )
            case discord.RawReactionActionEvent():
                channel = await self._channel(what.channel_id) if what.guild_id else None
                return incoming.reacted(what, channel, self._me, scope)
            case discord.Interaction():
                return self._asked(what)
        return None

    def _asked(self, interaction: discord.Interaction) -> Event | None:
        scope = self._settings.conversations
        event: Event | None = None
        if interaction.type is discord.InteractionType.application_command:
            event = incoming.commanded(interaction, scope)
        elif interaction.type is discord.InteractionType.component:
            event = incoming.pressed(interaction, scope)
        if event is not None:
            self._interactions.add(interaction)
            self._languages[interaction.user.id] = str(interaction.locale)
            if len(self._languages) > _MOST_LANGUAGES:
                del self._languages[next(iter(self._languages))]
        return event

    def _language_of(self, person: discord.abc.User) -> str:
        """Return the language of their app, as reported by a command or a button."""
        return self._languages.get(person.id, "")

    @property
    def _me(self) -> int:
        return self._client.user.id if self._client.user else 0

    async def _channel(self, number: int) -> Any:
        return self._client.get_channel(number) or await self._client.fetch_channel(number)

    async def fetch(self, file: File) -> bytes:
        return await self._client.http.get_from_cdn(file.id)

    # Outgoing messages.

    @property
    def length(self) -> Length:
        return length

    def plain_length(self, text: str) -> int:
        return units(escaped(text))

    async def post(self, place: Location, post: Post) -> str:
        content, view = _content(post), view_of(post.buttons)
        if answer := await self._interactions.answer(place.message, content, view):
            return answer
        return await self._send(place, content=content, view=view, nonce=nonce_of(place, post.once))

    async def _send(self, place: Location, **content: Any) -> str:
        """Send without previews, which would reveal to a linked site that it was mentioned."""
        channel = await self._destination(place)
        sent = await channel.send(reference=reference_of(place), suppress_embeds=True, **content)
        return str(sent.id)

    async def edit(self, place: Location, message: str, post: Post) -> None:
        shown = await self._message(place, message)
        await shown.edit(content=_content(post), view=view_of(post.buttons))

    async def delete(self, place: Location, message: str) -> None:
        await (await self._message(place, message)).delete()

    async def upload(self, place: Location, media: Media) -> str:
        caption = escaped(media.caption)
        if await self._interactions.answer(place.message, caption or media.name, None):
            caption = ""
        file = discord.File(io.BytesIO(media.content), media.name)
        return await self._send(place, content=caption, file=file, view=view_of(media.buttons))

    async def show_typing(self, place: Location) -> None:
        await (await self._destination(place)).typing()

    async def answer_press(self, pressed: ButtonPress) -> None:
        await self._interactions.acknowledge(pressed.press, is_over=True)

    async def offer(self, commands: Mapping[str, Sequence[CommandEntry]]) -> None:
        payload = commands_as_offered(commands)
        if payload == self._offered:
            return  # the gateway's reconnection would offer them again
        number = self._client.application_id or 0
        await self._client.http.bulk_upsert_global_commands(number, payload)
        self._offered = payload

    def place_of(self, address: Address, message: str) -> Location:
        place = super().place_of(address, message)
        return place if place.thread.isdecimal() else replace(place, thread="")

    async def _destination(self, place: Location) -> discord.abc.Messageable:
        if place.is_group:
            return self._client.get_partial_messageable(int(place.thread or place.chat))
        return await self._client.create_dm(discord.Object(int(place.chat)))

    async def _message(self, place: Location, message: str) -> discord.PartialMessage:
        channel = await self._destination(place)
        assert isinstance(channel, discord.DMChannel | discord.PartialMessageable)
        return channel.get_partial_message(int(message))


def _channel_of(what: Any) -> int:
    """Return the number of the channel of a message, an edit or a command."""
    number: int = getattr(what, "channel_id", None) or what.channel.id
    return number


def _explain_close(error: discord.ConnectionClosed) -> PlatformFailure:
    if error.code == 4004:
        return PlatformFailure("revoked", advice=WRONG_TOKEN)
    if error.code == 4014:
        return PlatformFailure("fatal", advice=NO_CONTENT)
    return PlatformFailure("fatal" if error.code in (4010, 4011, 4012, 4013) else "passing")


def _explain_answer(error: discord.HTTPException) -> PlatformFailure:
    if error.status == 401:
        return PlatformFailure("revoked", advice=WRONG_TOKEN)
    if error.status == 429:
        after = str(error.response.headers.get("Retry-After", ""))
        return PlatformFailure("wait", float(after) if _SECONDS.fullmatch(after) else _WAIT)
    if error.status >= 500:
        return PlatformFailure("passing")
    return PlatformFailure("gone" if error.code in _GONE else "refused")


def _content(post: Post) -> str:
    return escaped(post.text) if post.is_plain else rendered(post.text)
