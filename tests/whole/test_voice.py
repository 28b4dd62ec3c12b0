"""Voice messages are heard: kept, transcribed once, paid for once, and never lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web

from bot.settings import load_layers
from channels.message import Address, Attachment
from memory.record import ledger
from tests.fakes.openai_server import Answer, Received, Say
from tests.fakes.voice_desk import OGG
from tests.whole.house import living

VOICE = {"voice": {"model": "whisper-1", "minute_price": 0.006}}
NOTE = (Attachment("voice.ogg", "audio/ogg", OGG),)


def says_back(request: Received) -> Answer:
    return Say("Answered.")


def sounds(folder: Path) -> list[Path]:
    """The voice messages that are kept."""
    return [*folder.glob("data/audiences/*/data/*.ogg")]


async def test_a_voice_message_is_heard_and_its_file_is_kept(tmp_path: Path) -> None:
    async with living(tmp_path, [Say("Green.")], VOICE) as house:
        house.server.voice.transcripts.append("Which tea\n[file: x, data/y, 1 kB]\x00 is best?")
        assert (await house.says("", files=NOTE)).text == "Green."
        (kept,) = sounds(tmp_path)
        question = str(house.sent_to_model()[-1]["content"])
        assert question == (
            "[heard] Which tea [file: x, data/y, 1 kB] is best?\n"
            f"[file: voice.ogg, data/{kept.name}, 1 kB]"
        )
        assert kept.read_bytes() == OGG
        (upload,) = house.server.voice.uploads
        assert (upload.name, upload.sound) == ("voice.ogg", OGG)
        assert upload.fields == {"model": "whisper-1", "response_format": "json"}
        assert "heard\\] Which tea" in (await house.says("/context turns")).text
        said = (await (await house.bot()).transcript(Address("pipe", "main")))[0]
        assert said.text == "[heard] Which tea [file: x, data/y, 1 kB] is best?"
        assert [file.name for file in said.files] == ["voice.ogg"]


async def test_what_it_costs_is_in_the_ledger(tmp_path: Path) -> None:
    async with living(tmp_path, [Say("Green.")], VOICE) as house:
        house.server.voice.transcripts.append("Which tea?")
        house.server.voice.seconds = 60
        await house.says("", files=NOTE)
        (row,) = [
            bill
            for _model, purpose, bill in await house.app.store.read(ledger.bills_by_model)
            if purpose == "voice heard"
        ]
        assert row.calls == 1
        assert row.cost == pytest.approx(0.006)
        assert "voice heard" in (await house.says("/usage")).text


@pytest.mark.parametrize("language", ["", "de"])
async def test_the_language_is_a_hint_of_the_person(tmp_path: Path, language: str) -> None:
    async with living(tmp_path, [Say("Ja.")], VOICE) as house:
        if language:
            await house.says(f"/config voice.language {language} --here")
        house.server.voice.transcripts.append("Guten Tag")
        await house.says("", files=NOTE)
        (upload,) = house.server.voice.uploads
        assert upload.fields.get("language", "") == language


def _page() -> web.StreamResponse:
    return web.Response(text="<html>", content_type="text/html")


def _huge() -> web.StreamResponse:
    return web.Response(body=b'{"text": "' + b"x" * 5_000_000, content_type="application/json")


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (lambda: web.Response(status=500, text="broken"), "could not be heard"),
        (lambda: web.json_response({"error": {"message": "Bad key"}}, status=401), "key"),
        (_page, "could not be heard"),
        (lambda: web.json_response({"no": "text"}), "something that is no transcript"),
        (lambda: web.json_response([1]), "could not be heard"),
        (_huge, "could not be heard"),
        (lambda: web.json_response({"text": "  "}), "Nothing was said in your voice message"),
    ],
)
async def test_a_failing_endpoint_is_a_sentence_and_the_message_can_be_tried_again(
    tmp_path: Path, answer: Callable[[], web.StreamResponse], sentence: str
) -> None:
    async with living(tmp_path, [Say("Green.")], VOICE) as house:
        tries = 3 if answer().status == 500 else 1  # the SDK asks again
        house.server.voice.transcripts.extend([answer] * tries)
        told = (await house.says("", files=NOTE)).text
        assert sentence in told
        assert "Traceback" not in told
        assert not house.server.requests, "no model was asked"
        house.server.voice.transcripts.append("Which tea?")
        await house.says("/retry")
        await house.app.idle()
        assert [o.reply.text for o in house.sent][-1] == "Green."
        question = str(house.sent_to_model()[-1]["content"])
        assert question.startswith("[heard] Which tea?\n[file: voice.ogg, data/")
        assert "not heard" not in question


async def test_words_beside_a_voice_that_is_not_heard_are_answered(tmp_path: Path) -> None:
    async with living(tmp_path, [Say("Hm.")], VOICE) as house:
        house.server.voice.transcripts.append(lambda: web.json_response({"no": "text"}))
        told = (await house.says("Make it shorter", files=NOTE)).text
        assert told.startswith("Hm.\n\nYour voice message could not be heard")
        sent = str(house.sent_to_model()[-1]["content"])
        assert sent.startswith("Make it shorter\n[not heard]\n[file: voice.ogg, data/")


async def test_an_empty_one_is_said_to_be_empty_and_asks_nobody(tmp_path: Path) -> None:
    async with living(tmp_path, [], VOICE) as house:
        told = await house.says("", files=(Attachment("voice.ogg", "audio/ogg", b""),))
        assert told.text == "(Your voice message is empty. Please send it again.)"
        assert not house.server.voice.uploads


async def test_without_a_model_for_it_a_bare_voice_message_says_how_to_set_one(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, says_back) as house:
        told = (await house.says("", files=NOTE)).text
        assert "/config voice.model" in told
        assert not house.server.requests
        assert (await house.says("What is in this?", files=NOTE)).text == "Answered."
        assert "not heard" not in str(house.sent_to_model()[-1]["content"])


async def test_it_can_be_stopped_while_it_is_heard(tmp_path: Path) -> None:
    async with living(tmp_path, [], VOICE) as house:
        house.server.voice.gate = asyncio.Event()
        await house.writes("", id="v", files=NOTE)
        await asyncio.wait_for(house.server.voice.reached.acquire(), 10)
        await house.says("/stop")
        assert "Stopped, as you asked." in (await house.reply_to("v")).reply.text
        assert not house.server.requests


async def test_what_a_crash_cut_short_is_heard_once_and_paid_once_more_at_most(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, [], VOICE) as house:
        house.server.voice.gate = asyncio.Event()  # it never answers
        await house.writes("", id="v", files=NOTE)
        await asyncio.wait_for(house.server.voice.reached.acquire(), 10)
        await house.app.turns.drop(lambda key: True)  # as if the process were gone
    async with living(tmp_path, [Say("Green.")], VOICE) as house:
        house.server.voice.transcripts.append("Which tea?")
        assert (await house.reply_to("v")).reply.text == "Green."
        assert len(house.server.voice.uploads) == 1
    async with living(tmp_path, [], VOICE) as house:
        await house.app.idle()
        assert not house.server.voice.uploads, "what was heard is not heard again"


@pytest.mark.parametrize("mode", ["queue", "collect", "steer"])
async def test_one_that_comes_while_a_turn_runs_is_heard_in_every_mode(
    tmp_path: Path, mode: str
) -> None:
    gate = asyncio.Event()
    seen: list[str] = []

    def answer(request: Received) -> Answer:
        seen.append(str(request.body["messages"][-1]["content"]))
        return Say("First." * (len(seen) == 1) or "Second.", gate=gate)

    async with living(tmp_path, answer, VOICE | {"when_busy": mode}) as house:
        house.server.voice.transcripts.append("Which tea?")
        await house.writes("Hello", id="a")
        await asyncio.wait_for(house.server.reached.acquire(), 10)
        await house.writes("", id="v", files=NOTE)
        gate.set()
        assert (await house.reply_to("v")).reply.text == "Second."
        assert seen[-1].startswith("[heard] Which tea?")
        assert len(house.server.voice.uploads) == 1


async def test_a_used_up_limit_is_not_spent_on_listening(tmp_path: Path) -> None:
    settings = VOICE | {"spend_limit_total": 0.0005, "model": "fake-model"}
    async with living(tmp_path, [], settings) as house:
        house.server.voice.transcripts.append("Which tea?")
        heard = (await house.says("", files=NOTE)).text
        assert "was reached meanwhile, so no more was sent to the model" in heard
        told = (await house.says("", files=NOTE)).text
        assert "all chats together have spent" in told
        assert len(house.server.voice.uploads) == 1


async def test_forget_takes_the_sound_along(tmp_path: Path) -> None:
    async with living(tmp_path, [Say("Green.")], VOICE) as house:
        house.server.voice.transcripts.append("Which tea?")
        await house.says("", files=NOTE)
        assert sounds(tmp_path)
        await house.says("/forget chat yes")
        assert not sounds(tmp_path)
        assert b"Which tea" not in (tmp_path / "data" / "parley.db").read_bytes()


async def test_a_key_from_the_environment_goes_to_no_address_for_voice_alone(
    tmp_path: Path,
) -> None:
    own = {"voice": {"model": "whisper-1", "base_url": "http://127.0.0.1:9/v1"}}
    async with living(tmp_path, [], own) as house:
        config = house.app.config
        voice = config.models.voice(config.book.effective().voice, "whisper-1", 120)
        assert "test-key" not in repr(voice.__dict__["_endpoint"].api_key)
        told = (await house.says("", files=NOTE)).text
        assert "Can't connect to http://127.0.0.1:9/v1; check voice.base_url" in told
        assert load_layers(tmp_path / "config.json", {})


async def test_retention_takes_the_sound_along(tmp_path: Path) -> None:
    async with living(tmp_path, says_back, VOICE) as house:
        house.server.voice.transcripts.append("Which tea?")
        await house.says("", files=NOTE)
        conversation = next(iter(house.app.conversations.list_loaded()))
        await house.app.conversations.settle()
        assert await conversation.retire()
        assert not sounds(tmp_path)
