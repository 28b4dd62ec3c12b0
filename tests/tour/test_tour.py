"""Tests of the tour: an example conversation as real turns, without a request to the demo model."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.models import embedded
from channels.language import LANGUAGES
from channels.message import Reply
from plugins.tour.feature import read_example
from tests.fakes.openai_server import Say, echo
from tests.tables import each_row
from tests.waiting import until
from tests.web.site import serving
from tests.whole.testbot import TestBot, run_bot, running


@asynccontextmanager
async def demo(folder: Path) -> AsyncIterator[TestBot]:
    """Run a bot without a key and without an installed demo model."""
    bot = TestBot()
    async with running(folder, bot, {"model": "auto"}, {}):
        yield bot


@pytest.fixture(autouse=True)
def _no_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "find_installed_file", lambda: None)


NUMBER = re.compile(r"\d+(?::\d+)?")
TURNS = len(read_example())


def loaded(reply: Reply) -> list[str]:
    assert reply.data is not None
    return [*reply.data["loaded"]]


async def test_the_tour_fills_forecasts_compacts_and_undoes_without_a_model(
    tmp_path: Path,
) -> None:
    async with demo(tmp_path) as bot:
        tour = await bot.says("/tour")
        steps = ["/tour fill", "/tour forecast", "/tour compact"]
        assert [action.command for action in tour.actions] == steps
        assert "Model: demo model." in tour.text
        assert "No model is asked, and it costs nothing." in tour.text
        filled = await bot.says("/tour fill")
        assert f"{TURNS} turns of an example" in filled.text
        assert "Next compaction: about t" in (await bot.says("/tour forecast")).text
        compacted = await bot.says("/tour compact")
        assert compacted.text.startswith(f"Compacted t1 to t{TURNS - 1}")
        assert f"t{TURNS - 1} are back in context" in (await bot.says("/context undo")).text
        assert "$0 for 0 requests" in (await bot.says("/context")).text
        assert "| in total | 0 | 0 | 0 | 0 | $0 |" in (await bot.says("/usage")).text


async def test_a_connected_model_is_asked_for_the_summary_alone_and_the_tour_says_so(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, echo) as bot:
        assert "asked only for the summary in step 3" in (await bot.says("/tour")).text
        await bot.says("/tour fill")
        await bot.says("/tour forecast")
        assert not bot.server.requests
        await bot.says("/tour compact")
        assert bot.server.requests


async def test_the_example_is_marked_and_taken_back_like_any_turns(tmp_path: Path) -> None:
    async with demo(tmp_path) as bot:
        await bot.says("/tour fill")
        assert "called “Example: a weekend in Lisbon”" in (await bot.says("/title")).text
        assert "t1: “(Example) I want" in (await bot.says(f"/undo {TURNS}")).text
        assert "0 of 20 turns" in (await bot.says("/context")).text
        assert f"{TURNS} turns" in (await bot.says("/tour fill")).text


async def test_the_example_is_put_in_once_by_a_double_click(tmp_path: Path) -> None:
    async with serving(tmp_path) as site:
        replies = await asyncio.gather(*(site.commands("/tour fill") for _ in range(3)))
        assert [len((one["data"] or {}).get("loaded", ())) for one in replies].count(TURNS) == 1
        assert len((await site.commands("/context json"))["data"]["turns"]) == TURNS


async def test_the_example_is_put_behind_no_question_that_is_being_answered(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with serving(tmp_path, [Say("Hello.", gate=gate)]) as site:
        answering = asyncio.create_task(site.says("Hi"))
        await until(lambda: site.server.requests)
        filling = asyncio.create_task(site.commands("/tour fill"))
        gate.set()
        assert (await answering)["text"] == "Hello."
        assert "begins in an empty context" in (await filling)["text"]


async def test_the_example_alone_is_taken_out_of_what_was_said_since(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        take_out = (await bot.says("/tour fill")).actions[-1]
        await bot.says("Hello")
        await bot.says("And now?")
        await bot.says(take_out.command)
        context = (await bot.says("/context json")).data
        assert context is not None
        assert context["turns"] == [f"t{TURNS + 1}", f"t{TURNS + 2}"]


@pytest.mark.parametrize("step", ["forecast", "compact"])
async def test_each_step_begins_with_the_example_where_the_context_is_empty(
    tmp_path: Path, step: str
) -> None:
    async with demo(tmp_path) as bot:
        assert loaded(await bot.says(f"/tour {step}"))[-1] == f"t{TURNS}"
        assert loaded(await bot.says("/tour forecast")) == []


async def test_the_example_is_put_into_nobodys_conversation(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Hi")
        assert "begins in an empty context" in (await bot.says("/tour fill")).text
        assert loaded(await bot.says("/tour forecast")) == []
        assert "has no step" in (await bot.says("/tour everywhere")).text
        await bot.says("/new")
        await bot.says("/tour fill")
        assert "No title yet" in (await bot.says("/title")).text


@each_row("language", LANGUAGES)
def test_the_example_has_a_question_and_an_answer_in_each_turn(language: str) -> None:
    """Each turn has the numbers of the English one."""
    for english, turn in zip(read_example(), read_example(language), strict=True):
        assert [one.role for one in turn] == ["user", "assistant"]
        for first, one in zip(english, turn, strict=True):
            assert one.text.strip()
            assert Counter(NUMBER.findall(first.text)) <= Counter(NUMBER.findall(one.text))


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_tour_is_in_the_language_that_is_set_and_fits_into_the_demo_models_window(
    tmp_path: Path, language: str
) -> None:
    (first, _answer), *_rest = read_example(language)
    bot = TestBot()
    async with running(tmp_path, bot, {"model": "auto", "language": language}, {}):
        assert loaded(await bot.says("/tour fill"))[-1] == f"t{TURNS}"
        context = (await bot.says("/context json")).data
        assert context is not None
        assert len(context["turns"]) == TURNS
        assert first.text[:15] in (await bot.says("/context turns")).text
        await bot.says("/tour compact")
        after = (await bot.says("/context json")).data
        assert after is not None
        assert after["turns"] == [f"t{TURNS}"]
