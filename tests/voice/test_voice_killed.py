"""A voice message whose bot is killed while it listens is heard at the next start, once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.fakes.openai_server import OpenAIServer, Say
from tests.fakes.voice_server import OGG
from tests.waiting import PATIENCE
from tests.whole.process import talking

pytestmark = pytest.mark.usefixtures("processes")


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
