"""A message that arrives while a turn runs: `when_busy`, and a stop at the very beginning of a
turn."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.models import history
from bot import turns
from channels.message import Address, Inbound
from tests.fakes.openai_server import Answer, Call, Hang, Received, Say
from tests.waiting import PATIENCE, until
from tests.whole.requests import with_plugin
from tests.whole.testbot import TestBot, run_bot

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


def is_between(message: Mapping[str, Any]) -> bool:
    return "tool_calls" in message or message["content"] == history.INTERRUPTED


def asked(request: Received) -> list[str]:
    """Return the messages of people since the model's last reply."""
    said: list[str] = []
    for message in reversed(request.body["messages"]):
        if message["role"] == "user":
            said.insert(0, message["content"])
        elif message["role"] == "assistant" and not is_between(message):
            break
    return said


def script(request: Received) -> Answer:
    """Wait at the gate or hang if asked to, and repeat everything else."""
    said = asked(request)
    if said == ["wait"] and request.body["messages"][-1]["role"] == "user":
        return WAIT
    return Hang("Let me") if said == ["hang"] else Say("re: " + " + ".join(said))


@asynccontextmanager
async def busy(folder: Path, when_busy: str, **settings: Any) -> AsyncIterator[TestBot]:
    """A bot whose turn waits at the gate."""
    with_plugin(folder, GATE, "gate")
    async with run_bot(folder, script, {"when_busy": when_busy, **settings}) as bot:
        await bot.writes("wait", id="first")
        await gate("reached").wait()
        yield bot


def gate(name: str) -> asyncio.Event:
    event: asyncio.Event = getattr(sys.modules["parley_user_gate"], name)
    return event


def replies(bot: TestBot) -> Mapping[str, str]:
    return {outbound.reply_to: outbound.reply.text for outbound in bot.sent}


async def inbox_left(bot: TestBot) -> int:
    count: int = await bot.app.store.read(
        lambda db: db.execute_sql("SELECT COUNT(*) FROM inbox WHERE is_done = 0").fetchone()[0]
    )
    return count


async def test_collect_joins_what_came_to_the_next_turn(tmp_path: Path) -> None:
    async with busy(tmp_path, "collect") as bot:
        await bot.writes("two", id="second")
        await bot.writes("three", id="third")
        gate("opened").set()
        assert (await bot.reply_to("second")).turn == "t2"
        assert replies(bot) == {"first": "re: wait", "second": "re: two\n\nthree"}
        assert await inbox_left(bot) == 0
        await bot.app.turns.queues.idle()
        assert not bot.app.turns.waiting, "nothing is kept of a line that is empty"
        retried = (await bot.says("/retry")).data
        assert retried is not None
        assert (await bot.reply_to(retried["asked"])).reply.text == "re: two\n\nthree"


async def test_steer_gives_it_to_the_running_turn_after_the_tool_results(tmp_path: Path) -> None:
    async with busy(tmp_path, "steer") as bot:
        await bot.writes("two", id="second")
        gate("opened").set()
        assert (await bot.reply_to("first")).reply.text == "re: wait + two"
        roles = [(m["role"], m["content"]) for m in bot.sent_to_model()][1:]
        assert roles[-3:] == [
            ("tool", "It is open."),
            ("assistant", history.INTERRUPTED),
            ("user", "two"),
        ]
        assert (await bot.says("three")).text == "re: three"
        assert "second" not in replies(bot)
        assert await inbox_left(bot) == 0
        assert "2 turns" in (await bot.says("/context")).text


async def test_steering_that_comes_too_late_gets_a_turn_of_its_own(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script, {"when_busy": "steer"}) as bot:
        await bot.writes("hang", id="first")
        await bot.server.reached.acquire()
        await bot.writes("two", id="second")
        await bot.says("/stop")
        assert (await bot.reply_to("second")).reply.text == "re: two"


@pytest.mark.parametrize("mode", ["collect", "steer"])
async def test_a_crash_neither_loses_nor_doubles_what_was_joined(tmp_path: Path, mode: str) -> None:
    async with run_bot(tmp_path, lambda _: Hang(), {"when_busy": mode}) as bot:
        await bot.writes("hang", id="first")
        await bot.server.reached.acquire()
        await bot.writes("two", id="second")
        await bot.writes("three", id="third")
        await bot.says("/stop")
        await bot.server.reached.acquire()
        await bot.app.turns.queues.close()  # as after a kill: nothing is recorded any longer
    async with run_bot(tmp_path, script, {"when_busy": mode}) as bot:
        # The turn that was stopped is at the same position: the restart is exact.
        assert (await bot.reply_to("second")).reply.text == "re: two\n\nthree"
        assert await inbox_left(bot) == 0
        assert "third" not in replies(bot)
        assert "2 turns" in (await bot.says("/context")).text


async def test_a_turn_that_a_crash_cut_short_is_not_joined_by_what_came_while_it_ran(
    tmp_path: Path,
) -> None:
    async with busy(tmp_path, "collect") as bot:
        await bot.app.bot.intake.take(Inbound("second", Address("pipe", "main"), "two"))
        await bot.app.turns.queues.close()
    async with run_bot(tmp_path, script, {"when_busy": "collect"}) as bot:
        gate("opened").set()
        await bot.reply_to("second")
        assert replies(bot) == {"first": "re: wait", "second": "re: two"}


async def test_in_a_group_each_speaker_is_named_in_a_joined_turn(tmp_path: Path) -> None:
    settings = {"owners": ["pipe/ann", "pipe/bob"]}
    async with busy(tmp_path, "collect", **settings) as bot:
        await bot.writes("two", user="ann", id="second")
        await bot.writes("three", user="bob", id="third")
        gate("opened").set()
        assert (await bot.reply_to("second")).reply.text == "re: ann: two\n\nbob: three"
        retried = (await bot.says("/retry", user="bob")).data
        assert retried is not None
        again = (await bot.reply_to(retried["asked"])).reply.text
        assert again == "re: ann: two\n\nthree"


@pytest.mark.parametrize("mode", ["collect", "steer"])
async def test_a_line_is_bounded_in_every_mode(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "LONGEST_LINE", 12)
    async with busy(tmp_path, mode) as bot:
        for number in range(11):
            await bot.writes("more", id=f"more{number}")
        assert bot.app.turns.is_busy(next(iter(bot.app.conversations._open.values())).key)
        gate("opened").set()
        await bot.reply_to("first" if mode == "steer" else "more0")
        assert await inbox_left(bot) == 0


def echo(request: Received) -> Say:
    return Say(f"re {request.body['messages'][-1]['content']}")


async def hold_before_the_model(bot: TestBot, gate: asyncio.Event) -> asyncio.Event:
    """Make features wait for the gate when they get a message; return an event for the first."""
    heard = asyncio.Event()

    async def hear(_words: object) -> None:
        heard.set()
        await gate.wait()

    bot.app.features.said.append(hear)
    return heard


@pytest.mark.parametrize(
    ("line", "told", "asked"),
    [
        ("/stop", "Stopping", []),
        ("/undo", "I stopped the running answer. Undone", []),
        ("/retry", "I stopped the running answer. t2 is taken back", ["Two"]),
        ("/edit t2 Three", "I stopped the running answer. Asked now instead", ["Three"]),
        ("/new", "I stopped the running answer. New start", []),
        ("/forget t2 yes", "I stopped the running answer. Deleted", []),
    ],
)
async def test_a_turn_that_has_just_begun_is_stopped(
    tmp_path: Path, line: str, told: str, asked: list[str]
) -> None:
    gate = asyncio.Event()
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("One")
        heard = await hold_before_the_model(bot, gate)
        await bot.writes("Two", id="two")
        await asyncio.wait_for(heard.wait(), PATIENCE)
        await bot.writes(line, id="line")
        await until(lambda: bot.app.turns._tasks._begun["pipe/main"].stopped)
        gate.set()
        assert (await bot.reply_to("line")).reply.text.startswith(told)
        assert "Stopped" in (await bot.reply_to("two")).reply.text
        await bot.app.turns.queues.idle()
        last = [str(request.body["messages"][-1]["content"]) for request in bot.server.turns]
        assert last == ["One", *asked], "nothing was paid for what was stopped"
