"""The signals that request the end of a process: Ctrl-C, and SIGTERM."""

from __future__ import annotations

import asyncio
import signal
from types import FrameType


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
