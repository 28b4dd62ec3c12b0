"""The tool `web_fetch`: a page of the public web as text. It is off until an owner turns it on."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from plugins.api import Permission, Tool, ToolContext, hookimpl, tool

if TYPE_CHECKING:
    from yarl import URL

    from agent.tools.web import Fetcher, WebPage

SHOWN = 50_000
"""Characters of a page that are shown at a time."""


WHOLE = "#whole"
"""At the end of an address: the whole page is wanted, and not its main content alone. No server is
sent it, and it costs nothing in requests where nobody needs it."""


@cache
def make_tool(fetcher: Fetcher | None = None) -> Tool:
    """The tool, with what reads pages (None: what reads the public web alone)."""

    @tool(touches={"network"}, switch="web_fetch", asks_first=False)
    async def web_fetch(
        context: ToolContext,
        url: Annotated[str, Field(min_length=1, max_length=4_000)],
        offset: Annotated[int, Field(ge=0)] = 0,
    ) -> str:
        """Read a web page as text with links."""
        from agent.tools import web  # noqa: PLC0415 - slow import

        page = await (fetcher or web.Fetcher()).page(url, partial(_ask, context))
        return format_page(page, offset, is_whole=url.endswith(WHOLE))

    return web_fetch


async def _ask(context: ToolContext, url: URL) -> None:
    """Ask before a site is read for the first time; a redirect to another one is asked anew."""
    site = str(url.origin())
    await context.approve(Permission(f"Read this web page:\n\n```\n{url}\n```", covers=site))


def format_page(page: WebPage, offset: int, *, is_whole: bool = True) -> str:
    """A part of a page, as the model reads it; where it is the main content, that is said."""
    is_main = bool(page.main) and not is_whole
    text = page.main if is_main else page.text
    shown = text[offset : offset + SHOWN]
    rest = len(text) - offset - len(shown)
    more = f"\n\n[{rest:,} more characters; offset {offset + len(shown)} shows them.]"
    cut = "\n\n[The page is longer; the rest was not read.]"
    around = f"\n\n[This is the main content; {WHOLE} after the address shows all.]" * is_main
    return f"{page.address}\n\n{shown}{more if rest > 0 else cut if page.is_cut else ''}{around}"


@hookimpl
def parley_tools() -> list[Tool]:
    return [make_tool()]
