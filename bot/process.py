"""The process of a bot: its event loop, the signals that end it, its messages to systemd, and the
file for unforeseen errors."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import tempfile
import traceback
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from memory.tasks import cancel_and_wait

NAME = "fault.log"


def keep_fault(data: Path, error: BaseException) -> Path:
    """Append an error's traceback to `fault.log`, beside the other logs of the data folder. If that
    is impossible, use the system's folder for temporary files. Return the file's path."""
    text = "".join(traceback.format_exception(error)) + "\n"
    try:
        return _append(data / "logs" / NAME, text)
    except OSError:
        return _append(Path(tempfile.mkdtemp(prefix="parley-")) / NAME, text)


def _append(path: Path, text: str) -> Path:
    path.parent.mkdir(mode=0o700, exist_ok=True)  # for one person, like all files of the bot
    with open(path, "a", encoding="utf-8", opener=partial(os.open, mode=0o600)) as file:
        file.write(text)
    return path


T = TypeVar("T")


def make_event_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's event loop, which saves a tenth of the CPU time of a message; Python's own on
    Windows, which uvloop does not support."""
    try:
        from uvloop import new_event_loop  # noqa: PLC0415 - it is not there on Windows
    except ImportError:
        return asyncio.new_event_loop()
    return new_event_loop()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as `asyncio.run` does, on this loop."""
    with asyncio.Runner(loop_factory=make_event_loop) as runner:
        return runner.run(main)


def stop_on_signals(stopping: asyncio.Event) -> None:
    """Set the event once this process is asked to end. Call it in the main thread."""
    loop = asyncio.get_running_loop()

    def stop(number: int, frame: FrameType | None) -> None:
        try:
            loop.call_soon_threadsafe(stopping.set)
        except RuntimeError:  # the loop is closed
            signal.default_int_handler(number, frame)

    # Not a handler of the loop: prompt_toolkit installs its own while it draws, and removes the
    # loop's.
    signal.signal(signal.SIGINT, stop)
    try:
        loop.add_signal_handler(signal.SIGTERM, stopping.set)
    except NotImplementedError:  # Windows, whose loop has no signal handlers
        signal.signal(signal.SIGTERM, stop)


@asynccontextmanager
async def announced(environ: Mapping[str, str]) -> AsyncIterator[None]:
    """Notify systemd that the bot is ready, and at the end of this context that it stops."""
    where = environ.get("NOTIFY_SOCKET", "")
    seconds = int(environ.get("WATCHDOG_USEC") or 0) / 1_000_000
    _notify_systemd(where, "READY=1")
    living = asyncio.create_task(_live(where, seconds / 2)) if where and seconds else None
    try:
        yield
    finally:
        _notify_systemd(where, "STOPPING=1")
        if living:
            await cancel_and_wait(living)


async def _live(where: str, pause: float) -> None:
    """Send watchdog messages in time, as long as the event loop runs."""
    while True:
        _notify_systemd(where, "WATCHDOG=1")
        await asyncio.sleep(pause)


def _notify_systemd(where: str, state: str) -> None:
    if not where or not hasattr(socket, "AF_UNIX"):
        return
    address = f"\0{where[1:]}" if where.startswith("@") else where
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
        notifier.setblocking(False)
        notifier.sendto(state.encode(), address)
