"""The `<terse>` tag (flo.monster): the line in which a model says what it has just done.

People never see it. One parser takes it out, of a whole text as of one that streams in pieces, so
that what streams and what is kept can't differ.
"""

from __future__ import annotations

import re

REQUEST = (
    "End every reply with one short line that says what was done and any key decision, in this "
    "form: <terse>what was done, key decisions</terse>. The person does not see it; later you see "
    "it in the activity log, when the reply itself has left your context."
)
"""What the system prompt asks for while the strategy `slim` is in force."""

_TAG = re.compile(r"<\s{0,9}+(/?)\s{0,9}+terse\s{0,9}+/?>", re.IGNORECASE)
_LONGEST_TAG = 40
"""Characters of a tag, at most."""
_BEGUN = re.compile(r"<\s{0,9}+/?\s{0,9}+(?:t(?:e(?:r(?:s(?:e\s{0,9}+/?)?)?)?)?)?\Z", re.IGNORECASE)
"""The end of a piece that may be the beginning of a tag."""
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HELD = 4_000
"""Characters after an opening tag up to which its end is waited for; then it was none."""
_LINE_KEPT = 1_000
"""Characters at the beginning of a line by which it is known for a fence."""
_AT_ONCE = 4_000
"""Characters of a piece that are looked at in one go."""
_UNCLOSED = 300
"""Characters that an unclosed tag at the very end may have to be taken for a line."""


class TerseFilter:
    """Takes a reply in pieces of any size and gives back what a person sees of it.

    A tag inside a code block is text. A tag that is not closed hides nothing that matters: a short
    last line after it is the line, anything else is shown. `line` is that of the last tag.
    """

    def __init__(self) -> None:
        self.line = ""
        self._pending = ""
        self._in_tag = False
        self._no_end = 0  # in so many characters of what is pending, no tag ends
        self._fence = ""
        self._last_line = self._last_sign = ""
        self._has_shown = False

    def feed(self, piece: str) -> str:
        """What can be shown once this piece has come."""
        if len(piece) <= _AT_ONCE:
            return self._feed(piece)
        starts = range(0, len(piece), _AT_ONCE)
        return "".join(self._feed(piece[start : start + _AT_ONCE]) for start in starts)

    def _feed(self, piece: str) -> str:
        self._pending += piece
        shown = []
        while True:
            before = (len(self._pending), self._in_tag)
            shown.append(self._in_a_tag() if self._in_tag else self._in_text())
            if before == (len(self._pending), self._in_tag):
                return "".join(shown)

    def finish(self) -> str:
        """What is left to be shown at the end. A reply that was only a tag shows the tag's text."""
        rest, self._pending = self._pending, ""
        if not self._in_tag:
            return self._show(rest) or self._instead()
        self._in_tag = False
        line = _BEGUN.sub("", rest).strip()
        if self._has_shown and 0 < len(line) <= _UNCLOSED and "\n" not in line:
            self.line = _as_line(line)
            return ""
        return self._show(rest) or self._instead()

    def _instead(self) -> str:
        return "" if self._has_shown else self.line

    def _in_text(self) -> str:
        """Show what comes before the next tag, and step into it."""
        tag = _TAG.search(self._pending)
        if tag is None:
            begun = _BEGUN.search(self._pending)
            return self._take(begun.start() if begun else len(self._pending))
        shown = self._take(tag.start())
        if self._is_code():
            return shown + self._take(tag.end() - tag.start())
        self._drop(tag.end() - tag.start())
        self._in_tag = not tag[1]
        return shown

    def _in_a_tag(self) -> str:
        """Wait for the end of the tag; one that never seems to end was none."""
        for tag in _TAG.finditer(self._pending, self._no_end, _HELD):
            if tag[1]:
                self.line = _as_line(self._pending[: tag.start()]) or self.line
                self._drop(tag.end())
                self._in_tag = False
                return ""
        looked_at = min(len(self._pending), _HELD)
        self._no_end = max(self._no_end, looked_at - _LONGEST_TAG)
        self._in_tag = len(self._pending) <= _HELD
        return ""

    def _take(self, length: int) -> str:
        taken = self._pending[:length]
        self._drop(length)
        return self._show(taken)

    def _drop(self, length: int) -> None:
        self._pending = self._pending[length:]
        self._no_end = max(0, self._no_end - length)

    def _show(self, text: str) -> str:
        self._has_shown = self._has_shown or bool(text.strip())
        *lines, last = text.split("\n")
        for line in lines:
            self._fence = _fence_after(self._fence, self._begun_line(line))
            self._last_line = self._last_sign = ""
        self._last_line = self._begun_line(last)
        self._last_sign = last[-1:] or self._last_sign
        return text

    def _begun_line(self, more: str) -> str:
        """The beginning of the line that grows; of one that goes on and on, enough."""
        if len(self._last_line) >= _LINE_KEPT:
            return self._last_line
        return (self._last_line + more)[:_LINE_KEPT]

    def _is_code(self) -> bool:
        """Whether the next character stands in a code block, or right after a backtick."""
        is_fence_line = _FENCE.match(self._last_line) is not None
        return bool(self._fence) or is_fence_line or self._last_sign == "`"


def _fence_after(fence: str, line: str) -> str:
    """The fence of the code block that is open after this line; "" for none."""
    mark = _FENCE.match(line)
    if not fence:
        return mark[1] if mark else ""
    closes = mark is not None and mark[1].startswith(fence) and line.strip() == mark[1]
    return "" if closes else fence


def _as_line(text: str) -> str:
    return " ".join(_TAG.sub(" ", text).split())


def extracted(text: str) -> tuple[str, str]:
    """A whole reply: what a person sees of it, and its line ("": it has none)."""
    parser = TerseFilter()
    shown = parser.feed(text) + parser.finish()
    return (shown.rstrip() if parser.line else shown), parser.line
