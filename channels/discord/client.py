"""The SDK's client, as this channel wants it: what Discord's gateway tells, in its order, and slash
commands and buttons on their way to an answer.

Discord wants to hear within three seconds that one of those was seen, and takes the answer to a
command for fifteen minutes in a place of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import aiohttp
import discord
import yarl
from discord.gateway import DiscordWebSocket, ReconnectWebSocket

from channels.kit.messenger import check_parts
from channels.limited import LimitedDict

log = logging.getLogger(__name__)

_EVENTS = {"connect", "resumed", "message", "raw_message_edit", "interaction", "raw_reaction_add"}
_MOST_PARTS = 4_000
"""The maximum number of objects and lists of a message. It may have ten embeds of 25 fields and
mention a hundred people, and it contains the message that it replies to."""
_BOUNDED = ("MESSAGE_CREATE", "MESSAGE_UPDATE", "INTERACTION_CREATE", "MESSAGE_REACTION_ADD")
_LONGEST_CONNECT = 60.0  # seconds
_LONGEST_WAIT = 30.0  # seconds that the SDK waits by itself if Discord asks for it


def point_at(base_url: str) -> None:
    """Use another server than Discord's, for tests."""
    discord.http.Route.BASE = f"{base_url}/api/v10"
    DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(f"{base_url.replace('http', 'ws', 1)}/gateway")


class DiscordClient(discord.Client):
    """The SDK's client, which queues events in Discord's order. Names of members are in their
    messages: none are cached.

    The SDK's own gateway loop (`connect`) would wait up to 17 minutes between two attempts, report
    nothing, and fail for good if the first attempt fails; `run_gateway` is one connection.
    """

    pause = 5.0

    def __init__(self) -> None:
        discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False  # no calls are made
        self.wanted = discord.Intents(
            guilds=True,
            guild_messages=True,
            dm_messages=True,
            guild_reactions=True,
            dm_reactions=True,
        )
        super().__init__(
            intents=self.wanted,
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            allowed_mentions=discord.AllowedMentions(
                everyone=False, users=False, roles=False, replied_user=True
            ),
            max_ratelimit_timeout=_LONGEST_WAIT,
        )
        parsers = self._connection.parsers
        parsers |= {name: partial(_parse_bounded, parsers[name]) for name in _BOUNDED}
        self._begun, self._resume = -self.pause, dict[str, Any]()
        self.happened: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()

    async def setup_hook(self) -> None:
        """Request the content of messages if the portal allows it: otherwise Discord hides text not
        addressed to the bot, such as the message that is replied to."""
        flags = self.application_flags
        self.wanted.message_content = (
            flags.gateway_message_content or flags.gateway_message_content_limited
        )

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """Wait for Discord's limit of one new session in five seconds."""
        now = asyncio.get_running_loop().time()
        if (wait := self._begun + self.pause - now) > 0:
            await asyncio.sleep(wait)
        self._begun = asyncio.get_running_loop().time()

    def dispatch(self, event: str, /, *args: Any, **_kwargs: Any) -> None:
        if event in _EVENTS:
            self.happened.put_nowait((event, args[0] if args else None))

    async def run_gateway(self) -> None:
        """Read the gateway until it ends; undelivered events follow when it is read again. Raises
        errors after which the session can't be resumed."""
        resume, self._resume = self._resume, {}
        try:
            async with asyncio.timeout(_LONGEST_CONNECT):
                gateway = await DiscordWebSocket.from_client(self, **resume)
        except (OSError, TimeoutError, aiohttp.ClientError):
            resume.pop("gateway", None)  # the gateway of this session may no longer exist
            self._resume = resume
            raise
        self.ws = gateway  # as the SDK does
        try:
            while True:
                await _poll(gateway)
        except ReconnectWebSocket as again:
            if again.resume and gateway.session_id:
                self._resume = {
                    "session": gateway.session_id,
                    "sequence": gateway.sequence,
                    "gateway": gateway.gateway,
                    "resume": True,
                }
        finally:
            if gateway.open:
                await gateway.close(1000)


def _parse_bounded(parse: Callable[[Any], None], data: Any) -> None:
    """Parse the data. Raises ValueError if that would take long."""
    check_parts(data, _MOST_PARTS)
    parse(data)


async def _poll(gateway: DiscordWebSocket) -> None:
    """Read the gateway's next event."""
    try:
        await gateway.poll_event()
    except (OSError, aiohttp.ClientError, discord.DiscordException, ReconnectWebSocket):
        raise
    except Exception as error:
        log.exception("an event from Discord can't be read and is left out")
        if not gateway.open:
            raise ConnectionError("the gateway is closed") from error


_SOON = 1.5
"""Seconds after which an unanswered command is acknowledged as being processed."""
_MOST = 1_000
_NOT_TAKEN = (50006, 50035)  # the content is refused, in any place
_PATIENCE = 10.0  # seconds; the SDK itself would wait as long as Discord says


class Interaction:
    """An interaction that can be answered once, by an answer or an acknowledgement; the lock
    preserves their order for Discord."""

    def __init__(self, given: discord.Interaction) -> None:
        self._given, self._line = given, asyncio.Lock()

    async def acknowledge(self) -> None:
        """Acknowledge the interaction, unless that was done."""
        is_command = self._given.type is discord.InteractionType.application_command
        async with self._line, asyncio.timeout(_PATIENCE):
            if not self._given.response.is_done():
                await self._given.response.defer(thinking=is_command)

    async def answer(self, content: str, view: discord.ui.View | None) -> str:
        """Answer a command; return the message's id."""
        async with self._line, asyncio.timeout(_PATIENCE):
            if self._given.response.is_done():
                message = await self._given.edit_original_response(content=content, view=view)
                return str(message.id)
            shown = view or discord.utils.MISSING
            sent = await self._given.response.send_message(
                content, view=shown, suppress_embeds=True
            )
            return str(sent.message_id)


class Interactions:
    """The unanswered interactions, by their ids."""

    def __init__(self) -> None:
        self._open = LimitedDict[str, Interaction](_MOST)

    def add(self, given: discord.Interaction) -> None:
        self._open[str(given.id)] = Interaction(given)

    async def follow(self, name: str, taking: asyncio.Task[None], *, is_command: bool) -> None:
        """Acknowledge an interaction in time: a button once it is on disk, a command by its answer,
        if that comes soon. `taking` brings it to disk."""
        if is_command:
            await asyncio.sleep(_SOON)
        else:
            await asyncio.wait({taking}, timeout=_SOON)
        await self.acknowledge(name, is_over=not is_command)

    async def acknowledge(self, name: str, *, is_over: bool = False) -> None:
        found = self._open.pop(name, None) if is_over else self._open.get(name)
        if found is None:
            return
        try:
            await found.acknowledge()
        except (discord.DiscordException, OSError, TimeoutError) as error:
            log.info("Discord did not hear that %s was seen: %s", name, error)

    async def answer(self, name: str, content: str, view: discord.ui.View | None) -> str:
        """Answer a command in its own place; return "" if that is impossible, or it is not a
        command."""
        found = self._open.get(name)
        if found is None:
            return ""
        try:
            message = await found.answer(content, view)
        except (discord.HTTPException, discord.InteractionResponded, TimeoutError) as error:
            if getattr(error, "code", 0) in _NOT_TAKEN:
                raise
            log.info("the answer to %s goes as a message of its own: %s", name, error)
            message = ""
        self._open.pop(name, None)
        return message
