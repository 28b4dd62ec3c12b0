"""All servers, with their known tools, and a session for each server and audience, so that no
audience sees another one's data.

A server is started, and its SDK imported, only when it is needed: by a search while its tools are
unknown, or by a call. Tools that were listed once stay known, whether the server runs or not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct

from agent.tools import ToolError
from agent.tools.base import Tool, ToolContext
from bot.app import Kernel
from bot.logs import SecretRedactor
from bot.settings.layers import fill_text
from bot.settings.schema import SettingError
from memory.tasks import BackgroundTasks
from plugins.mcp import ServerDown
from plugins.mcp import record as rows
from plugins.mcp.catalogue import (
    SEPARATOR,
    ListedTool,
    describe_difference,
    name_for_model,
    server_of,
)
from plugins.mcp.record import ListingChange, ServerTool
from plugins.mcp.session import ServerConnection, ServerSession, ServerTimeouts
from plugins.mcp.settings import SECRET, McpServer, McpSettings

log = logging.getLogger(__name__)

MOST_SESSIONS = 50
"""The maximum number of running servers, for all audiences together."""
GUIDE = "Servers with more tools; find these with tool_search, and call them with use_tool:"


class _Running(Struct, frozen=True):
    """A session, and the settings with which it was created."""

    server: McpServer
    session: ServerSession


class Servers:
    """The servers of the settings, and their tools."""

    def __init__(self, kernel: Kernel) -> None:
        self._store, self._kernel = kernel.store, kernel
        self.hide = SecretRedactor(kernel.secrets).hide
        self._sessions: dict[tuple[str, str], _Running] = {}
        self._known: dict[str, dict[str, ServerTool]] = {}
        self._made: dict[str, tuple[McpServer, dict[str, Tool]]] = {}
        self._keeping = asyncio.Lock()
        self._ending = BackgroundTasks()

    @property
    def settings(self) -> McpSettings:
        return self._kernel.config.book.effective().section(McpSettings)

    @property
    def all(self) -> Mapping[str, McpServer]:
        """Return the configured servers by name."""
        return self.settings.all

    def fill(self, text: str) -> str:
        """Replace the names of secrets by their values. Raises ServerDown if one is missing, or
        would not be masked in logs and results."""
        secrets = self._kernel.secrets
        masked = secrets.to_mask()
        for name in SECRET.findall(text):
            if name in secrets and secrets[name] not in masked:
                raise ServerDown(
                    f"nothing says that {name} is a secret; give it a name with KEY, TOKEN, "
                    "SECRET or PASS in it"
                )
        try:
            return fill_text(text, secrets)
        except SettingError as error:
            raise ServerDown(str(error).rstrip(".")) from None

    def alert_down(self, server: str, why: str) -> None:
        sentence = (
            f"The MCP server {server} does not work: {self.hide(why)}. Its tools can't be used; "
            f"/mcp restart {server} starts it again."
        )
        self._kernel.alerts.report(f"server {server}", sentence)

    def _report_changed(self, server: str, what: str) -> None:
        sentence = (
            f"The MCP server {server} has other tools than before: {self.hide(what)}. "
            f"/mcp tools {server} shows their descriptions."
        )
        self._kernel.alerts.report(f"tools of {server}", sentence)

    # --- known tools -----------------------------------------------------------------------------

    async def known(self) -> Mapping[str, Mapping[str, ServerTool]]:
        """Return each server's known tools by their own names. They are reloaded, since another
        process may have stored more."""
        found: dict[str, dict[str, ServerTool]] = {}
        for one in await self._store.read(rows.load):
            found.setdefault(one.server, {})[one.tool] = one
        self._known = found
        self._made.clear()
        return found

    async def list_changes(self, server: str) -> Sequence[ListingChange]:
        """Return the changes of a server's tools, the newest first."""
        return await self._store.read(lambda db: rows.list_changes(db, server))

    async def keep_listing(self, server: str, listed: Sequence[ListedTool]) -> None:
        now = {one.name: one.to_json() for one in listed}
        async with self._keeping:
            known = (await self.known()).get(server, {})
            before = {name: one.listed for name, one in known.items() if not one.is_gone}
            if now == before and known:
                return
            change = describe_difference(before, now) if known else ""
            await self._store.write(lambda db: rows.keep_listing(db, server, now, change))
            await self.known()
        if change:
            log.warning("the MCP server %s lists other tools now: %s", server, change)
            self._report_changed(server, change)

    # --- sessions --------------------------------------------------------------------------------

    def state_of(self, server: str) -> tuple[int, str]:
        """Return the number of running sessions of a server, and the reason of the last failure."""
        mine = [one.session for (name, _), one in self._sessions.items() if name == server]
        why = next((one.why_down for one in mine if one.why_down), "")
        return sum(one.is_running for one in mine), why

    async def check(self) -> None:
        """Check which connections are still alive; for processes this is always known."""
        mine = [one for one in self._sessions.values() if not one.server.is_process]
        await asyncio.gather(*(one.session.check() for one in mine))

    def _session(self, server: McpServer, audience: str, folder: Path) -> ServerSession:
        key = (server.name, audience)
        known = self._sessions.get(key)
        if known is not None and known.server == server:
            return known.session
        if known is not None:
            self._end(key)
        running = [one for one, it in self._sessions.items() if it.session.is_running]
        if len(running) >= MOST_SESSIONS:
            raise ServerDown(f"{MOST_SESSIONS} servers run already; try again later")
        session = ServerSession(server.name, partial(self._connect, server, folder), self)
        self._sessions[key] = _Running(server, session)
        return session

    @property
    def timeouts(self) -> ServerTimeouts:
        settings = self.settings
        return ServerTimeouts(settings.start_timeout, settings.call_timeout, settings.idle)

    async def _connect(
        self, server: McpServer, folder: Path
    ) -> AbstractAsyncContextManager[ServerConnection]:
        """Connect to a server. The SDK is loaded in a thread, since that takes most of a second."""
        try:
            client = await asyncio.to_thread(import_module, "plugins.mcp.client")
        except ImportError:
            raise ServerDown(
                "the package `mcp` is missing; install it with `python main.py add mcp`"
            ) from None
        found: AbstractAsyncContextManager[ServerConnection] = client.connect(
            server, self.fill, folder
        )
        return found

    def _end(self, key: tuple[str, str]) -> None:
        self._ending.start(self._sessions.pop(key).session.stop())

    def stop_unneeded(self) -> None:
        """Stop the servers that are no longer in the settings, or have changed there."""
        now = self.all
        for key, one in list(self._sessions.items()):
            if now.get(key[0]) != one.server:
                self._end(key)

    async def restart(self, name: str) -> None:
        """Stop a server, and reset its failures, so that it can be started again."""
        mine = [key for key in self._sessions if key[0] == name]
        for key in mine:
            self._end(key)
        await self._ending.idle()

    async def forget(self, name: str) -> None:
        """Stop a server, and delete its known tools."""
        await self.restart(name)
        await self._store.write(lambda db: rows.forget_server(db, name))
        await self.known()

    async def close(self) -> None:
        """Stop all servers."""
        for key in list(self._sessions):
            self._end(key)
        await self._ending.idle()

    # --- their tools -----------------------------------------------------------------------------

    async def probe(self, names: Collection[str], audience: str, folder: Path) -> dict[str, str]:
        """Start those of these servers whose tools are unknown; return the reasons of failures, by
        name."""
        now = self.all
        known: Mapping[str, Mapping[str, ServerTool]] = self._known
        if not known.keys() >= {name for name in names if name in now}:
            known = await self.known()
        new = [now[name] for name in names if name in now and name not in known]
        results = await asyncio.gather(*(self._check_server(one, audience, folder) for one in new))
        return {one.name: why for one, why in zip(new, results, strict=True) if why}

    async def start(self, name: str, audience: str, folder: Path) -> str:
        """Start a server; return the reason why it does not work, or ""."""
        server = self.all.get(name)
        return await self._check_server(server, audience, folder) if server else "there is none"

    async def _check_server(self, server: McpServer, audience: str, folder: Path) -> str:
        try:
            await self._session(server, audience, folder).ready()
        except ServerDown as error:
            return str(error)
        return ""

    def tools(self, names: Collection[str]) -> list[Tool]:
        """Return the usable tools of these servers, as far as they are known."""
        found: list[Tool] = []
        for server in (self.all[name] for name in names if name in self.all):
            hidden, made = self.hidden(server), self._make_tools(server)
            known = self._known.get(server.name, {}).values()
            there = (one.tool for one in known if not one.is_gone)
            found += (made[one] for one in there if server.offers(one) and one not in hidden)
        return found

    def hidden(self, server: McpServer) -> frozenset[str]:
        """Return the tools of a server that `/mcp trim` has hidden, by their own names."""
        before = f"{server.name}/"
        hidden = self.settings.hidden
        return frozenset(one.removeprefix(before) for one in hidden if one.startswith(before))

    def _make_tools(self, server: McpServer) -> dict[str, Tool]:
        """Return all tools of a server that were ever listed, by their own names; the result is
        cached."""
        made = self._made.get(server.name)
        if made is None or made[0] != server:
            known = self._known.get(server.name, {}).values()
            listed = [ListedTool.from_json(one.tool, one.listed) for one in known]
            made = (server, {one.name: self.make_tool(server, one) for one in listed})
            self._made[server.name] = made
        return made[1]

    def make_tool(self, server: McpServer, listed: ListedTool) -> Tool:
        """Return a server's tool as a `Tool`. It is untrusted, and its calls are not repeatable."""
        return Tool(
            name=name_for_model(server.name, listed.name),
            description=listed.description,
            parameters=listed.parameters,
            run=partial(self._run, server.name, listed),
            touches=frozenset({"network"}),
            is_parallel=False,
            asks_first=server.asks(listed.name),
            is_once=True,
            needs_conversation=True,
            group=server.name,
        )

    def _find_known(self, name: str, tool: str) -> ListedTool | None:
        """Return a tool as its server lists it now; None if it does not."""
        known = self._known.get(name, {}).get(tool)
        if known is None or known.is_gone:
            return None
        return ListedTool.from_json(known.tool, known.listed)

    async def _run(
        self, name: str, tool: ListedTool, arguments: dict[str, Any], context: ToolContext
    ) -> str:
        """Call a tool, if it is unchanged since the model and the person saw it. Raises
        ToolError."""
        server = self.all.get(name)
        if server is None:
            raise ToolError(f"There is no server {name!r} any more.")
        try:
            session = self._session(server, context.key.audience, context.workspace)
            await session.ready()
            if self._find_known(name, tool.name) != tool:
                raise ToolError(
                    "It was not called: its server has changed or removed this tool meanwhile. "
                    "Look it up with tool_search, and call it again if it still does what is "
                    "wanted."
                )
            await self._store.write(
                lambda db: rows.count_call(db, name, tool.name), is_synced=False
            )
            return await session.call(tool.name, arguments)
        except ServerDown as error:
            raise ToolError(f"The server {name} is not available: {error}.") from None


class OfferedServers(Struct, frozen=True):
    """The servers whose tools are offered in a conversation (`RemoteTools`); the current person may
    use those in `may_use`."""

    servers: Servers
    offered: tuple[tuple[str, str], ...]
    may_use: frozenset[str]

    @property
    def listed(self) -> str:
        """Return the lines about them in the prompt, which contain nothing that a server wrote or
        that changes with it; "" if none is offered."""
        if not self.offered:
            return ""
        lines = (f"- {name}: {about}" if about else f"- {name}" for name, about in self.offered)
        return "\n".join((GUIDE, *lines))

    def owns(self, name: str) -> bool:
        """Return whether this is the name of a server's tool."""
        return any(name.startswith(f"{one}{SEPARATOR}") for one, _ in self.offered)

    async def all(self, context: ToolContext) -> tuple[Sequence[Tool], str]:
        """Return their tools, and the errors of servers with unknown tools."""
        names = self._names
        wrong = await self.servers.probe(names, context.key.audience, context.workspace)
        text = "\n".join(
            f"The server {name} is not available: {why}." for name, why in wrong.items()
        )
        return self.servers.tools(names), text

    async def find(self, name: str, context: ToolContext) -> Tool | None:
        """Return the tool of this name, if it may be used. Raises ToolError."""
        mine = [one for one in self._names if one == server_of(name)]
        wrong = await self.servers.probe(mine, context.key.audience, context.workspace)
        for server, why in wrong.items():
            raise ToolError(f"The server {server} is not available: {why}.")
        for _ in range(2):
            for tool in self.servers.tools(mine):
                if tool.name == name:
                    return tool
            await self.servers.known()  # another process may have stored more
        return None

    @property
    def _names(self) -> list[str]:
        return [name for name, _ in self.offered if name in self.may_use]
