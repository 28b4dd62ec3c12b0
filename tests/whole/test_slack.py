"""A whole bot at Slack: the real SDK, and a Slack server that refuses the same requests as
Slack."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from plugins.shell.box import CommandResult
from tests.fakes.openai_server import Answer, Call, Hang, Received, Say, echo
from tests.fakes.slack_people import BOT_USER
from tests.fakes.slack_server import SlackServer, documented_manifest
from tests.whole.slack_testbot import SlackTestBot, at_slack


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
    monkeypatch.setattr(
        "plugins.shell.box.run", AsyncMock(return_value=CommandResult(0, b"done", b"", 0))
    )
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
        await bot.slack.shown(f"Settings name you slack/{bot.ann.id}")
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
        assert sum("Settings name you slack/" in one for one in bot.slack.whispers) == 2
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


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_thread_goes_on_after_its_first_message_was_deleted(
    tmp_path: Path, is_restarted: bool
) -> None:
    gate = asyncio.Event()

    def script(got: Received) -> Say:
        is_first = "Tell me" in str(got.body["messages"][-1]["content"])
        return Say("Once upon a time", pieces=4, gate=gate) if is_first else echo(got)

    async with SlackServer() as slack:
        ann, bob = slack.person("Ann"), slack.person("Bob")
        settings = {"owners": [f"slack/{one.id}" for one in (ann, bob)]}
        general = slack.channel()
        async with at_slack(tmp_path, script, settings, slack=slack) as bot:
            first = ann.mentions("Tell me", general)
            await slack.shown("Once")
            ann.deletes(first)
            if not is_restarted:
                bob.says("And me", general, first.ts)
            gate.set()
            await slack.shown("Once upon a time")
            await bot.is_idle()
        if is_restarted:
            async with at_slack(tmp_path, echo, settings, slack=slack):
                bob.says("And me", general, first.ts)
                await slack.shown("And me")
        shown = [await slack.shown(words) for words in ("Once upon a time", "And me")]
        assert [one.thread for one in shown] == [first.ts] * 2


async def test_the_status_shows_that_the_bot_thinks_where_there_is_a_thread(tmp_path: Path) -> None:
    async with at_slack(tmp_path, [Hang("Once")]) as bot:
        general = bot.slack.channel()
        said = bot.ann.mentions("think", general)
        await bot.slack.shown("Once")
        (status, *_) = await bot.slack.called("assistant.threads.setStatus")
        assert (status["thread_ts"], status["status"]) == (said.ts, "is thinking…")
        bot.ann.mentions("/stop", general, said.ts)
        await bot.slack.shown("Stopped")


def last_said(bot: SlackTestBot) -> str:
    return str(bot.sent_to_model()[-1]["content"])


async def test_in_its_own_threads_it_answers_without_being_mentioned(tmp_path: Path) -> None:
    async with at_slack(tmp_path, echo) as bot:
        general = bot.slack.channel()
        said = bot.ann.mentions("one", general)
        await bot.slack.shown("one", general)
        bot.ann.says("two", general, said.ts)
        answer = await bot.slack.shown("two", general)
        assert answer.thread == said.ts
        asked = [m["content"] for m in bot.sent_to_model() if m["role"] == "user"]
        assert len(asked) == 2  # the same conversation
        other = bot.ann.says("Lunch?", general)
        bot.ann.says("At noon", general, other.ts)
        await bot.is_idle()
        assert len(bot.model.requests) == 2


async def test_who_calls_it_into_a_thread_lets_it_know_how_that_began(tmp_path: Path) -> None:
    async with at_slack(tmp_path, echo) as bot:
        general = bot.slack.channel("G1SECRET", "group")
        bob = bot.slack.person("Bob")
        began = bob.says(f"Is <@{bot.ann.id}> right about R&amp;D?", general)
        bot.ann.mentions("what do you think?", general, began.ts)
        answer = await bot.slack.shown("what do you think?", general)
        assert answer.thread == began.ts
        assert "Bob wrote:\n> Is @Ann right about R&D?" in last_said(bot)
        assert "Ann" in last_said(bot).partition("Bob wrote")[0]  # the model knows who speaks


async def test_mentions_links_and_channels_are_read_as_people_read_them(tmp_path: Path) -> None:
    async with at_slack(tmp_path, echo) as bot:
        bob = bot.slack.person("Bob")
        bot.ann.says(
            f"<@{bob.id}> in <#C1GENERAL|general>, <!here>: see "
            "<https://a.org/b?c=1&amp;d|the page>, "
            "<https://x.org> and <mailto:a@b.org|a@b.org>, 1 &lt; 2"
        )
        await bot.slack.shown("re:")
        assert last_said(bot) == (
            "@Bob in #general, @here: see [the page](https://a.org/b?c=1&d), https://x.org and "
            "a@b.org, 1 < 2"
        )


async def test_other_bots_and_those_who_come_and_go_are_not_answered(tmp_path: Path) -> None:
    async with at_slack(tmp_path, echo) as bot:
        general = bot.slack.channel()
        bot.ann.mentions("has joined", general, subtype="channel_join")
        bot.ann.says("beep", bot_id="B1OTHER", subtype="bot_message")
        bot.ann.says("real")
        await bot.slack.shown("re: real")
        await bot.is_idle()
        assert len(bot.model.requests) == 1


async def test_a_shared_message_comes_with_who_wrote_it(tmp_path: Path) -> None:
    async with at_slack(tmp_path, echo) as bot:
        shared = {"is_share": True, "author_name": "Bob", "text": "the plan"}
        bot.ann.says("Is it good?", attachments=[shared])
        await bot.slack.shown("Is it good?")
        assert last_said(bot) == "Bob wrote:\n> the plan\n\nIs it good?"


async def test_a_file_that_is_not_at_slack_is_said(tmp_path: Path) -> None:
    async with at_slack(tmp_path, echo) as bot:
        elsewhere = {"id": "F1", "mode": "external", "name": "sheet"}
        bot.ann.says("Look", subtype="file_share", files=[elsewhere])
        await bot.slack.shown("I can't handle links to shared files")
        await bot.slack.shown("re: Look")


async def test_threads_can_be_everywhere_or_nowhere(tmp_path: Path) -> None:
    async with at_slack(tmp_path, echo, {"slack": {"threads": "everywhere"}}) as bot:
        said = bot.ann.says("in private")
        assert (await bot.slack.shown("re: in private")).thread == said.ts
    async with at_slack(tmp_path, echo, {"slack": {"threads": "nowhere"}}) as bot:
        general = bot.slack.channel()
        bot.ann.mentions("in the open", general)
        assert (await bot.slack.shown("in the open", general)).thread == ""


async def test_who_has_opened_the_assistant_is_offered_what_to_ask(tmp_path: Path) -> None:
    manifest: dict[str, Any] = documented_manifest()
    manifest["oauth_config"]["scopes"]["bot"].append("assistant:write")
    manifest["settings"]["event_subscriptions"]["bot_events"].append("assistant_thread_started")
    async with SlackServer(manifest) as slack, at_slack(tmp_path, echo, slack=slack) as bot:
        thread = bot.ann.opens_assistant()
        await slack.until(lambda: slack.prompts)
        assert {"title": "What can you do?", "message": "/help"} in slack.prompts
        bot.ann.says("/context", thread=thread)
        assert (await slack.shown("50k tokens")).thread == thread


async def test_where_only_mentions_are_heard_they_are_answered(tmp_path: Path) -> None:
    manifest: dict[str, Any] = documented_manifest()
    events = manifest["settings"]["event_subscriptions"]["bot_events"]
    events[:] = ["app_mention", "message.im"]
    scopes = manifest["oauth_config"]["scopes"]["bot"]
    scopes[:] = ["app_mentions:read", "chat:write", "im:history", "users:read"]
    async with SlackServer(manifest) as slack, at_slack(tmp_path, echo, slack=slack) as bot:
        general = slack.channel()
        said = bot.ann.mentions("Hello", general)
        assert (await slack.shown("Hello", general)).thread == said.ts


async def test_a_thread_that_the_bot_began_is_its_own(tmp_path: Path) -> None:
    async with at_slack(tmp_path, echo) as bot:
        general = bot.slack.channel()
        began = bot.slack.keep(general, BOT_USER, "Good morning, all! Lunch is at noon.")
        bot.ann.says("Really?", general, began.ts)
        assert (await bot.slack.shown("Really?", general)).thread == began.ts
        assert "You wrote:\n> Good morning, all! Lunch is at noon.\n\nReally?" in last_said(bot)


@pytest.mark.parametrize("threads", ["channels", "everywhere"])
async def test_a_thread_below_an_answer_in_private_knows_that_answer(
    tmp_path: Path, threads: str
) -> None:
    def reply(request: Received) -> Answer:
        return Say(f"It is {len(request.body['messages'])}.")

    async with at_slack(tmp_path, reply, {"slack": {"threads": threads}}) as bot:
        said = bot.ann.says("How many?")
        answer = await bot.slack.shown("It is 2.")
        await bot.is_idle()  # before that it is a draft
        bot.ann.says("What is?", thread=said.ts if threads == "everywhere" else answer.ts)
        await bot.slack.shown("It is 4." if threads == "everywhere" else "It is 2.")
        await bot.slack.until(lambda: len(bot.model.turns) == 2)
        quoted = "" if threads == "everywhere" else "You wrote:\n> It is 2.\n\n"
        assert last_said(bot) == f"{quoted}What is?"
