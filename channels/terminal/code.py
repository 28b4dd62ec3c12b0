"""Code and formulas as lines that can be copied: whole, from the first column on. A mark replaces
them during layout, wherever they are, and then the lines replace the mark's line. Non-breaking
spaces are replaced likewise, since Rich breaks lines at every kind of space."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

_HELD = {0xA0: "\ufdd0", 0x202F: "\ufdd1", 0x2007: "\ufdd2"}
"""The characters can't occur in texts: Unicode reserves them for internal use by programs."""
_FREED = {ord(sign): chr(space) for space, sign in _HELD.items()}


def hold(text: str) -> str:
    """Return a text with these spaces replaced."""
    return text.translate(_HELD)


def free(text: str) -> str:
    """Return the text with its spaces restored."""
    return text.translate(_FREED)


_TAB = 8
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_FRAME = " ▌"
"""Characters in front of code that are left out: they are not part of the answer."""


def mark(lines: Sequence[Text]) -> Segment:
    """Return the mark of these lines, which has no width."""
    payload: Any = (lines,)
    return Segment("", None, payload)


def split_fences(source: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a text, and whether each is fenced code, with its fences."""
    part: list[str] = []
    fence = ""
    for line in source.splitlines(keepends=True):
        found = _FENCE.match(line)
        if not fence and found and (found[1][0] == "~" or "`" not in found[2]):
            yield "".join(part), False
            part, fence = [line], found[1]
        elif fence and found and found[1].startswith(fence) and not found[2].strip():
            yield "".join((*part, line)), True
            part, fence = [], ""
        else:
            part.append(line)
    yield "".join(part), bool(fence)


def fit_lines(
    line: Sequence[Segment], console: Console, style: Style, *, is_folded: bool
) -> Iterator[list[Segment]]:
    """Yield the final lines for a drawn line. If `is_folded`, no line is longer than the console is
    wide: for places where nothing is copied, and no terminal wraps the lines."""
    marks = [segment for segment in line if segment.control]
    if not marks:
        yield [*line]
        return
    before = [segment for segment in line if not segment.control]
    if "".join(segment.text for segment in before).strip(_FRAME):
        yield before
    for found in marks:
        lines: Sequence[Text] = found.control[0]  # type: ignore[assignment,index]
        for text in lines:
            for part in _fold(text, console) if is_folded else (_place_tabs(text, console),):
                yield [*Segment.apply_style(part.render(console), style)]


def _place_tabs(text: Text, console: Console) -> Text:
    """Return the text with its tabs kept, since a terminal can copy them, except in a line that it
    wraps: there a tab ends at the margin, and the next letter overwrites the last."""
    if "\t" in text.plain and cell_len(text.plain.expandtabs(_TAB)) >= console.width:
        text = text.copy()
        text.expand_tabs(_TAB)
    return text


def _fold(text: Text, console: Console) -> Iterable[Text]:
    return text.wrap(console, console.width, overflow="fold", tab_size=_TAB, no_wrap=False)
