"""Tool calls that are the same, calls that cost though nothing came of them, refusals that say
"too long" in other words (points 16, 17, 18 and 20)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import (
    Answer,
    Break,
    Call,
    Fail,
    Hang,
    Received,
    Say,
    openai_overflow,
)
from tests.points.wire import (
    answered,
    asks,
    data,
    results,
    settle,
    summarised,
    with_plugin,
)
from tests.whole.testbot import PATIENCE, TestBot, run_bot

TOOLS = """
import asyncio
from pathlib import Path

from plugins.api import Tool, hookimpl, tool

RUNS = Path(__file__).with_name("runs.txt")
later = asyncio.Event()


@tool
def mark(one: int, two: int) -> str:
    '''Mark something.'''
    with RUNS.open("a") as file:
        file.write("run\\n")
    return "marked"


@tool
async def slow() -> str:
    '''Wait for the other one.'''
    await later.wait()
    return "the slow result"


@tool
async def fast() -> str:
    '''Let the other one go on.'''
    asyncio.get_running_loop().call_later(0.3, later.set)
    return "the fast result"


@tool
def words(number: int) -> str:
    '''Say a number of words.'''
    return " word" * number


@hookimpl
def parley_tools() -> list[Tool]:
    return [mark, slow, fast, words]
"""


def in_order(*answers: Answer) -> Callable[[Received], Answer]:
    """One answer after the other for the turns, whatever was left over; summaries are one line."""
    left = list(answers)

    def answer(request: Received) -> Answer:
        if "tools" not in request.body:
            return Say("They talked.")
        return left.pop(0) if left else Say("Nothing more.")

    return answer


# --- 16: the same call, and the order of results ----------------------------------------------


@pytest.mark.parametrize(
    "again",
    [
        pytest.param('{"one": 1, "two": 2}', id="the same bytes"),
        pytest.param('{"one":1,"two":2}', id="other spacing"),
        pytest.param('{"two": 2, "one": 1}', id="other order"),
    ],
)
async def test_a_call_is_the_same_after_an_overflow_however_its_arguments_are_written(
    tmp_path: Path, again: str
) -> None:
    """Point 16."""
    runs = with_plugin(tmp_path, TOOLS) / "runs.txt"
    script = in_order(
        *(Say("Yes. " * 300),) * 3,
        Say(calls=(Call("mark", '{"one": 1, "two": 2}', "a"),)),
        openai_overflow(130_000, 128_000),
        Say(calls=(Call("mark", again, "b"),)),
        Say("Done."),
    )
    async with run_bot(tmp_path, script) as bot:
        for number in range(3):
            await bot.says(f"question {number}")
        assert (await bot.says("Mark it.")).text.startswith("Done.")
        sent = results(answered(bot)[-1])
    assert sent == ["marked", "marked"]
    assert runs.read_text() == "run\n", "the tool ran twice because of an overflow"


async def test_parallel_results_stand_in_the_order_of_their_calls(tmp_path: Path) -> None:
    """Point 16."""
    with_plugin(tmp_path, TOOLS)
    both = (Call("slow", "{}", "a"), Call("fast", "{}", "b"))
    async with run_bot(tmp_path, in_order(Say(calls=both), Say("Done."))) as bot:
        await bot.says("Do both.")
        sent = results(answered(bot)[-1])
    assert sorted(sent) == ["the fast result", "the slow result"]
    assert sent == ["the slow result", "the fast result"]


# --- 17: what was paid and came to nothing ----------------------------------------------------


LONG = "It is a long story." + " It goes on." * 30
"""What streams before somebody stops it."""


async def ledger(bot: TestBot) -> dict[str, Any]:
    """What this chat has cost, by `/usage`."""
    bill: dict[str, Any] = (await data(bot, "/usage"))["chat"]["this chat, in all"]
    return bill


async def stopped(bot: TestBot, question: str) -> None:
    """Ask, and stop the turn while its answer streams."""
    asking = await asks(bot, question, LONG)
    await bot.says("/stop")
    await asking


async def test_a_call_that_was_stopped_is_in_the_ledger(tmp_path: Path) -> None:
    """Point 17: four turns, one of them stopped, are four calls."""
    script = in_order(Say("One."), Say("Two."), Say("Three."), Hang(LONG))
    async with run_bot(tmp_path, script) as bot:
        for number in range(3):
            await bot.says(f"question {number}")
        await stopped(bot, "And the last?")
        bill = await ledger(bot)
    assert len(answered(bot)) == 4
    assert bill["calls"] == 4


async def test_a_call_that_was_stopped_costs_what_is_known_of_it(tmp_path: Path) -> None:
    """Point 17: its prompt was read, and what had streamed was written, by the meter."""
    async with run_bot(tmp_path, in_order(Hang(LONG))) as bot:
        await stopped(bot, "And the last?")
        bill = await ledger(bot)
    assert bill["prompt"] > 500, "system prompt and tools alone are more"
    assert bill["completion"] > 50
    assert bill["cost"] > 0


async def test_an_answer_that_breaks_off_is_in_the_ledger_besides_the_one_after_it(
    tmp_path: Path,
) -> None:
    """Point 17."""
    async with run_bot(tmp_path, in_order(Break("It is a long "), Say("It is."))) as bot:
        assert (await bot.says("Is it?")).text == "It is."
        bill = await ledger(bot)
    assert len(answered(bot)) == 2
    assert bill["calls"] == 2


async def test_a_turn_that_fails_in_the_middle_of_its_answer_is_in_the_ledger(
    tmp_path: Path,
) -> None:
    """Point 17: both tries were answered in part, and both are paid."""
    async with run_bot(tmp_path, in_order(Break("It is "), Break("It is "))) as bot:
        await bot.says("Is it?")
        bill = await ledger(bot)
    assert len(answered(bot)) == 2
    assert bill["calls"] == 2
    assert bill["cost"] > 0


async def test_a_summary_that_breaks_off_is_in_the_ledger(tmp_path: Path) -> None:
    """Point 17: calls for summaries are calls like any other."""

    def script(request: Received) -> Answer:
        return Say("Yes. " * 100) if "tools" in request.body else Break("They talked of ")

    async with run_bot(tmp_path, script) as bot:
        for number in range(4):
            await bot.says(f"question {number}")
        await bot.says("/context compact")
        bill = await ledger(bot)
    assert summarised(bot), "no summary was asked for"
    assert bill["calls"] == len(bot.server.requests)


async def test_a_summary_that_is_cancelled_is_in_the_ledger(tmp_path: Path) -> None:
    """Point 17: `/context clear` ends what is under way; what was written of it is paid."""
    hung = asyncio.Event()

    def script(request: Received) -> Answer:
        if "tools" in request.body:
            return Say("Yes. " * 100)
        hung.set()
        return Hang(LONG)

    settings = {"agent_max_context_turns": 3}
    async with run_bot(tmp_path, script, settings) as bot:
        for number in range(3):
            await bot.says(f"question {number}")
        async with asyncio.timeout(PATIENCE):
            await hung.wait()
        await bot.says("/context clear")
        await settle(bot)
        bill = await ledger(bot)
    assert bill["calls"] == len(bot.server.requests)


# --- 18: too long, in other words -------------------------------------------------------------

GEMINI = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
XAI = (
    "This model's maximum prompt length is 131072 but the request contains 207532 tokens and "
    "cannot be sent."
)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        pytest.param(
            400,
            {"code": 400, "message": GEMINI, "status": "INVALID_ARGUMENT"},
            id="Gemini",
        ),
        pytest.param(
            400,
            {"code": "Client specified an invalid argument", "error": XAI},
            id="xAI",
        ),
        pytest.param(
            413,
            {"type": "request_too_large", "message": "Request exceeds the maximum size"},
            id="Anthropic",
        ),
        pytest.param(
            400,
            {
                "message": "Input tokens exceed the configured limit of 272000 tokens. Your "
                "messages resulted in 300000 tokens.",
                "type": "invalid_request_error",
                "code": "invalid_value",
            },
            id="input tokens exceed",
        ),
        pytest.param(
            400,
            {"message": "Please reduce the length of the messages.", "code": "x"},
            id="Digitorn's",
        ),
    ],
)
async def test_an_overflow_in_other_words_makes_room_and_asks_again(
    tmp_path: Path, status: int, error: dict[str, Any]
) -> None:
    """Point 18."""
    script = in_order(*(Say("Yes. " * 200),) * 6, Fail(status, error), Say("I am here."))
    async with run_bot(tmp_path, script) as bot:
        for number in range(6):
            await bot.says(f"question {number}")
        assert (await bot.says("Are you there?")).text.startswith("I am here.")
        first, second = answered(bot)[-2:]
    assert len(json.dumps(second)) < len(json.dumps(first)), (
        "nothing left before it was tried again"
    )


@pytest.mark.parametrize("status", [401, 429])
async def test_a_limit_of_rate_or_account_is_no_overflow(tmp_path: Path, status: int) -> None:
    """Point 18: the same words about a quota don't cost a word of the conversation."""
    refused = Fail(status, {"message": GEMINI}, {"retry-after": "0"})
    script = in_order(Say("Yes."), *(refused,) * 3, Say("I am here."))
    async with run_bot(tmp_path, script) as bot:
        await bot.says("question 1")
        await bot.says("Are you there?")
        assert "left the context" not in (await bot.says("/context history")).text
        turns = (await data(bot, "/context json"))["turns"]
    assert len(turns) == 2


# --- 20: the limit of one result --------------------------------------------------------------


def one_result(number: int) -> Callable[[Received], Answer]:
    return in_order(Say(calls=(Call("words", f'{{"number": {number}}}', "a"),)), Say("Seen."))


@pytest.mark.parametrize(
    ("number", "is_cut"),
    [
        pytest.param(2_000, False, id="at the limit"),
        pytest.param(2_001, True, id="one above it"),
    ],
)
async def test_a_result_of_exactly_the_limit_is_not_cut(
    tmp_path: Path, number: int, is_cut: bool
) -> None:
    """Point 20: AgentScope cuts what exceeds the limit; " word" is one token each time."""
    with_plugin(tmp_path, TOOLS)
    settings = {"context": {"tool_result_limit": 2_000}}
    async with run_bot(tmp_path, one_result(number), settings) as bot:
        await bot.says("Say it.")
        (sent,) = results(answered(bot)[-1])
    assert ("<<<TRUNCATED>>>" in sent) is is_cut
    assert (sent == " word" * number) is not is_cut


@pytest.mark.parametrize(
    "is_snipped",
    [
        pytest.param(True, id="its middle goes"),
        pytest.param(False, id="its end goes"),
    ],
)
async def test_a_clip_in_an_emergency_leaves_the_marker_that_names_the_whole_file(
    tmp_path: Path, is_snipped: bool
) -> None:
    """Point 20: whatever `snip_oversized` says, the model can still find the whole output."""
    with_plugin(tmp_path, TOOLS)
    settings = {"context": {"tool_result_limit": 4_000, "snip_oversized": is_snipped}}
    script = in_order(
        Say(calls=(Call("words", '{"number": 9000}', "a"),)),
        openai_overflow(7_000, 5_000),
        Say("Seen."),
    )
    async with run_bot(tmp_path, script, settings) as bot:
        await bot.says("Say it.")
        (before,), (after,) = (results(body) for body in answered(bot)[-2:])
    assert "tool_result-" in before
    assert len(after) < len(before), "the overflow did not clip the result"
    assert "<<<TRUNCATED>>>" in after
    assert "tool_result-" in after
