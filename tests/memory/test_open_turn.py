"""A turn that is stopped at any moment is in memory what it is on disk."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memory.messages import Message, ToolCall
from memory.record import transcript
from tests.memory.rooms import Lodge


@pytest.fixture
async def lodge(tmp_path: Path) -> AsyncIterator[Lodge]:
    lodge = Lodge(tmp_path)
    await lodge.open()
    yield lodge
    await lodge.close()


async def test_a_stop_while_a_result_is_written_gives_the_call_no_second_result(
    lodge: Lodge,
) -> None:
    conversation = await lodge.conversation()
    turn = await conversation.turns.open("Look!")
    await turn.record(Message("assistant", "", (ToolCall("a", "look", "{}"),)))
    gate = threading.Event()
    blocking = lodge.store.write(lambda db: gate.wait(30))
    result = Message("tool", "Seen.", call_id="a", tool="look")
    recording = asyncio.create_task(turn.record(result))
    blocked = asyncio.ensure_future(blocking)
    await asyncio.sleep(0)  # the result waits behind what blocks the writer
    recording.cancel()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await recording
    await blocked
    await turn.break_off("stopped", "", "Stopped.")
    (kept,) = await conversation.context.turns([1])
    assert [entry.message.role for entry in kept.entries] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert kept.entries[2].message.text == "Seen."
    assert conversation.context.view().whole == (kept,)


async def test_what_was_heard_is_in_the_turn_and_off_the_inbox_though_a_stop_came(
    lodge: Lodge,
) -> None:
    conversation = await lodge.conversation()
    turn = await conversation.turns.open("First.", inbox=1)
    hearing = asyncio.create_task(turn.hear([Message("user", "Second.")], [2]))
    await asyncio.sleep(0)
    hearing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hearing
    assert [entry.message.text for entry in turn.entries] == ["First.", "Second."]
    row = await lodge.store.read(
        lambda db: transcript.turn_of_inbox(db, conversation.context.row, 2)
    )
    assert row == 1
    again = await conversation.turns.open("Second.", inbox=2)
    assert again.number == 1, "it has its turn already"
