"""The monitoring of a process: it tells what happens to `RecentActivity`, and a feature may hear
more.

A feature that does so has a module `monitoring.py` in its folder, with a function
`monitor(layers) -> Monitoring | None`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct, field

from bot.recent import RecentActivity
from bot.settings import Layers
from plugins.features import find_modules


class Monitoring(Struct, frozen=True):
    """`recent` hears what happens; `pages` are applications (ASGI) that the web channel serves, by
    their paths."""

    recent: RecentActivity = field(default_factory=RecentActivity)
    pages: Mapping[str, Any] = {}

    @asynccontextmanager
    async def serving(self, *, has_page: bool) -> AsyncIterator[None]:
        """Serve what has a port of its own as long as this lasts; `has_page` says that the web
        channel serves the pages. Raises ChannelError."""
        del has_page
        yield


def monitor(layers: Layers) -> Monitoring:
    """Return how this process is to be watched. Raises ChannelError."""
    for module in find_modules("monitoring"):
        found = module.monitor(layers)
        if found is not None:
            assert isinstance(found, Monitoring)
            return found
    return Monitoring()
