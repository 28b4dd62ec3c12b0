"""A server of a platform: the common part of the fakes of all messengers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Generic, Protocol, Self, TypeVar

from aiohttp import web

from tests.waiting import PATIENCE


class _Shown(Protocol):
    @property
    def text(self) -> str: ...


Message = TypeVar("Message", bound=_Shown)


class Platform(Generic[Message]):
    """A server at `base_url`, on a free port; an asynchronous context manager. Tests wait for a
    state of it by `until` and `shown`; each change of the state calls `_notice`."""

    base_url = ""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def _app(self) -> web.Application:
        raise NotImplementedError

    def _sent(self, chat: Any) -> Iterable[Message]:
        """Return the messages of the bot in a chat, or in all, the newest first."""
        raise NotImplementedError

    async def _close(self) -> None:
        """Close the open connections."""

    async def __aenter__(self) -> Self:
        self._runner = web.AppRunner(self._app(), shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.base_url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._close()
        await self._runner.cleanup()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_again(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _notice(self) -> None:
        """Wake the waiting tasks."""
        self._start(self._look_again())

    async def until(self, holds: Callable[[], Any]) -> Any:
        """Wait until a condition on this server is true; return its value."""
        async with self._changed:
            try:
                return await asyncio.wait_for(self._changed.wait_for(holds), PATIENCE)
            except TimeoutError:
                shown = [message.text for message in self._sent(None)]
                raise AssertionError(f"it did not happen; shown is {shown}") from None

    async def shown(self, words: str, chat: Any = None) -> Message:
        """Wait for the newest message with these words, and return it."""
        sent: Message = await self.until(
            lambda: next((one for one in self._sent(chat) if words in one.text), None)
        )
        return sent
