"""The bot at Discord, through the real SDK: direct messages, servers, threads, slash commands,
buttons, files; and a gateway that disconnects and returns."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from channels.discord import client
from channels.discord.platform import WRONG_TOKEN
from channels.kit.receiver import MessageReceiver
from tests.fakes.discord_gateway import MESSAGE_CONTENT
from tests.fakes.discord_rules import Refused
from tests.fakes.discord_server import APPLICATION, GENERAL, KITCHEN, OWN_ROLE, DiscordServer
from tests.fakes.openai_server import Answer, Received, Say
from tests.waiting import PATIENCE
from tests.whole.discord_testbot import at_discord

ME = f"<@{APPLICATION}>"
BOTH = {"owners": ["discord/42", "discord/43"]}
ODD: tuple[Any, ...] = (None, 5, "x", [], [{}], {}, {"id": "1"})


def echo(request: Received) -> Answer:
    content = request.body["messages"][-1]["content"]
    return Say(f"re: {content if isinstance(content, str) else content[0]['text']}")


async def test_a_slash_command_is_the_line_that_a_person_types(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo) as bot:
        bot.ann.says("Remember the fog.")
        await bot.discord.shown("re: Remember the fog.")
        used = bot.ann.uses("context", "search fog")
        answer = await bot.discord.found(lambda one: one.interaction == used)
        bot.ann.says("/context search fog")
        typed = await bot.discord.found(
            lambda one: one is not answer and "fog" in one.text and not one.text.startswith("re:")
        )
        assert answer.text == typed.text
        on_server = bot.ann_in_general.uses("whoami")
        said = await bot.discord.found(lambda one: one.interaction == on_server)
        assert f"this conversation discord/{GENERAL}" in said.text


async def test_a_command_that_takes_long_is_seen_to_be_thought_about(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with at_discord(tmp_path, [Say("First."), Say("Second.", gate=gate, pieces=1)]) as bot:
        bot.ann.says("Hi")
        await bot.discord.shown("First.")
        used = bot.ann.uses("retry")
        pending = bot.discord.interactions[used]
        assert await bot.discord.until(lambda: pending.answered) in (4, 5)
        gate.set()
        assert (await bot.discord.shown("Second.")).channel == bot.ann.channel


async def test_commands_are_offered_in_each_language(tmp_path: Path) -> None:
    async with at_discord(tmp_path) as bot:
        await bot.discord.until(lambda: bot.discord.commands)
        offered = {one["name"]: one for one in bot.discord.commands}
        assert set(offered["context"]["description_localizations"]) == {"de", "zh-CN"}
        assert (
            offered["context"]["description"]
            != offered["context"]["description_localizations"]["de"]
        )
        bot.ann.locale = "de"
        used = bot.ann.uses("whoami")
        answer = await bot.discord.found(lambda one: one.interaction == used)
        assert answer.text.startswith("Du bist Besitzer")


async def test_on_a_server_it_answers_only_those_who_speak_to_it(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo) as bot:
        ann = bot.ann_in_general
        ann.says("Good morning, all!")
        asked = ann.says(f"{ME} what is up?")
        answer = await bot.discord.shown("re: Ann: what is up?")
        assert answer.answers == asked
        ann.says("And now?", answers=answer.id, mentions=[bot.discord.bot])
        await bot.discord.shown("re: Ann: And now?")
        ann.says(f"<@&{OWN_ROLE}>: by the role?")
        await bot.discord.shown("re: Ann: by the role?")
        assert len(bot.model.requests) == 3


async def test_the_model_knows_who_speaks_and_to_whose_words(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo, BOTH) as bot:
        bob = bot.discord.person("Bob", 43).at(GENERAL)
        first = bot.ann_in_general.says("Lisbon is far.")
        bob.says(f"{ME} is it, <@42>?", answers=first)
        await bot.discord.shown("is it, @Ann?")
        said = str(bot.sent_to_model()[-1]["content"])
        assert said == "Bob: Ann wrote:\n> Lisbon is far.\n\nis it, @Ann?"


@pytest.mark.parametrize(("conversations", "shared"), [("channel", True), ("user", False)])
async def test_a_channel_or_each_person_may_be_one_conversation(
    tmp_path: Path, conversations: str, shared: bool
) -> None:
    async with at_discord(tmp_path, echo, BOTH, conversations=conversations) as bot:
        thread = bot.discord.thread("aside")
        bot.ann_in_general.says(f"{ME} the word is fog")
        await bot.discord.shown("re: Ann: the word is fog")
        bob = bot.discord.person("Bob", 43).at(thread)
        bob.says(f"{ME} which word?")
        answer = await bot.discord.shown("re: Bob: which word?")
        assert answer.channel == thread
        earlier = [str(one["content"]) for one in bot.sent_to_model()[:-1]]
        assert any("fog" in text for text in earlier) is shared


async def test_without_the_intent_for_content_it_hears_what_is_said_to_it(tmp_path: Path) -> None:
    server = DiscordServer()
    server.has_content = False
    async with server, at_discord(tmp_path, echo, discord=server) as bot:
        assert not server.gateway.identified[0]["intents"] & MESSAGE_CONTENT
        first = bot.ann_in_general.says("A secret of the server.")
        bot.ann_in_general.says(f"{ME} hello", answers=first)
        await bot.discord.shown("re: Ann: hello")
        bot.ann.says("In private, too")
        await bot.discord.shown("re: In private, too")


async def test_nobody_is_woken_and_no_page_is_fetched_by_what_a_model_writes(
    tmp_path: Path,
) -> None:
    said = "@everyone <@42> see https://evil.example/?q=secret and [this](https://evil.example/)"
    async with at_discord(tmp_path, [Say(said)]) as bot:
        bot.ann_in_general.says(f"{ME} hi")
        answer = await bot.discord.shown("evil.example")  # the server itself refuses pings
        assert answer.flags & 4
        assert "<https://evil.example/?q=secret>" in answer.raw


async def test_an_edited_message_is_answered_again_and_a_preview_is_no_edit(
    tmp_path: Path,
) -> None:
    async with at_discord(tmp_path, echo) as bot:
        message = bot.ann.says("Wether")
        await bot.discord.shown("re: Wether")
        bot.ann.gets_preview(message)
        bot.ann.edits(message, "Weather")
        await bot.discord.shown("re: Weather")
        await bot.is_idle()
        assert len(bot.model.requests) == 2


async def test_a_file_that_discord_does_not_hand_out_is_named(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo) as bot:
        file = bot.discord.attach(bot.ann.channel, "gone.txt", b"x", "text/plain")
        bot.discord.attachments.clear()
        bot.ann.says("Look", attachments=[file])
        await bot.discord.shown("I did not get gone.txt")
        await bot.discord.shown("re: Look")


async def test_kinds_that_it_can_not_take_are_named(tmp_path: Path) -> None:
    async with at_discord(tmp_path) as bot:
        sticker = {"id": "5", "name": "wave", "format_type": 1}
        bot.ann.says("", sticker_items=[sticker])
        await bot.discord.shown("I can't handle stickers yet")


async def test_what_was_written_in_hours_of_outage_is_looked_up(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo) as bot:
        bot.ann.says("Before")
        await bot.discord.shown("re: Before")
        await bot.is_idle()
        bot.discord.outage(True)
        bot.discord.gateway.forget_sessions()
        first, second = (bot.ann.writes_unheard(text) for text in ("First", "Second"))
        await bot.discord.until(lambda: bot.discord.gateway.connections > 4)
        assert bot.state == "troubled"
        bot.discord.outage(False)
        assert (await bot.discord.shown("re: Second")).id > second
        said = [str(one["content"]) for one in bot.sent_to_model()]
        assert said.index("First") < said.index("Second")
        assert first < second
        assert bot.state == "up"


async def test_what_was_written_while_the_bot_was_off_is_answered(tmp_path: Path) -> None:
    async with DiscordServer() as server:
        async with at_discord(tmp_path, echo, discord=server) as bot:
            bot.ann_in_general.says(f"{ME} one")
            await server.shown("re: Ann: one")
            await bot.is_idle()
        ann = bot.ann_in_general
        ann.writes_unheard("not for it")
        ann.writes_unheard(f"{ME} two")
        async with at_discord(tmp_path, echo, discord=server) as bot:
            answer = await server.shown("re: Ann: two")
            assert answer.channel == GENERAL
            await bot.is_idle()
            assert len(bot.model.requests) == 1


async def test_the_first_message_of_a_chat_is_answered_by_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = asyncio.Event()

    async def take_never(_: MessageReceiver, __: object) -> None:
        heard.set()
        await asyncio.Event().wait()

    async with DiscordServer() as server:
        with monkeypatch.context() as patch:
            patch.setattr(MessageReceiver, "take", take_never)
            async with at_discord(tmp_path, discord=server) as bot:
                bot.ann.says("Hello")
                await asyncio.wait_for(heard.wait(), PATIENCE)
        async with at_discord(tmp_path, echo, discord=server):
            await server.shown("re: Hello")


async def test_it_waits_as_long_as_discord_says(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo) as bot:
        bot.discord.limit(47.5)
        bot.ann.says("Hello")
        await bot.discord.shown("re: Hello")
        assert 47.5 in bot.slept


async def test_a_wrong_token_is_said_to_be_one(tmp_path: Path) -> None:
    async with at_discord(tmp_path, token="wrong.token.here") as bot:
        await bot.is_over()
        assert bot.channel.health.state == "down"
        assert bot.channel.health.reason == WRONG_TOKEN


async def test_events_of_any_shape_hold_nobody_up(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo) as bot:
        tell = bot.discord.gateway.tell_as_it_is
        whole = bot.ann.message("Odd") | {"referenced_message": None, "message_reference": {}}
        for key in whole:
            for value in ODD:
                tell("MESSAGE_CREATE", whole | {key: value})
                tell("MESSAGE_UPDATE", {"id": "1", key: value})
                tell("INTERACTION_CREATE", {"id": "1", key: value})
                tell("MESSAGE_REACTION_ADD", {"user_id": "1", key: value})
        for odd in ODD:
            tell("MESSAGE_CREATE", odd)
        bot.ann.says("Still there?")
        await bot.discord.shown("re: Still there?")
        assert bot.state == "up"


async def test_a_thread_that_nobody_told_of_is_looked_up(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo) as bot:
        thread = bot.discord.thread("quiet", KITCHEN, is_told=False)
        bot.ann.at(thread).says(f"{ME} psst")
        assert (await bot.discord.shown("re: Ann: psst")).channel == thread
        bot.ann.at(thread).uses("whoami")
        await bot.discord.shown(f"this conversation discord/{KITCHEN}/{thread}", thread)


async def test_other_bots_and_what_discord_itself_says_are_not_answered(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo) as bot:
        other = bot.discord.person("Other", 77)
        bot.discord.people[77]["bot"] = True
        other.says("Hello, fellow bot")
        bot.ann_in_general.says(f"{ME}", type=7)  # she joined the server
        bot.ann.says("Hello")
        await bot.discord.shown("re: Hello")
        await bot.is_idle()
        assert len(bot.model.requests) == 1


async def test_a_stranger_who_gets_no_answer_is_not_told_that_one_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_SOON", 0.02)
    gate = asyncio.Event()
    async with at_discord(tmp_path, [Say("One."), Say("Two.", gate=gate)]) as bot:
        bob = bot.discord.person("Bob", 43)
        await bot.discord.until(lambda: bot.discord.commands)
        bob.uses("status")
        await bot.discord.shown("/pair")
        second = bob.uses("status")  # within a minute: no second notice
        bot.ann.says("Hi")
        await bot.discord.shown("One.")
        pending = bot.discord.interactions[bot.ann.uses("retry")]
        await bot.discord.until(lambda: pending.answered)
        assert bot.discord.interactions[second].answered == 0
        gate.set()
        await bot.discord.shown("Two.")


async def test_an_answer_that_comes_too_late_for_its_command_comes_as_a_message(
    tmp_path: Path,
) -> None:
    async with at_discord(tmp_path) as bot:
        await bot.discord.until(lambda: bot.discord.commands)
        used = bot.ann.uses("whoami", is_late=True)
        answer = await bot.discord.shown("You are an owner")
        assert answer.interaction == 0
        assert bot.discord.interactions[used].answered == 0


@pytest.mark.parametrize(("status", "code"), [(400, 50083), (403, 160005), (403, 50013)])
async def test_a_thread_that_takes_no_messages_any_more_is_no_fault_of_the_channel(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, status: int, code: int
) -> None:
    async with at_discord(tmp_path, echo) as bot:
        thread = bot.ann.at(bot.discord.thread("aside"))
        await bot.discord.gateway.is_known()
        bot.discord.refusals += [Refused(status, code, "It is locked.")] * 3
        thread.says(f"<@{APPLICATION}> one")
        await bot.discord.until(lambda: len(bot.discord.refusals) < 3)
        await bot.is_idle()
        bot.discord.refusals.clear()
        bot.ann.says("two")
        await bot.discord.shown("re: two")
    assert "waits for the next start" not in caplog.text
