"""The process in which a document that a stranger made is read.

It is started for one document (`agent/tools/documents.py`), imports of Parley only how HTML becomes
text, and takes limits upon itself before it reads a byte. The document is its standard input, the
text its output. Arguments: megabytes of memory, seconds of computing, bytes of text.
"""

from __future__ import annotations

import io
import posixpath
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

_UNPACKED = 500_000_000  # bytes that the parts of an archive may have together
_LOOKED_AT = 1_024  # bytes in which the mark of a PDF stands, and the encoding of HTML
_CELLS = 200  # columns of a sheet that are shown


class NoText(Exception):
    """It can't be read; the text goes on after the document's name."""


def main() -> int:
    """Write the text, page after page, as far as there is room."""
    megabytes, seconds, room = map(int, sys.argv[1:])
    _take_limits(megabytes, seconds, room)
    content = sys.stdin.buffer.read()
    try:
        for mark, text in _read(content):
            lines = "\n".join(filter(str.strip, text.splitlines()))
            page = f"[{mark}]\n{lines or '(no text; it may be a picture)'}\n".encode(
                "utf-8", "replace"
            )
            if len(page) > room:
                sys.stdout.buffer.write(page[:room] + b"\n[The rest is left out: too long.]\n")
                break
            sys.stdout.buffer.write(page)
            room -= len(page)
        sys.stdout.buffer.flush()
    except NoText as fault:
        sys.stderr.write(str(fault))
        return 3
    return 0


def _take_limits(megabytes: int, seconds: int, room: int) -> None:
    import resource  # noqa: PLC0415 - Windows has none, and no file tools either

    limits = {"RLIMIT_AS": megabytes << 20, "RLIMIT_CPU": seconds, "RLIMIT_CORE": 0}
    limits["RLIMIT_FSIZE"] = room + 1_000
    for name, limit in limits.items():
        resource.setrlimit(getattr(resource, name), (limit, limit))


def _read(content: bytes) -> Iterator[tuple[str, str]]:
    """What each page is called, and its text. Raises NoText."""
    if not content.startswith(b"PK\x03\x04"):
        is_pdf = b"%PDF-" in content[:_LOOKED_AT]
        yield from _pages_of_pdf(content) if is_pdf else _text_of_html(content)
        return
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
        names = frozenset(archive.namelist())
        size = sum(part.file_size for part in archive.infolist())
    except (zipfile.BadZipFile, ValueError) as error:
        raise NoText(f"is damaged ({error})") from None
    if size > _UNPACKED:
        raise NoText(f"would unpack to {size / 1e6:,.0f} MB; that is too much")
    reader = next((read for part, read in _ARCHIVES.items() if part in names), None)
    if reader is None:
        raise NoText("is not a Word, Excel, PowerPoint or EPUB file, whatever its name says")
    try:
        yield from reader(archive)
    except (KeyError, ValueError, zipfile.BadZipFile, SyntaxError) as error:
        raise NoText(f"is damaged ({error})") from None


def _pages_of_pdf(content: bytes) -> Iterator[tuple[str, str]]:
    import pypdfium2  # noqa: PLC0415 - only what is read is imported

    try:
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        is_locked = "password" in str(error).lower()
        raise NoText("is locked by a password" if is_locked else "is a damaged PDF") from None
    for number in range(len(document)):
        try:
            page = document[number]
            yield f"page {number + 1}", page.get_textpage().get_text_bounded()
            page.close()
        except pypdfium2.PdfiumError:
            yield f"page {number + 1}", "(this page is damaged)"


def _text_of_html(content: bytes) -> Iterator[tuple[str, str]]:
    """As one page: it has no others."""
    sys.path.insert(0, str(Path(__file__).parent))
    from page import decode, text_of  # type: ignore[import-not-found]  # noqa: PLC0415

    named = re.search(rb"charset\s*=\s*[\"']?([\w:-]{1,40})", content[:_LOOKED_AT], re.IGNORECASE)
    yield "page 1", text_of(decode(content, named[1].decode("ascii", "replace") if named else None))


def _pages_of_word(archive: zipfile.ZipFile) -> Iterator[tuple[str, str]]:
    """As the program that saved it last had laid out its pages; one that lays out none may still
    have asked for breaks."""
    import docx  # noqa: PLC0415

    is_laid_out = b"lastRenderedPageBreak" in archive.read("word/document.xml")
    kind = "w:lastRenderedPageBreak" if is_laid_out else "w:br[@w:type='page']"
    number, lines = 1, list[str]()
    for part in docx.Document(archive.fp).iter_inner_content():
        if isinstance(part, docx.table.Table):
            lines += [_row(cell.text for cell in row.cells) for row in part.rows]
            continue
        if breaks := len(part._p.xpath(f".//{kind}")):
            yield f"page {number}", "\n".join(lines)
            number, lines = number + breaks, []
        style = (part.style.name if part.style is not None else "") or ""
        level = style.removeprefix("Heading ")
        lines.append(f"{'#' * int(level)} {part.text}" if level in "123456789" else part.text)
    yield f"page {number}", "\n".join(lines)


def _sheets(archive: zipfile.ZipFile) -> Iterator[tuple[str, str]]:
    import openpyxl  # noqa: PLC0415

    book = openpyxl.load_workbook(archive.fp, read_only=True, data_only=True)
    for sheet in book.worksheets:
        rows = sheet.iter_rows(values_only=True, max_col=min(sheet.max_column or _CELLS, _CELLS))
        lines = (_row("" if cell is None else str(cell) for cell in row) for row in rows)
        yield f"sheet {sheet.title}", "\n".join(line for line in lines if line.strip("| "))


def _slides(archive: zipfile.ZipFile) -> Iterator[tuple[str, str]]:
    import pptx  # noqa: PLC0415

    for number, slide in enumerate(pptx.Presentation(archive.fp).slides, 1):
        lines = [line for shape in slide.shapes for line in _lines_of_shape(shape)]
        if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame):
            lines += [f"(notes: {frame.text})"] if frame.text.strip() else []
        yield f"slide {number}", "\n".join(lines)


def _lines_of_shape(shape: Any) -> Iterator[str]:
    if shape.has_text_frame:
        yield shape.text_frame.text
    elif shape.has_table:
        yield from (_row(cell.text for cell in row.cells) for row in shape.table.rows)
    for inner in getattr(shape, "shapes", ()):
        yield from _lines_of_shape(inner)


def _chapters(archive: zipfile.ZipFile) -> Iterator[tuple[str, str]]:
    """The parts of a book, in the order in which it names them."""
    from lxml import etree  # noqa: PLC0415

    sys.path.insert(0, str(Path(__file__).parent))
    from page import decode, text_of  # noqa: PLC0415

    def parse(name: str) -> Any:
        parser = etree.XMLParser(resolve_entities=False, no_network=True)
        return etree.fromstring(archive.read(name), parser)

    root = parse("META-INF/container.xml").find(".//{*}rootfile")
    if root is None:
        raise NoText("is a damaged book: it does not say where its text is")
    place = str(root.get("full-path", ""))
    book = parse(place)
    files = {item.get("id"): item.get("href", "") for item in book.iterfind(".//{*}item")}
    for number, item in enumerate(book.iterfind(".//{*}itemref"), 1):
        name = unquote(files.get(item.get("idref"), ""))
        whole = posixpath.normpath(posixpath.join(posixpath.dirname(place), name))
        yield f"chapter {number}", text_of(decode(archive.read(whole), None))


def _row(cells: Iterator[str]) -> str:
    return f"| {' | '.join(' '.join(cell.split()) for cell in cells)} |"


_ARCHIVES: dict[str, Callable[[zipfile.ZipFile], Iterator[tuple[str, str]]]] = {
    "word/document.xml": _pages_of_word,
    "xl/workbook.xml": _sheets,
    "ppt/presentation.xml": _slides,
    "META-INF/container.xml": _chapters,
}


if __name__ == "__main__":
    sys.exit(main())
