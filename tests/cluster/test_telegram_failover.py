"""Telegram's polling, which only one process may do: one gateway does it, and another goes on."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cluster.cluster_processes import (
    Processes,
    cluster_of,
    read,
    until_owned_by,
    until_shared,
)
from tests.fakes.payments import Echo
from tests.fakes.telegram_server import TOKEN, TelegramServer
from tests.whole.process import BotProcess

POLLING = "channel.telegram"


async def start(processes: Processes, count: int) -> list[BotProcess]:
    environ = {"TELEGRAM_BOT_TOKEN": TOKEN}
    await processes.start("--role", "worker", environ=environ)
    return [await start_gateway(processes) for _ in range(count)]


async def start_gateway(processes: Processes) -> BotProcess:
    environ = {"TELEGRAM_BOT_TOKEN": TOKEN}
    return await processes.start("--role", "gateway", "--telegram", environ=environ)


async def test_when_the_gateway_that_polls_is_killed_another_goes_on_and_nothing_is_lost_or_twice(
    tmp_path: Path, servers: Mapping[str, Any], postgresql: str
) -> None:
    async with TelegramServer() as telegram, Echo(0.3) as endpoint:
        here = {"base_url": telegram.base_url}
        settings = {**servers, "owners": ["telegram/42"], "telegram": here}
        ann = telegram.person("Ann", 42)
        async with cluster_of(tmp_path, endpoint, settings, workers=0) as processes:
            gateways = await start(processes, 2)
            await until_shared(postgresql, 1)
            active = await until_owned_by(postgresql, POLLING, *gateways)
            ann.says("one")
            await telegram.shown("re: one")
            reached = asyncio.create_task(_reach(endpoint, 2))
            ann.says("two")
            ann.says("three")
            await reached
            await active.kill()
            ann.says("four")
            (other,) = [gateway for gateway in gateways if gateway is not active]
            assert await until_owned_by(postgresql, POLLING, other) is other
            for word in ("two", "three", "four"):
                await telegram.shown(f"re: {word}")
            shown = Counter(sent.text for sent in telegram.messages.values())
            assert {text: shown[text] for text in shown if text.startswith("re: ")} == {
                f"re: {word}": 1 for word in ("one", "two", "three", "four")
            }
            order = [sent.text for sent in telegram.messages.values() if sent.text in shown]
            words = [text.removeprefix("re: ") for text in order if text.startswith("re: ")]
            assert words == ["one", "two", "three", "four"]
        asked = read(postgresql, "SELECT text FROM message WHERE role = 'user' ORDER BY id")
        assert [text for (text,) in asked] == ["one", "two", "three", "four"]


async def _reach(endpoint: Echo, count: int) -> None:
    for _ in range(count):
        await endpoint.reached.acquire()
