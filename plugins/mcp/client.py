"""The connection to a server with the `mcp` SDK, which only this module and those that carry and
parse its messages import.

Sampling and elicitation are off: a server may not ask the model or the person for anything. It has
no roots unless its settings allow it; then its only root is the folder of the chats that it serves.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx2
import msgspec
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
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
from msgspec import Struct

from agent.tools import ToolError
from memory.faults import describe_fault
from memory.tasks import cancel_and_wait
from plugins.mcp import ServerDown, SessionExpired
from plugins.mcp.catalogue import (
    LIST_RESOURCES,
    MOST_TOOLS,
    READ_RESOURCE,
    ListedTool,
    read_tool,
)
from plugins.mcp.health import Health, add_stderr_reason
from plugins.mcp.http import NOT_THIS_KIND, BadAnswer, Transport, run_http
from plugins.mcp.layers import left_out
from plugins.mcp.messages import REFUSED, SESSION_OVER, UNREADABLE
from plugins.mcp.pipes import Program, run_program
from plugins.mcp.settings import McpServer

log = logging.getLogger(__name__)

T = TypeVar("T")

LONGEST_RESULT = 1_000_000
"""The maximum length of a result in characters; the conversation's own limit is much lower."""
_CLOSED = ("Connection closed", "SSE stream ")
"""The beginnings of the SDK's own messages with that error code, which servers use for all
errors."""
_BREAKS = "its answer breaks the protocol"
_OLDER = 5.0  # timeout in seconds for the connection to a server of the older kind
_MOST_PAGES = 50
_MOST_RESOURCES = 200
_URI = {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]}


class McpConnection(Struct):
    """A connection to a server that is ready."""

    client: Client
    health: Health
    is_changed: asyncio.Event

    async def list_tools(self) -> list[ListedTool]:
        """Return its tools, and those that read its resources. Raises ServerDown."""
        found: dict[str, ListedTool] = {}
        cursor: str | None = None
        if self.client.server_capabilities.tools is not None:
            for _ in range(_MOST_PAGES):
                params = PaginatedRequestParams(cursor=cursor)
                try:
                    page = await _await_answer(self.client.session.list_tools(params=params))
                except ToolError as error:
                    why = f"it does not list its tools ({str(error).rstrip('.')})"
                    raise ServerDown(why) from None
                for one in page.tools:
                    if one.execution is not None and one.execution.task_support == "required":
                        continue  # such a tool refuses ordinary calls
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
        """Return the result of a tool as text. Raises ToolError with the tool's own error, and
        ServerDown."""
        if tool in (LIST_RESOURCES, READ_RESOURCE):
            return await self._about_resources(tool, arguments)
        result = await _await_answer(self.client.call_tool(tool, arguments))
        text = _as_text(result)
        if result.is_error:
            raise ToolError(text or "It failed, and did not say why.")
        return text

    async def _about_resources(self, tool: str, arguments: Mapping[str, Any]) -> str:
        if tool == LIST_RESOURCES:
            page = await _await_answer(self.client.list_resources(cache_mode="bypass"))
            shown = page.resources[:_MOST_RESOURCES]
            lines = [f"{one.uri}: {one.description or one.title or one.name}" for one in shown]
            left = len(page.resources) - len(shown)
            return _join([*lines, *([f"(and {left} more)"] if left else [])])
        uri = arguments.get("uri")
        if not isinstance(uri, str) or not uri:
            raise ToolError("It was not run: `uri` is missing; list_resources names what there is.")
        read = await _await_answer(self.client.read_resource(uri, cache_mode="bypass"))
        return _join(
            one.text if isinstance(one, TextResourceContents) else left_out(one.mime_type)
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
                parts.append(left_out(inside.mime_type))
        else:
            parts.append(left_out(one.mime_type))
    if not parts and result.structured_content is not None:
        parts = [msgspec.json.encode(result.structured_content).decode()]
    return _join(parts)


def _join(parts: Any) -> str:
    text = "\n".join(parts)
    if len(text) <= LONGEST_RESULT:
        return text
    return (
        f"{text[:LONGEST_RESULT]}\n[The rest is left out: {len(text):,} characters are too long.]"
    )


async def _await_answer(work: Awaitable[T]) -> T:
    """Return the server's answer. Raises ToolError if it refuses, and ServerDown."""
    try:
        return await work
    except MCPError as error:
        if error.code == CONNECTION_CLOSED and error.message.startswith(_CLOSED):
            raise ServerDown("it ended before it had answered") from None
        if error.code == SESSION_OVER:
            raise SessionExpired(error.message[:2_000]) from None
        if error.code == UNREADABLE:
            raise ServerDown(error.message) from None
        if error.code == METHOD_NOT_FOUND:
            raise ToolError("The server does not know how to do this.") from None
        raise ToolError(f"The server refused this: {error.message[:2_000]}") from None
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        raise ServerDown("it has ended") from None
    except (ValueError, RuntimeError) as error:  # its answer breaks the protocol
        log.debug("an MCP server breaks the protocol: %s", error)
        raise ServerDown(_BREAKS) from None


@asynccontextmanager
async def connect(
    server: McpServer, fill: Callable[[str], str], folder: Path, version: str = "0"
) -> AsyncGenerator[McpConnection, None]:
    """Connect to a server; `fill` replaces the names of secrets by their values, and `folder` is
    its working folder. Raises ServerDown."""
    health = Health()
    is_changed = asyncio.Event()

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            is_changed.set()

    async def roots(context: ClientRequestContext) -> ListRootsResult:
        return ListRootsResult(roots=[Root.model_validate({"uri": folder.as_uri()})])

    def make(transport: Transport) -> Client:
        return Client(
            transport,
            list_roots_callback=roots if server.roots else None,
            message_handler=on_message,
            client_info=Implementation(name="Parley", version=version),
            cache=None,
        )

    try:
        async with AsyncExitStack() as stack:
            client, health = await _enter(stack, server, make, fill, folder, health)
            # The validation against a server's own schema of results may take very long.
            client.session.validate_tool_result = _skip_validation  # type: ignore[method-assign]
            connection = McpConnection(client, health, is_changed)
            following = asyncio.create_task(_follow(client, is_changed))
            try:
                yield connection
            finally:
                await cancel_and_wait(following)
    except BaseException as error:
        if isinstance(error, ServerDown | TimeoutError):
            raise
        if (why := _find_reason(error)) is None:
            raise
        raise ServerDown(add_stderr_reason(health.why or why, health.said)) from None


async def _enter(
    stack: AsyncExitStack,
    server: McpServer,
    make: Callable[[Transport], Client],
    fill: Callable[[str], str],
    folder: Path,
    health: Health,
) -> tuple[Client, Health]:
    """Return the client of a server. If a server at an address refuses the newer kind of HTTP, the
    older kind is tried, as the protocol prescribes, unless its settings name the kind."""
    if server.is_process:
        environ = {name: fill(value) for name, value in server.env.items()}
        arguments = [fill(one) for one in server.args]
        program = Program(fill(server.command), arguments, environ, folder)
        return await stack.enter_async_context(make(run_program(program, health))), health
    headers = {name: fill(value) for name, value in server.headers.items()}
    url = fill(server.url)
    kind = "sse" if server.transport == "sse" else "http"
    try:
        return await stack.enter_async_context(make(run_http(url, headers, kind, health))), health
    except Exception as first:
        if server.transport != "auto" or health.refused not in NOT_THIS_KIND:
            raise
        try:
            async with asyncio.timeout(_OLDER):
                older = Health()
                client = await stack.enter_async_context(make(run_http(url, headers, "sse", older)))
        except Exception:  # noqa: BLE001 - the first error is more useful
            raise first from None
        return client, older


async def _follow(client: Client, is_changed: asyncio.Event) -> None:
    """Watch for changes of the tools of a server of the newer kind; older ones send them
    unasked."""
    if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return
    try:
        async with client.listen(tools_list_changed=True) as changes:
            async for _change in changes:
                is_changed.set()
    except (MCPError, SubscriptionLost, TimeoutError, RuntimeError) as error:
        log.debug("an MCP server does not tell of changes: %s", error)


async def _skip_validation(name: str, result: CallToolResult) -> None:
    """Skip the validation: results are text for the model, regardless of their schema."""


def _find_reason(error: BaseException) -> str | None:
    """Return the reason why a server could not be reached; None for any other error."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ServerDown):
        return str(error)
    if isinstance(error, MCPError):
        reason = " ".join(error.message.split())[:200]
        return reason if error.code in (REFUSED, UNREADABLE) else f"it said: {reason}"
    if isinstance(error, httpx2.HTTPStatusError):
        return f"it answered with the status {error.response.status_code}"
    known = (httpx2.HTTPError, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
    if isinstance(error, BadAnswer):
        return str(error)
    if isinstance(error, (*known, ValueError, RuntimeError)):
        return describe_fault(error, _BREAKS)
    return None
