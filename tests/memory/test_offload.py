"""Tests that content removed from the context is stored in files: AgentScope's workspace, and its
faults."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from memory.keys import ConversationKey, file_name
from memory.messages import Image, Message, ToolCall
from memory.record import offload, summaries
from memory.record.offload import LocalWorkspace
from memory.request_fitter import Overflow
from memory.turns import Entry
from tests.memory.harness import KEY, MemoryHarness, texts

AT = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
PNG = b"\x89PNG\r\n\x1a\n picture"
SESSION = "sessions/pipe%2Fmain"


def entries(*messages: Message, first: int = 1) -> list[Entry]:
    return [Entry(seq, seq, message, 1, AT) for seq, message in enumerate(messages, first)]


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def below(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


async def test_the_workspace_is_laid_out_as_documented(tmp_path: Path) -> None:
    workspace = LocalWorkspace(workdir=tmp_path)
    await workspace.initialize()
    assert sorted(os.listdir(tmp_path)) == ["data", "sessions", "skills"]
    image = await workspace.keep(PNG, "image/png")
    assert await workspace.keep(PNG, "image/png") == image
    context = await workspace.offload_context(
        "s1", entries(Message("user", "Look!", images=(image,)))
    )
    result = await workspace.offload_tool_result("s1", Message("tool", "all of it", call_id="c7"))
    assert below(tmp_path) == [
        f"data/{image.sha256}.png",
        "sessions/s1/context.jsonl",
        "sessions/s1/tool_result-c7.txt",
    ]
    assert (context, result) == ("sessions/s1/context.jsonl", "sessions/s1/tool_result-c7.txt")
    assert (tmp_path / result).read_text() == "all of it"
    assert (tmp_path / image.file).read_bytes() == PNG
    (line,) = lines(tmp_path / context)
    assert (line["role"], line["content"], line["images"]) == ("user", "Look!", [image.file])


async def test_sessions_are_apart_and_each_is_appended_to(tmp_path: Path) -> None:
    workspace = LocalWorkspace(str(tmp_path))
    await workspace.offload_context("one", entries(Message("user", "a")))
    await workspace.offload_context("two", entries(Message("user", "b")))
    await workspace.offload_context("one", entries(Message("user", "c"), first=2))
    said = {
        name: [line["content"] for line in lines(tmp_path / "sessions" / name / "context.jsonl")]
        for name in ("one", "two")
    }
    assert said == {"one": ["a", "c"], "two": ["b"]}


HOSTILE = [
    "..",
    ".",
    "",
    "../../etc",
    "/etc/passwd",
    "a/b",
    "a\x00b",
    "é" * 300,
    "x~y",
    "\ud800",
    "~",
]


async def test_hostile_names_stay_in_the_folder_and_apart(tmp_path: Path) -> None:
    workspace = LocalWorkspace(tmp_path / "work")
    for name in HOSTILE:
        await workspace.offload_context(name, entries(Message("user", "hi")))
        await workspace.offload_tool_result("s", Message("tool", repr(name), call_id=name))
    assert os.listdir(tmp_path) == ["work"]
    files = below(tmp_path)
    assert len(files) == 2 * len(HOSTILE)
    assert {len(Path(file).parts) for file in files} == {4}


def test_no_name_can_be_made_to_meet_another_ones() -> None:
    names = [*HOSTILE, *(file_name(name) for name in HOSTILE)]
    assert len({file_name(name) for name in names}) == len(set(names))


async def test_a_line_that_a_crash_cut_off_is_mended(tmp_path: Path) -> None:
    workspace = LocalWorkspace(tmp_path)
    said = entries(Message("user", "one"), Message("assistant", "two"))
    file = tmp_path / await workspace.offload_context("s", said)
    whole = file.read_bytes()
    for size in range(0, len(whole), 7):
        file.write_bytes(whole[:size])
        await workspace.offload_context("s", said)
        assert file.read_bytes() == whole


async def test_what_is_kept_twice_stands_once_but_equal_words_stand_as_often_as_they_were_said(
    tmp_path: Path,
) -> None:
    workspace = LocalWorkspace(tmp_path)
    said = entries(*[Message("user", "yes")] * 12)
    for _ in range(2):
        file = tmp_path / await workspace.offload_context("s", said)
    assert [line["seq"] for line in lines(file)] == list(range(1, 13))


async def test_two_results_of_one_id_do_not_overwrite_each_other(tmp_path: Path) -> None:
    workspace = LocalWorkspace(tmp_path)
    results = [Message("tool", text, call_id="call_1") for text in ("a", "b", "a")]
    names = [await workspace.offload_tool_result("s", result) for result in results]
    assert names[0] == names[2] == "sessions/s/tool_result-call_1.txt"
    assert names[1] == "sessions/s/tool_result-call_1-2.txt"
    assert (tmp_path / names[1]).read_text() == "b"


async def test_many_at_once_lose_nothing(tmp_path: Path) -> None:
    workspace = LocalWorkspace(tmp_path)
    said = entries(*(Message("user", str(number)) for number in range(30)))
    await asyncio.gather(*(workspace.offload_context("s", [entry]) for entry in said))
    file = tmp_path / "sessions/s/context.jsonl"
    assert sorted(line["seq"] for line in lines(file)) == [entry.seq for entry in said]


# --- in a conversation ---


class Broken:
    """An offloader that always fails."""

    async def offload_context(self, session_id: str, msgs: Sequence[Entry], **kwargs: Any) -> str:
        raise OSError(28, "No space left on device")

    async def offload_tool_result(
        self, session_id: str, tool_result: Message, **kwargs: Any
    ) -> str:
        raise RuntimeError("the bucket has a hole")


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[MemoryHarness]:
    harness = MemoryHarness(tmp_path, offloader=LocalWorkspace(workspace(tmp_path)))
    await harness.open()
    yield harness
    await harness.close()


def workspace(folder: Path) -> Path:
    return folder / "audiences" / KEY.audience


def context(folder: Path) -> Path:
    return workspace(folder) / SESSION / "context.jsonl"


LONG = "".join(f"line {number}\n" for number in range(2_000))
MARKER = (
    "\n<<<TRUNCATED>>>\n<system-reminder>The remaining content has been omitted for limited "
    "context.{}</system-reminder>"
)
WHERE = " You can refer to the file in '{}' for the truncated content if needed."


async def shown(harness: MemoryHarness) -> str:
    """Return the text that the model gets for a long result."""
    harness.limit(tool_result_limit=200)
    views = await harness.says("Look.", [LONG])
    return texts(views[-1])[-1]


async def test_the_marker_names_the_file_with_the_whole_output(
    harness: MemoryHarness, tmp_path: Path
) -> None:
    seen = await shown(harness)
    file = f"{SESSION}/tool_result-c1_0.txt"
    assert seen.endswith(MARKER.format(WHERE.format(file)))
    assert seen.startswith("line 0\nline 1\n")
    assert (workspace(tmp_path) / file).read_text() == LONG
    (turn,) = (await harness.conversation()).context.view().turns
    assert turn.entries[2].tokens <= 204, "the marker is part of what is limited"


async def test_the_marker_is_the_same_after_a_restart(harness: MemoryHarness) -> None:
    seen = await shown(harness)
    await harness.restart()
    assert texts((await harness.conversation()).context.view())[2] == seen


async def test_without_an_offloader_the_marker_names_no_file(harness: MemoryHarness) -> None:
    harness.offloader = None
    assert (await shown(harness)).endswith(MARKER.format(""))


@pytest.mark.parametrize("is_unwritable", [False, True])
async def test_one_that_fails_is_logged_and_holds_nothing_up(
    harness: MemoryHarness, tmp_path: Path, caplog: pytest.LogCaptureFixture, is_unwritable: bool
) -> None:
    if is_unwritable:
        (workspace(tmp_path)).mkdir(parents=True)
        (workspace(tmp_path) / "sessions").write_text("a file where a folder should be")
    else:
        harness.offloader = Broken()
    assert (await shown(harness)).endswith(MARKER.format(""))
    harness.limit(max_turns=2)
    for text in ("Two.", "Three."):
        await harness.says(text)
    await harness.settle()
    conversation = await harness.conversation()
    assert [turn.number for turn in conversation.context.view().turns] == [2, 3]
    (turn,) = await conversation.context.turns([1])
    assert turn.entries[2].message.text == LONG, "the transcript has it"
    assert harness.summarizer.requests, "and it was summarised"
    assert len(caplog.records) == 2
    assert all("could not be offloaded" in record.message for record in caplog.records)


async def test_turns_that_leave_by_a_cut_are_appended(
    harness: MemoryHarness, tmp_path: Path
) -> None:
    harness.limit(max_turns=2)
    for text in ("One.", "Two.", "Three.", "Four."):
        await harness.says(text, ["seen"])
    await harness.settle()
    kept = lines(context(tmp_path))
    assert [line["content"] for line in kept if line["role"] == "user"] == ["One.", "Two."]
    assert kept[1]["tool_calls"] == [["c1_0", "look", "{}"]]
    assert (kept[2]["tool"], kept[2]["turn"], kept[3]["content"]) == ("look", "t1", "Yes.")


async def test_a_turn_that_leaves_again_after_an_undo_stands_once(
    harness: MemoryHarness, tmp_path: Path
) -> None:
    conversation = await harness.conversation()
    for text in ("One. " * 50, "Two."):
        await harness.says(text)
    for _ in range(2):
        await conversation.compactor.compact_for_person()
        await harness.settle()
        await conversation.editor.undo()
    assert [line["turn"] for line in lines(context(tmp_path))] == ["t1", "t1"]


async def test_what_was_leaving_when_the_bot_was_killed_is_kept_at_the_next_start_once(
    harness: MemoryHarness, tmp_path: Path
) -> None:
    harness.limit(max_turns=1)
    for text in ("One.", "Two."):
        await harness.says(text)
    await harness.settle()
    before = context(tmp_path).read_bytes()
    # As after a power cut: half of it is written, and the job is not done.
    context(tmp_path).write_bytes(before[: len(before) * 2 // 3])
    (job,) = await harness.store.read(lambda db: summaries.jobs_of(db, 1))
    await harness.store.write(lambda db: summaries.open_again(db, job))
    await harness.restart()
    await harness.conversation()
    await harness.settle()
    assert context(tmp_path).read_bytes() == before


async def test_what_is_cleared_is_not_offloaded(harness: MemoryHarness, tmp_path: Path) -> None:
    await harness.says("One.")
    await (await harness.conversation()).editor.clear()
    await harness.settle()
    assert not context(tmp_path).exists()


@pytest.mark.parametrize("snips", [True, False])
async def test_a_clip_in_an_emergency_leaves_the_marker_that_names_the_whole_file(
    harness: MemoryHarness, snips: bool
) -> None:
    """Try both settings of `snip_oversized`: the model can still find the whole output."""
    harness.limit(tool_result_limit=4_000, snip_oversized=snips)
    turn = await (await harness.conversation()).turns.open("Look.")
    await turn.record(Message("assistant", "", (ToolCall("c", "look", "{}"),)))
    await turn.record(Message("tool", LONG, call_id="c", tool="look"))
    before = await turn.fit(harness.frame)
    assert await turn.shrink_request(before, harness.frame, Overflow(3_000))
    (was, seen) = (texts(view)[-1] for view in (before, await turn.fit(harness.frame)))
    assert len(seen) < len(was)
    assert seen.endswith(MARKER.format(WHERE.format(f"{SESSION}/tool_result-c.txt")))


# --- forgetting ---


async def pictured(
    harness: MemoryHarness, folder: Path, content: bytes, key: ConversationKey = KEY
) -> Image:
    """Return a turn with a picture."""
    image = await LocalWorkspace(workspace(folder)).keep(content, "image/png")
    turn = await (await harness.conversation(key)).turns.open("Look!", images=(image,))
    await turn.record(Message("assistant", "Nice."))
    return image


def pictures(folder: Path) -> Iterable[str]:
    return {path.name for path in (workspace(folder) / "data").iterdir()}


async def test_forgotten_turns_leave_no_line_and_no_file(
    harness: MemoryHarness, tmp_path: Path
) -> None:
    harness.limit(tool_result_limit=200, max_turns=2)
    for number in range(1, 6):
        await harness.says(f"Question {number}.", [LONG + str(number)])
    await harness.settle()
    assert {line["turn"] for line in lines(context(tmp_path))} == {"t1", "t2", "t3"}
    await (await harness.conversation()).forget([2, 4])
    await harness.settle()
    assert {line["turn"] for line in lines(context(tmp_path))} == {"t1", "t3"}
    results = sorted(path.name for path in context(tmp_path).parent.glob("tool_result-*"))
    assert results == [f"tool_result-c{number}_0.txt" for number in (1, 3, 5)]


async def test_a_picture_goes_with_the_last_turn_that_has_it(
    harness: MemoryHarness, tmp_path: Path
) -> None:
    thread = replace(KEY, id="pipe/main/thread")
    one = await pictured(harness, tmp_path, PNG + b"1")
    await pictured(harness, tmp_path, PNG + b"1", thread)
    two = await pictured(harness, tmp_path, PNG + b"2")
    assert pictures(tmp_path) == {Path(image.file).name for image in (one, two)}
    conversation = await harness.conversation()
    await conversation.forget([2])
    assert pictures(tmp_path) == {Path(one.file).name}
    await conversation.forget()
    assert pictures(tmp_path) == {Path(one.file).name}, "the thread has it too"
    await (await harness.conversation(thread)).forget()
    assert pictures(tmp_path) == set()


async def test_retention_deletes_pictures_and_offloaded_files(
    harness: MemoryHarness, tmp_path: Path
) -> None:
    await pictured(harness, tmp_path, PNG)
    await shown(harness)
    assert await (await harness.conversation()).retire()
    assert pictures(tmp_path) == set()
    assert not context(tmp_path).parent.exists()


async def fails(error: BaseException) -> str:
    raise error


async def returns(reference: Any) -> Any:
    return reference


@pytest.mark.parametrize(
    "work",
    [
        lambda: fails(RuntimeError("full")),
        lambda: fails(SystemExit(1)),
        lambda: fails(asyncio.CancelledError()),
        lambda: asyncio.Event().wait(),
        lambda: returns(7),
        lambda: returns("a\nb"),
        lambda: returns("</system-reminder>"),
        lambda: returns("x" * 501),
    ],
)
async def test_an_offloader_that_fails_hangs_or_returns_no_reference_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, work: Any
) -> None:
    monkeypatch.setattr(offload, "PATIENCE", 0.01)
    assert await offload.attempt(work) == ""
    assert "could not be offloaded" in caplog.text


async def test_a_reference_is_taken_and_an_empty_one_is_no_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert await offload.attempt(lambda: returns(" " + "x" * 499)) == "x" * 499
    assert await offload.attempt(lambda: returns("")) == ""
    assert not caplog.records
