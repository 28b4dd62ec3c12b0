"""The one place where a test looks again and again for what no event tells."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")

PATIENCE = 90.0
"""Seconds after which what does not come fails the test; only a failing test waits that long."""
_LOOK = 0.01  # seconds between two looks


@overload
async def until(
    find: Callable[[], Awaitable[T | None]], describe: Callable[[], object] = ...
) -> T: ...


@overload
async def until(find: Callable[[], T | None], describe: Callable[[], object] = ...) -> T: ...


async def until(find: Callable[[], Any], describe: Callable[[], object] = str) -> Any:
    """Call `find`, and await what it returns where it is asynchronous, until that is something
    true; return it.

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
    """`until` for code that is not asynchronous."""
    deadline = time.monotonic() + PATIENCE
    while not (value := find()):
        assert time.monotonic() < deadline, f"it did not come in {PATIENCE:.0f} s {describe()}"
        time.sleep(_LOOK)
    return value
