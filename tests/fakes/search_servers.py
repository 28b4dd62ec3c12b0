"""A strict loopback server that speaks the search protocols of SearXNG, Brave and Tavily.

Written from their documentation: docs.searxng.org/dev/search_api, the reference of Brave's Web
Search API, and docs.tavily.com. It refuses the same requests as the real servers, with their
errors.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

KEY = "search-key-1234567890"


@dataclass
class SearchServer:
    """`results` are the results of each search: title, address, snippet. `queries` are the queries
    received; `answer`, if set, replaces the response."""

    results: list[tuple[str, str, str]] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    answer: Callable[[], web.StreamResponse] | None = None
    speaks_json: bool = True
    url: str = ""

    async def searxng(self, request: web.Request) -> web.StreamResponse:
        query = request.query.get("q", "")
        if unknown := set(request.query) - {"q", "format", "pageno", "language", "safesearch"}:
            raise AssertionError(f"SearXNG knows no {unknown}")
        if not query:
            return web.json_response({"error": "No query"}, status=400)
        if request.query.get("format") != "json":
            return web.Response(text="<html>results</html>", content_type="text/html")
        if not self.speaks_json:
            return web.Response(text="403 Forbidden", status=403)
        found = [
            {"title": title, "url": url, "content": text, "engine": "duckduckgo", "score": 1.0}
            for title, url, text in self.results
        ]
        body = {"query": query, "number_of_results": 0, "results": found, "answers": []}
        return self._found(query, body)

    async def brave(self, request: web.Request) -> web.StreamResponse:
        query = request.query.get("q", "")
        if request.headers.get("X-Subscription-Token") != KEY:
            error = {"id": "1", "status": 422, "code": "SUBSCRIPTION_TOKEN_INVALID"}
            return web.json_response({"type": "ErrorResponse", "error": error}, status=401)
        if not query or len(query) > 400 or not 1 <= int(request.query.get("count", "20")) <= 20:
            error = {"id": "1", "status": 422, "code": "VALIDATION"}
            return web.json_response({"type": "ErrorResponse", "error": error}, status=422)
        found = [
            {"title": title, "url": url, "description": text, "is_source_local": False}
            for title, url, text in self.results
        ]
        web_results = {"type": "search", "results": found[: int(request.query["count"])]}
        body = {"type": "search", "query": {"original": query}, "web": web_results}
        return self._found(query, body if found else {"type": "search"})

    async def tavily(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            detail = {"error": "Unauthorized: missing or invalid API key."}
            return web.json_response({"detail": detail}, status=401)
        body: dict[str, Any] = await request.json()
        known = {"query", "max_results", "search_depth", "topic", "include_answer"}
        is_right = set(body) <= known and body.get("query") and 0 <= body["max_results"] <= 20
        if not is_right or body["search_depth"] not in ("basic", "advanced"):
            return web.json_response({"detail": {"error": "Invalid request"}}, status=400)
        found = [
            {"title": title, "url": url, "content": text, "score": 0.9, "raw_content": None}
            for title, url, text in self.results[: body["max_results"]]
        ]
        query = body["query"]
        whole = {"query": query, "answer": None, "images": [], "results": found}
        return self._found(query, whole | {"response_time": "1.67", "request_id": "1"})

    def _found(self, query: str, body: dict[str, Any]) -> web.StreamResponse:
        self.queries.append(query)
        return self.answer() if self.answer else web.json_response(body)


@asynccontextmanager
async def searching() -> AsyncIterator[SearchServer]:
    """All three servers, on one port."""
    server, app = SearchServer(), web.Application()
    app.router.add_get("/search", server.searxng)
    app.router.add_post("/search", server.tavily)
    app.router.add_get("/res/v1/web/search", server.brave)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()
