"""Buttons and pictures at Telegram: every control is a command."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.openai_server import Say
from tests.fakes.telegram_server import Person, Refused, Sent, failing
from tests.whole.telegram_testbot import TelegramTestBot, at_telegram


async def test_a_picture_that_telegram_refuses_goes_as_a_file(tmp_path: Path) -> None:
    async with at_telegram(tmp_path) as bot:
        bot.telegram.failures["sendPhoto"] = failing(
            Refused("Bad Request: PHOTO_INVALID_DIMENSIONS")
        )
        bot.ann.says("/context map")
        await bot.telegram.called("sendDocument")


async def test_what_was_sent_is_looked_through_by_buttons(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, [Say("Hello!"), Say("Yes?")]) as bot:
        for said, answer in (("Hi", "Hello!"), ("Well", "Yes?")):
            bot.ann.says(said)
            await bot.telegram.shown(answer)
        bot.ann.says("/context request")
        request = await bot.telegram.shown("byte for byte what was sent")
        assert [*request.buttons] == ["JSON", "What changed since r1", "r1"]
        bot.ann.presses(request, "What changed since r1")
        compared = await bot.telegram.shown("+ t2 user")
        bot.ann.presses(compared, "r1")
        await bot.telegram.shown("Request r1, sent at")


async def test_settings_with_few_values_are_changed_by_buttons(tmp_path: Path) -> None:
    async with at_telegram(tmp_path) as bot:
        bot.ann.says("/config")
        settings = await bot.telegram.shown("/config KEY explains one")
        bot.ann.presses(settings, "general")
        settings = await bot.telegram.shown("spend_limit_total")
        bot.ann.presses(settings, "log_level")
        one = await bot.telegram.shown("log_level is info")
        assert [*one.buttons] == ["debug", "warning", "error"]
        bot.ann.presses(one, "warning")
        changed = await bot.telegram.shown("log_level is now warning")
        bot.ann.presses(changed, "Undo this setting")
        await bot.telegram.shown("log_level is now info")


def forged(bot: TelegramTestBot, who: Person, below: Sent | None, data: str) -> None:
    """Send what a client sends that presses a button which the bot has not made."""
    message = (
        bot.telegram._as_message(below)
        if below
        else {"message_id": 1, "date": 0, "chat": bot.telegram.chats[who.chat]}
    )
    bot.telegram._queries.add("forged")
    query = {"id": "forged", "from": who.user, "message": message, "chat_instance": "1"}
    bot.telegram.push("callback_query", {**query, "data": data})


async def test_data_that_stand_on_no_button_do_nothing(tmp_path: Path) -> None:
    async with at_telegram(tmp_path) as bot:
        bot.ann.says("/whoami")
        answer = await bot.telegram.shown("telegram/42")
        pressed = 0
        for person in (bot.ann, bot.telegram.person("Mallory", 666)):
            for data in ("?/context clear", "?text", "/context clear", "-", "?"):
                for below in (answer, None):
                    forged(bot, person, below, data)
                    pressed += 1
                    await bot.telegram.called("answerCallbackQuery", pressed)
        await bot.is_idle()
        assert bot.telegram.texts == [answer.text]
        assert not bot.model.requests


async def test_a_stranger_can_neither_press_a_button_nor_take_a_question_away(
    tmp_path: Path,
) -> None:
    async with at_telegram(tmp_path, [Say("Hello!")]) as bot:
        group = bot.telegram.group(-100)
        ann, mallory = bot.ann.at(group), bot.telegram.person("Mallory", 666).at(group)
        ann.says("@parley_bot hi")
        await bot.telegram.shown("Hello!")
        ann.says("/context")
        bar = await bot.telegram.shown("tokens")
        mallory.presses(bar, "Clear")
        await bot.telegram.called("answerCallbackQuery")
        assert len(bot.telegram.texts) == 2
        ann.presses(bar, "Clear")
        question = await bot.telegram.shown("Clear: are you sure?")
        mallory.presses(question, "No")
        mallory.presses(question, "Yes, clear")
        await bot.telegram.called("answerCallbackQuery", 4)
        await bot.is_idle()
        assert bot.telegram.made("deleteMessage") == []
        assert question.text in bot.telegram.texts
        ann.presses(question, "Yes, clear")
        await bot.telegram.until(lambda: question.text not in bot.telegram.texts)
