"""The lower end of the screen: the changing text, the input line, and the bar. Everything else is
scrollback.

Text for the scrollback is written above the input line, which stays usable all the time: each item
once, in order, with an empty line between items (`Scroll`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from msgspec import Struct
from prompt_toolkit.application import Application, get_app_session
from prompt_toolkit.data_structures import Point
from prompt_toolkit.filters import Condition, has_completions, is_searching
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import (
    KeyBindings,
    KeyBindingsBase,
    KeyPressEvent,
    merge_key_bindings,
)
from prompt_toolkit.keys import Keys
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
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

from channels.language import _
from channels.terminal import theme
from channels.terminal.completion import Lines
from channels.terminal.dumb_screen import ScreenListener
from channels.terminal.line import InputLine, fitted
from channels.terminal.mentions import name_dropped
from channels.terminal.theme import clipboard_sequence, for_terminal

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
# xterm and GNU screen truncate lines when the window becomes narrower; all others wrap them again.
_CUTS_OFF = bool({"XTERM_VERSION", "STY"} & os.environ.keys())
_HINT = "Ctrl-D quits · /help lists the commands"
_ANSWER_PATIENCE = 0.2  # seconds that a drawing waits for the answer about the background
_KEY_PATIENCE, _ESCAPE_PATIENCE = 0.4, 0.1
"""The seconds to wait for the second of two keys (Esc Enter), and for the rest of one key (Esc [
A)."""


class DrawnRows(Struct, frozen=True):
    """The rows of the last drawing: the columns of each down to the cursor."""

    width: int
    rows: tuple[int, ...]

    def count_wrapped_rows(self, width: int) -> int:
        """Return the number of additional rows of the drawing in a window `width` columns wide."""
        return sum(max(0, columns - 1) // width for columns in self.rows)


def _length(drawing: Drawing, row: int) -> int:
    """Return the columns of a drawn row, without the spaces at its end."""
    cells = drawing.data_buffer[row].items()
    return max((column + cell.width for column, cell in cells if cell.char.strip()), default=0)


class _LowerEnd(HSplit):
    """Panes that leave the screen's first row free: some terminals move text erased from the top
    row to the scrollback."""

    def preferred_height(self, width: int, max_available_height: int) -> Dimension:
        wanted = super().preferred_height(width, max_available_height).preferred
        return Dimension(preferred=min(wanted, max(1, max_available_height - 1)))


class Screen:
    """A terminal that can move its cursor."""

    is_drawing = True

    def __init__(self, history: History, listener: ScreenListener) -> None:
        output = get_app_session().output
        if isinstance(output, Vt100_Output):
            # If asked for its cursor position, the terminal would be drawn on down to its bottom.
            output.enable_cpr = False
        self.listener = listener
        self._passing: StyleAndTextTuples = []
        self._drawn: DrawnRows | None = None
        self._is_asked, self._background = False, asyncio.Event()
        self.is_light: bool | None = None
        """A flag: whether the terminal's background is light, as it has answered; None before."""
        self._held: list[str] | None = None  # texts that wait while an editor has the screen
        self.is_here = asyncio.Event()  # cleared while an editor has the screen
        self.is_here.set()
        self.line = InputLine(history, self)
        self._app: Application[None] = Application(
            self._layout(),
            _STYLE,
            key_bindings=self._keys(),
            style_transformation=theme.ColoursOnBackground(),
            include_default_pygments_style=False,
            output=output,
            erase_when_done=True,
            max_render_postpone_time=None,
            before_render=lambda _: self._erase_drawing(),
            after_render=lambda app: self._remember(app.renderer.last_rendered_screen),
        )
        self._app.timeoutlen, self._app.ttimeoutlen = _KEY_PATIENCE, _ESCAPE_PATIENCE

    def redraw(self) -> None:
        """Draw the screen again."""
        self._app.invalidate()

    def start(self, work: Coroutine[Any, Any, None]) -> object:
        """Run work that ends with the screen."""
        return self._app.create_background_task(work)

    @property
    def width(self) -> int:
        return self._app.output.get_size().columns

    @property
    def height(self) -> int:
        return self._app.output.get_size().rows

    async def run(self) -> None:
        """Run the screen until the person leaves."""
        await self._app.run_async(set_exception_handler=False)

    def leave(self) -> None:
        self._app.exit()

    def _ask_background(self) -> None:
        """Ask the terminal once, when its answer is no longer echoed on the screen."""
        if not self._is_asked:
            self._is_asked = True
            if not theme.ask(self._app.input, self._app.output, self._set_background):
                self._background.set()

    def _set_background(self, is_light: bool) -> None:
        self.is_light = is_light
        self._background.set()
        self.redraw()

    async def know_background(self) -> None:
        """Wait briefly for the terminal's answer about its background."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_ANSWER_PATIENCE):
                await self._background.wait()

    def copy(self, text: str) -> bool:
        """Put a text into the clipboard of the person's machine; return whether this terminal
        supports it."""
        self._app.output.write_raw(for_terminal(clipboard_sequence(text)))
        self._app.output.flush()
        return True

    def echo(self, text: str) -> None:
        self.write(text)

    def write(self, text: str) -> None:
        """Write text permanently above the input line."""
        if self._held is not None:
            self._held.append(text)
            return
        if self._app.is_running:
            self._app.renderer.erase(leave_alternate_screen=False)
            self._erase_drawing()
        self._app.output.write_raw(text.replace("\n", "\r\n"))
        self._app.output.flush()
        self.redraw()

    async def _open_editor(self) -> None:
        """Let the person write in their own editor; output waits meanwhile."""
        if self._held is not None:
            return
        if isinstance(self.line.buffer.history, Lines) and self.line.buffer.history.keeps_nothing:
            self.line.hint(
                _("An editor keeps copies of what you write, so it can't be used off the record.")
            )
            return
        self._held = []
        self.is_here.clear()
        try:
            await self.line.buffer.open_in_editor()
        finally:
            held, self._held = self._held, None
            self.is_here.set()
            for text in held:
                self.write(text)

    def _mark(self, by: int) -> None:
        if self.line.picker:
            self.line.picker.move(by)

    def show(self, text: str) -> None:
        """Show `text` and an empty line above the input line until the next call."""
        self._passing = to_formatted_text(ANSI(text))
        self.redraw()

    def _remember(self, drawing: Drawing | None) -> None:
        self._ask_background()
        if drawing:
            cursor = drawing.get_cursor_position(self._app.layout.current_window)
            above = tuple(_length(drawing, row) for row in range(cursor.y))
            self._drawn = DrawnRows(self.width, (*above, cursor.x + 1))

    def _erase_drawing(self) -> None:
        """Move the cursor to the beginning of the drawing, which a narrower window wraps, and erase
        it."""
        if self._drawn and self.width < self._drawn.width and not _CUTS_OFF:
            self._app.output.cursor_up(self._drawn.count_wrapped_rows(self.width))
            self._app.output.erase_down()
        self._drawn = None

    def _layout(self) -> Layout:
        search = SearchToolbar()
        passing = FormattedTextControl(
            lambda: self._above(), get_cursor_position=self._find_scroll_end
        )
        line = BufferControl(
            self.line.buffer,
            [TabsProcessor(char1=" ", char2=" ")],
            search_buffer_control=search.control,
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

    def _above(self) -> StyleAndTextTuples:
        """Return the text above the input line: a list to choose from, or the temporary text."""
        picker = self.line.picker
        return picker.draw(self.width, self.height) if picker else self._passing

    def _find_scroll_end(self) -> Point:
        """Return the point that the pane scrolls to if it can't show everything."""
        return Point(0, sum(text.count("\n") for _, text, *_ in self._above()))

    def _bar(self) -> StyleAndTextTuples:
        style, text = self.line.bar()
        return [(style, fitted(text, self.width)) if text else self.listener.bar(self.width)]

    def _keys(self) -> KeyBindingsBase:
        parts = (self._sending_keys(), self._picking_keys(), self._writing_keys())
        return merge_key_bindings(parts)

    def _sending_keys(self) -> KeyBindings:
        """Return the keys for sending, stopping, cancelling and leaving."""
        keys = KeyBindings()
        is_empty = Condition(lambda: not self.line.buffer.text)

        @keys.add("enter", filter=~is_searching)
        def _say(event: KeyPressEvent) -> None:
            self.line.send()

        @keys.add("c-c", filter=~is_searching)
        @keys.add("<sigint>")
        def _interrupt(event: KeyPressEvent) -> None:
            if not self.line.is_free:
                self.line.cancel()
            elif not self.listener.on_interrupt():
                self.line.buffer.reset()
                self.line.hint(_(_HINT))

        @keys.add("c-d", filter=is_empty & ~is_searching)
        def _leave(event: KeyPressEvent) -> None:
            self.leave()

        @keys.add("c-o", filter=~is_searching)
        def _show_reasoning(event: KeyPressEvent) -> None:
            self.line.hint(self.listener.on_reasoning())

        return keys

    def _picking_keys(self) -> KeyBindings:
        """Return the keys for choosing from a list, or from earlier lines."""
        keys = KeyBindings()
        line = self.line
        is_picking = Condition(lambda: line.picker is not None)
        is_empty = Condition(lambda: line.is_free and not line.buffer.text)
        is_last_question = Condition(
            lambda: line.is_last_question and line.buffer.document.cursor_position_row == 0
        )

        @keys.add("escape", filter=is_picking, eager=True)
        def _close_list(event: KeyPressEvent) -> None:
            line.cancel()

        @keys.add("escape", filter=has_completions & ~is_searching)
        def _close_offers(event: KeyPressEvent) -> None:
            line.buffer.cancel_completion()

        @keys.add("up", filter=is_picking)
        @keys.add("c-p", filter=is_picking)
        def _mark_before(event: KeyPressEvent) -> None:
            self._mark(-1)

        @keys.add("down", filter=is_picking)
        @keys.add("c-n", filter=is_picking)
        def _mark_behind(event: KeyPressEvent) -> None:
            self._mark(1)

        @keys.add("up", filter=is_empty & ~is_searching)
        def _change_last(event: KeyPressEvent) -> None:
            if not self.listener.on_change_last():
                line.buffer.history_backward()

        @keys.add("up", filter=is_last_question & ~is_searching)
        def _leave_last(event: KeyPressEvent) -> None:
            self.start(line.go_back())

        return keys

    def _writing_keys(self) -> KeyBindings:
        """Return the keys for new lines, pictures, and the person's own editor."""
        keys = KeyBindings()

        @keys.add("escape", "enter", filter=~is_searching)
        def _break_line(event: KeyPressEvent) -> None:
            self.line.buffer.newline(copy_margin=False)

        @keys.add("c-x", "c-e", filter=~is_searching)
        def _edit(event: KeyPressEvent) -> None:
            self.start(self._open_editor())

        @keys.add("c-v", filter=~is_searching)
        def _paste_picture(event: KeyPressEvent) -> None:
            self.start(self.line.put_picture_in())

        @keys.add(Keys.BracketedPaste)
        def _paste(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            self.line.buffer.insert_text(name_dropped(text) or text)

        return keys


def _prefix(line: int, wrap: int) -> StyleAndTextTuples:
    return [("class:prompt", "  " if line or wrap else "› ")]
