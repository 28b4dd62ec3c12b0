"""The hooks of the connection to a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bot.app import Kernel
from channels.base import Bot
from plugins.api import hookimpl
from plugins.connection.connector import ModelConnector

if TYPE_CHECKING:
    from channels.web.operations import Operation


class ConnectionFeature:
    """The connector, created from the kernel's services."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._connector = ModelConnector(kernel)

    @hookimpl
    def parley_services(self) -> Sequence[object]:
        return (self._connector,)

    @hookimpl
    def parley_routes(self) -> Callable[[Bot], Sequence[Operation]]:
        return self._operations

    def _operations(self, bot: Bot) -> Sequence[Operation]:
        # Without the web channel there are no operations, and nothing to import.
        from plugins.connection.routes import connection_operations  # noqa: PLC0415

        return connection_operations(self._connector, self._kernel.access)


@hookimpl
def parley_open(kernel: Kernel) -> ConnectionFeature:
    return ConnectionFeature(kernel)
