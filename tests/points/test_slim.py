"""Points 12 and 13: `slim`. What is set is in force, the tag is never seen, and no word is lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from channels.base import Activity, Delta
from tests.fakes.openai_server import Answer, Fail, Received, Say
from tests.points.scene import (
    answering,
    content,
    daily,
    last_asked,
    steps,
    talk,
    texts,
    whole,
)
from tests.web.site import serving
from tests.whole.testbot import run_bot

DASHBOARD = "I created the dashboard with three sections for shopping, todos, and schedule."
LINE = "created dashboard with shopping, todo, schedule sections"
DOCUMENTED = f"{DASHBOARD}\n<terse>{LINE}</terse>"
STRATEGIES = ["trim", "slim", "full", "truncate", "summarize", "structured", "stubs"]


def slim(**settings: Any) -> dict[str, Any]:
    return {"context": {"strategy": "slim", "fold_turns": 1, "full_turns": 1} | settings}


def tagged(request: Received) -> Answer:
    number = last_asked(request).split()[-1]
    return Say(f"reply {number}\n<terse>did {number}</terse>")


def always(text: str) -> Callable[[Received], Answer]:
    return answering(lambda request: Say(text))


def questions(first: int, last: int) -> list[str]:
    return [f"question {number}" for number in range(first, last + 1)]


def log_of(messages: list[dict[str, Any]]) -> list[str]:
    """What the lines of the activity log say."""
    front = next((content(m) for m in messages if "Activity Log" in content(m)), "")
    return [line.partition("assistant: ")[2] for line in front.splitlines() if ": " in line]


# --- what is set is in force ---


async def test_full_turns_raised_brings_turns_back_in_full(tmp_path: Path) -> None:
    async with run_bot(tmp_path, answering(tagged), slim()) as bot:
        await talk(bot, *questions(1, 7), "/config context.full_turns 5", "question 8")
        sent = steps(bot)[-1]
    asked = [text for text in texts(sent) if text.startswith("question")]
    assert asked == questions(3, 8)
    assert log_of(sent) == ["did 1", "did 2"]


async def test_max_terse_entries_raised_brings_lines_back(tmp_path: Path) -> None:
    async with run_bot(tmp_path, answering(tagged), slim(max_terse_entries=2)) as bot:
        await talk(bot, *questions(1, 7))
        before = log_of(steps(bot)[-1])
        await talk(bot, "/config context.max_terse_entries 50", "question 8")
        after = log_of(steps(bot)[-1])
    assert before == ["did 4", "did 5"]
    assert after == [f"did {number}" for number in range(1, 7)]


# --- the tag ---


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "slim"])
async def test_the_tag_reaches_nobody_under_any_strategy(tmp_path: Path, strategy: str) -> None:
    events: list[Activity] = []
    async with run_bot(tmp_path, always(DOCUMENTED), {"context": {"strategy": strategy}}) as bot:
        watching = await bot.watches(events)
        reply = (await bot.says("Make a dashboard")).text
        watching.cancel()
    assert reply == DASHBOARD
    assert "terse" not in "".join(event.text for event in events if isinstance(event, Delta))


async def test_the_tag_reaches_nobody_under_slim(tmp_path: Path) -> None:
    async with run_bot(tmp_path, always(DOCUMENTED), slim()) as bot:
        assert (await bot.says("Make a dashboard")).text == DASHBOARD


async def test_inline_code_keeps_its_tag(tmp_path: Path) -> None:
    said = "End with `Done. <terse>what was done</terse>` please."
    async with run_bot(tmp_path, always(f"{said}\n<terse>told how</terse>"), slim()) as bot:
        assert (await bot.says("How?")).text == said


async def test_inline_code_that_is_a_tag_alone_keeps_it(tmp_path: Path) -> None:
    said = "End with `<terse>what was done</terse>` please."
    async with run_bot(tmp_path, always(f"{said}\n<terse>told how</terse>"), slim()) as bot:
        assert (await bot.says("How?")).text == said


async def reply_and_line(tmp_path: Path, said: str) -> tuple[str, list[str]]:
    """What a person sees of a reply, as it streams too, and its turn's line in the log."""
    events: list[Activity] = []
    async with run_bot(tmp_path, always(said), slim()) as bot:
        watching = await bot.watches(events)
        reply = (await bot.says("Do it.")).text
        watching.cancel()
        assert "terse" not in "".join(event.text for event in events if isinstance(event, Delta))
        await talk(bot, "and", "now?")
        return reply, log_of(steps(bot)[-1])


async def test_an_empty_tag_swallows_nothing(tmp_path: Path) -> None:
    reply, _ = await reply_and_line(tmp_path, "Done.<terse/> And this too.")
    assert reply == "Done. And this too."


async def test_a_tag_with_attributes_is_a_tag(tmp_path: Path) -> None:
    reply, log = await reply_and_line(tmp_path, 'Done.\n<terse lang="en">did it</terse>')
    assert reply == "Done."
    assert log == ["did it"]


async def test_a_tag_with_more_than_4000_characters_reaches_nobody(tmp_path: Path) -> None:
    reply, log = await reply_and_line(tmp_path, f"Done.\n<terse>{'did it ' * 700}</terse>")
    assert reply == "Done."
    assert log[0].startswith("did it did it")


# --- the log ---


async def test_a_roll_up_without_a_model_loses_no_word(tmp_path: Path) -> None:
    def wordy(request: Received) -> Answer:
        number = int(last_asked(request).split()[-1])
        words = " ".join(f"word{number}x{n}" for n in range(60))
        return Say(f"reply {number}\n<terse>{words}</terse>")

    script = answering(wordy, lambda request: Fail(400, {"message": "no summaries"}))
    async with run_bot(tmp_path, script, slim(max_terse_entries=2, fold_turns=2)) as bot:
        await talk(bot, *questions(1, 8))
        sent = whole(steps(bot)[-1])
    kept = daily(tmp_path)
    words = [f"word{n}x{w}" for n in range(1, 9) for w in range(60)]
    assert "word1x0" in kept, "the first line was rolled up"
    assert [word for word in words[:-60] if word not in sent + kept] == []


async def test_a_line_of_the_log_can_be_dropped(tmp_path: Path) -> None:
    async with run_bot(tmp_path, answering(tagged), slim()) as bot:
        await talk(bot, *questions(1, 5), "/context drop t2", "question 6")
        sent = steps(bot)[-1]
    assert log_of(sent) == ["did 1", "did 3", "did 4"]


# --- taking back ---


async def test_one_undo_takes_back_a_clear_that_folds_came_after(tmp_path: Path) -> None:
    async with run_bot(tmp_path, answering(tagged), slim()) as bot:
        await talk(bot, *questions(1, 4), "/context clear", *questions(5, 8))
        await talk(bot, "/context undo", "question 9")
        sent = whole(steps(bot)[-1])
    assert "did 1" in sent


async def test_an_event_can_be_named_to_undo_it(tmp_path: Path) -> None:
    async with run_bot(tmp_path, answering(tagged), slim()) as bot:
        await talk(bot, *questions(1, 4), "/context clear", *questions(5, 8))
        lines = (await bot.says("/context history")).text.splitlines()
        named = [re.findall(r"\be\d+\b", line) for line in lines if "clear" in line.lower()]
        assert named, "the clear is in the history"
        assert named[0], "and it has a name"
        await talk(bot, f"/context undo {named[0][0]}", "question 9")
        sent = whole(steps(bot)[-1])
    assert "did 1" in sent


# --- point 13 ---


@pytest.mark.parametrize("headers", [{}, {"X-Parley-Session": "home"}], ids=["alone", "kept"])
async def test_a_reply_of_the_documented_shape_streams_once_over_openais_protocol(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    async with (
        serving(tmp_path, always(DOCUMENTED), slim()) as site,
        AsyncOpenAI(base_url=f"{site.url}/v1", api_key="none", max_retries=0) as openai,
    ):
        stream = await openai.chat.completions.create(
            model="parley",
            messages=[{"role": "user", "content": "Make it."}],
            stream=True,
            extra_headers=headers,
        )
        chunks = [chunk async for chunk in stream]
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == DASHBOARD


@pytest.mark.parametrize("name", ["t1", "2", "e", "e99999", "everything", "e-1", "e1 e2"])
async def test_what_names_no_event_undoes_nothing(tmp_path: Path, name: str) -> None:
    async with run_bot(tmp_path, answering(tagged), slim()) as bot:
        await talk(bot, *questions(1, 4), "/context clear")
        told = (await bot.says(f"/context undo {name}")).text
        await talk(bot, "question 5")
        sent = whole(steps(bot)[-1])
    assert "nothing was undone" in told
    assert "did 1" not in sent


async def test_an_undo_that_a_later_change_hides_says_so(tmp_path: Path) -> None:
    async with run_bot(tmp_path, answering(tagged)) as bot:
        await talk(bot, *questions(1, 3), "/context clear", *questions(4, 6), "/context clear")
        ids = re.findall(r"\be\d+\b", (await bot.says("/context history")).text)
        told = (await bot.says(f"/context undo {ids[-1]}")).text
    assert "a later change took the same turns away" in told
