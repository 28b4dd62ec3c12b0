"""Metrics of a process, served on the web channel's server or on a port of their own."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bot.app import VERSION
from bot.recent import Monitoring
from bot.settings import Layers, SettingsStore
from channels.base import ChannelError
from plugins.metrics.settings import MetricsSettings

log = logging.getLogger(__name__)

METRICS_TOKEN, PAGE_TOKEN = "PARLEY_METRICS_TOKEN", "PARLEY_WEB_TOKEN"
UNSERVED = (
    "metrics.enabled is set, but this process serves no page to have /metrics beside it; set "
    "metrics.port, too."
)


class ServedMetrics(Monitoring, frozen=True):
    """Metrics that are served; `host` and `port` are those of their own server (port 0: none)."""

    host: str = ""
    port: int = 0

    @asynccontextmanager
    async def serving(self, *, has_page: bool) -> AsyncIterator[None]:
        if not self.port:
            if not has_page:
                log.warning(UNSERVED)
            yield
            return
        from plugins.metrics.routes import PATH, listen, serving  # noqa: PLC0415 - only where it is set

        try:
            listener = listen(self.host, self.port)
        except OSError as error:
            raise ChannelError(
                f"The metrics can't be served at {self.host}, port {self.port} "
                f"({error.strerror}); change metrics.host or metrics.port."
            ) from None
        async with serving(self.pages[PATH], listener):
            yield


def monitor(layers: Layers) -> Monitoring | None:
    """Return the metrics if they are enabled. Raises ChannelError if others could read them."""
    settings = SettingsStore(layers).effective().section(MetricsSettings)
    if not settings.enabled:
        return None
    from plugins.metrics.metrics import Metrics  # noqa: PLC0415 - slow, and unused if it is off
    from plugins.metrics.routes import PATH, MetricsPage, why_closed  # noqa: PLC0415

    metrics = Metrics(VERSION)
    tokens = tuple(layers.secrets.get(name, "").strip() for name in (METRICS_TOKEN, PAGE_TOKEN))
    page = MetricsPage(metrics.read, tokens)
    if sentence := why_closed(page, settings.host if settings.port else ""):
        raise ChannelError(sentence)
    return ServedMetrics(metrics, {PATH: page}, settings.host, settings.port)
