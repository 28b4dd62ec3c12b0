"""Web search by a provider of the owner's choice: SearXNG, Brave or Tavily.

The provider's URL was set by the bot's owner, so it may be on this machine; redirects are not
followed. The results are untrusted, limited in size, and never opened here: `web_fetch` reads their
pages, with its own checks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Any, Literal, NamedTuple

import aiohttp
import orjson
from msgspec import Struct, field
from yarl import URL

from agent.tools import ToolError
from plugins.web_tools.settings import WebSearch

SECONDS = 20.0
"""The time limit of a search, from the name lookup to the last byte."""
LARGEST = 2_000_000
"""The maximum of bytes read of an answer."""
_LONGEST_TITLE, _LONGEST_ADDRESS, _LONGEST_SNIPPET = 200, 1_000, 600  # maximum characters


class WebResult(NamedTuple):
    """A result: the page's title, its URL, and an excerpt that matches the query."""

    title: str
    address: str
    snippet: str


class _Protocol(Struct, frozen=True):
    """The protocol of a provider. `places` is the path to the list of results in its answer;
    `snippet` is the name of the excerpt's field."""

    url: str
    path: str
    places: tuple[str, ...]
    snippet: str
    method: Literal["GET", "POST"] = "GET"
    needs_key: bool = True


_PROTOCOLS = {
    "searxng": _Protocol("", "search", ("results",), "content", needs_key=False),
    "brave": _Protocol(
        "https://api.search.brave.com", "res/v1/web/search", ("web", "results"), "description"
    ),
    "tavily": _Protocol("https://api.tavily.com", "search", ("results",), "content", "POST"),
}


class _Request(Struct, frozen=True):
    """The parts of a search request."""

    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


def place_of(settings: WebSearch) -> URL:
    """Return the URL of the search. Raises ToolError if a setting is missing, or is not a URL."""
    protocol = _PROTOCOLS[settings.provider]
    if not (settings.base_url or protocol.url):
        raise ToolError(_wants("base_url", "the address of your SearXNG"))
    if protocol.needs_key and not settings.api_key:
        raise ToolError(_wants("api_key", "a key, as {{secret.NAME}}"))
    try:
        return URL(settings.base_url or protocol.url).joinpath(*protocol.path.split("/"))
    except ValueError:
        raise ToolError(_wants("base_url", "an address with http:// or https://")) from None


def _wants(name: str, what: str) -> str:
    return (
        f"Nothing was searched: tools.web_search.{name} must be {what}. Tell the owner, who can "
        "set it in the configuration."
    )


async def search(settings: WebSearch, query: str) -> list[WebResult]:
    """Return the provider's results, best first, at most as many as configured. Raises
    ToolError."""
    place, protocol = place_of(settings), _PROTOCOLS[settings.provider]
    try:
        async with asyncio.timeout(SECONDS):
            answer = await _ask(place, protocol, _make_request(settings, query))
    except TimeoutError:
        raise ToolError(f"{place.host} did not answer the search within {SECONDS:g} s.") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ToolError(
            f"The search failed: {place.host} can't be read ({_brief(error)})."
        ) from None
    return _read_results(answer, protocol)[: settings.results]


def _make_request(settings: WebSearch, query: str) -> _Request:
    most, key = settings.results, settings.api_key
    if settings.provider == "brave":
        asked = {"q": query, "count": str(most), "text_decorations": "false"}
        return _Request(asked, {"X-Subscription-Token": key})
    if settings.provider == "tavily":
        body = orjson.dumps({"query": query, "max_results": most, "search_depth": "basic"})
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        return _Request(headers=headers, body=body)
    return _Request({"q": query, "format": "json"})


async def _ask(place: URL, protocol: _Protocol, request: _Request) -> Any:
    """Return the answer, as JSON. Raises ToolError, and aiohttp's errors."""
    headers = {"User-Agent": "Parley", "Accept": "application/json", **request.headers}
    async with (
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), headers=headers) as session,
        session.request(
            protocol.method,
            place.update_query(request.query) if request.query else place,
            data=request.body,
            allow_redirects=False,
        ) as response,
    ):
        if response.status != 200:
            raise ToolError(_refusal(response.status, place))
        body = bytearray()
        async for piece in response.content.iter_chunked(65_536):
            body += piece
            if len(body) > LARGEST:
                raise ToolError(f"The search failed: {place.host} sent more than 2 MB.")
    return orjson.loads(bytes(body))


def _refusal(status: int, place: URL) -> str:
    """Return the reason for an error status, and who can fix it."""
    reason = f"{place.host} answered the search with the error {status}"
    if status in (401, 403) and place.path.endswith("/res/v1/web/search"):
        return f"{reason}: it does not take the key. Tell the owner."
    if status == 403:
        return (
            f"{reason}. A SearXNG does so where its settings.yml does not list json under "
            "search.formats. Tell the owner."
        )
    if status == 401:
        return f"{reason}: it does not take the key. Tell the owner."
    if status in (429, 432, 433):
        return f"{reason}: it takes no more searches for now. Try later, or tell the owner."
    return f"{reason}."


def _read_results(answer: Any, protocol: _Protocol) -> list[WebResult]:
    """Return the results of an answer, each page once. Raises ToolError if the answer is
    malformed."""
    for place in protocol.places:
        if not isinstance(answer, dict):
            raise ToolError("The search failed: what came back is no list of results.")
        answer = answer.get(place) or []
    if not isinstance(answer, list):
        raise ToolError("The search failed: what came back is no list of results.")
    by_address = {found.address: found for found in reversed([*_readable(answer, protocol)])}
    return [*reversed(by_address.values())]


def _readable(results: list[Any], protocol: _Protocol) -> Iterator[WebResult]:
    for one in results:
        if not isinstance(one, dict):
            continue
        address = _flat(one.get("url"))
        if not address.startswith(("http://", "https://")) or len(address) > _LONGEST_ADDRESS:
            continue
        title, snippet = _flat(one.get("title")), _flat(one.get(protocol.snippet))
        yield WebResult(_cut(title, _LONGEST_TITLE), address, _cut(snippet, _LONGEST_SNIPPET))


def _flat(value: object) -> str:
    """Return a text on one line, without unprintable characters."""
    text = unescape(value[:10_000]) if isinstance(value, str) else ""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _brief(error: BaseException) -> str:
    return " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
