"""A summary of any range in its place, and summaries expanded again, in a whole bot: the requests
to the model are checked as sent."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT
from tests.fakes.openai_server import Answer, Hang, Received, Say
from tests.whole.requests import (
    calls_paid,
    content,
    daily,
    events,
    settled,
    state,
    steps,
    talk,
)
from tests.whole.scenario import copy_as_killed, say_all
from tests.whole.testbot import TestBot, run_bot


def echo(request: Received) -> Answer:
    """A summary names the marks of its source; a reply repeats the question's, at length."""
    if request.is_summary:
        task, told = (content(message) for message in request.body["messages"])
        new = "\n=== Diary ===\nNEW " if "=== Diary ===" in task else ""
        return Say(f"SUM {' '.join(marks(told))}{new}")
    asked = content(request.body["messages"][-1])
    return Say(f"reply to {asked.split()[-1]}" + " and so on" * 20)


def marks(text: str) -> list[str]:
    """Return the questions that a text mentions, each once."""
    return list(dict.fromkeys(word for word in text.split() if word.startswith("mark")))


async def say(bot: TestBot, *numbers: int) -> None:
    await talk(bot, *(f"question mark{number}" for number in numbers))


async def sent_for(bot: TestBot, number: int) -> list[str]:
    """Return the texts of the request with this question, without the system prompt."""
    await say(bot, number)
    return [content(message) for message in steps(bot)[-1] if message["role"] != "system"]


def strategy(name: str, **more: Any) -> dict[str, Any]:
    return {"context": {"strategy": name, **more}}


@pytest.mark.parametrize("name", ["trim", "slim"])
async def test_a_summary_stands_where_the_range_stood(tmp_path: Path, name: str) -> None:
    settings = strategy(name, full_turns=10)
    async with run_bot(tmp_path, echo, settings) as bot:
        await say(bot, 1, 2, 3, 4)
        before = await sent_for(bot, 5)
        await bot.says("/undo")
        paid = await calls_paid(bot)
        reply = await bot.says("/context compact t2-t3 what was decided")
        assert await calls_paid(bot) == paid + 1
        expand, undo = (action.command for action in reply.actions)
        assert expand == "/context expand s1"
        assert re.fullmatch(r"/context undo e\d+", undo)
        sent = await sent_for(bot, 5)
        detail = (await bot.says("/context detail")).text
        await say_all(bot, "/undo", "/context undo e2")
        assert await sent_for(bot, 5) == before, "byte for byte"
    assert reply.text.startswith("Compacted t2 to t3: ")
    assert "The summary s1 (by gpt-4o-mini) replaces them." in reply.text
    (asked,) = bot.server.summaries
    assert "what was decided" in content(asked.body["messages"][0])
    assert marks(content(asked.body["messages"][-1])) == ["mark2", "mark3"]
    (place,) = [n for n, text in enumerate(sent) if "SUM" in text]
    assert marks(sent[place]) == ["mark2", "mark3", "mark4"]
    assert sent[place].startswith("<summary-of-earlier-turns")
    assert sent[place].endswith("question mark4")
    assert sent[place - 1].startswith("reply to mark1")
    assert sent[-1] == "question mark5"
    assert " | question mark4 |" in detail, "as it was said"
    assert "Summary of t2 to t3:\n\n> SUM mark2 mark3" in detail


@pytest.mark.parametrize("name", ["trim", "slim"])
async def test_it_survives_a_restart_and_opens_into_its_turns(tmp_path: Path, name: str) -> None:
    settings = strategy(name, full_turns=10)
    async with run_bot(tmp_path, echo, settings) as bot:
        await say(bot, 1, 2, 3, 4)
        before = await sent_for(bot, 5)
        await say_all(bot, "/undo", "/context compact t2-t3")
        with_summary = await sent_for(bot, 5)
        await bot.says("/undo")
    async with run_bot(tmp_path, echo, settings) as bot:
        bot.count = 100  # the ids of messages
        assert await sent_for(bot, 5) == with_summary
        await bot.says("/undo")
        opened = await bot.says("/context expand s1")
        assert opened.text.startswith("Expanded s1: t2 to t3 are back in context. ")
        (undo,) = (action.command for action in opened.actions)
        assert re.fullmatch(r"/context undo e\d+", undo)
        assert await sent_for(bot, 5) == before
        await bot.says("/undo")
        expand = next(one for one in (await events(bot))[::-1] if one["kind"] == "expand")
        done = await bot.says(f"/context undo {expand['id']}")
        assert "t2 to t3 are out of the context" in done.text
        assert await sent_for(bot, 5) == with_summary


async def test_pinned_turns_inside_stay_and_it_is_said(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await say(bot, 1, 2, 3, 4)
        await bot.says("/context pin t2")
        reply = await bot.says("/context compact t1-t3")
        sent = await sent_for(bot, 5)
    assert "t2 is pinned, and stays." in reply.text
    assert reply.data
    assert reply.data["turns"] == ["t1", "t3"]
    assert [marks(text) for text in sent[:3:2]] == [["mark2"], ["mark1", "mark3", "mark4"]]


async def test_a_range_over_an_earlier_one_takes_its_summary_in(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await say(bot, 1, 2, 3, 4, 5, 6)
        await bot.says("/context compact t3-t4")
        paid = await calls_paid(bot)
        reply = await bot.says("/context compact t2-t3")
        assert await calls_paid(bot) == paid + 1
        sent = await sent_for(bot, 7)
        tree = await bot.says("/context summaries")
    assert reply.data
    assert reply.data["turns"] == ["t2", "t3", "t4"]
    assert "s1 (t3 to t4) went into it whole." in reply.text
    assert marks(sent[2]) == ["mark2", "mark3", "mark4", "mark5"]
    assert sent[2].count("SUM") == 1
    assert "**s2** at its position · t2 to t4 ← s1 + t2 · " in tree.text
    assert "  - **s1** inside · t3 to t4 · " in tree.text


async def test_the_same_range_twice_costs_nothing_and_says_so(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await say(bot, 1, 2, 3)
        await bot.says("/context compact t1-t2")
        paid = await calls_paid(bot)
        for line, sentence in (
            ("compact t1-t2", "s1 already replaces t1 to t2."),
            ("free t2", "s1 already replaces t1 to t2."),
            ("compact t9", "There is no turn t9"),
            ("compact t2-t1", "is backwards"),
            ("expand s7", "There is no summary s7 in the context; it has s1"),
            ("expand t3", "t3 is in context already"),
            ("expand x", "'x' is not a turn"),
            ("compact 2-3", "write /context compact t2-t3"),
        ):
            assert sentence in (await bot.says(f"/context {line}")).text
        assert await calls_paid(bot) == paid
        assert len(await events(bot)) == 1


@pytest.mark.parametrize("name", ["trim", "slim"])
async def test_a_freed_range_leaves_before_its_summary_is_there(tmp_path: Path, name: str) -> None:
    async with run_bot(tmp_path, echo, strategy(name, full_turns=10)) as bot:
        await say(bot, 1, 2, 3, 4)
        reply = await bot.says("/context free t2-t3")
        await settled(bot)
        assert "Its summary is ready" in (await bot.says("/context")).text
        preview = (await bot.says("/context preview")).data or {}
        assert [r["beginning"] for r in preview["messages"] if r["message"] == "summary"] == [
            "SUM mark2 mark3"
        ]
        assert (await state(bot))["turns"] == ["t1", "t4"]
        sent = await sent_for(bot, 5)
        await bot.says("/undo")
        assert "t2 to t3 are back in context" in (await bot.says("/context undo e1")).text
        assert (await state(bot))["turns"] == ["t1", "t2", "t3", "t4"]
        again = await sent_for(bot, 5)
    assert "t2 to t3 were removed from the context" in reply.text
    assert [marks(text) for text in sent if "SUM" in text] == [["mark2", "mark3", "mark4"]]
    assert len(bot.server.summaries) == 1
    assert not any("SUM" in text for text in again)


async def test_a_cut_that_passes_a_summary_takes_its_turns_into_its_own(tmp_path: Path) -> None:
    settings = {"agent_max_context_turns": 6, **strategy("trim")}
    async with run_bot(tmp_path, echo, settings) as bot:
        await say(bot, 1, 2, 3)
        await bot.says("/context compact t1-t2")
        await say(bot, 4, 5, 6, 7, 8)
        sent = await sent_for(bot, 9)
        made = bot.server.summaries[1:]
        history = await events(bot)
        tree = await bot.says("/context summaries")
    (asked,) = made
    assert marks(content(asked.body["messages"][-1]))[:3] == ["mark1", "mark2", "mark3"]
    assert "The diary of this conversation has what t1 to t2 tell already." in content(
        asked.body["messages"][0]
    )
    cut = next(event for event in history[::-1] if event["kind"] == "compact")
    assert cut["turns"][:3] == ["t1", "t2", "t3"]
    assert sum("SUM" in text for text in sent) == 1
    assert marks(sent[0])[:3] == ["mark1", "mark2", "mark3"]
    assert "**s2** at the beginning · " in tree.text
    assert "← s1 + " in tree.text


async def test_under_slim_a_summary_folds_into_the_lines_of_its_turns(tmp_path: Path) -> None:
    settings = strategy("slim", full_turns=4, fold_turns=1)
    async with run_bot(tmp_path, echo, settings) as bot:
        await say(bot, 1, 2, 3, 4)
        await bot.says("/context compact t2-t3")
        sent = await sent_for(bot, 5)
        assert sum("SUM" in text for text in sent) == 1
        for number in range(6, 11):
            sent = await sent_for(bot, number)
            assert ("[t2 " in sent[0]) != any("SUM" in text for text in sent)
        assert not any("SUM" in text for text in sent)


@pytest.mark.parametrize("name", ["trim", "structured"])
async def test_under_an_opened_summary_the_one_before_stands(tmp_path: Path, name: str) -> None:
    async with run_bot(tmp_path, echo, strategy(name)) as bot:
        await say(bot, 1, 2, 3)
        await bot.says("/context compact")
        await say(bot, 4, 5)
        await bot.says("/context compact")
        opened = await bot.says("/context expand s2")
        assert "t3 to t4 are back in context" in opened.text
        await say(bot, 6)
        sent = "\n".join(content(message) for message in steps(bot)[-1][1:])
        assert sent.count("SUM") == 1
        assert "SUM mark1 mark2\n" in sent
        assert [f"t{number}" for number in (3, 4, 5, 6)] == (await state(bot))["turns"]
        await bot.says("/context compact the next")
        asked = content(bot.server.summaries[-1].body["messages"][-1])
        assert asked.startswith("Summary of what came before:\nSUM mark1 mark2\n")
        first = await bot.says("/context expand s1")
        assert "t1 to t2 are back in context" in first.text
        assert "s3" in (await bot.says("/context summaries")).text
        await bot.says("/context expand s3")
        assert "There is no summary" in (await bot.says("/context summaries")).text
        assert len((await state(bot))["turns"]) == 6


async def test_under_slim_an_opened_summary_becomes_lines_again(tmp_path: Path) -> None:
    settings = strategy("slim", full_turns=2, fold_turns=1)
    async with run_bot(tmp_path, echo, settings) as bot:
        await say(bot, 1, 2, 3, 4)
        await bot.says("/context compact")
        opened = await bot.says("/context expand s1")
        assert "t1 to t3 are back in context" in opened.text
        sent = await sent_for(bot, 5)
        assert "SUM" not in str(sent)
        assert [text[-5:] for text in sent[::2]] == [f"mark{n}" for n in range(1, 6)]
        for number in range(6, 12):
            sent = await sent_for(bot, number)
        for number in range(1, 12):
            assert f"question mark{number}" in "\n".join(sent)
        assert "[t3 " in sent[0]


async def test_what_does_not_fit_stays_summarised_and_it_is_said(tmp_path: Path) -> None:
    settings = {"agent_max_context_tokens": 3_400, **strategy("trim")}

    def long(request: Received) -> Answer:
        if request.is_summary:
            return echo(request)
        return Say("word " * 420)

    async with run_bot(tmp_path, long, settings) as bot:
        await say(bot, 1, 2, 3)
        await bot.says("/context compact")
        await say(bot, 4)
        await bot.says("/context compact t3-t4")
        await say(bot, 5, 6)
        tokens = (await state(bot))["tokens"]
        opened = await bot.says("/context expand t1-t4")
        now = await state(bot)
    assert opened.data
    assert opened.data["left"]
    assert opened.data["turns"][-1] == "t4"
    assert "did not fit, so a summary still replaces" in opened.text
    assert tokens < now["tokens"] <= 3_400


async def test_nothing_is_cut_for_a_while_after_a_summary_was_opened(tmp_path: Path) -> None:
    settings = {"agent_max_context_turns": 4, **strategy("trim")}
    async with run_bot(tmp_path, echo, settings) as bot:
        await say(bot, 1, 2, 3, 4, 5)
        opened = await bot.says("/context expand s1")
        assert "Because you opened a summary, nothing is compacted before t10 begins" in opened.text
        await say(bot, 6, 7, 8, 9)
        assert (await state(bot))["turns"][0] == "t1"
        await say(bot, 10)
        assert (await state(bot))["turns"][0] != "t1"
        assert (await events(bot))[-1]["actor"] == "strategy"


async def test_a_summary_is_written_anew_without_a_forgotten_turn(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await say(bot, 1, 2, 3, 4, 5)
        await bot.says("/context compact t2-t4")
        confirm = await bot.says("/forget t3")
        gone = await bot.says(confirm.actions[0].command)
        assert "t3" in gone.text
        await settled(bot)
        sent = await sent_for(bot, 6)
        assert [marks(text) for text in sent if "SUM" in text] == [["mark2", "mark4", "mark5"]]
        assert "mark3" not in str(sent)
        assert "mark3" not in daily(tmp_path)
        await bot.says("/context expand t2-t4")
        assert (await state(bot))["turns"] == ["t1", "t2", "t4", "t5", "t6"]


async def test_what_a_person_drops_takes_the_summary_that_told_of_it_along(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await say(bot, 1, 2, 3, 4)
        await bot.says("/context compact t1-t3")
        dropped = await bot.says("/context drop t2")
        assert (
            "A summary mentioned it, so it was removed, too: t1, t3 are back in context."
            in dropped.text
        )
        sent = await sent_for(bot, 5)
        assert "SUM" not in str(sent)
        assert "mark2" not in str(sent)
        await say_all(bot, "/undo", "/context undo e2", "/context drop t1-t3")
        assert (await state(bot))["turns"] == ["t4"]
        sent = await sent_for(bot, 5)
        assert marks(str(sent)) == marks("mark4") or "mark1" not in str(sent)
        closed = await bot.says("/context expand t2")
        assert "You dropped t2; only /context undo brings that back." in closed.text
        await say(bot, 6, 7)
        await say_all(bot, "/context compact t6-t7", "/undo")
        assert "mark7" not in str(await sent_for(bot, 8)), "nor does /undo leave it in a summary"


async def test_a_pinned_summary_stays_when_a_cut_passes_it(tmp_path: Path) -> None:
    settings = {"agent_max_context_turns": 4, **strategy("trim")}
    async with run_bot(tmp_path, echo, settings) as bot:
        await say(bot, 1, 2, 3)
        await bot.says("/context compact t1-t2")
        assert (await bot.says("/context pin t1-t2")).text.startswith("Pinned: t1 to t2")
        for number in range(4, 10):
            sent = await sent_for(bot, number)
            assert any(text.startswith("<summary") and "mark1 mark2" in text for text in sent)
        assert sum(text.count("SUM") for text in sent) == 2
        await bot.says("/context expand t1-t2")
        assert (await state(bot))["turns"][:2] == ["t1", "t2"]


async def test_all_views_count_the_summary_where_it_stands(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await say(bot, 1, 2, 3, 4)
        await bot.says("/context compact t2-t3")
        before = await state(bot)
        preview = (await bot.says("/context preview")).data or {}
        turns = (await bot.says("/context turns")).data or {}
        history = await events(bot)
        image = await bot.says("/context map")
        await say(bot, 5)
        after = await state(bot)
        await bot.says("/context compact t5-")
        newest = (await bot.says("/context preview")).data or {}
        sent = await sent_for(bot, 6)
        await bot.says("/context clear")
        (*_, cleared) = await events(bot)
        assert cleared["tokens_after"] == (await state(bot))["tokens"]
    assert sum(before["parts"].values()) == before["tokens"] == preview["tokens"]
    assert before["parts"]["summaries of turns"] > 0
    assert before["summarised_in_place"] == [["t2", "t3"]]
    rows = [(row["turn"], row["message"]) for row in preview["messages"] if row["turn"]]
    assert rows[2:4] == [("t2-t3", "summary"), ("t4", "user")]
    assert [turn["state"][0] for turn in turns["turns"]] == [
        "in context",
        "summarised",
        "summarised",
        "in context",
    ]
    assert (history[-1]["kind"], history[-1]["turns"]) == ("compact", ["t2", "t3"])
    assert "summaries of turns" in str((image.data or {})["svg"])
    assert after["summarised_in_place"] == before["summarised_in_place"]
    rows = [(row["turn"], row["message"]) for row in newest["messages"] if row["turn"]]
    assert rows[-2:] == [("t5", "summary"), ("t6", "user")]
    assert marks(sent[-1]) == ["mark5", "mark6"], "the newest turns' stands before the question"


@pytest.mark.parametrize(
    ("before", "after"), [("trim", "full"), ("full", "trim"), ("trim", "slim")]
)
async def test_the_preview_goes_by_a_strategy_that_is_in_force_from_the_next_turn_on(
    tmp_path: Path, before: str, after: str
) -> None:
    settings = {"agent_max_context_turns": 3, "context": {"strategy": before, "full_turns": 1}}
    async with run_bot(tmp_path, echo, settings) as bot:
        await say(bot, 1, 2, 3, 4)
        await bot.says(f"/config context.strategy {after}")
        events_before = await events(bot)
        preview = (await bot.says("/context preview")).data or {}
        assert await events(bot) == events_before
        sent = await sent_for(bot, 5)
    shown = [r["beginning"] for r in preview["messages"] if r["message"] == "user"]
    assert (
        marks(" ".join(shown))
        == [
            mark
            for text in sent
            for mark in marks(text)
            if text.endswith(f"question {mark}") and not text.startswith("[Context")
        ][:-1]
    )


@pytest.mark.parametrize("name", ["trim", "structured"])
async def test_summaries_leave_in_an_emergency_too(tmp_path: Path, name: str) -> None:
    """Leave only summaries of ranges to remove: they are removed."""

    def long(request: Received) -> Answer:
        return Say("word " * 300) if request.is_summary else echo(request)

    settings = {"context": {"strategy": name, "max_tokens": 4_096, "full_turns": 10}}
    async with run_bot(tmp_path, long, settings) as bot:
        for number in range(1, 13, 3):
            await say(bot, number, number + 1, number + 2)
            await talk(bot, f"/context compact t{number}-t{number + 2}")
        before = await state(bot)
        parts = before["parts"]
        words = before["budget"] - parts["system prompt"] - parts["tools"] - 150
        assert parts["summaries of turns"] > 150  # the question fits, but not with them
        reply = await bot.says("word " * words + "mark99")
        assert reply.text.startswith("reply to mark99")
        now = await state(bot)
        assert len(now["summarised_in_place"]) < 4, now["parts"]
        assert content(steps(bot)[-1][-1]).endswith("mark99")


async def test_a_kill_while_a_freed_range_is_summarised_loses_nothing(tmp_path: Path) -> None:
    def hang(request: Received) -> Answer:
        return echo(request) if request.is_turn else Hang()

    async with run_bot(tmp_path, hang) as bot:
        for number in (1, 2, 3, 4):
            await bot.says(f"question mark{number}")
        freed = await bot.says("/context free t2-t3")
        assert "t2 to t3 were removed from the context" in freed.text
        for _ in range(5):
            await bot.server.reached.acquire()
        folder = await copy_as_killed(bot, tmp_path)
        await bot.says("/context clear")  # so that no summary is waited for
    async with run_bot(folder, echo) as bot:
        bot.count = 100  # the ids of messages
        await say(bot, 5)
        assert len(bot.server.summaries) == 1
        sent = await sent_for(bot, 6)
        assert [marks(text) for text in sent if "SUM" in text] == [["mark2", "mark3", "mark4"]]
        assert "t2 to t3 are back in context" in (await bot.says("/context undo")).text


async def test_a_summary_in_its_place_goes_on_as_it_was_edited(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await say(bot, 1, 2, 3, 4)
        await bot.says("/context compact t2-t3")
        form = (await bot.says("/context summary edit s1")).form
        assert form is not None
        assert (form.command, form.text) == ("/context summary edit s1", "SUM mark2 mark3")
        edited = await bot.says("/context summary edit s1 SUM as marked by me")
        assert "Summary s2 is used" in edited.text
        shown = await bot.says("/context summary s2")
        assert "Summary **s2** replaces t2 to t3, at their position · " in shown.text
        sent = await sent_for(bot, 5)
        assert "SUM as marked by me" in sent[2]
        assert "SUM mark2" not in str(sent)
    async with run_bot(tmp_path, echo) as bot:
        sent = await sent_for(bot, 6)
        assert "SUM as marked by me" in sent[2]
        await bot.says("/context compact t1-t3")
        asked = content(bot.server.summaries[-1].body["messages"][-1])
        assert "[t2 to t3, summarised] SUM as marked by me" in asked
        assert "question mark2" not in asked
        await bot.says("/context undo")
        undone = await bot.says("/context undo e2")
        assert undone.text.startswith("Undone: the edit of the summary")
        assert "SUM mark2 mark3" in (await sent_for(bot, 7))[2]


async def test_the_tree_of_the_page_is_what_the_command_answers(tmp_path: Path) -> None:
    """Check docs/context.md, "Expand a summary", except for the sizes."""
    async with run_bot(tmp_path, echo, strategy("full")) as bot:
        await say(bot, *range(1, 9))
        await bot.says("/context compact")
        await say(bot, 9, 10)
        await bot.says("/context summary edit SUM mark1 to mark7, as I see it")
        await bot.says("/context compact t8-t9 the invoice")
        await say(bot, *range(11, 22))
        await bot.says("/context compact")
        await say(bot, *range(22, 27))
        await bot.says("/context compact t23-t25")
        tree = await bot.says("/context summaries")
        opened = await bot.says("/context expand s4")
    page = (ROOT / "docs" / "context.md").read_text("utf-8")
    lines = [line for line in page.splitlines() if re.match(r" *- \*\*s\d", line)]
    sizes = re.compile(r"\d+ tokens")
    found = [line for line in tree.text.splitlines() if "**s" in line]
    assert [sizes.sub("", line) for line in found] == [sizes.sub("", line) for line in lines]
    assert tree.data
    assert [one["name"] for one in tree.data["summaries"]] == ["s4", "s2", "s3", "s5"]
    assert "t8 to t20 are back in context" in opened.text


async def test_the_only_summary_is_meant_and_one_of_several_is_named(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await say(bot, 1, 2, 3, 4, 5, 6)
        await bot.says("/context compact t2-t3")
        shown = await bot.says("/context summary")
        assert shown.text.startswith("Summary **s1** replaces t2 to t3")
        asked = await bot.says("/context summary edit")
        assert asked.form
        assert asked.form.command == "/context summary edit s1"
        await bot.says("/cancel")
        edited = await bot.says("/context summary edit Nothing much.")
        assert "Summary s2 is used" in edited.text
        stale = await bot.says("/context summary edit s1 More.")
        assert stale.text.startswith("s1 is not in the context; s2 is.")
        await bot.says("/context compact t5-t6")
        shown = await bot.says("/context summary")
        assert shown.text == "There are several summaries: s2, s3. Name one of them."
        names = ["/context summary s2", "/context summary s3"]
        assert [action.command for action in shown.actions] == names
        refused = await bot.says("/context summary edit More.")
        assert "name one, like /context summary edit s2" in refused.text


async def test_a_turn_in_log_and_summary_is_not_dropped_from_one_alone(tmp_path: Path) -> None:
    """Under slim, the log has the freed turns as well; their words would stay in the summary."""
    settings = strategy("slim", full_turns=3, fold_turns=1)
    async with run_bot(tmp_path, echo, settings) as bot:
        await say(bot, 1, 2, 3, 4)
        await talk(bot, f"A long {'word ' * 200} question mark5")
        await say(bot, 6, 7, 8)
        assert "t5 removed from the context" in (await bot.says("/context free")).text
        refused = (await bot.says("/context drop t3-t5")).text
        assert "not in context: the summary at the beginning covers it" in refused, refused
        assert "Dropped: t3 to t4" in (await bot.says("/context drop t3-t4")).text
        sent = await sent_for(bot, 9)
        assert not any(mark in ("mark3", "mark4") for text in sent for mark in marks(text))
