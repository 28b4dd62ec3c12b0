"""What the tests of the points look at: what the model received, what is on disk, who was told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from channels.base import Delta
from channels.message import Address, Reply
from tests.whole.testbot import PATIENCE, TestBot


def missing(point: int, what: str) -> pytest.MarkDecorator:
    """Marks what is not so yet; whoever mends it takes the mark away."""
    reason = f"issue 12, point {point}: {what}"
    return pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason)


def answered(bot: TestBot) -> list[dict[str, Any]]:
    """The bodies of the requests that the turns made: those that offer tools."""
    return [request.body for request in bot.server.requests if "tools" in request.body]


def summarised(bot: TestBot) -> list[dict[str, Any]]:
    """The bodies of the requests for summaries."""
    return [request.body for request in bot.server.requests if "tools" not in request.body]


def texts(body: dict[str, Any]) -> list[str]:
    """What a request held, without the system prompt."""
    return [str(message["content"]) for message in body["messages"][1:]]


def results(body: dict[str, Any]) -> list[str]:
    """The tools' results in a request, in their order."""
    return [str(m["content"]) for m in body["messages"] if m["role"] == "tool"]


def audience(folder: Path, chat: str = "pipe-main") -> Path:
    """The folder of what belongs to a chat."""
    return folder / "data" / "audiences" / chat


def daily(folder: Path) -> str:
    """All that is in the daily memory of the chat."""
    return "\n".join(file.read_text() for file in memories(folder))


def memories(folder: Path) -> list[Path]:
    return sorted((audience(folder) / "memory").glob("*.md"))


def with_plugin(folder: Path, code: str, name: str = "extra") -> Path:
    """Install a plugin; returns the folder in which it stands."""
    plugins = folder / "data" / "plugins"
    plugins.mkdir(parents=True, exist_ok=True)
    (plugins / f"{name}.py").write_text(code)
    return plugins


async def settle(bot: TestBot) -> None:
    """Wait until what runs in the background is done."""
    await bot.app.conversations.settle()


async def data(bot: TestBot, line: str) -> dict[str, Any]:
    """What a command returns for programs."""
    found = (await bot.says(line)).data
    assert found is not None, f"{line} returned no data"
    return dict(found)


async def events(bot: TestBot, *kinds: str) -> list[dict[str, Any]]:
    """What changed the view, the oldest first."""
    found = (await data(bot, "/context history"))["events"]
    return [event for event in found if not kinds or event["kind"] in kinds]


async def compactions(bot: TestBot) -> list[dict[str, Any]]:
    return await events(bot, "compact")


async def asks(bot: TestBot, question: str, words: str) -> asyncio.Task[Reply]:
    """Ask, and wait until these words have streamed; the task ends with the whole answer."""
    said = ""
    with (await bot.api()).watch(Address(bot.name, "main")) as happening:
        asking = asyncio.create_task(bot.says(question))
        async with asyncio.timeout(PATIENCE):
            async for event in happening:
                said += event.text if isinstance(event, Delta) else ""
                if words in said:
                    break
    return asking


def heard(bot: TestBot) -> str:
    """All that the person was sent."""
    return "\n".join(outbound.reply.text for outbound in bot.sent)
