"""Summaries by their numbers; a summary of any range, in its place; and opened again."""

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
from tests.memory.rooms import KEY, Lodge

pytestmark = pytest.mark.databases

OTHER = ConversationKey("pipe/other", "pipe-other")


async def names(lodge: Lodge, conversation: Conversation) -> list[str]:
    row = conversation.context.row
    return [s.name for s in await lodge.store.read(lambda db: summaries.list_numbered(db, row))]


async def test_each_conversation_numbers_its_summaries_and_none_twice(lodge: Lodge) -> None:
    for key in (OTHER, KEY):
        for _ in range(2):
            for number in range(3):
                await lodge.says(f"a long question {number} " * 40, key=key)
            await (await lodge.conversation(key)).compactor.compact_for_person()
    mine, other = await lodge.conversation(), await lodge.conversation(OTHER)
    assert await names(lodge, mine) == await names(lodge, other) == ["s1", "s2"]
    await lodge.settle()
    await mine.forget()
    for number in range(3):
        await lodge.says(f"a long question {number} " * 40)
    await mine.compactor.compact_for_person()
    assert await names(lodge, mine) == ["s3"]


async def test_what_is_written_for_the_daily_memory_alone_has_no_number(lodge: Lodge) -> None:
    lodge.limit(strategy="slim", full_turns=1, fold_turns=1, max_terse_entries=1)
    lodge.summarizer.answer = lambda request: ""
    for number in range(6):
        await lodge.says(f"question {number}")
        await lodge.settle()
    conversation = await lodge.conversation()
    kept = await lodge.store.read(
        lambda db: [s for (s,) in db.execute_sql("SELECT number FROM summary").fetchall()]
    )
    assert kept.count(0) > 0
    numbers = [number for number in kept if number]
    assert numbers == [*range(1, len(numbers) + 1)]
    assert len(await names(lodge, conversation)) == len(numbers)


@pytest.mark.sqlite
async def test_older_summaries_are_numbered_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "parley.db"
    step = next(n for n, one in enumerate(MIGRATIONS) if one.__name__ == "_summary_numbers")
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


async def test_a_summary_of_what_came_from_outside_is_tainted(lodge: Lodge) -> None:
    for number in range(3):
        await lodge.says(f"question {number} " * 40)
    conversation = await lodge.conversation()
    turn = await conversation.turns.open("look outside")
    await turn.fit(lodge.frame)
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


async def test_a_range_too_long_for_a_call_is_told_from_its_summary(lodge: Lodge) -> None:
    """Otherwise from its turns, which say more; both times with one call."""
    for size, is_told_anew in ((20, True), (1_000, False)):
        conversation = await lodge.conversation(ConversationKey(f"pipe/{size}", f"pipe-{size}"))
        key = conversation.key
        lodge.limit(strategy="full", window=8_000)
        for number in range(2):
            await lodge.says(f"word{number} " * size, key=key)
        await conversation.compactor.compact_range([1, 2])
        await lodge.says("word2 " * size, key=key)
        before = len(lodge.summarizer.requests)
        await conversation.compactor.compact_range([1, 2, 3])
        (request,) = lodge.summarizer.requests[before:]
        assert ("word0" in request.text) == is_told_anew
        assert request.told == (1, 2)
        assert "word2" in request.text
        assert any("summarised] They talked." in part for part in request.parts) != is_told_anew
