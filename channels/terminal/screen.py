"""The screen's lower end: what still changes, the input line, and the bar. All else is scrollback.

Text for the scrollback goes above the input line, which stays usable all the time: each thing once,
in order, with an empty line between things (`Scroll`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import TYPE_CHECKING

from msgspec import Struct
from prompt_toolkit.application import Application, get_app_session
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.data_structures import Point
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, is_searching
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
from channels.terminal.dumb_screen import ScreenListener
from channels.terminal.mentions import begun_mention, name_dropped, offer_files, paste_picture
from channels.terminal.picker import Picker

if TYPE_CHECKING:
    from channels.message import Form  # slow, and typing can begin before

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
_FORM_HINT = "Enter saves · Esc Enter begins a line · Ctrl-C cancels"
_PICKER_HINT = "type to search · ↑ ↓ choose · Enter opens · Ctrl-C closes"
_LAST_QUESTION_HINT = "Enter asks it again in a branch · ↑ your earlier lines · Ctrl-C cancels"
_NO_PICTURE = "There is no picture in the clipboard, or none of wl-paste, xclip and pngpaste."
_GIVEN_UP = "Cancelled; nothing was changed."
_LONGEST_REMEMBERED = 10_000  # characters; a longer text is not a line to come back to


class Drawn(Struct, frozen=True):
    """The rows that were drawn last: the columns of each down to the cursor."""

    width: int
    rows: tuple[int, ...]

    def count_wrapped_rows(self, width: int) -> int:
        """Return how many rows more the drawing takes in a window `width` columns wide."""
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
        self.listener = listener
        self._passing: StyleAndTextTuples = []
        self._drawn: Drawn | None = None
        self._hint = ""
        self._form: Form | None = None
        self._picker: Picker | None = None
        self._unsent = ""  # what stood in the line when a form or a list came
        self._is_last_question = False  # it is the last question that is changed in the form
        self._held: list[str] | None = None  # what waits while an editor has the screen
        self.is_here = asyncio.Event()  # cleared while one has
        self.is_here.set()
        self._input = Buffer(
            history=history,
            completer=_Completer(lambda: self.listener),
            complete_while_typing=Condition(
                lambda: not (self._form or self._picker) and _is_completed(self._input.document)
            ),
            on_text_changed=lambda _: self._notice_change(),
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
        """Run the screen until the person leaves."""
        await self._app.run_async(set_exception_handler=False)

    def leave(self) -> None:
        self._app.exit()

    def echo(self, text: str) -> None:
        self.write(text)

    def write(self, text: str) -> None:
        """Put text for good above the input line."""
        if self._held is not None:
            self._held.append(text)
            return
        if self._app.is_running:
            self._app.renderer.erase(leave_alternate_screen=False)
            self._climb()
        self._app.output.write_raw(text.replace("\n", "\r\n"))
        self._app.output.flush()
        self._app.invalidate()

    def fill(self, form: Form) -> None:
        """Let the person change a text in the input line."""
        self._put_line_aside()
        self._picker, self._form = None, form
        self._input.document = Document(form.text)
        self._app.invalidate()

    def fill_last_question(self, form: Form | None) -> None:
        """Do the same for the last question, unless something was typed since it was asked for;
        without a form, bring the text that was typed before."""
        if self._form or self._picker or self._input.text:
            return
        if form is None:
            self._input.history_backward()
        else:
            self.fill(form)
            self._is_last_question = True
        self._app.invalidate()

    async def _go_back(self) -> None:
        """From the last question to what was typed before it."""
        text = self._form.text if self._form else ""
        self._end_form()
        self._input.load_history_if_not_yet_loaded()
        if (loading := self._input._load_history_task) is not None:
            await loading  # the line was reset, and with it what the arrow keys lead to
        lines = self._input.history.get_strings()
        is_newest = bool(lines) and lines[-1] == text
        self._input.history_backward(2 if is_newest else 1)

    def pick(self, picker: Picker, words: str) -> None:
        """Let the person choose one of many, beginning with what these words find."""
        self._put_line_aside()
        self._form, self._picker = None, picker
        self._input.document = Document(words)
        self._search()

    def _search(self) -> None:
        """Ask for what is typed now; what was asked for before is not waited for any more."""
        if (picker := self._picker) is not None:
            picker.asked += 1
            words = self._input.text.strip()
            self._app.create_background_task(self._find(picker, words, picker.asked))

    async def _find(self, picker: Picker, words: str, asked: int) -> None:
        if picker.take(await picker.find(words), asked):
            self._app.invalidate()

    async def _open_editor(self) -> None:
        """Let the person write in the editor of their own; what comes up meanwhile waits."""
        if self._held is not None:
            return
        self._held = []
        self.is_here.clear()
        try:
            await self._input.open_in_editor()
        finally:
            held, self._held = self._held, None
            self.is_here.set()
            for text in held:
                self.write(text)

    async def _put_picture_in(self) -> None:
        path = await asyncio.to_thread(paste_picture)
        if path:
            self._input.insert_text(name_dropped(str(path)))
        else:
            self._hint = _(_NO_PICTURE)
            self._app.invalidate()

    def _move(self, by: int) -> None:
        if self._picker:
            self._picker.move(by)

    def _put_line_aside(self) -> None:
        if not (self._form or self._picker):
            self._unsent = self._input.text

    def _end_form(self) -> None:
        """Put the line back as it was before the form, or the list."""
        self._form = self._picker = None
        self._is_last_question = False
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
        """Go up to the beginning of the drawing, which a window that became narrower wraps, and
        erase it."""
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

    def _notice_change(self) -> None:
        self._hint = ""
        self._search()

    def _above(self) -> StyleAndTextTuples:
        """Return the text above the input line: a list to choose from, or what is still to come
        up."""
        return self._picker.draw(self.width, self.height) if self._picker else self._passing

    def _find_scroll_end(self) -> Point:
        """Return the point that the pane scrolls to when it can't show all."""
        return Point(0, sum(text.count("\n") for _, text, *_ in self._above()))

    def _bar(self) -> StyleAndTextTuples:
        if self._picker:
            return [("class:bar.warm", _(_PICKER_HINT)[: self.width])]
        if self._form:
            hint = f"{self._form.command} · {_(_FORM_HINT)}"
            hint = _(_LAST_QUESTION_HINT) if self._is_last_question else hint
            return [("class:bar.warm", hint[: self.width])]
        return [("class:bar", self._hint) if self._hint else self.listener.bar(self.width)]

    def _keys(self) -> KeyBindingsBase:
        parts = (self._sending_keys(), self._picking_keys(), self._writing_keys())
        return merge_key_bindings(parts)

    def _sending_keys(self) -> KeyBindings:
        """Send, stop, give up, leave."""
        keys = KeyBindings()
        is_empty = Condition(lambda: not self._input.text)

        @keys.add("enter", filter=~is_searching)
        def _say(event: KeyPressEvent) -> None:
            self._send()

        @keys.add("c-c", filter=~is_searching)
        @keys.add("<sigint>")
        def _interrupt(event: KeyPressEvent) -> None:
            if self._form or self._picker:
                hint = _(_GIVEN_UP) if self._form else ""
                self._end_form()
                self._hint = hint
            elif not self.listener.on_interrupt():
                self._input.reset()
                self._hint = _(_HINT)

        @keys.add("c-d", filter=is_empty & ~is_searching)
        def _leave(event: KeyPressEvent) -> None:
            self.leave()

        return keys

    def _send(self) -> None:
        """Send what is typed where it belongs."""
        text = self._input.text
        if picker := self._picker:
            chosen = picker.found[picker.index : picker.index + 1]
            self._end_form()
            for entry in chosen:
                picker.choose(entry.value)
        elif form := self._form:
            self._end_form()
            self.listener.on_form(form.command, text)
        else:
            self._input.reset(append_to_history=len(text) <= _LONGEST_REMEMBERED)
            self.listener.on_text(text)

    def _picking_keys(self) -> KeyBindings:
        """Choose from a list, or from what was said before."""
        keys = KeyBindings()
        is_picking = Condition(lambda: self._picker is not None)
        is_empty = Condition(lambda: not (self._input.text or self._form or self._picker))
        is_last_question = Condition(
            lambda: self._is_last_question and self._input.document.cursor_position_row == 0
        )

        @keys.add("up", filter=is_picking)
        @keys.add("c-p", filter=is_picking)
        def _mark_before(event: KeyPressEvent) -> None:
            self._move(-1)

        @keys.add("down", filter=is_picking)
        @keys.add("c-n", filter=is_picking)
        def _mark_behind(event: KeyPressEvent) -> None:
            self._move(1)

        @keys.add("up", filter=is_empty & ~is_searching)
        def _change_last(event: KeyPressEvent) -> None:
            if not self.listener.on_change_last():
                self._input.history_backward()

        @keys.add("up", filter=is_last_question & ~is_searching)
        def _leave_last(event: KeyPressEvent) -> None:
            self._app.create_background_task(self._go_back())

        return keys

    def _writing_keys(self) -> KeyBindings:
        """Return the keys for new lines, pictures, and an editor of one's own."""
        keys = KeyBindings()

        @keys.add("escape", "enter", filter=~is_searching)
        def _break_line(event: KeyPressEvent) -> None:
            self._input.newline(copy_margin=False)

        @keys.add("c-x", "c-e", filter=~is_searching)
        def _edit(event: KeyPressEvent) -> None:
            self._app.create_background_task(self._open_editor())

        @keys.add("c-v", filter=~is_searching)
        def _paste_picture(event: KeyPressEvent) -> None:
            self._app.create_background_task(self._put_picture_in())

        @keys.add(Keys.BracketedPaste)
        def _paste(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            self._input.insert_text(name_dropped(text) or text)

        return keys


class _Completer(Completer):
    def __init__(self, find_listener: Callable[[], ScreenListener]) -> None:
        self._find_listener = find_listener

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        return ()

    async def get_completions_async(
        self, document: Document, event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        if document.text.startswith("/"):
            for choice in await self._find_listener().choices(document.text_before_cursor):
                yield Completion(choice.text, -choice.replaces, display_meta=choice.meaning)
        elif begun := begun_mention(document.text_before_cursor):
            for text, meaning in await asyncio.to_thread(lambda: [*offer_files(begun)]):
                yield Completion(text, -len(begun), display_meta=meaning)


def _is_completed(document: Document) -> bool:
    """Return whether what can be typed next is shown at once."""
    begun = begun_mention(document.text_before_cursor)
    return document.text.startswith("/") or begun is not None


def _prefix(line: int, wrap: int) -> StyleAndTextTuples:
    return [("class:prompt", "  " if line or wrap else "› ")]
