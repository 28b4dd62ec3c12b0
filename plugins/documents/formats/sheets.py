"""The text of an Excel file, from its XML; only existing cells take time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from .flow import BlockReader, drawn
from .package import Mark, Package, below, children, find, get, name_of, row_of, said

_GAP = 20  # maximum empty cells in a row that are shown; after more, the column is named
_COLUMNS = 16_384
_LONGEST = 400  # maximum characters of a number format that are parsed
_EDGES = {f"{page}{end}" for page in ("odd", "even", "first") for end in ("Header", "Footer")}
_UNSAVED = "formulas without a saved result, shown as formulas"


def read(package: Package, main: str) -> Iterator[str]:
    """Yield the sheets in order."""
    book = _Book(package, main)
    for title, part, kind in book.sheets:
        yield Mark(f"sheet {title}")
        if part not in package:
            yield "(this sheet is damaged)"
        elif kind == "worksheet":
            yield from _rows(package, part, book)
        yield from _related_parts(package, part)
    if not book.sheets:
        yield Mark("sheet 1")
        yield "(the list of sheets is damaged)"


class _Book:
    """The data shared by all sheets: their list, the texts, and the styles of dates."""

    def __init__(self, package: Package, main: str) -> None:
        relations = {r.id: r for r in package.relations(main) if not r.is_external}
        parts = {r.kind: r.target for r in relations.values()}
        root = package.root(main)
        self.sheets: list[tuple[str, str, str]] = []
        self.is_1904 = False
        if root is not None:
            properties = find(root, "workbookPr")
            self.is_1904 = properties is not None and get(properties, "date1904") in ("1", "true")
            for sheet in below(root, "sheet"):
                relation = relations.get(get(sheet, "id") or "")
                target, kind = (relation.target, relation.kind) if relation else ("", "")
                self.sheets.append((get(sheet, "name") or "", target, kind))
        if not self.sheets:
            self.sheets = [
                (str(number), r.target, r.kind)
                for number, r in enumerate(relations.values(), 1)
                if r.kind == "worksheet"
            ]
        self.texts: list[str] = []
        if "sharedStrings" in parts:
            for entry in package.elements(parts["sharedStrings"], 2):
                if not isinstance(entry, str):
                    self.texts.append(_text(entry))
        self.dates = _styles_of_dates(package.root(parts.get("styles", "")))

    def value(self, cell: Any, left_out: Counter[str]) -> str:
        """Return the text that a cell shows."""
        kind, style = get(cell, "t") or "n", get(cell, "s")
        if kind == "inlineStr":
            return _text(cell)
        formula, saved = find(cell, "f"), find(cell, "v")
        value = "" if saved is None else "".join(saved.itertext())
        if not value:
            if formula is None or (saved is not None and kind == "str"):
                return ""
            left_out[_UNSAVED] += 1
            return f"={''.join(formula.itertext())}"
        if kind == "s":
            if value.strip().isdigit() and int(value[:9]) < len(self.texts):
                return self.texts[int(value[:9])]
            left_out["cells whose text is missing"] += 1
            return ""
        if kind == "b":
            return str(value.strip() == "1")
        return self._number(value, style in self.dates) if kind == "n" else value

    def _number(self, value: str, is_date: bool) -> str:
        try:
            number = float(value)
            if is_date:
                from openpyxl.utils.datetime import (  # noqa: PLC0415
                    CALENDAR_MAC_1904,
                    CALENDAR_WINDOWS_1900,
                    from_excel,
                )

                epoch = CALENDAR_MAC_1904 if self.is_1904 else CALENDAR_WINDOWS_1900
                return str(from_excel(number, epoch))
            return str(int(number)) if number.is_integer() and abs(number) < 1e15 else str(number)
        except (ValueError, OverflowError):
            return value


def _rows(package: Package, part: str, book: _Book) -> Iterator[str]:
    left_out: Counter[str] = Counter()
    for row in package.elements(part, 3):
        if isinstance(row, str):
            yield row
        elif name_of(row) == "row":
            line = _row(row, book, left_out)
            yield line
        elif name_of(row) == "dataValidation":
            yield from _asked(row)
        elif name_of(row) in _EDGES:
            yield f"(at the edge of the page: {''.join(row.itertext())})"
    yield from said(left_out)


def _asked(rule: Any) -> Iterator[str]:
    """Yield the choices and the help texts of some cells."""
    formula, where = find(rule, "formula1"), get(rule, "sqref") or ""
    choices = "" if formula is None else "".join(formula.itertext())
    if get(rule, "type") == "list" and choices.startswith('"'):
        yield f"(to choose from in {where}: {choices.strip(chr(34))})"
    words = (get(rule, name) for name in ("promptTitle", "prompt", "errorTitle", "error"))
    if prompt := ": ".join(filter(None, words)):
        yield f"(told at {where}: {prompt})"


def _row(row: Any, book: _Book, left_out: Counter[str]) -> str:
    cells: list[str] = []
    at = 0
    for cell in children(row):
        column = _column(get(cell, "r")) or at + 1
        if text := book.value(cell, left_out):
            gap = column - at - 1
            cells += [""] * gap if 0 <= gap <= _GAP else []
            cells.append(text if gap <= _GAP else f"… {_letters(column)}: {text}")
            at = column
    return row_of(cells) if cells else ""


def _column(reference: str | None) -> int:
    """Return the number of a cell's column; 0 if it has none."""
    number = 0
    for sign in (reference or "")[:3]:
        if not ("A" <= sign.upper() <= "Z"):
            break
        number = number * 26 + ord(sign.upper()) - 64
    return min(number, _COLUMNS)


def _letters(column: int) -> str:
    text = ""
    while column:
        column, rest = divmod(column - 1, 26)
        text = chr(65 + rest) + text
    return text


def _text(element: Any) -> str:
    """Return a text without formatting and without phonetic guides."""
    return "".join(
        "".join(found.itertext())
        for found in below(element, "t")
        if name_of(found.getparent()) != "rPh"
    )


def _styles_of_dates(root: Any) -> frozenset[str]:
    """Return the numbers of the cell styles that show a number as a date."""
    if root is None:
        return frozenset()
    from openpyxl.styles.numbers import BUILTIN_FORMATS, is_date_format  # noqa: PLC0415

    formats = {str(number): text for number, text in BUILTIN_FORMATS.items()}
    for own in below(root, "numFmt"):
        formats[get(own, "numFmtId") or ""] = (get(own, "formatCode") or "")[:_LONGEST]
    styles = find(root, "cellXfs")
    return frozenset(
        str(number)
        for number, style in enumerate(() if styles is None else children(styles))
        if is_date_format(formats.get(get(style, "numFmtId") or "", "General"))
    )


def _controls(root: Any) -> Iterator[str]:
    """Yield the texts of buttons and similar controls. The frames of comments are shapes as well,
    but their text is in the comments."""
    for shape in below(root, "shape"):
        about = next(below(shape, "ClientData"), None)
        if about is not None and get(about, "ObjectType") == "Note":
            continue
        words = ("".join(box.itertext()) for box in below(shape, "textbox"))
        yield from filter(None, (" ".join(text.split()) for text in words))


def _related_parts(package: Package, part: str) -> Iterator[str]:
    """Yield the comments and drawings of a sheet."""
    for relation in package.relations(part):
        if relation.is_external or relation.kind not in (
            "comments",
            "threadedComment",
            "drawing",
            "vmlDrawing",
        ):
            continue
        root = package.root(relation.target)
        if relation.kind == "vmlDrawing":
            yield from () if root is None else _controls(root)
        elif root is None:
            yield f"(a damaged part: {relation.kind})"
        elif relation.kind == "drawing":
            flow = BlockReader()
            yield from flow.lines(root)
            yield from drawn(package, relation.target)
            yield from said(flow.left_out)
        else:
            for comment in below(root, "comment", "threadedComment"):
                words = "".join(t for found in below(comment, "t", "text")
                                for t in ([found.text or ""]))  # fmt: skip
                yield f"(comment on {get(comment, 'ref')}: {' '.join(words.split())})"
