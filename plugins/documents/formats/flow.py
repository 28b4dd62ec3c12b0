"""Paragraphs and tables in the XML of Word and PowerPoint, as lines.

Elements are identified by their names without namespaces, and unknown ones are traversed. So text
is found wherever it is (insertions, content controls, smart tags, formulas, boxes).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from .package import below, children, find, get, name_of, row_of

PAGE = "\f"
"""A page break in the text of a paragraph."""
_SKIPPED = frozenset(
    {"rPr", "tblPr", "tblPrEx", "tblGrid", "trPr", "tcPr", "sectPr", "sdtPr", "sdtEndPr", "pPr"}
    | {"bodyPr", "lstStyle", "spPr", "style", "proofErr", "rPrChange", "pPrChange"}
    | {"delInstrText"}
)
_DELETED = frozenset({"del", "moveFrom", "delText"})
_INLINE = frozenset({"r", "t", "hyperlink", "fldSimple", "fld", "br", "oMath", "oMathPara"})
_ELSEWHERE = {
    "altChunk": "parts in another format",
    "subDoc": "linked documents",
    "oleObj": "embedded objects",
}
"""Elements whose text is in another file, with the name under which each is counted."""
_DESCRIBED = frozenset({"docPr", "cNvPr", "shape", "rect", "textpath"})
"""Elements with the description of a picture, or the text of a WordArt, in an attribute."""
_ON = frozenset({None, "1", "true", "on"})
_SIGNS = {"tab": " ", "ptab": " ", "cr": "\n", "noBreakHyphen": "-", "softHyphen": ""}
_BOXES = {"F0A8": "☐", "F06F": "☐", "F0FE": "☑", "F0FD": "☒", "F0FC": "✓", "F0E0": "→"}


class BlockReader:
    """The reader of blocks. `label` returns the prefix of a paragraph (its number, a heading mark);
    `left_out` counts the parts without text."""

    def __init__(self, label: Callable[[Any], str] = lambda _: "", page_break: str = "br") -> None:
        self._label, self._page_break = label, page_break
        self.left_out: Counter[str] = Counter()
        self._instruction = ""  # of the current field

    def lines(self, element: Any) -> Iterator[str]:
        """Yield the text of an element, one line per paragraph or row; PAGE marks a page break."""
        name = name_of(element)
        if name == "p":
            yield from self._paragraph(element)
        elif name == "tbl":
            yield from self._rows(element)
        elif name == "AlternateContent":
            yield from self._alternative(element, lambda part: list(self.lines(part)))
        elif name in _INLINE or name == "pic":
            boxes: list[str] = []
            yield self._text(element, boxes)
            yield from boxes
        elif name in _DELETED:
            self._count_deleted(element)
        elif name in _ELSEWHERE:
            self.left_out[_ELSEWHERE[name]] += 1
        elif name in _DESCRIBED:
            yield _described(element)
        elif name and name not in _SKIPPED:
            for child in children(element):
                yield from self.lines(child)

    def _paragraph(self, element: Any) -> Iterator[str]:
        boxes: list[str] = []
        text = self._inner(element, boxes)
        label = self._label(element)
        yield f"{label}{text.lstrip()}" if text.strip() else text
        yield from boxes

    def _rows(self, table: Any) -> Iterator[str]:
        for row in _through(table, "tr"):
            mark = find(row, "trPr", "del")
            if mark is not None:
                self._count_deleted(row)
                continue
            cells = [self._cell(cell) for cell in _through(row, "tc")]
            yield row_of([cell.replace(PAGE, " ") for cell in cells])
            yield PAGE * sum(cell.count(PAGE) for cell in cells)

    def _cell(self, cell: Any) -> str:
        return " ".join(
            f"({line.strip('| ').replace(' | ', '; ')})" if line.startswith("| ") else line
            for child in children(cell)
            for line in self.lines(child)
        )

    def _inner(self, element: Any, boxes: list[str]) -> str:
        return "".join(self._text(child, boxes) for child in children(element))

    def _text(self, element: Any, boxes: list[str]) -> str:
        """Return the text of an element in a paragraph; the text of boxes is added to `boxes`."""
        name = name_of(element)
        if name == "t":
            return "".join(element.itertext())
        if name in _SKIPPED:
            return ""
        if name in _SIGNS:
            return _SIGNS[name]
        if name in ("br", "lastRenderedPageBreak"):
            is_page = name == self._page_break and (name != "br" or get(element, "type") == "page")
            return PAGE if is_page else "\n" if name == "br" else ""
        if name in ("txbxContent", "tbl", "p"):
            boxes += self.lines(element)
            return ""
        if name == "AlternateContent":
            return "".join(
                self._alternative(element, lambda part: [self._inner(part, boxes), *boxes])[:1]
            )
        return self._special(element, name, boxes)

    def _special(self, element: Any, name: str, boxes: list[str]) -> str:
        if name in _DELETED:
            self._count_deleted(element)
            return ""
        if name in ("instrText", "fldChar"):
            return self._field(element, name)
        if name == "fldSimple":
            return self._inner(element, boxes) or f"{{{get(element, 'instr') or ''}}}"
        if name == "sym":
            code = (get(element, "char") or "").upper()
            return _BOXES.get(code, "•")
        if name in ("footnoteReference", "endnoteReference"):
            return f"[{get(element, 'id')}]"
        if name == "rt":
            return f"({self._inner(element, boxes)})"
        if name in ("pic", "imagedata", "object", "OLEObject"):
            kind = "embedded objects" if name in ("object", "OLEObject") else "pictures"
            if name not in ("imagedata", "OLEObject"):
                self.left_out[kind] += 1
        if name in _ELSEWHERE:
            self.left_out[_ELSEWHERE[name]] += 1
            return ""
        words = _described(element) if name in _DESCRIBED else ""
        return words + self._inner(element, boxes)

    def _field(self, element: Any, name: str) -> str:
        """Return the text in place of a field's marks. The field's result is ordinary text; a field
        without a result is shown as its instruction."""
        if name == "instrText":
            self._instruction += "".join(element.itertext())
            return ""
        kind = get(element, "fldCharType")
        if kind == "begin":
            self._instruction = ""
            return _form(element)
        asked, self._instruction = self._instruction.strip(), ""
        is_form = asked.startswith(("FORMCHECKBOX", "FORMDROPDOWN", "FORMTEXT"))
        return f"{{{asked}}}" if kind == "end" and asked and not is_form else ""

    def _alternative(self, element: Any, read: Callable[[Any], list[str]]) -> list[str]:
        """Return the lines of the first alternative that has text, of several with the same
        meaning."""
        for part in children(element):
            before = self.left_out.copy()
            lines = read(part)
            if any(map(str.strip, lines)) or self.left_out != before:
                return lines
        return []

    def _count_deleted(self, element: Any) -> None:
        if any("".join(found.itertext()).strip() for found in below(element, "delText", "t")):
            self.left_out["deletions that are still recorded"] += 1


def _through(element: Any, name: str) -> Iterator[Any]:
    """Yield the rows of a table or the cells of a row, including those in content controls."""
    for child in children(element):
        if name_of(child) == name:
            yield child
        elif name_of(child) not in _SKIPPED and name_of(child) not in ("tc", "p"):
            yield from _through(child, name)


def _form(mark: Any) -> str:
    """Return the value of a legacy form field."""
    box, drop = find(mark, "ffData", "checkBox"), find(mark, "ffData", "ddList")
    if box is not None:
        state = find(box, "checked")
        state = find(box, "default") if state is None else state
        return "☑" if state is not None and get(state, "val") in _ON else "☐"
    if drop is not None:
        entries = [get(entry, "val") or "" for entry in below(drop, "listEntry")]
        chosen = find(drop, "result")
        at = int((get(chosen, "val") if chosen is not None else None) or 0)
        return entries[at] if 0 <= at < len(entries) else ""
    return ""


def _described(element: Any) -> str:
    if drawing := get(element, "string"):
        return drawing
    words = next(filter(None, (get(element, name) for name in ("descr", "title", "alt"))), "")
    return f"(picture: {words})" if words else ""


def drawn(package: Any, part: str) -> Iterator[str]:
    """Yield the texts of charts and diagrams that a part refers to."""
    for relation in package.relations(part):
        if relation.is_external or relation.kind not in ("chart", "chartEx", "diagramData"):
            continue
        root = package.root(relation.target)
        kind = "chart" if relation.kind.startswith("chart") else "diagram"
        if root is None:
            yield f"(a damaged {kind})"
            continue
        words = ["".join(found.itertext()).strip() for found in below(root, "t", "v")]
        yield f"({kind}: {', '.join(dict.fromkeys(filter(None, words)))})"
