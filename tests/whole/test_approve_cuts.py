"""Cuts that are shown to a person, or need approval, while turns continue."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from channels.message import Reply
from memory.context.summary import SummaryRequest
from memory.forecaster import PATIENCE
from tests.docs.pages import ROOT
from tests.fakes.openai_server import Answer, Received, Say
from tests.memory.harness import MemoryHarness
from tests.whole.scenario import ask_many as talk
from tests.whole.scenario import copy_as_killed, say_all
from tests.whole.test_edit_summary import OWN, asked, echo
from tests.whole.testbot import TestBot, run_bot

ASK: dict[str, Any] = {"agent_max_context_turns": 6, "context": {"compaction_approval": "ask"}}
SHOW: dict[str, Any] = {"agent_max_context_turns": 6, "context": {"compaction_approval": "show"}}


def told(bot: TestBot) -> list[Reply]:
    """Return the unsolicited messages of the bot."""
    return [outbound.reply for outbound in bot.sent if not outbound.reply_to]


async def settle(bot: TestBot) -> None:
    await bot.app.conversations.flush()
    await bot.app.delivery.queues.idle()


async def questioned(bot: TestBot) -> Reply:
    """Send messages until a cut is due, and return the question."""
    await talk(bot, 7)
    await settle(bot)
    (question,) = told(bot)
    return question


def without_sizes(text: str) -> str:
    return re.sub(r"[\d.]+k → [\d.]+k tokens", "", text)


def paid(bot: TestBot) -> int:
    """Return how often a model was asked for the summary of the first turns."""
    return sum(r.is_summary and "[t1]" in str(r.body) for r in bot.server.requests)


async def test_show_tells_of_a_cut_that_was_made_with_edit_and_undo(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, SHOW) as bot:
        await talk(bot, 7)
        await settle(bot)
        (shown,) = told(bot)
        assert shown.text.startswith(
            "t1 to t3 removed from the context (there were 7 turns, and the limit is 6)"
        )
        assert "> They talked about Lisbon." in shown.text
        edit, undo = shown.actions
        await bot.says(edit.command)
        await bot.says(OWN)
        await bot.says("question 8")
        assert OWN in asked(bot)
        await bot.says(undo.command)
        await bot.says("question 9")
        assert "question 1" in asked(bot)
        assert len(told(bot)) == 1


async def test_ask_waits_and_a_yes_cuts_with_the_summary_seen(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, ASK) as bot:
        question = await questioned(bot)
        assert question.text.startswith("Compact the context? Summary s1 will replace t1 to t3")
        beginning = question.text.partition("\n\nYou can edit")[0]
        page = (ROOT / "docs" / "context.md").read_text("utf-8")
        assert without_sizes(f"```markdown\n{beginning}\n```") in without_sizes(page)
        assert [action.label for action in question.actions] == ["Approve", "Edit", "Decline"]
        assert "question 1" in asked(bot)
        await talk(bot, 2, 8)
        assert "question 1" in asked(bot)
        assert "once you have answered" in (await bot.says("/context")).text
        preview = (await bot.says("/context preview")).text
        assert "t1 to t3 wait for your approval" in preview
        assert "within all limits" not in preview
        again = await bot.says("/context approve")
        assert without_sizes(again.text) == without_sizes(question.text)
        done = await bot.says(question.actions[0].command)
        assert done.text.startswith("Compacted t1 to t3")
        assert "No compaction is waiting" in (await bot.says(question.actions[0].command)).text
        assert len(told(bot)) == 1
        await bot.says("question 10")  # at which the next cut is due
        assert "question 1\n" not in asked(bot)
        assert "They talked about Lisbon." in asked(bot)
        assert paid(bot) == 1
        assert "you said yes" in (await bot.says("/context history")).text


async def test_the_question_counts_the_summary_that_will_stand_there(tmp_path: Path) -> None:
    def model(request: Received) -> Answer:
        return Say("They talked. " * 150) if request.is_summary else echo(request)

    settings = {
        "agent_max_context_turns": 3,
        "context": {**ASK["context"], "strategy": "summarize", "max_tokens": 9_000},
    }
    async with run_bot(tmp_path, model, settings) as bot:
        for number in range(1, 20):
            await bot.says(f"question {number} {'word ' * 300}")
            await settle(bot)
            if told(bot):
                break
        question = await bot.says("/context approve")
        done = await bot.says(question.actions[0].command)
        assert question.data is not None
        assert done.data is not None
        assert question.data["tokens_after"] == done.data["tokens_after"]


async def test_the_summary_of_a_waiting_cut_can_be_changed_first(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, ASK) as bot:
        approve, edit, _ = (await questioned(bot)).actions
        form = (await bot.says(edit.command)).form
        assert form is not None
        assert form.text == "They talked about Lisbon."
        edited = await bot.says(OWN)
        assert [action.label for action in edited.actions] == ["Approve", "Edit", "Decline"]
        assert "is not the compaction that waits now" in (await bot.says(approve.command)).text
        await bot.says(edited.actions[0].command)
        assert paid(bot) == 1
        await bot.says("question 8")
        assert OWN in asked(bot)
        assert "Lisbon" not in asked(bot)
        await bot.app.conversations.flush()
        assert "Lisbon" in (await bot.says("/memory today")).text


async def test_a_question_waits_through_a_kill_and_is_asked_once(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, ASK) as bot:
        question = await questioned(bot)
        paid_before = paid(bot)
        folder = await copy_as_killed(bot, tmp_path)
    async with run_bot(folder, echo, ASK) as bot:
        bot.count = 100  # the ids of messages
        await bot.says("question 8")
        await settle(bot)
        assert not told(bot)
        again = await bot.says("/context approve")
        assert without_sizes(again.text) == without_sizes(question.text)
        assert "Compacted t1 to t3" in (await bot.says(again.actions[0].command)).text
        await bot.says("question 9")
        assert "They talked about Lisbon." in asked(bot)
        assert paid_before + paid(bot) == 1


async def test_a_question_lapses_where_the_strategy_wants_no_cut_any_more(tmp_path: Path) -> None:
    for number, change in enumerate(("/undo 3", "/config agent_max_context_turns 20")):
        folder = tmp_path / str(number)
        os.mkdir(folder)
        async with run_bot(folder, echo, ASK) as bot:
            approve = (await questioned(bot)).actions[0].command
            await bot.says(change)
            assert "No compaction is waiting" in (await bot.says(approve)).text
            (conversation,) = bot.app.conversations.list_loaded()
            now = conversation.compactor.approval.clock()
            conversation.compactor.approval.clock = lambda now=now: now + PATIENCE + 1  # type: ignore[misc]
            await bot.says("question 8")
            assert "question 1" in asked(bot)


async def test_a_cut_that_lapsed_unasked_is_asked_about_when_due_again(tmp_path: Path) -> None:
    harness = MemoryHarness(tmp_path)
    harness.limit(compaction_approval="ask")
    await harness.open()

    def raise_limit(request: SummaryRequest) -> str:
        harness.limit(max_turns=20)
        return "They talked."

    try:
        harness.summarizer.answer = raise_limit
        for number in range(1, 5):
            await harness.says(f"question {number}")
        harness.limit(max_turns=3)
        await harness.says("question 5")
        await harness.settle()
        approval = (await harness.conversation()).compactor.approval
        assert await approval.notice() is None
        harness.limit(max_turns=3)
        harness.summarizer.answer = lambda request: "They talked."
        await harness.says("question 6")
        await harness.settle()
        assert await approval.notice() is not None
    finally:
        await harness.close()


async def test_no_holds_cuts_off_as_an_undo_does(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, ASK) as bot:
        no = (await questioned(bot)).actions[2]
        said = await bot.says(no.command)
        assert said.text.startswith(
            "Nothing is compacted. Because you declined it, nothing is compacted before t12"
        )
        await talk(bot, 2, 8)
        await settle(bot)
        assert "question 1" in asked(bot)
        assert len(told(bot)) == 1
        assert "compaction declined" in (await bot.says("/context history")).text


async def test_after_ten_minutes_the_cut_is_made_by_itself(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, ASK) as bot:
        await questioned(bot)
        (conversation,) = bot.app.conversations.list_loaded()
        approval = conversation.compactor.approval
        now = approval.clock()
        approval.clock = lambda: now + PATIENCE + 1
        await bot.app.conversations.resolve_proposals()
        assert not conversation.context.layout.shows(1)
        await bot.says("question 8")
        assert "They talked about Lisbon." in asked(bot)
        assert paid(bot) == 1
        assert "nobody answered" in (await bot.says("/context history")).text


async def test_the_window_is_never_left_to_overflow(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "agent_max_context_turns": 3,
        "context": {"compaction_approval": "ask", "max_tokens": 8_000},
    }
    async with run_bot(tmp_path, echo, settings) as bot:
        await talk(bot, 4)
        await settle(bot)
        assert len(told(bot)) == 1
        await bot.says("many words " * 2_500)
        assert "question 1\n" not in asked(bot)
        assert "Lisbon" in asked(bot)


@pytest.mark.parametrize(
    ("strategy", "asks"), [("truncate", True), ("structured", True), ("slim", False)]
)
async def test_what_asks_under_other_strategies(tmp_path: Path, strategy: str, asks: bool) -> None:
    settings: dict[str, Any] = {
        "agent_max_context_turns": 4,
        "context": {
            "strategy": strategy,
            "compaction_approval": "ask",
            "max_tokens": 8_000,
            "keep_recent": 2,
            "compression_trigger": 0.55,
            "trigger_ratio": 0.4,
            "full_turns": 2,
        },
    }
    async with run_bot(tmp_path, echo, settings) as bot:
        number = 0
        while number < 9 and not told(bot):
            number += 1
            await bot.says(f"question {number} {'word ' * 250}")
            await settle(bot)
        assert bool(told(bot)) == asks
        if asks:
            assert f"question 1 {'word ' * 200}" in asked(bot)
            done = await bot.says(told(bot)[0].actions[0].command)
            assert done.text.startswith("Compacted t1")
            await bot.says("after that")
            assert f"question 1 {'word ' * 200}" not in asked(bot)


async def test_what_changes_the_context_meanwhile_ends_the_question(tmp_path: Path) -> None:
    for number, line in enumerate(("/context clear", "/context pin t2", "/forget t2 yes")):
        folder = tmp_path / str(number)
        os.mkdir(folder)
        async with run_bot(folder, echo, ASK) as bot:
            approve, edit, no = (await questioned(bot)).actions
            await bot.says(line)
            for action in (approve, no):
                assert "No compaction is waiting" in (await bot.says(action.command)).text, line
            assert "no summary in the context" in (await bot.says(f"{edit.command} {OWN}")).text, (
                line
            )


async def test_a_change_of_strategy_or_of_the_setting_ends_it_too(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, ASK) as bot:
        approve, *_ = (await questioned(bot)).actions
        await say_all(bot, "/config context.strategy full", "question 8")
        assert "No compaction is waiting" in (await bot.says(approve.command)).text
        await bot.says("/config context.strategy trim")
        await say_all(bot, "/config context.compaction_approval off", "question 9")
        assert "question 1\n" not in asked(bot)


async def test_a_no_that_was_cut_short_is_no_yes_by_time(tmp_path: Path) -> None:
    """A kill between the two writes: the refusal is on disk, and the question is still stored."""
    async with run_bot(tmp_path, echo, ASK) as bot:
        _, _, no = (await questioned(bot)).actions
        with closing(sqlite3.connect(tmp_path / "data" / "parley.db")) as database:
            database.execute(
                "CREATE TRIGGER cut_short BEFORE DELETE ON proposal "
                "BEGIN SELECT RAISE(FAIL, 'cut short'); END"
            )
            assert "failed" in (await bot.says(no.command)).text
            assert "compaction declined" not in (await bot.says("/context history")).text
            database.execute("DROP TRIGGER cut_short")
            database.commit()


async def test_keep_adds_to_the_summary_of_the_cut_that_waits(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, ASK) as bot:
        await questioned(bot)
        said = (await bot.says("/context keep 4711")).text
        assert "4711" in said
        await bot.says("/context approve s2")
        await bot.says("question 8")
        assert "4711" in asked(bot)
