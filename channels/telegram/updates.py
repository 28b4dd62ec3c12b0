"""Updates from Telegram, by asking for them or by its webhook. None is confirmed to it before
`take` has returned, and then what it said is on disk. Chats are taken in side by side: one that
has to wait holds up no other."""

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


class Rhythm(Struct, frozen=True):
    """Times in seconds, as Telegram's FAQ on limits for bots gives them.

    `draft` and `group_draft` pass between two edits of an answer that streams, `typing` between two
    signs that the bot thinks (each is shown for 5). `album` is how long the rest of an album, or of
    a long text, is waited for, `poll` how long Telegram holds a request when nothing is new. All
    bots may send `overall` messages a second, and `per_group` in `group_time` to one group. `sleep`
    waits when Telegram says how long, or does not answer.
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

_GOODBYE = 1.0  # seconds that the last confirmation may take; else those updates come again

_HELD = 1.0
"""Seconds after which Telegram is asked for more while a chat is still waited for."""

Take = Callable[[Sequence[Update]], Awaitable[None]]


_CUT_FROM = 2_048
"""Characters as Telegram counts them. A longer text than 4,096 is cut by the app that sends it, in
the second half of what a message may have, and its parts are sent one right after another."""
_AT_ONCE = timedelta(seconds=2)
_ROUNDS = 4
"""The times that the rest is waited for before what is there is taken: a person who goes on sending
delays nobody else."""


def is_unfinished(update: Update) -> bool:
    """Return whether the rest of it may be on its way: of an album, or of a text that was cut."""
    message = update.message
    return message is not None and (message.media_group_id is not None or _may_be_cut(message))


def _may_be_cut(message: Message) -> bool:
    text: object = message.text  # what comes over the wire may be anything
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


async def poll(bot: ExtBot[None], take: Take, rhythm: Rhythm, handler: IncomingHandler) -> None:
    """Ask for updates until cancelled. Raises TelegramError when there is no point in it."""
    taking = Taking(take)

    async def ask(seconds: int) -> tuple[Update, ...]:
        try:
            return await bot.get_updates(
                offset=taking.offset, timeout=seconds, allowed_updates=KINDS
            )
        except BadRequest as error:  # whoever answers so is not well
            raise NetworkError(str(error)) from error

    await handler.patiently(bot.delete_webhook)
    try:
        while True:
            seconds = 0 if taking.is_held_up else rhythm.poll
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
        """Return those updates that were not begun with."""
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
        """Return the task that takes in an update that was begun with; None where it is taken."""
        return self._held.get(update.update_id)

    async def wait(self, seconds: float) -> None:
        """Wait until all are taken, or for so long. Raises what taking them raised."""
        if self._held:
            await asyncio.wait({*self._held.values()}, timeout=seconds)
        for task in self.settle():
            task.result()

    def settle(self) -> set[asyncio.Task[None]]:
        """Drop the tasks that are done by now, and return them."""
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


class Counter:
    """The queue to which the webhook brings updates. It answers Telegram when `put` returns, which
    waits until the update was taken. `album` are the seconds for which the rest of one is waited
    for."""

    def __init__(self, album: float) -> None:
        self._album = album
        self._taking: Taking | None = None
        self._waiting: list[tuple[Update, asyncio.Future[None]]] = []
        self._work: asyncio.Task[None] | None = None

    async def put(self, item: Update, take: Take) -> None:
        """Queue an update, and wait until it is taken. Raises the error of taking it; Telegram will
        deliver it again."""
        self._taking = self._taking or Taking(take)
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, taken))
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._take_all(self._taking))
        await taken

    async def _take_all(self, taking: Taking) -> None:
        """Take what waits, each chat's in Telegram's order."""
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
            taking.settle()
            taking.begin(taking.find_new([update for update, _ in batch]))
            for update, taken in batch:
                if (task := taking.task_of(update)) is not None:
                    task.add_done_callback(partial(_tell, taken))
                elif not taken.done():
                    taken.set_result(None)  # it came twice, and was taken the first time

    async def close(self) -> None:
        """Take in nothing more."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        if self._taking is not None:
            await self._taking.close()


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


def in_order(updates: Sequence[Update]) -> list[list[Update]]:
    """Return the updates, each chat's in order; those of one album together, and the parts of a
    text that was too long for one message."""
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
