"""The activity log (flo.monster): a turn in one or a few lines; and the `<terse>` tag, the line in
which a model summarises its reply.

The tag is never shown to people. One parser removes it, from a whole text and from a stream in
pieces, so that the streamed and the stored text can't differ.

The model writes a line about its own reply, a sub-agent about its work. A turn without one gets a
line made of its own first words, so that no turn is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct

from memory.context.meter import Meter
from memory.context.view import LogLine
from memory.patterns import lazy
from memory.plain_text import beginning
from memory.turns import Entry, Turn

REQUEST = (
    "End every reply with one short line like this: <terse>what was done, key decisions</terse>. "
    "Only you see it: in the activity log, once the reply has left your view."
)
"""The request in the system prompt while the strategy `slim` is in force."""

_TAG = r"<\s{0,9}+/?\s{0,9}+terse(?:[\s/][^<>]{0,200}+)?>"
_TOKEN = lazy(rf"{_TAG}|`+|\n|[^`\n<]+|<", re.IGNORECASE)
_UNFINISHED = lazy(
    r"<\s{0,9}+/?\s{0,9}+(?:t(?:e(?:r(?:s(?:e(?:[\s/][^<>]{0,200}+)?)?)?)?)?)?\Z", re.IGNORECASE
)
"""The end of a piece that may be the beginning of a tag."""
_CUT_OFF = lazy(r"<\s*/?\s*te(?:r(?:se?)?)?", re.IGNORECASE)
_CLOSES = lazy(r"<\s*/")
_ENDS = lazy(r"<\s*/|<[^/]*/\s*>")
"""A tag after which no text is hidden: a closing or an empty tag."""
_INSIDE = r"(?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t])*+"  # in a quotation, or in a list item
_FENCE = lazy(rf"{_INSIDE}(`{{3,}}+(?!.*`)|~{{3,}})")
_FURTHER_IN = 3
"""The number of characters by which the end of a code block may be indented further than its
beginning."""
_LINE_KEPT = 1_000
"""The number of characters at the beginning of a line that are checked for a fence."""
_UNCLOSED = 300
"""The maximum length of the text after an unclosed tag at the end that is used as the line."""


class TerseFilter:
    """A parser that takes a reply in pieces of any size and returns the text to show.

    A tag in code is text: in a block, or between backticks on one line. After an unclosed tag, a
    short last line is used as the line, any other text is shown. White space is returned with the
    text that follows it, so that none is left at the place of the last tag. `line` is the line of
    the last tag.
    """

    def __init__(self) -> None:
        self.line = ""
        self._rest = ""  # the possible beginning of a tag
        self._held: list[str] = []  # text in a tag, or possibly code, until that is known
        self._in_tag = self._may_be_code = False
        self._span = self._run = 0  # backticks that began a span of code; those just read
        self._has_spans = True  # on this line, as far as is known
        self._fence = self._last_line = ""
        self._space: list[str] = []
        self._has_shown = False

    def feed(self, piece: str) -> str:
        """Return the text that can be shown after this piece."""
        text = self._rest + piece
        if "<" not in text and "`" not in text and not (self._in_tag or self._may_be_code):
            return self._plain(text)
        begun = _UNFINISHED.search(text)
        end = begun.start() if begun else len(text)
        self._rest = text[end:]
        return self._process(_TOKEN.findall(text, 0, end))

    def _plain(self, text: str) -> str:
        """Show text with neither a tag nor code: the usual case."""
        self._rest = ""
        if text and self._run:
            self._end_run()
        if "\n" in text:
            self._span, self._has_spans = 0, True
        return self._show(text) if text else ""

    def finish(self) -> str:
        """Return the remaining text at the end. A reply that was only a tag shows the tag's
        text."""
        rest, self._rest = self._rest, ""
        is_tag = self._in_tag or (_CUT_OFF.fullmatch(rest) and not self._is_block())
        shown = "" if is_tag or not rest else self._process([rest])
        if self._may_be_code:
            self._end_run()
            shown += self._decide()
        if self._in_tag:
            shown += self._end_unclosed()
        if self.line:
            return shown if self._has_shown else self.line
        return shown + "".join(self._space)

    def _end_unclosed(self) -> str:
        """Return the text after a tag that was never closed."""
        self._in_tag = False
        text = "".join(self._held)
        line = text.strip()
        if self._has_shown and 0 < len(line) <= _UNCLOSED and "\n" not in line:
            self.line = _as_line(line)
            return ""
        return self._show(text)

    def _process(self, tokens: Iterable[str]) -> str:
        return "".join([self._state()(token) for token in tokens])

    def _state(self) -> Callable[[str], str]:
        if self._in_tag:
            return self._in_a_tag
        return self._in_question if self._may_be_code else self._in_text

    def _in_text(self, token: str) -> str:
        """Show text that is not a tag, and enter a tag."""
        if not _is_tag(token):
            self._count(token)
            return self._show(token)
        if self._is_block():
            return self._show(token)
        self._end_run()
        self._may_be_code = bool(self._span)
        self._in_tag = not self._span and not _ENDS.match(token)
        self._held = [token] if self._span else []
        return ""

    def _in_a_tag(self, token: str) -> str:
        """Wait for the end of the tag."""
        if not _is_tag(token):
            self._held.append(token)
        elif _CLOSES.match(token):
            self._in_tag = False
            self.line = _as_line("".join(self._held)) or self.line
        else:
            self._held.append(" ")
        return ""

    def _in_question(self, token: str) -> str:
        """Handle text after a tag behind a backtick: it is code if an equal backtick follows on the
        same line."""
        if token[:1] != "`":
            self._end_run()
            if not self._span or token == "\n":
                return self._decide() + self._process([token])
        self._held.append(token)
        self._run += len(token) if token[:1] == "`" else 0
        return ""

    def _decide(self) -> str:
        """Show the held text as code, or read it again as a line without code."""
        held, self._may_be_code = self._held, False
        if not self._span:
            return "".join([self._show(token) for token in held])
        self._span, self._has_spans = 0, False
        return self._process(held)

    def _count(self, token: str) -> None:
        """Count backticks, up to the end of a line."""
        if token[:1] == "`":
            self._run += len(token)
            return
        self._end_run()
        if token == "\n":
            self._span, self._has_spans = 0, True

    def _end_run(self) -> None:
        """End a run of backticks: as many as have begun a span of code end it."""
        if self._run and self._has_spans and self._span in (0, self._run):
            self._span = self._run - self._span
        self._run = 0

    def _show(self, text: str) -> str:
        *lines, last = text.split("\n") if "\n" in text else (text,)
        for line in lines:
            self._fence = _fence_after(self._fence, self._extend_line(line))
            self._last_line = ""
        self._last_line = self._extend_line(last)
        if not (body := text.rstrip()):
            self._space.append(text)
            return ""
        shown = "".join((*self._space, body))
        self._space, self._has_shown = [text[len(body) :]], True
        return shown

    def _extend_line(self, more: str) -> str:
        """Return the beginning of the growing line; at most as much as is needed."""
        if len(self._last_line) >= _LINE_KEPT:
            return self._last_line
        return (self._last_line + more)[:_LINE_KEPT]

    def _is_block(self) -> bool:
        """Return whether the next character is in a code block."""
        if self._fence:
            return not _closes(self._fence, self._last_line)
        return _FENCE.match(self._last_line) is not None


def _is_tag(token: str) -> bool:
    return len(token) > 1 and token[0] == "<"


def _fence_after(fence: str, line: str) -> str:
    """Return the fence of the code block that is open after this line, with its indentation; "" for
    none."""
    if fence:
        return "" if _closes(fence, line) else fence
    mark = _FENCE.match(line)
    return mark[1].rjust(mark.end(1)) if mark else ""


def _closes(fence: str, line: str) -> bool:
    """Return whether a line is the end of the code block that this fence has opened."""
    mark, opening = line.lstrip(" \t>"), fence.strip()
    inside = len(line) - len(mark) - (len(fence) - len(opening))
    mark = mark.rstrip()
    return inside <= _FURTHER_IN and mark.startswith(opening) and not mark.strip(opening[0])


def _as_line(text: str) -> str:
    return " ".join(text.split())


def extract(text: str) -> tuple[str, str]:
    """Return the text of a whole reply to show, and its line ("": none)."""
    if "<" not in text:
        return text, ""
    parser = TerseFilter()
    return parser.feed(text) + parser.finish(), parser.line


_QUESTION = 60  # characters of a question in a line made of first words
_WHOLE = 160  # characters of such a line


class Line(Struct, frozen=True):
    """A line about the work of the assistant or a sub-agent in a turn; `at` is its time, in UTC."""

    turn: int
    at: datetime
    role: Literal["assistant", "subagent"]
    text: str


def lines_of(turn: Turn) -> tuple[Line, ...]:
    """Return the lines of a turn: the sub-agents' in order, then the turn's own."""
    subagents = (
        Line(turn.number, entry.at, "subagent", _one_line(entry.message.terse))
        for entry in turn.entries
        if entry.message.role == "tool" and entry.message.terse.strip()
    )
    return (*subagents, _own_line(turn))


def _own_line(turn: Turn) -> Line:
    """Return the last line that the model wrote, at the time of its message; else the first
    words."""
    written = [entry for entry in turn.entries if _is_written(entry)]
    entry = written[-1] if written else turn.entries[-1]
    text = _one_line(entry.message.terse) if written else _first_words_of(turn)
    return Line(turn.number, entry.at, "assistant", text)


def _is_written(entry: Entry) -> bool:
    return entry.message.role == "assistant" and bool(entry.message.terse.strip())


def _first_words_of(turn: Turn) -> str:
    text = turn.reply.text if turn.reply else ""
    return first_words(turn.question.text, text or "(no reply)")


def first_words(question: str, reply: str) -> str:
    """Return "question → reply", each by its first words, at most 160 characters."""
    arrow = f"{beginning(question, _QUESTION)} → "
    return arrow + beginning(reply, _WHOLE - len(arrow))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def as_text(line: Line) -> str:
    """Return a line as in "[t1 2024-01-15T10:30] assistant: created dashboard", in UTC, to the
    minute."""
    return f"[t{line.turn} {line.at.astimezone(UTC):%Y-%m-%dT%H:%M}] {line.role}: {line.text}"


def as_brief_text(line: Line) -> str:
    """Return a line as in "t1 created dashboard", for lines that follow a line of the same hour.
    The role is given only for a sub-agent."""
    who = "" if line.role == "assistant" else f"{line.role}: "
    return f"t{line.turn} {who}{line.text}"


def brief_logs(turns: Iterable[Turn]) -> dict[int, str]:
    """Return the lines of each turn by its number; only the first line of each hour has the
    time."""
    found, hour = dict[int, str](), ""
    for turn in turns:
        texts = []
        for line in lines_of(turn):
            texts.append(as_brief_text(line) if hour == _hour_of(line) else as_text(line))
            hour = _hour_of(line)
        found[turn.number] = "\n".join(texts)
    return found


def _hour_of(line: Line) -> str:
    return f"{line.at.astimezone(UTC):%Y-%m-%dT%H}"


def log_lines(turns: Iterable[Turn], meter: Meter) -> tuple[LogLine, ...]:
    """Return the lines of the complete ones of these turns, as they are sent."""
    return tuple(
        _log_line(line, turn.has_outside, meter)
        for turn in turns
        if turn.is_complete
        for line in lines_of(turn)
    )


def _log_line(line: Line, is_untrusted: bool, meter: Meter) -> LogLine:
    text, brief = as_text(line), as_brief_text(line)
    tokens, least = meter.count(text) + 1, meter.count(brief) + 1
    return LogLine(line.turn, text, tokens, is_untrusted, _hour_of(line), brief, least)
