"""Small faults of wording, each as a person would stumble over it (point 30)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fakes.openai_server import Answer, Received, Say
from tests.points.wire import data, settle
from tests.whole.testbot import TestBot, run_bot

FEW_TURNS = {"agent_max_context_turns": 4}


def echo(request: Received) -> Answer:
    return Say("reply" if "tools" in request.body else "They talked.")


async def talk(bot: TestBot, count: int, start: int = 1) -> None:
    for number in range(start, start + count):
        await bot.says(f"question {number}" + " word" * (number % 7))
        await settle(bot)


async def test_a_refused_value_is_not_spoken_of_as_if_it_were_set(tmp_path: Path) -> None:
    """Point 30: "agent_max_context_turns is 'lots'"."""
    async with run_bot(tmp_path, echo) as bot:
        said = (await bot.says("/config agent_max_context_turns lots")).text
        value = (await data(bot, "/config agent_max_context_turns"))["value"]
    assert value == 20
    assert "agent_max_context_turns is 'lots'" not in said
    assert "lots" in said
    assert "1 to 1000" in said


HELD = re.compile(r"until t\d+ or [\d.]+[kM]?\b")


@pytest.mark.parametrize("where", ["the undo", "/context"])
async def test_what_an_undo_holds_off_is_said_in_a_sentence(tmp_path: Path, where: str) -> None:
    """Point 30: "nothing is cut until t25 or 4.7k"; of what, and whichever comes first."""
    async with run_bot(tmp_path, echo, FEW_TURNS) as bot:
        await talk(bot, 6)
        undone = (await bot.says("/context undo")).text
        said = undone if where == "the undo" else (await bot.says("/context")).text
        held = (await data(bot, "/context json"))["held_off_until"]
    assert f"t{held['turn']}" in said, "it still says from which turn on"
    assert not HELD.search(said)
    assert "by itself" not in said


async def test_no_row_of_a_preview_has_less_than_no_tokens(tmp_path: Path) -> None:
    """Point 30: "besides -1"; the rows add up to what the request holds all the same."""
    async with run_bot(tmp_path, echo) as bot:
        for number in range(1, 13):
            await talk(bot, 1, number)
            found = await data(bot, "/context preview")
            sizes = [row["tokens"] or 0 for row in found["messages"]]
            assert min(sizes) >= 0, found["messages"][-1]
            assert sum(sizes) == found["tokens"]


async def test_the_message_that_is_yet_to_come_has_no_number_of_tokens(tmp_path: Path) -> None:
    """Point 30: "t6 user 0"."""
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, 2)
        said = (await bot.says("/context preview")).text
    (line,) = (line for line in said.splitlines() if "your next message)" in line)
    assert "| 0 |" not in line


@pytest.mark.parametrize("line", ["/context", "/usage"])
async def test_calls_of_unknown_price_do_not_cost_nothing(tmp_path: Path, line: str) -> None:
    """Point 30: "$0 (and 3 calls of unknown price)"."""
    async with run_bot(tmp_path, echo, {"model": "nobody-knows-me"}) as bot:
        await talk(bot, 3)
        said = (await bot.says(line)).text
    assert "$0 (and" not in said
    assert "unknown" in said


async def test_a_known_sum_and_calls_of_unknown_price_are_both_said(tmp_path: Path) -> None:
    """Point 30: where some are known, their sum is."""
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, 2)
        await bot.says("/config model nobody-knows-me")
        await talk(bot, 1, 3)
        said = (await bot.says("/context")).text
    cost = next(line for line in said.splitlines() if line.startswith("Cost"))
    assert re.search(r"\$0\.\d", cost)
    assert "1 call" in cost
    assert "unknown" in cost


async def test_help_finds_a_subcommand(tmp_path: Path) -> None:
    """Point 30: `/help context compact`, also with the slash before it."""
    async with run_bot(tmp_path, echo) as bot:
        for line in ("/help context compact", "/help /context compact"):
            said = (await bot.says(line)).text
            assert "There is no command" not in said
            assert "/context compact" in said
            assert "/pair" not in said, "it is not the list of all commands"


async def test_help_does_not_find_a_subcommand_that_there_is_not(tmp_path: Path) -> None:
    """Point 30."""
    async with run_bot(tmp_path, echo) as bot:
        assert "zzz" in (await bot.says("/help context zzz")).text


async def test_buttons_are_called_by_what_they_do(tmp_path: Path) -> None:
    """Point 30: whoever reads the button alone knows what comes of it."""
    labels: dict[str, str] = {}
    async with run_bot(tmp_path, echo) as bot:
        for line in (
            "/config context.auto_compact",
            "/config context.auto_compact false",
            "/config context.strategy slim",
        ):
            labels |= {a.command: a.label for a in (await bot.says(line)).actions}
    assert "/config context.auto_compact false" in labels
    assert "/config context.auto_compact --unset" in labels
    assert not {"true", "false", "Back"} & set(labels.values())
