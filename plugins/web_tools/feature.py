"""The tools `web_fetch`, a public web page as text, which is off until an owner turns it on, and
`web_search`, the results of a search engine of the owner's choice, which is offered once
`tools.web_search.provider` is set."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from plugins.api import Permission, Tool, ToolContext, hookimpl, tool
from plugins.web_tools.settings import WebToolSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yarl import URL

    from plugins.web_tools.pages import Fetcher, WebPage
    from plugins.web_tools.search import WebResult

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
    from plugins.web_tools import search  # noqa: PLC0415 - slow import

    settings = context.section(WebToolSettings).web_search
    place = search.place_of(settings)
    shown = "".join(c if c.isprintable() and c != "`" else " " for c in query)
    what = f"Search the web at {place.host} for:\n\n```\n{shown}\n```"
    await context.approve(Permission(what, covers=f"search {place.origin()}"))
    return format_results(await search.search(settings, query), query)


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
