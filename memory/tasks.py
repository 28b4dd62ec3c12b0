"""Background work: started, named, awaited and cancelled in one place."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class BackgroundTasks:
    """Tasks that are not awaited while they run; each is held until it is done."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def start(self, work: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """Start a task; asyncio logs an error that nobody retrieves."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def idle(self) -> None:
        """Wait until all tasks are done, including those started meanwhile."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    def cancel(self) -> None:
        """Cancel all tasks, without waiting."""
        for task in tuple(self._tasks):
            task.cancel()

    async def stop(self) -> None:
        """Cancel all tasks, and wait until they are done."""
        await cancel_and_wait(*self._tasks)


async def cancel_and_wait(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until they are done, however they end. The caller may be cancelled
    meanwhile; the tasks still end."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
    for task in tasks:
        retrieve_error(task)


def is_stopped() -> bool:
    """Return whether the current task was cancelled. If not, a CancelledError comes from something
    that it awaits, and is an ordinary error."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def retrieve_error(task: asyncio.Task[Any]) -> None:
    """Retrieve the error of a finished task, if it failed, so that asyncio does not report it."""
    if not task.cancelled():
        task.exception()


async def run_shielded(work: Coroutine[Any, Any, T]) -> T:
    """Run work that must not be interrupted: a `/stop` during it takes effect after its end. Work
    that is committed but not known in memory would be done again."""
    task = asyncio.create_task(work)
    task.add_done_callback(retrieve_error)  # a cancelled caller does not retrieve the result
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
    return task.result()
