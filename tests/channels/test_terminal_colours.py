"""Each colour of the terminal is visible on a light and on a dark background, by the figures of
WCAG: text has a contrast of 4.5 to 1, and drawings 3 to 1."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from prompt_toolkit.styles import DEFAULT_ATTRS
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from rich.syntax import ANSI_DARK, ANSI_LIGHT

from channels.terminal import display, figures, screen
from channels.terminal.theme import ColoursOnBackground, TerminalBackground, drawing_on

XTERM = (
    *("#000000", "#cd0000", "#00cd00", "#cdcd00", "#0000ee", "#cd00cd", "#00cdcd", "#e5e5e5"),
    *("#7f7f7f", "#ff0000", "#00ff00", "#ffff00", "#5c5cff", "#ff00ff", "#00ffff", "#ffffff"),
)
"""The sixteen colours of xterm and tmux; terminals with others choose paler ones."""
TEXT, DRAWN = 4.5, 3.0


def of_code(is_light: bool) -> Iterator[str]:
    """Yield the colours of code."""
    for style in (ANSI_LIGHT if is_light else ANSI_DARK).values():
        if style.color and style.color.name not in ("white", "default"):  # of white space
            yield style.color.name


def of_screen() -> Iterator[str]:
    """Yield the colours of the input line and its lists, by their names in prompt_toolkit."""
    for _name, style in screen._STYLE.style_rules:
        for word in style.split():
            if word.removeprefix("fg:").startswith("ansi"):
                yield word.removeprefix("fg:")


def luminance(colour: str) -> float:
    """Return the brightness of "#rrggbb", from 0 to 1."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, bright = sorted(map(luminance, (one, other)))
    return (bright + 0.05) / (dark + 0.05)


def shown(name: str) -> str:
    """Return the RGB value of one of the sixteen colours, or of a fixed one."""
    number = Color.parse(name).number
    return name if name.startswith("#") else XTERM[number or 0]


def drawn(name: str) -> str:
    """Return the colour that is drawn instead of another."""
    style = display._suited(Segment("x", Style(color=name))).style
    assert style
    assert style.color
    return style.color.name


@pytest.mark.parametrize(("is_light", "background"), [(True, "#ffffff"), (False, "#000000")])
def test_every_colour_is_seen_on_its_background(is_light: bool, background: str) -> None:
    texts = {"red", "cyan", *of_code(is_light)}  # failures; questions and inline code
    blocks = {*figures.PARTS.values(), *figures._STATES.values(), figures.FREE}
    wanted = "light" if is_light else "dark"
    with drawing_on(TerminalBackground(partial(str, wanted))):
        faint = {
            name: round(found, 2)
            for least, all_names in ((TEXT, texts), (DRAWN, blocks))
            for name in all_names
            if (found := contrast(shown(drawn(name)), background)) < least
        }
        assert faint == {}
        for name in of_screen():
            attrs = ColoursOnBackground().transform_attrs(DEFAULT_ATTRS._replace(color=name))
            plain = name.removeprefix("ansi").replace("bright", "bright_")
            fixed = attrs.color if attrs.color != name else ""
            colour = f"#{fixed}" if fixed else shown(plain)
            assert contrast(colour, background) >= TEXT, (name, colour)
