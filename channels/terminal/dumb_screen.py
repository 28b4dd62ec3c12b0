"""The interface between a screen and its listener, and the simplest screen: a terminal that can
only write on."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session, get_app_session
from prompt_toolkit.history import History
from prompt_toolkit.output.plain_text import PlainTextOutput
from prompt_toolkit.output.vt100 import Vt100_Output

from channels.terminal.completion import Suggestion


class ScreenListener(Protocol):
    """The listener of a screen."""

    def on_text(self, text: str) -> None: ...

    def on_form(self, command: str, text: str) -> None:
        """Take what was written into a form, for its command."""
        ...

    def on_change_last(self) -> bool:
        """The person wants to change their last question; False where there is none, and what was
        typed before is meant."""
        ...

    def on_interrupt(self) -> bool:
        """Ctrl-C was pressed; True if it stops something, False if it is for the input line."""
        ...

    def bar(self, width: int) -> tuple[str, str]:
        """Return the line at the bottom: its style and its text."""
        ...

    async def choices(self, line: str) -> Iterable[Suggestion]: ...


class DumbScreen:
    """A terminal that can only write on (TERM=dumb): nothing is drawn twice."""

    width, height, is_drawing = 80, 24, False

    def __init__(self, history: History, listener: ScreenListener) -> None:
        self._listener = listener
        self._output = get_app_session().output
        if isinstance(self._output, Vt100_Output):
            self._output = PlainTextOutput(self._output.stdout)
        with create_app_session(output=self._output):
            self._session: PromptSession[str] = PromptSession(history=history)
        self._is_left = False

    async def run(self) -> None:
        with suppress(EOFError):
            while not self._is_left:
                try:
                    self._listener.on_text(await self._session.prompt_async("> "))
                except KeyboardInterrupt:
                    self._listener.on_interrupt()

    def leave(self) -> None:
        self._is_left = True

    def echo(self, text: str) -> None:
        """The terminal shows what is typed."""

    def write(self, text: str) -> None:
        self._output.write_raw(text.replace("\n", "\r\n"))
        self._output.flush()

    def show(self, text: str) -> None:
        """Show nothing: text that passes is not shown here."""
