"""Groups and topics at Telegram: the messages that are answered, the extent of a conversation, and
its branches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plugins.shell import feature as plugin
from tests.fakes.openai_server import Call, Received, Say, echo
from tests.fakes.telegram_server import Person, Refused, Sent, failing
from tests.whole.telegram_testbot import TelegramTestBot, at_telegram

OWNERS = {"owners": ["telegram/42", "telegram/43"]}
GROUP = -1001


async def test_in_a_group_it_answers_only_those_who_speak_to_it(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, echo) as bot:
        ann = bot.ann.at(bot.telegram.group(GROUP))
        ann.says("Good morning, all!")
        ann.says("/context@other_bot")
        ann.says("/roll 6")  # a command of some other bot
        message = ann.says("@Parley_Bot what is up?")
        answer = await bot.telegram.shown("re: Ann: what is up?")
        assert answer.answers == message
        replied = {"message_id": answer.id, "date": 1, "chat": bot.telegram.chats[GROUP]}
        api = {"id": 123456, "is_bot": True, "first_name": "Parley", "username": "parley_bot"}
        ann.says("And now?", reply_to_message={**replied, "from": api, "text": answer.text})
        await bot.telegram.shown("re: Ann: And now?")
        ann.says("/whoami")
        await bot.telegram.shown("this conversation telegram/-1001")
        ann.says("/version@parley_bot")
        await bot.telegram.shown("Parley 0")
        assert len(bot.model.requests) == 2


async def test_the_model_knows_who_speaks_and_to_whose_words(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, echo, OWNERS) as bot:
        group = bot.telegram.group(GROUP)
        bob = bot.telegram.person("Bob", 43)
        quoted = bot.ann.at(group).message("Lisbon is far.")
        bob.at(group).says("@parley_bot is it?", reply_to_message=quoted)
        await bot.telegram.shown("re: Bob: Ann wrote:\nLisbon is far.\n\nis it?")
        bob.says("And here?")  # in private it is always for the bot
        await bot.telegram.shown("re: And here?", chat=43)


async def test_a_whole_group_can_be_one_conversation(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, echo, {"telegram": {"conversations": "chat"}}) as bot:
        group = bot.telegram.group(GROUP, is_forum=True)
        bot.ann.at(group, 7).says("@parley_bot seven")
        assert (await bot.telegram.shown("re: Ann: seven")).topic == 7
        bot.ann.at(group, 8).says("@parley_bot eight")
        assert (await bot.telegram.shown("re: Ann: eight")).topic == 8
        assert len(questions(bot)) == 2


async def test_each_person_in_a_group_can_have_a_conversation(tmp_path: Path) -> None:
    settings = {**OWNERS, "telegram": {"conversations": "user"}}
    async with at_telegram(tmp_path, echo, settings) as bot:
        group = bot.telegram.group(GROUP)
        bot.ann.at(group).says("@parley_bot I am Ann")
        await bot.telegram.shown("re: Ann: I am Ann")
        bot.telegram.person("Bob", 43).at(group).says("@parley_bot I am Bob")
        await bot.telegram.shown("re: Bob: I am Bob")
        assert len(questions(bot)) == 1


def questions(bot: TelegramTestBot) -> list[str]:
    """Return the messages of people in the last request to the model."""
    return [m["content"] for m in bot.sent_to_model() if m["role"] == "user"]


def hidden(bot: TelegramTestBot) -> dict[str, Any]:
    """Return an anonymous administrator as Telegram shows it: as the group itself."""
    robot = {"id": 1087968824, "is_bot": True, "first_name": "Group"}
    return {"from": robot, "sender_chat": bot.telegram.chats[GROUP]}


async def test_a_hidden_administrator_is_not_alone_with_the_bot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin, "_BOX", [True])
    script = [Say(calls=(Call("shell", '{"command": "true"}', "c1"),)), Say("Then not.")]
    async with at_telegram(tmp_path, script, {"tools": {"shell": True}}) as bot:
        ann = bot.ann.at(bot.telegram.group(GROUP))
        ann.says("/pair here")
        await bot.telegram.shown("is a user from now on")
        ann.says("@parley_bot do it")
        asked = await bot.telegram.shown("Allow the model to do this?")
        name = next(data for data in asked.buttons.values() if "/deny" in data).split()[-1]
        ann.says(f"/approve {name}", **hidden(bot))
        await bot.telegram.shown("Only an owner may allow this; you are telegram/admin-1001.")
        ann.says(f"/deny {name}", **hidden(bot))
        await bot.telegram.shown("Then not.")
        ann.says("/forget chat yes", **hidden(bot))
        await bot.telegram.shown("Only an owner may delete what was said where others read")


async def test_other_bots_are_not_answered_and_hidden_administrators_are_the_group(
    tmp_path: Path,
) -> None:
    async with at_telegram(tmp_path, echo) as bot:
        ann = bot.ann.at(bot.telegram.group(GROUP))
        robot = {"id": 77, "is_bot": True, "first_name": "Robot"}
        ann.sends({**ann.message("@parley_bot hello"), "from": robot})
        ann.sends(ann.message("@parley_bot hello") | hidden(bot))
        await bot.telegram.shown("Ask the bot's owner to send")
        await bot.is_idle()
        assert len(bot.telegram.texts) == 1


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
        assert [*request.buttons] == ["As sent (JSON)", "Changes since r1", "Previous: r1"]
        bot.ann.presses(request, "Changes since r1")
        compared = await bot.telegram.shown("+ t2 user")
        bot.ann.presses(compared, "r1")
        await bot.telegram.shown("Request r1, sent ")


async def test_settings_with_few_values_are_changed_by_buttons(tmp_path: Path) -> None:
    async with at_telegram(tmp_path) as bot:
        bot.ann.says("/config")
        settings = await bot.telegram.shown("/config KEY explains a setting")
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
    """Send the update of a client that presses a button which the bot has not made."""
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


TWO = {"owners": ["telegram/42", "telegram/43"]}


def echo_of_group(request: Received) -> Say:
    last = str(request.body["messages"][-1]["content"])
    return Say(f"re: {last.rpartition(': ')[2]}")


async def said(bot: TelegramTestBot, person: Person, text: str) -> None:
    """Send a message to the bot in a group, and wait for the model's answer."""
    person.says(f"@parley_bot {text}")
    await bot.telegram.shown(f"re: {text}")


async def test_in_a_group_a_fork_leads_everybody_there_and_nobody_elsewhere(
    tmp_path: Path,
) -> None:
    async with at_telegram(tmp_path, echo_of_group, TWO) as bot:
        group = bot.telegram.group(GROUP)
        ann, bob = bot.ann.at(group), bot.telegram.person("Bob", 43).at(group)
        await said(bot, ann, "first")
        await said(bot, bob, "second")
        ann.says("/fork@parley_bot t1 Aside")
        forked = await bot.telegram.shown("You are in branch 2, “Aside” now", chat=GROUP)
        await said(bot, bob, "third")
        assert questions(bot) == ["Ann: first", "Bob: third"]
        bot.ann.says("/branches")
        await bot.telegram.shown("This conversation has no branches", chat=42)
        bob.presses(forked, "Go back")
        await bot.telegram.shown("You are in branch 1", chat=GROUP)
        await said(bot, ann, "fourth")
        assert questions(bot) == ["Ann: first", "Bob: second", "Ann: fourth"]


async def test_another_member_sees_what_was_asked_aside_and_the_model_does_not(
    tmp_path: Path,
) -> None:
    async with at_telegram(tmp_path, echo_of_group, TWO) as bot:
        group = bot.telegram.group(GROUP)
        ann, bob = bot.ann.at(group), bot.telegram.person("Bob", 43).at(group)
        await said(bot, ann, "first")
        ann.says("/btw who is it?")
        await bot.telegram.shown("re: who is it?", chat=GROUP)
        assert questions(bot) == ["Ann: first", "Ann: who is it?"]
        bob.says("/btw")
        listed = await bot.telegram.shown("Ann: who is it?", chat=GROUP)
        assert "re: who is it?" in listed.text
        await said(bot, bob, "second")
        assert questions(bot) == ["Ann: first", "Bob: second"]


async def test_a_stranger_in_a_group_neither_branches_nor_asks_nor_sees_anything(
    tmp_path: Path,
) -> None:
    async with at_telegram(tmp_path, echo_of_group) as bot:
        group = bot.telegram.group(GROUP)
        ann, eve = bot.ann.at(group), bot.telegram.person("Eve", 66).at(group)
        await said(bot, ann, "first")
        ann.says("/fork Plan")
        forked = await bot.telegram.shown("You are in branch 2, “Plan” now")
        shown = len(bot.telegram.texts)
        for line in ("/btw what is the plan?", "/fork", "/branches", "/branches 1"):
            eve.says(line)
        eve.presses(forked, "Go back")
        eve.presses(forked, "All branches")
        await bot.telegram.called("answerCallbackQuery", 2)
        await bot.is_idle()
        (told,) = bot.telegram.texts[shown:]
        assert "Ask the bot's owner to send" in told
        assert "Plan" not in told
        ann.says("/branches")
        listed = await bot.telegram.shown("You are in branch 2, the bold one")
        assert [*listed.buttons] == ["1: first"]
        ann.says("/btw")
        await bot.telegram.shown("No side question was asked here.")
        assert len(bot.model.requests) == 1
