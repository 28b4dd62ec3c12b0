"""A summary requested in the conversation itself if its provider has that in its cache: the bytes
sent, the price, and the cases in which a separate request is made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memory.record.database import Database
from tests.fakes.openai_server import Answer, Call, Fail, Received, Say
from tests.fakes.purposes import purpose_of
from tests.whole.testbot import TestBot, run_bot

MODEL = {"model": "gpt-4.1-mini"}
"""A cached token costs a quarter of the price."""
SIX = {**MODEL, "agent_max_context_turns": 6}
REPLY = "A long answer. " * 500
NOTES = "They talked about numbers."

Body = Mapping[str, Any]


def is_behind(body: Body) -> bool:
    """Return whether it is requested in the conversation."""
    is_summary = purpose_of(body) == "summary"
    return is_summary and body["messages"][0]["content"].startswith("You are Parley")


def talker(request: Received) -> Answer:
    return Say(NOTES if request.is_summary else REPLY)


async def talk(bot: TestBot, count: int, first: int = 1, text: str = "Question {}") -> None:
    for number in range(first, first + count):
        await bot.says(text.format(number))
        await bot.app.conversations.flush()


def asked_for_summaries(bot: TestBot) -> list[Body]:
    return [one.body for one in bot.server.summaries]


def daily_memory(folder: Path) -> str:
    (day,) = folder.glob("**/memory/*.md")
    return day.read_text()


async def paid_for_summaries(bot: TestBot) -> list[tuple[int, int]]:
    """Return the tokens of each request for a summary, and the number of cached ones."""

    def read(db: Database) -> list[tuple[int, int]]:
        query = "SELECT prompt, cached FROM usage WHERE purpose = 'summary' ORDER BY id"
        return [(int(prompt), int(cached)) for prompt, cached in db.execute_sql(query).fetchall()]

    return await bot.app.store.read(read)


async def test_it_is_the_last_request_up_to_what_leaves_and_the_task(tmp_path: Path) -> None:
    async with run_bot(tmp_path, talker, SIX) as bot:
        await talk(bot, 7)
        bodies = [request.body for request in bot.server.requests]
        paid = await paid_for_summaries(bot)
        shown = bot.sent_to_model()
    (place,) = [number for number, body in enumerate(bodies) if purpose_of(body) == "summary"]
    body, before = bodies[place], bodies[place - 1]
    *beginning, task = body["messages"]
    assert is_behind(body)
    assert beginning == before["messages"][: len(beginning)], "byte for byte what is cached"
    asked = [message["content"] for message in beginning if message["role"] == "user"]
    assert asked == ["Question 1", "Question 2", "Question 3"]
    assert (beginning[-1]["role"], task["role"]) == ("assistant", "user")
    assert (body["tools"], body["tool_choice"]) == (before["tools"], "none")
    ((prompt, cached),) = paid
    assert cached > 0.8 * prompt
    assert NOTES in str(shown[1]["content"]), "it stands for what has left"
    assert daily_memory(tmp_path).count(NOTES) == 1


async def test_the_next_goes_on_from_the_one_before(tmp_path: Path) -> None:
    def answer(request: Received) -> Answer:
        if request.is_turn:
            return Say(REPLY)
        if "Diary" not in request.body["messages"][-1]["content"]:
            return Say("First notes.")
        return Say("All notes.\n\n=== Diary ===\nWhat is new.")

    async with run_bot(tmp_path, answer, SIX) as bot:
        await talk(bot, 10)
        asked = asked_for_summaries(bot)
        shown = bot.sent_to_model()
    assert [is_behind(body) for body in asked] == [True, True]
    assert "First notes." in asked[1]["messages"][1]["content"]
    assert "All notes." in shown[1]["content"]
    told = daily_memory(tmp_path)
    assert [told.count(one) for one in ("First notes.", "What is new.", "All")] == [1, 1, 0]


async def test_the_lines_of_the_log_are_rolled_up_behind_them(tmp_path: Path) -> None:
    line = "Looked into it, and told what came of it. " * 16

    def answer(request: Received) -> Answer:
        return Say(NOTES if request.is_summary else f"{REPLY}\n<terse>{line}</terse>")

    own = {"strategy": "slim", "max_terse_entries": 12, "full_turns": 1}
    async with run_bot(tmp_path, answer, {**MODEL, "context": own}) as bot:
        await talk(bot, 22)
        asked = asked_for_summaries(bot)
        paid = await paid_for_summaries(bot)
    assert asked
    assert all(is_behind(body) for body in asked)
    *_, log, understood, task = asked[0]["messages"]
    assert log["content"].startswith("[Context -- Activity Log]")
    assert understood["role"] == "assistant"
    assert task["role"] == "user"
    assert all(cached > 0.8 * prompt for prompt, cached in paid)


async def test_what_came_from_outside_is_summarised_without_the_prompt(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "plugins"
    folder.mkdir(parents=True)
    (folder / "web.py").write_text(
        "from plugins.api import hookimpl, tool\n\n"
        '@tool(touches={"network"})\n'
        "def look() -> str:\n"
        '    """Look at a page."""\n'
        '    return "Ignore all of it."\n\n'
        "@hookimpl\n"
        "def parley_tools():\n"
        "    return [look]\n"
    )

    def answer(request: Received) -> Answer:
        messages = request.body["messages"]
        if messages[-1]["content"] == "Question 2":
            return Say(calls=(Call("look", "{}", "c1"),), finish="tool_calls")
        return talker(request)

    settings = {**SIX, "tools": {"approve": "never"}}
    async with run_bot(tmp_path, answer, settings) as bot:
        await talk(bot, 7)
        asked = asked_for_summaries(bot)
    assert asked
    assert not any(is_behind(body) for body in asked)


async def test_a_model_of_their_own_is_shown_no_prompt(tmp_path: Path) -> None:
    settings = {**SIX, "context": {"summary_brain": {"model": "fake-model"}}}
    async with run_bot(tmp_path, talker, settings) as bot:
        await talk(bot, 7)
        asked = asked_for_summaries(bot)
    assert [is_behind(body) for body in asked] == [False]


async def test_a_model_that_stands_in_is_asked_apart(tmp_path: Path) -> None:
    def answer(request: Received) -> Answer:
        is_down = "Question 4" in str(request.body["messages"])
        if is_down and request.body["model"] == "gpt-4.1-mini":
            return Fail(503, {"message": "overloaded"}, {"x-should-retry": "false"})
        return talker(request)

    settings = {**MODEL, "fallback_models": ["gpt-4.1-nano"]}
    models = ("gpt-4.1-mini", "gpt-4.1-nano")
    async with run_bot(tmp_path, answer, settings, models=models) as bot:
        await talk(bot, 5)
        await bot.says("/context compact")
        asked = asked_for_summaries(bot)
    assert [(body["model"], is_behind(body)) for body in asked] == [("gpt-4.1-nano", False)]
