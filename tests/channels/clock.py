"""The clock that channels under test wait by: no time passes."""

from __future__ import annotations

import asyncio

_TURNS = 20


async def quick_sleep(seconds: float) -> None:
    """Let all others go on for a few turns of the loop, however long the wait would be."""
    for _ in range(_TURNS if seconds > 0 else 1):
        await asyncio.sleep(0)
