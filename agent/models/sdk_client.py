"""The use of an official SDK: a request is sent, plain chunks are returned, failures are
`ModelError`s.

The SDKs of OpenAI and Anthropic come from the same generator, so this code serves both;
`openai_client` and `anthropic_client` supply the differences. Importing one takes half a second, so
that happens at its first request.

`post` is the SDK's method for requests outside of its typed models. Key, headers, retries and
time-outs are still the SDK's, but pydantic validates neither messages nor chunks: 20 messages
answered in 20 chunks cost 1.0 ms of CPU instead of 5.2 with `create(messages=…)`, and 2,000 cost
2.6 instead of 229.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager, suppress
from functools import lru_cache
from typing import Any, cast
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp  # the SDK's transport passes on its errors for invalid HTTP
import httpx2  # the SDKs' HTTP library; its errors come through while a body is read
import orjson
from msgspec import Struct
from msgspec.json import Decoder
from msgspec.structs import replace

from agent.models import failures, wire
from agent.models.answer import Answer, PlainChunk, decode_plain
from agent.models.base import ModelError
from agent.models.endpoint import Endpoint
from agent.models.refusals import read_wait
from agent.models.wire import is_words, parse_chunk, parse_chunks, split_events

log = logging.getLogger(__name__)

CONNECT_TIMEOUT = 10.0
PATIENCE = 3
"""The multiple of `timeout` for which an endpoint may send only signs of life, before and during an
answer."""
_MOST_CONNECTIONS = 1_000  # as in the SDKs
_AT_ONCE = 1.0  # seconds in which an already closed connection is detected
_RETRIES = "x-stainless-retry-count"
_KEPT = 5.0  # seconds for which an idle connection is kept, as in the SDKs
_KEPT_PLAIN = 1.5  # the same without TLS, where a new one is cheap; some servers close after two
_BRIEF = 10.0  # seconds for the whole list of models
_DRAIN = 0.25  # seconds for the data after the end of an answer
_RAW: Mapping[str, Any] = {"cast_to": httpx2.Response, "stream": True}
_NEVER = re.compile(rb"(?!)")
_DOCUMENTS = ("application/json", "text/html")  # content that is not a stream of events

Encode = Callable[[], bytes]
"""Makes the bytes of a request when it is sent. Raises ValueError."""


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """Return the shared TLS context of all clients: reading the certificates takes 20 ms."""
    return httpx2.create_ssl_context()


_parse = lru_cache(maxsize=32)(httpx2.URL)  # the same for all requests to an endpoint


class TimedClient(httpx2.AsyncClient):
    """The HTTP client of the SDK's transport, which limits the time until a response begins. The
    SDK's own timeout restarts with each byte, and an endpoint may send "100 Continue" for ever."""

    def __init__(self, endpoint: Endpoint, **more: Any) -> None:
        self._is_plain = endpoint.base_url.startswith("http://")
        super().__init__(
            verify=_tls(),
            follow_redirects=False,  # messages are sent to the given address, and no other
            proxy=find_proxy(endpoint),
            trust_env=False,  # which would use proxies of any kind, and passwords of .netrc
            event_hooks={"response": [wire.limit_response]},
            **more,
        )
        self._seconds = PATIENCE * endpoint.timeout
        self._parsed: tuple[list[tuple[str, str]], httpx2.Headers] | None = None

    def build_request(
        self, method: str, url: Any, *, headers: Any = None, content: Any = None, **more: Any
    ) -> httpx2.Request:
        """Return a request; for a body of bytes, skip merging headers with defaults, which the SDK
        has done."""
        if not isinstance(content, bytes):
            return super().build_request(method, _parse(url), headers=headers, **more)
        request = httpx2.Request(
            method,
            _parse(url),
            headers=self._parse_headers(headers),
            stream=httpx2.ByteStream(content),
            extensions={"timeout": httpx2.Timeout(more["timeout"]).as_dict()},
        )
        request.read()
        return request

    def _parse_headers(self, given: list[tuple[str, str]]) -> httpx2.Headers:
        """Return parsed headers, which are the same for nearly all requests."""
        if self._parsed is None or self._parsed[0] != given:
            self._parsed = given, httpx2.Headers(given)
        return self._parsed[1]

    async def send(self, request: httpx2.Request, **more: Any) -> httpx2.Response:
        try:
            async with asyncio.timeout(self._seconds):
                begun = time.monotonic()
                try:
                    return await super().send(request, **more)
                except httpx2.TransportError as error:
                    is_first = request.headers.get(_RETRIES, "0") == "0"
                    is_early = time.monotonic() - begun < _AT_ONCE
                    if not (is_first and is_early and _is_stale(error)):
                        raise
                    return await super().send(request, **more)
                finally:
                    self.cookies.clear()
        except TimeoutError:
            raise httpx2.ReadTimeout("no response has begun", request=request) from None

    def _init_transport(self, *given: Any, **how: Any) -> httpx2.AsyncBaseTransport:
        return self._with_session(super()._init_transport(*given, **how))

    def _init_proxy_transport(self, *given: Any, **how: Any) -> httpx2.AsyncBaseTransport:
        return self._with_session(super()._init_proxy_transport(*given, **how))

    def _with_session(self, transport: Any) -> httpx2.AsyncBaseTransport:
        """Return the SDK's transport with a session without cookies: one endpoint serves many
        people. Without TLS a new connection is cheap."""
        transport.client = lambda: aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=_MOST_CONNECTIONS,
                keepalive_timeout=_KEPT_PLAIN if self._is_plain else _KEPT,
                ssl=_tls(),
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return cast("httpx2.AsyncBaseTransport", transport)


def find_proxy(endpoint: Endpoint) -> str | None:
    """Return the proxy that the environment names for an endpoint, or None. Proxies of other
    protocols than HTTP (SOCKS) are not used."""
    try:
        address = urlsplit(endpoint.base_url)
        if endpoint.is_here or proxy_bypass(address.hostname or ""):
            return None
    except ValueError:  # no valid address, as the SDK will report
        return None
    known = getproxies()
    proxy = known.get(address.scheme) or known.get("all") or ""
    proxy = proxy if "://" in proxy or not proxy else f"http://{proxy}"
    try:
        parts = urlsplit(proxy)
        is_usable = parts.scheme in ("http", "https") and parts.port != 0
    except ValueError:
        is_usable = False
    if proxy and not is_usable:
        log.warning("The proxy of the environment is not used: it must be http:// or https://.")
    return proxy if is_usable else None


def _is_stale(error: httpx2.TransportError) -> bool:
    """Return whether a connection was closed just as a request was sent over it: llama.cpp's server
    closes each one silently after a stream."""
    cause = error.__cause__
    is_closed = isinstance(cause, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError)
    return is_closed and not isinstance(cause, aiohttp.ClientConnectorError)


class Sdk(Struct, frozen=True):
    """The parts of an SDK: its errors by kind, its marker of an omitted value, and the path of a
    request. `end` matches the data after an answer's last event, `last` that event. `plain` decodes
    chunks with text alone; `find_error` finds an event's error."""

    error: type[Exception]
    status_error: type[Any]
    connection_error: type[Exception]
    not_given: object
    path: str
    end: re.Pattern[bytes]
    last: re.Pattern[bytes] = _NEVER
    plain: Decoder[PlainChunk] | None = None
    find_error: Callable[[Mapping[str, Any]], object] = failures.find_error


class SdkClient:
    """An endpoint behind an SDK. It can be created without a running loop."""

    def __init__(
        self,
        endpoint: Endpoint,
        sdk: Sdk,
        http: TimedClient,
        connect: Callable[[Mapping[str, Any]], Any],
    ):
        """Create the SDK's client: `connect` makes it from the options that both SDKs share,
        including `http`. Raises ModelRefused for an invalid address."""
        self._endpoint, self._kinds = endpoint, sdk
        try:
            timeout = httpx2.Timeout(
                endpoint.timeout, connect=min(endpoint.timeout, CONNECT_TIMEOUT)
            )
            usual = {"timeout": timeout, "max_retries": endpoint.max_retries}
            # The SDK copies a default for each option that a request omits.
            self._usual = {**usual, "headers": {}, "params": {}, "post_parser": sdk.not_given}
            self._sdk = connect(
                {
                    "api_key": endpoint.api_key or "none",
                    **usual,
                    "default_headers": wire.HEADERS,
                    "http_client": http,
                }
            )
            # The SDK would parse the address at each request.
            self._sdk._prepare_url = lru_cache(maxsize=8)(self._sdk._prepare_url)
            self._sdk._prepare_url(sdk.path)
        except httpx2.InvalidURL:
            raise failures.unsendable(endpoint) from None

    async def close(self) -> None:
        await self._sdk.close()

    async def fetch(
        self, place: str, body: Mapping[str, Any] | None = None, seconds: float = _BRIEF
    ) -> object:
        """Return the document at a place, a path of the API or a whole URL: the response to GET, or
        to POST if there is a body. Raises ModelError."""
        try:
            async with (
                asyncio.timeout(seconds),
                aclosing(await self._fetch(place, body, seconds)) as response,
            ):
                content = await wire.document(response, wire.Progress(seconds))
                return self._document(_kind(response), content)
        except TimeoutError:
            raise failures.silent_error(replace(self._endpoint, timeout=seconds)) from None
        except wire.ResponseTooLarge as error:
            raise failures.too_much(self._endpoint, str(error)) from None
        except (self._kinds.error, httpx2.HTTPError, aiohttp.ClientError, ValueError) as error:
            raise self._failure(error) from None

    async def send_file(
        self, place: str, fields: Mapping[str, str], file: tuple[str, bytes], seconds: float
    ) -> object:
        """Return the document that answers a form with a file, which has a name and content; the
        endpoint may take three times `seconds`. Raises ModelError."""
        whole = {"body": dict(fields), "files": [("file", file)]}
        headers = {"Content-Type": "multipart/form-data"}
        async with self._posted(place, seconds, headers, whole) as response:
            content = await wire.document(response, wire.Progress(PATIENCE * seconds))
            return self._document(_kind(response), content)

    async def read(self, place: str, body: Mapping[str, Any], seconds: float) -> bytes:
        """Return the short response to a request as bytes; the endpoint may take three times
        `seconds`. Raises ModelError."""
        headers = {"Content-Type": "application/json", "Accept": "*/*"}
        async with self._posted(place, seconds, headers, {"content": orjson.dumps(body)}) as got:
            return await wire.document(got, wire.Progress(PATIENCE * seconds))

    @asynccontextmanager
    async def _posted(
        self, place: str, seconds: float, headers: Mapping[str, str], whole: Mapping[str, Any]
    ) -> AsyncIterator[httpx2.Response]:
        """Yield the response to a slow request whose answer does not stream. Raises ModelError,
        also for errors while it is read."""
        patience = PATIENCE * seconds
        options = {"timeout": patience, "headers": headers}
        try:
            async with (
                asyncio.timeout(patience),
                aclosing(await self._sdk.post(place, options=options, **_RAW, **whole)) as response,
            ):
                if packed := wire.find_compression(response):
                    raise failures.compressed_answer_error(self._endpoint, packed)
                yield response
        except (TimeoutError, wire.NoProgress):
            raise failures.silent_error(replace(self._endpoint, timeout=patience)) from None
        except wire.ResponseTooLarge as error:
            raise failures.too_much(self._endpoint, str(error)) from None
        except (self._kinds.error, httpx2.HTTPError, aiohttp.ClientError, ValueError) as error:
            raise self._failure(error) from None

    async def _fetch(
        self, place: str, body: Mapping[str, Any] | None, seconds: float
    ) -> httpx2.Response:
        more = {**_RAW, "options": {"timeout": seconds, "max_retries": 0}}
        response: httpx2.Response = (
            await self._sdk.get(place, **more)
            if body is None
            else await self._sdk.post(place, content=orjson.dumps(body), **more)
        )
        return response

    async def chunks(
        self, encode: Encode, answer: Answer, options: Mapping[str, Any]
    ) -> AsyncGenerator[Iterable[object], None]:
        """Yield the chunks of an answer, parsed but not checked, in groups as they arrived;
        `options` are the SDK's for this request alone. Raises ModelError; the yielded iterables
        raise it at an invalid chunk.

        An answer that is one JSON object is one chunk. If `answer`, which the chunks are added to,
        does not grow for too long, it has broken off.
        """
        reply = await self._open(encode, options)
        kind = _kind(reply)
        progress = wire.Progress(PATIENCE * self._endpoint.timeout, answer)
        try:
            async with aclosing(reply):
                if kind.startswith(_DOCUMENTS):
                    yield self._documents(kind, await wire.document(reply, progress))
                    return
                is_over = [False]
                async with aclosing(wire.events(reply, progress)) as events:
                    async for came in events:
                        yield self._parse(came, is_over)
                        if is_over[0]:
                            await _drain(events)
                            return
        except (
            *(self._kinds.error, httpx2.HTTPError, aiohttp.ClientError),
            *(ValueError, wire.NoProgress),
        ) as error:
            raise self._break(error) from None
        except wire.NoEvents as error:
            raise self._unread(kind, error.words) from None
        except wire.ResponseTooLarge as error:
            raise failures.too_much(self._endpoint, str(error)) from None

    async def _open(self, encode: Encode, options: Mapping[str, Any]) -> httpx2.Response:
        own = {**self._usual, **options}
        try:
            reply = await self._sdk.post(self._kinds.path, content=encode(), options=own, **_RAW)
        except (
            *(self._kinds.error, httpx2.HTTPError, aiohttp.ClientError),
            *(ValueError, RuntimeError),  # of a client that was closed meanwhile
        ) as error:
            raise self._failure(error) from None
        if packing := wire.find_compression(reply):
            await reply.aclose()
            raise failures.compressed_answer_error(self._endpoint, packing)
        return cast("httpx2.Response", reply)

    def _parse(self, came: Sequence[bytes], is_over: list[bool]) -> Iterator[object]:
        """Yield the chunks of these events; `is_over` is set at the answer's end."""
        end, last, find_error = self._kinds.end, self._kinds.last, self._kinds.find_error
        plain = self._kinds.plain
        for data in decode_plain(plain, came) if plain else came:
            if isinstance(data, PlainChunk):
                yield data  # the usual case
                continue
            if end.match(data):
                is_over[0] = True
                return
            try:
                chunk = orjson.loads(data)
            except ValueError:
                chunk = None
            if type(chunk) is not dict:
                yield from self._parse_odd(data)
            elif error := find_error(chunk):
                raise failures.error_in_answer(self._endpoint, error)
            else:
                yield chunk
            if last.match(data):
                is_over[0] = True
                return

    def _parse_odd(self, data: bytes) -> Iterator[object]:
        """Yield the chunks of an event that is not a single object, as the protocols require."""
        try:
            chunks = parse_chunks(data)
        except ValueError as error:
            if is_words(data):
                raise self._unread("", data.decode("utf-8", "replace")) from None
            raise self._break(error) from None
        yield from map(self._check, chunks)

    def _check(self, value: object) -> object:
        """Return the chunk. Raises ModelError if it is an error."""
        if isinstance(value, dict) and (error := self._kinds.find_error(value)):
            raise failures.error_in_answer(self._endpoint, error)
        return value

    def _document(self, kind: str, content: bytes) -> object:
        try:
            return self._check(parse_chunk(content))
        except ValueError:
            raise self._unread(kind, content.decode("utf-8", "replace")) from None

    def _documents(self, kind: str, content: bytes) -> Iterator[object]:
        """Yield the chunks of an answer that came in one piece, which may contain events all the
        same."""
        if not content.strip():
            return
        try:
            chunks = parse_chunks(content)
        except ValueError:
            found, words = split_events(content)
            if not found or content.lstrip()[:1] in (b"{", b"["):
                found, words = [], content
            if not found:
                raise self._unread(kind, words.decode("utf-8", "replace")) from None
            yield from self._parse(found, [False])
            return
        yield from map(self._check, chunks)

    def _unread(self, kind: str, words: str) -> ModelError:
        """Return the error for a response that is not an answer: a web page, or a server's plain
        message."""
        plain = words.strip()
        if plain.startswith("<") or not is_words(plain.encode(errors="replace")):
            return failures.wrong_protocol_error(
                self._endpoint, "html" if plain[:1] == "<" else kind
            )
        return failures.error_in_answer(self._endpoint, plain)

    def _failure(self, error: Exception) -> ModelError:
        """Return the error of a request whose answer had not begun."""
        if isinstance(error, self._kinds.status_error):
            response: httpx2.Response = error.response
            if response.is_redirect:
                return failures.redirect(self._endpoint, response.headers.get("location", ""))
            wait = read_wait(response.headers, response.status_code)
            return failures.refusal(self._endpoint, response.status_code, response.text, wait)
        lost = (self._kinds.connection_error, httpx2.HTTPError, RuntimeError)
        is_lost = isinstance(error, lost)
        cause = (
            error.__cause__ if isinstance(error, self._kinds.connection_error) else error
        )  # one of the SDKs hides it in an error of its own
        if isinstance(cause, aiohttp.ClientError):
            return failures.wrong_protocol_error(self._endpoint, "")
        if not is_lost or isinstance(cause, ValueError):
            return failures.unsendable(self._endpoint)
        if _is_silence(error):
            return failures.silent_error(self._endpoint)
        return failures.unreachable(self._endpoint)

    def _break(self, error: Exception) -> ModelError:
        """Return the error of an answer that had begun."""
        is_reported = isinstance(error, self._kinds.error)
        if is_reported and not isinstance(error, self._kinds.connection_error):
            return failures.error_in_answer(self._endpoint, getattr(error, "body", None))
        if isinstance(error, wire.NoProgress):
            return failures.no_progress(self._endpoint, error.seconds)
        if _is_silence(error):
            return failures.answer_stalled_error(self._endpoint)
        return failures.connection_broken_error(self._endpoint)


async def _drain(events: AsyncGenerator[list[bytes], None]) -> None:
    """Read the little data after the end of an answer, so that the connection can be reused; it is
    closed if more comes, or if it stays open."""
    with suppress(TimeoutError, httpx2.HTTPError, wire.ResponseTooLarge, wire.NoProgress):
        async with asyncio.timeout(_DRAIN):
            async for _ in events:
                pass


def _is_silence(error: Exception) -> bool:
    # The SDK's aiohttp transport reports a refused connection as a time-out too; the cause is
    # exact.
    return any(isinstance(one, httpx2.ReadTimeout) for one in (error, error.__cause__))


def _kind(response: httpx2.Response) -> str:
    return response.headers.get("content-type", "").lower()
