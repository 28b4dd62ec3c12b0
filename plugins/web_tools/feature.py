"""The tools `web_fetch`, off until an owner turns it on, and `web_search`, by a provider of the
owner's choice (SearXNG, Brave, Tavily), whose URL may be on this machine and whose redirects are
not followed. Results are untrusted, and are opened by `web_fetch` alone, with its own checks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from functools import cache, partial
from html import unescape
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import aiohttp
import orjson
from msgspec import Struct, field
from pydantic import Field
from yarl import URL

from agent.tools import ToolError
from bot.checks import Finding
from bot.settings import Settings
from plugins.api import Permission, Tool, ToolContext, hookimpl, tool
from plugins.web_tools.settings import WebSearch, WebToolSettings

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
            answer = await _ask_service(place, protocol, _make_request(settings, query))
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


async def _ask_service(place: URL, protocol: _Protocol, request: _Request) -> Any:
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


if TYPE_CHECKING:
    from collections.abc import Sequence

    from yarl import URL

    from plugins.web_tools.pages import Fetcher, WebPage

SHOWN = 50_000
"""The maximum of characters of a page shown at a time."""


WHOLE = "#whole"
"""The suffix of a URL that requests the whole page in place of its main content. It is never sent
to a server, and adds nothing to requests that don't need it."""


@cache
def make_tool(fetcher: Fetcher | None = None) -> Tool:
    """Return the tool, with its fetcher (None: one for the public web only)."""

    @tool(touches={"network"}, switch="web_fetch", asks_first=False)
    async def web_fetch(
        context: ToolContext,
        url: Annotated[str, Field(min_length=1, max_length=4_000)],
        offset: Annotated[int, Field(ge=0)] = 0,
    ) -> str:
        """Read a web page as text with links."""
        from plugins.web_tools import pages  # noqa: PLC0415 - slow import

        page = await (fetcher or pages.Fetcher()).page(url, partial(_ask, context))
        return format_page(page, offset, is_whole=url.endswith(WHOLE))

    return web_fetch


async def _ask(context: ToolContext, url: URL) -> None:
    """Ask before a site is read for the first time; a redirect to another site asks again."""
    site = str(url.origin())
    await context.approve(Permission(f"Read this web page:\n\n```\n{url}\n```", covers=site))


def format_page(page: WebPage, offset: int, *, is_whole: bool = True) -> str:
    """Return a part of a page for the model, with a note if it is only the main content."""
    is_main = bool(page.main) and not is_whole
    text = page.main if is_main else page.text
    shown = text[offset : offset + SHOWN]
    rest = len(text) - offset - len(shown)
    more = f"\n\n[{rest:,} more characters; offset {offset + len(shown)} shows them.]"
    cut = "\n\n[The page is longer; the rest was not read.]"
    around = f"\n\n[This is the main content; {WHOLE} after the address shows all.]" * is_main
    return f"{page.address}\n\n{shown}{more if rest > 0 else cut if page.is_cut else ''}{around}"


@tool(touches={"network"}, switch="can_search", asks_first=False)
async def web_search(
    context: ToolContext,
    query: Annotated[str, Field(min_length=1, max_length=400)],
) -> str:
    """Search the web; cite what you use by its address."""
    from plugins.web_tools import feature  # noqa: PLC0415 - slow import

    settings = context.section(WebToolSettings).web_search
    place = feature.place_of(settings)
    shown = "".join(c if c.isprintable() and c != "`" else " " for c in query)
    what = f"Search the web at {place.host} for:\n\n```\n{shown}\n```"
    await context.approve(Permission(what, covers=f"search {place.origin()}"))
    return format_results(await feature.search(settings, query), query)


def format_results(found: Sequence[WebResult], query: str) -> str:
    """Return the results for the model, numbered."""
    if not found:
        return f"Nothing was found for {query!r}."
    return "\n\n".join(
        "\n".join(filter(None, (f"[{n}] {one.title}", one.address, one.snippet)))
        for n, one in enumerate(found, 1)
    )


@hookimpl
def parley_tools() -> list[Tool]:
    return [make_tool(), web_search]


def list_risks(settings: Settings) -> Iterator[Finding]:
    """Yield the tools that are on, as risks."""
    tools = settings.section(WebToolSettings)
    if tools.web_fetch:
        yield Finding(
            "web tools", "note", "The model may ask to read pages.", "/config tools.web_fetch false"
        )
    if tools.can_search:
        yield Finding(
            "web tools",
            "note",
            "The model may ask to search the web.",
            'take "web_search" out of the configuration',
        )
