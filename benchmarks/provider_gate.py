"""A gate at which a tool waits while `benchmarks.providers` interferes with its turn."""

from __future__ import annotations

import asyncio

PLUGIN = '''
from benchmarks import provider_gate
from plugins.api import hookimpl, tool

@tool()
async def look(what: str) -> str:
    """Look at something."""
    return f"Seen: {what}"

@tool()
async def wait_at_the_gate(what: str) -> str:
    """Wait."""
    await provider_gate.GATE.wait()
    return f"It is open: {what}"

@hookimpl
def parley_tools():
    return [look, wait_at_the_gate]
'''


class Gate:
    """A gate that is closed until it is opened; `reached` is set when a tool waits."""

    def __init__(self) -> None:
        self.reached, self._opened = asyncio.Event(), asyncio.Event()

    async def wait(self) -> None:
        self.reached.set()
        await self._opened.wait()

    def open(self) -> None:
        self._opened.set()

    def close(self) -> None:
        self.reached, self._opened = asyncio.Event(), asyncio.Event()


GATE = Gate()
