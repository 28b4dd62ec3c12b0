"""The text of a Word file, from its XML."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .flow import PAGE, BlockReader, drawn
from .package import DAMAGED, Mark, Package, below, children, find, get, name_of, said

_APART = {
    "header": "headers and footers",
    "footer": "headers and footers",
    "footnotes": "notes",
    "endnotes": "notes",
    "comments": "comments",
}
_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"),
          (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip
_LEVELS = 9
_DEEPEST = 20  # maximum chain of styles based on one another


def read(package: Package, main: str) -> Iterator[str]:
    """Yield the pages with the page breaks of the program that saved it last; if it stored none,
    with the explicit page breaks."""
    styles = Styles(package, main)
    is_laid_out = _has(package, main, b"lastRenderedPageBreak")
    flow = BlockReader(styles.label, "lastRenderedPageBreak" if is_laid_out else "br")
    number = 1
    yield Mark("page 1")
    for block in package.elements(main, 3):
        for line in [block] if isinstance(block, str) else flow.lines(block):
            first, *more = line.split(PAGE)
            yield first
            for text in more:
                number += 1
                yield Mark(f"page {number}")
                yield text
    yield from drawn(package, main)
    yield from said(flow.left_out)
    yield from _apart(package, main, styles)


def _apart(package: Package, main: str, styles: Styles) -> Iterator[str]:
    """Yield the text outside of the main text: headers and footers (each text once), notes,
    comments."""
    found: dict[str, dict[str, None]] = {}
    for relation in package.relations(main):
        title = _APART.get(relation.kind)
        if title is None or relation.is_external:
            continue
        flow, lines = BlockReader(styles.label), found.setdefault(title, {})
        root = package.root(relation.target)
        for part in () if root is None else children(root):
            text = "\n".join(line.replace(PAGE, "") for line in flow.lines(part))
            number = get(part, "id") if title == "notes" else None
            if text.strip():
                lines[f"[{number}] {text.strip()}" if number else text] = None
        for line in (*drawn(package, relation.target), *said(flow.left_out)):
            lines[line] = None
        if root is None:
            lines[DAMAGED] = None
    for title, lines in found.items():
        if lines:
            yield Mark(title)
            yield from lines


def _has(package: Package, name: str, mark: bytes) -> bool:
    stream = package.open(name)
    before = b""
    while stream is not None and (block := stream.read(1 << 20)):
        if mark in before + block:
            return True
        before = block[-len(mark) :]
    return False


class Styles:
    """The labels before paragraphs by their style: marks of headings, numbers of lists."""

    def __init__(self, package: Package, main: str) -> None:
        parts = {r.kind: r.target for r in package.relations(main) if not r.is_external}
        self._styles: dict[str, Any] = {}
        root = package.root(parts.get("styles", ""))
        for style in () if root is None else below(root, "style"):
            self._styles[get(style, "styleId") or ""] = style
        self._levels: dict[str, dict[int, _Level]] = {}
        self._lists: dict[str, str] = {}
        self._counts: dict[str, list[int | None]] = {}
        root = package.root(parts.get("numbering", ""))
        if root is not None:
            self._read_lists(root)

    def label(self, paragraph: Any) -> str:
        """Return the mark of a heading and the number in a list, each followed by a space."""
        own = find(paragraph, "pPr")
        named = None if own is None else find(own, "pStyle")
        chain = list(self._chain(get(named, "val") if named is not None else None))
        level = next(filter(None, map(_heading, chain)), 0)
        number = self._number([x for x in (own, *(find(s, "pPr") for s in chain)) if x is not None])
        return f"{'#' * level} " * bool(level) + f"{number} " * bool(number)

    def _chain(self, name: str | None) -> Iterator[Any]:
        for _ in range(_DEEPEST):
            style = self._styles.get(name or "")
            if style is None:
                return
            yield style
            base = find(style, "basedOn")
            name = None if base is None else get(base, "val")

    def _number(self, properties: list[Any]) -> str:
        number: str | None = None
        depth: int | None = None
        for found in filter(lambda x: x is not None, (find(p, "numPr") for p in properties)):
            at, which = find(found, "ilvl"), find(found, "numId")
            depth = _int(get(at, "val")) if depth is None and at is not None else depth
            number = get(which, "val") if number is None and which is not None else number
        depth = min(max(depth or 0, 0), _LEVELS - 1)
        levels = self._levels.get(number or "", {})
        return self._next(self._lists[number], levels, depth) if number and levels else ""

    def _next(self, which: str, levels: dict[int, _Level], depth: int) -> str:
        """Count one paragraph of a list, and return its number."""
        counts = self._counts.setdefault(which, [None] * _LEVELS)
        level = levels.get(depth, _Level())
        count = counts[depth]
        counts[depth] = level.start if count is None else count + 1
        counts[depth + 1 :] = [None] * (_LEVELS - depth - 1)
        if level.kind == "bullet":
            return "-"
        text = level.text
        for place in range(_LEVELS):
            other = levels.get(place, _Level())
            count = counts[place]
            shown = _written(other.start if count is None else count, other.kind)
            text = text.replace(f"%{place + 1}", shown)
        return text.strip()

    def _read_lists(self, root: Any) -> None:
        abstract = {get(a, "abstractNumId"): a for a in below(root, "abstractNum")}
        for num in below(root, "num"):
            number, base = get(num, "numId") or "", find(num, "abstractNumId")
            which = (get(base, "val") if base is not None else None) or ""
            levels = {
                _int(get(level, "ilvl")): _Level.of(level)
                for level in below(abstract[which], "lvl")
            } if which in abstract else {}  # fmt: skip
            self._lists[number] = which
            for change in below(num, "lvlOverride"):
                place, start = _int(get(change, "ilvl")), find(change, "startOverride")
                inner = find(change, "lvl")
                level = _Level.of(inner) if inner is not None else levels.get(place, _Level())
                if start is not None:
                    level = _Level(_int(get(start, "val")), level.kind, level.text)
                    self._lists[number] = f"{which}/{number}"  # counted separately
                levels[place] = level
            self._levels[number] = levels


class _Level:
    """The number format of one level of a list."""

    def __init__(self, start: int = 1, kind: str = "decimal", text: str = "") -> None:
        self.start, self.kind, self.text = start, kind, text

    @classmethod
    def of(cls, level: Any) -> _Level:
        values = {name_of(part): get(part, "val") or "" for part in children(level)}
        return cls(
            _int(values.get("start") or "1"),
            values.get("numFmt", "decimal"),
            values.get("lvlText", ""),
        )


def _heading(style: Any) -> int:
    name = find(style, "name")
    words = ((get(name, "val") if name is not None else None) or "").lower()
    level = words.removeprefix("heading ")
    return int(level) if words.startswith("heading ") and level in list("123456789") else 0


def _int(text: str | None) -> int:
    try:
        return int((text or "0")[:9])
    except ValueError:
        return 0


def _written(number: int, kind: str) -> str:
    if kind in ("lowerLetter", "upperLetter") and number > 0:
        letters = chr(ord("a") + (number - 1) % 26) * min((number - 1) // 26 + 1, 10)
        return letters if kind == "lowerLetter" else letters.upper()
    if kind in ("lowerRoman", "upperRoman") and 0 < number < 4_000:
        text = ""
        for value, sign in _ROMAN:
            text += sign * (number // value)
            number %= value
        return text if kind == "lowerRoman" else text.upper()
    return "" if kind == "none" else f"{number:02}" if kind == "decimalZero" else str(number)
