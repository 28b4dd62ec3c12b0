"""The question whether to keep a rule, where people see it."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.openai_server import Say
from tests.instructions.test_rules_said import BOSS
from tests.whole.telegram_testbot import at_telegram


async def test_in_telegram_it_has_two_buttons(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, [Say("Fine."), Say("Yes.")]) as bot:
        bot.ann.says(BOSS)
        answer = await bot.telegram.shown("Keep this as a rule?")
        assert [*answer.buttons] == ["Keep", "Dismiss"]
        bot.ann.presses(answer, "Keep")
        kept = await bot.telegram.shown("Kept as a rule in this conversation")
        bot.ann.presses(kept, "Everywhere")
        await bot.telegram.shown("Rule 1 holds everywhere now.")
        bot.ann.says("And?")
        await bot.telegram.shown("Yes.")
        assert BOSS in bot.model.turns[-1].body["messages"][0]["content"]
