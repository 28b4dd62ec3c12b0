"""A whole bot behind its web channel: a real server on a free port, a scripted endpoint.

async with serving(tmp_path, [Say("Hello!")]) as site:
    assert (await site.says("Hi"))["text"] == "Hello!"
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from msgspec.structs import replace

from bot.app import App
from bot.assembly import assemble
from bot.settings import load_layers
from channels.base import Bot, Channel
from channels.web import Web, WebConfig
from tests.fakes.openai_server import OpenAIServer, Script
from tests.waiting import PATIENCE

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """A server-sent event: its kind, its data, and its id."""

    kind: str
    data: Any
    place: str


@dataclass
class Site:
    """A bot served at `url`; `http` is an HTTP client for it."""

    url: str
    app: App
    server: OpenAIServer
    http: aiohttp.ClientSession
    session: str = "main"

    @property
    def path(self) -> str:
        """Return the path of its session."""
        return f"/api/sessions/{self.session}"

    async def get(self, path: str, **options: Any) -> tuple[int, Any]:
        async with self.http.get(f"{self.url}{path}", **options) as response:
            return response.status, await response.json(content_type=None)

    async def post(self, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        headers = {"Content-Type": "application/json", **options.pop("headers", {})}
        content = io.BytesIO(json.dumps(body).encode()) if body is not None else None
        url = f"{self.url}{path}"
        async with self.http.post(url, data=content, headers=headers, **options) as response:
            return response.status, await response.json(content_type=None)

    async def says(self, text: str, session: str = "", **fields: Any) -> Json:
        """Send a message and wait for the answer."""
        status, answer = await self.post(
            f"/api/sessions/{session or self.session}/messages", {"text": text, **fields}
        )
        assert status == 200, answer
        return dict(answer)

    async def commands(self, line: str, session: str = "") -> Json:
        """Run a command, written as in the chat."""
        name, _, text = line.removeprefix("/").partition(" ")
        path = f"/api/sessions/{session or self.session}/commands/{name}"
        status, reply = await self.post(path, {"text": text})
        assert status == 200, reply
        return dict(reply)

    @asynccontextmanager
    async def follows(
        self, session: str = "main", query: str = "", **headers: str
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """Yield the events of a session."""
        url = f"{self.url}/api/sessions/{session}/events{query}"
        async with self.http.get(url, headers=headers) as response:
            assert response.status == 200
            yield events_of(response)

    @asynccontextmanager
    async def streams(
        self, text: str, session: str = "main"
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """Yield the events of one message."""
        url = f"{self.url}/api/sessions/{session}/messages"
        accept = {"Accept": "text/event-stream"}
        async with self.http.post(url, json={"text": text}, headers=accept) as response:
            assert response.content_type == "text/event-stream"
            yield events_of(response)


async def events_of(response: aiohttp.ClientResponse) -> AsyncIterator[Event]:
    """Yield the events of a response as they arrive, without comments."""
    fields: dict[str, str] = {}
    async for raw in response.content:
        line = raw.decode().rstrip("\n")
        name, _, value = line.partition(": ")
        if line and name:
            fields[name] = value
        elif "data" in fields:
            text = fields["data"]
            data = text if text == "[DONE]" else json.loads(text)
            yield Event(fields.get("event", ""), data, fields.get("id", ""))
            fields = {}


async def asked_raw(url: str, request: bytes) -> bytes:
    """Return the response of the server at `url` to these bytes, until it closes the connection."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        async with asyncio.timeout(PATIENCE):
            writer.write(request)
            await writer.drain()
            return await reader.read()
    finally:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


def client_session(**options: Any) -> aiohttp.ClientSession:
    """Open an HTTP client that closes idle connections before the server does (after 5 s): a
    request on a connection that the server is closing is reset, and a POST is not retried."""
    connector = aiohttp.TCPConnector(keepalive_timeout=1)
    timeout = aiohttp.ClientTimeout(PATIENCE)
    return aiohttp.ClientSession(connector=connector, timeout=timeout, **options)


class _Web(Web):
    """Open the web channel; `listening` is the serving task."""

    def __init__(self, config: WebConfig) -> None:
        super().__init__(config)
        self.listening: asyncio.Future[asyncio.Task[Any]] = (
            asyncio.get_running_loop().create_future()
        )

    async def listen(self, bot: Bot) -> None:
        task = asyncio.current_task()
        assert task
        self.listening.set_result(task)
        await super().listen(bot)


@asynccontextmanager
async def serving(
    folder: Path,
    script: Script = (),
    settings: Mapping[str, Any] | None = None,
    token: str = "",
    others: tuple[Channel, ...] = (),
    environ: Mapping[str, str] | None = None,
    **web: Any,
) -> AsyncIterator[Site]:
    """Run a bot on `folder`, which may be one that another bot has used, served on a free port;
    `web` has changed settings of its address, `environ` its environment (None: with the
    endpoint)."""
    config = folder / "config.json"
    config.write_text(json.dumps({"model": "gpt-4o-mini", **(settings or {})}))
    async with OpenAIServer(script) as endpoint:
        usual = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "test-key"}
        layers = load_layers(config, usual if environ is None else environ)
        channel = _Web(replace(WebConfig("127.0.0.1", 0, token, 1_000_000, "test"), **web))
        app = await assemble(layers, folder / "data", [channel, *others])
        running = asyncio.create_task(app.run())
        try:
            async with client_session() as http:
                yield Site(channel.url, app, endpoint, http)
        finally:
            (await channel.listening).cancel()
            await asyncio.wait_for(running, PATIENCE)
