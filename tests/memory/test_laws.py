"""Tests of the laws of the context, through the store and over restarts."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memory.context.change import Actor, Change, ViewEvent
from memory.context.emergency import RequestTooLong
from memory.context.forms import (
    CLEARED,
    SUMMARY,
    WHOLE,
    Forms,
    TurnForm,
    assign_form,
    overlay,
    turns_of,
    up_to,
    without_turns,
)
from memory.context.layout import Layout, replay
from memory.context.strategies import STRATEGIES
from memory.conversation import Conversation
from memory.forecaster import PATIENCE
from memory.record.transcript import insert_event
from memory.summary_editor import EditRefused
from tests.memory.harness import KEY, MemoryHarness, Obedient

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
NUMBERS = st.integers(1, 12)
TURNS = st.frozensets(NUMBERS, min_size=1, max_size=4)
FORM = st.sampled_from([WHOLE, SUMMARY, TurnForm("gone", CLEARED), TurnForm("line", 3)])


@st.composite
def changes(draw: st.DrawFn) -> Change:
    forms: Forms = ()
    for _ in range(draw(st.integers(1, 3))):
        forms = overlay(forms, assign_form(draw(TURNS), draw(FORM)))
    return Change(forms, pin=draw(TURNS), after=draw(st.integers(0, 2)))


def sum_of(made: Sequence[Change]) -> Layout:
    layout = Layout()
    for number, change in enumerate(made, 1):
        layout = layout.apply(change, number)
    return layout


@given(st.lists(changes(), max_size=6))
def test_a_turn_has_the_newest_form_that_it_was_given(made: list[Change]) -> None:
    layout = sum_of(made)
    for turn in range(1, 13):
        given_to = [n for n, c in enumerate(made, 1) if turn in turns_of(c.forms)]
        newest = given_to[-1] if given_to else 0
        form = Layout().apply(made[newest - 1], newest).form(turn) if newest else WHOLE
        assert layout.form(turn) == form


@given(st.lists(changes(), max_size=6), NUMBERS)
def test_what_is_kept_of_some_turns_is_what_they_had(made: list[Change], last: int) -> None:
    forms = sum_of(made).forms
    rest = without_turns(forms, range(last + 1, 13))
    assert turns_of(rest) == turns_of(up_to(forms, last))
    some = Layout(forms=up_to(forms, last))
    assert [some.form(n) for n in range(1, last + 1)] == [
        Layout(forms=forms).form(n) for n in range(1, last + 1)
    ]


@given(changes())
def test_a_change_is_read_as_it_was_stored(change: Change) -> None:
    assert Change.from_json(orjson.loads(orjson.dumps(change.to_json()))) == change


SAY = st.tuples(st.just("say"), st.integers(1, 60))
ACT: st.SearchStrategy[tuple[Any, ...]] = st.one_of(
    st.tuples(st.sampled_from(["compact", "free", "clear", "new", "edit"])),
    st.tuples(st.just("rule"), st.integers(1, 9)),
    st.tuples(st.sampled_from(["pin", "unpin", "drop", "range", "free_range", "expand"]), TURNS),
)
SETTING: st.SearchStrategy[tuple[Any, ...]] = st.one_of(
    st.tuples(st.just("strategy"), st.sampled_from(sorted(STRATEGIES))),
    st.tuples(st.just("max_turns"), st.integers(2, 8)),
    st.tuples(st.just("window"), st.sampled_from([4_000, 128_000])),
    st.tuples(st.just("restart")),
)
LIFE = st.lists(st.one_of(SAY, SAY, SAY, ACT, SETTING), min_size=4, max_size=14)


async def act(harness: MemoryHarness, conversation: Conversation, step: tuple[Any, ...]) -> None:
    editor, compactor = conversation.editor, conversation.compactor
    match step:
        case ("compact",):
            await compactor.compact_for_person()
        case ("free",):
            await compactor.free()
        case ("clear" | "new" as kind,):
            await editor.clear(kind)
        case ("edit",):
            try:
                await conversation.summary.edit("It was about Lisbon.")
            except EditRefused:
                return
        case ("rule", keep):
            await compactor.compact_by_rule(keep_recent=keep)
        case ("range", turns):
            await compactor.compact_range(turns)
        case ("free_range", turns):
            await compactor.free_range(turns)
        case (name, turns):
            await getattr(editor, name)(turns)


async def live(folder: Path, steps: list[tuple[Any, ...]], last: tuple[Any, ...]) -> None:
    harness = MemoryHarness(folder)
    await harness.open()
    try:
        for step in steps:
            conversation = await harness.conversation()
            match step:
                case ("say", words):
                    try:
                        await harness.says("word " * words)
                    except RequestTooLong:
                        return
                case ("restart",):
                    await harness.restart()
                case ("strategy" | "max_turns" | "window" as name, value):
                    harness.limit(**{name: value})
                case _:
                    await act(harness, conversation, step)
        await harness.settle()
        await check(harness, last)
    finally:
        await harness.close()


async def sent(harness: MemoryHarness) -> list[dict[str, Any]]:
    return (await harness.conversation()).context.view().to_wire(harness.frame)


async def check(harness: MemoryHarness, last: tuple[Any, ...]) -> None:
    before, known = await sent(harness), len(await (await harness.conversation()).context.history())
    await act(harness, await harness.conversation(), last)
    after, events = await sent(harness), await (await harness.conversation()).context.history()
    if len(events) == known:
        assert after == before
        return
    await (await harness.conversation()).editor.undo(events[-1].id)
    assert await sent(harness) == before, "undo"
    await (await harness.conversation()).editor.redo()
    assert await sent(harness) == after, "redo"
    if not (await harness.conversation()).context.waits_for_strategy:
        await harness.restart()
        assert await sent(harness) == after, "a restart"
        await switch_and_back(harness, after)


async def switch_and_back(harness: MemoryHarness, after: list[dict[str, Any]]) -> None:
    state = (await harness.conversation()).context
    if not state.newest:
        return
    own = harness.limits.strategy
    other = "full" if own != "full" else "trim"
    async with state.changing:
        await state.switch(other, await state.history())
        await state.switch(own, await state.history())
    assert await sent(harness) == after, "away to another strategy and back"
    branch = await harness.conversations.fork(KEY, state.newest)
    forked = (await harness.conversation(branch)).context.view().to_wire(harness.frame)
    assert forked == after, "a branch at the end"


# Shrinking a conversation takes minutes; the steps of a failing one are short enough to read.
@settings(max_examples=40, phases=(Phase.explicit, Phase.generate))
@given(LIFE, ACT)
def test_an_undo_a_redo_a_restart_a_switch_and_a_branch_are_exact(
    steps: list[tuple[Any, ...]], last: tuple[Any, ...]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(live(Path(folder), steps, last))


async def test_an_event_over_very_many_turns_is_small(tmp_path: Path) -> None:
    harness = MemoryHarness(tmp_path)
    await harness.open()
    await harness.says("Hello.")
    state = (await harness.conversation()).context
    turns = tuple(range(1, 50_001))
    change = Change(assign_form(turns, SUMMARY))
    event = ViewEvent(NOON, "view", "strategy", "", change, "slim", leaving=turns)
    row = await harness.store.write(lambda db: insert_event(db, state.row, event))
    query = "SELECT change, leaving, reason FROM view_event WHERE id = ?"
    (found,) = await harness.store.read(lambda db: db.execute_sql(query, (row,)).fetchall())
    assert sum(map(len, found)) < 1_000
    (back,) = await state.history()
    assert (back.change, back.leaving) == (event.change, turns)
    await harness.close()


class Numbered(Obedient):
    """A summarizer whose answers are SUM1, SUM2 and so on."""

    def __init__(self) -> None:
        super().__init__(lambda request: f"SUM{len(self.requests)}")


async def talk(harness: MemoryHarness, first: int, last: int) -> Conversation:
    for number in range(first, last + 1):
        await harness.says(f"question {number} " + "word " * 200, reply="word " * 100)
    return await harness.conversation()


async def test_a_yes_to_a_compaction_leaves_what_was_dropped_or_opened_since(
    tmp_path: Path,
) -> None:
    harness = MemoryHarness(tmp_path, summarizer=Numbered())
    await harness.open()
    harness.limit(max_turns=8, compaction_approval="ask")
    conversation = await talk(harness, 1, 5)
    await conversation.compactor.compact_for_person()
    await talk(harness, 6, 14)
    await harness.settle()
    await conversation.editor.expand([2])
    await conversation.editor.drop({14})
    waiting = conversation.compactor.approval.current
    assert waiting is not None
    assert 2 not in waiting.plan.leaving
    await conversation.compactor.approve()
    assert conversation.context.layout.removed_turns.has(14)
    assert conversation.context.layout.form(2).kind == "whole"
    await harness.close()


async def test_a_compaction_that_waits_says_why_it_waits_no_longer(tmp_path: Path) -> None:
    harness = MemoryHarness(tmp_path, summarizer=Numbered())
    await harness.open()
    harness.limit(max_turns=8, compaction_approval="ask")
    conversation = await talk(harness, 1, 9)
    await harness.settle()
    approval = conversation.compactor.approval
    waiting = approval.current
    assert waiting is not None
    unasked, late = (replace(waiting, asked_at=at) for at in (0.0, waiting.asked_at - PATIENCE))
    full = "the window is full"
    assert [approval.due_reason(one) for one in (unasked, waiting)] == ["", ""]
    assert approval.due_reason(late) == "nobody answered in ten minutes"
    harness.limit(window=1_000)
    assert [approval.due_reason(one) for one in (unasked, waiting)] == [full, full]
    await harness.close()


async def test_while_a_summary_is_written_the_one_before_what_was_undone_is_shown(
    tmp_path: Path,
) -> None:
    harness = MemoryHarness(tmp_path, summarizer=Numbered())
    await harness.open()
    harness.limit(strategy="full", keep_recent=8)
    conversation = await talk(harness, 1, 4)
    await conversation.compactor.compact_for_person()
    await talk(harness, 5, 9)
    harness.summarizer.gate = asyncio.Event()
    first = await conversation.compactor.free()
    await talk(harness, 10, 13)
    assert await conversation.compactor.free() is not None
    assert first is not None
    await conversation.editor.undo(first.id)
    assert "SUM1" in conversation.context.view().front
    harness.summarizer.gate.set()
    await harness.close()


@pytest.mark.parametrize("actor", ["person", "emergency"])
async def test_only_what_a_person_takes_back_holds_compactions_off(
    tmp_path: Path, actor: Actor
) -> None:
    harness = MemoryHarness(tmp_path, summarizer=Numbered())
    await harness.open()
    harness.limit(strategy="full", keep_recent=8)
    conversation = await talk(harness, 1, 9)
    event = await conversation.compactor.free()
    assert event is not None
    await conversation.context.set_undone("undo", event, actor, "a test wants it")
    for _ in range(2):
        context = conversation.context
        held = conversation.compactor.forecaster.is_held(context.view(), context.limits)
        assert held == (actor == "person")
        assert context.replayed == replay(await context.history(), "full")
        await harness.restart()
        conversation = await harness.conversation()
    await harness.close()


async def test_all_of_a_half_summarised_turn_can_be_opened(tmp_path: Path) -> None:
    harness = MemoryHarness(tmp_path, summarizer=Numbered())
    await harness.open()
    harness.limit(strategy="summarize")
    conversation = await talk(harness, 1, 4)
    await conversation.compactor.compact_by_rule(keep_recent=3)
    assert conversation.context.layout.form(3).kind == "tail"
    await conversation.editor.expand([1, 2])
    assert "SUM1" in conversation.context.view().front, "it has the beginning of t3"
    opened = await conversation.editor.expand([3])
    assert opened.back == (3,)
    assert conversation.context.view().front == ""
    assert [turn.number for turn in conversation.context.view().turns] == [1, 2, 3, 4]
    await harness.close()


async def test_the_log_of_slim_has_no_line_of_what_was_rolled_off_behind_a_pinned_turn(
    tmp_path: Path,
) -> None:
    harness = MemoryHarness(tmp_path)
    await harness.open()
    harness.limit(strategy="slim", fold_turns=1, full_turns=3, max_terse_entries=5)
    await harness.says("the first")
    conversation = await harness.conversation()
    await conversation.editor.pin({1})
    for number in range(2, 40):
        await harness.says(f"question {number}")
    assert len(conversation.context.view().lines) <= 1 + 5 + 3 + 1
    assert await conversation.editor.pin({999}) is None
    await harness.close()


async def test_a_summary_that_is_written_for_turns_that_are_back_is_not_shown(
    tmp_path: Path,
) -> None:
    harness = MemoryHarness(tmp_path, summarizer=Numbered())
    await harness.open()
    harness.limit(strategy="full", keep_recent=8)
    conversation = await talk(harness, 1, 4)
    await conversation.compactor.compact_for_person()
    await talk(harness, 5, 9)
    harness.summarizer.gate = asyncio.Event()
    event = await conversation.compactor.free()
    assert event is not None
    assert (await conversation.editor.expand(event.leaving)).left == ()
    harness.summarizer.gate.set()
    await harness.settle()
    await conversation.turns.fitter.flush()
    assert "SUM1" in conversation.context.view().front
    await harness.close()


@pytest.mark.parametrize("strategy", ["summarize", "trim"])
async def test_no_summary_has_a_turn_that_a_person_dropped(tmp_path: Path, strategy: str) -> None:
    """Under `summarize` the summary has the first half of t3, and its second half is in context;
    under `trim` t3 was summarised whole and opened again."""
    harness = MemoryHarness(tmp_path, summarizer=Numbered())
    await harness.open()
    harness.limit(strategy=strategy)
    await talk(harness, 1, 2)
    await (await harness.conversation()).compactor.compact_by_rule("summarize", keep_recent=1)
    conversation = await talk(harness, 3, 4)
    if strategy == "summarize":
        await conversation.compactor.compact_by_rule(keep_recent=3)
        assert conversation.context.layout.form(3).kind == "tail"
    else:
        await conversation.compactor.compact_for_person()
        await conversation.editor.expand([3])
    assert "SUM2" in conversation.context.view().front
    before = await sent(harness)
    event = await conversation.editor.drop({3})
    assert event is not None
    front = conversation.context.view().front
    assert "SUM2" not in front
    assert "SUM1" in front, "it has not read t3"
    after = await sent(harness)
    assert "question 3" not in str(after)
    assert event.tokens_after == conversation.context.view().tokens
    await harness.restart()
    assert await sent(harness) == after
    await (await harness.conversation()).editor.undo()
    assert await sent(harness) == before
    await (await harness.conversation()).editor.redo()
    assert await sent(harness) == after
    await harness.close()
