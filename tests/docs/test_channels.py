"""The channel on the page about channels, in a bot; and the session with the pipe, line by line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from bot.assembly import assemble
from bot.data_folder import plugins_folder
from bot.messengers import make_messengers
from bot.settings import SettingsStore, load_layers
from tests.docs.pages import example
from tests.fakes.openai_server import OpenAIServer, Say, echo
from tests.waiting import until
from tests.whole.process import BotProcess, Json, talking
from tests.whole.testbot import TestChannel


def set_up(folder: Path) -> Json:
    """Do what the page says, step by step; returns the configuration."""
    (folder / "data" / "plugins").mkdir(parents=True)
    (folder / "letters").mkdir()
    (folder / "data" / "plugins" / "letters.py").write_text(example("channels.md", "python"))
    config: Json = json.loads(example("channels.md", "json"))
    config["channels"]["letters"]["folder"] = str(folder / "letters")  # the bot runs elsewhere
    return config


async def until_written(file: Path, words: str, after: str = "") -> str:
    """Return what is in a file once it has these words, behind others."""

    def written() -> str:
        text = file.read_text() if file.exists() else ""
        return text if words in text[text.find(after) + len(after) :] else ""

    return await until(written)


async def test_the_channel_on_the_page_answers_each_line_once(tmp_path: Path) -> None:
    """Start and talk; what it does after a kill is tested with all channels
    (tests/channels/contract)."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model": "gpt-4o-mini", **set_up(tmp_path)}))
    questions, answers = tmp_path / "letters/questions.txt", tmp_path / "letters/answers.txt"

    def ask(text: str) -> None:
        with questions.open("a") as file:
            file.write(text)

    async with OpenAIServer(echo) as endpoint:
        environ = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "test-key"}
        layers = load_layers(config, environ)
        settings = SettingsStore(layers).effective()
        plugins = plugins_folder(settings, tmp_path / "data")
        letters = make_messengers(
            settings.channels.messengers, layers.secrets, plugins, has_server=False
        )
        pipe = TestChannel("pipe")
        app = await assemble(layers, tmp_path / "data", [pipe, *letters])
        running = asyncio.create_task(app.run(until="pipe"))
        ask("Hello!\nHalf a li")
        assert await until_written(answers, "Hello!") == "re: Hello!\n\n"
        ask("ne\n")
        await until_written(answers, "re: Half a line")
        ask("/context\n")
        shown = await until_written(answers, "to choose")
        assert shown.startswith("re: Hello!\n\nre: Half a line\n\n")
        ask("1\n")  # the details
        await until_written(answers, "turn", after="to choose.")
        pipe.leave()
        await running
    assert len(endpoint.requests) == 2, "a choice never reaches the model"


@pytest.mark.usefixtures("processes")
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
