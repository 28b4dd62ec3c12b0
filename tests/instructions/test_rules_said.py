"""Orders that a person gives are found when they are said, and hold from then on."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.openai_server import echo
from tests.whole.testbot import run_bot

BOSS = "Never send anything to my boss without asking me."


async def test_an_order_is_asked_about_once_and_holds_once_it_is_kept(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        reply = await bot.says(f"Hi. {BOSS} Thanks!")
        assert f"Keep this as a rule? “{BOSS}”" in reply.text
        assert [a.command for a in reply.actions] == ["/rules keep 1", "/rules dismiss 1"]
        assert BOSS not in bot.sent_to_model()[0]["content"]
        assert BOSS in (await bot.says("/rules keep 1")).text
        reply = await bot.says(f"And now? {BOSS}")
        assert reply.actions == ()
        assert bot.sent_to_model()[0]["content"].endswith(f"\n- {BOSS}")
