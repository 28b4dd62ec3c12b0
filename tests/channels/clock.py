"""The clock of channels under test: waits take no time."""

from __future__ import annotations

import asyncio

_TURNS = 20


async def quick_sleep(seconds: float) -> None:
    """Let other tasks run for a few iterations of the loop, whatever the length of the wait."""
    for _ in range(_TURNS if seconds > 0 else 1):
        await asyncio.sleep(0)
