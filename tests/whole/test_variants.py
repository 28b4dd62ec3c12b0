"""`/regenerate` and `/edit`: a question asked again, in a branch next to the first answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import Answer, Call, Hang, Received, Say, echo
from tests.whole.scenario import again, say_all
from tests.whole.test_attachments import PHOTO, REPORT
from tests.whole.test_branches import asked
from tests.whole.test_context_commands import data, states
from tests.whole.testbot import TestBot, run_bot


async def test_a_question_is_asked_again_in_a_branch_that_begins_before_it(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        for question in ("one", "two", "three"):
            await bot.says(question)
        told, answer = await again(bot, "/regenerate t2")
        assert told.text.startswith("t2 is asked again, in branch 2: “two”. /branches 1 goes back")
        assert answer == "re: two"
        assert asked(bot) == ["one", "two"]
        await say_all(bot, "/branches 1", "four")
        assert asked(bot) == ["one", "two", "three", "four"]


async def test_the_first_question_is_asked_in_other_words(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("one")
        told, answer = await again(bot, "/edit t1 Something\nelse")
        assert told.text.startswith("Asked now instead of t1, in branch 2")
        assert answer == "re: Something\nelse"
        await say_all(bot, "/undo", "two")
        assert asked(bot) == ["two"]
        listed = (await bot.says("/branches")).data
        assert listed
        assert [(b["number"], b["turn"]) for b in listed["branches"]] == [(1, ""), (2, "")]


async def test_without_a_text_edit_asks_for_it(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("What about Lisbn?")
        told = await bot.says("/edit")
        assert told.form
        assert told.form.text == "What about Lisbn?"
        await bot.says("What about Lisbon?")
        assert "Asked now instead of t1" in bot.sent[-2].reply.text + bot.sent[-1].reply.text
        assert (await bot.says("/branches")).data


async def test_files_and_pictures_of_the_question_go_along(tmp_path: Path) -> None:
    async with run_bot(tmp_path, lambda _: Say("I see.")) as bot:
        await bot.says("Look!", files=(PHOTO, REPORT))
        form = (await bot.says("/edit t1")).form
        assert form
        assert form.text == "Look!"
        await bot.says("/cancel")
        await again(bot, "/edit t1 See?")
        await again(bot, "/regenerate")
        for content in (bot.sent_to_model(index)[-1]["content"] for index in (1, 2)):
            assert content[0]["text"] == "See?\n[file: files/report.txt, 120 kB]"
            assert [part["type"] for part in content] == ["text", "image_url"]


async def test_what_runs_is_stopped_if_it_is_asked_again(tmp_path: Path) -> None:
    call = Call("calculate", '{"expression": "1+1"}', "c1")
    script: list[Answer] = [Say("One."), Say(calls=(call,)), Hang("Half"), Say("Better.")]
    async with run_bot(tmp_path, script) as bot:
        await bot.says("one")
        await bot.writes("two", id="two")
        for _ in range(3):
            await bot.server.reached.acquire()
        told, answer = await again(bot, "/edit t2 Two, please")
        assert told.text.startswith("I stopped the running answer.")
        assert "Changes by `calculate` there are not undone, and may be made again." in told.text
        assert answer == "Better."
        assert asked(bot) == ["one", "Two, please"]
        stopped = (await bot.reply_to("two")).reply.text
        assert "Stopped, as you asked." in stopped


async def test_a_question_that_begins_with_a_slash_is_no_command(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("one")
        _, answer = await again(bot, "/edit t1 /imagine a cat")
        assert answer == "re: /imagine a cat"
        _, answer = await again(bot, "/regenerate")
        assert answer == "re: /imagine a cat"


async def test_what_can_t_be_asked_again_makes_no_branch(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        for line, told in {
            "/regenerate": "No turn is in context",
            "/regenerate t1": "There is no turn t1; nothing has been said yet.",
            "/edit t1 words": "There is no turn t1; nothing has been said yet.",
            "/regenerate two words": "“two words” is no model's name",
        }.items():
            assert told in (await bot.says(line)).text
        assert "no branches" in (await bot.says("/branches")).text


async def test_in_a_group_who_may_not_choose_models_makes_no_branch(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"owners": ["pipe/ann"]}
    async with run_bot(tmp_path, echo, settings) as bot:
        await bot.says("/pair here", "group", "ann")
        await bot.says("one", "group", "ann")
        told = (await bot.says("/regenerate t1 gpt-4o", "group", "bob")).text
        assert "Nothing was changed" in told
        assert "no branches" in (await bot.says("/branches", "group", "ann")).text
        _, answer = await again(bot, "/edit t1 else", "group", "bob")
        assert answer.endswith("else")


async def test_each_turn_says_what_it_cost_and_who_answered_it(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await say_all(bot, "one", "two")
        told, _ = await again(bot, "/regenerate t2 gpt-4o")
        assert "gpt-4o answers here from now on" in told.text
        assert bot.server.turns[-1].body["model"] == "gpt-4o"
        turns = (await data(bot, "/context turns"))["turns"]
        assert [turn["models"] for turn in turns] == [["gpt-4o-mini"], ["gpt-4o"]]
        assert 0 < turns[0]["cost"] < turns[1]["cost"]
        assert turns[0]["prompt"] > 0
        await bot.says("/branches 1")
        turns = (await data(bot, "/context turns"))["turns"]
        assert [turn["models"] for turn in turns] == [["gpt-4o-mini"], ["gpt-4o-mini"]]
        await again(bot, "/regenerate t2")
        assert bot.server.turns[-1].body["model"] == "gpt-4o-mini", "elsewhere as before"
        await again(bot, "/regenerate t2")
        branches = (await data(bot, "/branches"))["branches"]
        assert [(b["parent"], b["turn"]) for b in branches[1:]] == [(1, "t1")] * 3, "side by side"


async def talk(bot: TestBot, *questions: str) -> None:
    for question in questions:
        await bot.says(question)


LONG = [f"{word} {'and so on ' * 60}".strip() for word in ("one", "two", "three")]
SUMMARY = "They spoke of trains."


def summarising(request: Received) -> Say:
    is_turn = "You are Parley" in str(request.body["messages"][0]["content"])
    return Say("Well." if is_turn else SUMMARY)


@pytest.mark.parametrize("line", ["/regenerate t3 gpt-4o", "/edit t3 three"])
async def test_what_was_pinned_and_dropped_since_holds(tmp_path: Path, line: str) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, "one", "two", "three")
        await say_all(bot, "/context pin t2", "/context drop t1")
        await again(bot, line)
        assert asked(bot) == ["two", "three"]
        assert (await states(bot))["t1"] == "dropped"
        assert "pinned" in (await states(bot))["t2"]
    async with run_bot(tmp_path, echo) as bot:  # after a restart, too
        await bot.says("four")
        assert asked(bot) == ["two", "three", "four"]


async def test_what_was_done_to_the_turn_itself_does_not_hold(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, "one", "two", "three")
        await bot.says("/context drop t1-t3")
        await again(bot, "/regenerate t3")
        assert asked(bot) == ["three"]
        await bot.says("four")
        assert asked(bot) == ["three", "four"]


async def test_a_cut_since_holds_and_is_undone_in_each_alone(tmp_path: Path) -> None:
    async with run_bot(tmp_path, summarising) as bot:
        await talk(bot, *LONG)
        assert "t1 to t2" in (await bot.says("/context compact t1-t2 trains")).text
        await again(bot, "/regenerate t3")
        assert SUMMARY in str(bot.sent_to_model())
        assert LONG[0] not in str(bot.sent_to_model())
        await say_all(bot, "/context undo", "four")
        assert asked(bot) == [*LONG, "four"]
        await say_all(bot, "/branches 1", "five")
        assert SUMMARY in str(bot.sent_to_model())
        assert LONG[0] not in str(bot.sent_to_model())


async def test_a_summary_that_tells_of_the_turn_stays_where_it_was(tmp_path: Path) -> None:
    async with run_bot(tmp_path, summarising) as bot:
        await talk(bot, *LONG)
        assert "t2 to t3" in (await bot.says("/context compact t2-t3 trains")).text
        await again(bot, "/regenerate t3")
        assert asked(bot) == LONG
        assert SUMMARY not in str(bot.sent_to_model())
        await say_all(bot, "/branches 1", "four")
        assert SUMMARY in str(bot.sent_to_model())


async def test_what_was_taken_back_since_the_answer_is_taken_back_there(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, "one", "two")
        await say_all(bot, "/context drop t1", "three", "/context undo")
        await again(bot, "/regenerate t3")
        assert asked(bot) == ["one", "two", "three"]


async def test_what_was_cleared_since_is_out_of_the_models_reach(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, "The word is swordfish.", "two", "three")
        await bot.says("/context clear")
        await again(bot, "/regenerate t3")
        assert asked(bot) == ["three"]
        assert (await states(bot))["t1"] == "cleared"
        await say_all(bot, "/context undo", "four")
        assert asked(bot) == ["The word is swordfish.", "two", "three", "four"]


async def test_it_holds_when_asked_again_and_when_that_is_forgotten(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, "one", "two", "three")
        await again(bot, "/edit t3 other")
        await bot.says("/context drop t1")
        await again(bot, "/regenerate t3")
        assert asked(bot) == ["two", "other"]
        await bot.says("/branches 2")
        sure = await bot.says("/forget chat")
        await bot.says(sure.actions[0].command)
        await say_all(bot, "/branches 3", "four")
        assert asked(bot) == ["two", "other", "four"]


@pytest.mark.parametrize("listed", [("gpt-4o", "gpt-4o-mini", "x/llama-3.3"), (), None])
async def test_a_model_that_the_provider_does_not_list_is_taken_with_a_note(
    tmp_path: Path, listed: tuple[str, ...] | None
) -> None:
    async with run_bot(tmp_path, echo, models=listed) as bot:
        for name in ("gpt-4o-2024-08-06", "x/llama-3.3:free", "auto", "gpt-4o-mini"):
            assert "does not list" not in (await bot.says(f"/model {name}")).text, name
        for line in ("/model gpt4o --here", "/model gpt4o"):
            told = await bot.says(line)
            assert told.problem == ""
            assert ("Similar names: gpt-4o and gpt-4o-mini." in told.text) == bool(listed), line
        assert "/model list shows" in (await bot.says("/model nosuch")).text or not listed
