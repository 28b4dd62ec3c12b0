"""Tests of Telegram's updates in any shape: the channel keeps running, and a valid message is
accepted before it is confirmed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.settings import TelegramSettings
from channels.telegram import telegram_channel
from tests.channels.test_telegram import QUICK
from tests.fakes.fake_bot import FakeBot
from tests.fakes.telegram_server import TOKEN, TelegramServer
from tests.fuzz.lasting import FEW

LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=6) | st.just(2**70)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=5,
)


def fields(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return objects in which each field may be missing, or have an invalid value."""
    return st.fixed_dictionaries({}, optional={k: v | ANYTHING for k, v in values.items()})


USER = fields(id=st.integers(1, 50), is_bot=st.booleans(), first_name=st.text(max_size=4))
CHAT = fields(
    id=st.sampled_from([42, -100]),
    type=st.sampled_from(["private", "group", "supergroup", "channel"]),
    is_forum=st.booleans(),
)
ENTITY = fields(
    type=st.sampled_from(["mention", "bot_command", "text_mention", "code"]),
    offset=st.integers(-3, 30),
    length=st.integers(-3, 30),
    user=USER,
)
FILE = fields(
    file_id=st.text(max_size=4),
    file_unique_id=st.text(max_size=4),
    file_size=st.integers(-1, 2**40),
    width=st.integers(0, 9),
    height=st.integers(0, 9),
    file_name=st.text(max_size=6),
)
PLAIN: dict[str, Any] = {
    "message_id": st.integers(1, 99),
    "date": st.integers(0, 2**31),
    "chat": CHAT,
    "from": USER,
    "text": st.text(max_size=20) | st.sampled_from(["/help", "/help@other_bot", "/start x"]),
    "caption": st.text(max_size=9),
    "entities": st.lists(ENTITY, max_size=2),
    "caption_entities": st.lists(ENTITY, max_size=2),
    "photo": st.lists(FILE, max_size=2),
    "document": FILE,
    "media_group_id": st.sampled_from(["a", "b"]),
    "message_thread_id": st.integers(0, 5),
    "is_topic_message": st.booleans(),
    "sender_chat": CHAT,
    "forward_origin": fields(type=st.sampled_from(["user", "channel"]), sender_user=USER),
    "new_chat_members": st.lists(USER, max_size=1),
}
MESSAGE = fields(**PLAIN, reply_to_message=fields(**PLAIN), quote=fields(text=st.text(max_size=4)))
QUERY = fields(
    **{"id": st.text(max_size=4), "from": USER, "message": MESSAGE, "data": st.text(max_size=70)}
)
UPDATES = st.one_of(
    st.tuples(st.just("message"), MESSAGE | ANYTHING),
    st.tuples(st.just("edited_message"), MESSAGE),
    st.tuples(st.just("callback_query"), QUERY | ANYTHING),
)


@dataclass
class Line:
    """The channel between a fake bot and a fake Telegram, idle between two examples."""

    runner: asyncio.Runner
    server: TelegramServer
    bot: FakeBot
    running: asyncio.Task[None]
    count: int = 0

    async def brings(self, updates: list[tuple[str, Any]]) -> None:
        """Deliver these updates, and then a valid one; return once that one was accepted."""
        for kind, what in updates:
            self.server.push(kind, what)
        self.count += 1
        words = f"can be read {self.count}"
        self.server.person("Ann", 42).says(words)
        wanted = asyncio.create_task(self._until_heard(words))
        await asyncio.wait({wanted, self.running}, return_when=asyncio.FIRST_COMPLETED)
        if self.running.done():
            wanted.cancel()
            self.running.result()
        await wanted

    async def _until_heard(self, words: str) -> None:
        await self.server.until(lambda: any(words in said.text for said in self.bot.submitted))


@pytest.fixture(scope="module")
def line() -> Iterator[Line]:
    with asyncio.Runner() as runner:
        server = runner.run(TelegramServer().__aenter__())
        settings = TelegramSettings(base_url=server.base_url)
        channel = telegram_channel(TOKEN, lambda: settings, QUICK)
        bot = FakeBot(lambda text: [])

        async def start() -> asyncio.Task[None]:
            return asyncio.create_task(bot.serve(channel))

        async def stop(running: asyncio.Task[None]) -> None:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            await channel.close()
            await server.__aexit__()

        running = runner.run(start())
        try:
            yield Line(runner, server, bot, running)
        finally:
            runner.run(stop(running))


@FEW
@given(st.lists(UPDATES, min_size=1, max_size=3))
def test_updates_of_any_shape_never_hold_up_those_that_can_be_read(
    line: Line, updates: list[tuple[str, Any]]
) -> None:
    line.runner.run(line.brings(updates))
