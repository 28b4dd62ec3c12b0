"""The hooks of MCP servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from bot.kernel import Kernel
from bot.logs import make_hider
from plugins.api import Command, ContextPart, hookimpl
from plugins.hookspecs import RemoteToolsFor
from plugins.mcp.commands import describe_in_context, mcp_command
from plugins.mcp.offers import ManagedServers, ServerOffers, fill_secrets
from plugins.mcp.servers import ServerPorts, Servers
from plugins.mcp.settings import McpSettings


class McpFeature:
    """The parts of the feature, made from the kernel's."""

    def __init__(self, kernel: Kernel) -> None:
        config, report = kernel.config, kernel.alerts.report
        hide = make_hider(kernel.secrets.to_mask())

        def settings() -> McpSettings:
            return config.book.effective().section(McpSettings)

        def tell_down(server: str, why: str) -> None:
            sentence = (
                f"The MCP server {server} does not work: {hide(why)}. Its tools can't be used; "
                f"/mcp restart {server} starts it again."
            )
            report(f"server {server}", sentence)

        def tell_changed(server: str, what: str) -> None:
            sentence = (
                f"The MCP server {server} has other tools than before: {hide(what)}. "
                f"/mcp tools {server} shows what they say of themselves."
            )
            report(f"tools of {server}", sentence)

        ports = ServerPorts(settings, fill_secrets(kernel.secrets), tell_down, tell_changed)
        self._servers = Servers(kernel.store, ports)
        self._offers = ServerOffers(self._servers, settings, kernel.access)
        self._managed = ManagedServers(
            self._servers,
            self._offers,
            kernel.conversations.services.meter,
            config,
            hide,
        )

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
