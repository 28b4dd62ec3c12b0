"""Tests of the pages of promises: the evidence of each promise exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from tests.docs.pages import ROOT
from tests.tables import each_row

LINK_OR_NAME = re.compile(r"\]\(\.\./(tests/[\w/]+\.py)\)|`([\w…]+)`")
COMMAND = re.compile(r"`python -m (benchmarks\.\w+)")
PAGES = {
    "security-promises.md": 25,
    "security-promises-web.md": 25,
    "reliability-promises.md": 30,
    "reliability.md": 15,
    "scaling-promises.md": 20,
}
"""The pages, with the minimum number of promises of each."""


def rows(page: str) -> list[tuple[str, str]]:
    """Return the rows of each table whose last column has the evidence: the promise, and the
    evidence."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        head, _, *lines = (line.strip("| ").split(" | ") for line in table.splitlines())
        if head[-1] == "shown by":
            found += [(line[0], line[-1]) for line in lines]
    return found


def shown(page: str) -> Iterator[tuple[str, str, str]]:
    """Yield each promise with a file and the name of a test in it; "the same" is the previous
    file."""
    file = ""
    for promise, evidence in rows(page):
        for found in LINK_OR_NAME.finditer(evidence):
            file = found[1] or file
            yield promise, file, found[2] or "…"


def has_test(file: str, name: str) -> bool:
    """Return whether there is a test of this name, in which … matches any text."""
    words = name.replace("…", r"\w*")
    return bool(re.search(rf"^(async )?def test_{words}\(", text_of(file), re.MULTILINE))


@cache
def text_of(file: str) -> str:
    return (ROOT / file).read_text("utf-8")


@each_row("page", PAGES)
def test_each_test_that_is_named_is_there(page: str) -> None:
    gone = [(file, name) for _, file, name in shown(page) if not has_test(file, name)]
    assert not gone
    assert not has_test("tests/docs/test_promises.py", "that_nobody_wrote")


@each_row("page", PAGES)
def test_each_promise_is_shown_by_a_test_or_a_figure(page: str) -> None:
    told = {promise for promise, *_ in shown(page)}
    measured = [(promise, COMMAND.findall(evidence)) for promise, evidence in rows(page)]
    files = [f"{module.replace('.', '/')}.py" for _, modules in measured for module in modules]
    assert not [file for file in files if not (ROOT / file).exists()]
    told |= {promise for promise, modules in measured if modules}
    told |= {promise for promise, evidence in rows(page) if evidence.startswith("the same")}
    assert [promise for promise, _ in rows(page) if promise not in told] == []
    assert len(told) >= PAGES[page]
