"""The input line: free text, a text that a command has requested, or words that filter the list
above it, from which something is chosen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.utils import get_cwidth
from rich.cells import cell_len, set_cell_size

from channels.language import _
from channels.terminal.dumb_screen import ScreenListener
from channels.terminal.mentions import (
    describe_unknown,
    mention_prefix,
    name_dropped,
    offer_files,
    paste_picture,
)

_MOST = 10  # entries that are shown at once


class PickerEntry(Struct, frozen=True):
    """An entry of a list: its label, words on its right, and its value."""

    label: str
    about: str
    value: str


Find = Callable[[str], Awaitable[Sequence[PickerEntry]]]
"""Returns the entries for the typed text."""


class Picker(Struct):
    """The list to choose from; `found` are the entries, and the one at `index` is marked."""

    title: str
    find: Find
    choose: Callable[[str], None]
    found: Sequence[PickerEntry] = ()
    index: int = 0
    asked: int = 0

    def move(self, by: int) -> None:
        self.index = max(0, min(len(self.found) - 1, self.index + by))

    def take(self, found: Sequence[PickerEntry], asked: int) -> bool:
        """Show the results of a search, unless a newer one was started; return whether they are
        shown."""
        if asked != self.asked:
            return False
        self.found, self.index = found, 0
        return True

    def draw(self, width: int, height: int) -> StyleAndTextTuples:
        """Return the list, as many entries as there is room for, including the marked one."""
        room = max(1, min(_MOST, height - 6))
        first = max(0, min(self.index - room // 2, len(self.found) - room))
        shown = self.found[first : first + room]
        lines: StyleAndTextTuples = [("bold", self.title[: width - 1]), ("", "\n")]
        for number, entry in enumerate(shown, first):
            is_marked = number == self.index
            about = entry.about if cell_len(entry.about) < width // 2 else ""
            label = set_cell_size(entry.label, max(1, width - cell_len(about) - 4))
            lines.append(
                ("class:prompt" if is_marked else "", f"{'›' if is_marked else ' '} {label}")
            )
            lines += [("class:bar", f" {about}"), ("", "\n")]
        if len(self.found) > len(shown):
            narrow = _("{n} in total; type to filter them", n=len(self.found))
            lines += [("class:bar", f"  {narrow}"), ("", "\n")]
        if not self.found:
            none = _("none found; type a name to begin one")
            lines += [("class:bar", f"  {none}"), ("", "\n")]
        return lines


if TYPE_CHECKING:
    from channels.message import Form  # slow, and not needed to begin typing

_FORM_HINT = "Enter saves · Esc Enter begins a line · Ctrl-C cancels"
_PICKER_HINT = "type to search · ↑ ↓ choose · Enter opens · Esc closes"
_LAST_QUESTION_HINT = "Enter asks it again in a branch · ↑ your earlier lines · Ctrl-C cancels"
_NO_PICTURE = "There is no picture in the clipboard, or none of wl-paste, xclip and pngpaste."
_CANCELLED = "Cancelled; nothing was changed."
_LONGEST_REMEMBERED = 10_000  # characters; a longer text is not added to the history


def fitted(hints: str, width: int) -> str:
    """Return as many hints as fit; always the last one, since it says how to leave."""
    shown = hints.split(" · ")
    while len(shown) > 1 and get_cwidth(" · ".join(shown)) > width:
        del shown[-2]
    return " · ".join(shown)[:width]


class LineScreen(Protocol):
    """The screen that a line is part of."""

    listener: ScreenListener

    def redraw(self) -> None:
        """Show changes of the line."""
        ...

    def start(self, work: Coroutine[Any, Any, None]) -> object:
        """Run work that ends with the screen."""
        ...


class InputLine:
    """The line and its present purpose."""

    def __init__(self, history: History, screen: LineScreen) -> None:
        self._screen = screen
        self.form: Form | None = None
        self.picker: Picker | None = None
        self.is_last_question = False
        """A flag: whether the form changes the last question."""
        self._hint = ("", "")
        self._unsent = ""  # the text of the line before a form or a list was opened
        self._reported = ""  # the text whose unknown files were reported
        self.buffer = Buffer(
            history=history,
            completer=_Completer(screen),
            complete_while_typing=Condition(
                lambda: not (self.form or self.picker) and _is_completed(self.buffer.document)
            ),
            on_text_changed=lambda _: self._notice_change(),
        )

    @property
    def is_free(self) -> bool:
        """Return whether neither a form nor a list is open."""
        return not (self.form or self.picker)

    def hint(self, text: str, style: str = "class:bar") -> None:
        """Show a message in the bar until the text changes."""
        self._hint = (style, text)
        self._screen.redraw()

    def bar(self) -> tuple[str, str]:
        """Return the style and the message of the line for the bar; an empty text if there is
        none."""
        if self.picker:
            return "class:bar.warm", _(_PICKER_HINT)
        if self.is_last_question:
            return "class:bar.warm", _(_LAST_QUESTION_HINT)
        if self.form:
            saves, *others = _(_FORM_HINT).split(" · ")
            return "class:bar.warm", " · ".join((saves, self.form.command, *others))
        return self._hint

    def _notice_change(self) -> None:
        self._hint = ("", "")
        self._search()

    def fill(self, form: Form) -> None:
        """Let the person edit a text in the line."""
        self._put_aside()
        self.picker, self.form = None, form
        self.buffer.document = Document(form.text)
        self._screen.redraw()

    def fill_last_question(self, form: Form | None) -> None:
        """Let the person edit the last question, unless something was typed since. Without a form,
        show the previously typed text."""
        if not self.is_free or self.buffer.text:
            return
        if form is None:
            self.buffer.history_backward()
        else:
            self.fill(form)
            self.is_last_question = True
        self._screen.redraw()

    async def go_back(self) -> None:
        """Go from the last question to the text typed before it."""
        text = self.form.text if self.form else ""
        self.close()
        self.buffer.load_history_if_not_yet_loaded()
        if (loading := self.buffer._load_history_task) is not None:
            await loading  # the line was reset, and so was its history
        lines = self.buffer.history.get_strings()
        is_newest = bool(lines) and lines[-1] == text
        self.buffer.history_backward(2 if is_newest else 1)

    def pick(self, picker: Picker, words: str) -> None:
        """Let the person choose from a list, filtered by these words at first."""
        self._put_aside()
        self.form, self.picker = None, picker
        self.buffer.document = Document(words)
        self._search()

    def _search(self) -> None:
        """Search for the typed text; the results of earlier searches are ignored."""
        if (picker := self.picker) is not None:
            picker.asked += 1
            self._screen.start(self._find(picker, self.buffer.text.strip(), picker.asked))

    async def _find(self, picker: Picker, words: str, asked: int) -> None:
        if picker.take(await picker.find(words), asked):
            self._screen.redraw()

    def _put_aside(self) -> None:
        if self.is_free:
            self._unsent = self.buffer.text

    def close(self) -> None:
        """Restore the line as it was before the form or the list."""
        self.form = self.picker = None
        self.is_last_question = False
        self.buffer.reset(Document(self._unsent))
        self._unsent = ""

    def cancel(self) -> None:
        """Close the form or the list, and say so."""
        hint = _(_CANCELLED) if self.form else ""
        self.close()
        self.hint(hint)

    async def put_picture_in(self) -> None:
        path = await asyncio.to_thread(paste_picture)
        if path:
            self.buffer.insert_text(name_dropped(str(path)))
        else:
            self.hint(_(_NO_PICTURE))

    def send(self) -> None:
        """Send the typed text to its target."""
        text, listener = self.buffer.text, self._screen.listener
        if picker := self.picker:
            chosen = picker.found[picker.index : picker.index + 1]
            self.close()
            for entry in chosen:
                picker.choose(entry.value)
        elif form := self.form:
            self.close()
            listener.on_form(form.command, text)
        elif text != self._reported and (unknown := describe_unknown(text)):
            self._reported = text
            self.hint(unknown, "class:bar.warm")
        else:
            self._reported = ""
            self.buffer.reset(append_to_history=len(text) <= _LONGEST_REMEMBERED)
            listener.on_text(text)


class _Completer(Completer):
    def __init__(self, screen: LineScreen) -> None:
        self._screen = screen

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        return ()

    async def get_completions_async(
        self, document: Document, event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        if document.text.startswith("/"):
            for choice in await self._screen.listener.choices(document.text_before_cursor):
                yield Completion(choice.text, -choice.replaces, display_meta=choice.meaning)
        elif begun := mention_prefix(document.text_before_cursor):
            for text, meaning in await asyncio.to_thread(lambda: [*offer_files(begun)]):
                yield Completion(text, -len(begun), display_meta=meaning)


def _is_completed(document: Document) -> bool:
    """Return whether suggestions are shown while typing."""
    begun = mention_prefix(document.text_before_cursor)
    return document.text.startswith("/") or begun is not None
