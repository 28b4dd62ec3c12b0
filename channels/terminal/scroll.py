"""The permanent output: each item once, in order, with an empty line between items."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from channels.base import ToolStarted, TranscriptMessage
from channels.message import Reply
from channels.terminal import display
from channels.terminal.conversations import replay
from channels.terminal.display import one_line
from channels.terminal.dumb_screen import DumbScreen
from channels.terminal.figures import figure_of, kitty_picture, speaks_kitty
from channels.terminal.screen import Screen


class LivePane(Struct, frozen=True):
    """The output that is not permanent yet: the unfinished end of an answer, the running tools, the
    waiting questions, and the model's reasoning."""

    tail: str = ""
    calls: Sequence[ToolStarted] = ()
    questions: Sequence[str] = ()
    thoughts: str = ""


class Scroll:
    def __init__(self, screen: Screen | DumbScreen) -> None:
        self._screen = screen
        self._ends_with_line = False

    def answer(self, markdown: str) -> None:
        if markdown.strip():
            self._put(display.markdown(markdown, self._screen.width))

    def command_reply(self, reply: Reply) -> None:
        width = self._screen.width
        picture = self._picture(reply.images[0]) if len(reply.images) == 1 else ""
        if picture:
            self._put(display.command_reply(reply.text, width))
            self._put(picture)
        elif figure := figure_of(reply.data):
            self._put(display.context_reply(reply.text, figure, width))
        else:
            self._put(display.command_reply(reply.text, width))
        for path in reply.images:
            self.note(f"Picture: {path}")

    def _picture(self, path: str) -> str:
        """Return the sequence that shows a picture; "" if that is not possible."""
        if not (self._screen.is_drawing and speaks_kitty()):
            return ""
        try:
            return kitty_picture(Path(path).read_bytes(), self._screen.width)
        except OSError:
            return ""

    def next_steps(self, reply: Reply) -> None:
        if steps := display.next_steps(reply.actions, self._screen.width, reply.text):
            self._put(steps)

    def question(self, text: str) -> None:
        self._screen.echo("\n" + display.question(text, self._screen.width))
        self._ends_with_line = False

    def note(self, text: str) -> None:
        self._put_line(display.note(text, self._screen.width))

    def tool(self, call: ToolStarted, outcome: str) -> None:
        self._put_line(display.tool(call.name, call.arguments, outcome, self._screen.width))

    def reasoning(self, text: str) -> None:
        if text.strip():
            self._put(display.reasoning(text, self._screen.width))

    def as_it_is(self, text: str) -> None:
        """Write a text that is to be copied, unchanged."""
        self._put(f"{text}\n")

    def replay(self, head: str, messages: Sequence[TranscriptMessage]) -> None:
        """Show earlier messages again, dimmed, below a line with the name of the conversation."""
        width = self._screen.width
        self.note(f"── {head} ──")
        for who, text in replay(messages):
            if who == "person":
                self._put(display.question(text, width, is_dim=True))
            elif who == "model":
                self._put(display.markdown(text, width, is_dim=True))
            else:
                self.note(f"⚙ {one_line(text)}")

    def show_transient(self, below: LivePane) -> None:
        """Show the output that is not permanent yet."""
        width, height = self._screen.width, self._screen.height
        lines = "".join(display.tool(one.name, one.arguments, "", width) for one in below.calls)
        thoughts = below.thoughts.strip()
        parts = [
            thoughts and display.reasoning(thoughts[-width * height :], width, height // 3),
            below.tail and display.render_tail(below.tail, width, height),
            lines,
            *(display.question(text, width, is_dim=True) for text in below.questions),
        ]
        text = "\n".join(part for part in parts if part)
        joins = self._ends_with_line and lines and not (below.tail or thoughts)
        self._screen.show(text if joins or not text else "\n" + text)

    def _put(self, text: str) -> None:
        self._screen.write("\n" + text)
        self._ends_with_line = False

    def _put_line(self, text: str) -> None:
        """Write a line of a tool or a note; consecutive ones have no empty line between them."""
        self._screen.write(text if self._ends_with_line else "\n" + text)
        self._ends_with_line = True
