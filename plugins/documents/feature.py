"""The text of a document, read in a process of its own.

Those who write documents are strangers, and what reads them is large: the process has limits of
memory, time and output, and knows nothing of the bot
([why](../../docs/decisions/0011-foreign-patterns-in-a-process-of-their-own.md)).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from agent.tools import ToolError, page
from agent.tools.places import take_place
from agent.tools.text_lines import DocumentReader
from agent.tools.workspace import quote
from bot.kernel import Kernel
from plugins.api import hookimpl

SECONDS = 30
"""The seconds that reading one may take."""
MEGABYTES = 1_000
"""Memory that the process may have."""
TEXT = 20_000_000
"""Bytes of text that are taken of one."""
_READER = Path(__file__).with_name("reader.py")
_TOOLS = Path(page.__file__).parent
_FAULT, _MEMORY = 3, 4  # the reader's exit codes where it says what is wrong, and for memory


class DocumentTexts(DocumentReader):
    """The texts of documents."""

    @contextmanager
    def open_text(self, file: BinaryIO, path: str) -> Iterator[BinaryIO]:
        """See `DocumentReader`."""
        file.seek(0)
        with tempfile.TemporaryFile() as text:
            with take_place():
                code, fault = _run(file, text)
            text.seek(0, os.SEEK_END)
            if code and not text.tell():
                raise ToolError(f"{quote(path)} {fault}.")
            if code:  # what was read by then is given
                text.write(f"\n[The rest is left out: it {fault}.]\n".encode())
            text.seek(0)
            yield text

    @hookimpl
    def parley_services(self) -> Sequence[object]:
        return [self]


@hookimpl
def parley_open(kernel: Kernel) -> DocumentTexts:
    del kernel
    return DocumentTexts()


def _run(file: BinaryIO, text: BinaryIO) -> tuple[int, str]:
    """Read the document into `text`. Return the exit code, and what is wrong where it is not 0."""
    limits = map(str, (MEGABYTES, SECONDS, TEXT))
    command = [sys.executable, "-I", str(_READER), *limits, str(_TOOLS)]
    try:
        done = subprocess.run(
            command,
            stdin=file,
            stdout=text,
            stderr=subprocess.PIPE,
            env={},
            cwd="/",
            timeout=SECONDS,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1, f"takes more than {SECONDS} seconds to read"
    return done.returncode, describe_end(done.returncode, done.stderr)


def describe_end(code: int, said: bytes) -> str:
    """Return what is wrong with a document, by how its reader ended: only a fault that the reader
    knows is in its own words, and what a library says reaches nobody."""
    if code == _FAULT:
        return said.decode("utf-8", "replace").strip()
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"takes more than {SECONDS} seconds to read"
    if code == _MEMORY:
        return f"takes more than {MEGABYTES} MB of memory to read"
    return f"can't be read: it is damaged, or takes more than {MEGABYTES} MB of memory"
