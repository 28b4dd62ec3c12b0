"""The strategies `truncate` and `summarize`: safe splits, and the summaries that replace the
turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.context.change import Change, ViewEvent
from memory.context.emergency import REASON, describe
from memory.context.forms import TurnForm, assign_form
from memory.context.settings import Limits
from memory.context.strategies.split import safe_split
from memory.conversation import Conversation
from memory.events import Event, Events, Listener, Verdict
from memory.messages import Message, Role, ToolCall
from memory.request_fitter import Overflow
from memory.turns import Entry
from tests.fakes.openai_server import refusal
from tests.memory.harness import FRAME, MemoryHarness, squeeze_turns, texts
from tests.memory.test_slim import sent

LONG = "word " * 100
NOW = datetime.fromtimestamp(0, UTC)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[MemoryHarness]:
    limits = Limits().but(strategy="summarize", window=4_000, output_reserved=0, keep_recent=4)
    harness = MemoryHarness(tmp_path, limits)
    await harness.open()
    yield harness
    await harness.close()


async def compacted(harness: MemoryHarness) -> ViewEvent | None:
    """Compact as the rule _auto_compact does when a turn begins."""
    conversation = await harness.conversation()
    due = conversation.compactor.forecaster.due(by_rule=True)
    return await conversation.compactor.compact_by_rule(why=due.why) if due else None


async def filled(harness: MemoryHarness) -> Conversation:
    """Record so many turns that the next one exceeds the trigger."""
    while not (conversation := await harness.conversation()).compactor.forecaster.due(by_rule=True):
        await harness.says(LONG, ["found " * 50], reply="ok " * 50)
    return conversation


async def test_below_the_trigger_nothing_happens_and_no_step_cuts(harness: MemoryHarness) -> None:
    await harness.says("Hello")
    assert await compacted(harness) is None
    conversation = await filled(harness)
    assert conversation.context.pressure >= 0.75
    await harness.says("one more")
    assert not await conversation.context.history(), "only the rule cuts"


async def test_summarize_leaves_one_system_message_and_the_last_messages(
    harness: MemoryHarness,
) -> None:
    harness.summarizer.answer = lambda request: "Decisions: none."
    conversation = await filled(harness)
    before = conversation.context.view().messages
    event = await compacted(harness)
    assert event is not None
    assert event.reason.startswith("the rule _auto_compact: 7")
    wire = sent(conversation.context.view())
    assert [message["role"] for message in wire[:2]] == ["system", "system"]
    assert "Decisions: none." in wire[1]["content"]
    assert conversation.context.view().messages == before[-4:]
    assert all("Files touched" in request.task for request in harness.summarizer.requests)


async def test_keep_recent_10_keeps_exactly_ten_messages(harness: MemoryHarness) -> None:
    harness.limit(keep_recent=10, window=40_000)
    for number in range(9):
        await harness.says(f"question {number}")
    await (await harness.conversation()).compactor.compact_by_rule()
    assert len((await harness.conversation()).context.view().messages) == 10


async def test_truncate_recaps_goal_and_activity_without_a_model(harness: MemoryHarness) -> None:
    harness.limit(strategy="truncate")
    await harness.says("Please plan my garden. " + LONG, reply="Gladly.")
    conversation = await filled(harness)
    await compacted(harness)
    assert harness.summarizer.requests == []
    recap = sent(conversation.context.view())[1]["content"]
    assert "Goal: Please plan my garden." in recap
    assert "Recent activity:\n- t" in recap
    await harness.settle()
    assert await conversation.memory.days(), "what left is in the daily memory"
    await filled(harness)
    await compacted(harness)
    assert "Goal: Please plan my garden." in sent(conversation.context.view())[1]["content"]


async def test_a_summary_that_fails_is_replaced_by_the_recap(harness: MemoryHarness) -> None:
    harness.summarizer.answer = lambda request: ""
    conversation = await filled(harness)
    await compacted(harness)
    assert "Goal: word" in sent(conversation.context.view())[1]["content"]


async def test_a_summary_that_is_longer_than_what_it_replaces_is_refused(
    harness: MemoryHarness,
) -> None:
    harness.summarizer.answer = lambda request: "blah " * 20_000
    conversation = await filled(harness)
    event = await compacted(harness)
    assert event is not None
    assert "blah" not in sent(conversation.context.view())[1]["content"]
    assert conversation.context.view().tokens < event.tokens_before


async def test_the_summary_is_cut_at_its_limit(harness: MemoryHarness) -> None:
    harness.limit(summary_max_tokens=16)
    harness.summarizer.answer = lambda request: "blah " * 200
    conversation = await filled(harness)
    await compacted(harness)
    assert sent(conversation.context.view())[1]["content"].count("blah") <= 16


async def test_the_system_note_tells_of_tools_and_the_last_five_calls(
    harness: MemoryHarness,
) -> None:
    conversation = await filled(harness)
    event = await compacted(harness)
    assert event is not None
    assert event.snapshot is not None
    assert event.snapshot.tools == ("look",)
    assert event.snapshot.injection == "native"
    assert len(event.snapshot.examples) == 5
    text = sent(conversation.context.view())[1]["content"]
    assert text.count("- look({})") == 5


async def test_models_that_allow_one_system_message_get_one(harness: MemoryHarness) -> None:
    harness.limit(merge_system=True)
    conversation = await filled(harness)
    await compacted(harness)
    wire = sent(conversation.context.view())
    assert [message["role"] for message in wire].count("system") == 1
    assert wire[0]["content"].startswith(f"{FRAME.system}\n\n<summary-of-earlier-turns>")


async def test_the_running_turn_is_never_cut(harness: MemoryHarness) -> None:
    harness.limit(window=100_000, keep_recent=1)
    await harness.says("Earlier. " * 100)
    conversation = await harness.conversation()
    turn = await conversation.turns.open("The question.")
    for number in range(5):
        call = ToolCall(f"c{number}", "look", "{}")
        await turn.record(Message("assistant", "", (call,)))
        await turn.record(Message("tool", "found", call_id=call.id, tool="look"))
    await conversation.compactor.compact_by_rule()
    assert [t.number for t in conversation.context.view().turns] == [2]
    assert len(conversation.context.view().messages) == 11


async def test_pinned_turns_stay(harness: MemoryHarness) -> None:
    await harness.says("Pin me.")
    conversation = await harness.conversation()
    await conversation.editor.pin({1})
    await filled(harness)
    await compacted(harness)
    assert conversation.context.view().messages[0].text == "Pin me."


async def test_after_an_undo_the_rule_holds_off(harness: MemoryHarness) -> None:
    conversation = await filled(harness)
    before = sent(conversation.context.view())
    await compacted(harness)
    await conversation.editor.undo()
    assert sent(conversation.context.view()) == before
    assert await conversation.compactor.compact_by_rule() is None


async def test_an_overflow_halves_keep_recent_and_asks_no_model(harness: MemoryHarness) -> None:
    harness.limit(keep_recent=12, auto_compact=False, window=20_000)
    for number in range(8):
        await harness.says(f"{number} {LONG}")
    conversation = await harness.conversation()
    turn = await conversation.turns.open("now")
    view = await turn.fit(FRAME)
    assert await turn.shrink_request(view, FRAME, Overflow())
    event = (await conversation.context.history())[-1]
    assert event.reason == "context_overflow"
    assert event.actor == "emergency"
    assert len((await turn.fit(FRAME)).messages) == 7, "six at least, and no turn is halved"
    await harness.settle()
    assert harness.summarizer.requests == []


async def test_keep_recent_is_halved_to_four_at_least(harness: MemoryHarness) -> None:
    harness.limit(keep_recent=2, auto_compact=False, window=20_000)
    for number in range(8):
        await harness.says(f"{number}")
    conversation = await harness.conversation()
    turn = await conversation.turns.open("now")
    assert await turn.shrink_request(await turn.fit(FRAME), FRAME, Overflow())
    assert len((await turn.fit(FRAME)).messages) == 5, "four at least, and no turn is halved"


async def test_a_listener_can_hold_a_compaction_off(tmp_path: Path) -> None:
    heard: list[Event] = []

    async def veto(event: Event) -> Verdict:
        heard.append(event)
        return Verdict("not now")

    harness = MemoryHarness(
        tmp_path, Limits().but(strategy="summarize"), events=Events([Listener("me", veto)])
    )
    await harness.open()
    for _ in range(8):
        await harness.says("hello")
    conversation = await harness.conversation()
    assert await conversation.compactor.compact_by_rule(keep_recent=2, why="asked") is None
    assert [(event.name, event.text) for event in heard] == [("pre_compact", "asked")]
    assert not await conversation.context.history()
    await harness.close()


async def test_two_rules_at_once_make_one_compaction(harness: MemoryHarness) -> None:
    conversation = await filled(harness)
    made = await asyncio.gather(
        conversation.compactor.compact_by_rule(), conversation.compactor.compact_by_rule()
    )
    assert [event is None for event in made] == [False, True]


ROLES = st.lists(st.sampled_from(["user", "assistant", "call", "tool", "note"]), max_size=30)


@given(ROLES, st.integers(-5, 35))
def test_a_safe_split_never_strands_a_result(roles: list[str], index: int) -> None:
    entries = [entry(number, role) for number, role in enumerate(roles)]
    split = safe_split(entries, index)
    assert 0 <= split <= max(0, index)
    if 0 < split < len(entries):
        assert entries[split].message.role not in ("tool", "note")


def entry(seq: int, role: str) -> Entry:
    kind: Role = "assistant" if role == "call" else role  # type: ignore[assignment]
    calls = (ToolCall("c", "look", "{}"),) if role == "call" else ()
    return Entry(seq, 1, Message(kind, "x", calls), 1, NOW)


# --- as a turn begins ------------------------------------------------------------------------


async def full_talk(harness: MemoryHarness, **limits: Any) -> Conversation:
    """Return a conversation that fills more than three quarters of its window."""
    harness.limit(**{"strategy": "truncate", "window": 4_000, "output_reserved": 0, **limits})
    for number in range(10):
        await harness.says(f"Question {number}: " + "word " * 330)
    talk = await harness.conversation()
    assert talk.context.pressure > 0.75
    return talk


async def test_it_compacts_at_the_trigger_and_then_cools_down(harness: MemoryHarness) -> None:
    talk = await full_talk(harness)
    await talk.compactor.at_turn_start()
    (event,) = await talk.context.history()
    assert event.name == "compact"
    assert event.reason.endswith("87% of the budget was in use, and it compacts from 75% on")
    assert talk.context.pressure < 0.75
    await talk.compactor.at_turn_start()
    assert len(await talk.context.history()) == 1


async def test_it_obeys_its_cooldown_of_thirty_seconds(harness: MemoryHarness) -> None:
    talk, now = await full_talk(harness), 1_000.0
    talk.compactor._clock = lambda: now
    harness.limit(compression_trigger=0.05)
    await talk.compactor.at_turn_start()
    harness.limit(keep_recent=2)
    now += 29
    await talk.compactor.at_turn_start()
    assert len(await talk.context.history()) == 1
    now += 1
    await talk.compactor.at_turn_start()
    assert len(await talk.context.history()) == 2


@pytest.mark.parametrize(
    "limits",
    [{"auto_compact": False}, {"compression_trigger": 0.99}, {"strategy": "full"}],
    ids=str,
)
async def test_it_does_nothing_where_it_is_turned_off_or_below_the_trigger_or_not_in_force(
    harness: MemoryHarness, limits: dict[str, Any]
) -> None:
    talk = await full_talk(harness, **limits)
    await talk.compactor.at_turn_start()
    assert not await talk.context.history()


async def test_a_trigger_of_zero_compacts_as_soon_as_anything_can_leave(
    harness: MemoryHarness,
) -> None:
    harness.limit(strategy="truncate", compression_trigger=0.0, keep_recent=4)
    for number in range(4):
        await harness.says(f"Question {number}: " + "word " * 60)
    talk = await harness.conversation()
    await talk.compactor.at_turn_start()
    assert [event.name for event in await talk.context.history()] == ["compact"]


async def test_a_squeezed_turn_whose_question_leaves_by_a_split_strands_no_call(
    harness: MemoryHarness,
) -> None:
    for number in range(1, 4):
        await harness.says(f"question {number}", ["a result", "another"], f"reply {number}")
    talk = await harness.conversation()
    await squeeze_turns(talk, {2})
    await talk.compactor.compact_by_rule(keep_recent=7)
    for _ in range(2):
        view = talk.context.view()
        assert not refusal({"model": "m", "messages": view.to_wire(FRAME)})
        assert [text for text in texts(view) if "2" in text] == ["reply 2"]
        await harness.restart()
        talk = await harness.conversation()


async def test_an_emergency_that_only_squeezes_says_what_stayed(harness: MemoryHarness) -> None:
    await harness.says("question", ["found"], reply="answer")
    conversation = await harness.conversation()
    context = conversation.context
    squeezed = Change(assign_form({1}, TurnForm("squeezed")))
    event = ViewEvent(NOW, "view", "emergency", REASON, squeezed, "trim", turn=1, id=1)
    said = describe([event], context.view(), context.limits, turn=1)
    assert "4,000 tokens: of t1 only the question and the reply stayed. Nothing is deleted" in said
