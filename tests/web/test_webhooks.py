"""Calls of platforms that fail, or are cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import urlsplit

import aiohttp
import pytest
from starlette.requests import Request

from channels.base import Bot, WebhookAnswer, WebhookCall
from channels.web.operations import read_body
from tests.channels.webhook_server import webhooks
from tests.fakes.fake_bot import FakeBot, deltas
from tests.waiting import PATIENCE


class Broken:
    """A channel that fails at each call."""

    name = "broken"

    def expects(self, headers: Mapping[str, str]) -> bool:
        return "x-not-mine" not in headers

    async def call(self, bot: Bot, call: WebhookCall) -> WebhookAnswer:
        raise RuntimeError("a fault")


async def test_a_call_that_fails_inside_is_answered_with_a_sentence() -> None:
    bot = FakeBot(lambda text: deltas(text))
    async with (
        webhooks(bot, Broken()) as address,
        aiohttp.ClientSession() as http,
        http.post(f"{address}/webhooks/broken", data=b"{}") as response,
    ):
        answer = await response.json()
    assert response.status == 500
    assert "failed inside the bot" in answer["error"]["message"]


async def test_a_platform_that_leaves_in_the_middle_of_a_call_is_no_fault(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, is_over = asyncio.Event(), asyncio.Event()

    async def read(request: Request, largest: int, why: str) -> bytes:
        reads.set()
        try:
            return await read_body(request, largest, why)
        finally:
            is_over.set()

    monkeypatch.setattr("channels.web.channel.read_body", read)
    bot = FakeBot(lambda text: deltas(text))
    head = b"POST /webhooks/broken HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf"
    async with asyncio.timeout(PATIENCE), webhooks(bot, Broken()) as address:
        place = urlsplit(address)
        _, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(head)
        await reads.wait()
        writer.close()
        await writer.wait_closed()
        await is_over.wait()
    assert not caplog.records


async def test_the_body_of_a_call_that_can_not_be_the_platforms_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def read(request: Request, largest: int, why: str) -> bytes:
        raise AssertionError

    monkeypatch.setattr("channels.web.channel.read_body", read)
    bot = FakeBot(lambda text: deltas(text))
    async with (
        webhooks(bot, Broken()) as address,
        aiohttp.ClientSession() as http,
        http.post(f"{address}/webhooks/broken", headers={"X-Not-Mine": "1"}) as response,
    ):
        assert response.status == 401
