"""The bytes, lines and time of an endpoint, limited before they are processed.

The SDK reads without limits: a body of any size, a line without an end, a stream that never says
anything, compressed bytes that expand to gigabytes, an error's text in the sender's encoding.
`limit_response` is a hook between the SDK and the endpoint that handles each response before its
body is read; `events` reads a stream.

Also the parsing of a body's lines into data: server-sent events as servers really write them, or
else lines of JSON (NDJSON), or JSON documents. Pure.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import cast

import httpx2
import orjson

from agent.models.answer import Answer
from agent.models.refusals import read_wait

MARK = b"\xef\xbb\xbf"
"""The byte order mark that some servers put before UTF-8."""
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_MOST_WORDS = 4_096  # bytes of text that is neither
_MOST_DOCUMENTS = 10_000
_END = b"[DONE]"
_FIELD = len(b"data: ")
_WHOLE = re.compile(rb"(?:data: [{\[][^\r\n]*\n\n)+")
_LINE = re.compile(rb"data: ([^\n]*)\n\n")
_FIELDS = (b":", b"id:", b"retry:", b"event:")


class EventReader:
    """A parser of lines, without their ends, into complete data. `held` is the number of bytes kept
    of one event or document. `words` is text received in place of data."""

    def __init__(self) -> None:
        self.held = 0
        self.words = b""
        self._data: list[bytes] = []
        self._is_error = False
        self._document: list[bytes] | None = None
        self._has_begun = False

    def read_whole(self, piece: bytes) -> list[bytes]:
        """Return the data of a piece of a body that consists of whole events of one line of JSON
        each, the usual case; [] for any other piece, which is not processed."""
        if self._data or self._is_error or self._document is not None:
            return []
        if _WHOLE.fullmatch(piece) is None:
            return []
        self._has_begun = True
        return _LINE.findall(piece)

    def read(self, line: bytes) -> bytes | None:
        """Process a line; return the data that it completes."""
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
        """Process a line of data. Complete earlier data are an event of their own, even without an
        empty line after them."""
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
        """Yield the data completed by the end of the body: documents, or an event that lacks only
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
    """Return whether these data are a server's plain message, not a fragment of a protocol."""
    start = data.strip()[:1]
    return start.isalpha() and b" " in data.strip()


def _as_error(data: bytes) -> bytes:
    """Return the data of an error event as an object with an error in it."""
    try:
        value = orjson.loads(data)
    except ValueError:
        value = data.decode("utf-8", "replace")
    if isinstance(value, dict) and value.get("error"):
        return data
    return orjson.dumps({"error": value or "error"})


def split_events(body: bytes) -> tuple[list[bytes], bytes]:
    """Return the data of events in a whole body declared as a document, and its other text."""
    reader = EventReader()
    found = [data for line in re.split(rb"\r\n?|\n", body) if (data := reader.read(line))]
    return [*found, *reader.finish()], reader.words


def parse_chunks(data: bytes) -> list[object]:
    """Return the chunks in data: one value, several in a list, or several consecutive ones. Raises
    ValueError."""
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
    except ValueError:  # also raised for a single surrogate escape, which Python accepts
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


MOST_BYTES = 64_000_000
"""The maximum bytes of one answer, with all its frames: a long one, of 128,000 tokens, takes 40 MB
if each token has a frame of its own. Only the data that `Answer` keeps stays in memory."""
LONGEST_LINE = 4_000_000
"""The maximum bytes of a line of a stream, or of an answer that is one document: these are parsed
whole."""
LONGEST_ERROR = 65_536
"""The maximum bytes that are read of a failed response."""
_BREATH = 65_536
"""Bytes after which other tasks get their turn, even if more data are available."""

LONGEST_WAIT = 10.0
"""Seconds for which a request waits before an automatic retry, twice at most; a longer wait of an
endpoint is reported to the person."""
HEADERS = {"Accept-Encoding": "identity", "Connection": "keep-alive"}
"""The headers of every request: no compression, since compressed answers can't be read, and a
persistent connection."""

_BREAK = re.compile(rb"\r\n?|\n")


class ResponseTooLarge(Exception):
    """Raised if more data came than are read; the text names them."""


class NoEvents(Exception):
    """Raised if text came in place of events."""

    def __init__(self, words: bytes) -> None:
        super().__init__("no events")
        self.words = words.decode("utf-8", "replace").strip()


class NoProgress(Exception):
    """Raised if bytes came continuously, but no part of an answer for this many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no progress for {seconds:g} s")
        self.seconds = seconds


class Progress:
    """The progress of an answer, which must grow (None: no answer is expected); `patience` is in
    seconds."""

    def __init__(self, patience: float, answer: Answer | None = None) -> None:
        self._patience, self._answer = patience, answer
        self._seen, self._since = answer.size if answer else 0, time.monotonic()

    def check(self) -> None:
        """Check that the answer has grown. Call it whenever data came. Raises NoProgress."""
        size, now = self._answer.size if self._answer else 0, time.monotonic()
        if size != self._seen:
            self._seen, self._since = size, now
        elif now - self._since > self._patience:
            raise NoProgress(self._patience)


async def limit_response(response: httpx2.Response) -> None:
    """Limit a response of which only the headers have been read."""
    response.encoding = "utf-8"  # the encoding of JSON; Python has codecs that take minutes
    response.extensions["packing"] = response.headers.pop("content-encoding", "identity").lower()
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    if response.is_success:
        response.stream = _BoundedStream(response.stream, MOST_BYTES, is_cut=False)
    else:
        if read_wait(response.headers, response.status_code) > LONGEST_WAIT:
            response.headers["x-should-retry"] = "false"  # both SDKs obey it
        response.stream = _BoundedStream(response.stream, LONGEST_ERROR, is_cut=True)


def find_compression(response: httpx2.Response) -> str:
    """Return the compression of a response, which should have none; "" if it has none."""
    how = str(response.extensions.get("packing", ""))
    return "" if how == "identity" else how


def _body(response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    """Return a body without the layers of `aiter_bytes`: it is not compressed."""
    return cast("AsyncGenerator[bytes, None]", aiter(response.stream))  # type: ignore[arg-type]


class _BoundedStream(httpx2.AsyncByteStream):
    """A body of which a limited number of bytes is read; a longer one is cut there, or raises
    `ResponseTooLarge`."""

    def __init__(self, inner: httpx2.AsyncByteStream, most: int, *, is_cut: bool) -> None:
        self._inner, self._most, self._is_cut = inner, most, is_cut

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        left, breath = self._most, _BREATH
        async for piece in self._inner:
            if len(piece) > left:
                if not self._is_cut:
                    raise ResponseTooLarge(f"more than {self._most // 1_000_000} MB")
                yield piece[:left]
                return
            yield piece
            left -= len(piece)
            breath -= len(piece)
            if breath <= 0:
                breath = _BREATH
                await asyncio.sleep(0)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def document(response: httpx2.Response, progress: Progress) -> bytes:
    """Return a whole body that is parsed as one document. Raises TooMuch and NoProgress."""
    pieces: list[bytes] = []
    size = 0
    async with aclosing(_body(response)) as body:
        async for piece in body:
            progress.check()
            pieces.append(piece)
            size += len(piece)
            _buffer(size)
    return b"".join(pieces)


async def events(
    response: httpx2.Response, progress: Progress
) -> AsyncGenerator[list[bytes], None]:
    """Yield the data of server-sent events (WHATWG's event streams), in groups as they arrived,
    until the body ends. Raises TooMuch, NoEvents if other text came, and NoProgress if none is made
    for too long, whatever else comes."""
    lines, reader = _LineSplitter(), EventReader()
    has_come = False
    async with aclosing(_body(response)) as body:
        async for piece in body:
            progress.check()
            came = reader.read_whole(piece) if lines.is_between else []
            if not came:
                cut = lines.feed(piece)
                came = [data for line in cut if (data := reader.read(line)) is not None]
                _buffer(reader.held)
            if came:
                has_come = True
                yield came
    left = [data for line in lines.finish() if (data := reader.read(line)) is not None]
    if left := [*left, *reader.finish()]:
        yield left
    elif not has_come and reader.words:
        raise NoEvents(reader.words)


class _LineSplitter:
    """A splitter of bytes into lines that end with CR, LF or both, in time linear in their
    number."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._ends_in_cr = False

    @property
    def is_between(self) -> bool:
        """Return whether the last line has certainly ended."""
        return not self._rest and not self._ends_in_cr

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the lines that this piece completes, without their ends. Raises TooMuch."""
        if self._ends_in_cr:
            piece = piece.removeprefix(b"\n")
        self._ends_in_cr = piece.endswith(b"\r")
        *lines, rest = _BREAK.split(piece)
        if lines:
            lines[0] = bytes(self._rest + lines[0])
            self._rest = bytearray(rest)
        else:
            self._rest += rest
        _buffer(len(self._rest))
        return lines

    def finish(self) -> list[bytes]:
        """Return the last line if it has no line end."""
        return [bytes(self._rest)] if self._rest else []


def _buffer(size: int) -> None:
    if size > LONGEST_LINE:
        raise ResponseTooLarge(f"more than {LONGEST_LINE // 1_000_000} MB at once")
