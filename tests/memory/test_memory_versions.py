"""The versions of `MEMORY.md` on a disk that is full."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from agent.tools import box

SMALL_DISK = """
import asyncio, sys
from dataclasses import replace
from pathlib import Path
from memory.long_term.memory import AudienceState, LongTermMemory
from memory.record.store import StoreError
from tests.memory.rooms import KEY, Lodge

async def main():
    lodge = Lodge(Path(sys.argv[1]))
    await lodge.open()
    services = replace(lodge.conversations.services, data=Path("/mnt"))
    memory = LongTermMemory(services, KEY, AudienceState())
    await memory.remember("Ann sings.", "ann")
    try:
        await memory.edit("Much. " * 20_000, "ann")
    except StoreError as error:
        print(error)
    print(sorted(file.name for file in memory.path.parent.iterdir()), len(await memory.versions()))
    await memory.remember("Ben cooks.", "ann")
    print("Ann" in memory.path.read_text(), len(await memory.versions()))
    await lodge.close()

asyncio.run(main())
"""


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
