"""The monitoring of a process: events go to `RecentActivity`, and a feature may listen, too.

Such a feature has a module `monitoring.py` in its folder, with a function `monitor(layers) ->
Monitoring | None`.
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
    """The monitoring of a process: `recent` is notified of events; `pages` are ASGI applications
    that the web channel serves, by their paths."""

    recent: RecentActivity = field(default_factory=RecentActivity)
    pages: Mapping[str, Any] = {}

    @asynccontextmanager
    async def serving(self, *, has_page: bool) -> AsyncIterator[None]:
        """Serve the pages that have a port of their own in this context; `has_page` says that the
        web channel serves them. Raises ChannelError."""
        del has_page
        yield


def monitor(layers: Layers) -> Monitoring:
    """Return the monitoring of this process. Raises ChannelError."""
    for module in find_modules("monitoring"):
        found = module.monitor(layers)
        if found is not None:
            assert isinstance(found, Monitoring)
            return found
    return Monitoring()
