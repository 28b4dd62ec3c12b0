"""What is said of turns, of an undo, of settings and of days is true (point 29)."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from channels.base import Activity, ContextChanged
from tests.fakes.openai_server import Answer, Fail, Received, Say
from tests.points.wire import (
    answered,
    compactions,
    data,
    events,
    memories,
    settle,
    summarised,
    texts,
)
from tests.whole.testbot import TestBot, run_bot

FEW_TURNS = {"agent_max_context_turns": 4}


def echo(request: Received) -> Answer:
    if "tools" not in request.body:
        return Say("They talked.")
    return Say(f"reply {str(request.body['messages'][-1]['content']).split()[-1]}")


def speechless(request: Received) -> Answer:
    """No summary can be had."""
    if "tools" not in request.body:
        return Fail(400, {"message": "no summaries today"})
    return echo(request)


async def talk(bot: TestBot, count: int, start: int = 1) -> None:
    for number in range(start, start + count):
        await bot.says(f"question {number}")
        await settle(bot)


async def states(bot: TestBot) -> dict[str, list[str]]:
    """Each turn's states, by `/context turns`."""
    told = await data(bot, "/context turns")
    rows = {row["turn"]: row["state"] for row in told["turns"]}
    runs = {
        f"t{number}": run["state"]
        for run in told["states"]
        for number in range(run["first"], run["last"] + 1)
    }
    assert {turn: runs[turn] for turn in rows} == rows, "the runs say the same of every turn"
    return rows


# --- states -----------------------------------------------------------------------------------


async def test_after_a_new_start_no_turn_is_called_summarised_that_was_not(tmp_path: Path) -> None:
    """Point 29: no summary could be written, and none stands in front."""
    async with run_bot(tmp_path, speechless) as bot:
        await talk(bot, 3)
        await bot.says("/new")
        await settle(bot)
        assert (await data(bot, "/context json"))["preface"] == ""
        found = await states(bot)
    assert list(found) == ["t1", "t2", "t3"]
    assert not [turn for turn, state in found.items() if "summarised" in state]
    assert not [turn for turn, state in found.items() if "in play" in state]


async def test_turns_that_left_for_a_summary_are_called_summarised(tmp_path: Path) -> None:
    """Point 29."""
    async with run_bot(tmp_path, echo, FEW_TURNS) as bot:
        await talk(bot, 6)
        found = await states(bot)
    assert found["t1"] == found["t2"] == ["summarised"]
    assert found["t6"] == ["in play"]


# --- undo -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line", ["/context undo t1", "/context undo 2", "/context undo zzz", "/context redo 2"]
)
async def test_an_undo_obeys_what_it_is_told_or_refuses(tmp_path: Path, line: str) -> None:
    """Point 29: two things were done, a pin and then a drop. A number takes back so many; a turn
    may be refused, but then nothing is changed."""
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, 4)
        await bot.says("/context pin t1")
        await bot.says("/context drop t3")
        if "redo" in line:
            await bot.says("/context undo")
            await bot.says("/context undo")
        said = (await bot.says(line)).text
        found = await data(bot, "/context json")
    is_pinned, is_back = found["pinned"] == ["t1"], "t3" in found["turns"]
    if line == "/context undo 2":
        assert (is_pinned, is_back) in ((False, True), (True, False))
        assert not is_pinned or "2" in said
    elif line == "/context redo 2":
        assert (is_pinned, is_back) in ((True, False), (False, True))
        assert is_pinned or "2" in said
    else:
        assert not is_back, "it took something else back"
        assert is_pinned or line.endswith("t1")
        assert line.split()[-1] in said


async def test_an_undo_of_a_pin_does_not_suspend_cuts(tmp_path: Path) -> None:
    """Point 29: it brought nothing back that a cut could take again."""
    async with run_bot(tmp_path, echo, FEW_TURNS) as bot:
        await talk(bot, 4)
        await bot.says("/context pin t4")
        said = (await bot.says("/context undo")).text
        await talk(bot, 1, start=5)
        assert await compactions(bot), "the fifth turn of four should have cut"
    assert "by itself" not in said


async def test_a_preview_says_that_an_undo_holds_a_cut_off(tmp_path: Path) -> None:
    """Point 29: six turns where four are allowed, after the undo of a cut."""
    async with run_bot(tmp_path, echo, FEW_TURNS) as bot:
        await talk(bot, 6)
        await bot.says("/context undo")
        said = (await bot.says("/context preview")).text
        (event,) = await compactions(bot)
    assert event["undone"]
    assert "within all limits" not in said
    assert "undo" in said


# --- the bottom line --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("/config agent_max_context_turns 8", "max_turns", 8),
        ("/config agent_max_context_tokens 30000", "max_tokens", 30_000),
        ("/config agent_max_context_turns 8 --here", "max_turns", 8),
    ],
)
async def test_the_bottom_line_follows_a_setting_at_once(
    tmp_path: Path, line: str, field: str, value: int
) -> None:
    """Point 29: the terminal's bar shows the usage that it was told last."""
    seen: list[Activity] = []
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, 1)
        watching = await bot.watches(seen)
        await bot.says(line)
        await bot.says("/version")
        await bot.server_said_something()
        watching.cancel()
    usages = [event.usage for event in seen if isinstance(event, ContextChanged)]
    assert usages, "nothing was told"
    assert getattr(usages[-1], field) == value


# --- scopes -----------------------------------------------------------------------------------


async def test_a_change_of_the_model_says_where_it_holds(tmp_path: Path) -> None:
    """Point 29."""
    async with run_bot(tmp_path, echo) as bot:
        said = (await bot.says("/model gpt-4o")).text
    assert "gpt-4o" in said
    assert "everywhere" in said or "all conversations" in said


async def test_a_model_is_changed_for_one_conversation(tmp_path: Path) -> None:
    """Point 29: and the other one keeps its own."""
    async with run_bot(tmp_path, echo) as bot:
        said = (await bot.says("/model gpt-4o --here")).text
        await bot.says("Hello")
        await bot.says("Hello", chat="other")
        asked = [body["model"] for body in answered(bot)]
    assert asked == ["gpt-4o", "gpt-4o-mini"]
    assert "in this conversation" in said


async def test_a_global_change_under_a_value_of_this_conversation_says_both(tmp_path: Path) -> None:
    """Point 29."""
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("/config agent_max_context_turns 8 --here")
        said = (await bot.says("/config agent_max_context_turns 9")).text
        here = await data(bot, "/config agent_max_context_turns")
        (other,) = [(await bot.says("/config agent_max_context_turns", chat="other")).data]
    assert here["value"] == 8
    assert other is not None
    assert other["value"] == 9
    assert re.search(r"\b9\b", said)
    assert re.search(r"\b8\b", said)
    assert "--here" in said


PRINTED = {"20k": 20_000, "12.4k": 12_400, "1.5M": 1_500_000, "30K": 30_000, "25,000": 25_000}


async def test_a_number_is_taken_as_the_bot_prints_it(tmp_path: Path) -> None:
    """Point 29."""
    taken = {}
    async with run_bot(tmp_path, echo) as bot:
        for typed in PRINTED:
            await bot.says(f"/config agent_max_context_tokens {typed}")
            taken[typed] = (await data(bot, "/config agent_max_context_tokens"))["value"]
    assert taken == PRINTED


async def test_what_is_no_number_is_refused_as_before(tmp_path: Path) -> None:
    """Point 29."""
    async with run_bot(tmp_path, echo) as bot:
        for typed in ("20kk", "k", "1.23456k", "20k tokens please", "-20k", "2,0k"):
            said = (await bot.says(f"/config agent_max_context_tokens {typed}")).text
            assert "1000 to 2000000" in said
        assert (await data(bot, "/config agent_max_context_tokens"))["value"] == 50_000


async def test_a_new_start_with_words_after_it_is_refused(tmp_path: Path) -> None:
    """Point 29: somebody may have meant a question, or another command."""
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, 2)
        said = (await bot.says("/new zzz")).text
        assert not await events(bot, "new")
        assert (await data(bot, "/context json"))["turns"] == ["t1", "t2"]
    assert "zzz" in said or "takes nothing" in said


# --- days -------------------------------------------------------------------------------------


async def test_a_day_without_a_memory_says_so_truly(tmp_path: Path) -> None:
    """Point 29: today's file is no file before the year 2020."""
    async with run_bot(tmp_path, echo, FEW_TURNS) as bot:
        await talk(bot, 6)
        (file,) = memories(tmp_path)
        said = (await bot.says("/memory 2020-01-01")).text
    assert "Nothing was written" in said
    assert not re.search(rf"last before[^.]*{file.stem}", said)


async def test_a_day_with_nothing_names_the_last_day_before_it(tmp_path: Path) -> None:
    """Point 29."""
    async with run_bot(tmp_path, echo, FEW_TURNS) as bot:
        await talk(bot, 6)
        (file,) = memories(tmp_path)
        said = (await bot.says("/memory 2099-01-01")).text
    assert f"/memory {file.stem}" in said


async def test_a_section_is_dated_by_when_things_were_said(tmp_path: Path) -> None:
    """Point 29: said three days ago, summarised today."""
    settings: dict[str, Any] = {"restore": "exact", "timezone": "UTC"}
    async with run_bot(tmp_path, echo, settings) as bot:
        await talk(bot, 3)
        said_at = datetime.fromisoformat(await first_message_at(bot))
        await bot.app.store.write(
            lambda db: db.execute_sql("UPDATE message SET at = at - ?", (3 * 86_400,))
        )
    async with run_bot(tmp_path, echo, settings | FEW_TURNS) as bot:
        await talk(bot, 3, start=4)
        await bot.says("/context compact")
        await settle(bot)
    days = [file.stem for file in memories(tmp_path)]
    assert str((said_at - timedelta(days=3)).date()) in days


async def first_message_at(bot: TestBot) -> str:
    """When the first message was said."""
    (row,) = await bot.app.store.read(
        lambda db: db.execute_sql("SELECT datetime(min(at), 'unixepoch') FROM message").fetchall()
    )
    return str(row[0])


def remembering(request: Received) -> Answer:
    """Summaries name all facts that they are made of, as a good summary does."""
    if "tools" not in request.body:
        facts = dict.fromkeys(re.findall(r"fact-\d+", request.raw.decode()))
        return Say(f"Known: {', '.join(facts)}.")
    return Say("I see.")


def diarist(request: Received) -> Answer:
    """Summaries that say what of them is new, as they are asked to."""
    if "tools" in request.body:
        return Say("I see.")
    task, material = (message["content"] for message in request.body["messages"])
    mark = re.search(r"=== .* ===", task)
    known, _, new = material.rpartition("What followed:")
    facts = [dict.fromkeys(re.findall(r"fact-\d+", text)) for text in (known, new)]
    diary = f"\n{mark[0]}\nSaid: {', '.join(facts[1])}." if mark else ""
    return Say(f"Known: {', '.join(facts[0] | facts[1])}.{diary}")


def forgetful(request: Received) -> Answer:
    """No summary can be had: what is written is an extract."""
    return Fail(400, {"message": "no"}) if "tools" not in request.body else Say("I see.")


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(remembering, id="a summary"),
        pytest.param(diarist, id="a summary with a diary"),
        pytest.param(forgetful, id="an extract"),
    ],
)
async def test_a_section_does_not_retell_the_earlier_ones(tmp_path: Path, model: Any) -> None:
    """Point 29: what stands under the heading of t3 to t4 is of t3 and t4; the context's own
    summary goes on from the one before."""
    async with run_bot(tmp_path, model, FEW_TURNS) as bot:
        for number in range(1, 12):
            await bot.says(f"Keep fact-{number}.")
            await settle(bot)
        front = texts(answered(bot)[-1])[0]
        paid = len(summarised(bot))
    (file,) = memories(tmp_path)
    sections = re.split(r"^## ", file.read_text(), flags=re.MULTILINE)[1:]
    assert paid > 2
    assert len(sections) > 2
    assert "fact-1" in sections[0]
    assert "fact-1" in front, "the context still knows it"
    assert "===" not in front
    if model is diarist:
        assert all("Said:" in section for section in sections[1:]), "in the model's own words"
    wrong = [heading(section) for section in sections if not told(section) <= heading(section)]
    assert not wrong, "what stands there is of other turns"


def heading(section: str) -> set[int]:
    """The turns that a section says it is about; fact-7 was said in t7."""
    first, last = re.findall(r"· t(\d+)(?: to t(\d+))?", section.partition("\n")[0])[-1]
    return set(range(int(first), int(last or first) + 1))


def told(section: str) -> set[int]:
    """The turns that it tells of."""
    return {int(number) for number in re.findall(r"fact-(\d+)", section)}
