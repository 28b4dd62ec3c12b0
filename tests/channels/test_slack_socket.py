"""Tests of what may come over Slack's socket."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
from aiohttp import web

from channels.slack.socket import Socket
from tests.waiting import PATIENCE


async def test_what_can_not_be_read_ends_no_connection() -> None:
    taken: asyncio.Queue[Any] = asyncio.Queue()

    async def serve(request: web.Request) -> web.WebSocketResponse:
        wire = web.WebSocketResponse()
        await wire.prepare(request)
        await wire.send_json({"type": "hello"})
        for odd in ("no JSON", "[]", "null", "5", "{}", '{"type": []}'):
            await wire.send_str(odd)
        await wire.send_json({"envelope_id": "e1", "payload": {"text": "Hi"}})
        async for _ in wire:
            pass
        return wire

    async def take(body: dict[str, Any]) -> dict[str, Any]:
        taken.put_nowait(body)
        return {}

    app = web.Application()
    app.router.add_get("/", serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()

    async def open_url() -> str:
        return f"http://127.0.0.1:{runner.addresses[0][1]}/"

    async with aiohttp.ClientSession() as session:
        running = asyncio.create_task(Socket(session, open_url, take).run(lambda: None))
        try:
            async with asyncio.timeout(PATIENCE):
                assert await taken.get() == {"text": "Hi"}
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await runner.cleanup()
