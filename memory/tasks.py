"""Work in the background: started, named, waited for and ended in one place."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class BackgroundTasks:
    """Tasks that nobody awaits as they run; each is known here until it is done."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def start(self, work: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """Begin; what fails without being heard is asyncio's to log."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def idle(self) -> None:
        """Wait until all are done, also those that are started meanwhile."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    def cancel(self) -> None:
        """Have all end, without waiting for that."""
        for task in tuple(self._tasks):
            task.cancel()

    async def close(self) -> None:
        """Have all end, and wait until they have."""
        await cancel_and_wait(*self._tasks)


async def cancel_and_wait(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until they are over, however they end. Whoever waits may be cancelled
    again and again meanwhile: they end in peace."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
    for task in tasks:
        hear(task)


def is_stopped() -> bool:
    """Return whether the task that asks was told to end. Where not, a CancelledError comes from
    what it awaits, and is a fault of that like any other."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def hear(task: asyncio.Task[Any]) -> None:
    """Read the error of a task that is over, if it failed, so that asyncio need not report it."""
    if not task.cancelled():
        task.exception()


async def run_shielded(work: Coroutine[Any, Any, T]) -> T:
    """Do what must not be cut in half: a `/stop` in its middle holds from its end on. What is
    committed and not known in memory would be done again."""
    task = asyncio.create_task(work)
    task.add_done_callback(hear)  # who was cancelled meanwhile asks for no result
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
    return task.result()
