"""Background work: started, named, awaited and cancelled in one place; jobs in order within a
queue, and queues in parallel; the progress of long work."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable
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


class TaskProgress:
    """The reports of one task. This class ignores them; `bot/progress.py` shows them."""

    def show_progress(self, done: int, total: int) -> None:
        """Report the amount done, and the total (0: unknown)."""

    def write_line(self, text: str) -> None:
        """Report a line for the person who waits."""


SILENT = TaskProgress()


Job = Callable[[], Awaitable[None]]

log = logging.getLogger(__name__)


class KeyedQueues:
    """A runner of jobs; a job that raises is logged and does not block those behind it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: dict[Hashable, deque[Job]] = {}
        self._tasks = BackgroundTasks()
        self._runs: dict[Hashable, asyncio.Task[None]] = {}
        self._job_done = asyncio.Event()

    def put(self, queue: Hashable, job: Job) -> None:
        """Add a job at the end of a queue."""
        if queue in self._jobs:
            self._jobs[queue].append(job)
            return
        self._jobs[queue] = deque([job])
        self._runs[queue] = self._tasks.start(self._run(queue), f"{self._name} {queue}")

    def depth(self, queue: Hashable) -> int:
        """Return the number of a queue's unfinished jobs, including the running one."""
        return len(self._jobs.get(queue, ()))

    @property
    def running(self) -> int:
        return len(self._jobs)

    @property
    def size(self) -> int:
        """The number of unfinished jobs in all queues."""
        return sum(map(len, self._jobs.values()))

    @property
    def waiting(self) -> int:
        return sum(len(jobs) - 1 for jobs in self._jobs.values())

    async def wait_for_capacity(self, queue: Hashable, depth: int) -> None:
        """Wait until a queue has fewer unfinished jobs than this."""
        while self.depth(queue) >= depth:
            self._job_done.clear()
            await self._job_done.wait()

    async def idle(self) -> None:
        """Wait until every queue is empty, including jobs that are added meanwhile."""
        await self._tasks.idle()

    async def idle_in(self, is_selected: Callable[[Hashable], bool]) -> None:
        """Wait until the selected queues are empty."""
        while runs := [run for queue, run in self._runs.items() if is_selected(queue)]:
            await asyncio.wait(runs)

    async def drop(self, is_selected: Callable[[Hashable], bool]) -> None:
        """Cancel the running jobs of the selected queues, and drop their waiting jobs."""
        await cancel_and_wait(*(run for queue, run in self._runs.items() if is_selected(queue)))

    async def close(self) -> None:
        """Cancel the running jobs, and drop the waiting ones."""
        await self._tasks.stop()

    async def _run(self, queue: Hashable) -> None:
        jobs = self._jobs[queue]
        try:
            while jobs:
                try:
                    await jobs[0]()
                except (Exception, asyncio.CancelledError):
                    if _is_cancelled():
                        raise
                    log.exception("a job of %s %s failed", self._name, queue)
                jobs.popleft()
                self._job_done.set()
        finally:
            del self._jobs[queue], self._runs[queue]
            self._job_done.set()  # waiters for room must also see a queue whose rest was dropped


def _is_cancelled() -> bool:
    """Return whether this queue was cancelled; a job may also fail because another task that it
    awaits was cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
