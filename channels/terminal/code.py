"""Code and formulas as lines that can be copied: whole, from the first column on, with nothing in
front of them or behind.

Whatever they stand in (a list, a quotation, the indented reply of a command), a mark takes their
place while it is drawn, and the lines take the place of the mark's line. A line that is longer than
the window is left to the terminal to wrap, which copies it as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

_TAB = 8
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_FRAME = " ▌"
"""Signs in front of code that are left out: they are no text of the answer."""


def mark(lines: Sequence[Text]) -> Segment:
    """Return the mark of these lines, which takes no room."""
    payload: Any = (lines,)
    return Segment("", None, payload)


def fences_apart(source: str) -> Iterator[tuple[str, bool]]:
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


def put_in(
    line: Sequence[Segment], console: Console, style: Style, *, is_folded: bool
) -> Iterator[list[Segment]]:
    """Yield the lines that a drawn line stands for. Where it `is_folded`, no line is longer than
    the console is wide: where nothing is copied, and nobody else would wrap it."""
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
    """Tabs that a terminal can copy are left to it. In a line that it wraps they are not safe: they
    end at the margin, where the next letter takes the place of the last."""
    if "\t" in text.plain and cell_len(text.plain.expandtabs(_TAB)) >= console.width:
        text = text.copy()
        text.expand_tabs(_TAB)
    return text


def _fold(text: Text, console: Console) -> Iterable[Text]:
    return text.wrap(console, console.width, overflow="fold", tab_size=_TAB, no_wrap=False)
