"""A channel over a platform: incoming events go to the receiver, replies to the platform."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import orjson
from msgspec.structs import asdict, replace

from channels.base import (
    HEALTH,
    Bot,
    ChannelError,
    ChannelHealth,
    CommandEntry,
    WebhookAnswer,
    WebhookCall,
)
from channels.kit.choices import Card
from channels.kit.delivery import MessageSender, pieces
from channels.kit.drafts import Drafts
from channels.kit.pace import ChatRateLimit, HealthRecord
from channels.kit.platform import Location, Platform
from channels.kit.receiver import MessageReceiver
from channels.language import ENGLISH, LANGUAGES, _, speaking
from channels.message import Address, Outbound, Reply
from channels.retry import Sleep

log = logging.getLogger(__name__)


def load_frame(text: str, platform: str) -> dict[str, Any]:
    """Return the object in a frame; an empty one for an invalid frame, which must not end the
    connection."""
    try:
        frame = json.loads(text)
    except (ValueError, RecursionError):
        frame = None
    if not isinstance(frame, dict):
        log.warning("%s: a frame can't be read and is left out", platform)
        return {}
    return frame


ODD_SHAPE = (
    *(AttributeError, KeyError, IndexError, TypeError, ValueError),
    *(OverflowError, RecursionError),
)
"""Errors of reading a value that does not have the platform's documented shape."""


MOST_OBJECTS = 1_000
"""The maximum number of objects read from a list: no platform puts more into one call."""


def list_objects(holder: Any, name: str) -> list[dict[str, Any]]:
    """Return the objects in an object's list of this name; other values are omitted, as are objects
    beyond the first MOST_OBJECTS."""
    found = holder.get(name) if isinstance(holder, dict) else None
    if not isinstance(found, list):
        return []
    if len(found) > MOST_OBJECTS:
        log.warning("a list of %d %s is cut to %d", len(found), name, MOST_OBJECTS)
    return [one for one in found[:MOST_OBJECTS] if isinstance(one, dict)]


def check_parts(body: object, most: int) -> None:
    """Check the size of JSON before an SDK parses it into values. Raises ValueError if it has more
    objects and lists than `most`."""
    waiting, count = [body], 0
    while waiting:
        one = waiting.pop()
        inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        waiting += [value for value in inner if isinstance(value, dict | list)]
        count += 1
        if count + len(waiting) > most:
            raise ValueError(f"it has more than {most} parts")


AGAIN = "*(This may have reached you before: the bot was started again.)*\n\n"
_ID = re.compile(r"([^@#]*)(?:@([^#]*))?(?:#(.*))?", re.DOTALL)


class Messenger:
    """A channel. `sleep` waits between retries."""

    def __init__(self, platform: Platform, sleep: Sleep = asyncio.sleep) -> None:
        self.name, self.platform = platform.name, platform
        self.sound, self.longest = platform.traits.sound, platform.traits.longest
        self._sleep = sleep
        self._health = HealthRecord(self.name)
        self._pace = ChatRateLimit(platform, self._health, sleep)
        self._delivery = MessageSender(platform, self._pace)
        self._drafts = Drafts(self._delivery)
        self._opening = asyncio.Lock()
        self._is_open = self._is_listening = self._has_offered = False
        self._bot: Bot | None = None
        self._keeping: set[asyncio.Task[None]] = set()
        self._settling: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._caller: MessageReceiver | None = None

    @property
    def health(self) -> ChannelHealth:
        return self._health.state

    async def listen(self, bot: Bot) -> None:
        """Listen, and retry after passing failures. Raises ChannelError."""
        self._bot = self._health.bot = bot
        self._is_listening, self._caller = True, None  # an earlier receiver had no drafts
        self._health.on_change = self._keep_health
        receiver = MessageReceiver(bot, self._delivery, self._drafts, self._health)
        try:
            while True:
                await self._listen_once(receiver)
                await self._sleep(self._health.wait)
        except ChannelError as error:
            self._health.is_over(error)
            raise
        finally:
            self._is_listening = False
            await asyncio.gather(*self._keeping, return_exceptions=True)

    def _keep_health(self) -> None:
        """Store the health for other processes."""
        assert self._bot is not None
        health = self.health
        text = orjson.dumps(asdict(health)).decode()
        task = asyncio.create_task(self._bot.state.set(self.name, HEALTH, text))
        self._keeping.add(task)
        task.add_done_callback(self._keeping.discard)

    async def _listen_once(self, receiver: MessageReceiver) -> None:
        """Listen; return after a passing failure."""
        try:
            await self._open()
            offering = asyncio.create_task(self._offer(receiver.bot), name=f"{self.name} commands")
            try:
                await self.platform.listen(receiver)
            finally:
                offering.cancel()
                await asyncio.gather(offering, return_exceptions=True)
            self._health.has_trouble(ConnectionError("the connection has ended"))
        except ChannelError:
            raise
        except Exception as error:
            failure = self.platform.explain(error)
            if failure.kind not in ("passing", "wait"):
                reason = failure.advice or f"{self.name} can't be served ({error})."
                raise ChannelError(reason) from error
            self._health.has_trouble(error)

    async def _offer(self, bot: Bot) -> None:
        """Register the commands with the platform for suggestions while a person types, in each
        language; once."""
        if self._has_offered:
            return
        offered: dict[str, list[CommandEntry]] = {}
        for language in LANGUAGES:
            with speaking(language):
                offered[language] = [
                    CommandEntry(one.name, _(one.summary)) for one in bot.list_commands()
                ]
        try:
            await self.platform.offer(offered)
            self._has_offered = True
        except Exception as error:  # noqa: BLE001 - an SDK may raise anything
            log.warning("%s does not take the list of commands: %s", self.name, error)

    async def _open(self) -> None:
        """Connect on first use: the bot may have replies to send before it listens. Raises
        ChannelError."""
        async with self._opening:
            if not self._is_open:
                await self.platform.open()
                self._is_open = True

    async def send(self, outbound: Outbound) -> None:
        language = self._bot.language_of(outbound.address) if self._bot else ENGLISH
        with speaking(language):
            await self._send(outbound)

    async def _send(self, outbound: Outbound) -> None:
        await self._pace.send(_NOWHERE, self._open, is_message=False)
        draft = await self._drafts.finish(outbound.address, outbound.reply_to)
        reply = outbound.reply
        if outbound.is_resent:
            reply = replace(reply, text=_(AGAIN) + reply.text)
        place = self.place_of(outbound.address, outbound.reply_to)
        if outbound.part:
            place = replace(place, message="")  # the first part has named the message it answers
        once = f"o{outbound.id}" if outbound.id else ""
        is_private = self._bot is not None and self._bot.is_private(outbound.address)
        try:
            await self._delivery.deliver(
                place, reply, draft, is_plain=outbound.is_plain, once=once, is_private=is_private
            )
        finally:
            await self._drafts.note_sent(outbound.address, outbound.reply_to)
        if outbound.turn is None:
            await self._resolve_question(place, outbound)

    async def _resolve_question(self, place: Location, outbound: Outbound) -> None:
        """Edit a question to show its answer, if this reply is about one."""
        if self._delivery.cards is None:
            return
        is_done = not outbound.reply.problem
        settled = await self._delivery.cards.resolve(place, outbound.reply_to, is_done=is_done)
        if settled:
            self._show_settled(place, *settled)

    async def close_question(self, address: Address, question: str, how: str) -> None:
        """Edit the message with this question to show its outcome."""
        if self._delivery.cards is None:
            return
        place = self.platform.place_of(address, "")
        if closed := await self._delivery.cards.close(place, question, how):
            self._show_settled(place, *closed)

    def _show_settled(self, place: Location, message: str, card: Card) -> None:
        """Edit a message with a question; cancel an earlier edit of it, which is out of date."""
        name = (place.chat, message)
        if (before := self._settling.get(name)) is not None:
            before.cancel()
        task = asyncio.create_task(self._delivery.show_answer(place, message, card))
        self._settling[name] = task

        def forget(done: asyncio.Task[None]) -> None:
            if self._settling.get(name) is done:
                del self._settling[name]

        task.add_done_callback(forget)

    def parts(self, reply: Reply) -> list[Reply]:
        """Return one reply for each message; pictures and choices belong to the last."""
        *first, last = pieces(self.platform, reply.text) or [reply.text]
        return [*map(Reply, first), replace(reply, text=last)]

    def place_of(self, address: Address, reply_to: str) -> Location:
        """Return the place for the reply to a message, whose id may be one made by the bot."""
        found = _ID.fullmatch(reply_to)
        message = unquote(found[1]) if found else ""
        if not found or not self.platform.traits.message_id.fullmatch(message):
            return self.platform.place_of(address, "")
        place = self.platform.place_of(address, message)
        return replace(place, thread=unquote(found[2])) if found[2] else place

    def expects(self, headers: Mapping[str, str]) -> bool:
        is_expected = self.platform.expects(headers)
        if not is_expected:
            self._health.count_forged()
        return is_expected

    async def call(self, bot: Bot, call: WebhookCall) -> WebhookAnswer:
        """Answer a webhook call of the platform, on any gateway."""
        await self._open()
        if self._caller is None or self._caller.bot is not bot:
            drafts = self._drafts if self._is_listening else None
            self._caller = MessageReceiver(bot, self._delivery, drafts, self._health)
        try:
            answer = await self.platform.call(self._caller, call)
        except ODD_SHAPE:
            log.exception("a call of %s can't be read and is left out", self.name)
            return WebhookAnswer()  # confirmed, because it would be redelivered for ever
        if answer.status in (401, 403):
            self._health.count_forged()
        return answer

    async def close(self) -> None:
        settling = tuple(self._settling.values())
        for task in settling:
            task.cancel()
        await asyncio.gather(*settling, return_exceptions=True)
        await self._drafts.close()
        await self._pace.close()
        if self._is_open:
            await self.platform.close()


_NOWHERE = Location("")
