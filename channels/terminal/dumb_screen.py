"""The interface between a screen and its listener, and the simplest screen: an append-only
terminal."""

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
from channels.terminal.mentions import describe_unknown


class ScreenListener(Protocol):
    """The listener of a screen."""

    def on_text(self, text: str) -> None: ...

    def on_form(self, command: str, text: str) -> None:
        """Handle the text of a form, for its command."""
        ...

    def on_change_last(self) -> bool:
        """Let the person change their last question; return False if there is none, so that the key
        selects the previously typed text."""
        ...

    def on_interrupt(self) -> bool:
        """Handle Ctrl-C; return True if it stopped something, False to pass it to the input
        line."""
        ...

    def bar(self, width: int) -> tuple[str, str]:
        """Return the line at the bottom: its style and its text."""
        ...

    def on_reasoning(self) -> str:
        """Show or hide the models' reasoning; return a message about the result."""
        ...

    async def choices(self, line: str) -> Iterable[Suggestion]: ...


class DumbScreen:
    """An append-only terminal (TERM=dumb): nothing is redrawn."""

    width, height, is_drawing = 80, 24, False
    is_light: bool | None = None

    def __init__(self, history: History, listener: ScreenListener) -> None:
        self._listener = listener
        self._output = get_app_session().output
        if isinstance(self._output, Vt100_Output):
            self._output = PlainTextOutput(self._output.stdout)
        with create_app_session(output=self._output):
            self._session: PromptSession[str] = PromptSession(history=history)
        self._is_left = False

    async def run(self) -> None:
        reported = ""  # the text whose unknown files were reported
        with suppress(EOFError):
            while not self._is_left:
                try:
                    text = await self._session.prompt_async("> ", default=reported)
                    if text != reported and (unknown := describe_unknown(text)):
                        reported = text
                        self.write(f"{unknown}\n")
                    else:
                        reported = ""
                        self._listener.on_text(text)
                except KeyboardInterrupt:
                    self._listener.on_interrupt()

    def leave(self) -> None:
        self._is_left = True

    def echo(self, text: str) -> None:
        """Do nothing: the terminal shows typed text by itself."""

    def write(self, text: str) -> None:
        self._output.write_raw(text.replace("\n", "\r\n"))
        self._output.flush()

    async def know_background(self) -> None:
        """Return at once: there are no colours."""

    def show(self, text: str) -> None:
        """Do nothing: temporary text is not shown."""
