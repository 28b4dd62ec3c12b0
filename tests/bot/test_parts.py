"""A reply that is longer than its platform takes: each part is in the outbox by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from channels.message import Action, Outbound, Reply
from tests.fakes.openai_server import OpenAIServer, Say
from tests.whole.testbot import TestBot, running


@dataclass
class LineByLine(TestBot):
    """A platform that takes a line at a time, and fails at one of them."""

    fails_at: str = "never"

    longest: int = 10

    def parts(self, reply: Reply) -> Sequence[Reply]:
        *first, last = reply.text.split("\n")
        return [*map(Reply, first), Reply(last, actions=reply.actions)]

    async def send(self, outbound: Outbound) -> None:
        if outbound.reply.text == self.fails_at:
            raise ConnectionError("the platform is down")
        await super().send(outbound)


@asynccontextmanager
async def at_platform(
    folder: Path, text: str, fails_at: str = "never"
) -> AsyncIterator[LineByLine]:
    async with OpenAIServer([Say(text)] if text else []) as endpoint:
        bot = LineByLine(fails_at=fails_at)
        bot.server = endpoint
        environ = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "test-key"}
        async with running(folder, bot, {}, environ):
            yield bot


def sent(bot: TestBot) -> list[tuple[str, int, bool]]:
    return [(one.reply.text, one.part, one.is_resent) for one in bot.sent]


async def test_parts_arrive_in_order_each_by_itself(tmp_path: Path) -> None:
    async with at_platform(tmp_path, "one\ntwo\nthree") as bot:
        await bot.says("Count")
        await bot.app.delivery.queues.idle()
    assert sent(bot) == [("one", 0, False), ("two", 1, False), ("three", 2, False)]


async def test_only_what_was_not_sent_is_sent_again(tmp_path: Path) -> None:
    async with at_platform(tmp_path, "one\ntwo\nthree", fails_at="two") as bot:
        await bot.says("Count")
        await bot.app.delivery.queues.idle()
    assert sent(bot) == [("one", 0, False)], "what follows a part that failed waits with it"
    async with at_platform(tmp_path, "") as bot:
        await bot.app.delivery.queues.idle()
    assert sent(bot) == [("two", 1, True), ("three", 2, True)]


async def test_the_last_part_has_the_buttons(tmp_path: Path) -> None:
    async with at_platform(tmp_path, "Hi") as bot:
        await bot.says("Hello")
        await bot.says("/context")
        await bot.app.delivery.queues.idle()
    *first, last = [one.reply for one in bot.sent][1:]
    assert all(not part.actions for part in first)
    assert Action("Map", "/context map") in last.actions
