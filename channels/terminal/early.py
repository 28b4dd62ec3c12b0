"""The input line while the bot is still loading.

Loading takes most of a second, and typing does not need it. So the line is available at once: it
runs in a thread of its own, until the terminal listens and continues with the same line and its
content. The imports of this module delay the line.
"""

from __future__ import annotations

import asyncio
import atexit
import signal
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread
from typing import NoReturn

from prompt_toolkit.application import get_app_session

from channels.terminal.completion import Lines
from channels.terminal.screen import Screen

_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
LEAVING = frozenset({"/quit", "/exit"})
"""The words with which a person may leave."""


class EarlyInput:
    """The input of a person from `open` to `close`, or until they leave. `sent` are the messages
    they sent. It is the listener of the `screen` until another is set."""

    has_left = False

    def __init__(self, history: Path) -> None:
        self.lines = Lines(history)
        self.screen = Screen(self.lines, self)
        self.sent: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._is_over = asyncio.Event()
        self._thread = Thread(target=self._serve, name="early-input", daemon=True)
        self._raw = ExitStack()

    def open(self) -> None:
        """Open the line; call it in the main thread. From now on, the terminal is restored however
        this process ends."""
        for number in _SIGNALS:
            if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores a signal on purpose
                signal.signal(number, _exit)
        atexit.register(self.restore)
        self._raw.enter_context(get_app_session().input.raw_mode())
        self._thread.start()

    def close(self) -> None:
        """Remove the line before this returns. Keys pressed from now on wait in the terminal,
        unprocessed, for the next reader. An open editor is waited for."""
        if self._thread.is_alive():
            with suppress(RuntimeError):  # the person leaves at this moment, and the loop is closed
                self._loop.call_soon_threadsafe(self._is_over.set)
            self._thread.join()

    def restore_signal_handlers(self) -> None:
        """Restore the default signal handlers, unless the caller has set others. Call it in the
        main thread."""
        for number in _SIGNALS:
            if signal.getsignal(number) is _exit:
                signal.signal(number, signal.SIG_DFL)

    def restore(self) -> None:
        """Restore the terminal to its earlier state before this returns."""
        self.close()
        self._raw.close()
        atexit.unregister(self.restore)

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._ask())

    async def _ask(self) -> None:
        asking = asyncio.create_task(self.screen.run())
        closing = asyncio.create_task(self._close_when_it_may_be())
        await asyncio.wait((asking, closing), return_when=asyncio.FIRST_COMPLETED)
        self.has_left = asking.done() and asking.exception() is None
        asking.cancel()
        closing.cancel()
        await asyncio.gather(asking, closing, return_exceptions=True)

    async def _close_when_it_may_be(self) -> None:
        await self._is_over.wait()
        await self.screen.is_here.wait()  # text written in an editor must get into the line

    # The handlers of screen.ScreenListener. Commands and files are not known yet.

    def on_text(self, text: str) -> None:
        if text.strip() in LEAVING:
            self.screen.leave()
        elif text.strip():
            from channels.terminal.scroll import LivePane, Scroll  # noqa: PLC0415 - slow, and needed here alone

            self.sent.append(text)
            Scroll(self.screen).show_transient(LivePane(questions=self.sent))

    def on_form(self, command: str, text: str) -> None:
        """There are no forms yet."""

    def on_change_last(self) -> bool:
        return False

    def on_interrupt(self) -> bool:
        return False

    def on_reasoning(self) -> str:
        return ""

    def bar(self, width: int) -> tuple[str, str]:
        del width
        return "class:bar", ""

    async def choices(self, line: str) -> tuple[()]:
        del line
        return ()


def _exit(number: int, _frame: object) -> NoReturn:
    sys.exit(128 + number)
