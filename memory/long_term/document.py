"""`MEMORY.md` as a value: its lines, their sources, and operations on them. Pure.

People may edit the file, so every line is stored as written (`raw`), including headings and blank
lines. All other lines are facts: `- 2026-11-20: Ann lives in Lisbon.`
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from memory.patterns import lazy

TITLE = "# What is remembered"
IMPORTANT, NOTES = "## Important", "## Notes"
"""Headings; lines under the first go into the prompt before lines under the second."""
LONGEST = 300
"""The maximum of characters of a line that is remembered or distilled; a person may write longer
ones."""
MOST_FACTS = 100
"""The number of facts up to which a model may add some."""

_FACT = lazy(r"^\s*[-*+]\s+(?:(?P<said>\d{4}-\d\d-\d\d):\s+)?(?P<text>.*)$", re.DOTALL)
_TURNS = lazy(r"t(\d{1,9})(?: to t(\d{1,9}))?")
_TAG = lazy(r"<(?=[\s\u200b]*[\w/!|])")
_WORD = lazy(r"\w+")
_SAID = lazy(r"[^\s.,;:!?…\"'“”‘’„«»()\[\]*_`~，。；：！？、]+")
"""Words with the signs that distinguish them ("C++", "-5", "50%"), without punctuation."""
_ALIKE = 0.5  # the share of common words from which a replaced line counts as edited


class Source(Struct, frozen=True):
    """The source of a line: a section of a daily file (with its `job`, and the turns in words), a
    person's text in a daily file (`note`), a person, or a manual edit of the file itself. `day` and
    `at` are a date and a time of day in the bot's time zone; `digest` identifies the section."""

    kind: Literal["section", "note", "person", "file"]
    day: str
    at: str = ""
    who: str = ""
    conversation: str = ""
    turns: str = ""
    job: int = 0
    digest: str = ""

    def is_of(self, forgotten: DeletedTurns) -> bool:
        """Return whether it contains any of the data to forget."""
        if self.job and self.job in forgotten.jobs:
            return True
        if self.conversation != forgotten.conversation:
            return False
        return forgotten.turns is None or any(map(self._covers, forgotten.turns))

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Its turns, as first and last numbers."""
        return [(int(a), int(b or a)) for a, b in _TURNS.findall(self.turns)]

    def _covers(self, turn: int) -> bool:
        return any(first <= turn <= last for first, last in self.spans)


class DeletedTurns(Struct, frozen=True):
    """The deleted turns of a conversation (None: all of it), with the jobs that brought them to the
    daily files."""

    conversation: str
    turns: Collection[int] | None = None
    jobs: Collection[int] = ()


class MemoryLine(Struct, frozen=True):
    """A line of the file as written, and its sources."""

    raw: str
    sources: tuple[Source, ...] = ()

    @property
    def is_heading(self) -> bool:
        return self.raw.startswith("#")

    @property
    def is_fact(self) -> bool:
        return bool(self.raw.strip()) and not self.is_heading

    @property
    def text(self) -> str:
        """Return the text of the line, without its date."""
        found = _FACT.match(self.raw)
        return (found["text"] if found else self.raw).strip()

    @property
    def said(self) -> str:
        """The date of the line ("2026-11-20"), or ""."""
        found = _FACT.match(self.raw)
        return (found and found["said"]) or ""

    @property
    def spoken(self) -> tuple[str, ...]:
        """Its words without markup; two lines with the same words say the same."""
        return tuple(_SAID.findall(self.text.casefold()))

    @property
    def words(self) -> frozenset[str]:
        """Its distinct words."""
        return frozenset(_WORD.findall(self.text.casefold()))

    def to_json(self) -> dict[str, Any]:
        sources = [{k: v for k, v in asdict(one).items() if v} for one in self.sources]
        return {"raw": self.raw, **({"sources": sources} if sources else {})}

    @classmethod
    def from_json(cls, data: Any) -> MemoryLine:
        return cls(data["raw"], tuple(Source(**one) for one in data.get("sources", ())))


Lines = tuple[MemoryLine, ...]


def lines_from_json(content: bytes) -> Lines:
    """Return the lines of another installation, whose jobs have other numbers. Raises
    ValueError."""
    try:
        lines = msgspec.json.decode(content, type=Lines)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(f"it holds no lines ({error})") from None
    return tuple(
        replace(line, sources=tuple(replace(one, job=0) for one in line.sources)) for line in lines
    )


def fact(text: str, origin: str, *sources: Source) -> MemoryLine:
    """Return a new line with a date."""
    return MemoryLine(f"- {origin}: {text}", sources)


def facts(lines: Iterable[MemoryLine]) -> list[MemoryLine]:
    """Return the facts; they are numbered from 1 in this order."""
    return [line for line in lines if line.is_fact]


def render(lines: Iterable[MemoryLine]) -> str:
    """Return the text of the file."""
    return "".join(f"{line.raw}\n" for line in lines)


def escape_tags(text: str) -> str:
    """Return a text for a model, in which no tag opens or closes."""
    return _TAG.sub("&lt;", text)


def parse(text: str, before: Lines = (), source: Source | None = None) -> Lines:
    """Return the lines of a text that a person wrote, or edited from the lines `before`. An
    unchanged line keeps its sources. A changed one keeps them too, and adds `source`, so that
    forgetting a source later removes it. A new one has only `source`."""
    raws = text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []
    known = {line.raw: line for line in before}
    removed = [line for line in before if line.raw not in set(raws) and line.sources]
    new = (source,) if source else ()

    def line_of(raw: str) -> MemoryLine:
        if raw in known:
            return known[raw]
        line = MemoryLine(raw)
        if not line.is_fact:
            return line
        old = tuple(s for other in removed if _is_alike(other, line) for s in other.sources)
        return replace(line, sources=tuple(dict.fromkeys((*old, *new))))

    return tuple(map(line_of, raws))


def _is_alike(old: MemoryLine, new: MemoryLine) -> bool:
    shared = len(old.words & new.words)
    return shared > 0 and shared >= _ALIKE * min(len(old.words), len(new.words))


# --- changes -------------------------------------------------------------------------------


class LineOperation(Struct, frozen=True):
    """A change of one line: a line is added, replaces the line `old`, or `old` is removed. `line`
    is the new one; `sources` are those of the reason `why`."""

    do: Literal["add", "replace", "remove"]
    line: MemoryLine | None = None
    old: str = ""
    why: str = ""
    is_important: bool = False
    sources: tuple[Source, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "do": self.do,
            "line": self.line and self.line.to_json(),
            "old": self.old,
            "why": self.why,
            "is_important": self.is_important,
            "sources": MemoryLine("", self.sources).to_json().get("sources", []),
        }

    @classmethod
    def from_json(cls, data: Any) -> LineOperation:
        line = MemoryLine.from_json(data["line"]) if data["line"] else None
        sources = MemoryLine.from_json({"raw": "", "sources": data["sources"]}).sources
        return cls(data["do"], line, data["old"], data["why"], data["is_important"], sources)

    def is_of(self, forgotten: DeletedTurns) -> bool:
        """Return whether it was made from data to forget."""
        made = (*self.sources, *(self.line.sources if self.line else ()))
        return any(source.is_of(forgotten) for source in made)


def apply(lines: Lines, operations: Iterable[LineOperation]) -> Lines:
    """Return the lines after these operations. An operation on a line that no longer exists is
    skipped: the newer change of that line wins."""
    for operation in operations:
        if operation.do == "add" and operation.line is not None:
            lines = add_line(lines, operation.line, is_important=operation.is_important)
        else:
            new = (operation.line,) if operation.line is not None else ()
            at = next((n for n, line in enumerate(lines) if line.raw == operation.old), None)
            if at is not None:
                lines = (*lines[:at], *new, *lines[at + 1 :])
    return lines


def add_line(lines: Lines, line: MemoryLine, *, is_important: bool = False) -> Lines:
    """Return the lines with a new one under its heading, newest first. If a line says the same
    already, only its sources are extended."""
    for at, other in enumerate(lines):
        if other.is_fact and other.spoken and other.spoken == line.spoken:
            both = tuple(dict.fromkeys((*other.sources, *line.sources)))
            return (*lines[:at], replace(other, sources=both), *lines[at + 1 :])
    if not lines:
        lines = (MemoryLine(TITLE), MemoryLine(""))
    heading = IMPORTANT if is_important else NOTES
    at = next((n for n, other in enumerate(lines) if _is_called(other, heading)), -1)
    if at < 0:
        return _with_heading(lines, heading, line)
    at += 1
    while at < len(lines) and not lines[at].raw.strip():
        at += 1
    while at < len(lines) and lines[at].is_fact and lines[at].said > line.said:
        at += 1
    blank = (MemoryLine(""),) if at < len(lines) and lines[at].is_heading else ()
    return (*lines[:at], line, *blank, *lines[at:])


def is_important(lines: Lines, line: MemoryLine) -> bool:
    """Return whether a line is under the heading for important ones."""
    above = lines[: lines.index(line)]
    headings = [other for other in above if other.is_heading]
    return bool(headings) and _is_called(headings[-1], IMPORTANT)


def _with_heading(lines: Lines, heading: str, line: MemoryLine) -> Lines:
    """Add a line under a new heading: important lines before all headings except the title, notes
    at the end."""
    new = (MemoryLine(heading), MemoryLine(""), line)
    if heading == NOTES:
        gap = () if not lines or not lines[-1].raw.strip() else (MemoryLine(""),)
        return (*lines, *gap, *new)
    at = 1 if lines[0].raw.startswith("# ") else 0
    while at < len(lines) and not lines[at].raw.strip():
        at += 1
    return (*lines[:at], *new, MemoryLine(""), *lines[at:])


def _is_called(line: MemoryLine, heading: str) -> bool:
    return line.is_heading and line.raw.strip("# \t").casefold() == heading.strip("# ").casefold()


def compose(before: Sequence[LineOperation], new: LineOperation) -> tuple[LineOperation, ...]:
    """Combine the unapproved operations `before` with one more, which may refer to a line that they
    would add. The result has as few operations on the lines in force as possible."""
    for at, one in enumerate(before):
        if new.do == "add" or one.line is None or one.line.raw != new.old:
            continue
        if new.do == "replace":
            changed = replace(one, line=new.line, why=new.why or one.why)
            return (*before[:at], changed, *before[at + 1 :])
        rest = (*before[:at], *before[at + 1 :])
        return rest if one.do == "add" else (*rest, replace(new, old=one.old))
    return (*before, new)


def drop_forgotten(lines: Lines, forgotten: DeletedTurns) -> Lines:
    """Return the lines without those from forgotten sources."""
    return tuple(
        line for line in lines if not any(source.is_of(forgotten) for source in line.sources)
    )


def diff_lines(old: Lines, new: Lines) -> list[tuple[str, str]]:
    """List the removed ("-") and added ("+") facts, in the order of the file."""
    before, after = ([line.raw for line in facts(lines)] for lines in (old, new))
    found: list[tuple[str, str]] = []
    for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind != "equal":
            found += [("-", raw) for raw in before[a:b]]
            found += [("+", raw) for raw in after[c:d]]
    return found
