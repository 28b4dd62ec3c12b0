"""The text of a PDF: printed, filled into its forms, and typed onto its pages."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from .package import Mark, NoText, said

_MOST = 5_000  # maximum marks on a page
_LONGEST = 200_000  # maximum bytes of the text of one


def read(content: bytes) -> Iterator[str]:
    """Yield the pages in order."""
    import pypdfium2  # noqa: PLC0415 - only the needed reader is imported

    try:
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        is_locked = "password" in str(error).lower()
        raise NoText("is locked by a password" if is_locked else "is a damaged PDF") from None
    with suppress(pypdfium2.PdfiumError):  # its pages can still be read
        document.init_forms()
    for number in range(len(document)):
        yield Mark(f"page {number + 1}")
        try:
            yield from _page(document, number)
        except pypdfium2.PdfiumError:
            yield "(this page is damaged)"
    left_out: Counter[str] = Counter()
    is_form = pypdfium2.raw.FPDF_GetFormType(document) == pypdfium2.raw.FORMTYPE_XFA_FULL
    left_out["forms that only Adobe's programs show (XFA)"] = int(is_form)
    left_out["attached files"] = pypdfium2.raw.FPDFDoc_GetAttachmentCount(document)
    yield from said(+left_out)


def _page(document: Any, number: int) -> Iterator[str]:
    import pypdfium2.raw as raw  # noqa: PLC0415

    page = document[number]
    shown = [raw.FPDF_ANNOT_WIDGET, raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_STAMP]
    typed = list(_annotations(document, page))
    text = page.get_textpage().get_text_bounded()
    if any(kind in shown for kind, _, _ in typed) and raw.FPDFPage_Flatten(page, 0) == 1:
        page.close()
        page = document[number]
        flat = page.get_textpage().get_text_bounded()
        text = flat if len(flat) >= len(text) else f"{text}\n{flat}"
    page.close()
    yield text
    known = _bare(text)
    for kind, name, words in typed:
        if words.strip() and (_bare(words) not in known or kind not in shown):
            what = f"field {name}" if kind == raw.FPDF_ANNOT_WIDGET else "note"
            yield f"({what}: {' '.join(words.split())})"


def _bare(text: str) -> str:
    return "".join(text.split())


def _annotations(document: Any, page: Any) -> Iterator[tuple[int, str, str]]:
    """Yield the marks on a page: the kind, the field's name, and the typed or selected text."""
    import pypdfium2.raw as raw  # noqa: PLC0415

    form = document.formenv
    for at in range(min(raw.FPDFPage_GetAnnotCount(page), _MOST)):
        mark = raw.FPDFPage_GetAnnot(page, at)
        if not mark:
            continue
        kind, name, words = raw.FPDFAnnot_GetSubtype(mark), "", ""
        if kind == raw.FPDF_ANNOT_WIDGET and form is not None:
            name = _string(raw.FPDFAnnot_GetFormFieldName, form, mark)
            words = _string(raw.FPDFAnnot_GetFormFieldValue, form, mark)
        elif kind not in (raw.FPDF_ANNOT_POPUP, raw.FPDF_ANNOT_LINK):
            words = _string(raw.FPDFAnnot_GetStringValue, mark, b"Contents")
        if kind == raw.FPDF_ANNOT_WIDGET and not words:
            words = _string(raw.FPDFAnnot_GetStringValue, mark, b"V")
        raw.FPDFPage_CloseAnnot(mark)
        yield kind, name, words


def _string(call: Any, *arguments: Any) -> str:
    """Return the text that PDFium writes as UTF-16 into a buffer of the required size."""
    import pypdfium2.raw as raw  # noqa: PLC0415

    size = min(call(*arguments, None, 0), _LONGEST)
    if size <= 2:
        return ""
    buffer = ctypes.create_string_buffer(size)
    call(*arguments, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return buffer.raw[:size].decode("utf-16-le", "ignore").rstrip("\0")
