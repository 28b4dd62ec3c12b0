"""Updates from Telegram, by asking for them or by its webhook. None is confirmed to it before
`take` has returned, and then what it said is on disk."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from urllib.parse import urlsplit

from telegram import Message, Update
from telegram.error import BadRequest, Conflict, TelegramError
from telegram.ext import ExtBot

from channels.retry import Trouble, patient
from channels.settings import TelegramSettings
from channels.telegram.pace import asked, is_passing
from channels.telegram.rhythm import Rhythm
from channels.telegram.webhook import Webhook

log = logging.getLogger(__name__)

KINDS = [Update.MESSAGE, Update.EDITED_MESSAGE, Update.CALLBACK_QUERY]

_GOODBYE = 1.0  # seconds that the last confirmation may take; else those updates come again

Take = Callable[[Sequence[Update]], Awaitable[None]]


_CUT_FROM = 2_048
"""Characters as Telegram counts them. A longer text than 4,096 is cut by the app that sends it, in
the second half of what a message may have, and its parts are sent one right after another."""
_AT_ONCE = timedelta(seconds=2)
_ROUNDS = 4
"""How often the rest is waited for before what is there is taken: whoever goes on sending holds up
nobody else."""


def is_unfinished(update: Update) -> bool:
    """Whether the rest of it may be on its way: of an album, or of a text that was cut."""
    message = update.message
    return message is not None and (message.media_group_id is not None or _may_be_cut(message))


def _may_be_cut(message: Message) -> bool:
    text: object = message.text  # what comes over the wire may be anything
    is_own = isinstance(text, str) and message.forward_origin is None
    return is_own and len(str(text).encode("utf-16-le", "replace")) >= 2 * _CUT_FROM


def _continues(update: Update, before: Update) -> bool:
    """Whether a text is the rest of the one before."""
    message, first = update.message, before.message
    if message is None or first is None or not _may_be_cut(first):
        return False
    if not isinstance(message.text, str) or message.text.startswith("/") or message.forward_origin:
        return False
    who, where = (message.from_user, message.sender_chat), message.message_thread_id
    is_same = (who, where) == ((first.from_user, first.sender_chat), first.message_thread_id)
    return is_same and abs(message.date - first.date) <= _AT_ONCE


async def poll(bot: ExtBot[str], take: Take, rhythm: Rhythm, trouble: Trouble) -> None:
    """Ask for updates until cancelled; `trouble` hears when that fails for a while. Raises
    TelegramError when there is no point in it."""
    offset = 0
    updates: Sequence[Update] = ()

    async def ask(seconds: int) -> tuple[Update, ...]:
        return await bot.get_updates(offset=offset, timeout=seconds, allowed_updates=KINDS)

    again = patient(_is_worth_asking_again, asked, trouble, rhythm.sleep)
    await bot.delete_webhook()
    try:
        while True:
            updates = await again(ask, rhythm.poll)
            for _ in range(_ROUNDS):
                known = len(updates)
                if not updates or not is_unfinished(updates[-1]):
                    break
                await asyncio.sleep(rhythm.album)
                updates = await again(ask, 0)
                if len(updates) == known:
                    break
            if updates:
                await take(updates)
                offset = updates[-1].update_id + 1  # the next request confirms them
    finally:
        with suppress(TelegramError, TimeoutError):
            async with asyncio.timeout(_GOODBYE):
                await ask(0)


def _is_worth_asking_again(error: BaseException) -> bool:
    if isinstance(error, Conflict):
        log.warning(
            "Another program is fetching this bot's messages from Telegram; stop it, or give one "
            "of the two a bot of its own."
        )
    return is_passing(error) or isinstance(error, Conflict | BadRequest)


async def serve(bot: ExtBot[str], take: Take, settings: TelegramSettings, rhythm: Rhythm) -> None:
    """Let Telegram call, until cancelled; each start has a new secret that proves who calls."""
    queue = Counter(take, rhythm.album)
    secret = secrets.token_urlsafe(32)
    webhook = Webhook(bot, queue.put, settings, urlsplit(settings.webhook_url).path, secret)
    try:
        await bot.set_webhook(settings.webhook_url, allowed_updates=KINDS, secret_token=secret)
        await queue.work()
    finally:
        await webhook.close()


class Counter:
    """Where the webhook brings updates. It answers Telegram when `put` returns, so that waits until
    the update was taken."""

    def __init__(self, take: Take, album: float) -> None:
        self._take, self._album = take, album
        self._waiting: list[tuple[Update, asyncio.Future[None]]] = []
        self._arrived = asyncio.Event()

    async def put(self, item: Update) -> None:
        """Raises what taking it raised; Telegram will deliver it again."""
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, taken))
        self._arrived.set()
        await taken

    async def work(self) -> None:
        """Take what arrives, in Telegram's order, until cancelled."""
        while True:
            await self._arrived.wait()
            for _ in range(_ROUNDS):
                known = len(self._waiting)
                if not any(is_unfinished(update) for update, _ in self._waiting[-1:]):
                    break
                await asyncio.sleep(self._album)
                if len(self._waiting) == known:
                    break
            batch, self._waiting = self._waiting, []
            self._arrived.clear()
            batch.sort(key=lambda waiting: waiting[0].update_id)
            await self._take([update for update, _ in batch])
            for _, taken in batch:
                if not taken.done():  # who called may have hung up
                    taken.set_result(None)


def in_order(updates: Sequence[Update]) -> list[list[list[Update]]]:
    """The updates of each chat, in order; those of one album together, and the parts of a text that
    was too long for one message."""
    chats: dict[int, dict[str, list[Update]]] = {}
    once = {update.update_id: update for update in updates}  # a webhook may be called twice
    for update in once.values():
        groups = chats.setdefault(update.effective_chat.id if update.effective_chat else 0, {})
        album = update.message.media_group_id if update.message else None
        name = f"album {album}" if album else f"update {update.update_id}"
        newest = next(reversed(groups), name)
        if newest in groups and _continues(update, groups[newest][-1]):
            name = newest
        groups.setdefault(name, []).append(update)
    return [list(groups.values()) for groups in chats.values()]
