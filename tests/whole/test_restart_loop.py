"""A message that crashes the bot is quarantined; an interrupted command is not repeated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.loop import NOT_RUN_AGAIN
from bot.commands import INTERRUPTED
from bot.turns import MOST_RESUMES, PUT_ASIDE
from channels.message import Address, Inbound
from tests.fakes.openai_server import Answer, Call, Hang, OpenAIServer, Received, Say
from tests.whole.process import talking
from tests.whole.requests import with_plugin
from tests.whole.testbot import TestBot, run_bot

POISON = """
import os
from plugins.api import hookimpl, tool

@tool()
def poison() -> str:
    '''Ends the process.'''
    os._exit(9)

@hookimpl
def parley_tools():
    return [poison]
"""


def poisoned(request: Received) -> Answer:
    """A model that always makes the deadly call."""
    asked = request.body["messages"][-1]["content"]
    is_poison = asked in ("poison", NOT_RUN_AGAIN.format(name="poison"))
    return Say(calls=(Call("poison", "{}", "a"),)) if is_poison else Say(f"re: {asked}")


@pytest.mark.usefixtures("processes")
async def test_a_turn_that_brings_the_bot_down_again_and_again_is_put_aside(
    tmp_path: Path,
) -> None:
    with_plugin(tmp_path, POISON, "poison")
    async with OpenAIServer(poisoned) as endpoint:
        async with talking(tmp_path, endpoint) as bot:
            await bot.tell("poison", id="bad")
            await bot.tell("hello", id="good")
            assert await bot.gone() == 9
        for _ in range(MOST_RESUMES):
            async with talking(tmp_path, endpoint) as bot:
                assert await bot.gone() == 9
        async with talking(tmp_path, endpoint) as bot:
            await bot.tell("hello", id="good")  # it may not have been accepted before
            assert PUT_ASIDE in (await bot.reply_to("bad"))["text"]
            assert (await bot.reply_to("good"))["text"] == "re: hello", (
                "what waited behind it goes on"
            )
            assert await bot.ended() == 0


async def cut_short(bot: TestBot) -> None:
    """End the turns as a kill would: nothing is recorded any longer."""
    await bot.app.turns.queues.close()
    await bot.app.store.close()


async def test_a_turn_that_gets_further_each_time_is_never_put_aside(tmp_path: Path) -> None:
    steps = 0

    def script(request: Received) -> Answer:
        nonlocal steps
        steps += 1
        if steps % 2 == 0:
            return Hang()
        return Say(calls=(Call("calculate", '{"expression": "1"}', f"c{steps}"),))

    async with run_bot(tmp_path, script) as bot:
        await bot.writes("Go on.", id="long")
        for _ in range(2):
            await bot.server.reached.acquire()
        await cut_short(bot)
    for _ in range(MOST_RESUMES * 2):
        async with run_bot(tmp_path, script) as bot:
            for _ in range(2):
                await bot.server.reached.acquire()
            await cut_short(bot)
    async with run_bot(tmp_path, [Say("Done.")]) as bot:
        assert (await bot.reply_to("long")).reply.text == "Done."


async def test_each_turn_has_attempts_of_its_own(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Hang()] * 2) as bot:
        for chat in "ab":
            await bot.writes("Hi", chat=chat, id=chat)
            await bot.server.reached.acquire()
        await cut_short(bot)
    for _ in range(MOST_RESUMES):
        async with run_bot(tmp_path, [Hang()] * 2) as bot:
            for _ in range(2):
                await bot.server.reached.acquire()
            await cut_short(bot)
    async with run_bot(tmp_path) as bot:
        for chat in "ab":
            assert PUT_ASIDE in (await bot.reply_to(chat)).reply.text
    async with run_bot(tmp_path, [Say("Fine.")]) as bot:
        assert (await bot.says("Again.", chat="a")).text == "Fine."


async def test_orderly_stops_are_no_failures_of_the_turns_that_they_cut_short(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, [Hang()]) as bot:
        await bot.writes("Hi", id="q")
        await bot.server.reached.acquire()
        await cut_short(bot)
    for _ in range(MOST_RESUMES + 1):
        async with run_bot(tmp_path, [Hang()]) as bot:
            await bot.server.reached.acquire()
            await bot.app.turns.queues.close()  # shutdown_timeout is over
    async with run_bot(tmp_path, [Say("At last.")]) as bot:
        assert (await bot.reply_to("q")).reply.text == "At last."


@pytest.mark.parametrize("command", ["/undo", "/retry"])
async def test_a_command_that_was_cut_short_is_not_carried_out_again(
    tmp_path: Path, command: str
) -> None:
    async with run_bot(tmp_path, [Say("One."), Say("Two.")]) as bot:
        await bot.says("first")
        await bot.says("second")
        inbound = Inbound("cut", Address("pipe", "main"), command)
        taken = await bot.app.bot.intake.take(inbound)
        assert taken is not None
        await bot.app.delivery.begin(taken[0])  # the process dies here
    async with run_bot(tmp_path) as bot:
        told = (await bot.reply_to("cut")).reply.text
        assert told == INTERRUPTED.format(name=command[1:])
        assert "2 turns" in (await bot.says("/context")).text


async def test_a_command_that_was_accepted_and_not_begun_is_carried_out_after_a_restart(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, [Say("One."), Say("Two.")]) as bot:
        await bot.says("first")
        await bot.says("second")
        await bot.app.bot.intake.take(Inbound("cut", Address("pipe", "main"), "/undo"))
    async with run_bot(tmp_path) as bot:
        assert "Undone" in (await bot.reply_to("cut")).reply.text
        assert "1 turn" in (await bot.says("/context")).text


@pytest.mark.usefixtures("processes")
async def test_a_command_is_marked_before_it_takes_effect(tmp_path: Path) -> None:
    """The process ends within the command, whose effect is stored; the next start detects that."""
    plugins = tmp_path / "data" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "deadly.py").write_text(
        "import os\n"
        "from plugins.api import command, hookimpl\n\n"
        "@command('deadly', 'Ends the process')\n"
        "async def deadly(ask):\n"
        "    with open(ask.bot.workspace(ask.conversation.key) / 'files' / 'n', 'a') as file:\n"
        "        file.write('once ')\n"
        "    os._exit(9)\n\n"
        "@hookimpl\n"
        "def parley_commands():\n"
        "    return [deadly]\n"
    )
    async with talking(tmp_path) as bot:
        await bot.tell("/deadly", id="d")
        assert await bot.gone() == 9
    async with talking(tmp_path) as bot:
        assert (await bot.reply_to("d"))["text"] == INTERRUPTED.format(name="deadly")
        assert await bot.ended() == 0
    (file,) = (tmp_path / "data" / "audiences").glob("*/files/n")
    assert file.read_text() == "once "
    assert json.loads(bot.out[-1])["reply_to"] == "d"
