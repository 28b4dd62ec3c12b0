"""Tests of MCP servers at an address: restarted, killed, large, and with unreadable answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.tools import ToolError
from plugins.mcp import ServerDown
from plugins.mcp.catalogue import ListedTool
from plugins.mcp.client import connect
from plugins.mcp.session import MOST_FAILURES, ServerSession, ServerTimeouts
from plugins.mcp.settings import McpServer
from tests.mcp.fakes.http_server import REFUSALS, TOOL, McpHttpServer
from tests.waiting import until

NEVER = 60.0  # seconds; no test waits that long


class Watched:
    """A session with a server, and the lists of tools that it reported."""

    def __init__(self, url: str, folder: Path) -> None:
        settings = McpServer(name="loop", url=url)
        self.listed: list[Sequence[ListedTool]] = []
        self.down: list[str] = []

        async def make() -> object:
            return connect(settings, str, folder)

        self.session = ServerSession(
            "loop",
            make,  # type: ignore[arg-type]
            self,
        )

    @property
    def timeouts(self) -> ServerTimeouts:
        return ServerTimeouts(NEVER, NEVER, 0)

    async def keep_listing(self, server: str, listed: Sequence[ListedTool]) -> None:
        self.listed.append(listed)

    def alert_down(self, server: str, why: str) -> None:
        self.down.append(why)

    async def call(self) -> str:
        return await self.session.call("act", {})

    async def fails(self) -> str:
        with pytest.raises((ServerDown, ToolError)) as raised:
            await self.call()
        return str(raised.value)


@asynccontextmanager
async def watching(server: McpHttpServer, folder: Path) -> AsyncIterator[Watched]:
    async with server, asyncio.timeout(NEVER):
        watched = Watched(server.url, folder)
        try:
            yield watched
        finally:
            await watched.session.stop()


KINDS = [("http", True), ("http", False), ("sse", True)]


@pytest.mark.parametrize(
    ("kind", "is_json", "refusal", "restarts"),
    [  # five are more failures than the limit that locks a server out
        *((kind, is_json, "python", 5) for kind, is_json in KINDS),
        *(("http", True, refusal, 1) for refusal in REFUSALS if refusal != "python"),
    ],
)
async def test_a_call_after_a_restart_is_made_once_in_a_new_session(
    tmp_path: Path, kind: str, is_json: bool, refusal: str, restarts: int
) -> None:
    server = McpHttpServer(kind, refusal, is_json)
    async with watching(server, tmp_path) as watched:
        for _ in range(restarts):
            assert await watched.call() == "Acted."
            if kind == "http":
                await server.restart()
                continue
            await server.restart()
            await watched.session.check()  # the end of its stream is noticed
        server.tools = [TOOL, {**TOOL, "name": "more"}]
        await server.restart()
        await watched.session.check()
        assert await watched.call() == "Acted."
    assert server.calls == ["act"] * (restarts + 1)
    assert [one.name for one in watched.listed[-1]] == ["act", "more"]
    assert watched.down == []


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_server_that_is_gone_is_known_to_be_and_used_again_when_it_is_back(
    tmp_path: Path, kind: str
) -> None:
    server = McpHttpServer(kind)
    async with watching(server, tmp_path) as watched:
        assert await watched.call() == "Acted."
        await server.stop()
        await watched.session.check()
        assert not watched.session.is_running
        told = await watched.fails()
        assert "it can't be reached" in told
        assert "may have happened" not in told, "it was not even asked"
        await server.start()
        assert await watched.call() == "Acted."
        assert watched.session.why_down == ""


async def test_a_server_that_answers_in_between_is_never_left_alone(tmp_path: Path) -> None:
    server = McpHttpServer("http")
    async with watching(server, tmp_path) as watched:
        for _ in range(MOST_FAILURES + 1):
            assert await watched.call() == "Acted."
            await server.stop()
            await watched.session.check()
            assert "it can't be reached" in await watched.fails()
            await server.start()
        assert await watched.call() == "Acted."


async def test_the_end_of_its_stream_tells_that_a_server_was_restarted(tmp_path: Path) -> None:
    """No request is needed to notice it."""
    server = McpHttpServer("http", "example")
    server.has_stream = True
    async with watching(server, tmp_path) as watched:
        assert await watched.call() == "Acted."
        await server.restart()
        await until(lambda: not watched.session.is_running)  # the SDK reopens its stream
        assert await watched.call() == "Acted."
    assert watched.down == []


@pytest.mark.parametrize(("kind", "is_json"), KINDS)
async def test_a_call_that_a_killed_server_was_at_fails_at_once_and_is_not_made_again(
    tmp_path: Path, kind: str, is_json: bool
) -> None:
    server = McpHttpServer(kind, is_json=is_json)
    async with watching(server, tmp_path) as watched:
        await watched.session.ready()
        server.may_answer.clear()
        calling = asyncio.create_task(watched.fails())
        await server.is_asked.wait()
        await server.stop()
        assert "what it was asked for may have happened" in await calling
        server.may_answer.set()
        await server.start()
        assert await watched.call() == "Acted."
    assert server.calls == ["act"]


async def test_what_always_refuses_is_asked_twice_and_no_more(tmp_path: Path) -> None:
    server = McpHttpServer("http")
    server.answer = b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "No."}}'
    server.answer_status = 400
    async with watching(server, tmp_path) as watched:
        assert "The server refused this: No." in await watched.fails()
    assert server.calls == ["act", "act"]


@pytest.mark.parametrize(("kind", "is_json"), KINDS)
async def test_a_large_result_is_taken_and_ends_nothing(
    tmp_path: Path, kind: str, is_json: bool
) -> None:
    server = McpHttpServer(kind, is_json=is_json)
    async with watching(server, tmp_path) as watched:
        for _ in range(2):  # which are too large together
            server.text = "x" * 3_500_000
            assert (await watched.call()).startswith("x" * 800_000)
        server.text = "x" * 5_000_000
        assert "it is longer than 4 MB; what it was asked for may" in await watched.fails()
        server.text = "short"
        assert await watched.call() == "short"
    assert len(watched.listed) == 1, "one connection"


BROKEN = {
    b'{"jsonrpc": "2.0", "id": $ID, "result": {"content": [': "it is no valid JSON",
    b'{"jsonrpc": "2.0", "id": $ID}': "neither a result nor an error",
    b'{"jsonrpc": "2.0", "id": $ID, "result": 5}': "its result is not of the protocol",
    b'{"jsonrpc": "2.0", "id": $ID, "result": ' + b"[" * 90_000: "it is nested too deeply",
    b'{"jsonrpc": "2.0", "id": null, "error": {"message": "Eh?"}}': "(Eh?)",
}


@pytest.mark.parametrize(("kind", "is_json"), KINDS)
async def test_an_answer_that_can_not_be_read_fails_its_call_at_once_and_no_other(
    tmp_path: Path, kind: str, is_json: bool, subtests: pytest.Subtests
) -> None:
    server = McpHttpServer(kind, is_json=is_json)
    async with watching(server, tmp_path) as watched:
        for answer, reason in BROKEN.items():
            with subtests.test(answer=answer[:60]):
                server.answer = answer
                told = await watched.fails()
                assert "its answer can't be read: " in told
                assert reason in told
                server.answer = None
                assert await watched.call() == "Acted."
    assert len(watched.listed) == 1
    assert server.calls == ["act"] * 2 * len(BROKEN)


STATUSES = {
    (200, "text/html", b"<html>Sign in</html>"): "it is text/html, not JSON",
    (200, "application/json", b""): "it is empty",
    (202, "application/json", b""): "it is empty",
    (200, "application/json", b'"hello"'): "it is no message of the protocol",
    (500, "text/html", b"<html>Oh</html>"): "it answered with the status 500",
    (502, "text/plain", b"no upstream"): "it answered with the status 502 (no upstream)",
    (401, "text/plain", b""): "status 401 (it wants a key, in `headers`)",
    (500, "application/json", b'{"error": "x"}'): "status 500",
    (
        200,
        "application/json",
        b'{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"a is missing"}}',
    ): "The server refused this: a is missing",
    (
        400,
        "application/json",
        b'{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"a is missing"}}',
    ): "The server refused this: a is missing",
}


async def test_what_http_says_is_told(tmp_path: Path, subtests: pytest.Subtests) -> None:
    server = McpHttpServer()
    async with watching(server, tmp_path) as watched:
        for answer, told in STATUSES.items():
            with subtests.test(answer=answer):
                server.answer_status, server.answer_type, server.answer = answer
                assert told in await watched.fails()
                server.answer_status, server.answer_type, server.answer = 200, "", None
                assert await watched.call() == "Acted."
    assert len(server.calls) == 2 * len(STATUSES)
    assert len(watched.listed) == 1


async def test_an_address_of_nothing_says_so(tmp_path: Path) -> None:
    async with McpHttpServer() as server:
        session = Watched(f"{server.url}/other", tmp_path).session
        with pytest.raises(ServerDown, match=r"status 404 \(is the address right\?\)"):
            await session.ready()


async def test_a_tool_that_wants_to_be_a_task_is_not_offered(tmp_path: Path) -> None:
    server = McpHttpServer()
    tasks = [
        {**TOOL, "name": name, "execution": {"taskSupport": name}}
        for name in ("required", "optional", "forbidden")
    ]
    server.tools = [TOOL, *tasks]
    async with watching(server, tmp_path) as watched:
        await watched.session.ready()
    assert [one.name for one in watched.listed[0]] == ["act", "optional", "forbidden"]
