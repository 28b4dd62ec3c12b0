"""The tool `web_search`: what a search engine of the owner's choice finds. It is there once
`tools.web_search.provider` is set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from plugins.api import Permission, Tool, ToolContext, hookimpl, tool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.tools.web_search import WebResult


@tool(touches={"network"}, switch="can_search", asks_first=False)
async def web_search(
    context: ToolContext,
    query: Annotated[str, Field(min_length=1, max_length=400)],
) -> str:
    """Search the web; cite what you use by its address."""
    from agent.tools import web_search as engines  # noqa: PLC0415 - slow import

    settings = context.settings.web_search
    place = engines.place_of(settings)
    shown = "".join(c if c.isprintable() and c != "`" else " " for c in query)
    what = f"Search the web at {place.host} for:\n\n```\n{shown}\n```"
    await context.approve(Permission(what, covers=f"search {place.origin()}"))
    return format_results(await engines.search(settings, query), query)


def format_results(found: Sequence[WebResult], query: str) -> str:
    """The results as the model reads them, numbered."""
    if not found:
        return f"Nothing was found for {query!r}."
    return "\n\n".join(
        "\n".join(filter(None, (f"[{n}] {one.title}", one.address, one.snippet)))
        for n, one in enumerate(found, 1)
    )


@hookimpl
def parley_tools() -> list[Tool]:
    return [web_search]
