"""Steps that tests of the whole bot share: several messages in a row, and a kill."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.whole.testbot import TestBot


async def say_all(bot: TestBot, *lines: str) -> None:
    """Say one line after another; each is answered before the next."""
    for line in lines:
        await bot.says(line)


async def copy_as_killed(bot: TestBot, folder: Path) -> Path:
    """Copy what is on disk now of a bot that runs on `folder`, as a kill would leave it once all
    that it has said is sent; returns the folder of the copy."""
    await bot.app.delivery.queues.idle()
    copy = folder / "killed"
    shutil.copytree(folder / "data", copy / "data")
    return copy
