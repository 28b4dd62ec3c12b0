"""The screen's lower end: what still changes, the input line, and the bar. All else is scrollback.

Text for the scrollback goes above the input line, which stays usable all the time: each thing once,
in order, with an empty line between things (`Scroll`).
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application, create_app_session, get_app_session
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.data_structures import Point
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, is_searching
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import (
    AnyContainer,
    BufferControl,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
)
from prompt_toolkit.layout import Window as Pane
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import TabsProcessor
from prompt_toolkit.layout.screen import Screen as Drawing
from prompt_toolkit.output.plain_text import PlainTextOutput
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

from channels.base import ToolStarted
from channels.message import Form, Reply
from channels.terminal import display
from channels.terminal.completion import Suggestion
from channels.terminal.figures import figure_of, kitty_picture, speaks_kitty

_STYLE = Style.from_dict(
    {
        "prompt": "ansicyan bold",
        "bar": "ansibrightblack",
        "bar.warm": "ansiyellow",
        "bar.hot": "ansired bold",
        "completion-menu": "bg:default",
        "completion-menu.completion": "bg:default fg:default",
        "completion-menu.completion.current": "bg:default fg:ansicyan bold",
        "completion-menu.meta.completion": "bg:default fg:ansibrightblack",
        "completion-menu.meta.completion.current": "bg:default fg:ansicyan",
        "scrollbar.background": "bg:default",
        "scrollbar.button": "bg:default",
    }
)
# xterm and GNU screen cut lines off when the window becomes narrower; all others wrap them anew.
_CUTS_OFF = bool({"XTERM_VERSION", "STY"} & os.environ.keys())
_HINT = "Ctrl-D quits · /help lists the commands"
_FORM_HINT = "Enter saves · Esc Enter breaks the line · Ctrl-C gives it up"
_GIVEN_UP = "Given up; nothing was changed."
_LONGEST_REMEMBERED = 10_000  # characters; a longer text is not a line to come back to


class ScreenListener(Protocol):
    """What the screen asks and tells."""

    def on_text(self, text: str) -> None: ...

    def on_form(self, command: str, text: str) -> None:
        """What was written into a form, for its command."""
        ...

    def on_interrupt(self) -> bool:
        """Ctrl-C was pressed; True if it stops something, False if it is for the input line."""
        ...

    def bar(self, width: int) -> tuple[str, str]:
        """The line at the bottom: its style and its text."""
        ...

    async def choices(self, line: str) -> Iterable[Suggestion]: ...


@dataclass(frozen=True, slots=True)
class Drawn:
    """What was drawn last: the columns of each row down to the cursor."""

    width: int
    rows: tuple[int, ...]

    def count_wrapped_rows(self, width: int) -> int:
        """The rows it takes more in a window `width` columns wide."""
        return sum(max(0, columns - 1) // width for columns in self.rows)


def _length(drawing: Drawing, row: int) -> int:
    """Columns of a drawn row, without the blanks at its end."""
    cells = drawing.data_buffer[row].items()
    return max((column + cell.width for column, cell in cells if cell.char.strip()), default=0)


class _LowerEnd(HSplit):
    """Panes that leave the screen's first row free: some terminals put what is erased from the
    very top into the scrollback."""

    def preferred_height(self, width: int, max_available_height: int) -> Dimension:
        wanted = super().preferred_height(width, max_available_height).preferred
        return Dimension(preferred=min(wanted, max(1, max_available_height - 1)))


class Screen:
    """A terminal that can move its cursor."""

    is_drawing = True

    def __init__(self, history: History, listener: ScreenListener) -> None:
        output = get_app_session().output
        if isinstance(output, Vt100_Output):
            # Asked where its cursor is, the terminal would be drawn on down to its bottom.
            output.enable_cpr = False
        self._listener = listener
        self._passing: StyleAndTextTuples = []
        self._drawn: Drawn | None = None
        self._hint = ""
        self._form: Form | None = None
        self._unsent = ""  # what stood in the line when a form came
        self._input = Buffer(
            history=history,
            completer=_Completer(listener),
            complete_while_typing=Condition(
                lambda: self._form is None and self._input.text.startswith("/")
            ),
            on_text_changed=lambda _: self._drop_hint(),
        )
        self._app: Application[None] = Application(
            self._layout(),
            _STYLE,
            key_bindings=self._keys(),
            include_default_pygments_style=False,
            output=output,
            erase_when_done=True,
            max_render_postpone_time=None,
            before_render=lambda _: self._climb(),
            after_render=lambda app: self._remember(app.renderer.last_rendered_screen),
        )

    @property
    def width(self) -> int:
        return self._app.output.get_size().columns

    @property
    def height(self) -> int:
        return self._app.output.get_size().rows

    async def run(self) -> None:
        """Returns when the person leaves."""
        await self._app.run_async(set_exception_handler=False)

    def leave(self) -> None:
        self._app.exit()

    def echo(self, text: str) -> None:
        self.write(text)

    def write(self, text: str) -> None:
        """Put text for good above the input line."""
        if self._app.is_running:
            self._app.renderer.erase(leave_alternate_screen=False)
            self._climb()
        self._app.output.write_raw(text.replace("\n", "\r\n"))
        self._app.output.flush()
        self._app.invalidate()

    def fill(self, form: Form) -> None:
        """Let the person change a text in the input line."""
        if self._form is None:
            self._unsent = self._input.text
        self._form = form
        self._input.document = Document(form.text)
        self._app.invalidate()

    def _end_form(self) -> None:
        """The line is as it was before the form."""
        self._form = None
        self._input.reset(Document(self._unsent))
        self._unsent = ""

    def show(self, text: str) -> None:
        """Let `text` and an empty line stand above the input line until the next call."""
        self._passing = to_formatted_text(ANSI(text))
        self._app.invalidate()

    def _remember(self, drawing: Drawing | None) -> None:
        if drawing:
            cursor = drawing.get_cursor_position(self._app.layout.current_window)
            above = tuple(_length(drawing, row) for row in range(cursor.y))
            self._drawn = Drawn(self.width, (*above, cursor.x + 1))

    def _climb(self) -> None:
        """A window that became narrower wraps what is drawn: go up to where it begins now."""
        if self._drawn and self.width < self._drawn.width and not _CUTS_OFF:
            self._app.output.cursor_up(self._drawn.count_wrapped_rows(self.width))
            self._app.output.erase_down()
        self._drawn = None

    def _layout(self) -> Layout:
        search = SearchToolbar()
        passing = FormattedTextControl(
            lambda: self._passing, get_cursor_position=self._find_scroll_end
        )
        line = BufferControl(
            self._input, [TabsProcessor(char1=" ", char2=" ")], search_buffer_control=search.control
        )
        panes: list[AnyContainer] = [
            Pane(
                passing, height=Dimension(min=0), dont_extend_height=True, always_hide_cursor=True
            ),
            Pane(
                line,
                height=lambda: Dimension(min=1, max=max(1, self.height // 2)),
                wrap_lines=True,
                dont_extend_height=True,
                get_line_prefix=_prefix,
            ),
            search,
            CompletionsMenu(max_height=8),
            Pane(FormattedTextControl(self._bar), height=1),
        ]
        return Layout(_LowerEnd(panes), focused_element=line)

    def _drop_hint(self) -> None:
        self._hint = ""

    def _find_scroll_end(self) -> Point:
        """Where the pane scrolls to when it can't show all."""
        return Point(0, sum(text.count("\n") for _, text, *_ in self._passing))

    def _bar(self) -> StyleAndTextTuples:
        if self._form:
            return [("class:bar.warm", f"{self._form.command} · {_FORM_HINT}"[: self.width])]
        return [("class:bar", self._hint) if self._hint else self._listener.bar(self.width)]

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        is_empty = Condition(lambda: not self._input.text)

        @keys.add("enter", filter=~is_searching)
        def _say(event: KeyPressEvent) -> None:
            text = self._input.text
            if form := self._form:
                self._end_form()
                self._listener.on_form(form.command, text)
            else:
                self._input.reset(append_to_history=len(text) <= _LONGEST_REMEMBERED)
                self._listener.on_text(text)

        @keys.add("escape", "enter", filter=~is_searching)
        def _break_line(event: KeyPressEvent) -> None:
            self._input.newline(copy_margin=False)

        @keys.add("c-c", filter=~is_searching)
        @keys.add("<sigint>")
        def _interrupt(event: KeyPressEvent) -> None:
            if self._form:
                self._end_form()
                self._hint = _GIVEN_UP
            elif not self._listener.on_interrupt():
                self._input.reset()
                self._hint = _HINT

        @keys.add("c-d", filter=is_empty & ~is_searching)
        def _leave(event: KeyPressEvent) -> None:
            self.leave()

        return keys


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
        """What passes is not shown."""


class _Completer(Completer):
    def __init__(self, listener: ScreenListener) -> None:
        self._listener = listener

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        return ()

    async def get_completions_async(
        self, document: Document, event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        if document.text.startswith("/"):
            for choice in await self._listener.choices(document.text_before_cursor):
                yield Completion(choice.text, -choice.replaces, display_meta=choice.meaning)


def _prefix(line: int, wrap: int) -> StyleAndTextTuples:
    return [("class:prompt", "  " if line or wrap else "› ")]


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
        """What shows a picture, where that can be done."""
        if not (self._screen.is_drawing and speaks_kitty()):
            return ""
        try:
            return kitty_picture(Path(path).read_bytes(), self._screen.width)
        except OSError:
            return ""

    def next_steps(self, reply: Reply) -> None:
        if reply.actions:
            self._put(display.next_steps(reply.actions, self._screen.width))

    def question(self, text: str) -> None:
        self._screen.echo("\n" + display.question(text, self._screen.width))
        self._ends_with_line = False

    def note(self, text: str) -> None:
        self._put_line(display.note(text, self._screen.width))

    def tool(self, call: ToolStarted, outcome: str) -> None:
        self._put_line(display.tool(call.name, call.arguments, outcome, self._screen.width))

    def show_below(self, tail: str, calls: Sequence[ToolStarted], questions: Sequence[str]) -> None:
        """What is still to come up: the unfinished end of an answer, the tools that run, the
        questions that wait."""
        width, height = self._screen.width, self._screen.height
        lines = "".join(display.tool(call.name, call.arguments, "", width) for call in calls)
        parts = [
            tail and display.render_tail(tail, width, height),
            lines,
            *(display.question(text, width, is_waiting=True) for text in questions),
        ]
        text = "\n".join(part for part in parts if part)
        joins = self._ends_with_line and lines and not tail
        self._screen.show(text if joins or not text else "\n" + text)

    def _put(self, text: str) -> None:
        self._screen.write("\n" + text)
        self._ends_with_line = False

    def _put_line(self, text: str) -> None:
        """Lines of tools and notes that follow each other keep together."""
        self._screen.write(text if self._ends_with_line else "\n" + text)
        self._ends_with_line = True
