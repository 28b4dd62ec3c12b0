"""Jobs in order within a queue, queues in parallel.

One mechanism for everything that must keep an order: turns and commands of a conversation, replies
to a chat. A queue exists as long as it has jobs.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable

from memory.tasks import BackgroundTasks, cancel_and_wait

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
