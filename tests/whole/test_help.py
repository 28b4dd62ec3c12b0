"""`/help`: the commands in groups, and which strategy to use when."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from channels.terminal.display import command_reply
from memory.context.settings import ContextSettings
from plugins.builtin.help import FIRST, GROUPS, STRATEGIES, THE_BOT, grouped
from plugins.docs import builtin
from tests.whole.testbot import run_bot


async def test_help_fits_on_a_screen_and_names_every_command(tmp_path: Path) -> None:
    async with run_bot(tmp_path) as bot:
        reply = await bot.says("/help")
        unknown = (await bot.says("/help me")).text
        everything = (await bot.says("/help all")).text
    assert command_reply(reply.text, 80).count("\n") < 42, "a screen has 45 lines"
    explained = re.findall(r"^\| /(\w+) \|", reply.text, re.MULTILINE)
    assert explained == [*FIRST]
    named = re.findall(r"^\*\*(.+)\*\*: (.+)$", reply.text, re.MULTILINE)
    assert [group for group, _names in named] == [*GROUPS, THE_BOT]
    every = sorted(command.name for command in builtin())
    assert sorted(name for _group, names in named for name in names[1:].split(", /")) == every
    assert reply.data is not None
    assert [command["name"] for command in reply.data["commands"]] == every
    assert unknown == f"There is no command /me. These are all of them:\n\n{reply.text}"
    assert re.findall(r"^\*\*(.+)\*\*$", everything, re.MULTILINE) == [*GROUPS, THE_BOT]
    assert sorted(re.findall(r"^\| /(\w+) \|", everything, re.MULTILINE)) == every
    assert grouped({"roll": builtin()[0]})[THE_BOT] == ["roll"], "one of a plugin"


async def test_who_mistypes_a_command_is_shown_one_that_may_have_been_meant(tmp_path: Path) -> None:
    async with run_bot(tmp_path) as bot:
        for typed, meant in (("contxt", "context"), ("compact", "context compact")):
            said = (await bot.says(f"/{typed}")).text
            assert f"did you mean /{meant}?" in said
        assert "did you mean /context export?" in (await bot.says("/export markdown")).text
        assert "did you mean" not in (await bot.says("/quit")).text


async def test_each_strategy_says_what_it_does_and_when_it_is_good(tmp_path: Path) -> None:
    assert set(STRATEGIES) == set(get_args(ContextSettings.model_fields["strategy"].annotation))
    async with run_bot(tmp_path) as bot:
        for line in ("/help strategies", "/config context.strategy"):
            text = (await bot.says(line)).text
            assert text.count("Use it when") == len(STRATEGIES)
            assert "**trim** (chosen here)" in text
        await bot.says("/config context.strategy slim --here")
        assert "**slim** (chosen here)" in (await bot.says("/help strategies")).text
