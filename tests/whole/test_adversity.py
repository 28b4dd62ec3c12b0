"""What surrounds the bot fails for a while: its disk, its clock, its model, a platform. It says so,
loses nothing that it has confirmed, and goes on when that is over."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import time_machine

from bot.assembly import assemble
from bot.settings import load_layers
from channels.message import Outbound
from tests.fakes.openai_server import Call, OpenAIServer, Received, Say
from tests.whole.house import Hands, House, living, running

NOON = 1_800_000_000.0
DAY = 86_400.0


async def pragma(house: House, text: str) -> None:
    """Set something of the connection that writes, outside of any transaction."""
    store = house.app.store
    await store._put(store._writer, lambda db: db.execute_sql(f"PRAGMA {text}"), is_alone=True)


async def questions(house: House) -> list[str]:
    rows = await house.app.store.read(
        lambda db: db.execute_sql(
            "SELECT text FROM message WHERE role = 'user' ORDER BY seq"
        ).fetchall()
    )
    return [text for (text,) in rows]


async def test_on_a_disk_that_becomes_read_only_messages_are_refused_until_it_is_mended(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, [Say("One."), Say("Three.")]) as house:
        await house.says("first")
        await pragma(house, "query_only = 1")
        for text in ("second", "/context"):
            refusal = (await house.says(text)).text
            assert "can't be written; check the permissions of the data folder" in refusal
        await pragma(house, "query_only = 0")
        assert (await house.says("third")).text == "Three."
        assert await questions(house) == ["first", "third"]


async def test_a_database_that_gets_locked_in_mid_turn_ends_it_and_no_tool_runs_again(
    tmp_path: Path,
) -> None:
    """What was accepted is not lost: the next start answers it."""
    with closing(sqlite3.connect(tmp_path / "holder", isolation_level=None)) as holder:
        answers = [Say(calls=(Call("calculate", '{"expression": "6*7"}', "a"),)), Say("It is 42.")]

        def script(request: Received) -> Say:
            if request.body["messages"][-1]["role"] == "tool":
                holder.execute("BEGIN EXCLUSIVE")
            return answers.pop(0)

        async with living(tmp_path, script) as house:
            await pragma(house, "busy_timeout = 20")
            holder.execute(f"ATTACH '{tmp_path / 'data' / 'parley.db'}' AS bot")
            told = (await house.says("6*7?")).text
            assert "another process holds the database; stop it and try again" in told
            holder.execute("ROLLBACK")
            holder.execute("DETACH bot")
    async with living(tmp_path, [Say("42, as I said.")]) as house:
        assert (await house.reply_to("m1")).reply.text == "42, as I said."
        assert [message["role"] for message in house.sent_to_model()][1:] == [
            *("user", "assistant", "tool")
        ]
        assert await questions(house) == ["6*7?"]


async def test_a_clock_that_jumps_changes_no_order_and_loses_nothing(tmp_path: Path) -> None:
    moments = [NOON, NOON - DAY, NOON + 20 * DAY, NOON - 400 * DAY, NOON]
    settings = {"agent_max_context_turns": 2}
    async with living(tmp_path, lambda _: Say("Noted."), settings) as house:
        for number, moment in enumerate(moments):
            with time_machine.travel(moment, tick=True):
                assert (await house.says(f"question {number}")).text == "Noted."
                for command in ("/context", "/context history", "/usage", "/memory", "/status"):
                    assert "inside the bot" not in (await house.says(command)).text
        found = (await house.says("/memory search question")).text
    said = [f"question {number}" for number in range(len(moments))]
    assert all(f"**question** {number}" in found for number in range(len(moments)))
    async with living(tmp_path, lambda _: Say("All."), settings | {"restore": "exact"}) as house:
        await house.says("What was said?")
        assert await questions(house) == [*said, "What was said?"]


@pytest.mark.parametrize("shift", [-30 * DAY, 30 * DAY])
async def test_a_message_that_waits_is_answered_though_the_clock_jumped(
    tmp_path: Path, shift: float
) -> None:
    go = asyncio.Event()

    class Slow(OpenAIServer):
        async def _respond(self, request, received):  # type: ignore[no-untyped-def]
            await go.wait()
            return await super()._respond(request, received)

    async with Slow([Say("One."), Say("Two.")]) as server:
        house = House()
        house.server = server
        environ = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "test-key"}
        async with running(tmp_path, house, {}, environ):
            with time_machine.travel(NOON, tick=True):
                await house.writes("first", id="1")
                await server.reached.acquire()
            with time_machine.travel(NOON + shift, tick=True):
                await house.writes("second", id="2")
                go.set()
                assert (await house.reply_to("1")).reply.text == "One."
                assert (await house.reply_to("2")).reply.text == "Two."


async def test_a_model_that_is_down_is_told_and_the_next_message_works_when_it_is_back(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, [Say("I am here.")]) as house:
        assert (await house.says("Hello?")).text == "I am here."
        await house.server.close()
        told = (await house.says("And now?")).text
        assert "Can't connect to" in told
        assert (await house.says("/context")).data is not None
        port = int(house.server.base_url.rsplit(":", 1)[1].split("/")[0])
        back = OpenAIServer([Say("Back again.")])
        await back.start(port)
        try:
            assert (await house.says("Better?")).text == "Back again."
        finally:
            await back.close()
        back.assert_done()


class Far(Hands):
    """A platform that takes no reply until it is let go."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.gate = asyncio.Event()

    async def send(self, outbound: Outbound) -> None:
        await self.gate.wait()
        await super().send(outbound)


async def test_a_channel_that_takes_nothing_holds_up_no_other_channel(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model": "gpt-4o-mini", "owners": ["far/ann"]}')
    async with OpenAIServer(lambda _: Say("Here you are.")) as server:
        environ = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "test-key"}
        near, far = Hands(), Far("far")
        layers = load_layers(tmp_path / "config.json", environ)
        app = await assemble(layers, tmp_path / "data", [near, far])
        task = asyncio.create_task(app.run())
        for number in range(20):
            await far.writes("Hello?", user="ann", id=f"far{number}")
        for number in range(20):
            assert (await near.says(f"question {number}")).text == "Here you are."
        assert far.sent == []
        far.gate.set()
        await far.reply_to("far19")
        assert [outbound.reply_to for outbound in far.sent] == [f"far{n}" for n in range(20)]
        near.leave()
        far.leave()
        await task
