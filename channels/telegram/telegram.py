"""The channel itself: what comes from Telegram goes to the desk, replies go out."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from telegram import BotCommand
from telegram.error import InvalidToken, TelegramError
from telegram.ext import ExtBot

from channels.base import Bot, ChannelError
from channels.language import ENGLISH, LANGUAGES, _, speaking
from channels.message import Outbound, Reply
from channels.settings import TelegramSettings
from channels.telegram.desk import Desk
from channels.telegram.incoming import place_of
from channels.telegram.onlooker import Onlookers
from channels.telegram.pace import Pace
from channels.telegram.reading import CarefulRequest
from channels.telegram.rendering import LONGEST, pieces
from channels.telegram.rhythm import Rhythm
from channels.telegram.sending import deliver
from channels.telegram.updates import poll, serve

log = logging.getLogger(__name__)

WRONG_TOKEN = (
    "Telegram does not know this token; copy it from @BotFather into .env again, as "
    "TELEGRAM_BOT_TOKEN, and restart the bot."
)
NO_WAY = (
    "Messages from Telegram can't be received ({}); correct the settings in the group telegram."
)
AGAIN = "*(This may have reached you before: the bot was started again.)*\n\n"
_OFFERED = re.compile(r"[a-z0-9_]{1,32}")
"""Names of commands that Telegram takes; it takes 100."""


class Telegram:
    """A bot at Telegram. `settings` are asked for when they are needed."""

    name = "telegram"
    sound = "opus"
    longest = LONGEST

    def __init__(
        self, token: str, settings: Callable[[], TelegramSettings], rhythm: Rhythm | None = None
    ) -> None:
        self._token, self._settings, self._rhythm = token, settings, rhythm or Rhythm()
        self._connecting = asyncio.Lock()
        self._connection: _Connection | None = None
        self._bot: Bot | None = None

    async def listen(self, bot: Bot) -> None:
        self._bot = bot
        connection = await self._connected()
        sdk, settings = connection.sdk, self._settings()
        desk = Desk(bot, sdk, lambda: self._settings().conversations, connection.onlookers)
        offering = asyncio.create_task(_offer_commands(sdk, bot), name="telegram commands")
        try:
            if settings.webhook_url:
                await serve(sdk, desk.take, settings, self._rhythm)
            else:
                await poll(sdk, desk.take, self._rhythm, self._trouble)
        except InvalidToken:
            raise ChannelError(WRONG_TOKEN) from None
        except (TelegramError, OSError) as error:
            raise ChannelError(NO_WAY.format(error)) from error
        finally:
            offering.cancel()
            await asyncio.gather(offering, return_exceptions=True)

    async def send(self, outbound: Outbound) -> None:
        language = self._bot.language_of(outbound.address) if self._bot else ENGLISH
        with speaking(language):
            await self._send(outbound)

    async def _send(self, outbound: Outbound) -> None:
        connection = await self._connected()
        draft = await connection.onlookers.settle(outbound.address, outbound.reply_to)
        reply = outbound.reply
        if outbound.is_resent:
            reply = Reply(_(AGAIN) + reply.text, reply.data, reply.actions, reply.images)
        place = place_of(outbound.address, outbound.reply_to)
        if outbound.part:
            place = replace(place, message=0)  # the first part has named what it answers
        await deliver(connection.sdk, place, reply, draft, is_plain=outbound.is_plain)

    def parts(self, reply: Reply) -> list[Reply]:
        """Each message by itself; pictures and buttons go with the last."""
        *first, last = pieces(reply.text) or [reply.text]
        return [*map(Reply, first), replace(reply, text=last)]

    async def close(self) -> None:
        if self._connection:
            await self._connection.onlookers.close()
            await self._connection.sdk.shutdown()

    def _trouble(self, error: BaseException) -> None:
        if self._bot is not None:
            self._bot.trouble(self.name, error)

    async def _connected(self) -> _Connection:
        """The connection, which the first who needs it makes: the bot may have replies to send
        before it listens. Raises ChannelError."""
        async with self._connecting:
            if self._connection is None:
                self._connection = await self._connect()
            return self._connection

    async def _connect(self) -> _Connection:
        address = self._settings().base_url.rstrip("/")
        sdk = ExtBot(
            self._token,
            base_url=f"{address}/bot",
            base_file_url=f"{address}/file/bot",
            rate_limiter=Pace(self._rhythm, self._trouble),
            get_updates_request=CarefulRequest(connection_pool_size=1),
        )
        try:
            await sdk.initialize()
        except InvalidToken:
            await sdk.shutdown()
            raise ChannelError(WRONG_TOKEN) from None
        return _Connection(sdk, Onlookers(sdk, self._rhythm))


@dataclass(frozen=True, slots=True)
class _Connection:
    """The SDK, ready for requests, and those who watch conversations to show them there."""

    sdk: ExtBot[str]
    onlookers: Onlookers


async def _offer_commands(sdk: ExtBot[str], bot: Bot) -> None:
    """Let Telegram show the commands while a person types, in the language of their Telegram."""
    offered = [one for one in bot.list_commands() if _OFFERED.fullmatch(one.name)][:100]
    try:
        for language in LANGUAGES:
            with speaking(language):
                named = [BotCommand(one.name, _(one.summary)[:256]) for one in offered]
            code = None if language == ENGLISH else language
            await sdk.set_my_commands(named, language_code=code)
    except TelegramError as error:
        log.warning("Telegram does not take the list of commands: %s", error)
