"""`MEMORY.md` and its versions, on a full disk, and after any sequence of changes."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memory.long_term.document import DeletedTurns, LineOperation, Source, fact, parse, render
from plugins.shell import box
from tests.memory.harness import KEY, MemoryHarness

pytestmark = pytest.mark.databases

SMALL_DISK = """
import asyncio, sys
from msgspec.structs import replace
from pathlib import Path
from memory.long_term.memory import AudienceState, LongTermMemory
from memory.record.store import StoreError
from tests.memory.harness import KEY, MemoryHarness

async def main():
    harness = MemoryHarness(Path(sys.argv[1]))
    await harness.open()
    services = replace(harness.conversations.services, data=Path("/mnt"))
    memory = LongTermMemory(services, KEY, AudienceState())
    await memory.remember("Ann sings.", "ann")
    try:
        await memory.edit("Much. " * 20_000, "ann")
    except StoreError as error:
        print(error)
    print(sorted(file.name for file in memory.path.parent.iterdir()), len(await memory.versions()))
    await memory.remember("Ben cooks.", "ann")
    print("Ann" in memory.path.read_text(), len(await memory.versions()))
    await harness.close()

asyncio.run(main())
"""


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(not asyncio.run(box.is_there()), reason="bubblewrap may not work here")
async def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    disk = ("bwrap", "--bind", "/", "/", "--size", "40000", "--tmpfs", "/mnt")
    command = (*disk, sys.executable, "-c", SMALL_DISK, str(tmp_path))
    ran = await box.run(command, dict(os.environ), Path.cwd(), 60)
    assert ran.head.decode().splitlines() == [
        "/mnt/audiences/pipe-main/memory/MEMORY.md can't be written: No space left on device.",
        "['MEMORY.md'] 1",
        "True 2",
    ]


async def test_a_reason_that_tells_of_what_is_forgotten_goes_too(tmp_path: Path) -> None:
    harness = MemoryHarness(tmp_path)
    await harness.open()
    conversation = await harness.conversation()
    memory = conversation.long_term
    ours = Source("section", "2026-11-20", conversation=KEY.id, turns="t1", job=1)
    line = fact("Ann has a dog, Rex.", "2026-11-20", ours)
    theirs = Source("section", "2026-11-21", conversation="pipe/other", turns="t1", job=2)
    gone = LineOperation("remove", old=line.raw, why="Rex died", sources=(theirs, ours))
    async with memory.state.changing:
        await memory.propose([LineOperation("add", line, sources=(ours,))], [], "model fake")
    await memory.approve("ann")
    async with memory.state.changing:
        await memory.propose([gone], [], "model fake")
    await memory.approve("ann")
    async with memory.hold_while_forgetting(DeletedTurns(KEY.id)):
        pass
    assert "Rex" not in str(await memory.versions())
    await harness.close()


STEPS = ("remember", "edit", "hand", "propose", "approve", "refuse", "undo", "redo", "restart")


async def take(harness: MemoryHarness, step: str, text: str) -> None:
    """Take a step of a person, a model or a crash."""
    memory = (await harness.conversation()).long_term
    source = Source("section", "2026-11-20", conversation=KEY.id, turns="t1", job=1, digest=text)
    match step:
        case "remember":
            await memory.remember(text, "ann")
        case "edit":
            await memory.edit(f"# Us\n\n- {text}\n", "ann")
        case "hand":
            memory.path.parent.mkdir(parents=True, exist_ok=True)
            memory.path.write_text(f"{text}\nby hand")
        case "propose":
            new = LineOperation("add", fact(text, "2026-11-20", source), sources=(source,))
            async with memory.state.changing:
                await memory.propose([new], [text], "model fake")
        case "approve":
            await memory.approve("ann")
        case "refuse":
            await memory.refuse()
        case "undo":
            await memory.undo()
        case "redo":
            await memory.redo()
        case "restart":
            await harness.restart()


@settings(max_examples=4)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from("ABCD")), max_size=10))
@example([("remember", "A"), ("undo", "A"), ("hand", "B"), ("undo", "B"), ("redo", "B")])
@example([("propose", "A"), ("hand", "B"), ("approve", "A"), ("restart", "A"), ("undo", "A")])
def test_file_and_versions_agree_and_nothing_is_lost(steps: list[tuple[str, str]]) -> None:
    async def live(folder: Path) -> None:
        harness = MemoryHarness(folder)
        await harness.open()
        written: set[str] = set()
        for step, text in steps:
            await take(harness, step, text)
            memory = (await harness.conversation()).long_term
            state = await memory.read()
            there = memory.path.read_text() if memory.path.exists() else ""
            assert render(parse(there)) == render(state.lines)
            written.add(render(state.lines))
            kept = {render(one.lines) for one in await memory.versions()} | {""}
            assert written <= kept, "each text that was in force can come back"
            if await memory.undo():
                await memory.redo()
            assert (await memory.read()).lines == state.lines
        await harness.close()

    with TemporaryDirectory() as folder:
        asyncio.run(live(Path(folder)))
