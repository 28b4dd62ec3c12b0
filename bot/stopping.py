"""The signals by which a process is asked to end: Ctrl-C, and SIGTERM."""

from __future__ import annotations

import asyncio
import signal
from types import FrameType


def stop_on_signals(stopping: asyncio.Event) -> None:
    """Have the event set when this process is asked to end. In the main thread."""
    loop = asyncio.get_running_loop()

    def stop(number: int, frame: FrameType | None) -> None:
        try:
            loop.call_soon_threadsafe(stopping.set)
        except RuntimeError:  # the loop is closed
            signal.default_int_handler(number, frame)

    # No handler of the loop: prompt_toolkit has one while it draws, and leaves none of the loop's.
    signal.signal(signal.SIGINT, stop)
    try:
        loop.add_signal_handler(signal.SIGTERM, stopping.set)
    except NotImplementedError:  # on Windows, whose loop knows none
        signal.signal(signal.SIGTERM, stop)
