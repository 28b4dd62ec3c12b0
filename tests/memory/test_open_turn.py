"""A turn that is stopped at any moment is the same in memory as on disk."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from memory.context.meter import LONGEST_PIECE
from memory.context.settings import Limits
from memory.messages import Message, ToolCall
from memory.record import transcript
from tests.memory.harness import Looked, MemoryHarness, texts


async def test_a_stop_while_a_result_is_written_adds_no_second_result(
    harness: MemoryHarness,
) -> None:
    conversation = await harness.conversation()
    turn = await conversation.turns.open("Look!")
    await turn.record(Message("assistant", "", (ToolCall("a", "look", "{}"),)))
    gate = threading.Event()
    blocking = harness.store.write(lambda db: gate.wait(30))
    result = Message("tool", "Seen.", call_id="a", tool="look")
    recording = asyncio.create_task(turn.record(result))
    blocked = asyncio.ensure_future(blocking)
    await asyncio.sleep(0)  # the result waits for the blocked writer
    recording.cancel()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await recording
    await blocked
    await turn.end_early("stopped", "", "Stopped.")
    (kept,) = await conversation.context.turns([1])
    assert [entry.message.role for entry in kept.entries] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert kept.entries[2].message.text == "Seen."
    assert conversation.context.view().whole == (kept,)


async def test_what_was_heard_before_a_stop_is_off_the_inbox(harness: MemoryHarness) -> None:
    conversation = await harness.conversation()
    turn = await conversation.turns.open("First.", inbox=1)
    hearing = asyncio.create_task(turn.add_messages([Message("user", "Second.")], [2]))
    await asyncio.sleep(0)
    hearing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hearing
    assert [entry.message.text for entry in turn.entries] == ["First.", "Second."]
    row = await harness.store.read(
        lambda db: transcript.turn_of_inbox(db, conversation.context.row, 2)
    )
    assert row == 1
    again = await conversation.turns.open("Second.", inbox=2)
    assert again.number == 1, "it has its turn already"


async def test_results_before_a_crash_stand_in_the_order_of_their_calls(
    harness: MemoryHarness,
) -> None:
    calls = tuple(ToolCall(name, "look", "{}") for name in "abc")
    turn = await (await harness.conversation()).turns.open("Look thrice!", inbox=1)
    await turn.record(Message("assistant", "", calls))
    await turn.record(Message("tool", "the third", call_id="c", tool="look"))
    await harness.restart()
    conversation = await harness.conversation()
    turn = await conversation.turns.open("Look thrice!", inbox=1)
    assert [call.id for call in turn.unanswered] == ["a", "b"]
    await turn.record(Message("tool", "the second", call_id="b", tool="look"))
    await turn.record(Message("tool", "the first", call_id="a", tool="look"))
    wanted = ["the first", "the second", "the third"]
    assert texts(await turn.fit(harness.frame))[2:] == wanted
    await harness.restart()
    assert texts((await harness.conversation()).context.view())[2:] == wanted


@pytest.mark.parametrize("piece", ["x", "what we said, ", "\n", "明天中午", '{"a":1.5},'])
async def test_a_huge_result_is_counted_no_further_than_it_is_shown(
    tmp_path: Path, piece: str
) -> None:
    harness = MemoryHarness(tmp_path, Limits().but(tool_result_limit=2_000))
    await harness.open()
    log = (await harness.conversation()).turns
    text = Looked(piece * (2_000_000 // len(piece)))
    shown, tokens = await log.receive(Message("tool", text, call_id="c"))
    await harness.close()
    assert 1_900 < tokens <= 2_050
    assert text.looked <= 5 * shown.kept + 4 * LONGEST_PIECE
