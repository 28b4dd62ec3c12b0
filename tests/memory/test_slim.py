"""The strategies `slim` and `full`: the activity log, folding, rolling up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from memory.context.settings import Limits
from memory.context.terse import Line, as_text
from memory.context.view import ACKNOWLEDGED, LOG, View
from memory.ledger import Spent
from memory.messages import Message
from tests.memory.harness import FRAME, MemoryHarness

DOCUMENTED = """\
[t1 2024-01-15T10:30] assistant: created dashboard with shopping, todo, schedule sections
[t2 2024-01-15T10:32] assistant: added 3 items to shopping list
[t3 2024-01-15T10:35] assistant: marked 2 todos as complete
[t4 2024-01-15T10:38] assistant: reorganised dashboard layout, moved schedule to top
[t5 2024-01-15T10:40] assistant: added weather widget using fetch API"""


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[MemoryHarness]:
    harness = MemoryHarness(tmp_path, Limits().but(strategy="slim", fold_turns=1))
    await harness.open()
    yield harness
    await harness.close()


async def talk(harness: MemoryHarness, turns: range) -> View:
    """Record turns with their own tag; return the content of the last request."""
    for number in turns:
        conversation = await harness.conversation()
        turn = await conversation.turns.open(f"question {number}")
        view = await turn.fit(FRAME)
        await turn.record(Message("assistant", f"answer {number}", terse=f"did {number}"))
    return view


def sent(view: View) -> list[dict[str, Any]]:
    return view.to_wire(FRAME)


def test_the_documents_log_of_five_lines() -> None:
    minutes = (30, 32, 35, 38, 40)
    words = [line.partition(": ")[2] for line in DOCUMENTED.splitlines()]
    lines = [
        Line(number, datetime(2024, 1, 15, 10, minute, 59, tzinfo=UTC), "assistant", text)
        for number, (minute, text) in enumerate(zip(minutes, words, strict=True), 1)
    ]
    assert "\n".join(map(as_text, lines)) == DOCUMENTED


async def test_the_documented_shape_log_acknowledgement_full_turns_question(
    harness: MemoryHarness,
) -> None:
    wire = sent(await talk(harness, range(1, 7)))
    assert [message["role"] for message in wire] == [
        *("system", "user", "assistant"),
        *("user", "assistant") * 3,
        "user",
    ]
    log_lines = wire[1]["content"].splitlines()
    assert log_lines[0] == LOG == "[Context -- Activity Log]"
    assert [line[:3] for line in log_lines[1:]] == ["[t1", "[t2"]
    assert log_lines[1].endswith("] assistant: did 1")
    assert wire[2]["content"] == ACKNOWLEDGED
    assert wire[3]["content"] == "question 3"
    assert wire[-1]["content"] == "question 6"


async def test_100_turns_send_50_lines_and_3_full_turns(harness: MemoryHarness) -> None:
    view = await talk(harness, range(1, 101))
    assert len(view.log) == 50
    assert [turn.number for turn in view.turns] == [97, 98, 99, 100]
    assert [line.turn for line in view.log] == list(range(47, 97))


async def test_the_lines_that_the_log_cannot_hold_are_in_the_daily_file(
    harness: MemoryHarness,
) -> None:
    harness.limit(max_terse_entries=2)
    await talk(harness, range(1, 8))
    await harness.settle()
    memory = (await harness.conversation()).memory
    notes = [note.text for day in await memory.days() for note in await memory.notes(day)]
    assert [text.rpartition(": ")[2].strip() for text in notes] == ["did 1"]
    assert harness.summarizer.requests == [], "lines need no model"


async def test_k_can_be_changed_from_turn_to_turn(harness: MemoryHarness) -> None:
    await talk(harness, range(1, 7))
    harness.limit(full_turns=1)
    assert len((await talk(harness, range(7, 8))).turns) == 2
    harness.limit(full_turns=5)
    view = await talk(harness, range(8, 9))
    assert [turn.number for turn in view.turns] == [3, 4, 5, 6, 7, 8], "what has folded comes back"
    assert [line.turn for line in view.log] == [1, 2]
    assert sent(view)[3]["content"] == "question 3"
    harness.limit(full_turns=10)
    assert len((await talk(harness, range(9, 10))).turns) == 9
    events = await (await harness.conversation()).context.history()
    await talk(harness, range(10, 11))
    assert len(await (await harness.conversation()).context.history()) == len(events), "said once"


async def test_what_a_raised_k_brings_back_survives_a_restart(harness: MemoryHarness) -> None:
    harness.limit(full_turns=1)
    await talk(harness, range(1, 7))
    harness.limit(full_turns=4, max_terse_entries=1)
    await talk(harness, range(7, 9))
    harness.limit(max_terse_entries=2)
    before = sent(await talk(harness, range(9, 10)))
    assert [line[:3] for line in before[1]["content"].splitlines()[1:]] == ["[t3", "[t4"]
    await harness.restart()
    after = sent((await harness.conversation()).context.view())
    assert after[: len(before)] == before


async def test_lines_that_come_back_and_leave_again_are_told_once(harness: MemoryHarness) -> None:
    harness.limit(full_turns=1, max_terse_entries=2)
    await talk(harness, range(1, 8))
    harness.limit(max_terse_entries=5)
    assert len((await talk(harness, range(8, 9))).log) == 5
    harness.limit(max_terse_entries=2)
    await talk(harness, range(9, 12))
    await harness.settle()
    memory = (await harness.conversation()).memory
    texts = [note.text for day in await memory.days() for note in await memory.notes(day)]
    notes = "\n".join((*texts, ""))
    assert [notes.count(f"did {number}\n") for number in range(1, 8)] == [1] * 7


@pytest.mark.parametrize("seed", range(12))
async def test_raised_settings_send_what_they_would_have_sent_from_the_beginning(
    tmp_path: Path, seed: int
) -> None:
    chance = Random(seed)
    before = {"full_turns": chance.randint(1, 5), "max_terse_entries": chance.randint(1, 6)}
    after = {name: value + chance.randint(0, 4) for name, value in before.items()}
    shown = []
    for number, settings in enumerate((before, after)):
        harness = MemoryHarness(tmp_path / str(number))
        harness.limit(strategy="slim", fold_turns=1, **settings)
        await harness.open()
        await talk(harness, range(1, 16))
        harness.limit(**after)
        view = await talk(harness, range(16, 17))
        shown.append(([line.turn for line in view.log], [turn.number for turn in view.turns]))
        await harness.close()
    assert shown[0] == shown[1]


async def test_a_raised_k_brings_back_nothing_that_a_person_put_away(
    harness: MemoryHarness,
) -> None:
    harness.limit(full_turns=1)
    await talk(harness, range(1, 5))
    conversation = await harness.conversation()
    await conversation.editor.clear()
    await talk(harness, range(5, 9))
    await conversation.editor.drop({6})
    harness.limit(full_turns=10)
    view = await talk(harness, range(9, 10))
    assert [turn.number for turn in view.turns] == [5, 7, 8, 9]
    assert view.log == ()
    assert await conversation.editor.undo() is not None, "the drop"
    assert await conversation.editor.undo() is not None, "the clear"
    view = await talk(harness, range(10, 11))
    assert [turn.number for turn in view.turns] == [3, 4, 5, 7, 8, 9, 10]
    assert view.logged == (1, 2, 6), "as they were before"
    view = await talk(harness, range(11, 16))
    assert [turn.number for turn in view.turns][-11:] == list(range(5, 16))


async def test_a_roll_up_is_undone_also_after_folds(harness: MemoryHarness) -> None:
    harness.limit(fold_turns=4, max_terse_entries=10)
    await talk(harness, range(1, 22))
    await harness.settle()
    conversation = await harness.conversation()
    assert conversation.context.view().log[0].turn > 1
    assert await conversation.editor.undo() is not None
    view = conversation.context.view()
    assert view.preface is None
    assert view.log[0].turn == 1, "what the block stood for"
    assert {line.turn for line in view.log} | {t.number for t in view.turns} == set(range(1, 22))


async def test_the_model_sees_its_own_tags_in_full_turns(harness: MemoryHarness) -> None:
    wire = sent(await talk(harness, range(1, 3)))
    assert wire[2]["content"] == "answer 1\n<terse>did 1</terse>"
    harness.limit(strategy="full")
    assert sent(await talk(harness, range(3, 4)))[2]["content"] == "answer 1"


async def test_auto_folds_several_turns_when_it_pays_once_the_provider_caches(
    harness: MemoryHarness,
) -> None:
    harness.limit(fold_turns=0)
    assert len((await talk(harness, range(1, 8))).turns) == 4
    cached = Spent("answer", "m", 100, 50, 1, 0.0)
    sizes = []
    for _ in range(32):
        turn = await (await harness.conversation()).turns.open("word " * 200)
        sizes.append(len((await turn.fit(FRAME)).turns))
        await turn.record(Message("assistant", "word " * 400, terse="did it"), spent=cached)
    assert (sizes[0], sizes[1]) == (4, 5)
    folds = [before for before, after in pairwise(sizes) if after < before]
    assert len(folds) > 2
    assert set(folds[1:]) == {10}, "seven fold where all turns are of one size"


async def test_where_several_turns_fold_the_log_tells_the_time_once_an_hour(
    harness: MemoryHarness,
) -> None:
    harness.limit(fold_turns=4)
    view = await talk(harness, range(1, 9))
    assert view.log[0].text.endswith("] assistant: did 1")
    assert [line.brief for line in view.log] == [
        f"t{number} did {number}" for number in range(1, 5)
    ]
    for before, line in pairwise(view.log):
        assert (line.text == line.brief) == (line.hour == before.hour)
    assert sent(view)[1]["content"].splitlines() == [LOG, *(line.text for line in view.log)]
    assert view.front_tokens < sum(line.tokens for line in view.lines)


async def test_where_several_turns_fold_only_the_newest_replies_have_their_lines(
    harness: MemoryHarness,
) -> None:
    harness.limit(fold_turns=4)
    wire = sent(await talk(harness, range(1, 9)))
    replies = [m["content"] for m in wire[3:] if m["role"] == "assistant"]
    assert replies == ["answer 5", "answer 6", "answer 7\n<terse>did 7</terse>"]
    wire = sent(await talk(harness, range(9, 10)))
    assert wire[-2]["content"] == "answer 8\n<terse>did 8</terse>"
    await harness.restart()
    after = sent((await harness.conversation()).context.view())
    assert after[: len(wire)] == wire


async def test_a_log_that_is_too_long_rolls_up_into_one_block_but_for_its_newest_quarter(
    harness: MemoryHarness,
) -> None:
    harness.limit(fold_turns=4, max_terse_entries=10)
    harness.summarizer.answer = lambda request: "They did 1 to 10."
    view = await talk(harness, range(1, 17))
    assert [line.turn for line in view.log] == [11, 12]
    await harness.settle()
    assert harness.summarizer.requests[0].text.startswith("[t1 ")
    wire = sent(await talk(harness, range(17, 18)))
    assert wire[1]["content"].startswith("<summary-of-earlier-turns>\nThey did 1 to 10.\n")
    memory = (await harness.conversation()).memory
    notes = [note.text for day in await memory.days() for note in await memory.notes(day)]
    assert len(notes) == 1
    assert "They did 1 to 10." in notes[0]


async def test_a_roll_up_without_a_model_loses_no_word(harness: MemoryHarness) -> None:
    harness.limit(fold_turns=2, max_terse_entries=2, full_turns=1)
    harness.summarizer.answer = lambda request: ""
    for number in range(1, 9):
        turn = await (await harness.conversation()).turns.open(f"question {number}")
        view = await turn.fit(FRAME)
        line = " ".join(f"word{number}x{n}" for n in range(60))
        await turn.record(Message("assistant", f"reply {number}", terse=line))
        await harness.settle()
    memory = (await harness.conversation()).memory
    notes = "\n".join([n.text for day in await memory.days() for n in await memory.notes(day)])
    assert "word1x0" in notes, "the first line was rolled up"
    known = notes + str(sent(view))
    assert [w for n in range(1, 8) for x in range(60) if (w := f"word{n}x{x}") not in known] == []


async def test_a_rolled_up_block_that_was_prepared_comes_with_its_fold(
    harness: MemoryHarness,
) -> None:
    harness.limit(fold_turns=4, max_terse_entries=10)
    for number in range(1, 17):
        view = await talk(harness, range(number, number + 1))
        await harness.settle()
    assert view.preface is not None
    assert view.preface.text == "They talked."


async def test_clear_empties_the_log_and_undo_brings_it_back(harness: MemoryHarness) -> None:
    await talk(harness, range(1, 7))
    conversation = await harness.conversation()
    before = sent(conversation.context.view())
    cleared = await conversation.editor.clear()
    assert cleared.turns == (1, 2, 3, 4, 5, 6)
    assert sent(conversation.context.view()) == sent(replace(conversation.context.view(), lines=()))
    assert len(sent(conversation.context.view())) == 1
    await conversation.editor.undo()
    assert sent(conversation.context.view()) == before


async def test_new_summarises_what_stands_in_the_log_too(harness: MemoryHarness) -> None:
    await talk(harness, range(1, 7))
    await (await harness.conversation()).editor.clear("new")
    await harness.settle()
    (request,) = harness.summarizer.requests
    assert "question 1" in request.text
    assert "question 6" in request.text


async def test_compact_takes_the_log_into_the_summary(harness: MemoryHarness) -> None:
    told = "They talked of questions 10, 11 and 12, and of others up to question 18."
    harness.summarizer.answer = lambda request: told
    await talk(harness, range(1, 20))
    conversation = await harness.conversation()
    made = await conversation.compactor.compact_for_person()
    assert made is not None
    assert made.event is not None
    assert made.summary is not None
    assert made.summary.turns == tuple(range(1, 19))
    assert conversation.context.view().log == ()
    wire = sent(await talk(harness, range(20, 21)))
    assert wire[1]["content"] == f"<summary-of-earlier-turns>\n{told}\n</summary-of-earlier-turns>"


async def test_a_pinned_turn_stays_in_full_and_a_dropped_one_leaves_the_log(
    harness: MemoryHarness,
) -> None:
    conversation = await harness.conversation()
    await talk(harness, range(1, 3))
    await conversation.editor.pin({2})
    await talk(harness, range(3, 8))
    await conversation.editor.drop({1})
    view = await talk(harness, range(8, 9))
    assert [turn.number for turn in view.turns] == [2, 5, 6, 7, 8]
    assert [line.turn for line in view.log] == [3, 4]


async def test_full_sends_everything_and_slim_folds_it_again(harness: MemoryHarness) -> None:
    await talk(harness, range(1, 7))
    harness.limit(strategy="full")
    view = await talk(harness, range(7, 8))
    assert len(view.turns) == 7
    assert not view.log
    harness.limit(strategy="slim")
    view = await talk(harness, range(8, 9))
    assert (len(view.turns), len(view.log)) == (4, 4)
    assert (await (await harness.conversation()).context.history())[-1].tokens_after < 400


async def test_forgotten_turns_leave_the_log(harness: MemoryHarness) -> None:
    await talk(harness, range(1, 9))
    conversation = await harness.conversation()
    await conversation.forget({2})
    assert [line.turn for line in conversation.context.view().log] == [1, 3, 4]


# --- small windows ---


async def test_the_log_holds_no_more_than_its_share_of_a_small_window(
    harness: MemoryHarness,
) -> None:
    harness.limit(window=4_096)
    for number in range(1, 60):
        conversation = await harness.conversation()
        turn = await conversation.turns.open(f"question {number}")
        view = await turn.fit(FRAME)
        await turn.record(Message("assistant", "answer", terse=f"did {number} " + "and so on " * 9))
        assert sum(line.tokens for line in view.log) <= harness.limits.log_tokens == 512
    assert len(view.log) > 5
    events = await conversation.context.history()
    assert "the log holds at most 512 tokens" in events[-1].reason
    assert {event.actor for event in events} == {"strategy"}


@pytest.mark.parametrize("fold_turns", [1, 7])
async def test_turns_that_have_no_room_in_full_fold_before_any_is_lost(
    harness: MemoryHarness, fold_turns: int
) -> None:
    harness.limit(window=4_096, fold_turns=fold_turns)
    for number in range(1, 12):
        (view, *_) = await harness.says(f"question {number}", ["word " * 600] * 2)
        assert view.tokens <= harness.limits.ceiling
        known = {turn.number for turn in view.turns} | set(view.logged)
        assert known == set(range(1, number + 1)), "each turn is there, or its line is"
    events = await (await harness.conversation()).context.history()
    assert {event.actor for event in events} == {"strategy"}
    assert any("the window has room for" in event.reason for event in events)


@pytest.mark.parametrize("seed", range(12))
async def test_a_preview_shows_what_raised_settings_bring_back(
    harness: MemoryHarness, seed: int
) -> None:
    chance = Random(seed)
    harness.limit(
        full_turns=chance.randint(1, 3),
        max_terse_entries=chance.randint(1, 5),
        fold_turns=chance.choice([1, 2]),
    )
    await talk(harness, range(1, 10))
    conversation = await harness.conversation()
    await conversation.editor.pin([chance.randint(1, 9)])
    await conversation.editor.drop([chance.randint(1, 9)])
    if chance.random() < 0.5:
        await conversation.compactor.compact_range([*range(2, 5)])
    await harness.settle()  # otherwise a summary written meanwhile would change the request
    harness.limit(full_turns=chance.randint(2, 6), max_terse_entries=chance.randint(3, 20))
    before = conversation.context.replayed
    preview = await conversation.compactor.forecaster.preview()
    assert conversation.context.replayed is before, "asking changes nothing"
    turn = await conversation.turns.open("question 10")
    view = await turn.fit(FRAME)
    assert sent(preview.then)[:-1] == sent(view)[:-1]
