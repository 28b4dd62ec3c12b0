"""The threats on the page about security: what is said to show a defence is there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.docs.pages import ROOT

LINK_OR_NAME = re.compile(r"\]\(\.\./(tests/[\w/]+\.py)\)|`([\w…]+)`")


def rows() -> list[tuple[str, str]]:
    """Each threat, and what shows the defence."""
    page = (ROOT / "docs" / "security.md").read_text("utf-8")
    table = page.split("| threat | defence | shown by |\n|---|---|---|\n")[1].split("\n\n")[0]
    cells = (line.strip("| ").split(" | ") for line in table.splitlines())
    return [(row[0], row[-1]) for row in cells]


def shown() -> Iterator[tuple[str, str, str]]:
    """Each threat with a file and the name of a test in it; "the same" is the file before."""
    file = ""
    for threat, defence in rows():
        for found in LINK_OR_NAME.finditer(defence):
            file = found[1] or file
            yield threat, file, found[2] or "…"


def has_test(file: str, name: str) -> bool:
    """Whether there is a test of this name, in which … stands for anything."""
    words = name.replace("…", r"\w*")
    pattern = rf"^(async )?def test_{words}\("
    return bool(re.search(pattern, (ROOT / file).read_text("utf-8"), re.MULTILINE))


def test_each_test_that_is_named_is_there() -> None:
    gone = [(file, name) for _, file, name in shown() if not has_test(file, name)]
    assert not gone


def test_each_threat_has_a_test() -> None:
    told = {threat for threat, *_ in shown()} | {t for t, d in rows() if d.startswith("the same")}
    assert told == {threat for threat, _ in rows()}
    assert len(told) > 20
    assert not has_test("tests/docs/test_security.py", "that_nobody_wrote")
