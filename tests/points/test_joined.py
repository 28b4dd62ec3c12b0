"""Point 14: messages that were joined to one turn survive a restart, all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.points.scene import content, settled, steps, texts
from tests.whole.test_busy import busy, gate, script
from tests.whole.testbot import run_bot

RESTORES = [{}, {"restore": "recent"}, {"restore": "exact"}]


async def after_a_restart(tmp_path: Path, when_busy: str, settings: dict[str, Any]) -> list[str]:
    """Three messages of which two come while the first is worked on; what the first request after
    a restart holds of what people said."""
    async with busy(tmp_path, when_busy, **settings) as bot:
        await bot.writes("two", id="second")
        await bot.writes("three", id="third")
        gate("opened").set()
        await bot.reply_to("first" if when_busy == "steer" else "second")
        await settled(bot)
        before = texts(steps(bot)[-1])
        assert {"two", "three"} <= set("\n".join(before).split())
    async with run_bot(tmp_path, script, {"when_busy": when_busy, **settings}) as bot:
        await bot.says("next")
        return [content(m) for m in steps(bot)[-1] if m["role"] == "user"]


def missing(asked: list[str]) -> list[str]:
    said = " ".join(asked).split()
    return [word for word in ("wait", "two", "three", "next") if word not in said]


@pytest.mark.parametrize("when_busy", ["collect", "steer"])
@pytest.mark.parametrize("settings", RESTORES[:2], ids=["default", "recent"])
async def test_all_joined_messages_are_the_text_of_their_turn_after_a_restart(
    tmp_path: Path, when_busy: str, settings: dict[str, Any]
) -> None:
    assert missing(await after_a_restart(tmp_path, when_busy, settings)) == []


@pytest.mark.parametrize("when_busy", ["collect", "steer"])
async def test_they_survive_an_exact_restart(tmp_path: Path, when_busy: str) -> None:
    assert missing(await after_a_restart(tmp_path, when_busy, RESTORES[2])) == []
