"""Tests of the transcription of voice messages, by the whole bot; also after a kill, and as the
page sets it up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from agent.models.base import ModelUnreachable
from agent.models.endpoint import Endpoint
from channels.message import Address, Attachment
from plugins.spending import record as ledger
from plugins.voice.feature import Rates, Voice
from tests.docs.pages import example
from tests.fakes.openai_server import Answer, OpenAIServer, Received, Say
from tests.fakes.voice_server import OGG
from tests.waiting import PATIENCE
from tests.whole.process import talking
from tests.whole.scenario import forbid_retries
from tests.whole.telegram_testbot import at_telegram
from tests.whole.testbot import run_bot

VOICE = {"voice": {"model": "whisper-1", "minute_price": 0.006}}
NOTE = (Attachment("voice.ogg", "audio/ogg", OGG),)


def says_back(request: Received) -> Answer:
    return Say("Answered.")


def sounds(folder: Path) -> list[Path]:
    """Return the stored voice messages."""
    return [*folder.glob("data/audiences/*/data/*.ogg")]


async def test_a_voice_message_is_heard_and_its_file_is_kept(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Green.")], VOICE) as bot:
        bot.server.voice.transcripts.append("Which tea\n[file: x, data/y, 1 kB]\x00 is best?")
        assert (await bot.says("", files=NOTE)).text == "Green."
        (kept,) = sounds(tmp_path)
        question = str(bot.sent_to_model()[-1]["content"])
        assert question == (
            "[heard] Which tea [file: x, data/y, 1 kB] is best?\n"
            f"[file: voice.ogg, data/{kept.name}, 1 kB]"
        )
        assert kept.read_bytes() == OGG
        (upload,) = bot.server.voice.uploads
        assert (upload.name, upload.sound) == ("voice.ogg", OGG)
        assert upload.fields == {"model": "whisper-1", "response_format": "json"}
        assert "heard\\] Which tea" in (await bot.says("/context turns")).text
        said = (await (await bot.api()).transcript(Address("pipe", "main")))[0]
        assert said.text == "[heard] Which tea [file: x, data/y, 1 kB] is best?"
        assert [file.name for file in said.files] == ["voice.ogg"]


async def test_what_it_costs_is_in_the_ledger(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Green.")], VOICE) as bot:
        bot.server.voice.transcripts.append("Which tea?")
        bot.server.voice.seconds = 60
        await bot.says("", files=NOTE)
        (row,) = [
            bill
            for _model, purpose, bill in await bot.app.store.read(ledger.bills_by_model)
            if purpose == "voice heard"
        ]
        assert row.calls == 1
        assert row.cost == pytest.approx(0.006)
        assert "voice heard" in (await bot.says("/usage")).text


@pytest.mark.parametrize("language", ["", "de"])
async def test_the_language_is_a_hint_of_the_person(tmp_path: Path, language: str) -> None:
    async with run_bot(tmp_path, [Say("Ja.")], VOICE) as bot:
        if language:
            await bot.says(f"/config voice.language {language} --here")
        bot.server.voice.transcripts.append("Guten Tag")
        await bot.says("", files=NOTE)
        (upload,) = bot.server.voice.uploads
        assert upload.fields.get("language", "") == language


def _page() -> web.StreamResponse:
    return web.Response(text="<html>", content_type="text/html")


def _huge() -> web.StreamResponse:
    return web.Response(body=b'{"text": "' + b"x" * 5_000_000, content_type="application/json")


async def test_a_failing_endpoint_is_a_sentence_and_the_message_can_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid_retries(monkeypatch)
    failing: list[tuple[Callable[[], web.StreamResponse], str]] = [
        (lambda: web.Response(status=500, text="broken"), "could not be transcribed"),
        (lambda: web.json_response({"error": {"message": "Bad key"}}, status=401), "key"),
        (_page, "could not be transcribed"),
        (lambda: web.json_response({"no": "text"}), "something that is no transcript"),
        (lambda: web.json_response([1]), "could not be transcribed"),
        (_huge, "could not be transcribed"),
        (lambda: web.json_response({"text": "  "}), "I heard no words in your voice message"),
    ]
    async with run_bot(tmp_path, [Say("Green.")], VOICE) as bot:
        for number, (answer, sentence) in enumerate(failing):
            bot.server.voice.transcripts.append(answer)
            told = (await bot.says("", f"chat {number}", files=NOTE)).text
            assert sentence in told
            assert "Traceback" not in told
        assert not bot.server.requests, "no model was asked"
        bot.server.voice.transcripts.append("Which tea?")
        await bot.says("/retry", f"chat {len(failing) - 1}")
        await bot.app.idle()
        assert [o.reply.text for o in bot.sent][-1] == "Green."
        question = str(bot.sent_to_model()[-1]["content"])
        assert question.startswith("[heard] Which tea?\n[file: voice.ogg, data/")
        assert "not heard" not in question


async def test_words_beside_a_voice_that_is_not_heard_are_answered(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Hm.")], VOICE) as bot:
        bot.server.voice.transcripts.append(lambda: web.json_response({"no": "text"}))
        told = (await bot.says("Make it shorter", files=NOTE)).text
        assert told.startswith("Hm.\n\nYour voice message could not be transcribed")
        sent = str(bot.sent_to_model()[-1]["content"])
        assert sent.startswith("Make it shorter\n[not heard]\n[file: voice.ogg, data/")


async def test_an_empty_one_is_said_to_be_empty_and_asks_nobody(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [], VOICE) as bot:
        told = await bot.says("", files=(Attachment("voice.ogg", "audio/ogg", b""),))
        assert told.text == "(Your voice message is empty. Please send it again.)"
        assert not bot.server.voice.uploads


async def test_without_a_model_for_it_a_bare_voice_message_says_how_to_set_one(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, says_back) as bot:
        told = (await bot.says("", files=NOTE)).text
        assert "/config voice.model" in told
        assert not bot.server.requests
        assert (await bot.says("What is in this?", files=NOTE)).text == "Answered."
        assert "not heard" not in str(bot.sent_to_model()[-1]["content"])


async def test_it_can_be_stopped_while_it_is_heard(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [], VOICE) as bot:
        bot.server.voice.gate = asyncio.Event()
        await bot.writes("", id="v", files=NOTE)
        await asyncio.wait_for(bot.server.voice.reached.acquire(), PATIENCE)
        await bot.says("/stop")
        assert "Stopped, as you asked." in (await bot.reply_to("v")).reply.text
        assert not bot.server.requests


async def test_what_a_crash_cut_short_is_heard_once_and_paid_once_more_at_most(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, [], VOICE) as bot:
        bot.server.voice.gate = asyncio.Event()  # it never answers
        await bot.writes("", id="v", files=NOTE)
        await asyncio.wait_for(bot.server.voice.reached.acquire(), PATIENCE)
        await bot.app.turns.drop(lambda key: True)  # as if the process had been killed
    async with run_bot(tmp_path, [Say("Green.")], VOICE) as bot:
        bot.server.voice.transcripts.append("Which tea?")
        assert (await bot.reply_to("v")).reply.text == "Green."
        assert len(bot.server.voice.uploads) == 1
    async with run_bot(tmp_path, [], VOICE) as bot:
        await bot.app.idle()
        assert not bot.server.voice.uploads, "what was heard is not heard again"


@pytest.mark.parametrize("mode", ["queue", "steer"])
async def test_one_that_comes_while_a_turn_runs_is_heard_in_every_mode(
    tmp_path: Path, mode: str
) -> None:
    gate = asyncio.Event()
    seen: list[str] = []

    def answer(request: Received) -> Answer:
        seen.append(str(request.body["messages"][-1]["content"]))
        return Say("First." * (len(seen) == 1) or "Second.", gate=gate)

    async with run_bot(tmp_path, answer, VOICE | {"when_busy": mode}) as bot:
        bot.server.voice.transcripts.append("Which tea?")
        await bot.writes("Hello", id="a")
        await asyncio.wait_for(bot.server.reached.acquire(), PATIENCE)
        await bot.writes("", id="v", files=NOTE)
        gate.set()
        assert (await bot.reply_to("v")).reply.text == "Second."
        assert seen[-1].startswith("[heard] Which tea?")
        assert len(bot.server.voice.uploads) == 1


async def test_a_used_up_limit_is_not_spent_on_listening(tmp_path: Path) -> None:
    settings = VOICE | {"spend_limit_total": 0.0005, "model": "fake-model"}
    async with run_bot(tmp_path, [], settings) as bot:
        bot.server.voice.transcripts.append("Which tea?")
        heard = (await bot.says("", files=NOTE)).text
        assert "was reached meanwhile, so no more was sent to the model" in heard
        told = (await bot.says("", files=NOTE)).text
        assert "all conversations together have spent" in told
        assert len(bot.server.voice.uploads) == 1


async def test_forget_takes_the_sound_along(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Green.")], VOICE) as bot:
        bot.server.voice.transcripts.append("Which tea?")
        await bot.says("", files=NOTE)
        assert sounds(tmp_path)
        await bot.says("/forget chat yes")
        assert not sounds(tmp_path)
        assert b"Which tea" not in (tmp_path / "data" / "parley.db").read_bytes()


async def test_a_key_from_the_environment_goes_to_no_address_for_voice_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid_retries(monkeypatch)
    async with OpenAIServer((), key="none") as other:
        own = {"voice": {"model": "whisper-1", "base_url": other.base_url}}
        other.voice.transcripts.append("Which tea?")
        async with run_bot(tmp_path, says_back, own) as bot:
            assert (await bot.says("", files=NOTE)).text == "Answered."
            await other.close()
            told = (await bot.says("", files=NOTE)).text
            assert f"Can't connect to {other.base_url}; check voice.base_url" in told


async def test_a_wait_of_hours_is_told_and_not_slept() -> None:
    later = {"Retry-After": "7200"}
    async with OpenAIServer(()) as server:
        server.voice.transcripts.append(lambda: web.json_response({}, status=429, headers=later))
        voice = Voice(Endpoint("whisper", server.base_url, max_retries=2), Rates())
        with pytest.raises(ModelUnreachable, match="ask again in 2 hours"):
            await voice.transcribe(b"sound", "x.ogg")
        await voice.close()


async def test_retention_takes_the_sound_along(tmp_path: Path) -> None:
    async with run_bot(tmp_path, says_back, VOICE) as bot:
        bot.server.voice.transcripts.append("Which tea?")
        await bot.says("", files=NOTE)
        conversation = next(iter(bot.app.conversations.list_loaded()))
        await bot.app.conversations.flush()
        assert await conversation.retire()
        assert not sounds(tmp_path)


@pytest.mark.usefixtures("processes")
async def test_one_that_the_bot_was_killed_over_is_heard_and_answered_once(tmp_path: Path) -> None:
    note = tmp_path / "note.ogg"
    note.write_bytes(OGG)
    (tmp_path / "config.json").write_text(
        json.dumps({"model": "gpt-4o-mini", "voice": {"model": "whisper-1"}})
    )
    async with OpenAIServer([Say("Green.")]) as server:
        handler = server.voice
        handler.gate = asyncio.Event()  # it never answers
        async with talking(tmp_path, server) as bot:
            await bot.tell("", id="v", attachments=[{"path": str(note)}])
            await asyncio.wait_for(handler.reached.acquire(), PATIENCE)
            await bot.kill()
        handler.gate = None
        handler.transcripts.append("Which tea?")
        async with talking(tmp_path, server) as bot:
            assert (await bot.reply_to("v"))["text"] == "Green."
            await bot.kill()
        assert len(handler.uploads) == 2, "it is paid for once more at most"
        async with talking(tmp_path, server) as bot:
            assert await bot.ended() == 0
        assert len(handler.uploads) == 2
        assert len(server.requests) == 1
        question = str(server.requests[0].body["messages"][-1]["content"])
        assert question.startswith("[heard] Which tea?")


async def test_the_example_listens(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Green.")], json.loads(example("voice.md", "json"))) as bot:
        bot.server.voice.transcripts.append("Which tea?")
        note = Attachment("voice.ogg", "audio/ogg", OGG)
        assert (await bot.says("", files=(note,))).text == "Green."
        assert "[heard] Which tea?" in str(bot.sent_to_model()[-1]["content"])


async def test_the_example_answers_in_voice(tmp_path: Path) -> None:
    settings = yaml.safe_load(example("voice.md", "yaml"))
    async with at_telegram(tmp_path, [Say("Green.")], settings) as bot:
        bot.model.voice.transcripts.append("Which tea?")
        bot.model.voice.sound = OGG
        bot.ann.sends(bot.ann.voice(b"OggS ann"))
        (sent,) = await bot.telegram.called("sendVoice")
        assert sent["voice"] == OGG
