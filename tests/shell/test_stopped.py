"""A command that a person runs ends with `/stop`, and with the conversation."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugins.shell import feature as plugin
from tests.waiting import until
from tests.whole.testbot import run_bot

pytestmark = pytest.mark.usefixtures("processes")
SETTINGS = {"tools": {"shell": True, "shell_unboxed": True, "approve": "never"}}


@pytest.mark.parametrize("end", ["/stop", "/forget chat yes"])
async def test_it_ends_with_stop_and_with_the_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(plugin, "_BOX", [False])
    async with run_bot(tmp_path, [], SETTINGS) as bot:
        await bot.writes("/shell touch begun; sleep 600; touch ended", id="command")
        await until(lambda: any(tmp_path.rglob("begun")))
        await bot.says(end)
        if end == "/stop":
            reply = (await bot.reply_to("command")).reply
            assert reply.text == "Stopped; the model does not see this command."
        assert "no turns yet" in (await bot.says("/context turns")).text
        assert "Nothing is running" in (await bot.says("/stop")).text
