"""A whole bot at Slack: the real SDK, and a Slack that refuses what Slack refuses."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from plugins.shell.box import Ran
from tests.fakes.openai_server import Call, Hang, Say, echo
from tests.fakes.slack_server import SlackServer
from tests.whole.slack_testbot import SlackTestBot, at_slack


async def answers(bot: SlackTestBot, words: str) -> list[str]:
    """All messages with these words, once the bot has nothing more to do."""
    await bot.is_idle()
    return [message.text for message in bot.slack.said if words in message.text]


async def test_what_no_bot_has_confirmed_is_brought_to_the_next_one(tmp_path: Path) -> None:
    async with SlackServer() as slack:
        async with at_slack(tmp_path, echo, slack=slack) as bot:
            bot.ann.says("first")
            await slack.shown("re: first")
        bot.ann.says("second")
        async with at_slack(tmp_path, echo, slack=slack):
            await slack.shown("re: second")
            await slack.until(lambda: not slack.delivery.waiting)
        assert [m.text for m in slack.said if "first" in m.text] == ["re: first"]


async def test_a_file_that_slack_does_not_give_is_said(tmp_path: Path) -> None:
    async with at_slack(tmp_path, echo) as bot:
        bot.slack.scopes.remove("files:read")
        bot.ann.sends("note.txt", b"secret", "text/plain", "Keep it")
        await bot.slack.shown("I did not get note.txt")
        await bot.slack.shown("re: Keep it")


async def test_a_reaction_approves_in_a_thread_of_a_channel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = [Say(calls=(Call("shell", '{"command": "echo done"}', "c1"),)), Say("It is done.")]
    monkeypatch.setattr("plugins.shell.feature._BOX", [False])
    monkeypatch.setattr("plugins.shell.box.run", AsyncMock(return_value=Ran(0, b"done", b"", 0)))
    settings = {"tools": {"shell": True, "shell_unboxed": True}}
    async with at_slack(tmp_path, script, settings) as bot:
        bot.ann.mentions("do it", bot.slack.channel())
        question = await bot.slack.shown("echo done")
        assert question.thread
        bot.slack.person("Mallory").reacts(question, "+1")
        bot.ann.reacts(question, "+1::skin-tone-4")
        answer = await bot.slack.shown("It is done.")
        assert answer.thread == question.thread


async def test_a_slash_command_is_a_command_or_a_message(tmp_path: Path) -> None:
    async with at_slack(tmp_path, echo) as bot:
        bot.ann.commands("whoami")
        await bot.slack.shown(f"You are slack/{bot.ann.id}, an owner")
        bot.ann.commands("")
        await bot.slack.shown("/context")
        bot.ann.commands("What is R&amp;D?")
        await bot.slack.shown("re: What is R&D?")


async def test_where_the_bot_is_no_member_a_command_is_answered_to_whoever_gave_it(
    tmp_path: Path,
) -> None:
    async with at_slack(tmp_path, echo) as bot:
        for kind in ("channel", "group"):
            place = bot.slack.channel(f"C-{kind}", kind, joined=False)
            bot.ann.commands("whoami", place)
            bot.ann.commands(f"hello, {kind}", place)
            await bot.slack.until(
                lambda: any(kind in one and "re: " in one for one in bot.slack.whispers)  # noqa: B023
            )
        assert sum("You are slack/" in one for one in bot.slack.whispers) == 2
        assert not [message for message in bot.slack.said if message.channel != bot.ann.dm]


async def test_where_the_bot_is_no_member_nobody_sees_the_answer_to_another(
    tmp_path: Path,
) -> None:
    async with SlackServer() as slack:
        people = {one.id: one for one in (slack.person("Ann"), slack.person("Bob"))}
        settings = {"owners": [f"slack/{user}" for user in people]}
        async with at_slack(tmp_path, echo, settings, slack=slack):
            place = slack.channel("C-far", joined=False)
            for person in people.values():
                person.commands(f"I am {person.name}", place)
            await slack.until(lambda: len(slack.whispers) == 2)
            for user, whisper in zip(slack.whispered_to, slack.whispers, strict=True):
                assert f"I am {people[user].name}" in whisper


async def test_slack_says_its_own_words_in_the_language_of_the_person(tmp_path: Path) -> None:
    async with SlackServer() as slack:
        slack.person("Eva", "de-DE")
        async with at_slack(tmp_path, slack=slack) as bot:
            bot.ann.says("/whoami")
            await slack.shown("Du bist")


async def test_the_status_shows_that_the_bot_thinks_where_there_is_a_thread(tmp_path: Path) -> None:
    async with at_slack(tmp_path, [Hang("Once")]) as bot:
        general = bot.slack.channel()
        said = bot.ann.mentions("think", general)
        await bot.slack.shown("Once")
        (status, *_) = await bot.slack.called("assistant.threads.setStatus")
        assert (status["thread_ts"], status["status"]) == (said.ts, "is thinking…")
        bot.ann.mentions("/stop", general, said.ts)
        await bot.slack.shown("Stopped")
