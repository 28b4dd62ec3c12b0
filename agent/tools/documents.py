"""The text of a document (PDF, Word, Excel, PowerPoint, EPUB, HTML), read in a process of its own.

Those who write documents are strangers, and what reads them is large: the process has limits of
memory, time and output, and knows nothing of the bot
([why](../../docs/decisions/0011-foreign-patterns-in-a-process-of-their-own.md)).
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from agent.tools import ToolError
from agent.tools.apart import SLOW, ReaderProcess
from agent.tools.limited import MEMORY
from agent.tools.workspace import quote

SECONDS = 30
"""The seconds that reading one may take."""
MEGABYTES = 1_000
"""Memory that the process may have."""
TEXT = 20_000_000
"""Bytes of text that are taken of one."""
_ARCHIVES = frozenset({".docx", ".xlsx", ".pptx", ".epub"})
_PAGES = frozenset({".html", ".htm", ".xhtml"})
_PDF, _ZIP = b"%PDF-", b"PK\x03\x04"
_LOOKED_AT = 1_024  # bytes in which the mark of a PDF stands
_READER = Path(__file__).with_name("document_reader.py")
_FAULT = 3  # the reader's exit code where it says what is wrong


def is_document(name: str, start: bytes) -> bool:
    """Return whether a file of this name, which begins with these bytes, is one whose text can be
    read."""
    is_archive = PurePosixPath(name).suffix.lower() in _ARCHIVES and start.startswith(_ZIP)
    return is_archive or _PDF in start[:_LOOKED_AT]


def is_page(name: str, start: bytes) -> bool:
    """Return whether a file of this name, which begins with these bytes, is one in HTML, whose text
    can be read, too."""
    return PurePosixPath(name).suffix.lower() in _PAGES and b"\0" not in start


@contextmanager
def open_text(file: BinaryIO, path: str) -> Iterator[BinaryIO]:
    """The text of a document that is open, as a file of lines; before each page stands a line
    `[page 3]` (of a presentation `[slide 3]`, of a workbook `[sheet NAME]`, of a book
    `[chapter 3]`). `path` is what the model calls it. Raises ToolError."""
    file.seek(0)
    with tempfile.TemporaryFile() as text:
        code, fault = _run(file, text)
        text.seek(0, os.SEEK_END)
        if code and not text.tell():
            raise ToolError(f"{quote(path)} {fault}.")
        if code:  # what was read by then is given
            text.write(f"\n[The rest is left out: it {fault}.]\n".encode())
        text.seek(0)
        yield text


def _run(file: BinaryIO, text: BinaryIO) -> tuple[int, str]:
    """Read the document into `text`. Return the exit code, and what is wrong where it is not 0."""
    try:
        done = ReaderProcess(_READER, MEGABYTES, SECONDS, TEXT + 1_000).run(
            str(SECONDS), str(TEXT), stdin=file, stdout=text, stderr=subprocess.PIPE
        )
    except subprocess.TimeoutExpired:
        return -1, f"takes more than {SECONDS} seconds to read"
    return done.returncode, describe_end(done.returncode, done.stderr)


def describe_end(code: int, said: bytes) -> str:
    """Return what is wrong with a document, by how its reader ended: only a fault that the reader
    knows is in its own words, and what a library says reaches nobody."""
    if code == _FAULT:
        return said.decode("utf-8", "replace").strip()
    if code in SLOW:
        return f"takes more than {SECONDS} seconds to read"
    if code == MEMORY:
        return f"takes more than {MEGABYTES} MB of memory to read"
    return f"can't be read: it is damaged, or takes more than {MEGABYTES} MB of memory"
