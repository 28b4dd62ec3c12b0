"""The input line while the bot is still being loaded.

Loading takes most of a second, and nothing of it is needed to type. So whoever comes back to a bot
finds the line at once: it is kept in a thread of its own, until the terminal listens and goes on
with the same line, whatever stands in it. What this imports is what the person waits for.
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
"""The words that a person may type to leave."""


class EarlyInput:
    """Lets a person type from `open` to `close`, or until they leave. `sent` is what they sent; for
    the `screen` it is what listens, until another does."""

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
        """To be called in the main thread. However this process ends from now on, it leaves the
        person's terminal as it was."""
        for number in _SIGNALS:
            if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores one, and means it
                signal.signal(number, _exit)
        atexit.register(self.restore)
        self._raw.enter_context(get_app_session().input.raw_mode())
        self._thread.start()

    def close(self) -> None:
        """Remove the line before this returns. Keys that are pressed from now on wait in the
        terminal, each as it is, for whoever reads it next. An editor that has the screen is waited
        for."""
        if self._thread.is_alive():
            with suppress(RuntimeError):  # the person leaves just now, and the loop is closed
                self._loop.call_soon_threadsafe(self._is_over.set)
            self._thread.join()

    def let_signals_be(self) -> None:
        """Signals do what they did before, or what whoever goes on has set. In the main thread."""
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
        await self.screen.is_here.wait()  # what is written in an editor is to come into the line

    # What the person does: screen.Listener. Nobody knows yet what commands and files there are.

    def on_text(self, text: str) -> None:
        if text.strip() in LEAVING:
            self.screen.leave()
        elif text.strip():
            from channels.terminal.scroll import Below, Scroll  # noqa: PLC0415 - slow, and needed here alone

            self.sent.append(text)
            Scroll(self.screen).show_below(Below(questions=self.sent))

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
