"""Tests of `/link`: chats of one person on several channels share one conversation."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bot.assembly import assemble
from bot.settings import load_layers
from channels.base import Activity, BranchChanged, Delta, Done, TurnStarted
from channels.guess_limit import TRIES
from channels.message import Address
from memory.record import mailbox
from memory.record.engines.sqlite import in_memory
from memory.record.mailbox import AddressColumns, InboxRow
from plugins.links import record
from plugins.links.feature import LEADS, LINKED, NOBODY, PRIVATE, SAME, WRONG, ChatLinks
from tests.fakes.openai_server import Call, Hang, OpenAIServer, Received, Say, Script
from tests.waiting import PATIENCE
from tests.whole.testbot import TestChannel

CODE = re.compile(r"`/link ([A-Z2-9]{4}-[A-Z2-9]{4})`")
OWNERS = {"owners": ["afar/ann"]}


def echo(request: Received) -> Say:
    """Answer with the number of user messages that the model sees, and the last of them."""
    said = [m["content"] for m in request.body["messages"] if m["role"] == "user"]
    return Say(f"{len(said)}: {said[-1]}")


@dataclass
class TwoChannels:
    """A bot whose owner uses the pipe, and is `ann` on another channel."""

    here: TestChannel
    afar: TestChannel
    server: OpenAIServer
    app: Any

    async def code(self) -> str:
        found = CODE.search((await self.here.says("/link")).text)
        assert found is not None
        return found[1]

    async def links(self, user: str = "ann") -> None:
        await self.from_afar(f"/link {await self.code()}", user)
        await self.here.says(f"/link yes afar/{user}")

    async def from_afar(self, text: str, user: str = "ann", chat: str = "") -> str:
        return (await self.afar.says(text, chat or user, user)).text


@asynccontextmanager
async def two_channels(
    folder: Path, script: Script = echo, **settings: Any
) -> AsyncIterator[TwoChannels]:
    async with OpenAIServer(script) as endpoint:
        here, afar = TestChannel("pipe"), TestChannel("afar")
        here.count, afar.count = 1000, 2000
        config = folder / "config.json"
        config.write_text(json.dumps({"model": "gpt-4o-mini", **OWNERS, **settings}))
        environ = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "test-key"}
        app = await assemble(load_layers(config, environ), folder / "data", [here, afar])
        task = asyncio.create_task(app.run())
        try:
            await here.api()
            await afar.api()
            yield TwoChannels(here, afar, endpoint, app)
        finally:
            here.leave()
            afar.leave()
            await asyncio.wait_for(task, PATIENCE)


async def test_linked_chats_share_a_conversation_and_answers_go_where_the_question_was(
    tmp_path: Path,
) -> None:
    async with two_channels(tmp_path) as bot:
        assert (await bot.here.says("one")).text == "1: one"
        assert await bot.from_afar("elsewhere") == "1: elsewhere"
        await bot.links()
        assert await bot.from_afar("two") == "2: two"
        assert (await bot.here.says("three")).text == "3: three"
        assert not [out for out in bot.here.sent if "two" in out.reply.text]
        assert not [out for out in bot.afar.sent if "three" in out.reply.text]
        assert "elsewhere" in await bot.from_afar("/link before"), "it stays readable"
        assert "elsewhere" not in await bot.from_afar("/context turns")
        await bot.here.says("/remember I live in Lisbon")
        assert "Lisbon" in await bot.from_afar("/memory list")
        await bot.from_afar("/config agent_max_steps 7 --here")
        assert "7" in (await bot.here.says("/config agent_max_steps")).text
    async with two_channels(tmp_path) as bot:
        bot.afar.count = 3000
        assert await bot.from_afar("four") == "4: four", "after a restart"
        await bot.from_afar("/unlink")
        assert await bot.from_afar("alone") == "2: alone", "nothing was copied"
        assert (await bot.here.says("here")).text == "5: here"


async def test_a_code_works_once_for_ten_minutes_and_until_the_next_one(tmp_path: Path) -> None:
    async with two_channels(tmp_path) as bot:
        first, code = await bot.code(), await bot.code()
        assert await bot.from_afar(f"/link {first}") == WRONG
        assert "nothing changes" in await bot.from_afar(f"/link {code}")
        assert await bot.from_afar(f"/link {code}") == WRONG
        code, now = await bot.code(), bot.app.features.service(ChatLinks)._clock()
        bot.app.features.service(ChatLinks)._clock = lambda: now + 601
        assert await bot.from_afar(f"/link {code}") == WRONG


async def test_nothing_is_linked_before_whoever_gave_the_code_says_yes(tmp_path: Path) -> None:
    async with two_channels(tmp_path) as bot:
        await bot.here.says("the secret word is plum")
        assert "nothing changes" in await bot.from_afar(f"/link {await bot.code()}")
        assert await bot.from_afar("what is it?") == "1: what is it?"
        assert "plum" not in await bot.from_afar("/context turns")
        (asked,) = (out.reply for out in bot.here.sent if "wants to join" in out.reply.text)
        yes, no = (action.command for action in asked.actions)
        assert (yes, no) == ("/link yes afar/ann", "/link no afar/ann")
        for user in ("ann", "bob"):
            assert await bot.from_afar(yes, user) != "", "only where the code was given"
        assert bot.app.links.followers("pipe/main") == ()
        assert (await bot.here.says("/link yes afar/eve")).text == NOBODY
        assert "was not linked" in (await bot.here.says(no)).text
        assert (await bot.here.says(yes)).text == NOBODY
        assert "said no" in "".join(out.reply.text for out in bot.afar.sent)
        await bot.from_afar(f"/link {await bot.code()}")
        now = bot.app.features.service(ChatLinks)._clock()
        bot.app.features.service(ChatLinks)._clock = lambda: now + 601
        assert (await bot.here.says(yes)).text == NOBODY
        bot.app.features.service(ChatLinks)._clock = lambda: now
        assert "is linked" in (await bot.here.says(yes)).text
        assert await bot.from_afar("and now?") == "2: and now?"


async def test_guesses_count_against_who_makes_them_and_nobody_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with two_channels(tmp_path, owners=["afar/ann", "afar/eve"]) as bot:
        code = await bot.code()
        told = [await bot.from_afar("/link AAAA-AAAA", "eve") for _ in range(TRIES + 1)]
        assert told[: TRIES - 1] == [WRONG] * (TRIES - 1)
        assert all("too many wrong codes" in one for one in told[TRIES - 1 :])
        assert "too many wrong codes" in await bot.from_afar(f"/link {code}", "eve")
        assert len([line for line in caplog.messages if "afar/eve" in line]) == 1
        assert "nothing changes" in await bot.from_afar(f"/link {code}")


async def test_no_group_is_ever_linked(tmp_path: Path) -> None:
    async with two_channels(tmp_path) as bot:
        assert await bot.from_afar("/link", chat="group") == PRIVATE
        code = await bot.code()
        assert await bot.from_afar(f"/link {code}", chat="group") == PRIVATE
        assert "nothing changes" in await bot.from_afar(f"/link {code}")


async def test_rights_are_not_inherited_and_who_is_shut_out_is_linked_no_more(
    tmp_path: Path,
) -> None:
    async with two_channels(tmp_path) as bot:
        told = await bot.from_afar("Hello?", "bob")
        pairing = re.search(r"/pair (\S+)`", told)
        assert pairing is not None
        code = await bot.code()
        assert await bot.afar.writes(f"/link {code}", "bob", "bob", "stranger") is None
        assert bot.app.links.followers("pipe/main") == ()
        await bot.here.says(f"/pair {pairing[1]}")
        await bot.from_afar(f"/link {code}", "bob")
        await bot.here.says("/link yes afar/bob")
        assert "Only an owner" in await bot.from_afar("/config model gpt-4o", "bob")
        assert "afar/bob" in await bot.from_afar("/whoami", "bob")
        assert bot.app.links.followers("pipe/main") == ("afar/bob",)
        await bot.here.says("/revoke afar/bob")
        assert bot.app.links.followers("pipe/main") == ()


async def test_whoever_gave_the_code_can_end_the_link(tmp_path: Path) -> None:
    async with two_channels(tmp_path) as bot:
        await bot.from_afar(f"/link {await bot.code()}")
        linked = await bot.here.says("/link yes")
        assert [action.command for action in linked.actions] == ["/unlink afar/ann"]
        assert "afar/ann" in (await bot.here.says("/unlink afar/ann")).text
        assert await bot.from_afar("alone") == "1: alone"


async def test_a_chat_that_others_go_on_in_is_not_linked_itself(tmp_path: Path) -> None:
    async with two_channels(tmp_path) as bot:
        for which in ("all", "afar/ann"):
            await bot.links()
            found = CODE.search(await bot.from_afar("/link"))
            assert found is not None
            leads = LEADS.format(chats="afar/ann")
            assert (await bot.here.says(f"/link {found[1]}")).text == leads
            assert await bot.from_afar(f"/link {found[1]}") == LINKED.format(chat="pipe/main")
            await bot.here.says(f"/unlink {which}")
            assert (await bot.here.says(f"/link {found[1]}")).text == SAME


async def test_messages_of_both_chats_are_answered_one_at_a_time_in_their_order(
    tmp_path: Path,
) -> None:
    async with two_channels(tmp_path, when_busy="queue") as bot:
        await bot.links()
        for number in range(6):
            channel, who = ((bot.here, ""), (bot.afar, "ann"))[number % 2]
            await channel.writes(f"q{number}", who or "main", who, f"x{number}")
        for number in range(6):
            channel = (bot.here, bot.afar)[number % 2]
            assert (await channel.reply_to(f"x{number}")).reply.text == f"{number + 1}: q{number}"


async def test_branches_and_new_starts_hold_for_both(tmp_path: Path) -> None:
    async with two_channels(tmp_path) as bot:
        await bot.links()
        await bot.here.says("one")
        await bot.from_afar("/fork")
        assert "2" in (await bot.here.says("/branches")).text
        assert await bot.from_afar("two") == "2: two"
        assert (await bot.here.says("three")).text == "3: three"
        await bot.here.says("/new")
        assert "three" not in str(await bot.from_afar("/context turns --data"))
        await bot.from_afar("four")
        assert "four" in (await bot.here.says("/context turns")).text


async def test_forget_deletes_what_was_said_from_both_chats(tmp_path: Path) -> None:
    async with two_channels(tmp_path) as bot:
        await bot.from_afar("own words")
        await bot.links()
        await bot.from_afar("secret words")
        told = await bot.here.says("/forget chat")
        await bot.here.says(told.actions[0].command)
        rows = await bot.app.store.read(
            lambda db: [
                *db.execute_sql("SELECT text FROM inbox").fetchall(),
                *db.execute_sql("SELECT reply FROM outbox").fetchall(),
                *db.execute_sql("SELECT text FROM message").fetchall(),
            ]
        )
        assert not [row for row in rows if "secret words" in row[0]]
        assert [row for row in rows if "own words" in row[0]]


async def test_whoever_watches_a_chat_follows_it_to_the_other_conversation_and_back(
    tmp_path: Path,
) -> None:
    async with two_channels(tmp_path) as bot:
        events: list[Activity] = []
        address = Address("afar", "ann", user="ann")

        async def watch() -> None:
            with (await bot.afar.api()).watch(address) as happening:
                async for event in happening:
                    events.append(event)

        task = asyncio.create_task(watch())
        await asyncio.sleep(0)
        try:
            await bot.links()
            await bot.here.says("one")
            await bot.from_afar("/unlink")
            await bot.here.says("two")
            await bot.from_afar("three")
            await bot.app.idle()
        finally:
            task.cancel()
        assert len([one for one in events if isinstance(one, BranchChanged)]) == 2
        started = [one for one in events if isinstance(one, TurnStarted)]
        assert [one.question for one in started] == ["one", "three"]
        assert [one.address for one in started] == [Address("pipe", "main"), None]
        done = [one for one in events if isinstance(one, Done)]
        assert [one.text for one in done] == ["1: one", ""]
        assert [one for one in events if isinstance(one, Delta)]


async def receive(bot: TwoChannels, message: str) -> None:
    """Store a message from the other channel for the conversation here, as before a kill."""
    place = AddressColumns("afar", "ann", "", "ann")
    row = InboxRow(0, place, message, "two", "", 1.0, branch="pipe/main")
    await bot.app.store.write(lambda db: mailbox.receive(db, row, "d"))


async def test_a_message_that_waited_over_a_restart_is_answered_in_the_conversation_it_was_for(
    tmp_path: Path,
) -> None:
    async with two_channels(tmp_path) as bot:
        await bot.here.says("one")
        await bot.links()
        await receive(bot, "late")
        await bot.app.features.service(ChatLinks).end(Address("afar", "ann"), "")
    async with two_channels(tmp_path) as bot:
        assert (await bot.afar.reply_to("late")).reply.text == "2: two"


async def test_a_row_that_names_a_conversation_of_others_is_answered_in_its_own(
    tmp_path: Path,
) -> None:
    async with two_channels(tmp_path) as bot:
        await bot.here.says("one")
        await receive(bot, "forged")
    async with two_channels(tmp_path) as bot:
        assert (await bot.afar.reply_to("forged")).reply.text == "1: two"


async def test_a_turn_that_runs_while_its_chat_is_linked_is_stopped(tmp_path: Path) -> None:
    async with two_channels(tmp_path, [Hang("slowly"), Say("after")]) as bot:
        await bot.afar.writes("slow", "ann", "ann", "slow")
        await bot.server.reached.acquire()
        await bot.links()
        assert "Stopped" in (await bot.afar.reply_to("slow")).reply.text
        assert await bot.from_afar("next") == "after"
        assert "slow" not in await bot.from_afar("/context turns")


async def test_what_both_chats_cost_counts_as_one_budget(tmp_path: Path) -> None:
    limits = {"model": "gpt-4o", "spend_limit_chat": 0.00001}
    async with two_channels(tmp_path, [Say("dear")], **limits) as bot:
        await bot.links()
        await bot.from_afar("one")
        assert "this conversation has spent" in (await bot.here.says("two")).text


async def test_a_question_of_a_tool_is_asked_where_the_message_came_from_and_answered_from_either(
    tmp_path: Path,
) -> None:
    call = Say(calls=(Call("shell", '{"command": "echo hi"}', "c1"),))
    settings = {"tools": {"shell": True, "shell_unboxed": True}}
    async with two_channels(tmp_path, [call, Say("done")], **settings) as bot:
        await bot.links()
        await bot.app.idle()
        bot.afar.sent.clear()  # the message about the link
        await bot.afar.writes("run it", "ann", "ann", "run")
        asked = await bot.afar.reply_to("")
        assert "echo hi" in asked.reply.text
        assert not [out for out in bot.here.sent if "echo hi" in out.reply.text]
        assert "echo hi" in (await bot.here.says("/approve")).text
        await bot.here.says(asked.reply.actions[1].command)
        assert (await bot.afar.reply_to("run")).reply.text == "done"


def test_a_chat_goes_on_where_its_newest_code_leads() -> None:
    database = in_memory()
    place = AddressColumns("terminal", "main", "", "")
    for target in ("terminal/a", "terminal/b"):
        code = record.LinkCode(target, f"digest {target}", "ann", place, 1.0)
        record.put_code(database, code, 0.0)
        asked = record.LinkRequest("telegram/42", target, "ann", "ann", place, 2.0)
        assert record.ask(database, code, asked, 0.0)
        assert not record.ask(database, code, asked, 0.0)
        assert record.list_requests(database, target, "ann", 0.0) == [asked]
        assert record.end_request(database, asked, 2.0)
        assert not record.end_request(database, asked, 3.0)
    assert [(one.target, one.is_over) for one in record.list_links(database)] == [
        ("terminal/a", True),
        ("terminal/b", False),
    ]
    database.close()
