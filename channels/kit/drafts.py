"""Streamed answers: one message that is edited, and the typing indicator."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack
from functools import partial

from channels.base import Activity, Bot, Delta, Done, StepRestarted, ToolStarted, TurnStarted
from channels.kit.delivery import MessageSender
from channels.kit.pace import Busy
from channels.kit.platform import Location, Post
from channels.message import Address
from channels.splitting import split

log = logging.getLogger(__name__)

_MORE = " …"
"""The end of every draft, so that an unfinished one is recognisable."""
_KEPT = 4
"""The text of a step that is kept, in messages; a draft shows one."""
_FAREWELL = 2.0
"""Seconds in which a platform must respond to the last requests of drafts when the bot ends."""


class Drafts:
    """The watchers of conversations, one for each with an awaited answer."""

    def __init__(self, delivery: MessageSender) -> None:
        self._delivery = delivery
        self._all: dict[tuple[str, str], _ConversationWatcher] = {}

    def expect(self, bot: Bot, address: Address, message: str, place: Location) -> bool:
        """Expect an answer to this message, an inbound's id, from now on; return False if it was
        expected already."""
        name = (address.chat, address.thread)
        if name not in self._all:
            self._all[name] = _ConversationWatcher(bot, address, self._delivery)
        return self._all[name].expect(message, place)

    async def finish(self, address: Address, message: str) -> str:
        """Note that the answer exists; return the message that shows its draft, or ""."""
        name = (address.chat, address.thread)
        onlooker = self._all.get(name)
        if onlooker is None:
            return ""
        shown = await onlooker.finish(message)
        await self._close_unneeded(name, onlooker)
        return shown

    async def note_sent(self, address: Address, message: str) -> None:
        """Note that the answer is sent, or will not be: the draft of the next one may be shown."""
        name = (address.chat, address.thread)
        if onlooker := self._all.get(name):
            onlooker.unsent.pop(message, None)
            await self._close_unneeded(name, onlooker)

    async def _close_unneeded(self, name: tuple[str, str], onlooker: _ConversationWatcher) -> None:
        if not onlooker.expected and not onlooker.unsent and self._all.get(name) is onlooker:
            del self._all[name]
            await onlooker.close()

    async def close(self) -> None:
        """Delete the drafts of unfinished answers, which the next process writes. A platform that
        does not respond does not delay the end."""
        onlookers = tuple(self._all.values())
        taking = [asyncio.create_task(self._delete_draft(one)) for one in onlookers]
        if taking:
            await asyncio.wait(taking, timeout=_FAREWELL)
        await _cancel(taking)
        for onlooker in onlookers:
            await onlooker.close()

    async def _delete_draft(self, onlooker: _ConversationWatcher) -> None:
        for message, place in tuple(onlooker.expected.items()):
            if draft := await onlooker.finish(message):
                await self._delivery.delete_message(place, draft)


class _ConversationWatcher:
    """A watcher of one conversation."""

    def __init__(self, bot: Bot, address: Address, delivery: MessageSender) -> None:
        self.expected: dict[str, Location] = {}
        self.unsent: dict[str, None] = {}
        """Messages whose turns began and whose answers are not sent yet, oldest first."""
        self._delivery = delivery
        self._drafts: dict[str, _ShownDraft] = {}
        self._current: _ShownDraft | None = None
        self._watch = ExitStack()
        happening = self._watch.enter_context(bot.watch(address))  # at once, to miss no event
        self._task = asyncio.create_task(self._follow(happening))

    def expect(self, message: str, place: Location) -> bool:
        is_new = message not in self.expected
        self.expected[message] = place
        return is_new

    async def finish(self, message: str) -> str:
        self.expected.pop(message, None)
        draft = self._drafts.pop(message, None)
        return await draft.end() if draft else ""

    async def close(self) -> None:
        await _cancel([self._task])
        for draft in self._drafts.values():
            await draft.drop()
        self._watch.close()

    async def _follow(self, happening: AsyncIterator[Activity]) -> None:
        async for activity in happening:
            match activity:
                case TurnStarted(reply_to) if reply_to in self.expected:
                    self.unsent[reply_to] = None
                    is_first = partial(self._is_first, reply_to)
                    self._current = _ShownDraft(self._delivery, self.expected[reply_to], is_first)
                    self._drafts[reply_to] = self._current
                case TurnStarted() | Done():
                    self._current = None
                case _ if self._current:
                    self._current.handle(activity)

    def _is_first(self, message: str) -> bool:
        """Return whether all answers of earlier turns are sent: otherwise they would come below the
        draft."""
        return next(iter(self.unsent), message) == message


class _ShownDraft:
    """The draft of the streamed text, updated as often as the platform allows. A draft longer than
    one message waits for the end."""

    def __init__(
        self, delivery: MessageSender, place: Location, is_first: Callable[[], bool]
    ) -> None:
        self._platform, self._pace, self._place = delivery.platform, delivery.pace, place
        self._is_first = is_first
        self._earlier = self._step = self._shown = self._message = ""
        self._most = _KEPT * self._platform.traits.longest
        self._requesting = asyncio.Lock()
        traits = self._platform.traits
        self._tasks = [asyncio.create_task(self._type())] if traits.typing else []
        if traits.can_edit:
            self._tasks.append(asyncio.create_task(self._draw()))

    def handle(self, activity: Activity) -> None:
        match activity:
            case Delta(text) if len(self._step) < self._most:
                self._step += text
            case StepRestarted():
                self._step = ""
            case ToolStarted(name):  # the step's words stay, followed by the tool's name
                if len(self._earlier) < self._most:
                    self._earlier += f"{self._step}\n\n`{name}` …\n\n"
                self._step = ""

    async def end(self) -> str:
        """Stop updating; return the message that was shown, or "". A running request is awaited, so
        that no message is left behind."""
        try:
            async with self._requesting:
                await self.drop()
        except asyncio.CancelledError:
            await self.drop()
            raise
        return self._message

    async def drop(self) -> None:
        """Stop updating without waiting for a request."""
        await _cancel(self._tasks)

    async def _type(self) -> None:
        while True:
            async with self._requesting:
                try:
                    await self._pace.try_once(
                        self._place,
                        lambda: self._platform.show_typing(self._place),
                        is_message=False,
                    )
                except Exception as error:  # noqa: BLE001 - an SDK may raise anything
                    log.debug("typing was not shown: %s", error)
            await asyncio.sleep(self._platform.traits.typing)

    async def _draw(self) -> None:
        traits = self._platform.traits
        while True:
            await asyncio.sleep(traits.group_draft if self._place.is_group else traits.draft)
            async with self._requesting:
                try:
                    await self._show(self._earlier + self._step)
                except Busy:
                    log.debug("a draft was not shown: the limit is near")
                except Exception as error:  # noqa: BLE001 - as above
                    # Not its text, which may quote a draft off the record.
                    if self._pace.failure_of(error).kind in ("passing", "wait"):
                        log.debug("a draft was not shown: %s", type(error).__name__)
                    else:
                        log.info("no more drafts of this answer: %s", type(error).__name__)
                        return

    async def _show(self, markdown: str) -> None:
        if not markdown.strip() or markdown == self._shown:
            return
        if not self._message and not self._is_first():
            return
        first = await asyncio.to_thread(self._first, f"{markdown.rstrip()}{_MORE}")
        post = Post(first, is_draft=True)
        if self._message:
            await self._pace.try_once(
                self._place, lambda: self._platform.edit(self._place, self._message, post)
            )
        else:
            self._message = await self._pace.try_once(
                self._place, lambda: self._platform.post(self._place, post)
            )
        self._shown = markdown

    def _first(self, markdown: str) -> str:
        """Return the part of a text that fits into one message."""
        platform = self._platform
        return next(split(markdown, platform.traits.longest, platform.length), "") or _MORE


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
