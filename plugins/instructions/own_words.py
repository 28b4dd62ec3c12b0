"""The words in a message that are the person's own, without what they quote, forward or paste."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bot.attachments import HEARD

_QUOTE = re.compile(r"\s{0,3}>")
_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_FILE = re.compile(r"\[file: [^\n]*\]")
_BREAKS = re.compile(r"[\s\u200b\ufeff]+")
_EDGES = " .,;:!?。，；：！？…\"'“”„‘’«»`*_-"


def own_words(text: str) -> str:
    """Return a message without quoted lines and the line that says whose words they are, code
    blocks, and names of files. The lines keep their number."""
    return "\n".join(_own_lines(text.split("\n")))


def _own_lines(lines: list[str]) -> Iterator[str]:
    fence = ""
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
            yield ""
        elif mark:
            fence = mark[1]
            yield ""
        elif (
            _QUOTE.match(line)
            or _FILE.fullmatch(line)
            or (_QUOTE.match(after) and line.rstrip().endswith(":"))
        ):
            yield ""
        else:
            yield line.removeprefix(HEARD)


def normalise(text: str) -> str:
    """Return a text in the form in which two that say the same are equal: without case, line breaks
    and the signs around it."""
    return _BREAKS.sub(" ", text.casefold()).strip(_EDGES)
