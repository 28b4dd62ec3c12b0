"""Channels at Slack: whom the bot answers there, in threads that are conversations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.fakes.openai_server import echo
from tests.fakes.slack_people import BOT_USER
from tests.fakes.slack_server import SlackServer, documented_manifest
from tests.whole.slack_testbot import SlackTestBot, at_slack


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
        began = bot.slack.keep(general, BOT_USER, "Good morning, all!")
        bot.ann.says("Good morning!", general, began.ts)
        assert (await bot.slack.shown("Good morning!", general)).thread == began.ts
