"""Point 1: a compaction frees something, or it is none: not carried out, recorded or paid for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fakes.openai_server import Answer, Received, Say, openai_overflow
from tests.points.scene import (
    answering,
    events,
    last_asked,
    looks,
    put_file,
    steps,
    summaries,
    talk,
    whole,
)
from tests.whole.testbot import TestBot, run_bot

FIELDS = json.dumps({"task_overview": "Read the files.", "next_steps": "Go on."})
STRUCTURED = {
    "context": {
        "strategy": "structured",
        "max_tokens": 10_000,
        "output_reserved": 500,
        "reserve_ratio": 0.35,
    },
    "agent_max_steps": 12,
}
LINES = "".join(f"line {n} of the long file that is read\n" for n in range(110))


def structured_work(request: Received) -> Answer:
    """`four` reads a file four times in one step; `steps` takes five short steps."""
    asked, since = last_asked(request), after_question(request)
    if asked.startswith("four") and not since:
        return looks(request, "long.txt", times=4)
    if asked.startswith("steps") and len(since) < 10:
        return looks(request, f"none{len(since)}.txt")
    return Say("Done.")


def after_question(request: Received) -> list[str]:
    """The roles of what followed the newest question."""
    roles = [message["role"] for message in request.body["messages"]]
    return roles[len(roles) - roles[::-1].index("user") :]


async def talk_past_four_results(bot: TestBot) -> int:
    """A turn with four results in one step, of which a compaction leaves the end, and a turn with
    five steps near the trigger. Returns how many summaries there were between the two."""
    await talk(bot, "hello " * 2_000, "four files, please")
    before = len(summaries(bot))
    await talk(bot, "steps, please " + "word " * 1_300)
    return before


async def test_structured_pays_one_summary_for_what_leaves_and_not_one_at_every_step(
    tmp_path: Path,
) -> None:
    put_file(tmp_path, "long.txt", LINES)
    async with run_bot(tmp_path, answering(structured_work, FIELDS), STRUCTURED) as bot:
        before = await talk_past_four_results(bot)
        paid = len(summaries(bot)) - before
    assert paid <= 1


async def test_under_structured_each_recorded_compaction_has_freed_something(
    tmp_path: Path,
) -> None:
    put_file(tmp_path, "long.txt", LINES)
    async with run_bot(tmp_path, answering(structured_work, FIELDS), STRUCTURED) as bot:
        await talk_past_four_results(bot)
        compactions = [e for e in await events(bot) if e["kind"] == "compact"]
    assert compactions
    assert [e for e in compactions if e["tokens_after"] >= e["tokens_before"]] == []


async def test_a_turn_that_history_says_left_is_not_sent_any_more(tmp_path: Path) -> None:
    put_file(tmp_path, "long.txt", LINES)
    async with run_bot(tmp_path, answering(structured_work, FIELDS), STRUCTURED) as bot:
        await talk_past_four_results(bot)
        await talk(bot, "hello again")
        left = {turn for event in await events(bot) for turn in event["turns"]}
        sent = whole(steps(bot)[-1])
    assert "t1" in left
    assert ("t2" in left) == ("line 100 of the long file" not in sent)


def overflowing_work(request: Received) -> Answer:
    """`work` reads a file in each of four steps, and the request with the fourth result is refused
    when it comes first; all else is answered at once."""
    since = after_question(request)
    if not last_asked(request).startswith("work"):
        return Say("Done.")
    if len(since) < 8:
        return looks(request, "long.txt")
    asked = [m["content"] for m in request.body["messages"] if m["role"] == "user"]
    is_first = any("hello hello" in text for text in asked)  # a recap tells of it afterwards
    return openai_overflow(10_500, 10_000) if is_first else Say("Worked.")


@pytest.mark.parametrize("strategy", ["truncate", "summarize"])
async def test_after_an_emergency_in_mid_turn_the_next_compaction_frees_something(
    tmp_path: Path, strategy: str
) -> None:
    context = {"strategy": strategy, "max_tokens": 10_000, "output_reserved": 500}
    put_file(tmp_path, "long.txt", LINES[:1_800])
    async with run_bot(tmp_path, answering(overflowing_work), {"context": context}) as bot:
        await talk(bot, "hello " * 800, "work, please")
        await talk(bot, "and now? " + "word " * 3_800)
        history = await events(bot)
    overflow, *later = [event for event in history if event["kind"] == "compact"]
    assert overflow["actor"] == "emergency"
    assert [e for e in later if e["tokens_after"] >= e["tokens_before"]] == []


async def test_after_an_emergency_in_mid_turn_summarize_pays_once_for_what_leaves(
    tmp_path: Path,
) -> None:
    """`keep_recent` lets the turn's question leave first (Digitorn's safe split). Its summary tells
    of the whole turn, so that the rest leaves later without another call."""
    context = {"strategy": "summarize", "max_tokens": 10_000, "output_reserved": 500}
    put_file(tmp_path, "long.txt", LINES[:1_800])
    async with run_bot(tmp_path, answering(overflowing_work), {"context": context}) as bot:
        await talk(bot, "hello " * 800, "work, please")
        before = len(summaries(bot))
        await talk(bot, "and now? " + "word " * 3_800, "and then?", "and what else?", "and last?")
        history = await events(bot)
        paid = [whole(r.body["messages"]) for r in summaries(bot)[before:]]
    assert len([text for text in paid if "[t2]" in text]) == 1
    assert [e for e in history if e["tokens_after"] >= e["tokens_before"]] == []
