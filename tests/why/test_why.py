"""Tests of `/why` and `/without`: the sources of an answer, and the answer without a part of
them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from channels.message import Reply
from tests.fakes.openai_server import Answer, Call, Received, Say
from tests.whole.scenario import say_all
from tests.whole.testbot import TestBot, run_bot


def knows(received: Received) -> Answer:
    """Answer a question with the colours that the request names."""
    asked = received.body["messages"][-1]["content"]
    if asked.startswith("I like"):
        return Say("Noted.")
    said = str(received.body["messages"])
    colours = [name for name in ("red", "blue", "green") if name in said]
    return Say(f"I know {' and '.join(colours) or 'nothing'}.")


async def parts(bot: TestBot, command: str = "/why") -> list[dict[str, Any]]:
    reply = await bot.says(command)
    assert reply.data is not None, reply.text
    found: list[dict[str, Any]] = reply.data["parts"]
    return found


async def without(bot: TestBot, name: str) -> tuple[Reply, str]:
    """Leave a part out; return the confirmation and the answer."""
    told = await bot.says(f"/without {name}")
    assert told.data is not None, told.text
    return told, (await bot.reply_to(told.data["asked"])).reply.text


def remember(tmp_path: Path, *lines: str) -> None:
    folder = tmp_path / "data" / "audiences" / "pipe-main" / "memory"
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"- 2026-11-20: {line}\n" for line in lines)
    (folder / "MEMORY.md").write_text(f"# What is remembered\n\n{text}")


async def test_in_a_new_branch_it_is_said_where_the_shared_turns_were_answered(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, knows) as bot:
        assert "Nothing has been answered here yet" in (await bot.says("/why")).text
        await say_all(bot, "I like red", "I like blue", "/fork t1")
        for command in ("/why", "/why t1"):
            told = (await bot.says(command)).text
            assert told.startswith("t1 was answered before this branch was made")
        await bot.says("What colours?")
        assert (await parts(bot, "/why t2")) == (await parts(bot))
        assert "t1 was answered before" in (await bot.says("/why t1")).text
        await bot.says("/branches 1")
        assert await parts(bot, "/why t1")
        assert "t1 had no turn, summary or memory" in (await bot.says("/without t1 t1")).text


async def test_an_answer_is_explained_by_its_parts_the_largest_first(tmp_path: Path) -> None:
    remember(tmp_path, "Ann likes green.", "Ann lives in Lisbon.")
    script = [
        Say("Long. " * 300),
        Say(calls=(Call("current_time", "{}", "a"),)),
        Say("It is noon."),
    ]
    async with run_bot(tmp_path, script) as bot:
        await say_all(bot, "Tell me of red", "What time is it?")
        found = await parts(bot)
        shown = await bot.says("/why t2")
        first = await parts(bot, "/why t1")
        late = await bot.says("/why t3")
    sizes = [part["tokens"] for part in found]
    assert sizes == sorted(sizes, reverse=True)
    kinds = {part["kind"] for part in found}
    assert kinds == {"system prompt", "tools", "turn", "memory", "question", "result"}
    assert {part["words"] for part in found if part["kind"] == "memory"} == {
        "2026-11-20: Ann lives in Lisbon.",
        "2026-11-20: Ann likes green.",
    }
    assert next(part["name"] for part in found if part["kind"] == "result") == "current_time"
    assert "| turn t1 |" in shown.text
    assert shown.text.startswith("**t2 was answered by gpt-4o-mini from ")
    assert "/without t1 t2" in [action.command for action in shown.actions]
    assert "turn" not in {part["kind"] for part in first}
    assert "t3" in late.text


async def test_a_question_is_asked_again_without_a_turn_and_both_answers_are_shown(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, knows) as bot:
        await say_all(bot, "I like red", "I like blue", "What do you know?")
        told, answer = await without(bot, "t1")
        compared = await bot.says("/without")
        await say_all(bot, "/branches 1", "And here?")
        assert "red" in str(bot.sent_to_model()), "the first branch stays as it was"
    assert told.data is not None
    assert (told.data["turn"], told.data["branch"]) == ("t3", 2)
    assert answer == (
        "I know blue.\n\nThis is the answer without turn t1. With it, in branch 1, it was:\n\n"
        "> I know red and blue."
    )
    assert compared.data is not None
    assert [one["text"] for one in compared.data["compared"]] == [
        "I know red and blue.",
        "I know blue.",
    ]
    assert "**t3 without t1**" in compared.text


@pytest.mark.parametrize("way", ["/undo", "/context drop t3", "/context compact t1-t3"])
async def test_the_newest_answer_is_not_one_that_was_taken_back(tmp_path: Path, way: str) -> None:
    async with run_bot(tmp_path, knows) as bot:
        await say_all(bot, "I like red", "I like blue", "And now?", way)
        newest, named = await bot.says("/why"), await bot.says("/why t3")
        assert (newest.data or {})["turn"] == ("t3" if "compact" in way else "t2")
        assert (named.data or {})["turn"] == "t3"
        await bot.says("/context clear")
        assert ((await bot.says("/why")).data or {})["turn"] == "t3"


async def test_a_question_is_asked_again_without_a_memory_line_or_a_summary(tmp_path: Path) -> None:
    remember(tmp_path, "Ann likes green.", "Ann lives in Lisbon.")
    async with run_bot(tmp_path, knows) as bot:
        await say_all(bot, "I like red", "I like blue", "/context compact t1-t2", "And now?")
        told, answer = await without(bot, "m1")
        assert answer.startswith("I know red and blue.\n"), told.text
        await bot.says("/branches 1")
        (name,) = [part["name"] for part in await parts(bot) if part["kind"] == "summary"]
        told, shown = await without(bot, f"{name} t3")
        await bot.says("/branches 1")
        _, by_its_kind = await without(bot, "summary")
        refused = await bot.says("/without t77")
    assert shown.startswith("I know green.\n"), shown
    assert by_its_kind.startswith("I know green.\n"), by_its_kind
    assert "“t77” was not in the request" in refused.text
