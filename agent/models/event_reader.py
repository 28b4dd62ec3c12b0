"""Data made of the lines of a body: of server-sent events, as servers really write them, and where
there are none, of lines that are JSON each (NDJSON), or of JSON documents. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import orjson

MARK = b"\xef\xbb\xbf"
"""The mark that some put in front of UTF-8."""
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_MOST_WORDS = 4_096  # bytes of what is neither
_MOST_DOCUMENTS = 10_000
_END = b"[DONE]"
_FIELD = len(b"data: ")
_WHOLE = re.compile(rb"(?:data: [{\[][^\r\n]*\n\n)+")
_LINE = re.compile(rb"data: ([^\n]*)\n\n")
_FIELDS = (b":", b"id:", b"retry:", b"event:")


class EventReader:
    """Takes lines in, without their ends, and gives back data as they are complete. `held` is how
    many bytes of one event or document are kept. `words` is what came in the place of data."""

    def __init__(self) -> None:
        self.held = 0
        self.words = b""
        self._data: list[bytes] = []
        self._is_error = False
        self._document: list[bytes] | None = None
        self._has_begun = False

    def read_whole(self, piece: bytes) -> list[bytes]:
        """Take a piece of a body in where it is nothing but whole events of one line of JSON each,
        as it nearly always is, and return their data; [] for another one, which is not taken in."""
        if self._data or self._is_error or self._document is not None:
            return []
        if _WHOLE.fullmatch(piece) is None:
            return []
        self._has_begun = True
        return _LINE.findall(piece)

    def read(self, line: bytes) -> bytes | None:
        """Take a line in; return the data that it completes."""
        if not self._has_begun:
            line = line.removeprefix(MARK)
            self._has_begun = bool(line.strip())
            if line.lstrip()[:1] in (b"{", b"["):
                self._document = []
        if self._document is not None:
            return self._read_document(line)
        if line.startswith(b"data:") or line.lstrip()[:5].lower() == b"data:":
            return self._read_data(line.lstrip()[5:].removeprefix(b" "))
        if not line:
            return self._end()
        if line.startswith(b"event:"):
            self._is_error = line[6:].strip().lower() == b"error"
        elif not line.startswith(_FIELDS) and len(self.words) < _MOST_WORDS:
            self.words += line[:_MOST_WORDS] + b"\n"
        return None

    def _read_data(self, data: bytes) -> bytes | None:
        """Take the data of a line in. What is whole before it is an event of its own, though no
        empty line has ended it."""
        while data.startswith(b"data:"):
            data = data[5:].removeprefix(b" ")
        before = None
        if len(self._data) == 1 and is_whole(self._data[0]):  # more lines are not parsed again
            before = self._end()
        self._data.append(data)
        self.held += len(data) + _FIELD
        return before

    def _end(self) -> bytes | None:
        data, self._data, self.held = self._data, [], 0
        is_error, self._is_error = self._is_error, False
        whole = b"\n".join(data)
        if not whole.strip():
            return None
        return _as_error(whole) if is_error else whole

    def _read_document(self, line: bytes) -> bytes | None:
        assert self._document is not None
        if not self._document and line.strip() and is_whole(line):
            return line
        self._document.append(line)
        self.held += len(line)
        return None

    def finish(self) -> Iterator[bytes]:
        """Yield what the end of the body completes: documents, or an event that is whole but for
        the empty line."""
        whole = b"\n".join(self._document or ())
        if whole.strip():
            yield whole
        if self._data and is_whole(b"\n".join(self._data)) and (data := self._end()):
            yield data


def is_whole(data: bytes) -> bool:
    """Return whether these data are one JSON object or list, or the end of a stream."""
    if data.strip().upper() == _END:
        return True
    try:
        return isinstance(orjson.loads(data), dict | list)
    except ValueError:
        return False


def is_words(data: bytes) -> bool:
    """Return whether these data are what a server says in plain words, and nothing of a protocol
    that broke off."""
    start = data.strip()[:1]
    return start.isalpha() and b" " in data.strip()


def _as_error(data: bytes) -> bytes:
    """Return the data of an event that is called an error as an object with an error in it."""
    try:
        value = orjson.loads(data)
    except ValueError:
        value = data.decode("utf-8", "replace")
    if isinstance(value, dict) and value.get("error"):
        return data
    return orjson.dumps({"error": value or "error"})


def split_events(body: bytes) -> tuple[list[bytes], bytes]:
    """Return the data of events in a whole body that is called a document and is none, and the
    words that stand there besides."""
    reader = EventReader()
    found = [data for line in re.split(rb"\r\n?|\n", body) if (data := reader.read(line))]
    return [*found, *reader.finish()], reader.words


def parse_chunks(data: bytes) -> list[object]:
    """Return the chunks that data are: one value, several in a list, or several one behind the
    other. Raises ValueError."""
    try:
        value = parse_chunk(data)
    except ValueError:
        return _parse_row(data)
    is_list = isinstance(value, list) and value and all(isinstance(one, dict) for one in value)
    return value if is_list and isinstance(value, list) else [value]


def _parse_row(data: bytes) -> list[object]:
    text = data.decode("utf-8", "replace").strip()
    decoder, place = json.JSONDecoder(), 0
    found: list[object] = []
    while place < len(text):
        if len(found) >= _MOST_DOCUMENTS:
            raise ValueError("too many documents")
        try:
            value, place = decoder.raw_decode(text, place)
        except RecursionError as error:
            raise ValueError("a deep nest of brackets") from error
        found.append(value)
        while place < len(text) and text[place].isspace():
            place += 1
    return found


def parse_chunk(data: bytes) -> object:
    """Return a chunk's JSON. Raises ValueError."""
    data = data.removeprefix(MARK)
    try:
        return orjson.loads(data)
    except ValueError:  # which it is also at half a character, an escape that Python takes
        if not _HALF.search(data) and _is_text(data):
            raise
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except RecursionError as error:
        raise ValueError("a deep nest of brackets") from error


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
