"""Several channels in one bot: when it ends, and what is heard of one that fails."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bot.app import App
from bot.assembly import assemble
from bot.settings import load_layers
from channels.base import Activity, Bot, Channel, ChannelError, Notice
from channels.message import Address, Outbound
from tests.waiting import PATIENCE
from tests.whole.testbot import TestChannel


class Platform:
    """A channel that listens for ever, or fails at once."""

    name = "platform"

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.is_closed = error, False
        self.may_fail = asyncio.Event()

    async def listen(self, bot: Bot) -> None:
        await self.may_fail.wait()
        if self.error:
            raise self.error

    async def send(self, outbound: Outbound) -> None:
        """Nothing comes here."""

    async def close(self) -> None:
        self.is_closed = True


async def assembled(folder: Path, channels: list[Channel]) -> App:
    config = folder / "config.json"
    config.write_text('{"model": "gpt-4o-mini"}')
    layers = load_layers(config, {"OPENAI_API_KEY": "test-key"})
    return await assemble(layers, folder / "data", channels)


async def test_the_bot_ends_with_the_channel_that_it_is_told_to_and_closes_the_others(
    tmp_path: Path,
) -> None:
    channel, platform = TestChannel(), Platform()
    app = await assembled(tmp_path, [channel, platform])
    running = asyncio.create_task(app.run(until="pipe"))
    await channel.api()
    channel.leave()
    await running
    assert platform.is_closed


async def test_what_a_channel_fails_with_is_heard_at_the_others_and_raised_in_the_end(
    tmp_path: Path,
) -> None:
    channel, platform = TestChannel(), Platform(ChannelError("The token is wrong; correct it."))
    app = await assembled(tmp_path, [channel, platform])
    running = asyncio.create_task(app.run())
    bot = await channel.api()
    with bot.watch(Address("pipe", "main")) as happening:
        platform.may_fail.set()
        heard = await asyncio.wait_for(anext(happening), PATIENCE)
    assert heard == Notice("The token is wrong; correct it.")
    channel.leave()
    with pytest.raises(ChannelError, match="The token is wrong"):
        await running


async def test_an_owner_who_watches_hears_once_that_a_channel_has_ended(tmp_path: Path) -> None:
    channel, platform = TestChannel(), Platform(ChannelError("The token is wrong; correct it."))
    app = await assembled(tmp_path, [channel, platform])
    running = asyncio.create_task(app.run())
    bot = await channel.api()
    await channel.says("/version")
    noticed: list[Activity] = []
    watchers = [await channel.watches(noticed, chat) for chat in ("main", "other")]
    with bot.watch(Address("pipe", "other")) as happening:
        platform.may_fail.set()
        assert isinstance(await asyncio.wait_for(anext(happening), PATIENCE), Notice)
    assert "The token is wrong" in (await channel.reply_to("")).reply.text
    for watching in watchers:
        watching.cancel()
    assert len(noticed) == 1
    channel.leave()
    with pytest.raises(ChannelError, match="The token is wrong"):
        await running
