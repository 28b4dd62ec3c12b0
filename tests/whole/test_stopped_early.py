"""A turn that is open can be stopped, also while nothing of it has reached the model yet."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.fakes.openai_server import Received, Say
from tests.waiting import PATIENCE, until
from tests.whole.testbot import TestBot, run_bot


def echo(request: Received) -> Say:
    return Say(f"re {request.body['messages'][-1]['content']}")


async def hold_before_the_model(bot: TestBot, gate: asyncio.Event) -> asyncio.Event:
    """Have features hear what was said until the gate is open; returns an event for the first."""
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
        ("/new", "I stopped the running answer. Started afresh", []),
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
