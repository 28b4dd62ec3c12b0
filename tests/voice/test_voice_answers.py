"""Tests of spoken answers, where they are enabled and the channel plays them; the text is sent,
too."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from channels.message import Address
from plugins.spending import record as ledger
from plugins.voice.feature import LONGEST_SPEECH, to_spoken
from tests.fakes.openai_server import Say
from tests.fakes.voice_server import OGG
from tests.fuzz.lasting import FEW
from tests.waiting import PATIENCE
from tests.whole.telegram_testbot import at_telegram
from tests.whole.testbot import run_bot

VOICE = {"model": "whisper-1", "speech_model": "tts-1", "speech_price": 15.0}


def settings(reply: str) -> dict[str, Any]:
    return {"voice": {**VOICE, "reply": reply}}


async def test_a_voice_message_is_answered_in_voice_and_text(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, [Say("**Green**."), Say("Black.")], settings("same")) as bot:
        bot.model.voice.transcripts.append("Which tea?")
        bot.model.voice.sound = OGG
        bot.ann.sends(bot.ann.voice(b"OggS ann"))
        await bot.telegram.called("sendVoice")
        await bot.is_idle()
        assert bot.model.voice.speeches == [
            {"model": "tts-1", "input": "Green.", "voice": "alloy", "response_format": "opus"}
        ]
        assert OGG in [message.file for message in bot.telegram.messages.values()]
        bot.ann.says("And now?")
        await bot.telegram.shown("Black.")
        await bot.is_idle()
        assert len(bot.model.voice.speeches) == 1, "a written question is answered in writing"
        spent = await bot.app.store.read(ledger.bills_by_model)
        (bill,) = [bill for _model, purpose, bill in spent if purpose == "voice answered"]
        assert bill.cost == pytest.approx(6 * 15 / 1e6)


@pytest.mark.parametrize("here", ["", "always"])
async def test_it_is_set_for_each_conversation(tmp_path: Path, here: str) -> None:
    async with at_telegram(tmp_path, [Say("Green.")], settings("off")) as bot:
        bot.model.voice.sound = OGG
        if here:
            bot.ann.says(f"/config voice.reply {here} --here")
            await bot.telegram.shown("voice.reply")
        bot.ann.says("Which tea?")
        await bot.telegram.shown("Green.")
        await bot.is_idle()
        assert (OGG in [message.file for message in bot.telegram.messages.values()]) == bool(here)


async def test_where_speech_fails_there_is_the_text(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, [Say("Green.")], settings("always")) as bot:
        bot.model.voice.sound = lambda: web.json_response({"error": {}}, status=400)
        bot.ann.says("Which tea?")
        await bot.telegram.shown("Green.")
        await bot.is_idle()
        assert not [one for one in bot.telegram.messages.values() if one.file]


async def test_a_user_who_may_spend_no_more_is_not_read_to(tmp_path: Path) -> None:
    limited = settings("always") | {"spend_limit_user": 1e-7}
    async with at_telegram(tmp_path, [Say("Green.")], limited) as bot:
        bot.model.voice.sound = OGG
        bob = bot.telegram.person("Bob", 8)
        bob.says("Hello?")
        stranger = await bot.telegram.shown("/pair", 8)
        code = stranger.text.split("/pair ")[1].split()[0]
        bot.ann.says(f"/pair {code}")
        await bot.telegram.shown("now has access")
        bob.says("Which tea?")
        await bot.telegram.shown("Green.", 8)
        await bot.is_idle()
        assert not bot.model.voice.speeches


async def test_stop_ends_the_reading_and_not_the_answer(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, [Say("Green.")], settings("always")) as bot:
        bot.model.voice.gate = asyncio.Event()
        bot.ann.says("Which tea?")
        await asyncio.wait_for(bot.model.voice.reached.acquire(), PATIENCE)
        bot.ann.says("/stop")
        await bot.telegram.shown("Stopping;")
        await bot.is_idle()
        assert not bot.telegram.made("sendVoice")


async def test_where_nothing_plays_nothing_is_read(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Green.")], settings("always")) as bot:
        reply = await bot.says("Which tea?")
        assert (reply.text, reply.sound) == ("Green.", "")
        assert not bot.server.voice.speeches


async def test_what_was_read_goes_with_its_conversation(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Green.")], settings("always")) as bot:
        bot.sound = "mp3"  # type: ignore[attr-defined]
        bot.server.voice.sound = b"ID3 sound"
        reply = await bot.says("Which tea?")
        assert Path(reply.sound).name == "answer-t1.mp3"
        said = await (await bot.api()).transcript(Address("pipe", "main"))
        (file,) = said[-1].files
        opened = await (await bot.api()).open_file(Address("pipe", "main"), file.path)
        assert opened is not None
        with opened.content as content:
            assert (content.read(), opened.sound) == (b"ID3 sound", "audio/mpeg")
        await bot.says("/forget chat yes")
        assert not _sounds(tmp_path)


def _sounds(folder: Path) -> list[Path]:
    return [*folder.rglob("answer-*")]


def test_code_tables_and_addresses_are_not_read() -> None:
    spoken = {
        "# Tea\n\n- **Green** tea\n- [Black](https://x.org) tea": "Tea\nGreen tea\nBlack tea",
        "Run this:\n```sh\nrm -rf /\n```\nThen rest.": "Run this:\nThen rest.",
        "| a | b |\n|---|---|\n| 1 | 2 |\nSo it is.": "So it is.",
        "See https://example.org/a?b=c for more.": "See for more.",
        "```\nonly code": "",
    }
    assert {text: to_spoken(text) for text in spoken} == spoken


@FEW
@given(st.text(max_size=300).map(lambda text: (text + " word. ") * 40))
def test_no_more_is_read_than_a_request_takes(text: str) -> None:
    assert len(to_spoken(text)) <= LONGEST_SPEECH


def test_a_long_answer_is_read_up_to_the_end_of_a_sentence() -> None:
    spoken = to_spoken("A sentence of some length. " * 400)
    assert LONGEST_SPEECH - 30 < len(spoken) <= LONGEST_SPEECH
    assert spoken.endswith("length.")
