"""Buttons and pictures at Telegram: every control is a command."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.openai_server import Say
from tests.fakes.telegram_server import Refused, failing
from tests.whole.telegram_house import at_telegram


async def test_the_context_comes_with_buttons_and_clear_asks_first(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, [Say("Hello!")]) as house:
        house.ann.says("Hi")
        await house.telegram.shown("Hello!")
        house.ann.says("/context")
        bar = await house.telegram.shown("tokens")
        assert [*bar.buttons] == ["Details", "Map", "Compact", "Clear"]
        house.ann.presses(bar, "Clear")
        question = await house.telegram.shown("Clear: really? (/context clear)")
        house.ann.presses(question, "No")
        await house.telegram.until(lambda: question.text not in house.telegram.texts)
        house.ann.presses(bar, "Clear")
        question = await house.telegram.shown("Clear: really?")
        house.ann.presses(question, "Yes, clear")
        cleared = await house.telegram.shown("Cleared: t1")
        house.ann.presses(cleared, "Undo")
        await house.telegram.shown("Undone: the clear")
        assert len(await house.telegram.called("answerCallbackQuery", 5)) == 5


async def test_a_press_that_is_delivered_again_is_carried_out_once(tmp_path: Path) -> None:
    async with at_telegram(tmp_path) as house:
        house.ann.says("/context")
        bar = await house.telegram.shown("tokens")
        house.ann.presses(bar, "Details")
        await house.telegram.called("answerCallbackQuery")
        house.telegram.deliver_again()
        house.ann.says("/whoami")
        await house.telegram.shown("telegram/42")
        await house.is_idle()
        assert len(house.telegram.texts) == 3


async def test_the_map_is_a_picture(tmp_path: Path) -> None:
    async with at_telegram(tmp_path) as house:
        house.ann.says("/context map")
        await house.telegram.called("sendPhoto")
        (picture,) = (sent for sent in house.telegram.messages.values() if sent.file)
        assert picture.file.startswith(b"\x89PNG")


async def test_a_picture_that_telegram_refuses_goes_as_a_file(tmp_path: Path) -> None:
    async with at_telegram(tmp_path) as house:
        house.telegram.failures["sendPhoto"] = failing(
            Refused("Bad Request: PHOTO_INVALID_DIMENSIONS")
        )
        house.ann.says("/context map")
        await house.telegram.called("sendDocument")


async def test_settings_with_few_values_are_changed_by_buttons(tmp_path: Path) -> None:
    async with at_telegram(tmp_path) as house:
        house.ann.says("/config")
        settings = await house.telegram.shown("/config KEY explains one")
        house.ann.presses(settings, "general")
        settings = await house.telegram.shown("spend_limit_total")
        house.ann.presses(settings, "log_level")
        one = await house.telegram.shown("log_level is info")
        assert [*one.buttons] == ["debug", "warning", "error"]
        house.ann.presses(one, "warning")
        changed = await house.telegram.shown("log_level is now warning")
        house.ann.presses(changed, "Back")
        await house.telegram.shown("log_level is now info")
