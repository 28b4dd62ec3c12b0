"""Documents in the workspace: their text, page by page, whatever a stranger put into them."""

from __future__ import annotations

import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from plugins.documents import feature as documents
from tests.fakes.documents import CONTAINER, book, pdf, slides, word, workbook
from tests.plugins.test_files import Run, put, runner

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
