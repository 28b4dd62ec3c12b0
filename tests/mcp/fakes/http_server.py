"""A loopback MCP server over HTTP, of the newer transport or the older one (SSE). It can be
restarted and then behaves like real servers: those of the SDKs for Python and TypeScript, and the
many that are made from their examples."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Self

from aiohttp import web

TOOL = {"name": "act", "description": "Act.", "inputSchema": {"type": "object"}}

REFUSALS: Mapping[str, tuple[int, str]] = {
    "python": (
        404,
        '{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":'
        '"Session not found"}}',
    ),
    "typescript": (
        404,
        '{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}',
    ),
    "example": (
        400,
        '{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid '
        'session ID provided"},"id":null}',
    ),
    "text": (400, "Invalid or missing session ID"),
    "plain": (404, "Not Found"),
    "gone": (410, ""),
}
"""The ways in which servers refuse an unknown session."""


class McpHttpServer:
    """`kind` is "http" or "sse". `answers` defines the response to a call of its tool: a body (or
    an event) as it is sent; the default is a proper answer with the text `text`. `calls` are the
    answered calls; `is_asked` is set by a call, and a call waits while `may_answer` is cleared."""

    def __init__(self, kind: str = "http", refusal: str = "python", is_json: bool = True) -> None:
        self.kind, self.is_json = kind, is_json
        self.status, self.refused = REFUSALS[refusal]
        self.has_stream = False
        self.text = "Acted."
        self.answer: bytes | None = None
        self.answer_status, self.answer_type = 200, ""
        self.tools: list[Mapping[str, Any]] = [TOOL]
        self.calls: list[str] = []
        self.is_asked, self.may_answer = asyncio.Event(), asyncio.Event()
        self.may_answer.set()
        self.port = 0
        self._sessions: dict[str, asyncio.Queue[bytes]] = {}
        self._runner: web.AppRunner | None = None
        self._made = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{'sse' if self.kind == 'sse' else 'mcp'}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen, at the previous address if there was one, without the previous sessions."""
        self._sessions.clear()
        app = web.Application()
        if self.kind == "sse":
            app.router.add_get("/sse", self._open)
            app.router.add_post("/messages", self._post)
        else:
            app.router.add_route("*", "/mcp", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.01)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop, and close every connection."""
        if self._runner is not None:
            for queue in self._sessions.values():
                queue.put_nowait(b"")
            await self._runner.cleanup()
            self._runner = None

    async def restart(self) -> None:
        """Stop, and start again."""
        await self.stop()
        await self.start()

    # --- the newer transport ---------------------------------------------------------------------

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        session = request.headers.get("mcp-session-id")
        if request.method == "DELETE":
            self._sessions.pop(session or "", None)
            return web.Response(status=200)
        if session is not None and session not in self._sessions:
            return web.Response(status=self.status, text=self.refused)
        if request.method == "GET":
            if not self.has_stream or session is None:
                return web.Response(status=405)
            return await self._stream(request, self._sessions[session])
        message = await request.json()
        headers = {}
        if message["method"] == "initialize":
            self._made += 1
            headers = {"mcp-session-id": f"s{self._made}"}
            self._sessions[f"s{self._made}"] = asyncio.Queue()
        elif session is None:
            return web.Response(status=self.status, text=self.refused)
        if "id" not in message:
            return web.Response(status=202)
        if message["method"] == "tools/call":
            self.is_asked.set()
            await self.may_answer.wait()
            return self._respond(self._call(message), self.answer_status, headers)
        return self._respond(_answer(message, self.tools), 200, headers)

    def _respond(self, body: bytes, status: int, headers: Mapping[str, str]) -> web.Response:
        kind = "application/json" if self.is_json else "text/event-stream"
        if not self.is_json:
            body = b"event: message\ndata: " + body + b"\n\n"
        elif self.answer_type and status == self.answer_status:
            kind = self.answer_type
        return web.Response(status=status, body=body, headers={**headers, "Content-Type": kind})

    def _call(self, message: Mapping[str, Any]) -> bytes:
        self.calls.append(message["params"]["name"])
        if self.answer is not None:
            return self.answer.replace(b"$ID", str(message["id"]).encode())
        content = [{"type": "text", "text": self.text}]
        return _encode(message, {"content": content})

    async def _stream(
        self, request: web.Request, queue: asyncio.Queue[bytes]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        if self.kind == "sse":
            session = next(name for name, one in self._sessions.items() if one is queue)
            await response.write(f"event: endpoint\r\ndata: /messages?s={session}\r\n\r\n".encode())
        while piece := await queue.get():
            await response.write(b"event: message\r\ndata: " + piece + b"\r\n\r\n")
        return response

    # --- the older transport ---------------------------------------------------------------------

    async def _open(self, request: web.Request) -> web.StreamResponse:
        self._made += 1
        queue = self._sessions[f"s{self._made}"] = asyncio.Queue()
        return await self._stream(request, queue)

    async def _post(self, request: web.Request) -> web.StreamResponse:
        queue = self._sessions.get(request.query["s"])
        if queue is None:
            return web.Response(status=self.status, text=self.refused)
        message = await request.json()
        if message.get("method") == "tools/call":
            self.is_asked.set()
            if not self.may_answer.is_set():
                return web.Response(status=202)
            queue.put_nowait(self._call(message))
        elif "id" in message:
            queue.put_nowait(_answer(message, self.tools))
        return web.Response(status=202, text="Accepted")


def _answer(message: Mapping[str, Any], tools: list[Mapping[str, Any]]) -> bytes:
    if message["method"] == "initialize":
        info = {"name": "loopback", "version": "1"}
        version = message["params"]["protocolVersion"]
        capabilities = {"tools": {"listChanged": True}}
        result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
        return _encode(message, result)
    if message["method"] == "tools/list":
        return _encode(message, {"tools": tools})
    error = {"code": -32601, "message": "Method not found"}
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode()


def _encode(message: Mapping[str, Any], result: Mapping[str, Any]) -> bytes:
    return json.dumps({"result": result, "jsonrpc": "2.0", "id": message["id"]}).encode()
