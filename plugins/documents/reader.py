"""The process that reads one document of a stranger.

It is started for one document (`feature.py`), under limits. Of Parley it imports only the
conversion of HTML to text and the readers in `formats/`. The document is its standard input, the
text its output. Arguments: seconds of computing, bytes of text, the folder of the modules that read
HTML.
"""

from __future__ import annotations

import io
import re
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_UNPACKED = 500_000_000  # maximum bytes of all parts of an archive together
_LOOKED_AT = 1_024  # bytes searched for the mark of a PDF and the encoding of HTML
_JUDGED = 65_536  # bytes used to detect the encoding of HTML
_LEAST, _SHARE = 2, 10  # seconds, or a share of the limit, before it, when reading ends
_EMPTY = "(no text; it may be a picture)"
_TOO_LONG = "[The rest is left out: too long.]"
_TOO_SLOW = "[The rest is left out: reading it takes more than {} seconds.]"
_TOO_LARGE = "[The rest is left out: it takes too much memory.]"


def main() -> int:
    """Write the text, page by page, as far as there is room and time."""
    began = time.monotonic()
    seconds, room = map(int, sys.argv[1:3])
    sys.path[:0] = [str(Path(__file__).parent), sys.argv[3]]
    from formats.package import NoText  # type: ignore[import-not-found]  # noqa: PLC0415

    content = sys.stdin.buffer.read()
    text = _Text(room, began + seconds - max(_LEAST, seconds / _SHARE), seconds)
    try:
        for line in _read(content):
            if not text.add(line):
                break
        else:
            text.end()
    except NoText as fault:
        if text.is_begun:
            text.note(f"[The rest is left out: it {fault}.]")
            return 0
        sys.stderr.write(str(fault))
        return 3
    except MemoryError:
        if not text.is_begun:
            raise
        text.note(_TOO_LARGE)
    return 0


class _Text:
    """The output: pages, each with its mark before it, up to a size and a time limit."""

    def __init__(self, room: int, until: float, seconds: int) -> None:
        self._room, self._until, self._seconds = room, until, seconds
        self._flushed = time.monotonic()
        self._is_empty = False  # the page has a mark but no line yet
        self.is_begun = False

    def add(self, line: str) -> bool:
        """Write a mark or a line; return whether there is room and time for more."""
        now = time.monotonic()
        if now > self._until and self.is_begun:
            self.note(_TOO_SLOW.format(self._seconds))
            return False
        if now - self._flushed > 1:  # flushed output is kept if the process is killed
            self._flush(now)
        if type(line) is not str:  # a Mark
            is_done = self._write(_EMPTY) if self._is_empty else True
            self._is_empty = True
            return is_done and self._write(f"[{' '.join(line.split())}]")
        lines = "\n".join(filter(str.strip, line.splitlines()))
        if not lines:
            return True
        self._is_empty = False
        return self._write(lines)

    def end(self) -> None:
        if self._is_empty:
            self._write(_EMPTY)
        self._flush(time.monotonic())

    def note(self, words: str) -> None:
        sys.stdout.buffer.write(f"{words}\n".encode())
        self._flush(time.monotonic())

    def _write(self, text: str) -> bool:
        content = f"{text}\n".encode("utf-8", "replace")
        self.is_begun = True
        if len(content) > self._room:
            sys.stdout.buffer.write(content[: self._room] + b"\n")
            self.note(_TOO_LONG)
            return False
        sys.stdout.buffer.write(content)
        self._room -= len(content)
        return True

    def _flush(self, now: float) -> None:
        sys.stdout.buffer.flush()
        self._flushed = now


def _read(content: bytes) -> Iterator[str]:
    """Yield marks of pages and lines. Raises NoText."""
    if not content.startswith(b"PK\x03\x04"):
        if b"%PDF-" in content[:_LOOKED_AT]:
            from formats import pdf  # type: ignore[import-not-found]  # noqa: PLC0415

            yield from pdf.read(content)
        else:
            yield from _text_of_html(content)
        return
    from formats.package import NoText, Package  # noqa: PLC0415

    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
        size = sum(part.file_size for part in archive.infolist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        raise NoText("is damaged: the list of its parts can't be read") from None
    if size > _UNPACKED:
        raise NoText(f"would unpack to {size / 1e6:,.0f} MB; that is too much")
    yield from _parts(Package(archive))


def _parts(package: Any) -> Iterator[str]:
    from formats import (  # noqa: PLC0415
        book,
        sheets,
        slides,
        word,
    )
    from formats.package import NoText  # noqa: PLC0415

    if "META-INF/container.xml" in package:
        yield from book.read(package, _render)
        yield from package.damaged()
        return
    main = package.main()
    root = package.first(main) if main else ""
    reader = {"document": word, "workbook": sheets, "presentation": slides}.get(root)
    if reader is None and main and main.endswith((".xml", ".bin")):
        folder = main.split("/")[0]
        reader = {"word": word, "xl": sheets, "ppt": slides}.get(folder)
    if reader is None:
        raise NoText("is not a Word, Excel, PowerPoint or EPUB file, whatever its name says")
    if main.endswith(".bin"):
        raise NoText("is a binary workbook: only .xlsx can be read")
    yield from reader.read(package, main)
    yield from package.damaged()


def _text_of_html(content: bytes) -> Iterator[str]:
    """Yield HTML as a single page."""
    from formats.package import Mark  # noqa: PLC0415

    named = re.search(rb"charset\s*=\s*[\"']?([\w:-]{1,40})", content[:_LOOKED_AT], re.IGNORECASE)
    yield Mark("page 1")
    yield _render(content, named[1].decode("ascii", "replace") if named else None)


def _render(content: bytes, label: str | None) -> str:
    """Return the text of HTML; a byte order mark takes precedence over the declared encoding."""
    from charsets import WIDE, label_of  # type: ignore[import-not-found]  # noqa: PLC0415
    from page import decode, text_of  # type: ignore[import-not-found]  # noqa: PLC0415

    found = label_of(content[:_JUDGED])
    if label is None or found in WIDE:
        label = found
    return str(text_of(decode(content, label)).removeprefix("\ufeff"))


if __name__ == "__main__":
    sys.exit(main())
