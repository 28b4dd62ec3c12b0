"""A bot that serves many examples, for calls from synchronous code.

with lasting(tmp_path, script) as bot:
    assert bot.says("/help").text
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings

from channels.message import Reply
from tests.fakes.openai_server import Script
from tests.whole.testbot import TestBot, run_bot

T = TypeVar("T")

CRASHED = ("failed inside the bot", "went wrong inside the bot")
"""The words in replies after an unexpected error."""

FEW = settings(max_examples=max(1, settings().max_examples // 4))
"""Settings for examples that need a whole bot."""


@dataclass(frozen=True)
class Lasting:
    bot: TestBot
    runner: asyncio.Runner

    def does(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def says(self, text: str) -> Reply:
        """Send a text and return the answer, which is never an internal error."""
        reply = self.does(self.bot.says(text))
        assert reply.text.strip()
        assert not any(words in reply.text for words in CRASHED), (text, reply.text)
        return reply


@contextmanager
def lasting(folder: Path, script: Script = (), **settings: Any) -> Iterator[Lasting]:
    """Run a bot on `folder` whose event loop only runs during calls."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        bot = runner.run(stack.enter_async_context(run_bot(folder, script, settings)))
        try:
            yield Lasting(bot, runner)
        finally:
            runner.run(stack.aclose())
