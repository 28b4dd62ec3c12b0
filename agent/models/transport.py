"""The transport of a request to an endpoint and of its answer back: by aiohttp, under an SDK or
without it.

An SDK takes three times as long over a request as aiohttp does: it makes URL, headers and options
anew of what was the same the last time. So its first request is the pattern of those that follow:
they go out as it did, with another body (`Transport.repeat`). If what comes back is no success, the
SDK is handed that as the outcome of its own first attempt (`told_of`), and does with it what it
does: it waits, tries again, or says what is wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import aiohttp
import httpx2  # the SDKs' HTTP library
from aiohttp.connector import Connection
from msgspec import Struct
from multidict import CIMultiDict
from yarl import URL

from agent.models import wire
from agent.models.endpoint import Endpoint

PATIENCE = 3
"""The multiple of `timeout` for which an endpoint may say that it is still there, and nothing else:
before an answer has begun, and in one."""
_MOST_CONNECTIONS = 1_000  # as in the SDKs
_KEPT = 5.0  # seconds for which a connection is kept that nobody uses, as in the SDKs
_KEPT_PLAIN = 1.5  # the same without TLS, where a new one is cheap; some servers close after two
_TRIAL = 0.25  # seconds in which a server that closes its connections does so

_KINDS: tuple[tuple[type[Exception], type[httpx2.TransportError]], ...] = (
    (aiohttp.SocketTimeoutError, httpx2.ReadTimeout),
    (aiohttp.ServerTimeoutError, httpx2.ConnectTimeout),
    (aiohttp.ClientConnectorError, httpx2.ConnectError),
    (aiohttp.ClientConnectionError, httpx2.ReadError),
    (aiohttp.ClientPayloadError, httpx2.ReadError),
    (aiohttp.InvalidURL, httpx2.UnsupportedProtocol),
)
"""aiohttp's errors as those that an SDK knows; the others are of what is no HTTP, and stay."""

Outcome = aiohttp.ClientResponse | Exception
_told: ContextVar[list[Outcome] | None] = ContextVar("told", default=None)


@contextmanager
def told_of(outcome: Outcome) -> Iterator[None]:
    """Within it, the SDK's next attempt is one that was made already, and has come to this."""
    token = _told.set([outcome])
    try:
        yield
    finally:
        _told.reset(token)


class Pattern(Struct, frozen=True):
    """A request that an SDK has made, but for its body."""

    url: URL
    headers: CIMultiDict[str]
    timeout: aiohttp.ClientTimeout


def pattern_of(response: httpx2.Response) -> Pattern | None:
    """The pattern of the request that was answered so; None where it went through a proxy."""
    if not response.extensions.get("is_direct"):
        return None
    request = response.request
    headers = _headers(request)
    for name in ("content-length", "cookie"):
        headers.popall(name, None)
    if "x-stainless-retry-count" in headers:
        headers["x-stainless-retry-count"] = "0"
    return Pattern(URL(str(request.url), encoded=True), headers, _timeout(request))


class BegunResponse:
    """A response that has begun: what kind of document it is, how it is packed ("": it is not), and
    its bytes. `close` ends it, wherever it is."""

    def __init__(
        self,
        headers: Mapping[str, str],
        packing: str,
        body: AsyncGenerator[bytes, None],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self.kind = headers.get("content-type", "").lower()
        self.packing, self._body, self._close = packing, body, close

    def aiter_bytes(self) -> AsyncGenerator[bytes, None]:
        return self._body

    async def aclose(self) -> None:
        await self._close()


class Transport(httpx2.AsyncBaseTransport):
    """The connections to one endpoint.

    Those with TLS are kept for a while. Without TLS, it shows first whether the server keeps its
    own: llama.cpp's closes after a stream without a word, and a request sent on it just then fails.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._is_plain = endpoint.base_url.startswith("http://")
        self._keeps: bool | None = None if self._is_plain else True
        self._is_trying = False
        self._trial: asyncio.Task[None] | None = None
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        self._seconds = PATIENCE * endpoint.timeout

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if told := _told.get():
            outcome = told.pop()
            if isinstance(outcome, Exception):
                raise outcome
            return _to_httpx(outcome, request)
        try:
            data: Any = request.content or None
        except httpx2.RequestNotRead:
            data = request.stream
            request.headers.pop("transfer-encoding", None)  # which aiohttp says itself
        url, how = URL(str(request.url), encoded=True), _timeout(request)
        return _to_httpx(
            await self._send(request.method, url, _headers(request), data, how), request
        )

    async def repeat(self, pattern: Pattern, content: bytes, headers: Mapping[str, str]) -> Outcome:
        """Send what was sent before with another body, and these headers besides; returns what came
        of it, as soon as a response has begun."""
        sent = pattern.headers
        if headers:
            sent = sent.copy()
            sent.update(headers)
        try:
            async with asyncio.timeout(self._seconds):
                return await self._send("POST", pattern.url, sent, content, pattern.timeout)
        except TimeoutError:
            return httpx2.ReadTimeout("no response has begun")
        except (httpx2.TransportError, aiohttp.ClientError, ValueError) as error:
            return error

    async def aclose(self) -> None:
        if self._trial is not None:
            self._trial.cancel()
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    async def _send(
        self,
        method: str,
        url: URL,
        headers: CIMultiDict[str],
        data: Any,
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        whole = {"headers": headers, "data": data, "timeout": timeout, "allow_redirects": False}
        try:
            if self._keeps is None and not self._is_trying:
                return await self._try_out(method, url, whole)
            if self._keeps:
                try:
                    return await self._session(True).request(method, url, **whole)
                except aiohttp.ClientConnectionError as error:
                    if not self._has_closed(error, data):
                        raise
            return await self._session(False).request(method, url, **whole)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _explain(error) from error

    def _has_closed(self, error: Exception, data: object) -> bool:
        """Return whether a server did close a connection that it seemed to keep, just as a request
        was on its way; from then on none is used twice."""
        is_it = isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError)
        if not is_it or isinstance(error, aiohttp.ClientConnectorError):
            return False
        if not self._is_plain or not self._keeps or not isinstance(data, bytes):
            return False
        self._keeps = False
        return True

    async def _try_out(
        self, method: str, url: URL, whole: Mapping[str, Any]
    ) -> aiohttp.ClientResponse:
        """Send a request, and have it found out what becomes of its connection; no other request
        goes by that one before."""
        self._is_trying = True
        try:
            response = await self._session(True).request(method, url, **whole)
        except BaseException:
            self._is_trying = False
            raise
        self._trial = asyncio.create_task(self._watch(response))
        return response

    async def _watch(self, response: aiohttp.ClientResponse) -> None:
        while response.connection is not None:  # noqa: ASYNC110 - nobody tells when it is given up
            await asyncio.sleep(_TRIAL)
        await asyncio.sleep(_TRIAL)
        if isinstance(response, _Response) and response.content.is_eof():
            self._keeps = response.is_open()
        self._is_trying = False

    def _session(self, is_kept: bool) -> aiohttp.ClientSession:
        if (session := self._sessions.get(is_kept)) is None:
            session = self._sessions[is_kept] = aiohttp.ClientSession(
                connector=self._connector(is_kept),
                cookie_jar=aiohttp.DummyCookieJar(),
                response_class=_Response,
                auto_decompress=False,
            )
        return session

    def _connector(self, is_kept: bool) -> aiohttp.TCPConnector:
        if not is_kept:
            return aiohttp.TCPConnector(limit=_MOST_CONNECTIONS, force_close=True)
        if self._is_plain:
            return aiohttp.TCPConnector(limit=_MOST_CONNECTIONS, keepalive_timeout=_KEPT_PLAIN)
        return aiohttp.TCPConnector(
            limit=_MOST_CONNECTIONS, keepalive_timeout=_KEPT, ssl=httpx2.create_ssl_context()
        )


class _Response(aiohttp.ClientResponse):
    """A response that knows what becomes of its connection after it has given that back."""

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        protocol = connection.protocol
        self.is_open = protocol.is_connected if protocol is not None else lambda: False
        return await super().start(connection)


class _Body(httpx2.AsyncByteStream):
    """The bytes of a response as they come."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        try:
            async for piece in self._response.content.iter_any():
                yield piece
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _explain(error) from error

    async def aclose(self) -> None:
        self._response.release()


def to_reply(response: aiohttp.ClientResponse) -> BegunResponse:
    """The answer to a repeated request."""

    async def close() -> None:
        response.release()

    packing = response.headers.get("content-encoding", "identity").lower()
    packing = "" if packing == "identity" else packing
    return BegunResponse(response.headers, packing, _bytes_of(response), close)


async def _bytes_of(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    try:
        async for piece in wire.bound(response.content.iter_any()):
            yield piece
    except (aiohttp.ClientError, TimeoutError) as error:
        raise _explain(error) from error


def _to_httpx(response: aiohttp.ClientResponse, request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(
        response.status,
        headers=list(response.raw_headers),
        stream=_Body(response),
        request=request,
        extensions={"http_version": b"HTTP/1.1", "is_direct": True},
    )


def _headers(request: httpx2.Request) -> CIMultiDict[str]:
    return CIMultiDict(request.headers.multi_items())


def _timeout(request: httpx2.Request) -> aiohttp.ClientTimeout:
    given = request.extensions.get("timeout", {})
    return aiohttp.ClientTimeout(
        connect=given.get("pool"), sock_connect=given.get("connect"), sock_read=given.get("read")
    )


def _explain(error: Exception) -> Exception:
    kind = next((ours for theirs, ours in _KINDS if isinstance(error, theirs)), None)
    return error if kind is None else kind(str(error))
