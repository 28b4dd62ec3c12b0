"""The hooks of links."""

from __future__ import annotations

from collections.abc import Sequence

from bot.kernel import Kernel
from plugins.api import Command, hookimpl
from plugins.links.commands import link, unlink
from plugins.links.linking import ChatLinks


class LinksFeature:
    """The links, made from the kernel's parts."""

    def __init__(self, kernel: Kernel) -> None:
        self._links = ChatLinks(kernel)

    @hookimpl
    def parley_services(self) -> Sequence[object]:
        return (self._links,)


@hookimpl
def parley_open(kernel: Kernel) -> LinksFeature:
    return LinksFeature(kernel)


@hookimpl
def parley_commands() -> list[Command]:
    return [link, unlink]
