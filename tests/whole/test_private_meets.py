"""Conversations off the record, where they meet links, alerts and what waits."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from channels.message import Outbound
from tests.fakes.openai_server import Hang, Say
from tests.links.test_link import two_channels
from tests.waiting import until
from tests.whole.test_private import FOOTER, MARK, has_asked, holding
from tests.whole.testbot import run_bot


async def test_a_private_chat_is_not_led_elsewhere(tmp_path: Path) -> None:
    async with two_channels(tmp_path) as bot:
        await bot.from_afar(f"/link {await bot.code()}")
        await bot.from_afar("/private on")
        refused = await bot.here.says("/link yes afar/ann")
        assert "is off the record, so nothing was linked" in refused.text
        assert (await bot.from_afar(MARK)).endswith(FOOTER)
        assert holding(tmp_path, MARK) == []


async def test_linked_chats_are_private_after_a_restart_wherever_it_was_said(
    tmp_path: Path,
) -> None:
    async with two_channels(tmp_path) as bot:
        await bot.links()
        await bot.here.says("/private on")  # over a channel that ends with the process
    async with two_channels(tmp_path) as bot:
        bot.here.count, bot.afar.count = 3_000, 4_000
        assert "ended when the bot was restarted" in await bot.from_afar(f"{MARK} again")
        await bot.here.says("/private off")
        assert "Openly" in await bot.from_afar("Openly")
        assert holding(tmp_path, MARK) == []


async def test_an_owner_is_not_told_what_a_platform_says_of_a_private_answer(
    tmp_path: Path,
) -> None:
    async with two_channels(tmp_path) as bot:
        await bot.here.says("Hello")  # the owner, who is told of a channel that fails
        await bot.from_afar("/private on")
        took = bot.afar.send

        async def refuse(outbound: Outbound) -> None:
            raise RuntimeError(f"can't be sent: {outbound.reply.text}")

        bot.afar.send = refuse  # type: ignore[method-assign]
        await bot.afar.writes(MARK, "ann", "ann")
        await until(lambda: any("does not work" in one.reply.text for one in bot.here.sent))
        assert MARK not in str(bot.here.sent)
        bot.afar.send = took  # type: ignore[method-assign]
        assert holding(tmp_path, MARK) == []


async def test_what_waited_is_not_part_of_the_next_private_conversation(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Hang("Half"), Say("Next.")]) as bot:
        await bot.says("/private on")
        await bot.writes("Go", id="go")
        await bot.writes(MARK, id="behind")
        await until(partial(has_asked, bot, 1))
        await bot.writes("/private off", id="off")
        await bot.writes("/private on", id="on")
        behind = (await bot.reply_to("behind")).reply
        assert "ended before this message was answered" in behind.text
        assert (await bot.says("Afresh")).text == f"Next.{FOOTER}"
        assert MARK not in str(bot.sent_to_model())
