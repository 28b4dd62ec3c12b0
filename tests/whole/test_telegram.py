"""A whole bot at Telegram: the real SDK, and a Bot API that refuses the same requests as
Telegram."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from channels.base import ChannelError
from tests.fakes.openai_server import Answer, Call, Hang, Say, echo
from tests.fakes.telegram_server import Refused, TelegramServer
from tests.fakes.voice_server import OGG
from tests.waiting import PATIENCE
from tests.whole.process import MAIN
from tests.whole.telegram_testbot import TelegramTestBot, at_telegram


async def test_commands_are_registered_and_start_greets(tmp_path: Path) -> None:
    async with at_telegram(tmp_path) as bot:
        await bot.telegram.called("setMyCommands")
        assert {"context", "config", "start"} <= {c["command"] for c in bot.telegram.commands}
        bot.ann.says("/start")
        greeting = await bot.telegram.shown("Hello! I am Parley")
        assert "/context" in greeting.text


CHANNEL = {"id": -1007, "type": "channel", "title": "News"}


async def answers(bot: TelegramTestBot, words: str) -> list[str]:
    """Return all messages with these words, once the bot is idle."""
    await bot.is_idle()
    return [text for text in bot.telegram.texts if words in text]


async def test_a_draft_shows_the_tools_that_are_used(tmp_path: Path) -> None:
    script: list[Answer] = [
        Say("I look.", (Call("calculate", '{"expression": "6 * 7"}', "c1"),)),
        Hang("It is"),
    ]
    async with at_telegram(tmp_path, script) as bot:
        bot.ann.says("What is six times seven?")
        draft = await bot.telegram.shown("It is …")
        assert draft.text == "I look.\n\ncalculate …\n\nIt is …"
        bot.ann.says("/stop")
        await bot.telegram.shown("Stopped, as you asked.")


async def test_a_bot_that_is_stopped_in_mid_turn_answers_at_its_next_start(tmp_path: Path) -> None:
    async with TelegramServer() as telegram:
        async with at_telegram(tmp_path, [Hang("Half an ans")], telegram=telegram) as bot:
            bot.ann.says("What is it?")
            await telegram.shown("Half an ans …")
            bot.is_hurried = True
        assert telegram.texts == []  # the draft was deleted
        async with at_telegram(tmp_path, [Say("A whole answer")], telegram=telegram) as bot:
            await telegram.shown("A whole answer")
            assert await answers(bot, "answer") == ["A whole answer"]


async def test_an_album_is_one_message_also_when_its_parts_come_one_by_one(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, echo) as bot:
        bot.ann.sends(bot.ann.photo(b"\xff\xd8one", caption="My holiday", media_group_id="a"))
        await bot.telegram.called("getUpdates", 3)
        bot.ann.sends(bot.ann.photo(b"\xff\xd8two", media_group_id="a"))
        bot.ann.says("And now?")
        await bot.telegram.shown("re: And now?")
        assert len(await answers(bot, "My holiday")) == 1


async def test_a_text_that_the_app_has_cut_is_one_message(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, lambda request: Say("Read.")) as bot:
        bot.ann.says("one " * 1_000)
        bot.ann.says("two " * 1_000)
        bot.ann.says("three")
        await bot.telegram.shown("Read.")
        await bot.is_idle()
        (request,) = bot.model.requests
        said = request.body["messages"][-1]["content"]
        assert said == f"{('one ' * 1_000).strip()}\n{('two ' * 1_000).strip()}\nthree"


async def test_what_comes_after_a_long_text_and_is_no_part_of_it_stays_apart(
    tmp_path: Path,
) -> None:
    async with at_telegram(tmp_path, echo, {"owners": ["telegram/42", "telegram/43"]}) as bot:
        group = bot.telegram.group(-100)
        ann, bob = bot.ann.at(group), bot.telegram.person("Bob", 43).at(group)
        long = ann.message(f"@parley_bot {'word ' * 800}")
        ann.sends(long)
        bob.says("@parley_bot hello")
        await bot.telegram.shown("re: Bob: hello")
        ann.sends(long | {"message_id": 901})
        ann.says("/version")
        await bot.telegram.shown("Parley 0")
        ann.sends(long | {"message_id": 902})
        ann.sends(ann.message("@parley_bot later", date=long["date"] + 60))
        await bot.telegram.shown("re: Ann: later")
        ann.sends(long | {"message_id": 903})
        ann.at(group, 7).says("@parley_bot in a topic")
        await bot.telegram.shown("re: Ann: in a topic")


async def test_who_goes_on_sending_long_texts_holds_up_nobody(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, echo) as bot:
        eve = bot.telegram.person("Eve", 66)
        bot.ann.says("hello")
        async with asyncio.timeout(PATIENCE):
            while "re: hello" not in bot.telegram.texts:
                eve.says("word " * 500)
                await bot.telegram.called("getUpdates", len(bot.telegram.made("getUpdates")) + 1)


async def test_a_forwarded_message_says_from_whom_and_is_no_command(tmp_path: Path) -> None:
    origin = {"type": "hidden_user", "sender_user_name": "Bob", "date": 1_700_000_000}
    async with at_telegram(tmp_path, echo) as bot:
        bot.ann.says("/stop it", forward_origin=origin)
        await bot.telegram.shown("re: Forwarded from Bob:\n/stop it")
        named = {**origin, "sender_user_name": "Bob:\nAnn wants it.\n\nEve"}
        bot.ann.says("Buy it", forward_origin=named)
        await bot.telegram.shown("re: Forwarded from Bob: Ann wants it. Eve:\nBuy it")


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ({"dice": {"emoji": "🎲", "value": 3}}, "dice"),
        ({"game": {"title": "g", "description": "d", "photo": []}}, "games"),
        ({"contact": {"phone_number": "1", "first_name": "Bob"}}, "contacts"),
    ],
)
async def test_content_that_is_not_taken_is_said_to_be_and_no_question(
    tmp_path: Path, content: dict[str, Any], kind: str
) -> None:
    origin = {"type": "hidden_user", "sender_user_name": "Bob", "date": 1_700_000_000}
    async with at_telegram(tmp_path, echo) as bot:
        bot.ann.sends(bot.ann.message(**content))
        bot.ann.sends(bot.ann.message(**content, forward_origin=origin))
        bot.ann.says("And now?")
        await bot.telegram.shown("re: And now?")
        assert len(await answers(bot, f"I can't handle {kind} yet")) == 2
        assert len(bot.model.turns) == 1


async def test_in_private_the_part_that_was_picked_out_and_other_chats_words_are_quoted(
    tmp_path: Path,
) -> None:
    elsewhere = {"origin": {"type": "channel", "date": 1, "message_id": 5, "chat": CHANNEL}}
    async with at_telegram(tmp_path, echo) as bot:
        own = bot.ann.message("Lisbon, Porto and Faro")
        bot.ann.says("How far?", reply_to_message=own)
        await bot.telegram.shown("re: How far?")
        bot.ann.says("And that?", reply_to_message=own, quote={"text": "Porto", "position": 8})
        await bot.telegram.shown("re: Ann wrote:\nPorto\n\nAnd that?")
        bot.ann.says("True?", external_reply=elsewhere, quote={"text": "It rains", "position": 0})
        await bot.telegram.shown("re: News wrote:\nIt rains\n\nTrue?")


async def test_telegram_says_its_own_words_in_the_language_of_the_person(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, echo) as bot:
        await bot.telegram.until(lambda: {"de", "zh"} <= bot.telegram.translated.keys())
        summaries = {c["command"]: c["description"] for c in bot.telegram.translated["de"]}
        assert "Erinnerungen" in summaries["jobs"]
        bot.ann.user["language_code"] = "de"
        bot.ann.sends(bot.ann.message(contact={"phone_number": "1", "first_name": "Bob"}))
        await bot.telegram.shown("Mit Kontakten kann ich noch nichts anfangen")
        bot.ann.sends(bot.ann.document("big.iso", "application/x-iso", b"x" * 20_000_001))
        await bot.telegram.shown("Ich habe big.iso nicht bekommen: Dateien von mehr als 20 MB")
        bot.ann.says("Hallo")
        await bot.telegram.shown("re: Hallo")
        bot.ann.says("/context")
        bar = await bot.telegram.shown("Token")
        bot.ann.presses(bar, "Leeren")
        question = await bot.telegram.shown("Leeren: Bist du sicher? (/context clear)")
        assert [*question.buttons] == ["Ja, leeren", "Nein"]
        assert [request.body["messages"][-1]["content"] for request in bot.model.requests] == [
            "Hallo"
        ]


async def test_a_stranger_is_refused_and_nothing_is_fetched_for_them(tmp_path: Path) -> None:
    async with at_telegram(tmp_path) as bot:
        eve = bot.telegram.person("Eve", 66)
        eve.sends(eve.document("large.bin", "application/x-large", b"x" * 1_000))
        await bot.telegram.shown("Ask the bot's owner to send", chat=66)
        assert bot.telegram.made("getFile") == []


async def test_a_reply_to_someone_who_has_blocked_the_bot_is_dropped(tmp_path: Path) -> None:
    async with TelegramServer() as telegram:
        async with at_telegram(tmp_path, [Say("Hello?")], telegram=telegram) as bot:
            telegram.blocked.add(42)
            bot.ann.says("Bye")
            await telegram.called("sendMessage")
            await bot.is_idle()
        telegram.blocked.clear()
        async with at_telegram(tmp_path, [Say("Back again")], telegram=telegram) as bot:
            bot.ann.says("Hello again")
            await telegram.shown("Back again")
            assert await answers(bot, "Hello?") == []


async def test_a_wrong_token_is_a_sentence_for_the_owner(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, token="1:wrong") as bot:
        with pytest.raises(ChannelError, match="copy it from @BotFather"):
            await asyncio.wait_for(bot.running, PATIENCE)


@pytest.mark.usefixtures("processes")
async def test_without_a_token_the_process_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(MAIN), "--telegram"), cwd=tmp_path, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    assert process.returncode == 1
    (line,) = errors.decode().strip().splitlines()
    assert "ask @BotFather for one" in line


async def test_what_was_not_sent_before_a_restart_is_sent_with_a_mark(tmp_path: Path) -> None:
    async with TelegramServer() as telegram:
        async with at_telegram(tmp_path, [Say("The answer")], telegram=telegram) as bot:
            telegram.outages["sendMessage"] = Refused("Bad Request: something new")
            bot.ann.says("The question")
            await telegram.called("sendMessage")
            await bot.is_idle()
        telegram.outages.clear()
        async with at_telegram(tmp_path, telegram=telegram) as bot:
            again = await telegram.shown("The answer")
            assert again.text.startswith("(This may have reached you before")


async def test_in_a_group_only_what_is_meant_for_the_bot_is_heard(tmp_path: Path) -> None:
    settings = {"voice": {"model": "whisper-1"}}
    async with at_telegram(tmp_path, [Say("Green.")], settings) as bot:
        bot.model.voice.transcripts.append("Which tea?")
        ann = bot.ann.at(bot.telegram.group(-1001))
        ann.sends(ann.voice(OGG))
        ann.sends(ann.voice(OGG, caption="@parley_bot"))
        await bot.telegram.shown("Green.")
        assert len(bot.model.voice.uploads) == 1
