"""Tests of the guarantees during a turn: commands, `/stop`, `when_busy`, permissions, and tools
that run once; here in one process, and in several in `test_cluster`."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from channels.message import Reply
from tests.fakes import openai_server, payments
from tests.fakes.openai_server import Call, OpenAIServer, Received, Say
from tests.waiting import PATIENCE, until
from tests.whole.requests import with_plugin
from tests.whole.testbot import TestBot, TestChannel, running

pytestmark = pytest.mark.databases

ASKING = """
from pathlib import Path
from plugins.api import hookimpl, tool

@tool(asks_first=True)
def knock(what: str) -> str:
    \"\"\"Knock.\"\"\"
    with (Path(__file__).parents[2] / "till.txt").open("a") as till:
        till.write(what + "\\n")
    return "knocked"

@hookimpl
def parley_tools():
    return [knock]
"""


class Gated(OpenAIServer):
    """An endpoint that answers with the last message, or with a call of the tool that it names. A
    step whose text has a closed gate waits for the gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gates: defaultdict[str, asyncio.Event] = defaultdict(_open)
        self.asked: list[list[str]] = []
        """The messages of people since the last answer, step by step."""
        self.moved = asyncio.Condition()

    async def _respond(self, request: web.Request, received: Received) -> web.StreamResponse:
        messages = received.body["messages"]
        said = [one["content"] for one in messages if one["role"] == "user"]
        is_tool = messages[-1]["role"] == "tool"
        async with self.moved:
            self.asked.append(said)
            self.moved.notify_all()
        await self.gates[f"after {said[-1]}" if is_tool else said[-1]].wait()
        words = said[-1].split()
        call = Call(words[0], f'{{"what": "{words[-1]}"}}', f"c{words[-1]}")
        is_call = words[0] in ("pay", "knock") and not is_tool
        answer = Say(calls=(call,)) if is_call else Say(f"re: {said[-1]}")
        return await openai_server._act(request, received, answer, (1, 0))

    async def until_asked(self, count: int) -> None:
        async with self.moved:
            waiting = self.moved.wait_for(lambda: len(self.asked) >= count)
            await asyncio.wait_for(waiting, PATIENCE)

    def close_gate(self, text: str) -> asyncio.Event:
        self.gates[text] = asyncio.Event()
        return self.gates[text]


def _open() -> asyncio.Event:
    gate = asyncio.Event()
    gate.set()
    return gate


@dataclass
class Living:
    channel: TestChannel
    endpoint: Gated
    dies: Callable[[], Any]


Live = Callable[..., AbstractAsyncContextManager[Living]]


@pytest.fixture
def live(tmp_path: Path) -> Live:
    """Return a function that runs the bot, repeatedly on the same folder."""

    @asynccontextmanager
    async def alone(**settings: Any) -> AsyncIterator[Living]:
        async with Gated() as endpoint:
            bot = TestBot()
            bot.server = endpoint
            environ = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "test-key"}

            async def die() -> None:
                app = bot.app
                for queues in (app.bot.commands.queues, app.turns.queues, app.delivery.queues):
                    await queues.close()

            async with running(tmp_path, bot, settings, environ):
                yield Living(bot, endpoint, die)

    return alone


async def test_commands_are_answered_while_a_turn_runs_and_stop_ends_one(live: Live) -> None:
    async with live() as run_bot:
        gate = run_bot.endpoint.close_gate("think")
        await run_bot.channel.writes("think", id="q")
        await run_bot.endpoint.until_asked(1)
        assert "turn" in (await run_bot.channel.says("/context")).text
        assert (await run_bot.channel.says("/config agent_max_steps 3 --here")).text
        assert not [out for out in run_bot.channel.sent if out.reply_to == "q"]
        gate.set()
        assert (await run_bot.channel.reply_to("q")).reply.text == "re: think"

        run_bot.endpoint.close_gate("think again")
        await run_bot.channel.writes("think again", id="again")
        await run_bot.endpoint.until_asked(2)
        await run_bot.channel.says("/stop")
        assert "Stopped, as you asked." in (await run_bot.channel.reply_to("again")).reply.text
        assert (await run_bot.channel.says("go on")).text == "re: go on"


async def _say_while_busy(run_bot: Living, first: str) -> None:
    """Send two messages while the model works on the first."""
    gate = run_bot.endpoint.close_gate(first)
    await run_bot.channel.writes(first, id="q0")
    await run_bot.endpoint.until_asked(1)
    for number in (1, 2):
        assert await run_bot.channel.writes(f"more {number}", id=f"q{number}")
    gate.set()


async def test_collect_joins_what_came_to_one_turn(live: Live) -> None:
    async with live(when_busy="collect") as run_bot:
        await _say_while_busy(run_bot, "first")
        await run_bot.endpoint.until_asked(2)
        assert (await run_bot.channel.says("and then?")).text == "re: and then?"
        assert run_bot.endpoint.asked[1][-1:] == ["more 1\n\nmore 2"]
        assert len(run_bot.endpoint.asked) == 3


async def test_steer_hands_what_came_to_the_running_turn(live: Live, tmp_path: Path) -> None:
    payments.install(tmp_path)
    async with live(when_busy="steer") as run_bot:
        await _say_while_busy(run_bot, "pay rent")
        await run_bot.channel.reply_to("q0")
        assert run_bot.endpoint.asked[1] == ["pay rent", "more 1\n\nmore 2"]
        assert payments.made(tmp_path) == ["rent"]


async def test_interrupt_stops_the_turn_and_takes_what_came(live: Live) -> None:
    async with live(when_busy="interrupt") as run_bot:
        run_bot.endpoint.close_gate("first")
        await run_bot.channel.writes("first", id="q0")
        await run_bot.endpoint.until_asked(1)
        await run_bot.channel.writes("second", id="q1")
        assert "because you wrote again" in (await run_bot.channel.reply_to("q0")).reply.text
        assert (await run_bot.channel.reply_to("q1")).reply.text == "re: second"


async def test_a_tool_whose_result_is_there_is_not_run_again_after_a_crash(
    live: Live, tmp_path: Path
) -> None:
    payments.install(tmp_path)
    async with live() as run_bot:
        run_bot.endpoint.close_gate("after pay rent")
        await run_bot.channel.writes("pay rent", id="q")
        await run_bot.endpoint.until_asked(2)
        await run_bot.dies()
    async with live() as run_bot:
        assert (await run_bot.channel.reply_to("q")).reply.text == "re: pay rent"
    assert payments.made(tmp_path) == ["rent"]


async def test_a_permission_that_is_waited_for_is_asked_for_again_after_a_crash(
    live: Live, tmp_path: Path
) -> None:
    with_plugin(tmp_path, ASKING, "knocking")
    async with live() as run_bot:
        await run_bot.channel.writes("knock twice", id="q")
        before = _name_in((await run_bot.channel.reply_to("")).reply)
        await run_bot.dies()
    assert payments.made(tmp_path) == [], "nobody has allowed it"
    async with live() as run_bot:
        # The old question may be sent again, since its delivery is uncertain.
        await until(lambda: _names(run_bot.channel) - {before})
        await run_bot.channel.says(f"/approve {before}")
        assert payments.made(tmp_path) == [], "the question before is over"
        await _approve_all(run_bot.channel, {before}, "q")
        assert (await run_bot.channel.reply_to("q")).reply.text == "re: knock twice"
    assert payments.made(tmp_path) == ["twice"]


async def _approve_all(channel: TestChannel, answered: set[str], message: str) -> None:
    """Approve all questions until there is an answer: when processes rebalance, another one may
    take over the turn and ask again."""

    def is_answered() -> bool:
        return any(out.reply_to == message for out in channel.sent)

    while not is_answered():
        for name in _names(channel) - answered:
            await channel.says(f"/approve {name}")
            answered.add(name)
        await until(lambda: is_answered() or _names(channel) - answered)


def _names(channel: TestChannel) -> set[str]:
    """Return the names to approve, from the questions so far."""
    return {_name_in(out.reply) for out in channel.sent if not out.reply_to}


def _name_in(asked: Reply) -> str:
    return asked.actions[0].command.split()[1]
