"""The channel on the page about channels, in a bot; and the session with the pipe, line by line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bot.assembly import assemble
from bot.settings import load_layers
from channels.base import Channel
from tests.docs.pages import example
from tests.fakes.openai_server import Answer, OpenAIServer, Received, Say
from tests.whole.process import BotProcess, Json, talking


def letters(folder: Path) -> Channel:
    """The channel on the page, over this folder."""
    names: dict[str, Any] = {}
    exec(example("channels.md", "python"), names)
    channel: Channel = names["Letters"](folder)
    return channel


@asynccontextmanager
async def bot_with_letters(folder: Path) -> AsyncIterator[OpenAIServer]:
    """A bot with this channel alone, and a model that repeats what it is asked."""

    def echo(request: Received) -> Answer:
        return Say(f"re: {request.body['messages'][-1]['content']}")

    config = folder / "config.json"
    config.write_text(json.dumps({"model": "gpt-4o-mini", "owners": ["letters/me"]}))
    async with OpenAIServer(echo) as endpoint:
        surroundings = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "test-key"}
        app = await assemble(load_layers(config, surroundings), folder / "data", [letters(folder)])
        running = asyncio.create_task(app.run())
        try:
            yield endpoint
        finally:
            (listener,) = (t for t in asyncio.all_tasks() if t.get_name() == "listen letters")
            listener.cancel()
            await running


async def test_the_channel_on_the_page_answers_each_line_once_also_after_a_restart(
    tmp_path: Path,
) -> None:
    questions, answers = tmp_path / "questions.txt", tmp_path / "answers.txt"
    questions.write_text("Hello!\nHalf a li")
    async with bot_with_letters(tmp_path) as endpoint:
        await endpoint.reached.acquire()
    assert answers.read_text() == "re: Hello!\n\n"
    (tmp_path / "place.txt").unlink()  # as if a crash had come before it was written
    async with bot_with_letters(tmp_path) as endpoint:
        with questions.open("a") as file:
            file.write("ne\n")
        await endpoint.reached.acquire()
    assert answers.read_text() == "re: Hello!\n\nre: Half a line\n\n"


async def test_the_session_on_the_page_is_what_the_pipe_says(tmp_path: Path) -> None:
    exchanges = exchanges_in(example("channels.md", "jsonl"))
    script = [Say(line["text"]) for _, out in exchanges for line in out if line.get("turn")]
    async with OpenAIServer(script) as endpoint, talking(tmp_path, endpoint) as bot:
        for line, out in exchanges:
            await said(bot, line, out)
        assert await bot.ended() == 0
    assert bot.lines == [line for _, out in exchanges for line in out]


def exchanges_in(session: str) -> list[tuple[str, list[Json]]]:
    """Each line that goes in, with the lines that come out before the next one."""
    parts = session.removeprefix("> ").split("\n> ")
    exchanges = [part.strip().split("\n< ") for part in parts]
    return [(line, [json.loads(answer) for answer in out]) for line, *out in exchanges]


async def said(bot: BotProcess, line: str, out: list[Json]) -> None:
    """Write a line and wait for as many as come out."""
    count = len(bot.out) + len(out)
    await bot.write(f"{line}\n".encode())
    await bot.until(lambda: len(bot.out) >= count)
