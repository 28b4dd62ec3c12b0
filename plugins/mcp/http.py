"""The HTTP transport to a server. Incoming data is limited and parsed (`messages`) before the SDK
gets it, and HTTP errors tell whether the server and its session still exist.

A call that is refused with a status ends at once with a sentence. A status that means a lost
session (404 in the protocol, 400 in many servers) ends only the session.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import cache

import anyio
import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types.jsonrpc import JSONRPCError, JSONRPCMessage, JSONRPCRequest, JSONRPCResponse

from memory.faults import BROKE_OFF, UNREACHABLE, describe_fault
from plugins.mcp.health import LONGEST, Health, Rate
from plugins.mcp.layers import MessageId, UnreadableAnswerError
from plugins.mcp.messages import (
    REFUSED,
    SESSION_OVER,
    TOO_LONG,
    ServerAnswers,
    StreamLines,
    TooMuchError,
    encode,
    make_error,
    read_messages,
)

Transport = AbstractAsyncContextManager[TransportStreams]

NOT_THIS_KIND = frozenset((400, 404, 405, 406, 415, 501))
"""The statuses with which a server of the older kind (SSE) refuses requests of the newer kind."""
_SESSION = "mcp-session-id"
_GENUINE = frozenset((-32700, -32601, -32602, -32603))
"""The error codes that concern the request, not the session."""
_SHORT = 64_000  # maximum bytes read of an error response
_HINTS = {
    401: "it wants a key, in `headers`",
    403: "it does not allow this",
    404: "is the address right?",
    405: "is the address right?",
    429: "it was asked too often",
}


class BadAnswer(httpx2.ReadError):
    """An invalid answer of a server; the text says what is wrong, in our words."""


@asynccontextmanager
async def run_http(
    url: str, headers: dict[str, str], kind: str, health: Health
) -> AsyncGenerator[TransportStreams, None]:
    """Open the streams to a server at an address, of the `kind` "http" or "sse"."""
    connect = _sse if kind == "sse" else _streamable
    async with _watched(connect(url, headers, health), health) as streams:
        yield streams


@asynccontextmanager
async def _streamable(
    url: str, headers: dict[str, str], health: Health
) -> AsyncGenerator[TransportStreams, None]:
    async with (
        _client(headers, _StreamableReader(health)) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=LONGEST) as streams,
    ):
        yield streams


@asynccontextmanager
async def _sse(
    url: str, headers: dict[str, str], health: Health
) -> AsyncGenerator[TransportStreams, None]:
    def make(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        del timeout, auth
        return _client(headers or {}, _SseReader(health))

    async with sse_client(url, headers, httpx_client_factory=make) as streams:
        yield streams


def _client(headers: dict[str, str], reader: _Reader) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        headers={"Accept-Encoding": "identity", **headers},
        timeout=httpx2.Timeout(30.0, read=None),  # every call has its own timeout
        transport=reader,
    )


@asynccontextmanager
async def _watched(transport: Transport, health: Health) -> AsyncGenerator[TransportStreams, None]:
    """Wrap a transport: limit the number of messages per second, and end the connection once the
    server's stream ends."""
    into, out = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    rate = Rate()
    with into, out:
        async with transport as (read, write), anyio.create_task_group() as tasks:

            async def forward_events() -> None:
                with into, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    async for message in read:
                        await rate.wait(0)
                        await into.send(message)
                health.end("")

            tasks.start_soon(forward_events)
            try:
                yield out, write
            finally:
                tasks.cancel_scope.cancel()


# --- incoming data --------------------------------------------------------------------------------


@cache
def _trusted() -> ssl.SSLContext:
    """Return the certificate authorities of this machine. Loading them takes longer than the rest
    of a connection."""
    return httpx2.create_ssl_context()


class _Reader(httpx2.AsyncBaseTransport):
    """An HTTP transport that parses response bodies before passing them on."""

    def __init__(self, health: Health) -> None:
        self._inner = httpx2.AsyncHTTPTransport(verify=_trusted())
        self._health, self._answers, self._is_known = health, ServerAnswers(), False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        call = self._note(request)
        try:
            response = await self._inner.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            # It was reachable before; a new connection has to find out whether it is again.
            self._health.end("" if self._is_known else describe_fault(error, UNREACHABLE))
            if call is None or not self._is_known:
                raise
            response = httpx2.Response(200)
            _replace(response, make_error(call, SESSION_OVER, "It can't be reached."))
            return response
        except httpx2.TransportError as error:
            if request.method != "DELETE":  # the request that ends a session
                self._health.end(describe_fault(error, BROKE_OFF))
            raise
        self._is_known = True
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise BadAnswer("it packs what it says, though it was asked not to")
        await self._read(request, response, call)
        return response

    def _note(self, request: httpx2.Request) -> MessageId | None:
        """Return the id of the call that a request contains; None without one."""
        if request.method != "POST":
            return None
        for message in read_messages(request.content):
            self._answers.sent(message)
            if isinstance(message, JSONRPCRequest):
                return message.id
        return None

    async def _read(
        self, request: httpx2.Request, response: httpx2.Response, call: MessageId | None
    ) -> None:
        raise NotImplementedError

    async def aclose(self) -> None:
        await self._inner.aclose()


class _SseReader(_Reader):
    """The older kind: the server sends one stream of events; requests are posted and only
    acknowledged."""

    async def _read(
        self, request: httpx2.Request, response: httpx2.Response, call: MessageId | None
    ) -> None:
        if response.status_code >= 400 and request.method == "POST":
            text = await _read_beginning(response, _SHORT)
            self._health.end(_describe_status(response.status_code, text))
        elif _is_events(response):
            response.stream = _ReadBody(
                response.stream, _read_events(response.stream, self._read_one)
            )
        else:
            response.stream = _ReadBody(response.stream, _read_bounded(response.stream))

    def _read_one(self, data: bytes, is_whole: bool) -> list[JSONRPCMessage]:
        return self._answers.read(data) if is_whole else self._answers.read_begin(data)


class _StreamableReader(_Reader):
    """The newer kind: an answer is in the response to the request, as one body or as events. Other
    messages come in a separate stream that the server may offer."""

    def __init__(self, health: Health) -> None:
        super().__init__(health)
        self._has_stream = False

    async def _read(
        self, request: httpx2.Request, response: httpx2.Response, call: MessageId | None
    ) -> None:
        status = response.status_code
        if status >= 400 and call is not None:
            text = await _read_beginning(response, _SHORT)
            _replace(response, self._read_refusal(request, status, text, call))
        elif status >= 400 and request.method == "GET":
            if self._has_stream and status in (400, 404):  # it had one before a restart
                self._health.end("")
        elif _is_events(response):
            self._has_stream = self._has_stream or request.method == "GET"
            reads = self._read_answer(call) if call is not None else _read_side_stream
            response.stream = _ReadBody(response.stream, _read_events(response.stream, reads))
        elif call is not None and status < 300:
            _replace(response, await self._read_body(response, call))
        else:
            response.stream = _ReadBody(response.stream, _read_bounded(response.stream))

    def _read_refusal(
        self, request: httpx2.Request, status: int, text: bytes, call: MessageId
    ) -> JSONRPCMessage:
        """Return the error that replaces an answer."""
        self._health.refused = status
        found: list[JSONRPCMessage] = []
        with suppress(UnreadableAnswerError):
            found = read_messages(text)
        errors = [one.error for one in found if isinstance(one, JSONRPCError)]
        if not errors:  # many send no id, or one that they can't know
            with suppress(ValueError, AttributeError, TypeError):
                fault = json.loads(text)["error"]
                errors = [make_error(call, int(fault["code"]), str(fault["message"])).error]
        code = errors[0].code if errors else 0
        reason = errors[0].message if errors else _describe_status(status, text)
        is_gone = status == 404 or (status in (400, 410) and code not in _GENUINE)
        if is_gone and _SESSION in request.headers and code not in _GENUINE:
            self._health.end("")
            return make_error(call, SESSION_OVER, reason)
        if errors:
            return JSONRPCError(jsonrpc="2.0", id=call, error=errors[0])
        return make_error(call, REFUSED, reason)

    async def _read_body(self, response: httpx2.Response, call: MessageId) -> JSONRPCMessage:
        """Return the answer in a body."""
        try:
            body = await _read_beginning(response, LONGEST + 1)
        except httpx2.TransportError:
            return self._answers.fail("the connection broke before all of it had come", call)[0]
        if len(body) > LONGEST:
            return self._answers.fail(TOO_LONG, call)[0]
        for one in self._answers.read(body, call):
            if isinstance(one, JSONRPCResponse | JSONRPCError):
                return one
        kind = response.headers.get("content-type", "").partition(";")[0][:60]
        is_json = "json" in kind or not kind
        why = "it is no message of the protocol" if is_json else f"it is {kind}, not JSON"
        return self._answers.fail(why if body.strip() else "it is empty", call)[0]

    def _read_answer(self, call: MessageId) -> Callable[[bytes, bool], list[JSONRPCMessage]]:
        def read(data: bytes, is_whole: bool) -> list[JSONRPCMessage]:
            return (
                self._answers.read(data, call) if is_whole else self._answers.fail(TOO_LONG, call)
            )

        return read


def _read_side_stream(data: bytes, is_whole: bool) -> list[JSONRPCMessage]:
    """Return the messages of a stream that contains no answers."""
    if is_whole:
        with suppress(UnreadableAnswerError):
            return read_messages(data)
    return []


def _is_events(response: httpx2.Response) -> bool:
    kind: str = response.headers.get("content-type", "")
    return kind.lower().startswith("text/event-stream") and response.status_code < 300


async def _read_beginning(response: httpx2.Response, most: int) -> bytes:
    """Return the beginning of a body, and discard the rest."""
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    rate, held = Rate(), bytearray()
    try:
        async for piece in response.stream:
            await rate.wait(len(piece), 0)
            held += piece
            if len(held) > most:
                break
    finally:
        await response.stream.aclose()
    return bytes(held[:most])


def _replace(response: httpx2.Response, message: JSONRPCMessage) -> None:
    """Replace the whole body by a message."""
    (body,) = encode([message])
    response.headers.pop("content-length", None)
    response.headers["content-type"] = "application/json"
    if response.status_code in (202, 204):
        response.status_code = 200
    response.stream = httpx2.ByteStream(body)


class _ReadBody(httpx2.AsyncByteStream):
    def __init__(self, inner: object, pieces: AsyncGenerator[bytes, None]) -> None:
        assert isinstance(inner, httpx2.AsyncByteStream)
        self._inner, self._pieces = inner, pieces

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces

    async def aclose(self) -> None:
        await self._pieces.aclose()
        await self._inner.aclose()


async def _read_bounded(inner: object) -> AsyncGenerator[bytes, None]:
    """Yield a body that is not parsed as messages, up to the maximum length."""
    assert isinstance(inner, httpx2.AsyncByteStream)
    rate, total = Rate(), 0
    async for piece in inner:
        total += len(piece)
        if total > LONGEST:
            raise BadAnswer(f"it sent more than {LONGEST // 1_000_000} MB")
        await rate.wait(len(piece), 0)
        yield piece


async def _read_events(
    inner: object, read: Callable[[bytes, bool], list[JSONRPCMessage]]
) -> AsyncGenerator[bytes, None]:
    """Yield a stream of events in which messages are parsed and re-encoded. `read` gets the data of
    an event, and whether it is complete."""
    assert isinstance(inner, httpx2.AsyncByteStream)
    rate, lines = Rate(), StreamLines()
    event = _Event()
    async for piece in inner:
        await rate.wait(len(piece), 0)
        try:
            # The standard also allows CR alone as a line end, but no server uses it.
            for line, is_whole in lines.feed(piece):
                if line or not is_whole:
                    is_cut = event.take(line, is_whole)
                    if is_cut:  # the caller that waits for it gets the error at once
                        yield event.write(read)
                else:
                    yield b": cut\n\n" if event.is_cut else event.write(read)
                    event = _Event()
        except TooMuchError:
            raise BadAnswer("it sent a message that does not end") from None


class _Event:
    """An event of a stream, line by line; `is_cut` means that it exceeds the maximum length."""

    def __init__(self) -> None:
        self._other: list[bytes] = []
        self._data: list[bytes] = []
        self._size, self.is_cut = 0, False

    def take(self, line: bytes, is_whole: bool) -> bool:
        """Add a line; return whether the event now exceeds the maximum length."""
        if self.is_cut:
            return False
        field, _colon, value = line.partition(b":")
        self._size += len(line) + 1
        self.is_cut = not is_whole or self._size > LONGEST
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif self._size < _SHORT:
            self._other.append(line)
        return self.is_cut

    def write(self, read: Callable[[bytes, bool], list[JSONRPCMessage]]) -> bytes:
        data, other = b"\n".join(self._data), b"".join(line + b"\n" for line in self._other)
        kinds = [one.partition(b":")[2].strip() for one in self._other if one.startswith(b"event:")]
        if not data or kinds not in ([], [b"message"]):
            lines = [b"data: %s\n" % one for one in self._data if len(one) < _SHORT]
            return other + b"".join(lines) + b"\n"
        written = [other + b"data: " + one + b"\n\n" for one in encode(read(data, not self.is_cut))]
        return b"".join(written) or b": none\n\n"


def _describe_status(status: int, text: bytes) -> str:
    """Return a sentence about an error status."""
    reason = " ".join(text[:300].decode("utf-8", "replace").split())
    shown = "" if reason.startswith("<") else "".join(c for c in reason if c.isprintable())[:150]
    why = _HINTS.get(status, shown)
    if not why:
        return f"it answered with the status {status}"
    return f"it answered with the status {status} ({why})"
