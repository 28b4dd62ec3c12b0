"""The web channel's server, with only the webhooks of channels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette

from channels.base import Bot, WithWebhook
from channels.listening import Caps, open_listener
from channels.serving import HttpServer, TimeLimits
from channels.web.channel import webhook_route


@asynccontextmanager
async def webhooks(bot: Bot, *channels: WithWebhook) -> AsyncIterator[str]:
    """Serve on loopback; yield the address before /webhooks."""
    by_name = {channel.name: channel for channel in channels}
    listener = open_listener("127.0.0.1", 0, Caps(100, 100))
    application = Starlette(routes=[webhook_route(bot, lambda: by_name)])
    server = HttpServer(application, listener, TimeLimits())
    serving = asyncio.create_task(server.run_here())
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
