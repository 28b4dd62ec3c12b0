"""MCP servers in conversations: the chats in which their tools are offered, and their views for
commands."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import datetime
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from bot.access import LOCAL, Access, is_local
from bot.runtime import RuntimeConfig
from channels.message import Address
from memory.context.meter import Meter
from memory.keys import ConversationKey
from plugins.mcp.catalogue import ListedTool
from plugins.mcp.health import RemoteToolView, ServerView
from plugins.mcp.record import ServerTool
from plugins.mcp.servers import OfferedServers, Servers
from plugins.mcp.settings import McpServer


class ServerOffers(Struct, frozen=True):
    """The selection of the servers for a conversation and for the person who speaks in it."""

    servers: Servers
    access: Access

    def offer(self, key: ConversationKey, address: Address | None) -> OfferedServers | None:
        """Return the servers of a conversation, all of which its prompt names; the person at an
        address may use those that serve them there. None: no server is configured."""
        settings = self.servers.settings
        if not settings.servers and not settings.added:
            return None
        kinds = self._kinds_of(key)
        found = {name: one for name, one in settings.all.items() if kinds & {*one.serves}}
        may = kinds if address is None else self._kinds_at(address)
        may_use = frozenset(name for name, one in found.items() if may & {*one.serves})
        offered = tuple((name, one.about) for name, one in found.items())
        return OfferedServers(self.servers, offered, may_use)

    def _kinds_of(self, key: ConversationKey) -> frozenset[str]:
        """Return the words of `serves` that match a conversation, by its chat."""
        channel, chat = map(unquote, key.home.split("/")[:2])
        name = f"{channel}/{chat}"
        people = {name, f"{channel}/{chat.partition('/')[0]}"}
        if people & {*self.access.owners}:
            return frozenset({name, "owners", "users"})
        if any(map(self.access.is_known, people)):
            return frozenset({name, "users"})
        if channel in LOCAL:  # the person who started the bot is there
            return frozenset({name, "owners", "users"})
        return frozenset({name, "groups"})

    def _kinds_at(self, address: Address) -> frozenset[str]:
        """Return the words of `serves` that match the speaker and the place."""
        person, name = self.access.identify(address), f"{address.channel}/{address.chat}"
        if person is None:
            return frozenset()
        if is_local(address) or address.is_private:
            return frozenset({name, "users", *(["owners"] if person.is_owner else [])})
        return frozenset({name, "groups"})


class ManagedServers(Struct, frozen=True):
    """The servers, for commands."""

    servers: Servers
    offers: ServerOffers
    meter: Meter
    config: RuntimeConfig

    async def all(self, key: ConversationKey, address: Address) -> list[ServerView]:
        """Return the configured servers, sorted by name."""
        now = self.servers.all
        if not now:
            return []
        await self.servers.check()
        known = await self.servers.known()
        offered = self.offers.offer(key, address)
        here = offered.may_use if offered else frozenset[str]()
        views, zone = [], self.config.zone()
        for name, server in now.items():
            changes = await self.servers.list_changes(name)
            listed = [one for one in known.get(name, {}).values() if not one.is_gone]
            tools = await asyncio.to_thread(self._estimate, server, listed)
            times = ((datetime.fromtimestamp(one.at, zone), one.what) for one in changes)
            views.append(self._view(server, tools, name in here, tuple(times)))
        return views

    def _estimate(
        self, server: McpServer, listed: Sequence[ServerTool]
    ) -> tuple[RemoteToolView, ...]:
        found, hidden = [], self.servers.hidden(server)
        for one in listed:
            tool = self.servers.make_tool(server, ListedTool.from_json(one.tool, one.listed))
            wire = json.dumps(tool.to_wire()["function"], ensure_ascii=False)
            is_hidden = one.tool in hidden or not server.offers(one.tool)
            tokens = self.meter.count(wire)
            asks = tool.asks_first
            found.append(
                RemoteToolView(
                    tool.name, one.tool, tool.description, tokens, one.calls, is_hidden, asks
                )
            )
        return tuple(found)

    def _view(
        self,
        server: McpServer,
        tools: tuple[RemoteToolView, ...],
        is_here: bool,
        changes: tuple[tuple[datetime, str], ...],
    ) -> ServerView:
        running, why = self.servers.state_of(server.name)
        line = f"- {server.name}: {server.about}" if server.about else f"- {server.name}"
        is_added = server.name not in {one.name for one in self.servers.settings.servers}
        url = urlsplit(server.url)  # the rest of the URL may contain a key
        where = f"{url.scheme}://{url.hostname}" if server.url else server.command
        return ServerView(
            name=server.name,
            where=self.servers.hide(where[:200]),
            is_added=is_added,
            is_process=server.is_process,
            is_served_here=is_here,
            line=self.meter.count(f"\n{line}"),
            running=running,
            why_down=self.servers.hide(why),
            tools=tools,
            changes=changes,
        )

    async def probe(self, name: str, key: ConversationKey) -> str:
        """Start a server for the people of a conversation if its tools are unknown. Return the
        reason why it does not work, or ""."""
        wrong = await self.servers.probe([name], key.audience, self.config.workspace(key))
        return self.servers.hide(wrong.get(name, ""))

    async def restart(self, name: str, key: ConversationKey) -> str:
        """Stop all sessions of a server, and start it for the people of a conversation. Return the
        reason why it does not work, or ""."""
        await self.servers.restart(name)
        why = await self.servers.start(name, key.audience, self.config.workspace(key))
        return self.servers.hide(why)
