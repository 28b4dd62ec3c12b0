"""A server for one audience, as a supervised task: started on demand, stopped when idle, and not
restarted endlessly if it fails.

Every caller waits for a limited time and gets an error as a sentence. A call is never repeated,
since it may have been executed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from time import monotonic
from typing import Protocol

from msgspec import Struct

from agent.tools import ToolError
from memory.tasks import retrieve_error
from plugins.mcp import ServerDown, SessionExpired
from plugins.mcp.catalogue import ListedTool
from plugins.mcp.health import Health, add_stderr_reason

log = logging.getLogger(__name__)


MOST_FAILURES = 3
"""The number of failures within `WINDOW` seconds after which a server is not started until these
have passed."""
WINDOW = 600.0
_CHECK = 3.0  # timeout in seconds for the check whether a server is alive
MOST_SILENT = 3
"""The number of consecutive calls without an answer after which a server is stopped, to be started
again."""


class ServerConnection(Protocol):
    """A server that is ready (`plugins/mcp/client.py`)."""

    health: Health
    is_changed: asyncio.Event

    async def list_tools(self) -> list[ListedTool]: ...

    async def call(self, tool: str, arguments: dict[str, object]) -> str: ...


Connect = Callable[[], Awaitable[AbstractAsyncContextManager[ServerConnection]]]
"""A factory of connections to a server; entering its result raises ServerDown."""


class ServerTimeouts(Struct, frozen=True):
    """Timeouts in seconds: for a start, for a call, and for an idle server (0: none)."""

    start: float
    call: float
    idle: float


class SessionOwner(Protocol):
    """The owner of the sessions."""

    @property
    def timeouts(self) -> ServerTimeouts: ...

    async def keep_listing(self, server: str, listed: Sequence[ListedTool]) -> None:
        """Store a server's tools, at each start and each time that it reports a change."""

    def alert_down(self, server: str, why: str) -> None:
        """Report the failure of a server."""


class ServerSession:
    """A server, running or not."""

    def __init__(self, name: str, connect: Connect, owner: SessionOwner) -> None:
        self.name = name
        self._connect, self._owner, self._clock = connect, owner, monotonic
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[ServerConnection] | None = None
        self._leaving = asyncio.Event()
        self._failures: deque[float] = deque(maxlen=MOST_FAILURES)
        self._users, self._silent, self._used_at = 0, 0, monotonic()
        self.why_down = ""

    @property
    def is_running(self) -> bool:
        ready = self._ready
        return ready is not None and ready.done() and not ready.cancelled() and self._is_alive

    @property
    def _is_alive(self) -> bool:
        if self._task is None or self._task.done() or self._leaving.is_set():
            return False
        ready = self._ready
        is_ready = ready is not None and ready.done() and not ready.exception()
        return not is_ready or not self._connected().health.over.is_set()

    def _connected(self) -> ServerConnection:
        assert self._ready is not None
        return self._ready.result()

    async def ready(self) -> None:
        """Start it if it is not running, and wait until its tools are known. Raises ServerDown."""
        await self._connection()

    async def call(self, tool: str, arguments: dict[str, object]) -> str:
        """Call one of its tools. Raises ToolError with the tool's own error, and ServerDown."""
        try:
            return await self._call(tool, arguments)
        except SessionExpired:  # it was restarted, and has not executed the call
            pass
        try:
            return await self._call(tool, arguments)
        except SessionExpired as error:
            raise ToolError(f"The server refused this: {error}") from None

    async def check(self) -> None:
        """Check whether a connected server is still alive, and reconnect if not."""
        if not self.is_running:
            return
        with suppress(ServerDown, TimeoutError):
            connection = self._connected()
            async with asyncio.timeout(_CHECK):
                await connection.list_tools()
            return
        if not self._is_alive:
            with suppress(ServerDown, TimeoutError):
                async with asyncio.timeout(_CHECK):
                    await self.ready()

    async def _call(self, tool: str, arguments: dict[str, object]) -> str:
        connection = await self._connection()
        seconds = self._owner.timeouts.call
        self._users += 1
        try:
            async with asyncio.timeout(seconds):
                result = await connection.call(tool, arguments)
        except TimeoutError:
            self._note_silence()
            raise ServerDown(
                f"it did not answer within {seconds:g} s; what it was asked for may have happened"
            ) from None
        except SessionExpired:
            raise
        except ServerDown as error:
            why = str(error)
            if connection.health.over.is_set() and connection.health.why:
                why = connection.health.why
            raise ServerDown(f"{why}; what it was asked for may have happened") from None
        except ToolError:
            self._note_answer(connection)
            raise
        finally:
            self._users -= 1
            self._used_at = self._clock()
        self._note_answer(connection)
        return result

    def _note_answer(self, connection: ServerConnection) -> None:
        """Register an answer: earlier output and failures no longer explain a later failure."""
        self._silent, connection.health.said = 0, b""
        self._failures.clear()

    def _note_silence(self) -> None:
        self._silent += 1
        if self._silent >= MOST_SILENT and self._ready is not None and self.is_running:
            self._connected().health.end(f"{MOST_SILENT} calls in a row got no answer")

    async def _connection(self) -> ServerConnection:
        while not self._is_alive or self._ready is None:
            if self._task is not None and not self._task.done():  # it is being stopped
                await asyncio.wait({self._task})
                continue
            self._refuse_in_backoff()
            self._leaving = asyncio.Event()
            self._silent, self._used_at = 0, self._clock()
            self._ready = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._run(self._ready), name=f"mcp {self.name}")
        # A waiting caller may be cancelled; the start continues for the next one.
        return await asyncio.shield(self._ready)

    def _refuse_in_backoff(self) -> None:
        recent = [at for at in self._failures if self._clock() - at < WINDOW]
        if len(recent) >= MOST_FAILURES:
            wait = WINDOW - (self._clock() - recent[0])
            raise ServerDown(
                f"it failed {len(recent)} times within {WINDOW / 60:g} minutes ({self.why_down}), "
                f"so it is not tried for {max(1, round(wait / 60))} more"
            )

    async def _run(self, ready: asyncio.Future[ServerConnection]) -> None:
        """Start it, and keep it running until it ends or is stopped."""
        why = ""
        timeouts = self._owner.timeouts
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(timeouts.start):
                    connection = await stack.enter_async_context(await self._connect())
                    await self._owner.keep_listing(self.name, await connection.list_tools())
                self._used_at = self._clock()
                ready.set_result(connection)
                self.why_down = ""
                connection.health.said = b""
                log.info("the MCP server %s is ready", self.name)
                await self._wait_until_over(connection)
            why = connection.health.why
            if why:
                why = add_stderr_reason(why, connection.health.said)
        except TimeoutError:
            why = f"it was not ready within {timeouts.start:g} s"
        except ServerDown as error:
            why = str(error)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # the SDK's own errors count as the server's
            log.warning("the MCP server %s failed", self.name, exc_info=error)
            why = f"it failed ({type(error).__name__})"
        finally:
            self._report_down(ready, why)

    def _report_down(self, ready: asyncio.Future[ServerConnection], why: str) -> None:
        if why:
            self._failures.append(self._clock())
            self.why_down = why
            log.warning("the MCP server %s is down: %s", self.name, why)
            self._owner.alert_down(self.name, why)
        if not ready.done():
            ready.set_exception(ServerDown(why or "it was stopped"))
            ready.exception()  # marks it as retrieved: there may be no caller

    async def _wait_until_over(self, connection: ServerConnection) -> None:
        """Wait until it has ended, is stopped, or was idle for too long."""
        while True:
            over = asyncio.create_task(connection.health.over.wait())
            leaving = asyncio.create_task(self._leaving.wait())
            changed = asyncio.create_task(connection.is_changed.wait())
            tasks = (over, leaving, changed)
            try:
                await asyncio.wait(
                    tasks, timeout=self._seconds_until_idle(), return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                for task in tasks:
                    task.cancel()
            if over.done() or leaving.done() or self._seconds_until_idle() == 0:
                self._leaving.set()
                return
            if changed.done():
                connection.is_changed.clear()
                async with asyncio.timeout(self._owner.timeouts.start):
                    await self._owner.keep_listing(self.name, await connection.list_tools())

    def _seconds_until_idle(self) -> float | None:
        """Return the seconds until it is stopped as idle; None: it never is."""
        idle = self._owner.timeouts.idle
        if not idle or self._users:
            return min(60.0, idle) if idle else None
        return max(0.0, idle - (self._clock() - self._used_at))

    async def stop(self) -> None:
        """Stop it, and wait until it has ended."""
        self._leaving.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=5.0)
            self._task.cancel()
            retrieve_error(self._task) if self._task.done() else None
