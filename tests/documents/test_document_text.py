"""Tests that what is in a document is in its text, or a line says what kind was left out."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent.tools.charsets import label_of
from plugins.documents import feature as documents
from plugins.documents import reader
from plugins.documents.feature import describe_end
from tests.fakes.documents import book, pdf, slides, word, workbook
from tests.fakes.marked_documents import MARKER, Case, cell, excel
from tests.fakes.marked_texts import LINES, cases, missing, read
from tests.plugins.test_files import Run, put
from tests.tables import each_row

CASES = list(cases())


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.format}: {case.construct}")
def test_the_marker_of_each_construct_is_found_or_said(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert missing(case) == []


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("codec", LINES)
async def test_a_text_in_any_encoding_is_read_and_searched(
    run: Run, root: Path, codec: str
) -> None:
    text = LINES[codec]
    put(root, "files/note.txt", text.encode(codec))
    shown = await run("read_file", path="note.txt")
    assert shown.split("\n[")[0] == text.rstrip("\n")
    last = text.splitlines()[-1]
    assert (await run("grep", pattern=last[2:6])).endswith(f": {last}")


def test_what_is_binary_is_no_text() -> None:
    picture = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0\0\0\1\0\x08\6\0\0\0"
    for content in (picture, b"\x7fELF\2\1\1\0\0\0\0\0", bytes(100), bytes(range(256)) * 4):
        assert label_of(content) == ""


async def test_a_character_at_the_edge_of_a_long_line_does_not_change_the_encoding(
    run: Run, root: Path
) -> None:
    put(root, "files/long.txt", "a" + "ü" * 700_000 + "\nend")
    assert "UTF-8" not in await run("read_file", path="long.txt")


def test_a_sheet_whose_last_corner_is_used_costs_only_its_cells() -> None:
    rows = f'<row r="1">{cell("x", "A1")}</row><row r="1048576">{cell(MARKER, "XFD1048576")}</row>'
    text = read(Case("xlsx", "corner", excel(rows)))
    assert text.startswith(f"sheet One\n| x |\n| … XFD: {MARKER} |\n")
    assert len(text) < 200


def _read_or_fault(case: Case) -> str:
    try:
        return read(case)
    except Exception as error:  # noqa: BLE001 - the class is of another import
        return f"damaged: {type(error).__name__}"


def test_one_damaged_byte_costs_one_part() -> None:
    """Any part of a document may be damaged: the others are read, and what is lost is said."""
    samples = {
        "docx": word("Knead it.", "Bake it."),
        "xlsx": workbook(One=[["Knead it."]], Two=[["Bake it."]]),
        "pptx": slides("Knead it.", "Bake it."),
        "epub": book("Knead it.", "Bake it."),
        "pdf": pdf("Knead it.", "Bake it."),
    }
    silent, raised = [], []
    for name, content in samples.items():
        for at in range(40, len(content), max(len(content) // 60, 1)):
            damaged = bytearray(content)
            damaged[at] ^= 0x55
            text = _read_or_fault(Case(name, "damaged", bytes(damaged)))
            if "damaged: " in text and "NoText" not in text:
                raised.append((name, at, text))
            is_whole = "Knead it." in text and "Bake it." in text
            if not is_whole and not any(x in text for x in ("damaged", "missing")):
                silent.append((name, at, text))
    assert raised == []
    assert [found for found in silent if found[0] != "pdf"] == []  # it has no checksums


@pytest.mark.usefixtures("processes")
async def test_what_was_read_until_the_limit_is_given(
    run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, "files/long.pdf", pdf(*(f"Line {n}" for n in range(60_000))))
    monkeypatch.setattr(documents, "SECONDS", 3)
    text = await run("read_file", path="long.pdf", limit=2_000)
    assert text.startswith("[page 1]\nLine 0\n")
    found = await run("grep", pattern="The rest is left out", path="long.pdf")
    assert "reading it takes more than 3 seconds" in found


_TRACEBACK = b"Traceback:\nlxml.etree.XMLSyntaxError: xmlCtxtSetMaxAmplification, line 1\n"


@each_row("code", [1, 4, 120, *(-number for number in signal.valid_signals())])
def test_no_word_of_a_library_is_said_of_a_reader_that_failed(code: int) -> None:
    said = describe_end(code, _TRACEBACK)
    assert said.startswith(("takes more than", "can't be read"))
    assert not any(word in said for word in ("xmlCtxt", "Error", "lxml"))


def test_what_took_too_much_memory_is_not_called_damaged() -> None:
    assert describe_end(4, b"") == "takes more than 1000 MB of memory to read"


def test_a_fault_that_the_reader_knows_is_said_in_its_words() -> None:
    assert describe_end(3, b"is locked by a password\n") == "is locked by a password"


def _fault_of_the_document() -> Exception:
    from formats.package import NoText  # type: ignore[import-not-found]  # noqa: PLC0415

    fault: Exception = NoText("is damaged")
    return fault


@pytest.mark.parametrize(
    ("make", "note"),
    [(MemoryError, "it takes too much memory."), (_fault_of_the_document, "it is damaged.")],
)
def test_what_was_read_before_a_fault_is_given_with_a_note(
    make: Callable[[], BaseException],
    note: str,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    def read(_content: bytes) -> Iterator[str]:
        yield "The first line."
        raise make()

    monkeypatch.setattr(reader, "_read", read)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", ["reader.py", "30", "1000", ""])
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO()))
    assert reader.main() == 0
    text = f"The first line.\n[The rest is left out: {note}]\n"
    assert capsysbinary.readouterr().out.decode() == text
