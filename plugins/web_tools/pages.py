"""Pages of the public web only. Every IP address is checked, and the connection is made to the
checked address, so that a second answer of a name server has no effect."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from msgspec import Struct
from yarl import URL

from agent.tools import ToolError
from agent.tools.child_process import ReaderProcess
from agent.tools.page import decode, text_of
from agent.tools.schema import in_a_thread
from memory.faults import STRANGE_ANSWER, describe_fault

log = logging.getLogger(__name__)

MOST_REDIRECTS = 5
LARGEST = 2_000_000
"""The maximum of bytes read of a page, after decompression."""
SECONDS = 30.0
"""The time limit of each request, from the name lookup to the last byte."""
READING = 10
"""The seconds for extracting the main content of a page; after that, the whole page is used."""
MEGABYTES = 800
"""The memory limit of the process."""
SHORT = 4_000
"""The characters of a page's text up to which it is used as a whole, without extraction."""
_LEAST = 500  # characters; less is probably not the main content
_READER = Path(__file__).with_name("page_reader.py")
_TYPES = ("text/", "application/json", "application/xml", "application/xhtml+xml")
_ENDINGS = ("+json", "+xml")
_TRANSLATED = IPv6Network("64:ff9b::/96")  # IPv4 behind a translator (RFC 6052)
_GLOBAL = IPv6Network("2000::/3")  # all addresses ever assigned (RFC 4291)

Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""A function that returns the IP addresses of a name. Raises OSError."""


class FetchRefused(OSError):
    """A page must not be read from this address. An OSError, because a socket factory may raise
    one."""


def is_public(address: str) -> bool:
    """Return whether an IP address is public, including one that is wrapped in an IPv6 address."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, IPv4Address):
        return ip.is_global and not (ip.is_multicast or ip.is_reserved)
    inner = _inner(ip)
    return is_public(str(inner)) if inner is not None else ip.is_global and ip in _GLOBAL


def _inner(ip: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address wraps."""
    if ip in _TRANSLATED:
        return IPv4Address(int(ip) & 0xFFFF_FFFF)
    return ip.ipv4_mapped or ip.sixtofour


async def resolve_host(host: str) -> list[str]:
    """Return the IP addresses that the system finds for a name; it also accepts "2130706433" and
    "0177.1"."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(place[0]) for *_, place in found]


class WebPage(Struct, frozen=True):
    """A page that was read: its final URL, and its text; `is_cut` if it is incomplete. `main` is
    the main content of an HTML page, "" if it was not extracted or not found."""

    address: str
    text: str
    is_cut: bool
    main: str = ""


class Fetcher:
    """Reads pages. Only tests set `resolve` and `allows`."""

    def __init__(
        self, resolve: Resolve = resolve_host, allows: Callable[[str], bool] = is_public
    ) -> None:
        self._resolve, self._allows = resolve, allows

    async def page(self, address: str, approve: Callable[[URL], Awaitable[None]]) -> WebPage:
        """Return the page at a URL, after redirects, each of which is checked like the first one.
        `approve` is called before each request, and may raise ToolError, as this method does."""
        url = _check_address(address)
        for _ in range(MOST_REDIRECTS + 1):
            await approve(url)
            found = await self._get(url)
            if isinstance(found, WebPage):
                return found
            url = found
        raise ToolError(f"{address[:200]} redirects more than {MOST_REDIRECTS} times.")

    async def _get(self, url: URL) -> WebPage | URL:
        """Return the page, or the URL that it redirects to."""
        try:
            async with asyncio.timeout(SECONDS):
                return await self._request(url)
        except TimeoutError:
            raise ToolError(f"{url.host} did not answer within {SECONDS:g} s.") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if refusal := _refusal(error):
                raise ToolError(str(refusal)) from None
            raise ToolError(
                f"{url.host} can't be read: {describe_fault(error, STRANGE_ANSWER)}."
            ) from None

    async def _request(self, url: URL) -> WebPage | URL:
        connector = aiohttp.TCPConnector(
            resolver=_Names(self._resolve, self._check),
            socket_factory=self._socket,
            use_dns_cache=False,
            force_close=True,
        )
        jar, headers = aiohttp.DummyCookieJar(), {"User-Agent": "Parley", "Accept": "text/*, */*"}
        async with (
            aiohttp.ClientSession(connector=connector, cookie_jar=jar, headers=headers) as session,
            session.get(url, allow_redirects=False) as response,
        ):
            if response.status in (301, 302, 303, 307, 308) and "Location" in response.headers:
                return _check_address(str(url.join(URL(response.headers["Location"]))))
            if response.status >= 400:
                raise ToolError(f"{url.host} answered with the error {response.status}.")
            return await _read(url, response)

    def _check(self, host: str, address: str) -> None:
        if not self._allows(address):
            raise FetchRefused(
                f"{host} is not on the public internet ({address}); only public pages can be read."
            )

    def _socket(self, info: Any) -> socket.socket:
        """Return a socket for a new connection. This is the last check, for every address, also for
        a literal one, for which no name is looked up."""
        family, kind, protocol, _, place = info
        self._check(place[0], place[0])
        return socket.socket(family, kind, protocol)


class _Names(AbstractResolver):
    """Name resolution for aiohttp; a name with a non-public address is refused."""

    def __init__(self, resolve: Resolve, check: Callable[[str, str], None]) -> None:
        self._resolve, self._check = resolve, check

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        addresses = list(dict.fromkeys(await self._resolve(host)))
        for address in addresses:
            self._check(host, address)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        """Do nothing: there are no resources."""


def _check_address(address: str) -> URL:
    try:
        url = URL(address.strip())
    except ValueError:
        raise ToolError(f"{address[:200]!r} is not the address of a page.") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ToolError(f"{address[:200]!r} can't be read; only http:// and https:// can.")
    if url.user or url.password:
        raise ToolError("Addresses with a user name or a password in them are not read.")
    return url.with_fragment(None)


async def _read(url: URL, response: aiohttp.ClientResponse) -> WebPage:
    kind = response.content_type
    if not kind.startswith(_TYPES) and not kind.endswith(_ENDINGS):
        raise ToolError(f"{url} is of the type {kind}; only text can be read.")
    body = bytearray()
    async for piece in response.content.iter_chunked(65_536):
        body += piece
        if len(body) > LARGEST:
            break
    content, label = bytes(body[:LARGEST]), response.charset
    is_html, is_cut = "html" in kind, len(body) > LARGEST
    flags = {"is_html": is_html, "is_cut": is_cut}
    values = {"address": str(url), "content": content, "label": label, **flags}
    page: WebPage = await in_a_thread(_make_page, values)  # it may wait for a free slot
    return page


def _make_page(
    address: str, content: bytes, label: str | None, is_html: bool, is_cut: bool
) -> WebPage:
    decoded = decode(content, label)
    if not is_html:
        return WebPage(address, decoded, is_cut)
    text = text_of(decoded)
    main = find_main_content(decoded, address) if len(text) > SHORT else ""
    return WebPage(address, text, is_cut, main)


def find_main_content(html: str, address: str) -> str:
    """Return the main content of a page as Markdown, without menus and banners; "" if none is
    found, for any page. It takes a second of computing, mostly to start; call it in a thread."""
    try:
        done = ReaderProcess(_READER, MEGABYTES, READING).run(
            address,
            patience=2 * READING,
            input=html.encode("utf-8", "replace"),
            capture_output=True,
        )
    except (subprocess.TimeoutExpired, OSError, ValueError, ToolError) as error:
        log.info("no main content was found of %s: %s", address, type(error).__name__)
        return ""
    if done.returncode:
        log.info("no main content was found of %s: exit code %d", address, done.returncode)
        return ""
    text = done.stdout.decode("utf-8", "replace").strip()
    return text if len(text) >= _LEAST else ""


def _refusal(error: BaseException | None) -> FetchRefused | None:
    """Return the refusal that caused an error, if there is one."""
    while error is not None and not isinstance(error, FetchRefused):
        error = getattr(error, "os_error", None) or error.__cause__ or error.__context__
    return error
