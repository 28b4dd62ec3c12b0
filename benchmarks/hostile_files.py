"""CPU time of the readers of strangers' files: exports of other programs, and documents.

None of these files is read in the event loop, so only the growth counts: a file ten times as large
may take at most fifteen times the CPU. `IMPORTERS` and `FORMATS` name each importer and each
format; tests/hostile/test_registry.py checks that none is missing.
"""

from __future__ import annotations

import io
import json
import resource
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from heapq import nlargest
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

import orjson

from agent.tools import ToolError
from benchmarks.hostile_events import places, values
from memory.record.store import StoreError
from plugins.documents.feature import DocumentTexts
from plugins.moving.export import UnsupportedFormat
from plugins.moving.kinds import open_source
from plugins.moving.plain_importer import PlainExport
from plugins.moving.source import MovingError
from tests.moving.agent_programs import claude_line, claw_events, write_claude, write_hermes
from tests.moving.other_programs import (
    gpt_conversation,
    gpt_message,
    webui_chat,
    write_cow_database,
)

SIZES = (100_000, 1_000_000)
MOST = 15
"""The largest factor between the CPU of the smaller file and of the larger one."""
_FIRST, _WORST = 3_000, 12
"""The size in bytes at which all values are tried in all places, and the number of the worst ones
that are tried with larger sizes."""
FLOOR = 0.1
"""Seconds of CPU below which the time is ignored."""


@dataclass(frozen=True, slots=True)
class FileCost:
    """Seconds of CPU for a small and a large file of a kind, for its worst content."""

    kind: str
    what: str
    small: float
    large: float

    @property
    def is_well(self) -> bool:
        return self.large <= MOST * max(self.small, FLOOR)


def _write_json(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def _write_cow(folder: Path, content: bytes) -> Path:
    said: Any = content.decode()
    with suppress(ValueError, RecursionError):
        said = json.loads(said)
    write_cow_database(
        folder / "memory/long-term/index.db", {"s": [("user", said), ("assistant", said)]}
    )
    (folder / "MEMORY.md").write_bytes(content)
    return folder


def _write_openclaw(folder: Path, content: bytes) -> Path:
    place = folder / "agents/main/sessions"
    place.mkdir(parents=True)
    message = b'{"role":"assistant","content":%s}' % content
    lines = [json.dumps(one).encode() for one in claw_events([{"role": "user", "content": "a"}])]
    lines.append(b'{"type":"message","id":"e2","parentId":"e1","message":%s}' % message)
    (place / "s.jsonl").write_bytes(b"\n".join(lines))
    (folder / "workspace").mkdir()
    (folder / "workspace/MEMORY.md").write_bytes(content)
    return folder


def _write_hermes(folder: Path, content: bytes) -> Path:
    said: Any = content.decode()
    with suppress(ValueError, RecursionError):
        said = json.loads(said)
    write_hermes(folder, [{"role": role, "content": said} for role in ("user", "assistant")])
    (folder / "memories").mkdir()
    (folder / "memories/MEMORY.md").write_bytes(content)
    return folder


def _write_claude(folder: Path, content: bytes) -> Path:
    asked, answer = claude_line("u", None, "user", "a"), claude_line("a", "u", "assistant", "%s")
    write_claude(folder, [asked, json.dumps(answer).replace('"%s"', content.decode())])
    (folder / "CLAUDE.md").write_bytes(content)
    return folder


def _write_plain(folder: Path, content: bytes) -> Path:
    about = {"format": "parley-conversation", "version": 1, "id": "web/a", "title": "a"}
    (folder / "about.json").write_text(json.dumps(about))
    first = json.dumps({**_PLAIN_AT, "seq": 1, "role": "user"}).encode()
    (folder / "messages.jsonl").write_bytes(first + b"\n" + content)
    return folder


_GPT_PARTS = {
    "content_type": "multimodal_text",
    "parts": ["a", {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file-a"}],
    "thoughts": [{"content": "a", "summary": "a"}],
}
_WEBUI_PARTS = [{"type": "text", "text": "a"}, {"image_url": {"url": "data:image/png;base64,aa"}}]
_COW_BLOCKS = [
    {"type": "text", "text": "a"},
    {"type": "thinking", "thinking": "a"},
    {"type": "tool_use", "id": "1", "name": "a", "input": {"a": 1}},
    {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "a"}]},
]
_CLAW_BLOCKS = [
    {"type": "text", "text": "a"},
    {"type": "thinking", "thinking": "a"},
    {"type": "toolCall", "id": "1", "name": "a", "arguments": {"a": 1}},
]
_PLAIN_AT = {"turn": 1, "at": "2026-01-01T00:00:00Z", "text": "a"}
_PLAIN = {
    **{**_PLAIN_AT, "seq": 2, "role": "assistant"},
    "tool_calls": [{"id": "1", "name": "a", "arguments": "{}"}],
}


@dataclass(frozen=True, slots=True)
class Importer:
    """An importer: the function that writes its file from JSON, and a good sample of that JSON."""

    write: Callable[[Path, bytes], Path]
    sample: Any


IMPORTERS: Mapping[str, Importer] = {
    "chatgpt": Importer(
        lambda folder, content: _write_json(folder, "conversations.json", content),
        [gpt_conversation("c", "C", [gpt_message("assistant", _GPT_PARTS, id="m")])],
    ),
    "open-webui": Importer(
        lambda folder, content: _write_json(folder, "export.json", content),
        [webui_chat("c", "C", [{"role": "assistant", "content": _WEBUI_PARTS, "files": []}])],
    ),
    "cowagent": Importer(_write_cow, _COW_BLOCKS),
    "openclaw": Importer(_write_openclaw, _CLAW_BLOCKS),
    "hermes": Importer(_write_hermes, [{"type": "text", "text": "a"}]),
    "claude-code": Importer(_write_claude, _COW_BLOCKS),
    "parley": Importer(_write_plain, _PLAIN),
}
"""The importers, by their names in `python main.py import`."""
TREES = ("one after the other", "all at the root", "parents that are missing")


def _tree(kind: str, size: int) -> bytes:
    """Return a conversation in the formats of both ChatGPT and Open WebUI, with many messages in
    one shape."""
    count = size // 200
    nodes: dict[str, Any] = {}
    for number in range(count):
        above = number - 1 if kind == TREES[0] else 0 if kind == TREES[1] else -number
        parent = str(above) if number else None
        said = gpt_message("user", "a") | {"create_time": 1.7e9 + number}
        nodes[str(number)] = {
            **{"id": str(number), "parent": parent, "parentId": parent, "message": said},
            **{"role": "user", "content": "a", "timestamp": 1.7e9 + number},
        }
    history = {"messages": nodes, "currentId": str(count - 1)}
    one = {"mapping": nodes, "current_node": str(count - 1), "chat": {"history": history}}
    return json.dumps([one]).encode()


def imports(sizes: tuple[int, int] = SIZES, each: int = 1) -> Iterator[FileCost]:
    """Yield the worst content for each importer; one in `each` contents is tried."""
    for kind, importer in IMPORTERS.items():
        contents = [
            (f"{what} in {place}", partial(_filled, holed, number))
            for number, (what, _) in enumerate(values(10))
            for place, holed in places(importer.sample)
        ]
        contents = contents[::each] + [(name, partial(_tree, name)) for name in TREES]
        first = [
            (_import_cost(kind, importer, make(_FIRST)), make, what) for what, make in contents
        ]
        costs = []
        for _cost, make, what in nlargest(_WORST, first, key=lambda one: one[0]):
            small, large = (_import_cost(kind, importer, make(size)) for size in sizes)
            costs.append(FileCost(kind, what, small, large))
        yield max(costs, key=lambda cost: (not cost.is_well, cost.large))


def _filled(holed: bytes, number: int, size: int) -> bytes:
    return holed.replace(b"%s", [*values(size)][number][1])


def _import_cost(kind: str, importer: Importer, content: bytes) -> float:
    with TemporaryDirectory() as name:
        path = importer.write(Path(name), content)
        begin = time.process_time()
        read_all(kind, path)
        return time.process_time() - begin


def read_all(kind: str, path: Path) -> list[object]:
    """Return everything that an importer reads from a file, without the parts it refuses."""
    found: list[object] = []
    with suppress(MovingError, StoreError, UnsupportedFormat):
        source = open_source(kind, path, "", path)
        if isinstance(source, PlainExport):
            for one, folder in source.conversations()[0]:
                found += source.entries(one, folder)
        found += source.chats()
        source.read_profile()
    return found


# --- documents -------------------------------------------------------------------------------

_XML = '<?xml version="1.0"?>'
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"


def _zip(parts: Mapping[str, str]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return content.getvalue()


def _links(*targets: tuple[str, str]) -> str:
    inner = "".join(
        f'<Relationship Id="r{number}" Type="{_OFFICE}/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(targets, 1)
    )
    return f'{_XML}<Relationships xmlns="{_PACKAGE}">{inner}</Relationships>'


def _word(body: str) -> bytes:
    text = f'{_XML}<w:document xmlns:w="w"><w:body>{body}</w:body></w:document>'
    main = _links(("officeDocument", "word/document.xml"))
    return _zip({"_rels/.rels": main, "word/document.xml": text})


def _workbook(rows: str) -> bytes:
    book = f'{_XML}<workbook xmlns:r="r"><sheets><sheet name="a" r:id="r1"/></sheets></workbook>'
    return _zip(
        {
            "_rels/.rels": _links(("officeDocument", "xl/workbook.xml")),
            "xl/_rels/workbook.xml.rels": _links(
                ("worksheet", "s.xml"), ("sharedStrings", "t.xml")
            ),
            "xl/workbook.xml": book,
            "xl/s.xml": f"{_XML}<worksheet><sheetData>{rows}</sheetData></worksheet>",
            "xl/t.xml": f"{_XML}<sst>{rows}</sst>",
        }
    )


def _slides(shapes: str) -> bytes:
    main = f'{_XML}<p:presentation xmlns:p="p" xmlns:r="r"><p:sldId r:id="r1"/></p:presentation>'
    return _zip(
        {
            "_rels/.rels": _links(("officeDocument", "ppt/presentation.xml")),
            "ppt/_rels/presentation.xml.rels": _links(("slide", "slides/slide1.xml")),
            "ppt/presentation.xml": main,
            "ppt/slides/slide1.xml": f'{_XML}<p:sld xmlns:p="p" xmlns:a="a">{shapes}</p:sld>',
        }
    )


def _book(body: str) -> bytes:
    held = '<item id="a" href="a.xhtml" media-type="application/xhtml+xml"/>'
    return _zip(
        {
            "META-INF/container.xml": f'{_XML}<c><rootfile full-path="b.opf"/></c>',
            "b.opf": f'{_XML}<package>{held}<itemref idref="a"/></package>',
            "a.xhtml": f"<html><body>{body}</body></html>",
        }
    )


def _pdf(stream: str) -> bytes:
    content = stream.encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>"
        b">>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(content), content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    body = b"".join(b"%d 0 obj%sendobj\n" % (n, one) for n, one in enumerate(objects, 1))
    return b"%PDF-1.4\n" + body + b"trailer<</Root 1 0 R>>\n%%EOF"


@dataclass(frozen=True, slots=True)
class Format:
    """A format: the function that makes a file from its text, and the units that are repeated in
    the text. Units with an end are also nested."""

    name: str
    make: Callable[[str], bytes]
    units: Sequence[tuple[str, str]]


_EMPTY = (("<a>", "</a>"), ("<a b='c'/>", ""), ("a", ""), ("&amp;", ""), ("<!-- -->", ""))
FORMATS: Mapping[str, Format] = {
    "word": Format(
        "a.docx",
        _word,
        (
            *_EMPTY,
            ("<w:p><w:r><w:t>a</w:t></w:r></w:p>", ""),
            ("<w:tbl><w:tr><w:tc>", "</w:tc></w:tr></w:tbl>"),
            ("<w:sdt><w:sdtContent>", "</w:sdtContent></w:sdt>"),
            ("<w:ins><w:r><w:t>a</w:t></w:r>", "</w:ins>"),
            ("<w:r><w:fldChar w:fldCharType='begin'/></w:r>", ""),
        ),
    ),
    "sheets": Format(
        "a.xlsx",
        _workbook,
        (
            *_EMPTY,
            ("<row r='1048576'><c r='XFD1048576'><v>1</v></c></row>", ""),
            ("<row><c t='s'><v>0</v></c></row>", ""),
            ("<row><c><f>A1</f></c></row>", ""),
            ("<si><t>a</t></si>", ""),
        ),
    ),
    "slides": Format(
        "a.pptx",
        _slides,
        (*_EMPTY, ("<p:sp><a:p><a:r><a:t>a</a:t></a:r></a:p>", "</p:sp>"), ("<p:grpSp>", "")),
    ),
    "book": Format(
        "a.epub", _book, (*_EMPTY, ("<p>a</p>", ""), ("<ul><li>", "</li></ul>"), ("<", ""))
    ),
    "pdf": Format("a.pdf", _pdf, (("BT /F 9 Tf (a) Tj ET ", ""), ("q ", ""), ("(", ""), ("[", ""))),
    "html": Format(
        "a.html",
        lambda text: f"<html><body>{text}".encode(),
        (*_EMPTY, ("<p>a", ""), ("<ul><li>", ""), ("<", ""), ("<!--", ""), ("<script>", "")),
    ),
}
"""The formats, by the module in `plugins/documents/formats` that reads them; `agent/tools/page.py`
reads HTML."""


def documents(sizes: tuple[int, int] = SIZES) -> Iterator[FileCost]:
    """Yield the worst content for each format."""
    for kind, one in FORMATS.items():
        base = _document_cost(one, "a")
        costs = []
        for begin, end in one.units:
            for is_nested in (False, True) if end else (False,):
                made = [_repeated(begin, end, size, is_nested=is_nested) for size in sizes]
                small, large = (_document_cost(one, text) - base for text in made)
                what = f"{begin}{end}{', nested' if is_nested else ''}"
                costs.append(FileCost(kind, what, small, large))
        yield max(costs, key=lambda cost: (not cost.is_well, cost.large))


def _repeated(begin: str, end: str, size: int, *, is_nested: bool) -> str:
    count = size // len(begin + end)
    return begin * count + end * count if is_nested else (begin + end) * count


def read_document(one: Format, text: str) -> str:
    """Return the text read from a document with this content, or the error sentence if it is
    refused."""
    with TemporaryFile() as file:
        file.write(one.make(text))
        try:
            with DocumentTexts().open_text(file, one.name) as found:
                return found.read().decode()
        except ToolError as error:
            return str(error)


def _document_cost(one: Format, text: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    read_document(one, text)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def sample_of(importer: Importer) -> bytes:
    """Return the good sample of an importer, as JSON."""
    return orjson.dumps(importer.sample)
