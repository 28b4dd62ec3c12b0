"""The hooks of MCP servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from bot.kernel import Kernel
from plugins.api import Command, ContextPart, hookimpl
from plugins.hookspecs import RemoteToolsFor
from plugins.mcp.commands import describe_in_context, mcp_command
from plugins.mcp.offers import ManagedServers, ServerOffers
from plugins.mcp.servers import Servers


class McpFeature:
    """The parts of the feature, made from the kernel's."""

    def __init__(self, kernel: Kernel) -> None:
        meter = kernel.conversations.services.meter
        self._servers = Servers(kernel)
        self._offers = ServerOffers(self._servers, kernel.access)
        self._managed = ManagedServers(self._servers, self._offers, meter, kernel.config)

    @hookimpl
    def parley_services(self) -> Sequence[object]:
        return (self._servers, self._managed)

    @hookimpl
    def parley_remote_tools(self) -> RemoteToolsFor:
        return self._offers.offer

    @hookimpl
    def parley_setting_changed(self) -> Callable[[], None]:
        return self._servers.settle

    @hookimpl
    def parley_closing(self) -> Callable[[], Awaitable[None]]:
        return self._servers.close


@hookimpl
def parley_open(kernel: Kernel) -> McpFeature:
    return McpFeature(kernel)


@hookimpl
def parley_commands() -> list[Command]:
    return [mcp_command]


@hookimpl
def parley_context_parts() -> Mapping[str, ContextPart]:
    return {"detail": describe_in_context}
