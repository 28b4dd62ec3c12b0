"""The only module in which tests poll, for conditions without an event."""

from __future__ import annotations

import asyncio
import faulthandler
import inspect
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar, overload

T = TypeVar("T")

PATIENCE = 240.0
"""Seconds after which a condition that is still false fails the test; only a failing test waits
that long."""
_LOOK = 0.01  # seconds between two checks


@overload
async def until(
    find: Callable[[], Awaitable[T | None]], describe: Callable[[], object] = ...
) -> T: ...


@overload
async def until(find: Callable[[], T | None], describe: Callable[[], object] = ...) -> T: ...


async def until(find: Callable[[], Any], describe: Callable[[], object] = str) -> Any:
    """Call `find`, and await its result if it is awaitable, until the result is true; return it.

    `describe` is called for the message of the failure. Raises AssertionError after PATIENCE.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        found = find()
        value = await found if inspect.isawaitable(found) else found
        if value:
            return value
        assert time.monotonic() < deadline, f"it did not come in {PATIENCE:.0f} s {describe()}"
        await asyncio.sleep(_LOOK)


def wait_until(find: Callable[[], T], describe: Callable[[], object] = str) -> T:
    """Poll like `until`, in synchronous code."""
    deadline = time.monotonic() + PATIENCE
    while not (value := find()):
        assert time.monotonic() < deadline, f"it did not come in {PATIENCE:.0f} s {describe()}"
        time.sleep(_LOOK)
    return value


async def ended(task: asyncio.Task[T]) -> T:
    """Wait for a task to end; if it does not, print the positions of all tasks and threads. Raises
    TimeoutError after PATIENCE."""
    await asyncio.wait({task}, timeout=PATIENCE)
    if not task.done():
        for one in asyncio.all_tasks():
            print(one.get_name(), *_places(one.get_coro()), sep="\n  ")  # noqa: T201 - evidence
        faulthandler.dump_traceback(2)
    return await asyncio.wait_for(task, 0)


def _places(awaited: Any) -> Iterator[str]:
    """Yield the position of a coroutine, and of the objects it awaits, recursively."""
    while frame := getattr(awaited, "cr_frame", None) or getattr(awaited, "ag_frame", None):
        yield f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}"
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None)
    yield repr(awaited)
