"""The page on voice: its example is a configuration that listens."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from channels.message import Attachment
from tests.docs.pages import example
from tests.fakes.openai_server import Say
from tests.fakes.voice_server import OGG
from tests.whole.telegram_testbot import at_telegram
from tests.whole.testbot import run_bot


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
