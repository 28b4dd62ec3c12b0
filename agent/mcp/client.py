"""A server, spoken to by the `mcp` SDK, which is imported here and in `pipes` alone.

Sampling and elicitation are off: a server may not ask the model or the person for anything. Its
only root is the folder of the chats that it serves.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    METHOD_NOT_FOUND,
    CallToolResult,
    EmbeddedResource,
    Implementation,
    ListRootsResult,
    PaginatedRequestParams,
    ResourceLink,
    Root,
    TextContent,
    TextResourceContents,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import Struct, field

from agent.mcp import ServerDown
from agent.mcp.catalogue import (
    LIST_RESOURCES,
    MOST_TOOLS,
    READ_RESOURCE,
    ListedTool,
    read_tool,
)
from agent.mcp.pipes import Program, run_program, tidy
from agent.mcp.rate import LONGEST, Health, Rate
from agent.mcp.settings import McpServer
from agent.tools import ToolError
from memory.tasks import cancel_and_wait

log = logging.getLogger(__name__)

T = TypeVar("T")

LONGEST_RESULT = 1_000_000
"""Characters of a result that are taken; the conversation's own limit is far below."""
_CLOSED = "Connection closed"
"""What the SDK says itself with that code, which servers use for whatever goes wrong."""
_MOST_PAGES = 50
_MOST_RESOURCES = 200
_URI = {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]}


class McpConnection(Struct):
    """A server that is ready."""

    client: Client
    health: Health
    is_changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def list_tools(self) -> list[ListedTool]:
        """Its tools, and those by which its resources are read. Raises ServerDown."""
        found: dict[str, ListedTool] = {}
        cursor: str | None = None
        if self.client.server_capabilities.tools is not None:
            for _ in range(_MOST_PAGES):
                params = PaginatedRequestParams(cursor=cursor)
                try:
                    page = await _asked(self.client.session.list_tools(params=params))
                except ToolError as error:
                    why = f"it does not list its tools ({str(error).rstrip('.')})"
                    raise ServerDown(why) from None
                for one in page.tools:
                    listed = read_tool(one.name, one.description, one.input_schema)
                    if listed is not None and len(found) < MOST_TOOLS:
                        found.setdefault(listed.name, listed)
                cursor = page.next_cursor
                if not cursor or len(found) >= MOST_TOOLS:
                    break
        if self.client.server_capabilities.resources is not None:
            own = (
                ListedTool(LIST_RESOURCES, "List the resources of this server."),
                ListedTool(READ_RESOURCE, "Read a resource of this server.", _URI),
            )
            found |= {one.name: one for one in own}
        return list(found.values())

    async def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """What a tool returns, as text. Raises ToolError with what it says of its failure, and
        ServerDown."""
        if tool in (LIST_RESOURCES, READ_RESOURCE):
            return await self._about_resources(tool, arguments)
        result = await _asked(self.client.call_tool(tool, arguments))
        text = _as_text(result)
        if result.is_error:
            raise ToolError(text or "It failed, and did not say why.")
        return text

    async def _about_resources(self, tool: str, arguments: Mapping[str, Any]) -> str:
        if tool == LIST_RESOURCES:
            page = await _asked(self.client.list_resources(cache_mode="bypass"))
            shown = page.resources[:_MOST_RESOURCES]
            lines = [f"{one.uri}: {one.description or one.title or one.name}" for one in shown]
            left = len(page.resources) - len(shown)
            return _join([*lines, *([f"(and {left} more)"] if left else [])])
        uri = arguments.get("uri")
        if not isinstance(uri, str) or not uri:
            raise ToolError("It was not run: `uri` is missing; list_resources names what there is.")
        read = await _asked(self.client.read_resource(uri, cache_mode="bypass"))
        return _join(
            one.text if isinstance(one, TextResourceContents) else _left_out(one.mime_type)
            for one in read.contents
        )


def _as_text(result: CallToolResult) -> str:
    parts = []
    for one in result.content:
        if isinstance(one, TextContent):
            parts.append(one.text)
        elif isinstance(one, ResourceLink):
            parts.append(f"{one.uri}: {one.description or one.name}")
        elif isinstance(one, EmbeddedResource):
            inside = one.resource
            if isinstance(inside, TextResourceContents):
                parts.append(inside.text)
            else:
                parts.append(_left_out(inside.mime_type))
        else:
            parts.append(_left_out(one.mime_type))
    if not parts and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False)]
    return _join(parts)


def _left_out(media_type: str | None) -> str:
    return f"[{media_type or 'data'} is left out: it is no text]"


def _join(parts: Any) -> str:
    text = "\n".join(parts)
    if len(text) <= LONGEST_RESULT:
        return text
    return (
        f"{text[:LONGEST_RESULT]}\n[The rest is left out: {len(text):,} characters are too long.]"
    )


async def _asked(work: Awaitable[T]) -> T:
    """What a server answers. Raises ToolError where it refuses, and ServerDown."""
    try:
        return await work
    except MCPError as error:
        if error.code == CONNECTION_CLOSED and error.message == _CLOSED:
            raise ServerDown("it ended before it had answered") from None
        if error.code == METHOD_NOT_FOUND:
            raise ToolError("The server does not know how to do this.") from None
        raise ToolError(f"The server refused this: {error.message[:2_000]}") from None
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        raise ServerDown("it has ended") from None
    except (ValueError, RuntimeError) as error:  # what it says is not of the protocol
        log.debug("an MCP server breaks the protocol: %s", error)
        raise ServerDown("its answer breaks the protocol") from None


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


@asynccontextmanager
async def connect(
    server: McpServer, fill: Callable[[str], str], folder: Path, version: str = "0"
) -> AsyncGenerator[McpConnection, None]:
    """A server, ready to be asked; `fill` puts secrets in the place of their names, and `folder`
    is where it works. Raises ServerDown."""
    health = Health()
    connection: McpConnection | None = None

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification) and connection is not None:
            connection.is_changed.set()

    async def roots(context: ClientRequestContext) -> ListRootsResult:
        return ListRootsResult(roots=[Root.model_validate({"uri": folder.as_uri()})])

    client = Client(
        _transport(server, fill, folder, health),
        list_roots_callback=roots,
        message_handler=on_message,
        client_info=Implementation(name="Parley", version=version),
        cache=None,
    )
    try:
        async with client:
            # A server's own schema of results may take for ever to be checked.
            client.session.validate_tool_result = _believe  # type: ignore[method-assign]
            connection = McpConnection(client, health)
            following = asyncio.create_task(_follow(client, connection.is_changed))
            try:
                yield connection
            finally:
                await cancel_and_wait(following)
    except BaseException as error:
        if isinstance(error, ServerDown | TimeoutError):
            raise
        if (why := _find_reason(error)) is None:
            raise
        raise ServerDown(_with_last_words(health.why or why, health)) from None


async def _follow(client: Client, is_changed: asyncio.Event) -> None:
    """Hear when the tools of a server of the newer kind change; older ones say so unasked."""
    if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return
    try:
        async with client.listen(tools_list_changed=True) as changes:
            async for _change in changes:
                is_changed.set()
    except (MCPError, SubscriptionLost, TimeoutError, RuntimeError) as error:
        log.debug("an MCP server does not tell of changes: %s", error)


async def _believe(name: str, result: CallToolResult) -> None:
    """Results are text for the model, whatever schema they were promised by."""


def _find_reason(error: BaseException) -> str | None:
    """Why a server could not be reached; None where that is not what went wrong."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ServerDown):
        return str(error)
    if isinstance(error, MCPError):
        return f"it said: {' '.join(error.message.split())[:200]}"
    if isinstance(error, httpx2.HTTPStatusError):
        return f"it answered with the status {error.response.status_code}"
    known = (httpx2.HTTPError, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
    if isinstance(error, (*known, ValueError, RuntimeError)):
        return _line(error)
    return None


def _with_last_words(why: str, health: Health) -> str:
    lines = [" ".join(line.split()) for line in health.said.decode("utf-8", "replace").splitlines()]
    last = next((line for line in reversed(lines) if line), "")[:200]
    shown = "".join(c for c in last if c.isprintable())
    return f"{why}; it said last: {shown}" if shown else why


Transport = AbstractAsyncContextManager[TransportStreams]


def _transport(
    server: McpServer, fill: Callable[[str], str], folder: Path, health: Health
) -> Transport:
    if server.is_process:
        environ = {name: fill(value) for name, value in server.env.items()}
        arguments = [fill(one) for one in server.args]
        program = Program(fill(server.command), arguments, environ, folder)
        return run_program(program, health)
    headers = {name: fill(value) for name, value in server.headers.items()}
    url = fill(server.url)
    return _throttled(_sse(url, headers) if server.transport == "sse" else _http(url, headers))


@asynccontextmanager
async def _http(url: str, headers: dict[str, str]) -> AsyncGenerator[TransportStreams, None]:
    async with (
        _http_client(headers) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=LONGEST) as streams,
    ):
        yield streams


@asynccontextmanager
async def _sse(url: str, headers: dict[str, str]) -> AsyncGenerator[TransportStreams, None]:
    def make(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        del timeout, auth
        return _http_client(headers)

    async with sse_client(url, headers, httpx_client_factory=make) as streams:
        yield streams


def _http_client(headers: dict[str, str] | None) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        headers={"Accept-Encoding": "identity", **(headers or {})},
        timeout=httpx2.Timeout(30.0, read=None),  # every call has a time-out of its own
        transport=_BoundedTransport(httpx2.AsyncHTTPTransport()),
    )


class _BoundedTransport(httpx2.AsyncBaseTransport):
    """HTTP in which no body is longer than a message may be, or unfolds to one that is; of a
    stream of events, no more than a bearable rate."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx2.ReadError("it packs what it says, though it was asked not to")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        is_events = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = _BoundedBody(response.stream, is_events)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedBody(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, is_events: bool) -> None:
        self._inner, self._is_events = inner, is_events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rate, total = Rate(), 0
        async for piece in self._inner:
            total += len(piece)
            if total > LONGEST and not self._is_events:
                raise httpx2.ReadError(f"it sent more than {LONGEST // 1_000_000} MB")
            await rate.wait(len(piece))
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


@asynccontextmanager
async def _throttled(transport: Transport) -> AsyncGenerator[TransportStreams, None]:
    """The same, with no more messages in a second than can be borne."""
    into, out = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    rate = Rate()
    async with transport as (read, write), anyio.create_task_group() as tasks:

        async def pass_on() -> None:
            with into:
                async for message in read:
                    await rate.wait(0)
                    if isinstance(message, SessionMessage):
                        message = tidy(message)
                    await into.send(message)

        tasks.start_soon(pass_on)
        try:
            yield out, write
        finally:
            tasks.cancel_scope.cancel()
            out.close()
