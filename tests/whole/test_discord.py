"""The bot at Discord, through the real SDK: direct messages, servers, threads, slash commands,
buttons, files; and a gateway that goes away and comes back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from channels.discord import interactions
from channels.discord.platform import WRONG_TOKEN
from tests.fakes.discord_gateway import MESSAGE_CONTENT
from tests.fakes.discord_server import APPLICATION, GENERAL, KITCHEN, OWN_ROLE, DiscordServer
from tests.fakes.openai_server import Answer, Received, Say
from tests.whole.discord_house import at_discord

ME = f"<@{APPLICATION}>"
BOTH = {"owners": ["discord/42", "discord/43"]}
ODD: tuple[Any, ...] = (None, 5, "x", [], [{}], {}, {"id": "1"})
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def echo(request: Received) -> Answer:
    content = request.body["messages"][-1]["content"]
    return Say(f"re: {content if isinstance(content, str) else content[0]['text']}")


async def test_an_answer_streams_into_one_message_and_ends_as_the_whole(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with at_discord(tmp_path, [Say("One **two** three", gate=gate)]) as house:
        house.ann.says("Count!")
        draft = await house.discord.found(lambda one: one.raw.endswith("…"))
        gate.set()
        whole = await house.discord.found(lambda one: one.text == "One two three")
        assert whole is draft
        assert whole.raw == "One **two** three"
        assert house.ann.channel in house.discord.typing


async def test_a_slash_command_is_the_line_that_a_person_types(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo) as house:
        house.ann.says("Remember the fog.")
        await house.discord.shown("re: Remember the fog.")
        used = house.ann.uses("context", "search fog")
        answer = await house.discord.found(lambda one: one.interaction == used)
        house.ann.says("/context search fog")
        typed = await house.discord.found(
            lambda one: one is not answer and "fog" in one.text and not one.text.startswith("re:")
        )
        assert answer.text == typed.text
        on_server = house.ann_in_general.uses("whoami")
        said = await house.discord.found(lambda one: one.interaction == on_server)
        assert f"This conversation is discord/{GENERAL}" in said.text


async def test_a_command_that_takes_long_is_seen_to_be_thought_about(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with at_discord(tmp_path, [Say("First."), Say("Second.", gate=gate, pieces=1)]) as house:
        house.ann.says("Hi")
        await house.discord.shown("First.")
        used = house.ann.uses("retry")
        pending = house.discord.interactions[used]
        assert await house.discord.until(lambda: pending.answered) in (4, 5)
        gate.set()
        assert (await house.discord.shown("Second.")).channel == house.ann.channel


async def test_commands_are_offered_in_each_language(tmp_path: Path) -> None:
    async with at_discord(tmp_path) as house:
        await house.discord.until(lambda: house.discord.commands)
        offered = {one["name"]: one for one in house.discord.commands}
        assert set(offered["context"]["description_localizations"]) == {"de", "zh-CN"}
        assert (
            offered["context"]["description"]
            != offered["context"]["description_localizations"]["de"]
        )
        house.ann.locale = "de"
        used = house.ann.uses("whoami")
        answer = await house.discord.found(lambda one: one.interaction == used)
        assert answer.text.startswith("Du bist discord/42")


async def test_buttons_do_what_their_commands_do_and_a_dangerous_one_asks(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo) as house:
        house.ann.says("Hello")
        await house.discord.shown("re: Hello")
        house.ann.uses("context")
        shown = await house.discord.found(lambda one: "Clear" in one.buttons)
        assert list(shown.buttons) == ["Details", "Map", "Compact", "Clear"]
        pressed = house.ann.presses(shown, "Clear")
        assert await house.discord.until(lambda: house.discord.interactions[pressed].answered) == 6
        question = await house.discord.shown("are you sure?")
        house.ann.presses(question, next(label for label in question.buttons if "Yes" in label))
        await house.discord.shown("Cleared")
        await house.discord.until(lambda: question.id in house.discord.removed)


async def test_on_a_server_it_answers_only_those_who_speak_to_it(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo) as house:
        ann = house.ann_in_general
        ann.says("Good morning, all!")
        asked = ann.says(f"{ME} what is up?")
        answer = await house.discord.shown("re: Ann: what is up?")
        assert answer.answers == asked
        ann.says("And now?", answers=answer.id, mentions=[house.discord.bot])
        await house.discord.shown("re: Ann: And now?")
        ann.says(f"<@&{OWN_ROLE}>: by the role?")
        await house.discord.shown("re: Ann: by the role?")
        assert len(house.model.requests) == 3


async def test_the_model_knows_who_speaks_and_to_whose_words(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo, BOTH) as house:
        bob = house.discord.person("Bob", 43).at(GENERAL)
        first = house.ann_in_general.says("Lisbon is far.")
        bob.says(f"{ME} is it, <@42>?", answers=first)
        await house.discord.shown("is it, @Ann?")
        said = str(house.sent_to_model()[-1]["content"])
        assert said == "Bob: Ann wrote:\n> Lisbon is far.\n\nis it, @Ann?"


async def test_each_thread_is_a_conversation_and_is_answered_in_its_place(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo) as house:
        one, two = house.discord.thread("one"), house.discord.thread("two", KITCHEN)
        house.ann.at(one).says(f"{ME} in one")
        house.ann.at(two).says(f"{ME} in two")
        assert (await house.discord.shown("re: Ann: in one")).channel == one
        assert (await house.discord.shown("re: Ann: in two")).channel == two
        house.ann.at(two).uses("whoami")
        await house.discord.shown(f"This conversation is discord/{KITCHEN}/{two}", two)


@pytest.mark.parametrize(("conversations", "shared"), [("channel", True), ("user", False)])
async def test_a_channel_or_each_person_may_be_one_conversation(
    tmp_path: Path, conversations: str, shared: bool
) -> None:
    async with at_discord(tmp_path, echo, BOTH, conversations=conversations) as house:
        thread = house.discord.thread("aside")
        house.ann_in_general.says(f"{ME} the word is fog")
        await house.discord.shown("re: Ann: the word is fog")
        bob = house.discord.person("Bob", 43).at(thread)
        bob.says(f"{ME} which word?")
        answer = await house.discord.shown("re: Bob: which word?")
        assert answer.channel == thread
        earlier = [str(one["content"]) for one in house.sent_to_model()[:-1]]
        assert any("fog" in text for text in earlier) is shared


async def test_without_the_intent_for_content_it_hears_what_is_said_to_it(tmp_path: Path) -> None:
    server = DiscordServer()
    server.has_content = False
    async with server, at_discord(tmp_path, echo, discord=server) as house:
        assert not server.gateway.identified[0]["intents"] & MESSAGE_CONTENT
        first = house.ann_in_general.says("A secret of the server.")
        house.ann_in_general.says(f"{ME} hello", answers=first)
        await house.discord.shown("re: Ann: hello")
        house.ann.says("In private, too")
        await house.discord.shown("re: In private, too")


async def test_nobody_is_woken_and_no_page_is_fetched_by_what_a_model_writes(
    tmp_path: Path,
) -> None:
    said = "@everyone <@42> see https://evil.example/?q=secret and [this](https://evil.example/)"
    async with at_discord(tmp_path, [Say(said)]) as house:
        house.ann_in_general.says(f"{ME} hi")
        answer = await house.discord.shown("evil.example")  # the server itself refuses pings
        assert answer.flags & 4
        assert "<https://evil.example/?q=secret>" in answer.raw


async def test_an_edited_message_is_answered_again_and_a_preview_is_no_edit(
    tmp_path: Path,
) -> None:
    async with at_discord(tmp_path, echo) as house:
        message = house.ann.says("Wether")
        await house.discord.shown("re: Wether")
        house.ann.gets_preview(message)
        house.ann.edits(message, "Weather")
        await house.discord.shown("re: Weather")
        await house.is_idle()
        assert len(house.model.requests) == 2


async def test_what_comes_twice_is_taken_once(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo) as house:
        message = house.ann.says("Once")
        await house.discord.shown("re: Once")
        house.discord.gateway.tell_again("MESSAGE_CREATE", str(message))
        house.ann.says("Then")
        await house.discord.shown("re: Then")
        assert len(house.model.requests) == 2


async def test_files_reach_the_model_and_come_back(tmp_path: Path) -> None:
    async with at_discord(tmp_path, [Say("Seen."), Say("long " * 6_000)]) as house:
        house.ann.sends_file("notes.txt", b"the password is fog", "text/plain", "Read this.")
        await house.discord.shown("Seen.")
        assert "fog" in str(house.sent_to_model()) or "notes.txt" in str(house.sent_to_model())
        house.ann.says("At length, please")
        answer = await house.discord.found(lambda one: bool(one.files))
        assert answer.files["answer.md"].decode().startswith("long long")


async def test_a_file_that_discord_does_not_hand_out_is_named(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo) as house:
        file = house.discord.attach(house.ann.channel, "gone.txt", b"x", "text/plain")
        house.discord.attachments.clear()
        house.ann.says("Look", attachments=[file])
        await house.discord.shown("I did not get gone.txt")
        await house.discord.shown("re: Look")


async def test_kinds_that_it_can_not_take_are_named(tmp_path: Path) -> None:
    async with at_discord(tmp_path) as house:
        sticker = {"id": "5", "name": "wave", "format_type": 1}
        house.ann.says("", sticker_items=[sticker])
        await house.discord.shown("I can't handle stickers yet")


async def test_a_cut_connection_is_resumed_and_nothing_is_lost(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo) as house:
        house.discord.gateway.cut()
        house.ann.says("Said in the gap")  # the session goes on at Discord's
        await house.discord.shown("re: Said in the gap")
        assert house.discord.gateway.resumed == 1
        house.discord.gateway.ask_to_reconnect()
        house.ann.says("And again")
        await house.discord.shown("re: And again")
        assert len(house.discord.gateway.identified) == 1


async def test_what_was_written_in_hours_of_outage_is_looked_up(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo) as house:
        house.ann.says("Before")
        await house.discord.shown("re: Before")
        await house.is_idle()
        house.discord.outage(True)
        house.discord.gateway.forget_sessions()
        first, second = (house.ann.writes_unheard(text) for text in ("First", "Second"))
        await house.discord.until(lambda: house.discord.gateway.connections > 4)
        assert house.state == "troubled"
        house.discord.outage(False)
        assert (await house.discord.shown("re: Second")).id > second
        said = [str(one["content"]) for one in house.sent_to_model()]
        assert said.index("First") < said.index("Second")
        assert first < second
        assert house.state == "up"


async def test_what_was_written_while_the_bot_was_off_is_answered(tmp_path: Path) -> None:
    async with DiscordServer() as server:
        async with at_discord(tmp_path, echo, discord=server) as house:
            house.ann_in_general.says(f"{ME} one")
            await server.shown("re: Ann: one")
            await house.is_idle()
        ann = house.ann_in_general
        ann.writes_unheard("not for it")
        ann.writes_unheard(f"{ME} two")
        async with at_discord(tmp_path, echo, discord=server) as house:
            answer = await server.shown("re: Ann: two")
            assert answer.channel == GENERAL
            await house.is_idle()
            assert len(house.model.requests) == 1


async def test_it_waits_as_long_as_discord_says(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo) as house:
        house.discord.limit(47.5)
        house.ann.says("Hello")
        await house.discord.shown("re: Hello")
        assert 47.5 in house.slept


async def test_a_wrong_token_is_said_to_be_one(tmp_path: Path) -> None:
    async with at_discord(tmp_path, token="wrong.token.here") as house:
        await house.is_over()
        assert house.channel.health.state == "down"
        assert house.channel.health.reason == WRONG_TOKEN


async def test_a_revoked_token_ends_the_channel_with_a_sentence(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo) as house:
        await house.discord.revoke()
        await house.is_over()
        assert house.channel.health.reason == WRONG_TOKEN


async def test_who_can_not_be_written_to_holds_nobody_up(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo, BOTH) as house:
        bob = house.discord.person("Bob", 43)
        house.discord.blocked.add(bob.channel)
        bob.says("Hi")
        house.ann.says("Hello")
        await house.discord.shown("re: Hello")
        await house.is_idle()


async def test_a_reaction_answers_what_the_bot_asks(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with at_discord(tmp_path, [Say("It goes on and on", gate=gate)]) as house:
        house.ann.says("Tell me")
        draft = await house.discord.found(lambda one: one.raw.endswith("…"))
        house.ann.reacts(draft.id, "🛑")
        await house.discord.shown("topped")
        gate.set()


async def test_events_of_any_shape_hold_nobody_up(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo) as house:
        tell = house.discord.gateway.tell_as_it_is
        whole = house.ann.message("Odd") | {"referenced_message": None, "message_reference": {}}
        for key in whole:
            for value in ODD:
                tell("MESSAGE_CREATE", whole | {key: value})
                tell("MESSAGE_UPDATE", {"id": "1", key: value})
                tell("INTERACTION_CREATE", {"id": "1", key: value})
                tell("MESSAGE_REACTION_ADD", {"user_id": "1", key: value})
        for odd in ODD:
            tell("MESSAGE_CREATE", odd)
        house.ann.says("Still there?")
        await house.discord.shown("re: Still there?")
        assert house.state == "up"


async def test_a_thread_that_nobody_told_of_is_looked_up(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo) as house:
        thread = house.discord.thread("quiet", KITCHEN, is_told=False)
        house.ann.at(thread).says(f"{ME} psst")
        assert (await house.discord.shown("re: Ann: psst")).channel == thread
        house.ann.at(thread).uses("whoami")
        await house.discord.shown(f"This conversation is discord/{KITCHEN}/{thread}", thread)


async def test_other_bots_and_what_discord_itself_says_are_not_answered(tmp_path: Path) -> None:
    async with at_discord(tmp_path, echo) as house:
        other = house.discord.person("Other", 77)
        house.discord.people[77]["bot"] = True
        other.says("Hello, fellow bot")
        house.ann_in_general.says(f"{ME}", type=7)  # she joined the server
        house.ann.says("Hello")
        await house.discord.shown("re: Hello")
        await house.is_idle()
        assert len(house.model.requests) == 1


async def test_a_command_of_a_stranger_gets_a_code(tmp_path: Path) -> None:
    async with at_discord(tmp_path) as house:
        bob = house.discord.person("Bob", 43)
        await house.discord.until(lambda: house.discord.commands)
        used = bob.uses("status")
        answer = await house.discord.found(lambda one: one.interaction == used)
        assert "/pair" in answer.text


async def test_a_stranger_who_gets_no_answer_is_not_told_that_one_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interactions, "_SOON", 0.02)
    gate = asyncio.Event()
    async with at_discord(tmp_path, [Say("One."), Say("Two.", gate=gate)]) as house:
        bob = house.discord.person("Bob", 43)
        await house.discord.until(lambda: house.discord.commands)
        bob.uses("status")
        await house.discord.shown("/pair")
        second = bob.uses("status")  # within a minute: nothing is said
        house.ann.says("Hi")
        await house.discord.shown("One.")
        pending = house.discord.interactions[house.ann.uses("retry")]
        await house.discord.until(lambda: pending.answered)
        assert house.discord.interactions[second].answered == 0
        gate.set()


async def test_an_answer_that_comes_too_late_for_its_command_comes_as_a_message(
    tmp_path: Path,
) -> None:
    async with at_discord(tmp_path) as house:
        await house.discord.until(lambda: house.discord.commands)
        used = house.ann.uses("whoami", is_late=True)
        answer = await house.discord.shown("You are discord/42")
        assert answer.interaction == 0
        assert house.discord.interactions[used].answered == 0
