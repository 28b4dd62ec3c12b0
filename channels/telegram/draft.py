"""An answer while it streams: one message that is edited, and the sign that the bot thinks."""

from __future__ import annotations

import asyncio
import logging

from telegram.constants import ChatAction
from telegram.error import BadRequest, TelegramError
from telegram.ext import ExtBot

from channels.telegram.incoming import ChatLocation
from channels.telegram.pace import ONCE, Busy
from channels.telegram.rendering import LONGEST, Rendered, first_message
from channels.telegram.rhythm import Rhythm
from channels.telegram.sending import destination

log = logging.getLogger(__name__)

_MORE = " …"
"""At the end of every draft, so that it doesn't pass for an answer if it is never finished."""
_LONGEST = 4 * LONGEST
"""Characters of a step that are kept; a draft shows one message of them."""


class Draft:
    """What streamed so far, shown as often as Telegram allows. What is longer than one message
    waits for the end."""

    def __init__(self, bot: ExtBot[str], place: ChatLocation, rhythm: Rhythm) -> None:
        self._bot, self._place, self._rhythm = bot, place, rhythm
        self._earlier = self._step = self._shown = ""
        self._message = 0
        self._requesting = asyncio.Lock()
        self._tasks = [asyncio.create_task(self._type()), asyncio.create_task(self._draw())]

    def add(self, words: str) -> None:
        if len(self._step) < _LONGEST:
            self._step += words

    def restart_step(self) -> None:
        self._step = ""

    def end_step(self, tool: str) -> None:
        """The step's words stay, and below them stands which tool it uses."""
        if len(self._earlier) < _LONGEST:
            self._earlier += f"{self._step}\n\n`{tool}` …\n\n"
        self._step = ""

    async def end(self) -> int:
        """Show nothing more; returns the message that was shown, 0 for none. A request under way
        is waited for, so that no message is left behind."""
        async with self._requesting:
            for task in self._tasks:
                task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return self._message

    async def _type(self) -> None:
        while True:
            async with self._requesting:
                try:
                    await self._bot.send_chat_action(
                        self._place.chat,
                        ChatAction.TYPING,
                        message_thread_id=self._place.topic or None,
                        rate_limit_args=ONCE,
                    )
                except (TelegramError, Busy) as error:
                    log.debug("typing was not shown: %s", error)
            await asyncio.sleep(self._rhythm.typing)

    async def _draw(self) -> None:
        rhythm = self._rhythm
        while True:
            await asyncio.sleep(rhythm.group_draft if self._place.is_group else rhythm.draft)
            async with self._requesting:
                try:
                    await self._show(self._earlier + self._step)
                except BadRequest as error:
                    log.info("no more drafts of this answer: %s", error)
                    return
                except (TelegramError, Busy) as error:
                    log.debug("a draft was not shown: %s", error)

    async def _show(self, markdown: str) -> None:
        if not markdown.strip() or markdown == self._shown:
            return
        part = await asyncio.to_thread(first_message, f"{markdown.rstrip()}{_MORE}")
        if not part.text.strip():
            part = Rendered(_MORE)
        if self._message:
            await self._bot.edit_message_text(
                part.text,
                self._place.chat,
                self._message,
                entities=part.entities,
                rate_limit_args=ONCE,
            )
        else:
            sent = await self._bot.send_message(
                text=part.text,
                entities=part.entities,
                rate_limit_args=ONCE,
                **destination(self._place),
            )
            self._message = sent.message_id
        self._shown = markdown
