"""Tests that turns removed by a person are out of the model's reach, and are restored unchanged."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from memory.conversation import Conversation
from memory.messages import Message, ToolCall
from memory.record.offload import LocalWorkspace
from memory.record.search import Words
from memory.services import READABLE, TERSE, WHOLE
from plugins.context_files.feature import FileMirror, write_files
from tests.memory.harness import KEY, MemoryHarness

pytestmark = pytest.mark.databases

LONG = "many words in a line " * 100


def workspace(folder: Path) -> Path:
    return folder / "audiences" / "pipe-main"


def reach(folder: Path) -> dict[str, str]:
    """Return the results of the model's file tools in the conversation."""
    session = workspace(folder) / "sessions" / "pipe%2Fmain"
    return {file.name: file.read_text() for file in sorted(session.glob("*"))}


def daily(folder: Path) -> str:
    """Return the text of the daily memory."""
    return "".join(file.read_text() for file in folder.rglob("memory/*.md"))


def offloaded(folder: Path) -> set[str]:
    """Return the turns in the file of removed turns."""
    lines = reach(folder).get("context.jsonl", "").splitlines()
    return {json.loads(line)["turn"] for line in lines}


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[MemoryHarness]:
    harness = MemoryHarness(
        tmp_path, offloader=LocalWorkspace(workspace(tmp_path)), mirror=FileMirror
    )
    harness.limit(tool_result_limit=200, max_turns=2)
    await harness.open()
    yield harness
    await harness.close()


async def drop(conversation: Conversation, *turns: int) -> None:
    await conversation.editor.drop(turns)


async def test_lines_and_results_come_back_as_they_were(
    harness: MemoryHarness, tmp_path: Path
) -> None:
    for number in range(1, 6):
        await harness.says(f"Question {number}.", [f"{LONG}{number}"])
        await harness.settle()
    conversation = await harness.conversation()
    await write_files(conversation)
    before, whole = reach(tmp_path), lines_of(tmp_path)
    await conversation.editor.clear()
    assert reach(tmp_path) == {"context.jsonl": ""}
    await conversation.editor.undo()
    after = reach(tmp_path)
    assert after.keys() == {*before} - {WHOLE, "context.terse.json"}, "who exports says so again"
    assert lines_of(tmp_path) == whole
    assert all(after[name] == before[name] for name in after if name != "context.jsonl")


async def test_where_nobody_keeps_files_those_of_before_go_with_what_is_taken_away(
    tmp_path: Path,
) -> None:
    harness = MemoryHarness(tmp_path)
    await harness.open()
    await harness.says("Question.")
    conversation = await harness.conversation()
    await write_files(conversation, is_readable=True)
    before = {*reach(tmp_path)}
    await drop(conversation, 1)
    assert {WHOLE, TERSE, READABLE} <= before
    assert not {WHOLE, TERSE, READABLE} & {*reach(tmp_path)}
    await harness.close()


def lines_of(folder: Path) -> list[str]:
    return sorted(reach(folder)["context.jsonl"].splitlines())


async def test_a_crash_before_the_files_are_written_is_made_good_at_the_next_start(
    harness: MemoryHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, 6):
        await harness.says(f"Question {number}.", [f"{LONG}{number}"])
        await harness.settle()
    with monkeypatch.context() as patch:
        conversation = await harness.conversation()

        async def dies(before: object) -> None:
            raise asyncio.CancelledError

        patch.setattr(conversation.editor, "_on_taken", dies)
        with pytest.raises(asyncio.CancelledError):
            await conversation.editor.clear()
    assert offloaded(tmp_path), "it should be there after the crash"
    await harness.restart()
    await harness.conversation()
    assert reach(tmp_path) == {"context.jsonl": ""}


async def test_a_late_summary_leaves_out_what_is_taken_away(
    harness: MemoryHarness, tmp_path: Path
) -> None:
    """The cut is undone, and one of its turns dropped, while its summary is being written."""
    harness.summarizer.gate = asyncio.Event()
    harness.summarizer.answer = lambda request: f"Told: {' '.join(request.text.split())}"
    for number in range(1, 5):
        await harness.says(f"Question {number}.")
    conversation = await harness.conversation()
    assert conversation.context.layout.front is not None
    await conversation.editor.undo()
    await drop(conversation, 1)
    harness.summarizer.gate.set()
    await harness.settle()
    assert "Question 1." not in daily(tmp_path)
    assert "t1" not in offloaded(tmp_path)


async def test_a_clear_leaves_the_results_of_the_running_turn(
    harness: MemoryHarness, tmp_path: Path
) -> None:
    """Messages are in a file before they are in the transcript."""
    await harness.says("Look.", [LONG])
    conversation = await harness.conversation()
    turn = await conversation.turns.open("Look again.")
    call = ToolCall("mine", "look", "{}")
    await turn.record(Message("assistant", "", (call,)))
    result = Message("tool", LONG, call_id="mine", tool="look")
    received, _ = await conversation.turns.receive(result)
    await conversation.editor.clear()
    assert [*reach(tmp_path)] == ["tool_result-mine.txt"]
    assert received.offloaded.endswith("tool_result-mine.txt")


async def test_what_was_dropped_elsewhere_is_not_recalled(harness: MemoryHarness) -> None:
    """The memory search covers all conversations of an audience."""
    thread = replace(KEY, id="pipe/main/thread")
    await harness.says("The piano is new.", key=thread)
    await harness.says("The piano is old.", key=thread)
    await harness.says("Hello.")
    await drop(await harness.conversation(thread), 1)
    memory = (await harness.conversation()).memory
    hits = (await memory.recall("piano", 5)).said.hits
    assert [hit.entry.message.text for hit in hits if hit.spans] == ["The piano is old."]
    beside = [entry for hit in hits for entry in (hit.before, hit.after) if entry]
    assert all(entry.turn == 2 for entry in beside)
    assert len((await memory.search("piano", 5)).said.hits) == 2


async def test_what_a_search_found_before_is_neither_counted_nor_shown(
    harness: MemoryHarness,
) -> None:
    conversation = await harness.conversation()
    for number in range(1, 4):
        turn = await conversation.turns.open("Where is the piano?")
        call = ToolCall(f"c{number}", "context_search", '{"query": "piano"}')
        await turn.record(Message("assistant", "", (call,)))
        result = Message("tool", "a piano", call_id=call.id, tool="context_search")
        await turn.record(result, Message("assistant", "Here."))
    found = await conversation.passages(Words("piano", 0, 0))
    said = [hit.entry.message.role for hit in found.hits]
    assert said == ["user"] * 3
    assert found.total == 9
