"""Branches: their shared data, their own data, and their requests."""

from __future__ import annotations

import re
from typing import Any

import pytest

from memory.context.strategies import STRATEGIES
from memory.conversation import Conversation
from memory.keys import ConversationKey
from memory.record import branches
from memory.record.search import MessagesAround, Tail
from tests.memory.harness import KEY, MemoryHarness, texts

pytestmark = pytest.mark.databases


def sends(conversation: Conversation) -> list[str]:
    return texts(conversation.context.view())


def numbers(conversation: Conversation) -> list[int]:
    return [turn.number for turn in conversation.context.view().turns]


async def fork(
    harness: MemoryHarness, turn: int | None = None, key: ConversationKey = KEY
) -> Conversation:
    return await harness.conversation(await harness.conversations.fork(key, turn))


async def talk(harness: MemoryHarness, turns: int, key: ConversationKey = KEY) -> Conversation:
    for _ in range(turns):
        newest = (await harness.conversation(key)).context.newest
        await harness.says(f"question {newest + 1} of {key.number}", key=key)
    return await harness.conversation(key)


async def test_each_branch_sends_what_it_shares_and_then_its_own(harness: MemoryHarness) -> None:
    with pytest.raises(ValueError, match="no complete turn"):
        await harness.conversations.fork(KEY)
    parent = await talk(harness, 4)
    first = await fork(harness, 3)
    await talk(harness, 3, first.key)
    deeper, below = await fork(harness, 5, first.key), await fork(harness, 2, first.key)
    await talk(harness, 1, deeper.key)
    await talk(harness, 1, below.key)
    said = [f"question {n} of {where}" for n, where in ((1, 1), (2, 1), (3, 1), (4, 2), (5, 2))]
    assert sends(parent)[::2] == [*said[:3], "question 4 of 1"]
    assert sends(deeper)[::2] == [*said, "question 6 of 3"]
    assert numbers(deeper) == [1, 2, 3, 4, 5, 6]
    assert sends(below)[::2] == [*said[:2], "question 3 of 4"]
    again = await fork(harness, 3)
    assert sends(again) == sends(parent)[:6]


async def test_undo_in_a_branch_reaches_before_it_and_into_no_other(harness: MemoryHarness) -> None:
    parent = await talk(harness, 3)
    await parent.editor.drop({2})
    branch = await fork(harness)
    before = sends(parent)
    await branch.editor.undo()
    assert numbers(branch) == [1, 2, 3]
    assert sends(parent) == before
    await parent.editor.pin({1})
    assert not branch.context.layout.pinned
    await harness.restart()
    branch, parent = await harness.conversation(branch.key), await harness.conversation()
    assert numbers(branch) == [1, 2, 3]
    assert sends(parent) == before


async def test_a_branch_below_a_cut_has_the_view_of_that_time(harness: MemoryHarness) -> None:
    harness.limit(max_turns=6)
    parent = await talk(harness, 8)
    await harness.settle()
    assert numbers(parent)[0] > 2
    branch = await fork(harness, 5)
    assert sends(branch)[::2] == [f"question {n} of 1" for n in range(1, 6)]
    await parent.editor.clear()
    below = await fork(harness, 5)
    assert sends(below) == sends(branch)


async def test_a_branch_after_a_cut_has_its_summary_also_one_that_comes_late(
    harness: MemoryHarness,
) -> None:
    harness.limit(max_turns=4)
    parent = await talk(harness, 6)
    branch = await fork(harness)
    await harness.settle()
    await harness.says("once more")
    await harness.says("once more", key=branch.key)
    assert "They talked." in sends(parent)[0]
    assert sends(branch)[0] == sends(parent)[0]


async def test_under_every_strategy_a_branch_begins_as_its_parent(harness: MemoryHarness) -> None:
    for number, strategy in enumerate(STRATEGIES):
        key = ConversationKey(f"pipe/{number}", "pipe-main")
        harness.limit(strategy=strategy, max_turns=5, full_turns=3, fold_turns=1)
        parent = await talk(harness, 9, key)
        await parent.compactor.compact_for_person()
        await harness.settle()
        await talk(harness, 1, key)
        branch = await fork(harness, key=key)
        assert sends(branch) == sends(parent), strategy
        for one in (parent, branch):
            await harness.says("the same", key=one.key)
        assert sends(branch) == sends(parent), strategy


async def test_a_running_turn_is_no_part_of_a_branch(harness: MemoryHarness) -> None:
    parent = await talk(harness, 2)
    turn = await parent.turns.open("is still answered")
    branch = await fork(harness)
    assert numbers(branch) == [1, 2]
    await harness.says("before it is over", key=branch.key)
    assert numbers(branch) == [1, 2, 3]
    await turn.end_early("stopped", "", "Stopped.")
    with pytest.raises(ValueError, match="the last complete turn is t3"):
        await harness.conversations.fork(KEY, 4)


async def test_the_models_search_finds_what_is_shared_and_its_own(harness: MemoryHarness) -> None:
    await talk(harness, 3)
    branch = await fork(harness, 2)
    await talk(harness, 2, branch.key)
    sibling = await fork(harness, 1)
    await talk(harness, 1, sibling.key)
    found = await branch.passages(Tail(100))
    said = [hit.text for hit in found.hits if hit.text.startswith("question")]
    assert said == ["question 1 of 1", "question 2 of 1", "question 3 of 2", "question 4 of 2"]
    around = await branch.passages(MessagesAround(3))
    assert around.hits[0].text == "question 3 of 2"
    assert (await branch.search(["question"], 20)).total == 4
    assert await branch.count() == 8


async def test_the_memory_finds_each_message_once_whoever_asks(harness: MemoryHarness) -> None:
    await harness.says("a zebra in the morning")
    branch = await fork(harness)
    await harness.says("a giraffe at noon", key=branch.key)
    for asking in (await harness.conversation(), branch):
        for text in ("zebra", "giraffe", "raff"):
            found = (await asking.memory.search(text, 10)).said
            hits = [hit for hit in found.hits if text in hit.text]
            assert len(hits) == 1
    (hit, *_) = (await branch.memory.recall("zebra", 10)).said.hits
    assert hit.conversation == branch.key.id, "it is a turn of the branch, too"


async def test_what_one_branch_took_away_only_the_other_finds(harness: MemoryHarness) -> None:
    await harness.says("a zebra in the morning")
    await harness.says("a giraffe at noon")
    branch = await fork(harness)
    await harness.says("at night", key=branch.key)
    await branch.editor.drop({1})
    parent = await harness.conversation()

    async def recalls(asking: Conversation, text: str) -> bool:
        hits = (await asking.memory.recall(text, 10)).said.hits
        return any(text in hit.text for hit in hits)

    assert not await recalls(branch, "zebra")
    assert await recalls(parent, "zebra")
    await parent.editor.clear()
    assert not await recalls(parent, "giraffe")
    assert await recalls(branch, "giraffe"), "it still has what the other one cleared"
    assert not await recalls(branch, "zebra")
    await branch.editor.clear()
    assert not await recalls(branch, "giraffe")


async def test_what_a_branch_shares_is_told_in_the_daily_memory_once(
    harness: MemoryHarness,
) -> None:
    parent = await talk(harness, 4)
    branch = await fork(harness)
    await parent.compactor.compact_for_person()
    await branch.compactor.compact_for_person()
    await harness.settle()
    files = [path.read_text() for path in harness.folder.rglob("*.md")]
    assert sum(text.count("They talked.") for text in files) == 1
    assert len(harness.summarizer.requests) == 2, "each has a summary of its own all the same"


async def test_a_fork_costs_three_rows_however_long_the_conversation_is(
    harness: MemoryHarness,
) -> None:
    await talk(harness, 12)
    await (await harness.conversation()).compactor.compact_for_person()
    await harness.settle()

    async def rows() -> int:
        def count(db: Any) -> int:
            return sum(
                db.execute_sql(f'SELECT COUNT(*) FROM "{table}"').fetchone()[0]
                for table in db.get_tables()
                if not table.startswith(("sqlite", "passage"))
            )

        return await harness.store.read(count)

    before = await rows()
    await harness.conversations.fork(KEY)
    assert await rows() == before + 3


async def test_branches_of_branches_are_bounded_and_a_circle_of_them_ends(
    harness: MemoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branches, "DEEPEST", 5)
    await talk(harness, 1)
    key = KEY
    while key.number < 5:
        key = await harness.conversations.fork(key)
        there = await harness.conversation(key)
        await there.editor.pin({1})  # otherwise all begin with the first
    with pytest.raises(ValueError, match="each of the one before, are the most"):
        await harness.conversations.fork(key)
    assert sends(await harness.conversation(key)) == ["question 1 of 1", "Yes."]
    row = (await harness.conversation(key)).context.row
    await harness.store.write(
        lambda db: db.execute_sql("UPDATE branch SET parent = ? WHERE parent = 1", (row,))
    )
    await harness.restart()
    await harness.conversation(key)


async def test_forgetting_a_branchs_own_turn_leaves_those_of_others(harness: MemoryHarness) -> None:
    harness.summarizer.answer = lambda request: " ".join(
        re.findall(r"question \d of \d", request.text)
    )
    parent = await talk(harness, 5)
    branch = await fork(harness, 3)
    await talk(harness, 2, branch.key)
    for one in (parent, branch):
        await one.compactor.compact_for_person()
    await harness.settle()
    assert "question 4 of 1" in sends(parent)[0]
    assert "question 4 of 2" in sends(branch)[0]
    kept = sends(parent)
    gone = await branch.forget([4])
    await harness.settle()
    assert (gone.turns, gone.messages) == ((4,), 2)
    assert sends(parent) == kept
    assert [t.number for t in await branch.context.turns(range(1, 9))] == [1, 2, 3, 5]
    assert [t.number for t in await parent.context.turns(range(1, 9))] == [1, 2, 3, 4, 5]
    await harness.says("on", key=branch.key)
    assert "question 4 of 2" not in str(sends(branch))
    files = "".join(path.read_text() for path in harness.folder.rglob("*.md"))
    assert "question 4 of 1" in files
    assert "question 4 of 2" not in files
    await parent.forget([2], [branch])
    await harness.settle()
    for one in (parent, branch):
        await harness.says("and on", key=one.key)
        assert "question 2 of" not in str(sends(one))
    await harness.settle()
    assert "question 2 of" not in "".join(p.read_text() for p in harness.folder.rglob("*.md"))
