"""A day of use, with real processes: Telegram and the page, Claude by Anthropic's own protocol,
an MCP server, a voice message, jobs, a restart in another time zone, and a limit that stops the bot
at the end."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.fakes.anthropic_server import AnthropicServer
from tests.fakes.documents import pdf
from tests.fakes.openai_server import Answer, Call, OpenAIServer, Received, Say
from tests.fakes.telegram_server import TOKEN, Person, TelegramServer
from tests.fakes.voice_server import OGG
from tests.mcp.testbot import calls_in, notes
from tests.web.test_process import url_of
from tests.whole.process import BotProcess, talking

pytestmark = pytest.mark.usefixtures("processes")

MOVED = Path(__file__).with_name("moved_clock.py")
KEYS = {"ANTHROPIC_API_KEY": "sk-ant-test-key", "TELEGRAM_BOT_TOKEN": TOKEN}
LIMIT = 0.05
"""The maximum US dollars that the bot may spend."""


def claude(request: Received) -> Answer:
    """The model of that day: it calls the tool that a task needs, and reports the result."""
    said = [one for one in request.body["messages"] if one["role"] == "user"]
    blocks = [block for message in said for block in _blocks(message["content"])]
    task = next(_text(block) for block in reversed(blocks) if block["type"] == "text")
    if blocks[-1]["type"] == "tool_result" and "Count" not in task:
        return Say(f"I found: {_clean(_text(blocks[-1]))}")
    return _begin(task)


def _begin(task: str) -> Answer:
    if "my notes" in task:
        arguments = {"name": "notes__find_notes", "arguments": {"words": "today"}}
        return Say(calls=(Call("use_tool", json.dumps(arguments)),))
    if "plan.pdf" in task:
        return Say(calls=(Call("read_file", '{"path": "plan.pdf"}'),))
    if "Count" in task:  # and never ends by itself
        return Say("counting " * 200, calls=(Call("calculate", '{"expression": "1 + 1"}'),))
    return Say("I heard you." if "[heard]" in task else "Good evening.")


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _text(block: dict[str, Any]) -> str:
    inner = block.get("text") or block.get("content", "")
    return inner if isinstance(inner, str) else " ".join(_text(one) for one in inner)


def _clean(text: str) -> str:
    return re.sub(r"</?untrusted[^>]*>", "", text).strip()


@dataclass
class Life:
    """The services around the bot, which outlive its processes; `ears` transcribe speech."""

    folder: Path
    telegram: TelegramServer
    model: AnthropicServer
    ears: OpenAIServer
    ann: Person

    @asynccontextmanager
    async def bot(self, at: str, zone: str = "Europe/Berlin") -> AsyncIterator[BotProcess]:
        """Start a process whose clock shows this time."""
        settings = {
            "model": "claude-sonnet-4-5",
            "brain": {"provider": "anthropic", "config": {"base_url": self.model.base_url}},
            "owners": ["telegram/42"],
            "telegram": {"base_url": self.telegram.base_url},
            "web": {"port": 0},
            "timezone": zone,
            "spend_limit_total": LIMIT,
            "voice": {"model": "whisper-1", "minute_price": 0.006},
            "mcp": {"servers": {"notes": notes(self.folder)}},
        }
        launch = f'python=$1; shift; exec "$python" {MOVED} {at} "$@"'
        async with talking(
            self.folder, self.ears, settings, arguments=("--web",), shell=launch, environ=KEYS
        ) as bot:
            await url_of(bot)
            yield bot

    @property
    def asked(self) -> int:
        """Return the number of requests to the model."""
        return len(self.model.requests)


async def ends(bot: BotProcess) -> None:
    bot.process.terminate()
    assert await bot.gone() == 0, bot.errors


async def says_on_the_page(bot: BotProcess, text: str, **fields: Any) -> str:
    url = f"{await url_of(bot)}/api/sessions/main/messages"
    message = {"text": text, **fields}
    async with aiohttp.ClientSession() as http, http.post(url, json=message) as response:
        answer = await response.json()
        return str(answer.get("text") or answer["error"]["message"])


async def test_a_day(tmp_path: Path) -> None:
    async with (
        TelegramServer() as telegram,
        AnthropicServer(claude, key=KEYS["ANTHROPIC_API_KEY"]) as model,
        OpenAIServer() as ears,
    ):
        life = Life(tmp_path, telegram, model, ears, telegram.person("Ann", 42))
        await _evening_before(life)
        await _morning(life)
        await _evening_in_new_york(life)


async def _evening_before(life: Life) -> None:
    """Prepare the actions of the next day."""
    async with life.bot("2026-11-30T22:00:00+01:00") as bot:
        life.ann.says("/jobs add every day 8:00 Look at my notes and say what is to be done")
        made = await life.telegram.shown("Job 1 is set")
        assert "Tue 1 Dec 2026, 08:00 (Europe/Berlin)" in made.text
        life.ann.says("/remind tomorrow 21:00 Call Mom")
        await life.telegram.shown("Tue 1 Dec 2026, 21:00 (Europe/Berlin)")
        life.ann.says("/jobs add --budget 0.02 tomorrow 8:10 Count")
        await life.telegram.shown("Job 3 is set")
        await ends(bot)
    assert life.asked == 0
    assert calls_in(life.folder) == [], "no server is started before it is needed"


async def _morning(life: Life) -> None:
    async with life.bot("2026-12-01T08:00:01+01:00") as bot:
        told = await life.telegram.shown("I found: One note.")
        assert "Job 1, every day at 08:00" in told.text
        assert calls_in(life.folder) == ["started", "find_notes today"]

        life.ears.voice.transcripts.append("Good morning, Parley!")
        life.ann.sends(life.ann.voice(OGG))
        await life.telegram.shown("I heard you.")
        assert "[heard] Good morning, Parley!" in json.dumps(life.model.turns[-1].body)

        plan = base64.b64encode(pdf("Knead it.", "Bake it for 40 minutes.")).decode()
        file = {"name": "plan.pdf", "media_type": "application/pdf", "data": plan}
        answer = await says_on_the_page(bot, "How long, by plan.pdf?", attachments=[file])
        assert "[page 2]\nBake it for 40 minutes." in answer
        await ends(bot)
    async with life.bot("2026-12-01T08:10:01+01:00") as bot:
        before = life.asked
        told = await life.telegram.shown("A run of this job may cost $0.0200.")
        assert "Job 3, once" in told.text
        assert before + 1 < life.asked < before + 10, "it was stopped by its budget, not its steps"
        await ends(bot)
    assert not any("Reminder:" in text for text in life.telegram.texts)


async def _evening_in_new_york(life: Life) -> None:
    """The reminder comes at nine in Berlin, in whatever time zone the bot runs then; the limit
    holds."""
    async with life.bot("2026-12-01T14:59:58-05:00", "America/New_York") as bot:
        told = await life.telegram.shown("Reminder: Call Mom")
        assert "Late" not in told.text
        life.ann.says("/jobs")
        await life.telegram.shown("next on Wed 2 Dec 2026, 08:00 (Europe/Berlin)")

        refused, before = "", life.asked
        while "not sent to the model" not in refused and life.asked < before + 20:
            refused = await says_on_the_page(bot, "Good evening! " + "How was your day? " * 500)
        assert "this month's $0.0500" in refused
        asked = life.asked
        life.ann.says("/usage")
        await life.telegram.shown("voice heard")
        life.ann.says("Are you there?")
        await life.telegram.shown("not sent to the model")
        assert life.asked == asked
        await ends(bot)
