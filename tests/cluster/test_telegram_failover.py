"""Telegram's polling, which only one process may do: one gateway does it, and another goes on."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bot.cluster.slices import allot
from tests.cluster.cluster_processes import Processes, cluster_of, read, until_joined, until_shared
from tests.cluster.payments import PayingModel
from tests.cluster.test_ownership import until
from tests.fakes.openai_server import Received, Say
from tests.fakes.telegram_server import TOKEN, TelegramServer
from tests.whole.process import BotProcess

POLLING = "SELECT process FROM owner WHERE name = 'channel.telegram' AND process != ''"


class Echo(PayingModel):
    """Answers each message with itself, after a while."""

    def answer(self, received: Received) -> Say:
        return Say(f"re: {received.body['messages'][-1]['content']}")


async def until_polled_by(url: str, *gateways: BotProcess) -> BotProcess:
    """The gateway that has the channel, once one of these has."""
    found: list[BotProcess] = []

    def is_polled() -> bool:
        names = [row[0] for row in read(url, POLLING)]
        found[:] = [g for g in gateways if any(f"-{g.process.pid}-" in name for name in names)]
        return bool(found)

    await until(is_polled)
    return found[0]


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
            active = await until_polled_by(postgresql, *gateways)
            ann.says("one")
            await telegram.shown("re: one")
            reached = asyncio.create_task(_reach(endpoint, 2))
            ann.says("two")
            ann.says("three")
            await reached
            await active.kill()
            ann.says("four")
            (other,) = [gateway for gateway in gateways if gateway is not active]
            assert await until_polled_by(postgresql, other) is other
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


async def test_a_gateway_that_hands_the_channel_over_stays_and_takes_it_back(
    tmp_path: Path, servers: Mapping[str, Any], postgresql: str
) -> None:
    async with TelegramServer() as telegram, Echo(0.3) as endpoint:
        here = {"base_url": telegram.base_url}
        settings = {**servers, "owners": ["telegram/42"], "telegram": here}
        ann = telegram.person("Ann", 42)
        async with cluster_of(tmp_path, endpoint, settings, workers=0) as processes:
            gateways = await start(processes, 1)
            first = await until_polled_by(postgresql, *gateways)
            while _who_should_poll(postgresql, gateways) is first:
                gateways.append(await start_gateway(processes))
                await until_joined(postgresql, 1 + len(gateways))
            second = await until_polled_by(postgresql, *gateways[1:])
            ann.says("one")
            await telegram.shown("re: one")
            assert first.process.returncode is None
            for gateway in gateways[1:]:
                await gateway.kill()
            assert await until_polled_by(postgresql, first) is first
            assert second is not first
            ann.says("two")
            await telegram.shown("re: two")


def _who_should_poll(url: str, gateways: list[BotProcess]) -> BotProcess:
    names = [name for (name,) in read(url, "SELECT id FROM process WHERE role = 'gateway'")]
    owner = allot(["channel.telegram"], names)["channel.telegram"].owner
    return next(gateway for gateway in gateways if f"-{gateway.process.pid}-" in owner)


async def _reach(endpoint: PayingModel, count: int) -> None:
    for _ in range(count):
        await endpoint.reached.acquire()
