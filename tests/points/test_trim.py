"""Points 10 and 11: `trim` squeezes where few turns are left, nothing leaves by halves, what is
told is what was done, and a budget below system prompt and tools is said and not paid for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import Answer, Received, Say
from tests.points.scene import (
    answering,
    content,
    events,
    has_results,
    last_asked,
    looks,
    put_file,
    steps,
    summaries,
    talk,
    texts,
    whole,
)
from tests.web.site import serving
from tests.whole.testbot import TestBot, run_bot

LINES = "".join(f"line {n} of the file that is read\n" for n in range(200))


def looking(request: Received) -> Answer:
    """`look 3` reads a file first; the reply repeats the question's last word."""
    if last_asked(request).startswith("look") and not has_results(request):
        return looks(request, "long.txt")
    return Say(f"reply {last_asked(request).split()[-1]}")


async def tool_turns(bot: TestBot, count: int) -> None:
    await talk(bot, *(f"look {number}" for number in range(1, count + 1)))


# --- point 10: the squeeze ---


async def test_fewer_than_five_turns_that_a_halving_left_are_squeezed(tmp_path: Path) -> None:
    put_file(tmp_path, "long.txt", LINES)
    async with run_bot(tmp_path, answering(looking)) as bot:
        await tool_turns(bot, 6)
        await talk(bot, "/config agent_max_context_tokens 6000", "and now?")
        sent = texts(steps(bot)[-1])
    assert sent[0].endswith("look 4"), "three turns left, and three stay as question and reply"
    assert sent[1:] == ["reply 4", "look 5", "reply 5", "look 6", "reply 6", "and now?"]


async def test_a_squeeze_is_shown_as_a_squeeze(tmp_path: Path) -> None:
    put_file(tmp_path, "long.txt", LINES)
    async with run_bot(tmp_path, answering(looking)) as bot:
        await tool_turns(bot, 4)
        await talk(bot, "/config agent_max_context_tokens 6000", "and now?")
        sent = texts(steps(bot)[-1])
        history = (await bot.says("/context history")).text.lower()
        overview = (await bot.says("/context")).text.lower()
    assert sent[:2] == ["look 1", "reply 1"], "nothing has left but what stood between"
    assert "squeeze" in history
    assert "compaction" not in history
    assert "squeeze" in overview


# --- point 10: no half turns ---


async def after_free(tmp_path: Path, strategy: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The messages of the request after `/context free`, and the turns that it said had left."""
    async with run_bot(tmp_path, answering(looking), {"context": {"strategy": strategy}}) as bot:
        await talk(bot, *(f"question {number}" for number in range(1, 7)))
        freed = (await bot.says("/context free")).data or {}
        await talk(bot, "and now?")
        return steps(bot)[-1], list(freed["turns"])


def first_said(messages: list[dict[str, Any]]) -> str:
    """Who said the first message that is no system message."""
    return next(str(m["role"]) for m in messages if m["role"] != "system")


@pytest.mark.parametrize("strategy", ["trim", "full"])
async def test_after_free_the_request_begins_with_a_question(tmp_path: Path, strategy: str) -> None:
    sent, _ = await after_free(tmp_path, strategy)
    assert first_said(sent) == "user"


async def test_the_turns_that_free_tells_are_those_that_left(tmp_path: Path) -> None:
    sent, told = await after_free(tmp_path, "trim")
    assert told
    here = [turn for turn in told if f"reply {turn[1:]}" in [content(m) for m in sent]]
    assert here == []


@pytest.mark.parametrize("strategy", ["trim", "full"])
async def test_after_a_compaction_by_rest_the_request_begins_with_a_question(
    tmp_path: Path, strategy: str
) -> None:
    settings = {"context": {"strategy": strategy}}
    async with serving(tmp_path, answering(looking), settings) as site:
        for number in range(1, 7):
            await site.says(f"question {number}")
        status, freed = await site.post("/api/sessions/main/compact")
        await site.says("and now?")
        sent = [r.body["messages"] for r in site.server.requests if "tools" in r.body][-1]
    assert (status, freed["turns"][0]) == (200, "t1")
    assert first_said(sent) == "user"


async def test_what_was_typed_in_the_chat_was_not_asked_for_from_outside(tmp_path: Path) -> None:
    async with run_bot(tmp_path, answering(looking)) as bot:
        await talk(bot, *(f"question {number}" for number in range(1, 7)), "/context free")
        assert "outside" not in (await bot.says("/context history")).text
        assert [e for e in await events(bot) if "outside" in e["reason"]] == []


# --- point 11: a budget below system prompt and tools ---


async def test_config_says_the_sizes_that_a_budget_has_no_room_for(tmp_path: Path) -> None:
    async with run_bot(tmp_path, answering(looking)) as bot:
        await talk(bot, "question 1")
        told = (await bot.says("/config agent_max_context_tokens 1000")).text
    assert "system prompt" in told
    assert "tools" in told


async def under_a_small_budget(
    bot: TestBot, lines: tuple[str, ...] = ("/config agent_max_context_tokens 1000",)
) -> int:
    """Five questions under a budget of 1,000; how many summaries were paid for."""
    await talk(bot, "question 1", *lines)
    await talk(bot, *(f"question {number}" for number in range(2, 7)))
    return len(summaries(bot))


async def test_no_summary_is_paid_for_where_a_cut_cannot_help(tmp_path: Path) -> None:
    async with run_bot(tmp_path, answering(looking)) as bot:
        assert await under_a_small_budget(bot) == 0


async def test_structured_pays_for_no_cut_that_cannot_bring_it_below_its_trigger(
    tmp_path: Path,
) -> None:
    low = {"strategy": "structured", "max_tokens": 1_700, "output_reserved": 0}
    settings = {"context": low | {"trigger_ratio": 0.75, "reserve_ratio": 0.01}}
    async with run_bot(tmp_path, answering(looking), settings) as bot:
        assert await under_a_small_budget(bot, ()) == 0


async def test_what_cannot_help_is_not_cut(tmp_path: Path) -> None:
    async with run_bot(tmp_path, answering(looking)) as bot:
        await under_a_small_budget(bot)
        sent = whole(steps(bot)[-1])
    assert "question 5" in sent
    assert "question 1" in sent


@pytest.mark.parametrize("line", ["/context", "/context advise"])
async def test_context_and_advise_say_that_the_budget_is_too_small(
    tmp_path: Path, line: str
) -> None:
    async with run_bot(tmp_path, answering(looking)) as bot:
        await under_a_small_budget(bot)
        told = (await bot.says(line)).text
    assert "agent_max_context_tokens" in told
    assert "system prompt" in told
    assert "tools" in told
