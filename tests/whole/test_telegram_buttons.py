"""Buttons and pictures at Telegram: every control is a command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.openai_server import Say
from tests.fakes.telegram_server import Person, Refused, Sent, failing
from tests.whole.telegram_house import TelegramHouse, at_telegram


async def test_the_context_comes_with_buttons_and_clear_asks_first(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, [Say("Hello!")]) as house:
        house.ann.says("Hi")
        await house.telegram.shown("Hello!")
        house.ann.says("/context")
        bar = await house.telegram.shown("tokens")
        assert [*bar.buttons] == ["Details", "Map", "Compact", "Clear"]
        house.ann.presses(bar, "Clear")
        question = await house.telegram.shown("Clear: are you sure? (/context clear)")
        house.ann.presses(question, "No")
        await house.telegram.until(lambda: question.text not in house.telegram.texts)
        house.ann.presses(bar, "Clear")
        question = await house.telegram.shown("Clear: are you sure?")
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


async def test_what_was_sent_is_looked_through_by_buttons(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, [Say("Hello!"), Say("Yes?")]) as house:
        for said, answer in (("Hi", "Hello!"), ("Well", "Yes?")):
            house.ann.says(said)
            await house.telegram.shown(answer)
        house.ann.says("/context request")
        request = await house.telegram.shown("byte for byte what was sent")
        assert [*request.buttons] == ["JSON", "What changed since r1", "r1"]
        house.ann.presses(request, "What changed since r1")
        compared = await house.telegram.shown("+ t2 user")
        house.ann.presses(compared, "r1")
        await house.telegram.shown("Request r1, sent at")


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
        house.ann.presses(changed, "Undo this setting")
        await house.telegram.shown("log_level is now info")


def forged(house: TelegramHouse, who: Person, below: Sent | None, data: str) -> None:
    """What a client sends that presses a button which the bot has not made."""
    message = (
        house.telegram._as_message(below)
        if below
        else {"message_id": 1, "date": 0, "chat": house.telegram.chats[who.chat]}
    )
    house.telegram._queries.add("forged")
    query = {"id": "forged", "from": who.user, "message": message, "chat_instance": "1"}
    house.telegram.push("callback_query", {**query, "data": data})


@pytest.mark.parametrize("data", ["?/context clear", "?text", "/context clear", "-", "?"])
@pytest.mark.parametrize("name", ["Ann", "Mallory"])
async def test_data_that_stand_on_no_button_do_nothing(
    tmp_path: Path, data: str, name: str
) -> None:
    async with at_telegram(tmp_path) as house:
        house.telegram.group(-100)
        person = house.ann if name == "Ann" else house.telegram.person("Mallory", 666)
        house.ann.says("/whoami")
        answer = await house.telegram.shown("telegram/42")
        forged(house, person, answer, data)
        await house.telegram.called("answerCallbackQuery")
        forged(house, person, None, data)
        await house.telegram.called("answerCallbackQuery", 2)
        await house.is_idle()
        assert house.telegram.texts == [answer.text]
        assert not house.model.requests


async def test_a_stranger_can_neither_press_a_button_nor_take_a_question_away(
    tmp_path: Path,
) -> None:
    async with at_telegram(tmp_path, [Say("Hello!")]) as house:
        group = house.telegram.group(-100)
        ann, mallory = house.ann.at(group), house.telegram.person("Mallory", 666).at(group)
        ann.says("@parley_bot hi")
        await house.telegram.shown("Hello!")
        ann.says("/context")
        bar = await house.telegram.shown("tokens")
        mallory.presses(bar, "Clear")
        await house.telegram.called("answerCallbackQuery")
        assert len(house.telegram.texts) == 2
        ann.presses(bar, "Clear")
        question = await house.telegram.shown("Clear: are you sure?")
        mallory.presses(question, "No")
        mallory.presses(question, "Yes, clear")
        await house.telegram.called("answerCallbackQuery", 4)
        await house.is_idle()
        assert house.telegram.made("deleteMessage") == []
        assert question.text in house.telegram.texts
        ann.presses(question, "Yes, clear")
        await house.telegram.until(lambda: question.text not in house.telegram.texts)
