"""The signals by which a process is asked to end: Ctrl-C, and SIGTERM."""

from __future__ import annotations

import asyncio
import signal


def stop_on_signals(stopping: asyncio.Event) -> None:
    """Have the event set when this process is asked to end. In the main thread."""
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(name, stopping.set)
        except NotImplementedError:  # on Windows, whose loop knows none
            signal.signal(name, lambda *_: loop.call_soon_threadsafe(stopping.set))
