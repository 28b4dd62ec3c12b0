"""The event loop that the bot runs on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def make_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's, which takes a tenth off the CPU of a message; on Windows, which it does not know,
    Python's own."""
    try:
        from uvloop import new_event_loop  # noqa: PLC0415 - it is not there on Windows
    except ImportError:
        return asyncio.new_event_loop()
    return new_event_loop()


def run(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, on this loop."""
    with asyncio.Runner(loop_factory=make_event_loop) as runner:
        return runner.run(main)
