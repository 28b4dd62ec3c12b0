"""Updates from Telegram, by asking for them or by its webhook. None is confirmed to it before
`take` has returned, and then what it said is on disk. Chats are taken in side by side: one that
has to wait holds up no other."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
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

_HELD = 1.0
"""Seconds after which Telegram is asked for more while a chat is still waited for."""

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
    taking = Taking(take)

    async def ask(seconds: int) -> tuple[Update, ...]:
        return await bot.get_updates(offset=taking.offset, timeout=seconds, allowed_updates=KINDS)

    again = patient(_is_worth_asking_again, asked, trouble, rhythm.sleep)
    await bot.delete_webhook()
    try:
        while True:
            updates = taking.find_new(await again(ask, 0 if taking.is_held_up else rhythm.poll))
            for _ in range(_ROUNDS):
                known = len(updates)
                if not updates or not is_unfinished(updates[-1]):
                    break
                await asyncio.sleep(rhythm.album)
                updates = taking.find_new(await again(ask, 0))
                if len(updates) == known:
                    break
            taking.begin(updates)
            await taking.wait(_HELD)  # the next request confirms what is taken by then
    finally:
        await taking.close()
        with suppress(TelegramError, TimeoutError):
            async with asyncio.timeout(_GOODBYE):
                await ask(0)


class Taking:
    """Updates that are being taken in, each chat's in order. Telegram is told of one number, before
    which all is confirmed: so what comes after an update that has to wait comes again with it, and
    is known by its number."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._held: dict[int, asyncio.Task[None]] = {}
        self._chats: dict[int, asyncio.Task[None]] = {}
        self._known: set[int] = set()
        self._next = 0

    @property
    def is_held_up(self) -> bool:
        return bool(self._held)

    @property
    def offset(self) -> int:
        """The number of the first update that is not taken."""
        return min(self._held, default=self._next)

    def find_new(self, updates: Sequence[Update]) -> list[Update]:
        """Those that were not begun with."""
        return [update for update in updates if update.update_id not in self._known]

    def begin(self, updates: Sequence[Update]) -> None:
        """Take these in, after those before them of the same chat."""
        for chat, some in _by_chat(updates).items():
            task = asyncio.create_task(self._take_after(self._chats.get(chat), some))
            self._chats[chat] = task
            self._held |= dict.fromkeys((update.update_id for update in some), task)
        if updates:
            self._known |= {update.update_id for update in updates}
            self._next = updates[-1].update_id + 1

    async def _take_after(
        self, before: asyncio.Task[None] | None, updates: Sequence[Update]
    ) -> None:
        if before is not None:
            await asyncio.wait((before,))
        await self._take(updates)

    def task_of(self, update: Update) -> asyncio.Task[None] | None:
        """Who takes in an update that was begun with; None where it is taken."""
        return self._held.get(update.update_id)

    async def wait(self, seconds: float) -> None:
        """Wait until all are taken, or for so long. Raises what taking them raised."""
        if self._held:
            await asyncio.wait({*self._held.values()}, timeout=seconds)
        for task in self.settle():
            task.result()

    def settle(self) -> set[asyncio.Task[None]]:
        """Know what is taken by now; returns who did that."""
        done = {task for task in self._held.values() if task.done()}
        is_left = {number: task for number, task in self._held.items() if task not in done}
        self._held = is_left
        self._chats = {chat: task for chat, task in self._chats.items() if not task.done()}
        self._known = {number for number in self._known if number >= self.offset}
        return done

    async def close(self) -> None:
        """Take in nothing more. What was cut short is not confirmed."""
        tasks = {*self._held.values()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._held = {
            number: task
            for number, task in self._held.items()
            if task.cancelled() or task.exception() is not None
        }


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
        self._taking, self._album = Taking(take), album
        self._waiting: list[tuple[Update, asyncio.Future[None]]] = []
        self._arrived = asyncio.Event()

    async def put(self, item: Update) -> None:
        """Raises what taking it raised; Telegram will deliver it again."""
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, taken))
        self._arrived.set()
        await taken

    async def work(self) -> None:
        """Take what arrives, each chat's in Telegram's order, until cancelled."""
        try:
            await self._work()
        finally:
            await self._taking.close()

    async def _work(self) -> None:
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
            self._taking.settle()
            self._taking.begin(self._taking.find_new([update for update, _ in batch]))
            for update, taken in batch:
                if (task := self._taking.task_of(update)) is not None:
                    task.add_done_callback(partial(_tell, taken))
                elif not taken.done():
                    taken.set_result(None)  # it came twice, and was taken the first time


def _tell(taken: asyncio.Future[None], task: asyncio.Task[None]) -> None:
    """Let who called know how it went; they may have hung up."""
    if taken.done():
        return
    if task.cancelled():
        taken.cancel()
    elif (error := task.exception()) is not None:
        taken.set_exception(error)
    else:
        taken.set_result(None)


def _by_chat(updates: Sequence[Update]) -> dict[int, list[Update]]:
    chats: dict[int, list[Update]] = {}
    for update in updates:
        chats.setdefault(update.effective_chat.id if update.effective_chat else 0, []).append(
            update
        )
    return chats


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
