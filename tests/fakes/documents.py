"""Documents of the kinds that people send, as small as possible."""

from __future__ import annotations

from io import BytesIO
from zipfile import ZipFile

import docx
import openpyxl
import pptx
from docx.enum.text import WD_BREAK


def pdf(*pages: str) -> bytes:
    """Return a PDF with a line of text on each page; a page without text is blank."""
    count = len(pages)
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(count))
    parts = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        drawn = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET" if text else ""
        parts.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * number} 0 R >>"
        )
        parts.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
    body, places = "%PDF-1.4\n", []
    for number, part in enumerate(parts, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{part}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(parts) + 1
    return (
        f"{body}xref\n0 {size}\n0000000000 65535 f \n{table}"
        f"trailer << /Size {size} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    ).encode("latin-1")


def word(*pages: str) -> bytes:
    """Return a Word file with a heading, a table, and a break before each page but the first."""
    document = docx.Document()
    document.add_heading("The plan", 1)
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "flour", "500 g"
    for number, text in enumerate(pages):
        if number:
            document.add_paragraph().add_run().add_break(WD_BREAK.PAGE)
        document.add_paragraph(text)
    file = BytesIO()
    document.save(file)
    return file.getvalue()


def workbook(**sheets: list[list[object]]) -> bytes:
    """An Excel file."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    file = BytesIO()
    book.save(file)
    return file.getvalue()


def slides(*titles: str, notes: str = "") -> bytes:
    """Return a PowerPoint file, with notes for each slide."""
    presentation = pptx.Presentation()
    for title in titles:
        slide = presentation.slides.add_slide(presentation.slide_layouts[5])
        assert slide.shapes.title is not None
        slide.shapes.title.text = title
        frame = slide.notes_slide.notes_text_frame
        assert frame is not None
        frame.text = notes
    file = BytesIO()
    presentation.save(file)
    return file.getvalue()


CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="book/content.opf"/></rootfiles></container>'
)


def book(*chapters: str, container: str = CONTAINER) -> bytes:
    """Return an EPUB; each chapter is the inner HTML of its body."""
    items = "".join(f'<item id="c{n}" href="part%20{n}.xhtml"/>' for n in range(len(chapters)))
    spine = "".join(f'<itemref idref="c{n}"/>' for n in range(len(chapters)))
    file = BytesIO()
    with ZipFile(file, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("META-INF/container.xml", container)
        archive.writestr(
            "book/content.opf",
            f'<package xmlns="http://www.idpf.org/2007/opf"><manifest>{items}</manifest>'
            f"<spine>{spine}</spine></package>",
        )
        for number, chapter in enumerate(chapters):
            archive.writestr(f"book/part {number}.xhtml", f"<html><body>{chapter}</body></html>")
    return file.getvalue()
