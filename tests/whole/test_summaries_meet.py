"""Edited summaries and cuts that need approval, together with the other mechanisms."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.openai_server import Answer, Hang, OpenAIServer, Received
from tests.waiting import until
from tests.whole import test_untrusted as outside
from tests.whole.process import talking
from tests.whole.requests import with_plugin
from tests.whole.scenario import ask_many as talk
from tests.whole.test_approve_cuts import ASK, questioned, settle, told
from tests.whole.test_edit_summary import OWN, asked, compacted, echo
from tests.whole.testbot import run_bot


async def test_an_edit_of_a_late_summary_is_not_overwritten_by_it(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, 9)
        await bot.says("/context free")
        await bot.app.conversations.flush()
        shown = await bot.says("/context summary")
        assert "from your next message on" in shown.text
        await bot.says(f"/context summary edit {OWN}")
        for number in (10, 11):
            await bot.says(f"question {number}")
            assert OWN in asked(bot)
            assert "Lisbon" not in asked(bot)
        await bot.says("/context undo")
        await bot.says("question 12")
        assert "Lisbon" in asked(bot)


async def test_an_edit_stays_marked_until_an_owner_has_looked_through_its_section(
    tmp_path: Path,
) -> None:
    with_plugin(tmp_path, outside.WEB, "web")
    async with run_bot(tmp_path, outside.script, outside.NEVER) as bot:
        await outside.compacted(bot, "Please look", "Hello", "Hello")
        await bot.says(f"/context summary edit {OWN}")
        assert "from outside" in (await bot.says("/context summary")).text
        waiting = await bot.says("/memory pending")
        assert OWN not in waiting.text
        await bot.says(waiting.actions[0].command)
        assert "from outside" not in (await bot.says("/context summary")).text
        assert OWN in (await bot.says("/context summary")).text


@pytest.mark.usefixtures("processes")
async def test_a_kill_while_the_summary_is_written_asks_once(tmp_path: Path) -> None:
    calls = {"summaries": 0}

    def model(request: Received) -> Answer:
        if request.is_turn:
            return echo(request)
        calls["summaries"] += 1
        return Hang("") if calls["summaries"] <= 2 else echo(request)

    async with OpenAIServer(model) as endpoint:
        settings = {**ASK, "agent_max_context_turns": 3}
        async with talking(tmp_path, endpoint, settings) as bot:
            for number in range(1, 5):
                await bot.says(f"question {number}")
            assert "No compaction is waiting" in (await bot.says("/context approve"))["text"]
            await bot.kill()
        calls["summaries"] = 2
        async with talking(tmp_path, endpoint) as bot:
            await bot.says("question 5")
            question = await bot.line(lambda line: "Compact the context?" in line.get("text", ""))
            await bot.says("question 6")
            assert sum("Compact the context?" in line["text"] for line in bot.replies) == 1
            name = question["data"]["summary"] if question["data"] else "s1"
            assert "Compacted" in (await bot.says(f"/context approve {name}"))["text"]


async def test_a_cut_is_approved_while_a_turn_runs(tmp_path: Path) -> None:
    slow = {"is": False}

    def model(request: Received) -> Answer:
        return Hang("Well") if slow["is"] and request.is_turn else echo(request)

    async with run_bot(tmp_path, model, ASK) as bot:
        approve, *_ = (await questioned(bot)).actions
        slow["is"] = True
        await bot.writes("a slow one", id="slow")
        await until(lambda: bot.app.conversations.list_loaded()[0].context.current)
        assert (await bot.says(approve.command)).text.startswith("Compacted t1 to t3")
        await bot.says("/stop")
        await bot.reply_to("slow")
        slow["is"] = False
        await bot.says("question 9")
        assert "They talked about Lisbon." in asked(bot)
        assert "a slow one" in asked(bot)


async def test_an_undo_of_an_earlier_cut_ends_the_question(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, ASK) as bot:
        await compacted(bot)
        await talk(bot, 6, 4)
        await settle(bot)
        (question,) = told(bot)
        await bot.says("/context undo")
        assert "No compaction is waiting" in (await bot.says(question.actions[0].command)).text
        await bot.says("question 10")
        assert "question 1\n" in f"{asked(bot)}\n"


async def test_a_branch_has_the_edited_summary_and_no_question_of_its_parent(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, echo, ASK) as bot:
        await compacted(bot)
        await bot.says(f"/context summary edit {OWN}")
        await talk(bot, 6, 4)
        await settle(bot)
        (question,) = told(bot)
        await bot.says("/fork")
        assert OWN in (await bot.says("/context summary")).text
        assert "No compaction is waiting" in (await bot.says(question.actions[0].command)).text
        await bot.says("on the branch")
        assert OWN in asked(bot)


async def test_what_was_said_for_a_form_is_in_no_search_and_no_export(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await compacted(bot)
        await bot.says("/context summary edit")
        await bot.says("The word is zanzibar.")
        assert "Nothing in this conversation" in (await bot.says("/context search zanzibar")).text
        await bot.says("/context export")
        exported = list((tmp_path / "data" / "audiences").rglob("context*.json"))
        assert exported
        assert not any(b"zanzibar" in file.read_bytes() for file in exported)


async def test_the_preview_shows_no_cut_that_waits(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, ASK) as bot:
        await questioned(bot)
        preview = await bot.says("/context preview")
        assert "t1 to t3 leave" not in preview.text
        assert "question 1" in asked(bot)
