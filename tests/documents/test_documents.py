"""Tests of documents: their text, page by page, and the notes on omitted parts."""

from __future__ import annotations

import io
import signal
import sys
import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent.tools.charsets import label_of
from plugins.documents import feature as documents
from plugins.documents import reader
from plugins.documents.feature import describe_end
from tests.fakes.documents import CONTAINER, book, pdf, slides, word, workbook
from tests.fakes.marked_documents import MARKER, Case, cell, excel
from tests.fakes.marked_texts import LINES, cases, missing, read
from tests.plugins.test_files import Run, put, runner
from tests.tables import case, each_row

PLAN = "[page 1]\n# The plan\n| flour | 500 g |\nKnead it.\n[page 2]\nBake it."


@pytest.mark.usefixtures("processes")
async def test_a_document_is_read_as_text_with_its_pages(run: Run, root: Path) -> None:
    pages = "[page 1]\nKnead it.\n[page 2]\n(no text; it may be a picture)\n[page 3]\nBake it."
    sums = workbook(Costs=[["flour", 2, None, 0.5], [], ["\u00fcbrig"]], Empty=[])
    for name, content, text in (
        ("plan.pdf", pdf("Knead it.", "", "Bake it."), pages),
        ("plan.docx", word("Knead it.", "Bake it."), PLAN),
        ("sums.xlsx", sums, "[sheet Costs]\n| flour | 2 |  | 0.5 |\n| \u00fcbrig |\n"
                            "[sheet Empty]\n(no text; it may be a picture)"),
        ("talk.pptx", slides("Why bread", "How", notes="Smile."),
         "[slide 1]\nWhy bread\n(notes: Smile.)\n[slide 2]\nHow\n(notes: Smile.)"),
        ("book.epub", book("<h1>One</h1><p>Salt &amp; water</p>", "<p>End</p>"),
         "[chapter 1]\nOne\nSalt & water\n[chapter 2]\nEnd"),
    ):  # fmt: skip
        put(root, f"files/{name}", content)
        assert await run("read_file", path=name) == text


@pytest.mark.usefixtures("processes")
async def test_a_long_document_is_read_in_parts(run: Run, root: Path) -> None:
    put(root, "files/long.pdf", pdf(*(f"Line {n}" for n in range(1, 301))))
    first = await run("read_file", path="long.pdf", limit=4)
    assert first == (
        "[page 1]\nLine 1\n[page 2]\nLine 2\n[The file goes on: read it with offset=5.]"
    )
    assert await run("read_file", path="long.pdf", offset=599) == "[page 300]\nLine 300"


@pytest.mark.usefixtures("processes")
async def test_one_document_is_searched_and_a_folder_names_those_that_were_not(
    run: Run, root: Path
) -> None:
    put(root, "files/plan.pdf", pdf("Knead it.", "Bake it."))
    put(root, "files/notes.txt", "bake soon")
    found = await run("grep", pattern="bake", path="plan.pdf", ignore_case=True)
    assert found == "files/plan.pdf [page 2]:4: Bake it."
    everywhere = await run("grep", pattern="bake", ignore_case=True)
    assert everywhere == (
        "files/notes.txt:1: bake soon\n[Not searched, because these are documents: files/plan.pdf. "
        "Search each by its path.]"
    )


@pytest.mark.usefixtures("processes")
async def test_what_can_t_be_read_is_said_in_a_sentence(run: Run, root: Path) -> None:
    other = workbook(One=[[1]]).replace(b"xl/workbook.xml", b"xl/wirkbook.xml")
    for name, content, complaint in (
        ("a.pdf", b"%PDF-1.7\nnothing of a PDF", "is a damaged PDF"),
        ("a.docx", b"PK\x03\x04 and no more", "is damaged"),
        ("a.docx", other, "is not a"),
        ("a.epub", book("x", container="<container/>"), "does not say where its text is"),
        ("a.epub", book("x", container=CONTAINER.replace("content", "other")), "is damaged"),
        ("a.epub", book("x", container="no XML"), "is damaged"),
    ):
        put(root, f"files/{name}", content)
        said = await run("read_file", path=name)
        assert said.startswith(f"! {name!r} ")
        assert complaint in said


@pytest.mark.usefixtures("processes")
async def test_a_bomb_harms_nobody(run: Run, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b"<a>" + b" " * 50_000_000)
        for number in range(10):
            archive.writestr(f"{number}", bytes(50_000_000))
    put(root, "files/bomb.docx", bomb.getvalue())
    assert "would unpack to 550 MB; that is too much" in await run("read_file", path="bomb.docx")
    monkeypatch.setattr(documents, "TEXT", 1_000)
    put(root, "files/long.pdf", pdf(*("word " * 20 for _ in range(40))))
    text = await run("read_file", path="long.pdf")
    assert text.endswith("[The rest is left out: too long.]")
    assert len(text) < 1_100
    monkeypatch.setattr(documents, "MEGABYTES", 20)
    assert "takes more than 20 MB of memory" in await run("read_file", path="long.pdf")


@pytest.mark.usefixtures("processes")
async def test_entities_of_a_book_reach_no_file_of_the_machine(run: Run, root: Path) -> None:
    hostile = (
        '<!DOCTYPE c [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
        f"{CONTAINER.replace('<rootfiles>', '<rootfiles><note>&x;</note>')}"
    )
    put(root, "files/book.epub", book("<p>&x; Hello</p>", container=hostile))
    text = await run("read_file", path="book.epub")
    assert "Hello" in text
    assert "root:" not in text


SAVED = (
    "<html><head><meta charset='windows-1252'></head><script>x()</script><h1>Caf\u00e9</h1>"
    "<p>a &amp; b"
)


@pytest.mark.usefixtures("processes")
async def test_a_page_comes_as_it_is_or_as_text(run: Run, root: Path) -> None:
    put(root, "files/saved.html", SAVED.encode("cp1252"))
    source = await run("read_file", path="saved.html")
    assert "<script>" in source
    assert source.endswith("[This is HTML; saved.html#text is its text.]")
    assert await run("read_file", path="saved.html#text") == "[page 1]\nCaf\u00e9\na & b"
    put(root, "files/plain.txt#text", "its own name")
    assert await run("read_file", path="plain.txt#text") == "its own name"
    put(root, "files/bomb.html", "<p>" + "<b>x" * 500_000)
    assert "[page 1]" in await run("read_file", path="bomb.html#text", limit=1)


async def test_a_table_in_csv_is_read_in_parts(run: Run, root: Path) -> None:
    put(root, "files/sums.csv", "name;sum\n" + "".join(f"n{n};{n}\n" for n in range(1_000)))
    first = await run("read_file", path="sums.csv", limit=2)
    assert first == "name;sum\nn0;0\n[The file goes on: read it with offset=3.]"
    assert await run("read_file", path="sums.csv", offset=1_001) == "n999;999"


@pytest.mark.usefixtures("processes")
async def test_without_the_feature_a_document_is_named_and_not_read(root: Path) -> None:
    run = runner(root)
    put(root, "files/plan.pdf", pdf("Knead it."))
    refused = "! 'plan.pdf' is a document, and this bot can't read documents."
    assert await run("read_file", path="plan.pdf") == refused
    assert await run("grep", pattern="Knead", path="plan.pdf") == refused
    assert "plan.pdf" in await run("list_files", path="files")


def test_the_marker_of_each_construct_is_found_or_said(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    for one in cases():
        with case(subtests, f"{one.format}: {one.construct}"):
            assert missing(one) == []


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
    """Damage one byte anywhere: the other parts are read, and the loss is reported."""
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
    assert [found for found in silent if found[0] != "pdf"] == []  # PDF has no checksums


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
