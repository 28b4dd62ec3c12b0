"""Tests of `/btw`: a side question has the whole context, and leaves no trace in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.bot.test_schedule import rows
from tests.fakes.openai_server import Call, Fail, Hang, Received, Say, echo, openai_overflow
from tests.spending.test_spending import limit
from tests.whole.scenario import say_all
from tests.whole.test_busy import busy, gate
from tests.whole.test_forget import MARK, found_in
from tests.whole.testbot import TestBot, run_bot


async def data_of(bot: TestBot, line: str) -> dict[str, Any]:
    data = (await bot.says(line)).data
    assert data is not None
    return dict(data)


async def test_it_is_asked_with_the_whole_context_and_is_no_part_of_it(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("One."), Say("Aside."), Say("Two.")]) as bot:
        await bot.says("first")
        assert (await bot.says("/btw what did I say?")).text == "Aside."
        await bot.says("second")
        turn, aside, after = (request.body for request in bot.server.requests)
        shared = len(turn["messages"])
        assert aside["messages"][:shared] == turn["messages"], "the provider's cache hits"
        assert aside["tools"] == turn["tools"]
        assert aside["tool_choice"] == "none"
        assert aside["messages"][shared:] == [
            {"role": "assistant", "content": "One."},
            {"role": "user", "content": "what did I say?"},
        ]
        assert "what did I say?" not in str(after["messages"])
        assert "Aside." not in str(after["messages"])
        assert [one["turn"] for one in (await data_of(bot, "/context turns"))["turns"]] == [
            "t1",
            "t2",
        ]


async def test_it_is_listed_and_billed_and_the_model_finds_it_not(tmp_path: Path) -> None:
    looking = Say(calls=(Call("memory_search", f'{{"query": "{MARK}"}}', "a"),))
    reading = Say(calls=(Call("context_search", f'{{"mode": "search", "query": "{MARK}"}}', "b"),))
    script = [Say("One."), Say(f"In {MARK}."), looking, reading, Say("Nothing.")]
    async with run_bot(tmp_path, script) as bot:
        await say_all(bot, "first", "/btw where is it?", "second")
        results = [m["content"] for m in bot.sent_to_model() if m["role"] == "tool"]
        assert len(results) == 2
        assert not any(f"In {MARK}." in result for result in results)
        found = await bot.says(f"/context search {MARK}")
        assert (
            f"Side questions (/btw), which the model does not see:\n- where is it?: In {MARK}."
            in (found.text)
        )
        listed = await bot.says("/btw")
        assert "where is it?" in listed.text
        assert f"In {MARK}." in listed.text
        by_model = (await data_of(bot, "/usage"))["this month by model"]
        assert by_model["gpt-4o-mini, aside"]["calls"] == 1
        assert not [name for name in found_in(tmp_path) if "parley.db" not in name]


async def test_it_is_answered_while_a_turn_runs_without_that_turn(tmp_path: Path) -> None:
    async with busy(tmp_path, "steer") as bot:
        assert (await bot.says("/btw what now?")).text == "re: what now?"
        assert [m["role"] for m in bot.sent_to_model()] == ["system", "user"]
        gate("opened").set()
        assert (await bot.reply_to("first")).reply.text == "re: wait"
        assert "what now?" not in str(bot.sent_to_model())


async def test_no_other_command_waits_behind_it_and_stop_ends_it(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("One."), Hang("Let me"), Say("Two.")]) as bot:
        await bot.says("first")
        await bot.writes("/btw and?", id="aside")
        for _ in range(2):
            await bot.server.reached.acquire()
        assert "1 turn" in (await bot.says("/context")).text
        assert "Stopping" in (await bot.says("/stop")).text
        assert (await bot.reply_to("aside")).reply.text == "Stopped, as you asked."
        assert "Stopped, as you asked." in (await bot.says("/btw")).text
        assert "Nothing is running" in (await bot.says("/stop")).text
        await bot.says("second")


async def events(bot: TestBot) -> list[dict[str, Any]]:
    """Return the events without their cost, an estimate that each answer of the model corrects."""
    rows = (await data_of(bot, "/context history"))["events"]
    return [{name: value for name, value in row.items() if name != "cost"} for row in rows]


@pytest.mark.parametrize("strategy", ["trim", "slim", "structured"])
async def test_it_changes_nothing_under_any_strategy(tmp_path: Path, strategy: str) -> None:
    settings = {"context": {"strategy": strategy}, "agent_max_context_turns": 3}
    async with run_bot(tmp_path, echo, settings) as bot:
        for number in range(5):
            await bot.says(f"question {number}")
        await bot.app.conversations.flush()
        (conversation,) = bot.app.conversations.list_loaded()
        before = await events(bot)
        view = conversation.context.view()
        assert (await bot.says("/btw and this?")).text.startswith("re: ")
        assert str(bot.sent_to_model()[-1]["content"]).endswith("and this?")
        assert await events(bot) == before
        assert conversation.context.view().turns == view.turns


async def test_a_request_that_is_too_long_is_cut_for_it_alone(tmp_path: Path) -> None:
    def script(request: Received) -> Say | Fail:
        if "and?" in str(request.body["messages"][-1]["content"]) and len(request.raw) > 20_000:
            return openai_overflow(9_000, 4_000)
        return Say("Yes.")

    async with run_bot(tmp_path, script, {"context": {"strategy": "full"}}) as bot:
        for number in range(6):
            await bot.says(f"{number} " * 3_000)
        assert (await bot.says("/btw and?")).text == "Yes."
        turns = (await data_of(bot, "/context turns"))["turns"]
        assert len(turns) == 6
        assert (await data_of(bot, "/context history"))["events"] == []


async def test_what_goes_wrong_is_a_plain_sentence(tmp_path: Path) -> None:
    refused = Fail(400, {"message": "no such thing"})
    wanting = Say(calls=(Call("list_files", "{}", "a"),))
    async with run_bot(tmp_path, [Say("One."), refused, wanting]) as bot:
        await bot.says("first")
        assert "no such thing" in (await bot.says("/btw one?")).text
        told = (await bot.says("/btw two?")).text
        assert "wanted to use the tool list_files; a side question" in told
        assert "no such thing" in (await bot.says("/btw")).text


async def test_one_that_a_restart_cut_off_is_told_of(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("One."), Hang("Let me")]) as bot:
        await bot.says("first")
        await bot.writes("/btw and?", id="aside")
        for _ in range(2):
            await bot.server.reached.acquire()
        await bot.app.bot.commands.queues.close()  # as at a kill
    async with run_bot(tmp_path) as bot:
        said = (await bot.reply_to("aside")).reply.text
        assert said == "The bot was restarted before your side question was answered; ask it again."
        assert "it was cut off by a restart" in (await bot.says("/btw")).text


async def test_a_limit_of_spending_holds_for_it(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("first")
        await limit(bot, "spend_limit_chat", 1.5)
        await bot.says("/btw one?")
        assert "was not sent to the model" in (await bot.says("/btw two?")).text
        assert len(bot.server.requests) == 2


async def test_forget_deletes_it_with_its_turn_and_with_the_chat(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await say_all(bot, "first", f"/btw about {MARK}?", "second", f"/btw more of {MARK}?")
        question = await bot.says("/forget t1")
        assert "t1 (2 messages) and 1 side question" in question.text
        await bot.says("/forget t1 yes")
        assert await rows(bot, "side_question") == 1
        await bot.says("/forget chat yes")
        assert await rows(bot, "side_question") == 0
        assert found_in(tmp_path) == []
