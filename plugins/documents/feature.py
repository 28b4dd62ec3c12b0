"""The text of a document, extracted in a process of its own.

Documents are written by strangers, and the parsers are large: the process has limits of memory,
time and output, and no access to the bot
([why](../../docs/decisions/0011-foreign-patterns-in-a-process-of-their-own.md)).
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from agent.tools import ToolError, page
from agent.tools.child_process import SLOW, ReaderProcess
from agent.tools.limited import MEMORY
from agent.tools.text_lines import DocumentReader
from agent.tools.workspace import quote
from bot.app import Kernel
from plugins.api import hookimpl

SECONDS = 30
"""The maximum number of seconds for one document."""
MEGABYTES = 1_000
"""The maximum memory of the process."""
TEXT = 20_000_000
"""The maximum size of the text of a document in bytes."""
_READER = Path(__file__).with_name("reader.py")
_TOOLS = Path(page.__file__).parent
_FAULT = 3  # the reader's exit code with an error message


class DocumentTexts(DocumentReader):
    """The texts of documents."""

    @contextmanager
    def open_text(self, file: BinaryIO, path: str) -> Iterator[BinaryIO]:
        """See `DocumentReader`."""
        file.seek(0)
        with tempfile.TemporaryFile() as text:
            code, fault = _run(file, text)
            text.seek(0, os.SEEK_END)
            if code and not text.tell():
                raise ToolError(f"{quote(path)} {fault}.")
            if code:  # the text before the error is kept
                text.write(f"\n[The rest is left out: it {fault}.]\n".encode())
            text.seek(0)
            yield text


@hookimpl
def parley_open(kernel: Kernel) -> DocumentTexts:
    del kernel
    return DocumentTexts()


def _run(file: BinaryIO, text: BinaryIO) -> tuple[int, str]:
    """Extract the text of the document into `text`. Return the exit code, and the error if it is
    not 0."""
    try:
        done = ReaderProcess(_READER, MEGABYTES, SECONDS, TEXT + 1_000).run(
            *(str(SECONDS), str(TEXT), str(_TOOLS)),
            stdin=file,
            stdout=text,
            stderr=subprocess.PIPE,
        )
    except subprocess.TimeoutExpired:
        return -1, f"takes more than {SECONDS} seconds to read"
    return done.returncode, describe_end(done.returncode, done.stderr)


def describe_end(code: int, output: bytes) -> str:
    """Return the error of a document from its reader's end. Only errors that the reader knows are
    in its own words; messages of libraries are not shown."""
    if code == _FAULT:
        return output.decode("utf-8", "replace").strip()
    if code in SLOW:
        return f"takes more than {SECONDS} seconds to read"
    if code == MEMORY:
        return f"takes more than {MEGABYTES} MB of memory to read"
    return f"can't be read: it is damaged, or takes more than {MEGABYTES} MB of memory"
