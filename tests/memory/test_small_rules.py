"""Small rules of the memory and its record, each by itself."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest

from agent.models.sdk_types import left_out
from memory.context import emergency, summary
from memory.context.compaction import SummarySpec
from memory.context.limits import Limits
from memory.context.meter import PrefixTokens
from memory.context.summary_drafter import SummaryDrafter
from memory.context.summary_source import SummarySource
from memory.context.view import View
from memory.keys import ConversationKey
from memory.messages import Message
from memory.record import daily, fence
from memory.record.engines.sqlite import in_memory
from memory.record.summaries import Summary
from memory.turns import Entry, Turn
from plugins.cluster.record import FencedError
from plugins.jobs import record as jobs

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def turn(number: int, words: str = "Hi", tokens: int = 3) -> Turn:
    question = Entry(2 * number, number, Message("user", words), tokens, NOON)
    reply = Entry(2 * number + 1, number, Message("assistant", "Hello!"), 3, NOON)
    return Turn(number, (question, reply))


def test_packages_are_imported_without_their_contents_only_meanwhile() -> None:
    before = list(sys.meta_path)
    with left_out("parley_nothing"):
        assert len(sys.meta_path) == len(before) + 1
    assert sys.meta_path == before


def test_what_stands_for_several_turns_comes_at_the_last_of_them() -> None:
    turns = [turn(number) for number in (1, 2, 3)]
    found = summary.parts("recap", turns, {(1, 3): "Both."})
    assert [part.turns for part in found] == [(2,), (1, 3)]
    assert "Both." in found[1].text
    assert [part.turns for part in summary.parts("recap", turns[:1], {(1,): "One."})] == [(1,)]


def test_a_line_is_shortened_to_its_length() -> None:
    assert summary._shorten("one  two\nthree", 8) == "one two…"
    assert summary._shorten("one two", 7) == "one two"


def test_the_turns_that_a_step_leaves_alone_are_not_said_to_leave() -> None:
    turns = tuple(turn(number, tokens=900) for number in range(1, 5))
    view = View(turns, turns, PrefixTokens(100, 0), current=4, newest=4)
    limits = Limits().but(window=3_000, summary_tokens=100)
    plan = emergency.plan(view, limits, 1)
    after = view.apply(plan.change)
    assert plan.leaving == tuple(
        n for n in (1, 2, 3, 4) if n not in {t.number for t in after.turns}
    )
    assert 0 < len(plan.leaving) < 4


@pytest.mark.parametrize("chars", [9_999, 10_000, 10_001, 10_089, 10_090, 10_091, 30_000])
def test_the_second_step_leaves_ten_thousand_characters_and_shortens_once(chars: int) -> None:
    turns = (turn(1, "x" * chars, tokens=9_000), turn(2))
    view = View(turns, turns, PrefixTokens(100, 0), current=2, newest=2)
    plan = emergency.plan(view, Limits(), 2)
    after = view.apply(plan.change)
    assert after.messages[0].text.count("x") == min(chars, 10_000)
    assert emergency.plan(after, Limits(), 2).change.is_empty


def test_the_cost_of_a_run_is_added_to_that_of_its_turn() -> None:
    database = in_memory()
    run = jobs.begin_run(database, jobs.RunRow(1, 0.0, 0.0))
    jobs.end_run(database, run, "done", "", cost=0.5)
    found = jobs.find_run(database, run)
    assert found is not None
    assert found.cost == 0.5
    database.close()


def test_no_day_is_written_by_who_was_taken_for_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise FencedError("Another process has taken over.")

    monkeypatch.setattr(fence, "confirm", refuse)
    section = daily.Section(ConversationKey("pipe/main", "pipe-main"), NOON, "t1", "Hi.", 1)
    with pytest.raises(FencedError):
        daily.append(tmp_path, section)


@pytest.mark.parametrize("stood", [{"focus": "names", "edits": 0}, {"focus": "", "edits": 1}])
def test_a_summary_that_keeps_something_above_all_is_not_told_anew(stood: dict[str, Any]) -> None:
    """Nor one that a person has edited: its turns are told as it tells them."""
    summaries = [SimpleNamespace(**stood)]
    source = SimpleNamespace(
        stood=summaries,
        parts=lambda style, told: ("as it stood",) if told else ("turn 1", "turn 2"),
        material=str,
    )
    drafter = SimpleNamespace(_services=SimpleNamespace(meter=SimpleNamespace(count=len)))
    found, _ = SummaryDrafter._measure(drafter, source, "recap", Limits())  # type: ignore[arg-type]
    assert [str(part) for part in found] == ["as it stood"]


async def test_a_summary_of_turns_that_were_all_taken_away_asks_no_model() -> None:
    """It says what was summarised before, as it stood."""
    drafter = SummaryDrafter(
        cast("Any", None), ConversationKey("pipe/main", "pipe-main"), cast("Any", None)
    )
    prior = Summary((1,), 0, "", "The harbour is in Split.", 8, "m")
    for style in get_args(summary.Style):
        spec = SummarySpec((2,), 0, "", frozenset(), style)
        assert (await drafter.draft(spec, SummarySource(()), Limits())).model == ""
        draft = await drafter.draft(spec, SummarySource((), prior), Limits())
        assert style in summary.OUT_OF_CONTEXT or prior.text in draft.text


@pytest.mark.parametrize("longest", [*range(1, 200, 7), 10_000])
@pytest.mark.parametrize("style", ["reminder", "rollup"])
def test_lines_that_have_no_room_are_left_out_whole(style: summary.Style, longest: int) -> None:
    """Of recent activity the oldest; of a log the newest, since the older ones were told before."""
    meter = SimpleNamespace(count=lambda text: len(text.split()), clip=lambda text, n: text[:n])
    drafter = SummaryDrafter(
        cast("Any", SimpleNamespace(meter=meter)), cast("Any", None), cast("Any", None)
    )
    turns = [turn(number, f"Question {number} of several words") for number in range(1, 30)]
    whole = summary.without_model(style, turns, "")
    lines, shown = whole.splitlines(), drafter._whole_lines(whole, longest, style).splitlines()
    head = summary.REMINDER_HEAD if style == "reminder" else 0
    if longest < meter.count("\n".join((*lines[:head], lines[-1] if head else lines[0]))):
        assert len(shown) <= max(1, head - 1), "as much of the head as fits"
        return
    assert meter.count("\n".join(shown)) <= longest
    rest = len(shown) - head
    assert shown == [*lines[:head], *(lines[-rest:] if head else lines[:rest])]
