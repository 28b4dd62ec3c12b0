"""Updates from Telegram, by polling or by its webhook. An update is confirmed only after `take` has
returned, once it is on disk. Chats are processed in parallel: a waiting one does not block the
others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial

from msgspec import Struct
from telegram import Message, Update
from telegram.error import BadRequest, NetworkError, TelegramError
from telegram.ext import ExtBot

from channels.kit.platform import IncomingHandler
from channels.retry import Sleep


class Intervals(Struct, frozen=True):
    """Times in seconds, from Telegram's FAQ on limits for bots.

    `draft` and `group_draft` are the times between two edits of a streamed answer, `typing` between
    two typing indicators (each is shown for 5). `album` is the wait for the rest of an album, or of
    a long text, `poll` the time for which Telegram holds a request without news. All messages
    together are limited to `overall` per second, and those to one group to `per_group` in
    `group_time`. `sleep` waits between retries.
    """

    draft: float = 1.0
    group_draft: float = 4.0
    typing: float = 4.5
    album: float = 0.7
    poll: int = 30
    overall: float = 30
    per_group: float = 20
    group_time: float = 60
    sleep: Sleep = asyncio.sleep


KINDS = [
    Update.MESSAGE,
    Update.EDITED_MESSAGE,
    Update.CALLBACK_QUERY,
    Update.MESSAGE_REACTION,
]

_GOODBYE = 1.0  # seconds for the last confirmation; otherwise those updates are redelivered

_HELD = 1.0
"""Seconds after which the next poll starts although a chat is still waiting."""

Take = Callable[[Sequence[Update]], Awaitable[None]]


_CUT_FROM = 2_048
"""Characters as Telegram counts them. The sending app splits a text longer than 4,096 in the second
half of a message's maximum, and sends the parts in quick succession."""
_AT_ONCE = timedelta(seconds=2)
_ROUNDS = 4
"""The maximum number of waits for the rest: a person who keeps sending delays nobody else."""


def is_unfinished(update: Update) -> bool:
    """Return whether the rest may still arrive: of an album, or of a split text."""
    message = update.message
    return message is not None and (message.media_group_id is not None or _may_be_cut(message))


def _may_be_cut(message: Message) -> bool:
    text: object = message.text  # data from the wire may have any type
    is_own = isinstance(text, str) and message.forward_origin is None
    return is_own and len(str(text).encode("utf-16-le", "replace")) >= 2 * _CUT_FROM


def _continues(update: Update, before: Update) -> bool:
    """Return whether a text is the rest of the one before."""
    message, first = update.message, before.message
    if message is None or first is None or not _may_be_cut(first):
        return False
    if not isinstance(message.text, str) or message.text.startswith("/") or message.forward_origin:
        return False
    who, where = (message.from_user, message.sender_chat), message.message_thread_id
    is_same = (who, where) == ((first.from_user, first.sender_chat), first.message_thread_id)
    return is_same and abs(message.date - first.date) <= _AT_ONCE


async def poll(bot: ExtBot[None], take: Take, rhythm: Intervals, handler: IncomingHandler) -> None:
    """Poll for updates until cancelled. Raises TelegramError if retrying is useless."""
    taking = PendingUpdates(take)

    async def ask(seconds: int) -> tuple[Update, ...]:
        try:
            return await bot.get_updates(
                offset=taking.offset, timeout=seconds, allowed_updates=KINDS
            )
        except BadRequest as error:  # the answering server is faulty
            raise NetworkError(str(error)) from error

    await handler.patiently(bot.delete_webhook)
    try:
        while True:
            seconds = 0 if taking.has_held_updates else rhythm.poll
            updates = taking.find_new(await handler.patiently(partial(ask, seconds)))
            for _ in range(_ROUNDS):
                known = len(updates)
                if not updates or not is_unfinished(updates[-1]):
                    break
                await asyncio.sleep(rhythm.album)
                updates = taking.find_new(await handler.patiently(partial(ask, 0)))
                if len(updates) == known:
                    break
            taking.begin(updates)
            await taking.wait(_HELD)  # the next request confirms the updates processed by then
    finally:
        await taking.close()
        with suppress(TelegramError, TimeoutError):
            async with asyncio.timeout(_GOODBYE):
                await ask(0)


class PendingUpdates:
    """Updates in progress, in order within each chat. Telegram's confirmation is one number for all
    updates before it. So updates after a waiting one are redelivered with it, and are recognised by
    their numbers."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._held: dict[int, asyncio.Task[None]] = {}
        self._chats: dict[int, asyncio.Task[None]] = {}
        self._known: set[int] = set()
        self._next = 0

    @property
    def has_held_updates(self) -> bool:
        return bool(self._held)

    @property
    def offset(self) -> int:
        """The number of the first unprocessed update."""
        return min(self._held, default=self._next)

    def find_new(self, updates: Sequence[Update]) -> list[Update]:
        """Return the updates that were not started yet."""
        return [update for update in updates if update.update_id not in self._known]

    def begin(self, updates: Sequence[Update]) -> None:
        """Process these updates, after the earlier ones of the same chat."""
        for chat, some in _by_chat(updates).items():
            task = asyncio.create_task(self._process_after(self._chats.get(chat), some))
            self._chats[chat] = task
            self._held |= dict.fromkeys((update.update_id for update in some), task)
        if updates:
            self._known |= {update.update_id for update in updates}
            self._next = updates[-1].update_id + 1

    async def _process_after(
        self, before: asyncio.Task[None] | None, updates: Sequence[Update]
    ) -> None:
        if before is not None:
            await asyncio.wait((before,))
        await self._take(updates)

    def task_of(self, update: Update) -> asyncio.Task[None] | None:
        """Return the task of a started update; None if it is processed."""
        return self._held.get(update.update_id)

    async def wait(self, seconds: float) -> None:
        """Wait until all are processed, at most this long. Raises the errors of processing."""
        if self._held:
            await asyncio.wait({*self._held.values()}, timeout=seconds)
        for task in self.drop_done():
            task.result()

    def drop_done(self) -> set[asyncio.Task[None]]:
        """Drop the finished tasks, and return them."""
        done = {task for task in self._held.values() if task.done()}
        is_left = {number: task for number, task in self._held.items() if task not in done}
        self._held = is_left
        self._chats = {chat: task for chat, task in self._chats.items() if not task.done()}
        self._known = {number for number in self._known if number >= self.offset}
        return done

    async def close(self) -> None:
        """Stop processing. Interrupted updates are not confirmed."""
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


class Counter:
    """The queue for updates from the webhook. Telegram is answered when `put` returns, after the
    update was processed. `album` is the wait in seconds for the rest of an album."""

    def __init__(self, album: float) -> None:
        self._album = album
        self._taking: PendingUpdates | None = None
        self._waiting: list[tuple[Update, asyncio.Future[None]]] = []
        self._work: asyncio.Task[None] | None = None

    async def put(self, item: Update, take: Take) -> None:
        """Queue an update, and wait until it is processed. Raises the error of processing; Telegram
        will deliver it again."""
        self._taking = self._taking or PendingUpdates(take)
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, taken))
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._process_all(self._taking))
        await taken

    async def _process_all(self, taking: PendingUpdates) -> None:
        """Process the waiting updates, each chat's in Telegram's order."""
        while self._waiting:
            for _ in range(_ROUNDS):
                known = len(self._waiting)
                if not is_unfinished(self._waiting[-1][0]):
                    break
                await asyncio.sleep(self._album)
                if len(self._waiting) == known:
                    break
            batch, self._waiting = self._waiting, []
            batch.sort(key=lambda waiting: waiting[0].update_id)
            taking.drop_done()
            taking.begin(taking.find_new([update for update, _ in batch]))
            for update, taken in batch:
                if (task := taking.task_of(update)) is not None:
                    task.add_done_callback(partial(_report_result, taken))
                elif not taken.done():
                    taken.set_result(None)  # a duplicate that was processed already

    async def close(self) -> None:
        """Stop processing."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        if self._taking is not None:
            await self._taking.close()


def _report_result(taken: asyncio.Future[None], task: asyncio.Task[None]) -> None:
    """Notify the caller of the result; it may have disconnected."""
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


def in_order(updates: Sequence[Update]) -> list[list[Update]]:
    """Return the updates, each chat's in order; those of one album together, as are the parts of a
    long text."""
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
    return [group for groups in chats.values() for group in groups.values()]
