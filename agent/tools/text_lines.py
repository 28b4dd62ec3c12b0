"""The lines of a text file in any encoding, searched for a pattern of the model in a process that
may fail ([why](../../docs/decisions/0011-foreign-patterns-in-a-process-of-their-own.md)); and the
recognition of documents, whose text a feature reads."""

from __future__ import annotations

import codecs
import json
import os
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, BinaryIO, Self

from agent.tools import ToolError
from agent.tools.charsets import WIDE, guess, label_of
from agent.tools.child_process import ALONE, ReaderProcess, acquire_slot
from agent.tools.page import codec_of
from agent.tools.workspace import quote

LINE_BYTES = 1_000_000
"""The maximum bytes of a line; a longer one counts as several."""
_START = 8_192  # bytes by which a file is classified
_SAMPLE = 65_536  # bytes for detecting the encoding, from the first that is not UTF-8
_PIECE = 65_536  # bytes that are converted at a time
_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_ARCHIVES = frozenset({".docx", ".xlsx", ".pptx", ".epub"})
_PAGES = frozenset({".html", ".htm", ".xhtml"})
_PDF, _ZIP = b"%PDF-", b"PK\x03\x04"
_LOOKED_AT = 1_024  # bytes in which the mark of a PDF is searched
_INNER = bytes(range(0x80, 0xC0))  # bytes of UTF-8 that continue a character


@contextmanager
def open_narrow(file: BinaryIO, most: int) -> Iterator[BinaryIO]:
    """Yield the file; for UTF-16 yield a UTF-8 copy of its first `most` bytes."""
    file.seek(0)
    start = file.read(_START)
    file.seek(0)
    label = label_of(start) if b"\0" in start or start.startswith(_WIDE_MARKS) else ""
    if label not in WIDE:
        yield file
        return
    decoder = codecs.getincrementaldecoder(codec_of(label))("replace")
    with tempfile.TemporaryFile() as copy:
        left = most
        while piece := file.read(min(_PIECE, left)):
            left -= len(piece)
            copy.write(decoder.decode(piece, left <= 0).encode("utf-8", "replace"))
        copy.seek(0)
        yield copy


class TextLines:
    """The lines from the file's position on, without their ends. A line that is not UTF-8 is read
    in the encoding that fits the file's other non-UTF-8 text; `label` names it, once detected."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._is_inside = False  # the line before was cut and continues
        self.label = ""

    def __iter__(self) -> Iterator[str]:
        is_first = self._file.tell() == 0
        while line := self._file.readline(LINE_BYTES):
            text = self._decode(line).rstrip("\r\n")
            yield text.removeprefix("\ufeff") if is_first else text
            is_first = False

    def _decode(self, line: bytes) -> str:
        """Return a line, or a part of one that is too long, which may begin or end inside a
        character."""
        is_cut = len(line) >= LINE_BYTES and not line.endswith(b"\n")
        head = len(line[:3]) - len(line[:3].lstrip(_INNER)) if self._is_inside else 0
        self._is_inside = is_cut
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            return "\ufffd" * bool(head) + decoder.decode(line[head:], not is_cut)
        except UnicodeDecodeError:
            if not self.label:
                self.label = guess(self._sample(line))
            return line.decode(codec_of(self.label), "replace")

    def _sample(self, line: bytes) -> bytes:
        """Return the beginning of the file, so that each page of it is read alike; from this line
        on if the beginning is ASCII or UTF-8."""
        at = self._file.tell()
        self._file.seek(0)
        start = self._file.read(_SAMPLE)
        self._file.seek(at)
        start = start[: start.rfind(b"\n") + 1] or start
        if any(map(_is_foreign, start.split(b"\n"))):
            return start
        rest = self._file.read(_SAMPLE)
        self._file.seek(at)
        return line + rest


def _is_foreign(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return True
    return False


def skip(file: BinaryIO, count: int, most: int) -> None:
    """Skip this many lines, at most the first `most` bytes, a block at a time: one by one, millions
    of empty lines would take a minute."""
    while count and file.tell() <= most and (block := file.read(LINE_BYTES)):
        ends = block.count(b"\n")
        if ends > count:
            file.seek(-len(block), os.SEEK_CUR)
            for _ in range(count):
                file.readline()
            return
        count -= ends or 1  # as in TextLines: a longer line counts as several
        if ends:
            file.seek(block.rfind(b"\n") + 1 - len(block), os.SEEK_CUR)


def is_document(name: str, start: bytes) -> bool:
    """Return whether a file with this name and beginning is a document whose text can be read."""
    is_archive = PurePosixPath(name).suffix.lower() in _ARCHIVES and start.startswith(_ZIP)
    return is_archive or _PDF in start[:_LOOKED_AT]


def is_page(name: str, start: bytes) -> bool:
    """Return whether a file with this name and beginning is HTML, whose text can be read, too."""
    return PurePosixPath(name).suffix.lower() in _PAGES and b"\0" not in start


class DocumentReader(ABC):
    """The feature that reads documents, one of the services of features."""

    @abstractmethod
    def open_text(self, file: BinaryIO, path: str) -> AbstractContextManager[BinaryIO]:
        """Open the text of an open document as a file of lines; each page begins with a line `[page
        3]` (`[slide 3]` for a presentation, `[sheet NAME]` for a workbook, `[chapter 3]` for a
        book). `path` is the document's name for the model. Raises ToolError."""


def open_text(
    services: Mapping[type, object], file: BinaryIO, path: str
) -> AbstractContextManager[BinaryIO]:
    """Open the text of a document with the feature that reads documents. Raises ToolError without
    one."""
    for one in services.values():
        if isinstance(one, DocumentReader):
            return one.open_text(file, path)
    raise ToolError(f"{quote(path)} is a document, and this bot can't read documents.")


SECONDS = 5
"""The maximum seconds of a search, with all its reading."""
MEGABYTES = 400
"""The maximum megabytes of memory of its process."""
_SEARCHER = ReaderProcess(Path(__file__).with_name("searcher.py"), MEGABYTES, SECONDS)


class Search:
    """A search for one pattern. Its process starts when its thread enters it, once there is a
    place, and `begun` is called then. `end` kills the process from any thread; everything else is
    for that one thread, which must exit it."""

    def __init__(self, pattern: str, *, ignore_case: bool) -> None:
        self._pattern, self._ignores_case = pattern, ignore_case
        self.is_ended = False
        self.begun: Callable[[], object] = lambda: None
        self._around = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start a process for the search. Raises ToolError for an invalid or too expensive
        pattern."""
        try:
            self._around.enter_context(acquire_slot())
            self._begin()
            wanted = {"pattern": self._pattern, "ignore_case": self._ignores_case}
            if fault := self._request(json.dumps(wanted).encode()).get("fault"):
                name = quote(self._pattern)
                raise ToolError(f"{name} is not a regular expression: {fault}.")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()
        with self._around:
            if self._process is None:
                return
            for stream in (self._process.stdin, self._process.stdout):
                assert stream is not None
                try:
                    stream.close()
                except OSError:  # unsent data for an ended process
                    stream.close()
            self._process.wait()

    def _begin(self) -> None:
        if self.is_ended:  # while it waited for a place
            raise ToolError(_stop_message(self._pattern))
        spec = find_spec("regex")
        assert spec is not None
        assert spec.origin is not None
        packages = str(Path(spec.origin).parents[1])
        self._process = subprocess.Popen(
            _SEARCHER.command(packages, flags=("-S",)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            **ALONE,
        )
        self.begun()

    def end(self) -> None:
        """Kill the process: the waiting caller is notified at once."""
        self.is_ended = True
        if self._process is not None:
            self._process.kill()

    def hits(self, lines: Sequence[str]) -> list[tuple[int, int]]:
        """Return the numbers of matching lines, with the position of the first match in each.
        Raises ToolError."""
        found = self._request("\n".join(lines).encode())
        return [(number, place) for number, place in found["hits"]]

    def _request(self, content: bytes) -> dict[str, Any]:
        assert self._process is not None
        into, out = self._process.stdin, self._process.stdout
        assert into is not None
        assert out is not None
        try:
            into.write(len(content).to_bytes(4, "big") + content)
            into.flush()
            size = int.from_bytes(_exactly(out.read(4), 4), "big")
            answer: dict[str, Any] = json.loads(_exactly(out.read(size), size))
        except (BrokenPipeError, EOFError):
            raise ToolError(_stop_message(self._pattern)) from None
        if "is_too_large" in answer:
            raise ToolError(_stop_message(self._pattern))
        return answer


def _exactly(content: bytes, size: int) -> bytes:
    if len(content) < size:
        raise EOFError
    return content


def _stop_message(pattern: str) -> str:
    return (
        f"The search was stopped: {quote(pattern)} takes more than {MEGABYTES} MB of memory or "
        f"{SECONDS} seconds. Simplify the pattern."
    )
