"""A whole bot at Telegram: the real SDK, and a Bot API that refuses what Telegram refuses."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from channels.base import ChannelError
from tests.fakes.openai_server import Answer, Call, Hang, Received, Say
from tests.fakes.telegram_server import Refused, TelegramServer, failing
from tests.fakes.voice_desk import OGG
from tests.whole.process import MAIN
from tests.whole.telegram_house import TelegramHouse, at_telegram


def echo(request: Received) -> Answer:
    """A model that repeats the last thing it was told."""
    return Say(f"re: {request.body['messages'][-1]['content']}")


async def test_a_message_is_answered(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, [Say("Hello, **Ann**!")]) as house:
        house.ann.says("Hi")
        answer = await house.telegram.shown("Hello, Ann!")
        assert answer.marked("bold") == ["Ann"]
        assert house.sent_to_model()[-1] == {"role": "user", "content": "Hi"}


async def test_commands_are_registered_and_start_greets(tmp_path: Path) -> None:
    async with at_telegram(tmp_path) as house:
        await house.telegram.called("setMyCommands")
        assert {"context", "config", "start"} <= {c["command"] for c in house.telegram.commands}
        house.ann.says("/start")
        greeting = await house.telegram.shown("Hello! I am Parley")
        assert "/context" in greeting.text


async def test_an_answer_streams_into_one_message_which_its_final_text_replaces(
    tmp_path: Path,
) -> None:
    async with at_telegram(tmp_path, [Hang("Once **upon** a time")]) as house:
        house.ann.says("Tell me a story")
        draft = await house.telegram.shown("Once upon a time …")
        assert draft.marked("bold") == ["upon"]
        assert (await house.telegram.called("sendChatAction"))[0]["action"] == "typing"
        house.ann.says("/stop")
        await house.telegram.until(
            lambda: draft.text == "Once upon a time\n\n(Stopped, as you asked.)"
        )
        assert len(await answers(house, "Once upon")) == 1


async def answers(house: TelegramHouse, words: str) -> list[str]:
    """All messages with these words, once the bot has nothing more to do."""
    await house.is_idle()
    return [text for text in house.telegram.texts if words in text]


async def test_a_draft_shows_the_tools_that_are_used(tmp_path: Path) -> None:
    script: list[Answer] = [
        Say("I look.", (Call("calculate", '{"expression": "6 * 7"}', "c1"),)),
        Hang("It is"),
    ]
    async with at_telegram(tmp_path, script) as house:
        house.ann.says("What is six times seven?")
        draft = await house.telegram.shown("It is …")
        assert draft.text == "I look.\n\ncalculate …\n\nIt is …"
        house.ann.says("/stop")
        await house.telegram.shown("Stopped, as you asked.")


async def test_a_long_answer_comes_in_several_messages_with_its_code_as_code(
    tmp_path: Path,
) -> None:
    code = "\n".join(f"line_{n} = {n}  # < & > 😀" for n in range(400))
    async with at_telegram(tmp_path, [Say(f"Here:\n\n```python\n{code}\n```\n\nDone.")]) as house:
        house.ann.says("Write a program")
        await house.telegram.shown("Done.")
        sent = list(house.telegram.messages.values())
        shown = "\n".join(block for message in sent for block in message.marked("pre"))
        assert len(sent) > 2
        assert shown.split("\n") == code.split("\n")


async def test_a_table_is_aligned_and_tags_are_words(tmp_path: Path) -> None:
    table = "| name | n |\n|---|---:|\n| one | 1 |\n| eleven | 11 |"
    async with at_telegram(tmp_path, [Say(f"A List<String>:\n\n{table}")]) as house:
        house.ann.says("Show it")
        answer = await house.telegram.shown("A List<String>:")
        (block,) = answer.marked("pre")
        assert len({len(line.rstrip("\n")) for line in block.strip("\n").split("\n")}) == 1


async def test_markup_that_telegram_refuses_goes_as_plain_text(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, [Say("So **it** is")]) as house:
        house.telegram.takes_entities = False
        house.ann.says("Is it?")
        answer = await house.telegram.shown("So it is")
        assert answer.entities == []


async def test_when_telegram_asks_to_wait_the_reply_waits_as_long(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, [Say("Here I am")]) as house:
        house.telegram.allowance[42] = 0
        house.ann.says("Hello?")
        await house.telegram.shown("Here I am")
        assert 7.0 in house.slept


async def test_when_telegram_does_not_answer_the_reply_is_sent_again(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, [Say("Here I am")]) as house:
        # More than drafts, which are tried once, can use up.
        house.telegram.failures["sendMessage"] = failing(*[Refused("Bad Gateway", 502)] * 90)
        house.telegram.failures["getUpdates"] = failing(*[Refused("Bad Gateway", 502)] * 3)
        house.ann.says("Hello?")
        await house.telegram.shown("Here I am")
        assert len([seconds for seconds in house.slept if seconds >= 1]) >= 4


async def test_an_update_that_is_delivered_again_is_answered_once(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, echo) as house:
        house.ann.says("One")
        await house.telegram.shown("re: One")
        house.telegram.deliver_again()
        house.ann.says("Two")
        await house.telegram.shown("re: Two")
        assert await answers(house, "re: ") == ["re: One", "re: Two"]


async def test_a_bot_that_is_stopped_in_mid_turn_answers_at_its_next_start(tmp_path: Path) -> None:
    async with TelegramServer() as telegram:
        async with at_telegram(tmp_path, [Hang("Half an ans")], telegram=telegram) as house:
            house.ann.says("What is it?")
            await telegram.shown("Half an ans …")
            house.is_hurried = True
        assert telegram.texts == []  # the draft was taken back
        async with at_telegram(tmp_path, [Say("A whole answer")], telegram=telegram) as house:
            await telegram.shown("A whole answer")
            assert await answers(house, "answer") == ["A whole answer"]


async def test_an_album_is_one_message_also_when_its_parts_come_one_by_one(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, echo) as house:
        house.ann.sends(house.ann.photo(b"\xff\xd8one", caption="My holiday", media_group_id="a"))
        await house.telegram.called("getUpdates", 3)
        house.ann.sends(house.ann.photo(b"\xff\xd8two", media_group_id="a"))
        house.ann.says("And now?")
        await house.telegram.shown("re: And now?")
        assert len(await answers(house, "My holiday")) == 1


async def test_a_text_that_the_app_has_cut_is_one_message(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, lambda request: Say("Read.")) as house:
        house.ann.says("one " * 1_000)
        house.ann.says("two " * 1_000)
        house.ann.says("three")
        await house.telegram.shown("Read.")
        await house.is_idle()
        (request,) = house.model.requests
        said = request.body["messages"][-1]["content"]
        assert said == f"{('one ' * 1_000).strip()}\n{('two ' * 1_000).strip()}\nthree"


async def test_what_comes_after_a_long_text_and_is_no_part_of_it_stays_apart(
    tmp_path: Path,
) -> None:
    async with at_telegram(tmp_path, echo, {"owners": ["telegram/42", "telegram/43"]}) as house:
        group = house.telegram.group(-100)
        ann, bob = house.ann.at(group), house.telegram.person("Bob", 43).at(group)
        long = ann.message(f"@parley_bot {'word ' * 800}")
        ann.sends(long)
        bob.says("@parley_bot hello")
        await house.telegram.shown("re: Bob: hello")
        ann.sends(long | {"message_id": 901})
        ann.says("/version")
        await house.telegram.shown("Parley 0")
        ann.sends(long | {"message_id": 902})
        ann.sends(ann.message("@parley_bot later", date=long["date"] + 60))
        await house.telegram.shown("re: Ann: later")
        ann.sends(long | {"message_id": 903})
        ann.at(group, 7).says("@parley_bot in a topic")
        await house.telegram.shown("re: Ann: in a topic")


async def test_who_goes_on_sending_long_texts_holds_up_nobody(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, echo) as house:
        eve = house.telegram.person("Eve", 66)
        house.ann.says("hello")
        rounds = 0
        while "re: hello" not in house.telegram.texts and rounds < 40:
            eve.says(f"{rounds} {'word ' * 500}")
            rounds += 1
            await house.telegram.called("getUpdates", len(house.telegram.made("getUpdates")) + 1)
        assert rounds < 40


async def test_photos_reach_the_model_and_documents_its_folder(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, [Say("A cat."), Say("Milk.")]) as house:
        house.ann.sends(house.ann.photo(b"\xff\xd8\xff cat"))
        await house.telegram.shown("A cat.")
        (part,) = house.sent_to_model()[-1]["content"]
        assert part["image_url"]["url"].startswith("data:image/jpeg;base64,")
        house.ann.sends(house.ann.document("list.txt", "text/plain", b"milk", caption="What?"))
        await house.telegram.shown("Milk.")
        assert "list.txt" in str(house.sent_to_model()[-1]["content"])


async def test_a_message_that_is_edited_is_answered_anew(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, echo) as house:
        message = house.ann.says("What is 2 + 2?")
        await house.telegram.shown("re: What is 2 + 2?")
        house.ann.edits(message, "What is 2 + 2?")  # the same text: nothing has changed
        house.ann.edits(message, "What is 2 + 3?")
        await house.telegram.shown("re: What is 2 + 3?")
        assert len(await answers(house, "What is 2")) == 2


async def test_a_forwarded_message_says_from_whom_and_is_no_command(tmp_path: Path) -> None:
    origin = {"type": "hidden_user", "sender_user_name": "Bob", "date": 1_700_000_000}
    async with at_telegram(tmp_path, echo) as house:
        house.ann.says("/stop it", forward_origin=origin)
        await house.telegram.shown("re: Forwarded from Bob:\n/stop it")


async def test_telegram_says_its_own_words_in_the_language_of_the_person(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, echo) as house:
        await house.telegram.until(lambda: {"de", "zh"} <= house.telegram.translated.keys())
        summaries = {c["command"]: c["description"] for c in house.telegram.translated["de"]}
        assert "Erinnerungen" in summaries["jobs"]
        house.ann.user["language_code"] = "de"
        house.ann.sends(house.ann.message(contact={"phone_number": "1", "first_name": "Bob"}))
        await house.telegram.shown("Mit Kontakten kann ich noch nichts anfangen")
        house.ann.sends(house.ann.document("big.iso", "application/x-iso", b"x" * 20_000_001))
        await house.telegram.shown("Ich habe big.iso nicht bekommen: Dateien von mehr als 20 MB")
        house.ann.says("Hallo")
        await house.telegram.shown("re: Hallo")
        house.ann.says("/context")
        bar = await house.telegram.shown("Token")
        house.ann.presses(bar, "Leeren")
        question = await house.telegram.shown("Leeren: Bist du sicher? (/context clear)")
        assert [*question.buttons] == ["Ja, leeren", "Nein"]
        assert [request.body["messages"][-1]["content"] for request in house.model.requests] == [
            "Hallo"
        ]


async def test_what_can_not_be_taken_is_said(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, echo) as house:
        house.ann.sends(house.ann.message(contact={"phone_number": "1", "first_name": "Bob"}))
        await house.telegram.shown("I can't handle contacts yet; please put it in words.")
        house.ann.sends(house.ann.document("big.iso", "application/x-iso", b"x" * 20_000_001))
        await house.telegram.shown(
            "I did not get big.iso: files of more than 20 MB can't be taken here."
        )
        assert not house.model.requests


async def test_a_stranger_is_refused_and_nothing_is_fetched_for_them(tmp_path: Path) -> None:
    async with at_telegram(tmp_path) as house:
        eve = house.telegram.person("Eve", 66)
        eve.sends(eve.document("large.bin", "application/x-large", b"x" * 1_000))
        await house.telegram.shown("to be let in, ask the owner", chat=66)
        assert house.telegram.made("getFile") == []


async def test_a_reply_to_someone_who_has_blocked_the_bot_is_dropped(tmp_path: Path) -> None:
    async with TelegramServer() as telegram:
        async with at_telegram(tmp_path, [Say("Hello?")], telegram=telegram) as house:
            telegram.blocked.add(42)
            house.ann.says("Bye")
            await telegram.called("sendMessage")
            await house.is_idle()
        telegram.blocked.clear()
        async with at_telegram(tmp_path, [Say("Back again")], telegram=telegram) as house:
            house.ann.says("Hello again")
            await telegram.shown("Back again")
            assert await answers(house, "Hello?") == []


async def test_a_wrong_token_is_a_sentence_for_the_owner(tmp_path: Path) -> None:
    with pytest.raises(ChannelError, match="copy it from @BotFather"):
        async with at_telegram(tmp_path, token="1:wrong") as house:
            await house.is_over()


async def test_without_a_token_or_with_a_wrong_one_the_process_says_what_to_do(
    tmp_path: Path,
) -> None:
    (tmp_path / "config.json").write_text("{}")
    async with TelegramServer() as telegram:
        assert "ask @BotFather for one" in await complaint(tmp_path, telegram, {})
        wrong = {"TELEGRAM_BOT_TOKEN": "1:wrong"}
        assert "does not know this token" in await complaint(tmp_path, telegram, wrong)


async def complaint(folder: Path, telegram: TelegramServer, environ: dict[str, str]) -> str:
    """What `python main.py --telegram` says on stderr before it ends with 1."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(MAIN), "--telegram"),
        cwd=folder,
        env={**os.environ, **environ, "PARLEY_TELEGRAM__BASE_URL": telegram.base_url},
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await process.communicate()
    assert process.returncode == 1
    assert len(errors.decode().strip().splitlines()) == 1
    return errors.decode()


async def test_what_was_not_sent_before_a_restart_is_sent_with_a_mark(tmp_path: Path) -> None:
    async with TelegramServer() as telegram:
        async with at_telegram(tmp_path, [Say("The answer")], telegram=telegram) as house:
            telegram.outages["sendMessage"] = Refused("Bad Request: something new")
            house.ann.says("The question")
            await telegram.called("sendMessage")
            await house.is_idle()
        telegram.outages.clear()
        async with at_telegram(tmp_path, telegram=telegram) as house:
            again = await telegram.shown("The answer")
            assert again.text.startswith("(This may have reached you before")


async def test_a_voice_message_is_heard(tmp_path: Path) -> None:
    settings = {"voice": {"model": "whisper-1"}}
    async with at_telegram(tmp_path, [Say("Green.")], settings) as house:
        house.model.voice.transcripts.append("Which tea?")
        house.ann.sends(house.ann.voice(OGG))
        await house.telegram.shown("Green.")
        assert str(house.sent_to_model()[-1]["content"]).startswith("[heard] Which tea?\n[file: ")
        assert [upload.sound for upload in house.model.voice.uploads] == [OGG]


async def test_in_a_group_only_what_is_meant_for_the_bot_is_heard(tmp_path: Path) -> None:
    settings = {"voice": {"model": "whisper-1"}}
    async with at_telegram(tmp_path, [Say("Green.")], settings) as house:
        house.model.voice.transcripts.append("Which tea?")
        ann = house.ann.at(house.telegram.group(-1001))
        ann.sends(ann.voice(OGG))
        ann.sends(ann.voice(OGG, caption="@parley_bot"))
        await house.telegram.shown("Green.")
        assert len(house.model.voice.uploads) == 1
