"""How the bot is watched: what happened lately, and metrics where they are set."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from bot.recent import RecentActivity
from bot.settings import Layers, SettingsStore
from channels.base import ChannelError

if TYPE_CHECKING:
    from channels.web.metrics import MetricsPage

log = logging.getLogger(__name__)

METRICS_TOKEN, PAGE_TOKEN = "PARLEY_METRICS_TOKEN", "PARLEY_WEB_TOKEN"
UNSERVED = (
    "metrics.enabled is set, but this process serves no page to have /metrics beside it; set "
    "metrics.port, too."
)


class Monitoring(Struct, frozen=True):
    """`recent` hears what happens; `page` is what is served at /metrics, None where nothing is, and
    `host` and `port` where it has a server of its own (port 0: nowhere)."""

    recent: RecentActivity
    page: MetricsPage | None = None
    host: str = ""
    port: int = 0

    @asynccontextmanager
    async def serving(self, *, has_page: bool) -> AsyncIterator[None]:
        """Serve the metrics on a port of their own as long as this lasts, where one is set;
        `has_page` says that the web channel serves them anyway. Raises ChannelError."""
        if self.page is None or not self.port:
            if self.page is not None and not has_page:
                log.warning(UNSERVED)
            yield
            return
        from channels.web.metrics import listen, serving  # noqa: PLC0415 - only where it is set

        try:
            listener = listen(self.host, self.port)
        except OSError as error:
            raise ChannelError(
                f"The metrics can't be served at {self.host}, port {self.port} "
                f"({error.strerror}); change metrics.host or metrics.port."
            ) from None
        async with serving(self.page, listener):
            yield


def monitor(layers: Layers, version: str) -> Monitoring:
    """How this process is to be watched. Raises ChannelError where the metrics would be open to
    others."""
    settings = SettingsStore(layers).effective().metrics
    if not settings.enabled:
        return Monitoring(RecentActivity())
    from bot.metrics import Metrics  # noqa: PLC0415 - slow, and nothing where it is off
    from channels.web.metrics import MetricsPage, why_closed  # noqa: PLC0415

    metrics = Metrics(version)
    tokens = tuple(layers.secrets.get(name, "").strip() for name in (METRICS_TOKEN, PAGE_TOKEN))
    page = MetricsPage(metrics.read, tokens)
    if sentence := why_closed(page, settings.host if settings.port else ""):
        raise ChannelError(sentence)
    return Monitoring(metrics, page, settings.host, settings.port)
