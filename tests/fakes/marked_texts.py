"""PDFs and plain texts with a marker word in each construct and encoding, and the code that reads
them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from agent import tools
from plugins import documents
from tests.fakes.documents import pdf
from tests.fakes.marked_documents import (
    MARKER,
    OTHER,
    Case,
    book_cases,
    excel_cases,
    slide_cases,
    word_cases,
)

_FORM = (
    "<< /Type /XObject /Subtype /Form /BBox [0 0 200 20] /Resources << /Font << /F1 3 0 R >> >> "
    "/Length {length} >>\nstream\n{drawn}\nendstream"
)


def pdf_with(annotation: str, *, drawn: str = "", form: str = "") -> bytes:
    """Return a PDF with OTHER printed on its page and one annotation, whose appearance (if `drawn`)
    is object 6."""
    shown = f"BT /F1 12 Tf 2 5 Td ({drawn}) Tj ET"
    appearance = " /AP << /N 6 0 R >>" if drawn else ""
    printed = f"BT /F1 12 Tf 72 700 Td ({OTHER}) Tj ET"
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R {form} >>",
        "<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Annots [7 0 R] "
        "/Resources << /Font << /F1 3 0 R >> >> /Contents 5 0 R >>",
        f"<< /Length {len(printed)} >>\nstream\n{printed}\nendstream",
        _FORM.format(length=len(shown), drawn=shown),
        f"<< /Type /Annot /Rect [72 500 272 520] /F 4 /P 4 0 R{appearance} {annotation} >>",
    ]
    body, places = "%PDF-1.4\n", []
    for number, part in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{part}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    return (
        f"{body}xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
        f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    ).encode("latin-1")


def pdf_cases() -> Iterator[Case]:
    both = (MARKER, OTHER)
    form = "/AcroForm << /Fields [7 0 R] /DA (/F1 12 Tf) /DR << /Font << /F1 3 0 R >> >> >>"
    field = "/Subtype /Widget /FT {} /T (dish) /V {} /DA (/F1 12 Tf)"
    text, choice = field.format("/Tx", f"({MARKER})"), field.format("/Ch", f"({MARKER})")
    free = f"/Subtype /FreeText /Contents ({MARKER}) /DA (/F1 12 Tf)"
    for name, content in (
        ("printed", pdf(f"{MARKER} {OTHER}")),
        ("filled field", pdf_with(text, form=form)),
        ("filled field, drawn", pdf_with(text, form=form, drawn=MARKER)),
        ("field that is in no form", pdf_with(text)),
        ("chosen option", pdf_with(f"{choice} /Opt [(no) ({MARKER})]", form=form)),
        ("typed-on text", pdf_with(free)),
        ("typed-on text, drawn", pdf_with(free, drawn=MARKER)),
        ("typed-on text, only drawn", pdf_with("/Subtype /FreeText", drawn=MARKER)),
        ("stamp", pdf_with("/Subtype /Stamp", drawn=MARKER)),
        ("note", pdf_with(f"/Subtype /Text /Contents ({MARKER})")),
        ("comment on a mark", pdf_with(f"/Subtype /Highlight /Contents ({MARKER})")),
    ):
        yield Case("pdf", name, content, both)
    broken = pdf("gone", MARKER).replace(b"4 0 obj\n<< /Type /Page", b"4 0 obj\n<< /Type /Pxge")
    yield Case("pdf", "broken page", broken)


LINES = {
    "utf-8": "Größe: 3 Stück",
    "utf-8-sig": "Größe: 3 Stück",
    "utf-16": "价格是每件十二元，请付款。\nGröße",
    "utf-16-le": "Die Größe steht im Brief, der Preis auch.\n",
    "utf-16-be": "Цена двенадцать рублей за штуку.\n",
    "cp1252": "Der Preis beträgt zwölf Euro für jedes Stück.\nLe café coûte 3 € à l’hôtel.",
    "gb18030": "价格是每件十二元，请在星期五之前付款。\n谢谢！",
    "big5": "價格是每件十二元，請在星期五之前付款。\n謝謝！",
    "cp932": "価格は一個十二円です。金曜日までにお支払いください。\nありがとう",
    "euc-kr": "가격은 개당 십이 원입니다. 금요일까지 지불해 주세요.\n감사합니다",
    "cp1251": "Цена двенадцать рублей за штуку. Просим оплатить до пятницы.\nСпасибо",
}
"""A text in each encoding still in use."""


_IN_A_PAGE = {
    "words for a picture": (f'<img src=a alt="{MARKER}">', f"(picture: {MARKER})"),
    "field": (f'<input value="{MARKER}">', MARKER),
    "text area": (f"<textarea>{MARKER}</textarea>", MARKER),
    "options": (f"<select><option>a<option>{MARKER}</select>", f"a\n{MARKER}"),
    "drawing": (f"<svg><text>{MARKER}</text></svg>", MARKER),
    "shadow": (f'<div><template shadowrootmode="open">{MARKER}</template></div>', MARKER),
    "details": (f"<details><summary>a</summary>{MARKER}</details>", f"a\n{MARKER}"),
    "caption": (f"<table><caption>{MARKER}</caption><tr><td>a</table>", MARKER),
}
"""Constructs of HTML, and what must be in the text."""


def text_cases() -> Iterator[Case]:
    for codec, text in LINES.items():
        whole = f"{OTHER}\n{text}\n"
        yield Case("txt", codec, whole.encode(codec), tuple(whole.split("\n")))
    page = f"<html><body><p>{LINES['gb18030']}</p></body></html>"
    yield Case("html", "GBK, not named", page.encode("gb18030"), ("谢谢",))
    yield Case("html", "UTF-16", page.encode("utf-16"), ("谢谢",))
    for name, (body, expected) in _IN_A_PAGE.items():
        yield Case("html", name, f"<html><body>{body}</body></html>".encode(), (expected,))


def cases() -> Iterator[Case]:
    """Return the cases of all formats."""
    for of_format in (word_cases, excel_cases, slide_cases, book_cases, pdf_cases, text_cases):
        yield from of_format()


def read(case: Case) -> str:
    """Return the text of a document as the reader process writes it, read in this one."""
    if case.format == "txt":
        return _read_plain(case.content)
    for folder in (*tools.__path__, *documents.__path__):
        if folder not in sys.path:
            sys.path.append(folder)
    from plugins.documents.reader import _read  # noqa: PLC0415 - with the folders in the path

    return "\n".join(_read(case.content))


def _read_plain(content: bytes) -> str:
    from io import BytesIO  # noqa: PLC0415

    from agent.tools.text_lines import TextLines, open_narrow  # noqa: PLC0415

    with open_narrow(BytesIO(content), 1_000_000) as file:
        return "\n".join(TextLines(file))


def missing(case: Case) -> list[str]:
    """Return the missing and the superfluous words of a document's text."""
    text = read(case)
    return [
        *(word for word in case.expected if word not in text),
        *(f"not {word}" for word in case.absent if word in text),
    ]
