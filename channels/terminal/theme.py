"""The terminal's background, light or dark, by the settings, the terminal's answer (OSC 11) or the
surroundings; the colours that can be seen on it; and sequences for the terminal itself.
`AnswerReader` takes the answer out of the typed keys, and holds back only its possible
beginnings."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from msgspec import Struct
from prompt_toolkit.input import Input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.output import Output
from prompt_toolkit.styles import Attrs, StyleTransformation


def for_terminal(sequence: str) -> str:
    """Return a sequence for the terminal: in tmux both for tmux, which may support it, and for the
    terminal around it, which gets it if `allow-passthrough` is on."""
    if "TMUX" not in os.environ:
        return sequence
    inner = sequence.replace("\x1b", "\x1b\x1b")
    return f"{sequence}\x1bPtmux;{inner}\x1b\\"


def clipboard_sequence(text: str) -> str:
    """Return the sequence (OSC 52) that puts a text into the clipboard of the person's machine."""
    return f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07"


_QUESTION = "\x1b]11;?\x1b\\"
_COLOUR = "([0-9a-fA-F]{1,4})"
_PASTED_OR_ANSWER = re.compile(
    rf"\x1b\[200~|\x1b\]11;rgba?:{_COLOUR}/{_COLOUR}/{_COLOUR}(?:/[0-9a-fA-F]{{1,4}})?(?:\x07|\x1b\\)"
)
_BEGUN = re.compile(
    r"\x1b(?:\[(?:20{0,2})?|\](?:1(?:1(?:;[rgba:0-9A-F/]{0,25}\x1b?)?)?)?)?$", re.IGNORECASE
)
_UNMISTAKABLE = "\x1b]11;"
_SILENT = ("linux", "dumb")
"""Terminals that would print the question."""


class TerminalBackground(Struct, frozen=True):
    """The background: `wanted` returns the setting ("auto", "dark" or "light"), `answered` the
    terminal's answer (None: none so far)."""

    wanted: Callable[[], str] = lambda: "auto"
    answered: Callable[[], bool | None] = lambda: None

    def is_light(self) -> bool:
        wanted, answered = self.wanted(), self.answered()
        if wanted != "auto":
            return wanted == "light"
        return _is_declared_light() if answered is None else answered


_ON_LIGHT: Mapping[str, str] = {
    "red": "#af0000",
    "green": "#008700",
    "yellow": "#875f00",
    "cyan": "#005f5f",
    "bright_black": "#6c6c6c",
    "bright_red": "#d70000",
    "bright_yellow": "#af8700",
    "bright_blue": "#005fd7",
    "bright_cyan": "#0087af",
}
_ON_DARK: Mapping[str, str] = {
    "red": "#ff5f5f",
    "blue": "#0087ff",
    "bright_black": "#8a8a8a",
    "bright_blue": "#5f87ff",
}


_UNKNOWN = TerminalBackground()
_background: ContextVar[TerminalBackground] = ContextVar("background", default=_UNKNOWN)


@contextmanager
def drawing_on(background: TerminalBackground) -> Iterator[None]:
    """Use the colours for a background in this context."""
    token = _background.set(background)
    try:
        yield
    finally:
        _background.reset(token)


def is_light() -> bool:
    """Return whether the current background is light."""
    return _background.get().is_light()


def fixed_colour(name: str) -> str | None:
    """Return the colour in the place of one of the sixteen which cannot be seen well on this
    background in many terminals ("#8a8a8a"); None where that one can be."""
    return (_ON_LIGHT if is_light() else _ON_DARK).get(name)


class ColoursOnBackground(StyleTransformation):
    """Lets the colours of prompt_toolkit's styles suit the background."""

    def transform_attrs(self, attrs: Attrs) -> Attrs:
        """Return a style with its colour changed, where it cannot be seen well."""
        name = (attrs.color or "").removeprefix("ansi").replace("bright", "bright_")
        fixed = fixed_colour(name)
        return attrs._replace(color=fixed.removeprefix("#")) if fixed else attrs

    def invalidation_hash(self) -> Hashable:
        """Return what the result depends on."""
        return is_light()


def _is_declared_light() -> bool:
    """Return whether the environment (rxvt, Konsole, iTerm) says that the background is white or
    light grey: "0;15" is black on white. Most terminals set nothing, and are dark."""
    return os.environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")


def ask(keyboard: Input, output: Output, on_answer: Callable[[bool], None]) -> bool:
    """Ask a terminal for its background; `on_answer` is called with whether it is light. Return
    whether it could be asked."""
    parser = getattr(keyboard, "vt100_parser", None)  # not everywhere, and not public
    if not isinstance(parser, Vt100Parser) or os.environ.get("TERM", "") in _SILENT:
        return False
    keyboard.vt100_parser = AnswerReader(parser.feed_key_callback, on_answer)  # type: ignore[attr-defined]
    output.write_raw(for_terminal(_QUESTION))
    output.flush()
    return True


class AnswerReader(Vt100Parser):
    """The parser of keys that removes answers from them."""

    def __init__(
        self, feed_key_callback: Callable[[KeyPress], None], on_answer: Callable[[bool], None]
    ) -> None:
        super().__init__(feed_key_callback)
        self._on_answer, self._held = on_answer, ""

    def feed(self, data: str) -> None:
        """Remove the answers from the input; the rest are keys."""
        data, self._held = self._held + data, ""
        if self._in_bracketed_paste:  # a text, with any content
            super().feed(data)
            return
        if found := _PASTED_OR_ANSWER.search(data):
            if found[1]:
                self._on_answer(_is_bright(found.groups()))
                super().feed(data[: found.start()])
            else:
                super().feed(data[: found.end()])
            self.feed(data[found.end() :])
        else:
            begun = _BEGUN.search(data)
            self._held = begun[0] if begun else ""
            super().feed(data.removesuffix(self._held) if begun else data)

    def flush(self) -> None:
        """Pass held input on as keys, since no more follows for now, except the beginning of an
        answer that nobody types. On a slow line its rest arrives later."""
        if not self._held.startswith(_UNMISTAKABLE):
            held, self._held = self._held, ""
            super().feed(held)
        super().flush()


def _is_bright(colour: Sequence[str]) -> bool:
    """Return whether a colour in hexadecimal numbers, each of one to four digits, is bright."""
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in colour)
    return bool(0.299 * red + 0.587 * green + 0.114 * blue > 0.5)
