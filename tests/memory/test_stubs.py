"""`stubs`: old tool results become one line each, and everything else is kept; also as a first
stage."""

from __future__ import annotations

import re
from typing import Any

import pytest

from memory.context.forecast import forecast
from memory.context.view import View
from memory.conversation import Conversation
from memory.messages import Message, ToolCall
from memory.record.search import ExactMessage
from tests.docs.pages import ROOT
from tests.memory.harness import MemoryHarness, texts

RESULT = "A finding of many words. " * 40  # 200 tokens
STUB = re.compile(r'^\[put away: the result of look\(.*\), ([\d,]+) characters; .*turnId="t(\d+)')


def stubbing(harness: MemoryHarness, **changes: Any) -> None:
    harness.limit(**{"strategy": "stubs", "stub_keep": 2, "stub_batch": 300, **changes})


def stubs(view: View) -> list[int]:
    """Return the turns whose results are stubs, one for each."""
    return [int(found[2]) for text in texts(view) if (found := STUB.match(text))]


async def events(harness: MemoryHarness) -> list[tuple[str, str]]:
    history = await (await harness.conversation()).context.history()
    return [(event.name, event.actor) for event in history]


async def fetch(conversation: Conversation, text: str) -> list[str]:
    """Return the result named by a stub, as the model gets it on request."""
    named = re.search(r't(\d+)\.(\d+)"', text)
    assert named is not None
    found = await conversation.passages(ExactMessage(int(named[1]), int(named[2])))
    return [hit.text for hit in found.hits]


async def test_old_results_become_a_line_and_the_newest_stay(harness: MemoryHarness) -> None:
    stubbing(harness, stub_batch=1)
    for number in range(1, 6):
        await harness.says(f"question {number}", [f"{number}: {RESULT}"], f"reply {number}")
    (view,) = await harness.says("question 6")
    assert stubs(view) == [1, 2, 3]
    said = texts(view)
    assert [text for text in said if text.startswith(("question", "reply"))] == [
        *(f"{who} {n}" for n in range(1, 6) for who in ("question", "reply")),
        "question 6",
    ], "all else stays"
    assert [text[:3] for text in said if RESULT in text] == ["4: ", "5: "]


async def test_a_stub_names_the_tool_its_arguments_and_the_size_in_one_line(
    harness: MemoryHarness,
) -> None:
    stubbing(harness, stub_keep=0)
    conversation = await harness.conversation()
    turn = await conversation.turns.open("Read them")
    for name, arguments in (
        ("1", '{"path":\n "files/notes.txt"}'),
        ("2", f'{{"a": "{"x" * 500}"}}'),
    ):
        await turn.record(Message("assistant", "", (ToolCall(name, "read_file", arguments),)))
        await turn.record(Message("tool", RESULT * 2, call_id=name, tool="read_file"))
    await turn.record(Message("assistant", "Read."))
    (view,) = await harness.says("And?")
    one, other = (text for text in texts(view) if text.startswith("[put away"))
    assert one == (
        '[put away: the result of read_file({"path": "files/notes.txt"}), 2,000 characters; '
        'context_search(mode="turn", turnId="t1.3") shows it again]'
    )
    assert one in (ROOT / "docs" / "context.md").read_text("utf-8")
    assert "\n" not in one + other
    assert len(other) < 250


async def test_the_running_turns_results_and_short_ones_are_never_put_away(
    harness: MemoryHarness,
) -> None:
    stubbing(harness, stub_keep=0, stub_batch=1)
    await harness.says("question 1", ["short"])
    views = await harness.says("question 2", [f"{n}: {RESULT}" for n in range(4)])
    assert [stubs(view) for view in views] == [[]] * 5
    (view,) = await harness.says("question 3")
    assert stubs(view) == [2, 2, 2, 2]
    assert "short" in texts(view)


async def test_a_result_that_is_no_longer_than_its_stub_stays(harness: MemoryHarness) -> None:
    stubbing(harness, stub_keep=0, stub_batch=1)
    conversation = await harness.conversation()
    turn = await conversation.turns.open("Reckon")
    arguments = f'{{"text": "{"數學難題" * 30}"}}'
    await turn.record(Message("assistant", "", (ToolCall("1", "look", arguments),)))
    await turn.record(Message("tool", "word " * 110, call_id="1", tool="look"))
    await turn.record(Message("assistant", "Done."))
    for number in range(2):
        (view,) = await harness.says(f"And {number}?")
        assert "word " * 110 in texts(view)
    assert await events(harness) == []


async def test_they_are_put_away_in_batches_so_that_the_beginning_seldom_changes(
    harness: MemoryHarness,
) -> None:
    stubbing(harness, stub_keep=1, stub_batch=1_000)
    changes, before = 0, list[str]()
    for number in range(1, 25):
        for view in await harness.says(f"question {number}", [f"{number}: {RESULT}"]):
            now = texts(view)
            changes += now[: len(before)] != before
            before = now
    assert await events(harness) == [("stub", "strategy")] * changes
    assert changes == 3, "every 7th of 23 results that are old in the end"


async def test_what_a_batch_frees_at_least_follows_the_window(harness: MemoryHarness) -> None:
    stubbing(harness, stub_batch=4_000)
    assert harness.limits.stub_batch == 4_000
    harness.limit(window=4_096)
    assert harness.limits.stub_batch == 3_072 // 8


async def test_pinned_turns_keep_their_results(harness: MemoryHarness) -> None:
    stubbing(harness, stub_keep=0)
    await harness.says("question 1", [RESULT])
    await (await harness.conversation()).editor.pin({1})
    await harness.says("question 2", [RESULT, RESULT])
    (view,) = await harness.says("question 3")
    assert stubs(view) == [2, 2]


async def test_undo_brings_results_back_and_redo_puts_them_away_also_after_a_restart(
    harness: MemoryHarness,
) -> None:
    stubbing(harness, stub_keep=0)
    await harness.says("question 1", [RESULT] * 3)
    await harness.says("question 2")
    conversation = await harness.conversation()
    with_stubs = texts(conversation.context.view())
    event = await conversation.editor.undo()
    assert event is not None
    assert event.name == "stub"
    whole = texts(conversation.context.view())
    assert whole.count(RESULT) == 3
    (view,) = await harness.says("question 3")
    assert not stubs(view), "an undo holds it off"
    await (await harness.conversation()).editor.undo()
    for expected in ([], [1, 1, 1]):
        await harness.restart()
        conversation = await harness.conversation()
        assert stubs(conversation.context.view()) == expected
        await conversation.editor.redo()
    assert texts(conversation.context.view())[: len(with_stubs)] == with_stubs


async def test_another_strategy_sees_results_whole(harness: MemoryHarness) -> None:
    stubbing(harness, stub_keep=0)
    await harness.says("question 1", [RESULT] * 3)
    await harness.says("question 2")
    harness.limit(strategy="full")
    (view,) = await harness.says("question 3")
    assert not stubs(view)
    harness.limit(strategy="stubs")
    (view,) = await harness.says("question 4")
    assert stubs(view) == [1, 1, 1]


async def test_a_stub_says_how_its_result_is_read_again(harness: MemoryHarness) -> None:
    stubbing(harness, stub_keep=0)
    await harness.says("question 1", [f"{n} {RESULT * 10}" for n in range(3)])
    (view,) = await harness.says("question 2")
    conversation = await harness.conversation()
    named = [text for text in texts(view) if text.startswith("[put away")]
    assert [await fetch(conversation, text) for text in named] == [
        [f"{n} {RESULT * 10}"] for n in range(3)
    ]


@pytest.mark.parametrize("way", ["drop", "clear", "forget"])
async def test_what_a_person_took_away_can_not_be_read_again(
    harness: MemoryHarness, way: str
) -> None:
    stubbing(harness, stub_keep=0)
    await harness.says("question 1", [RESULT] * 2)
    (view,) = await harness.says("question 2")
    named = next(text for text in texts(view) if text.startswith("[put away"))
    conversation = await harness.conversation()
    if way == "drop":
        await conversation.editor.drop({1})
    elif way == "clear":
        await conversation.editor.clear()
    else:
        await conversation.forget([1])
        assert [event.change.stub for event in await conversation.context.history()] == []
    assert await fetch(conversation, named) == []
    assert not stubs(conversation.context.view())
    if way != "forget":
        await conversation.editor.undo()
        assert await fetch(conversation, named) == [RESULT]


async def test_what_a_search_found_is_put_away_and_only_found_again_by_asking(
    harness: MemoryHarness,
) -> None:
    stubbing(harness, stub_keep=0)
    conversation = await harness.conversation()
    turn = await conversation.turns.open("Look it up")
    await turn.record(Message("assistant", "", (ToolCall("1", "memory_search", "{}"),)))
    await turn.record(Message("tool", RESULT * 3, call_id="1", tool="memory_search"))
    await turn.record(Message("assistant", "Found."))
    (view,) = await harness.says("And?")
    (stub,) = (text for text in texts(view) if text.startswith("[put away"))
    assert stub.endswith("600 characters; call it again for what it found]".replace("600", "3,000"))
    assert not (await conversation.passages(ExactMessage(1, 3))).hits


async def test_a_result_from_outside_stays_tainted_as_a_stub(harness: MemoryHarness) -> None:
    stubbing(harness, stub_keep=0)
    conversation = await harness.conversation()
    turn = await conversation.turns.open("Read the page")
    await turn.record(Message("assistant", "", (ToolCall("1", "look", "{}"),)))
    await turn.record(Message("tool", RESULT * 3, call_id="1", tool="look", is_untrusted=True))
    await turn.record(Message("assistant", "Read."))
    (view,) = await harness.says("And?")
    assert stubs(view) == [1], "the bot's own words need no marks"
    assert view.has_outside
    (hit,) = (await conversation.passages(ExactMessage(1, 3))).hits
    assert hit.entry.message.has_outside, "so that what shows it again is marked"


async def test_the_next_batch_is_foreseen_and_shown(harness: MemoryHarness) -> None:
    stubbing(harness, stub_keep=1, stub_batch=500)
    for number in range(1, 4):
        await harness.says(f"question {number}", [RESULT])
    conversation = await harness.conversation()
    coming = forecast(conversation.context.view(), conversation.context.limits)
    assert coming is not None
    assert [plan.name for plan in coming.plans] == ["stub"]
    assert coming.now.current == 5
    await harness.says("question 4", [RESULT])
    preview = await conversation.compactor.forecaster.preview()
    assert [plan.name for plan in preview.plans] == ["stub"]
    (view,) = await harness.says("question 5")
    assert stubs(view) == stubs(preview.then) == [1, 2, 3]
    assert abs(view.tokens - preview.then.tokens) < 60


async def test_a_request_over_the_ceiling_is_saved_by_stubs_before_any_turn_leaves(
    harness: MemoryHarness,
) -> None:
    stubbing(harness, stub_keep=0, stub_batch=1_000_000, window=4_096)
    for number in range(1, 9):
        (*_, view) = await harness.says(f"question {number}", [RESULT * 2])
        assert view.tokens <= harness.limits.ceiling
    assert set(await events(harness)) == {("stub", "strategy")}


FIRST = {
    "trim": {"max_tokens": 2_000},
    "slim": {"full_turns": 3, "fold_turns": 3},
    "summarize": {"window": 4_000, "keep_recent": 6},
    "structured": {"window": 4_000},
}


@pytest.mark.parametrize("strategy", FIRST)
async def test_a_cut_comes_only_where_stubs_do_not_suffice(
    harness: MemoryHarness, strategy: str
) -> None:
    harness.limit(
        strategy=strategy, stub_tools=True, stub_keep=0, stub_batch=200, **FIRST[strategy]
    )
    turns_in_play = []
    for number in range(1, 16):
        conversation = await harness.conversation()
        turn = await conversation.turns.open(f"question {number}")
        await turn.begin()
        view = await turn.fit(harness.frame)
        turns_in_play.append(len(view.turns))
        await turn.record(Message("assistant", "", (ToolCall("1", "look", "{}"),)))
        await turn.record(Message("tool", RESULT * 2, call_id="1", tool="look"))
        await turn.fit(harness.frame)
        await turn.record(Message("assistant", f"reply {number}"))
        await harness.settle()
    kinds = [kind for kind, _ in await events(harness) if kind != "range"]
    assert "stub" in kinds
    if strategy != "slim":  # which cuts by turns, whatever their size
        assert kinds[:2] == ["stub", "stub"], "once and again, and no turn has left by then"
        assert turns_in_play[7] == 8


async def test_stubs_and_a_cut_may_both_be_needed_for_one_request(harness: MemoryHarness) -> None:
    harness.limit(max_turns=5, stub_tools=True, stub_keep=0, stub_batch=200)
    for number in range(1, 6):
        await harness.says(f"question {number}", [RESULT])
        await harness.settle()
    (view,) = await harness.says("question 6")
    assert await events(harness) == [("stub", "strategy"), ("compact", "strategy")]
    assert [turn.number for turn in view.turns] == [3, 4, 5, 6]
    assert stubs(view) == [3, 4, 5]
    assert "They talked." in texts(view)[0], "its summary was prepared"
    (request,) = harness.summarizer.requests
    assert request.text.count(RESULT.strip()) == 2, "of the results themselves, and not of stubs"


async def test_nothing_becomes_a_stub_where_it_is_off(harness: MemoryHarness) -> None:
    harness.limit(max_tokens=2_000, stub_keep=0, stub_batch=1)
    for number in range(1, 12):
        (*_, view) = await harness.says(f"question {number}", [RESULT])
        assert not stubs(view)
