"""Chats in lists: pinned, put away; and turns that come with a command."""

from __future__ import annotations

import asyncio
from pathlib import Path

from channels.message import Attachment
from tests.fakes.openai_server import echo
from tests.whole.testbot import TestBot, run_bot


async def standing(bot: TestBot) -> str:
    (session,) = await (await bot.api()).sessions("pipe")
    return session.standing


async def test_a_chat_is_pinned_or_archived_and_stays_so(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Hello")
        assert await standing(bot) == ""
        assert (await bot.says("/pin")).actions[0].command == "/pin --unset"
        assert await standing(bot) == "pinned"
        await bot.says("/archive")
        assert await standing(bot) == "archived"
        assert "is not pinned" in (await bot.says("/pin --unset")).text
        await bot.says("/fork")
        assert await standing(bot) == "archived"
    async with run_bot(tmp_path, echo) as bot:
        assert await standing(bot) == "archived"
        await bot.says("/archive --unset")
        assert await standing(bot) == ""


async def test_what_is_not_understood_changes_nothing_and_what_was_forgotten_is_not_pinned(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Hello")
        for line in ("/pin t3", "/archive now", "/pin --unset now"):
            assert "takes nothing but --unset" in (await bot.says(line)).text
            assert await standing(bot) == ""
        await bot.says("/pin")
        await bot.says("/forget chat yes")
        await bot.says("Hello again")
        assert await standing(bot) == ""


async def test_a_file_that_comes_with_the_command_is_imported(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Hello")
        exported = (await bot.says("/context export")).data
        assert exported
        content = await asyncio.to_thread(Path(exported["files"][0]).read_bytes)
        file = Attachment("trip.json", "application/json", content)
        reply = await bot.says("/context import", chat="other", files=(file,))
        assert "Imported 1 turn" in reply.text
        reply = await bot.says("/context drop t1", chat="other", files=(file,))
        files = [*(tmp_path / "data" / "audiences" / "pipe-other" / "files").iterdir()]
        assert len(files) == 1  # what comes with other commands is not kept
