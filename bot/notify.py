"""The messages to systemd from a bot that it started (`Type=notify`, `WatchdogSec=`): ready, alive
at intervals, stopping (`man sd_notify`)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from memory.tasks import cancel_and_wait


@asynccontextmanager
async def announced(environ: Mapping[str, str]) -> AsyncIterator[None]:
    """Notify systemd that the bot is ready, and at the end of this context that it stops."""
    where = environ.get("NOTIFY_SOCKET", "")
    seconds = int(environ.get("WATCHDOG_USEC") or 0) / 1_000_000
    _tell(where, "READY=1")
    living = asyncio.create_task(_live(where, seconds / 2)) if where and seconds else None
    try:
        yield
    finally:
        _tell(where, "STOPPING=1")
        if living:
            await cancel_and_wait(living)


async def _live(where: str, pause: float) -> None:
    """Send watchdog messages in time, as long as the event loop runs."""
    while True:
        _tell(where, "WATCHDOG=1")
        await asyncio.sleep(pause)


def _tell(where: str, state: str) -> None:
    if not where or not hasattr(socket, "AF_UNIX"):
        return
    address = f"\0{where[1:]}" if where.startswith("@") else where
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
        notifier.setblocking(False)
        notifier.sendto(state.encode(), address)
