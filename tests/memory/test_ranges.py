"""Summaries by their numbers; a summary of any range, in its place; and its expansion."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from memory.conversation import Conversation
from memory.keys import ConversationKey
from memory.messages import Message, ToolCall
from memory.record import summaries
from memory.record.engines.sqlite import connect
from memory.record.migrations import MIGRATIONS
from memory.record.store import Store
from tests.memory.harness import KEY, MemoryHarness

pytestmark = pytest.mark.databases

OTHER = ConversationKey("pipe/other", "pipe-other")


async def names(harness: MemoryHarness, conversation: Conversation) -> list[str]:
    row = conversation.context.row
    return [s.name for s in await harness.store.read(lambda db: summaries.list_numbered(db, row))]


async def test_each_conversation_numbers_its_summaries_and_none_twice(
    harness: MemoryHarness,
) -> None:
    for key in (OTHER, KEY):
        for _ in range(2):
            for number in range(3):
                await harness.says(f"a long question {number} " * 40, key=key)
            await (await harness.conversation(key)).compactor.compact_for_person()
    mine, other = await harness.conversation(), await harness.conversation(OTHER)
    assert await names(harness, mine) == await names(harness, other) == ["s1", "s2"]
    await harness.settle()
    await mine.forget()
    for number in range(3):
        await harness.says(f"a long question {number} " * 40)
    await mine.compactor.compact_for_person()
    assert await names(harness, mine) == ["s3"]


async def test_what_is_written_for_the_daily_memory_alone_has_no_number(
    harness: MemoryHarness,
) -> None:
    harness.limit(strategy="slim", full_turns=1, fold_turns=1, max_terse_entries=1)
    harness.summarizer.answer = lambda request: ""
    for number in range(6):
        await harness.says(f"question {number}")
        await harness.settle()
    conversation = await harness.conversation()
    kept = await harness.store.read(
        lambda db: [s for (s,) in db.execute_sql("SELECT number FROM summary").fetchall()]
    )
    assert kept.count(0) > 0
    numbers = [number for number in kept if number]
    assert numbers == [*range(1, len(numbers) + 1)]
    assert len(await names(harness, conversation)) == len(numbers)


@pytest.mark.sqlite
async def test_older_summaries_are_numbered_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "parley.db"
    step = next(n for n, one in enumerate(MIGRATIONS) if one.name == "summary_numbers")
    before = connect(path)
    for one in MIGRATIONS[:step]:
        one(before)
    before.close()
    with sqlite3.connect(path) as old:
        old.execute(f"PRAGMA user_version = {step}")
        for row in (1, 2):
            old.execute(
                "INSERT INTO conversation (id, key, audience, last_seq, last_turn, created_at, "
                "active_at) VALUES (?, ?, 'a', 0, 0, 0, 0)",
                (row, f"pipe/{row}"),
            )
        for number, (row, style) in enumerate([(1, ""), (2, ""), (1, "excerpt"), (1, "")], 1):
            old.execute(
                "INSERT INTO summary (id, conversation, turns, prior, focus, text, tokens, model, "
                "at) VALUES (?, ?, '[1]', 0, '', '', 0, '', 0)",
                (number, row),
            )
            old.execute(
                "INSERT INTO job (conversation, event, turns, prior, focus, style, summary, at, "
                "is_done) VALUES (?, 0, '[1]', 0, '', ?, ?, 0, 1)",
                (row, style, number),
            )
    old.close()
    store = await Store.open(path)
    found = await store.read(
        lambda db: db.execute_sql("SELECT number FROM summary ORDER BY id").fetchall()
    )
    kept = await store.read(
        lambda db: db.execute_sql("SELECT last_summary FROM conversation").fetchall()
    )
    await store.close()
    assert [number for (number,) in found] == [1, 1, 0, 2]
    assert [number for (number,) in kept] == [2, 1]


async def test_a_summary_of_what_came_from_outside_is_tainted(harness: MemoryHarness) -> None:
    for number in range(3):
        await harness.says(f"question {number} " * 40)
    conversation = await harness.conversation()
    turn = await conversation.turns.open("look outside")
    await turn.fit(harness.frame)
    await turn.record(Message("assistant", "", (ToolCall("c1", "look", "{}"),)))
    result = Message("tool", "they say so " * 60, call_id="c1", tool="look", is_untrusted=True)
    await turn.record(result)
    await turn.record(Message("assistant", "They say so."))
    await conversation.compactor.compact_range([1, 2])
    clean = [s.summary for s in conversation.context.layout.ranges]
    await conversation.compactor.compact_range([4])
    view = conversation.context.view()
    assert [(s.turns, view.summaries[s.summary].is_untrusted) for s in view.layout.ranges] == [
        ((1, 2), False),
        ((4,), True),
    ]
    assert view.has_outside
    assert clean == [view.layout.ranges[0].summary]
    await conversation.editor.drop({4})
    assert not conversation.context.view().has_outside


async def test_a_range_too_long_for_a_call_is_told_from_its_summary(harness: MemoryHarness) -> None:
    """Otherwise it is made from its turns, which say more; both times with one call."""
    for size, is_told_anew in ((20, True), (1_000, False)):
        conversation = await harness.conversation(ConversationKey(f"pipe/{size}", f"pipe-{size}"))
        key = conversation.key
        harness.limit(strategy="full", window=8_000)
        for number in range(2):
            await harness.says(f"word{number} " * size, key=key)
        await conversation.compactor.compact_range([1, 2])
        await harness.says("word2 " * size, key=key)
        before = len(harness.summarizer.requests)
        await conversation.compactor.compact_range([1, 2, 3])
        (request,) = harness.summarizer.requests[before:]
        assert ("word0" in request.text) == is_told_anew
        assert request.summarised == (1, 2)
        assert "word2" in request.text
        assert any("summarised] They talked." in part for part in request.parts) != is_told_anew
