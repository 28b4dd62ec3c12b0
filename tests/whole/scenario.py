"""Steps shared by tests of the whole bot, and models without retries."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from openai._models import FinalRequestOptions

from channels.message import Reply
from tests.whole.testbot import TestBot


async def say_all(bot: TestBot, *lines: str) -> None:
    """Send one line after another; each is answered before the next."""
    for line in lines:
        await bot.says(line)


async def again(bot: TestBot, line: str, chat: str = "main", user: str = "") -> tuple[Reply, str]:
    """Return the reply of a command that asks a question again, and the answer to that."""
    reply = await bot.says(line, chat, user)
    assert reply.data, reply.text
    return reply, (await bot.reply_to(reply.data["asked"])).reply.text


async def ask_many(bot: TestBot, count: int, start: int = 1) -> None:
    """Ask numbered questions; the background work of each is done before the next."""
    for number in range(start, start + count):
        await bot.says(f"question {number}")
        await bot.app.conversations.flush()


async def copy_as_killed(bot: TestBot, folder: Path) -> Path:
    """Copy the current files of a bot that runs on `folder`, as a kill would leave them once all
    replies are sent; return the folder of the copy."""
    await bot.app.delivery.queues.idle()
    copy = folder / "killed"
    shutil.copytree(folder / "data", copy / "data")
    return copy


def forbid_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the SDK send each request once; tests/agent tests its retries."""
    monkeypatch.setattr(FinalRequestOptions, "get_max_retries", lambda options, most: 0)
