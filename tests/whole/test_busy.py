"""What becomes of a message that comes while a turn runs: the setting `when_busy`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bot.turns import INTERRUPTED, LONGEST_LINE
from channels.message import Address, Inbound
from tests.fakes.openai_server import Answer, Call, Hang, Received, Say
from tests.whole.house import House, living

GATE = """
import asyncio
from plugins.api import hookimpl, tool

reached, opened = asyncio.Event(), asyncio.Event()

@tool()
async def wait_at_the_gate() -> str:
    '''Wait.'''
    reached.set()
    await opened.wait()
    return "It is open."

@hookimpl
def parley_tools():
    return [wait_at_the_gate]
"""
WAIT = Say(calls=(Call("wait_at_the_gate", "{}", "a"),))


def asked(request: Received) -> list[str]:
    """What people said since the model's last reply."""
    said: list[str] = []
    for message in reversed(request.body["messages"]):
        if message["role"] == "user":
            said.insert(0, message["content"])
        elif message["role"] == "assistant" and "tool_calls" not in message:
            break
    return said


def script(request: Received) -> Answer:
    """Waits at the gate when it is told to, hangs when it is told to, and repeats all else."""
    said = asked(request)
    if said == ["wait"] and request.body["messages"][-1]["role"] == "user":
        return WAIT
    return Hang("Let me") if said == ["hang"] else Say("re: " + " + ".join(said))


@asynccontextmanager
async def busy(folder: Path, when_busy: str, **settings: Any) -> AsyncIterator[House]:
    """A bot whose turn waits at the gate."""
    plugins = folder / "data" / "plugins"
    plugins.mkdir(parents=True, exist_ok=True)
    (plugins / "gate.py").write_text(GATE)
    async with living(folder, script, {"when_busy": when_busy, **settings}) as house:
        await house.writes("wait", id="first")
        await gate("reached").wait()
        yield house


def gate(name: str) -> asyncio.Event:
    event: asyncio.Event = getattr(sys.modules["parley_user_gate"], name)
    return event


def replies(house: House) -> Mapping[str, str]:
    return {outbound.reply_to: outbound.reply.text for outbound in house.sent}


async def inbox_left(house: House) -> int:
    count: int = await house.app.store.read(
        lambda db: db.execute_sql("SELECT COUNT(*) FROM inbox WHERE is_done = 0").fetchone()[0]
    )
    return count


async def test_queue_gives_each_message_a_turn_of_its_own(tmp_path: Path) -> None:
    async with busy(tmp_path, "queue") as house:
        await house.writes("two", id="second")
        await house.writes("three", id="third")
        gate("opened").set()
        await house.reply_to("third")
        assert list(replies(house).values()) == ["re: wait", "re: two", "re: three"]


async def test_collect_joins_what_came_to_the_next_turn(tmp_path: Path) -> None:
    async with busy(tmp_path, "collect") as house:
        await house.writes("two", id="second")
        await house.writes("three", id="third")
        gate("opened").set()
        assert (await house.reply_to("second")).turn == "t2"
        assert replies(house) == {"first": "re: wait", "second": "re: two + three"}
        assert await inbox_left(house) == 0
        await house.app.turns.queues.idle()
        assert not house.app.turns._waiting, "nothing is kept of a line that is empty"
        retried = (await house.says("/retry")).data
        assert retried is not None
        assert (await house.reply_to(retried["asked"])).reply.text == "re: two\n\nthree"


async def test_steer_gives_it_to_the_running_turn_after_the_tool_results(tmp_path: Path) -> None:
    async with busy(tmp_path, "steer") as house:
        await house.writes("two", id="second")
        gate("opened").set()
        assert (await house.reply_to("first")).reply.text == "re: wait + two"
        roles = [(m["role"], m["content"]) for m in house.sent_to_model()][1:]
        assert roles[-2:] == [("tool", "It is open."), ("user", "two")]
        assert (await house.says("three")).text == "re: three"
        assert "second" not in replies(house)
        assert await inbox_left(house) == 0
        assert "2 turns" in (await house.says("/context")).text


async def test_steering_that_comes_too_late_gets_a_turn_of_its_own(tmp_path: Path) -> None:
    async with living(tmp_path, script, {"when_busy": "steer"}) as house:
        await house.writes("hang", id="first")
        await house.server.reached.acquire()
        await house.writes("two", id="second")
        await house.says("/stop")
        assert (await house.reply_to("second")).reply.text == "re: two"


async def test_interrupt_stops_the_running_turn_and_takes_the_new_message(tmp_path: Path) -> None:
    async with living(tmp_path, script, {"when_busy": "interrupt"}) as house:
        await house.writes("hang", id="first")
        await house.server.reached.acquire()
        assert (await house.says("two")).text == "re: two"
        assert INTERRUPTED in (await house.reply_to("first")).reply.text


@pytest.mark.parametrize("mode", ["queue", "collect", "steer", "interrupt"])
async def test_other_conversations_are_not_touched(tmp_path: Path, mode: str) -> None:
    async with busy(tmp_path, mode) as house:
        assert (await house.says("Hi", chat="other")).text == "re: Hi"
        gate("opened").set()
        assert "first" not in replies(house)
        assert (await house.reply_to("first")).reply.text == "re: wait"


async def test_one_conversation_may_do_it_otherwise(tmp_path: Path) -> None:
    async with living(tmp_path, script) as house:
        await house.says("/config when_busy interrupt --here")
        await house.writes("hang", id="first")
        await house.server.reached.acquire()
        assert (await house.says("two")).text == "re: two"


@pytest.mark.parametrize("mode", ["collect", "steer"])
async def test_a_crash_neither_loses_nor_doubles_what_was_joined(tmp_path: Path, mode: str) -> None:
    def later(request: Received) -> Answer:
        return Hang() if len(asked(request)) > 1 or asked(request) == ["hang"] else Say("Yes.")

    async with living(tmp_path, later, {"when_busy": mode}) as house:
        await house.writes("hang", id="first")
        await house.server.reached.acquire()
        await house.writes("two", id="second")
        await house.writes("three", id="third")
        await house.says("/stop")
        await house.server.reached.acquire()
        await house.app.turns.queues.close()  # as a kill would: nothing is recorded any more
    async with living(tmp_path, script, {"when_busy": mode}) as house:
        # The turn that was stopped stands where it stood: the restart is exact.
        assert (await house.reply_to("second")).reply.text == "re: hang + two + three"
        assert await inbox_left(house) == 0
        assert "third" not in replies(house)
        assert "2 turns" in (await house.says("/context")).text


async def test_a_turn_that_a_crash_cut_short_is_not_joined_by_what_came_while_it_ran(
    tmp_path: Path,
) -> None:
    async with busy(tmp_path, "collect") as house:
        await house.app.bot.intake.take(Inbound("second", Address("pipe", "main"), "two"))
        await house.app.turns.queues.close()
    async with living(tmp_path, script, {"when_busy": "collect"}) as house:
        gate("opened").set()
        await house.reply_to("second")
        assert replies(house) == {"first": "re: wait", "second": "re: two"}


async def test_in_a_group_each_speaker_is_named_in_a_joined_turn(tmp_path: Path) -> None:
    settings = {"owners": ["pipe/ann", "pipe/bob"]}
    async with busy(tmp_path, "collect", **settings) as house:
        await house.writes("two", user="ann", id="second")
        await house.writes("three", user="bob", id="third")
        gate("opened").set()
        assert (await house.reply_to("second")).reply.text == "re: ann: two + bob: three"
        retried = (await house.says("/retry", user="bob")).data
        assert retried is not None
        again = (await house.reply_to(retried["asked"])).reply.text
        assert again == "re: ann: two\n\nthree"


@pytest.mark.parametrize("mode", ["collect", "steer"])
async def test_a_line_is_bounded_in_every_mode(tmp_path: Path, mode: str) -> None:
    async with busy(tmp_path, mode) as house:
        for number in range(LONGEST_LINE - 1):
            await house.writes("more", id=f"more{number}")
        assert house.app.turns.is_busy(next(iter(house.app.conversations._open.values())).key)
        gate("opened").set()
        await house.reply_to("first" if mode == "steer" else "more0")
        assert await inbox_left(house) == 0
