"""The Telegram channel alone, with the real SDK: the messages that it submits, and when it confirms
them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from telegram import Message
from telegram.error import NetworkError

from channels.base import Accepted
from channels.message import Attachment, Inbound
from channels.settings import TelegramSettings
from channels.splitting import split
from channels.telegram import Intervals, Telegram, telegram_channel
from channels.telegram.rendering import LONGEST, measure, rendered
from channels.telegram.telegram import TolerantRequest
from tests.channels.clock import quick_sleep
from tests.channels.webhook_server import webhooks
from tests.fakes.fake_bot import FakeBot
from tests.fakes.telegram_server import TOKEN, Refused, TelegramServer
from tests.waiting import PATIENCE, until

QUICK = Intervals(0.01, 0.01, 0.05, 0.02, 1, 1_000, 1_000, 1, sleep=quick_sleep)


@asynccontextmanager
async def serving(
    bot: FakeBot, server: TelegramServer, **settings: Any
) -> AsyncIterator[asyncio.Task[None]]:
    """Run the channel between a fake bot and a fake Telegram, until the block ends."""
    chosen = TelegramSettings(base_url=server.base_url, **settings)
    channel = telegram_channel(TOKEN, lambda: chosen, QUICK)
    async with bot.serving(channel) as running, webhooks(bot, channel) as address:
        server.hook_address = f"{address}/webhooks/telegram"
        yield running


def silent() -> FakeBot:
    """A bot whose only answers are replies of commands."""
    return FakeBot(lambda text: [])


async def test_photos_and_documents_come_with_the_message() -> None:
    bot = silent()
    async with TelegramServer() as server, serving(bot, server):
        ann = server.person("Ann", 42)
        ann.sends(ann.photo(b"\xff\xd8one", caption="Look", media_group_id="a"))
        ann.sends(ann.photo(b"\xff\xd8two", media_group_id="a"))
        ann.sends(ann.document("notes.txt", "text/plain", b"milk"))
        await said(bot, 2)
    album, document = bot.submitted
    assert [a.data for a in album.attachments] == [b"\xff\xd8one", b"\xff\xd8two"]
    assert {a.media_type for a in album.attachments} == {"image/jpeg"}
    assert (album.text, album.sender) == ("Look", "")
    assert document.attachments == (Attachment("notes.txt", "text/plain", b"milk"),)


@pytest.fixture(autouse=True)
def brief_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll Telegram again soon while a chat waits."""
    monkeypatch.setattr("channels.telegram.updates._HELD", 0.01)


async def said(bot: FakeBot, count: int) -> None:
    """Wait until this many messages were submitted."""
    await until(lambda: len(bot.submitted) >= count)


class Slow(FakeBot):
    """A bot whose disk is slow: `is_written` lets the next message be committed."""

    def __init__(self) -> None:
        super().__init__(lambda text: [])
        self.reached, self.is_written = asyncio.Event(), asyncio.Event()

    async def submit(self, inbound: Inbound) -> Accepted:
        self.reached.set()
        await self.is_written.wait()
        return await super().submit(inbound)


async def test_no_message_is_confirmed_before_it_is_on_disk() -> None:
    bot = Slow()
    async with TelegramServer() as server, serving(bot, server):
        server.person("Ann", 42).says("Hi")
        await bot.reached.wait()
        for _ in range(100):  # whatever it does meanwhile
            await asyncio.sleep(0)
        assert server.unconfirmed
        bot.is_written.set()
        await server.until(lambda: not server.unconfirmed)
        assert [inbound.text for inbound in bot.submitted] == ["Hi"]


class Stuck(FakeBot):
    """A bot that can't accept the messages of one chat until `may_go_on`."""

    def __init__(self, chat: str) -> None:
        super().__init__(lambda text: [])
        self.chat = chat
        self.reached, self.may_go_on = asyncio.Event(), asyncio.Event()

    async def submit(self, inbound: Inbound) -> Accepted:
        if inbound.address.chat == self.chat:
            self.reached.set()
            await self.may_go_on.wait()
        return await super().submit(inbound)


async def test_a_chat_that_has_to_wait_holds_up_no_other_and_is_not_confirmed() -> None:
    bot = Stuck("42")
    async with TelegramServer() as server, serving(bot, server):
        ann, bob = server.person("Ann", 42), server.person("Bob", 43)
        ann.says("first")
        await bot.reached.wait()
        for number in range(3):
            bob.says(f"{number}")
            await said(bot, number + 1)
        ann.says("second")
        bob.says("last")
        await said(bot, 4)
        assert server.confirmed <= 2  # which is Ann's first
        bot.may_go_on.set()
        await server.until(lambda: server.confirmed > 12)
    told = [(inbound.address.chat, inbound.text) for inbound in bot.submitted]
    assert told[:4] == [("43", "0"), ("43", "1"), ("43", "2"), ("43", "last")]
    assert told[4:] == [("42", "first"), ("42", "second")]


async def test_what_a_chat_that_waits_has_said_comes_again_after_a_crash() -> None:
    bot = Stuck("42")
    async with TelegramServer() as server:
        ann, bob = server.person("Ann", 42), server.person("Bob", 43)
        async with serving(bot, server):
            ann.says("first")
            await bot.reached.wait()
            bob.says("hello")
            await said(bot, 1)
        after = silent()
        async with serving(after, server):
            await server.until(lambda: server.confirmed > 4)
    assert [inbound.text for inbound in after.submitted] == ["first", "hello"]
    assert after.submitted[1].id == bot.submitted[0].id  # by which the bot recognises it


async def test_over_the_webhook_a_chat_that_has_to_wait_holds_up_no_other() -> None:
    bot = Stuck("42")
    hook = {"webhook_url": "https://bot.example.org/webhooks/telegram"}
    async with TelegramServer() as server, serving(bot, server, **hook):
        ann, bob = server.person("Ann", 42), server.person("Bob", 43)
        await server.until(lambda: server.webhook)
        server.webhook["local"] = server.hook_address
        first = {"update_id": 5, "message": ann.message("first")}
        calling = asyncio.create_task(server.call_webhook(first))
        await bot.reached.wait()
        again = asyncio.create_task(server.call_webhook(first))
        async with asyncio.timeout(PATIENCE):
            other = {"update_id": 6, "message": bob.message("hello")}
            assert await server.call_webhook(other) == 200
            assert await server.call_webhook(other) == 200
        assert not calling.done()
        bot.may_go_on.set()
        assert [await calling, await again] == [200, 200]
    assert [inbound.text for inbound in bot.submitted] == ["hello", "first"]


async def test_the_webhook_answers_when_the_message_is_on_disk_and_only_to_telegram() -> None:
    bot = Slow()
    hook = {"webhook_url": "https://bot.example.org/webhooks/telegram"}
    async with TelegramServer() as server, serving(bot, server, **hook):
        ann = server.person("Ann", 42)
        update = {"update_id": 5, "message": ann.message("Hi")}
        await server.until(lambda: server.webhook)
        server.webhook["local"] = server.hook_address
        assert await server.call_webhook(update, secret="guessed") == 401
        calling = asyncio.create_task(server.call_webhook(update))
        await bot.reached.wait()
        assert not calling.done()
        bot.is_written.set()
        assert await calling == 200
        assert [inbound.text for inbound in bot.submitted] == ["Hi"]


async def test_an_update_that_breaks_the_channel_does_not_hold_up_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(message: Message) -> None:
        raise RuntimeError("a kind of message that nobody thought of")

    bot = silent()
    async with TelegramServer() as server, serving(bot, server):
        ann = server.person("Ann", 42)
        with monkeypatch.context() as patch:
            patch.setattr("channels.telegram.incoming.speaker", broken)
            ann.says("One")
            await server.until(lambda: server.confirmed > 1)
        ann.says("Two")
        await said(bot, 1)
    assert [inbound.text for inbound in bot.submitted] == ["Two"]


def test_markdown_becomes_text_with_entities() -> None:
    for markdown, text, kinds in [
        ("# Title", "Title", {"bold", "underline"}),
        ("- a\n- **b**", "• a\n• b", {"bold"}),
        ("Use `List<int>` and List<int>", "Use List<int> and List<int>", {"code"}),
        ("```py\na < b\n```", "a < b", {"pre"}),
        ("[x](https://a.b) [y](javascript:alert)", "x y (javascript:alert)", {"text_link"}),
        ("**a [🙂x](files/a.txt)** *b*", "a 🙂x (files/a.txt) b", {"bold", "italic"}),
        ("`▇▇▁▁` 50%", "▇▇▁▁ 50%", {"code"}),
        ("<!-- nothing to see -->", "<!-- nothing to see -->", set()),
        ("snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4", set()),
    ]:
        shown = rendered(markdown)
        assert shown.text.strip() == text, markdown
        assert {str(entity.type) for entity in shown.entities} == kinds, markdown


def test_text_that_grows_when_it_is_rendered_still_fits() -> None:
    table = "| a | b |\n|---|---|\n" + "| x | " + "y" * 300 + " |\n" + "| x | y |\n" * 200
    assert all(len(rendered(part).text) <= LONGEST for part in split(table, LONGEST, measure))


async def test_an_update_that_can_not_be_read_holds_up_none_behind_it() -> None:
    bot = silent()
    async with TelegramServer() as server, serving(bot, server):
        server.push("message", {"message_id": 5})
        server.push("callback_query", {"data": 1})
        server.person("Ann", 42).says("Hello!")
        await said(bot, 1)
        await server.until(lambda: server.confirmed > 3)
    assert [inbound.text for inbound in bot.submitted] == ["Hello!"]


def test_an_answer_that_is_not_from_telegram_is_asked_for_again() -> None:
    for answer in [b"<html>", b"[]", b'{"ok": true}', b"\xff", b"null"]:
        with pytest.raises(NetworkError) as error:
            TolerantRequest.parse_json_payload(answer)
        assert Telegram(TOKEN, TelegramSettings).explain(error.value).kind == "passing", answer


async def test_who_wrote_a_message_that_could_not_be_taken_is_told() -> None:
    class Clumsy(FakeBot):
        async def submit(self, inbound: Inbound) -> Accepted:
            if inbound.text == "trip":
                raise RuntimeError("over its own feet")
            return await super().submit(inbound)

    bot = Clumsy(lambda text: [])
    async with TelegramServer() as server, serving(bot, server):
        ann = server.person("Ann", 42)
        ann.says("trip")
        ann.says("Hello!")
        await server.shown("this message was not accepted")
        await said(bot, 1)
    assert [inbound.text for inbound in bot.submitted] == ["Hello!"]


async def test_a_message_is_taken_though_what_is_missing_of_it_can_not_be_said() -> None:
    bot = silent()
    async with TelegramServer() as server, serving(bot, server):
        server.outages["sendMessage"] = Refused("Bad Request: not today")
        ann = server.person("Ann", 42)
        ann.sends(
            ann.message(
                caption="Look!",
                sticker={
                    "file_id": "v",
                    "file_unique_id": "v",
                    "type": "regular",
                    "width": 1,
                    "height": 1,
                    "is_animated": False,
                    "is_video": False,
                },
            )
        )
        await said(bot, 1)
    assert [inbound.text for inbound in bot.submitted] == ["Look!"]


async def test_a_reaction_in_a_topic_is_to_what_stands_there() -> None:
    bot, group = silent(), -1001234
    async with TelegramServer() as server:
        server.group(group, is_forum=True)
        async with serving(bot, server):
            ann = server.person("Ann", 42).at(group, 7)
            ann.sends(ann.message("/context@parley_bot"))
            await said(bot, 1)
            await server.until(lambda: server.messages)
            ((_chat, answer),) = server.messages
            stop = {"type": "emoji", "emoji": "🛑"}
            reaction = {"chat": server.chats[group], "message_id": answer}
            reaction |= {"user": ann.user, "date": 1, "old_reaction": [], "new_reaction": [stop]}
            server.push("message_reaction", reaction)
            await said(bot, 2)
    assert bot.submitted[1].text == "/stop"
    assert bot.submitted[1].address == bot.submitted[0].address
    assert bot.submitted[1].address.thread == "7"
