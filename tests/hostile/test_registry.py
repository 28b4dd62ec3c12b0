"""Tests that each parser of strangers' texts has a row in the hostile benchmarks, which measure
growth."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.hostile_events import EVENTS, FEISHU_MESSAGE, places
from benchmarks.hostile_files import FORMATS, IMPORTERS, read_all, read_document, sample_of
from benchmarks.hostile_parsing import LARGE, MOST, Cost
from plugins.documents.formats import __path__ as formats_path
from plugins.moving.kinds import OPENERS
from tests.tables import each_row

CHANNELS = Path(__file__).parents[2] / "channels"
_READ = re.compile(
    r"\b(IncomingMessage|ButtonPress|Reaction|Event|Inbound|Letter|\w*(Arrival|Frame))\b"
)
"""Types that a parser of a stranger's data returns."""
_OURS = ("kit", "web", "terminal")
"""The kit parses nothing, the terminal is local, and test_bounds.py covers the shapes of the
page."""


def _readers(tree: ast.AST, prefix: str) -> Iterator[str]:
    """Yield the public functions, and methods of public classes, that parse their arguments."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef) and node.name[0] != "_":
            yield from _readers(node, f"{prefix}.{node.name}")
        elif (
            isinstance(node, ast.FunctionDef)
            and node.name[0] != "_"
            and node.returns
            and _READ.search(ast.unparse(node.returns))
        ):
            yield f"{prefix}.{node.name}"


def _find_readers() -> set[str]:
    found = set[str]()
    for path in CHANNELS.rglob("*.py"):
        inner = path.relative_to(CHANNELS).with_suffix("")
        if inner.parts[0] not in _OURS:
            found |= {*_readers(ast.parse(path.read_text()), ".".join(inner.parts))}
    return found


def test_each_function_that_makes_an_event_has_a_row() -> None:
    assert _find_readers() == {*EVENTS}


def test_each_messenger_has_a_row() -> None:
    messengers = {
        path.relative_to(CHANNELS).parts[0]
        for path in CHANNELS.rglob("*.py")
        if re.search(r"^class \w+\(Platform\):", path.read_text(), re.MULTILINE)
    }
    assert {name.partition(".")[0] for name in EVENTS} == messengers | {"pipe"}
    assert "matrix" in messengers


def test_each_importer_has_a_row() -> None:
    assert {*IMPORTERS} == {*OPENERS}


def test_each_format_has_a_row() -> None:
    found = Path(formats_path[0]).glob("*.py")
    modules = [path for path in found if "\ndef read(" in path.read_text()]
    assert {path.stem for path in modules} | {"html"} == {*FORMATS}


@each_row("name", EVENTS)
def test_the_samples_are_read(name: str) -> None:
    for sample in EVENTS[name].samples:
        assert EVENTS[name].read(sample)


@pytest.mark.parametrize("name", IMPORTERS)
def test_the_samples_of_exports_are_read(name: str, tmp_path: Path) -> None:
    path = IMPORTERS[name].write(tmp_path, sample_of(IMPORTERS[name]))
    assert read_all(name, path)


@pytest.mark.usefixtures("processes")
def test_the_samples_of_documents_are_read() -> None:
    texts = {"word": "<w:p><w:r><w:t>seen</w:t></w:r></w:p>", "pdf": "BT /F 9 Tf (seen) Tj ET"}
    texts |= {"sheets": "<row><c t='inlineStr'><is><t>seen</t></is></c></row>"}
    texts |= {"slides": "<p:sp><a:p><a:r><a:t>seen</a:t></a:r></a:p></p:sp>"}
    texts |= dict.fromkeys(("book", "html"), "<p>seen</p>")
    for name, one in FORMATS.items():
        assert "seen" in read_document(one, texts[name]), name


def test_each_value_of_a_sample_is_replaced() -> None:
    holes = dict(places(FEISHU_MESSAGE))
    assert {"", "message", "message.mentions.0.id.open_id", "sender.sender_type"} < {*holes}
    for place, holed in holes.items():
        assert holed.count(b"%s") == 1, place
        json.loads(holed.replace(b"%s", b"[]"))


def test_what_is_not_linear_is_seen() -> None:
    assert not Cost("a", "never ends").is_linear
    assert not Cost("a", "quadratic", 0.1, MOST * 0.1 + 0.01).is_linear
    assert Cost("a", "linear", 0.1, 1.0).is_linear
    assert Cost("a", "costs next to nothing", 0.0, 0.1, LARGE).is_linear
    assert not Cost("a", "costs too much for its size", 0.0, 0.1, LARGE // 10).is_linear
