"""A whole bot at Telegram: the real SDK, and a Bot API that refuses what Telegram refuses."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.openai_server import Say
from tests.whole.telegram_house import at_telegram


async def test_a_message_is_answered(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, [Say("Hello, **Ann**!")]) as house:
        house.ann.says("Hi")
        answer = await house.telegram.shown("Hello, Ann!")
        assert answer.marked("bold") == ["Ann"]
        assert answer.answers == 0
