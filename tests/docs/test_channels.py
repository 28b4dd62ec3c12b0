"""The channel on the page about channels, in a bot; and the session with the pipe, line by line."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.docs.pages import example
from tests.fakes.openai_server import Answer, OpenAIServer, Received, Say
from tests.whole.process import BotProcess, Json, talking


def set_up(folder: Path) -> Json:
    """What the page says, step by step; returns the configuration."""
    (folder / "data" / "plugins").mkdir(parents=True)
    (folder / "letters").mkdir()
    (folder / "data" / "plugins" / "letters.py").write_text(example("channels.md", "python"))
    config: Json = json.loads(example("channels.md", "json"))
    config["channels"]["letters"]["folder"] = str(folder / "letters")  # the bot runs elsewhere
    return config


def echo(request: Received) -> Answer:
    return Say(f"re: {request.body['messages'][-1]['content']}")


async def until_written(file: Path, words: str, after: str = "") -> str:
    """What stands in a file once it has these words, behind others."""

    def read() -> str:
        return file.read_text() if file.exists() else ""

    async with asyncio.timeout(60):
        while words not in read()[read().find(after) + len(after) :]:  # noqa: ASYNC110 - it is a file
            await asyncio.sleep(0.05)
    return read()


async def until_delivered(folder: Path) -> None:
    """Until the bot has noted of each answer that it was written: killed before, it says it again,
    with a word about it."""
    async with asyncio.timeout(60):
        with closing(sqlite3.connect(folder / "data" / "parley.db")) as database:
            waiting = "SELECT 1 FROM outbox WHERE is_sent = 0"
            while database.execute(waiting).fetchall():  # noqa: ASYNC110 - it is a file
                await asyncio.sleep(0.05)


async def test_the_channel_on_the_page_answers_each_line_once_also_after_a_kill(
    tmp_path: Path,
) -> None:
    told = set_up(tmp_path)
    questions, answers = tmp_path / "letters/questions.txt", tmp_path / "letters/answers.txt"
    async with OpenAIServer(echo) as endpoint:
        async with talking(tmp_path, endpoint, told, arguments=("--serve",)) as bot:
            questions.write_text("Hello!\nHalf a li")
            assert await until_written(answers, "Hello!") == "re: Hello!\n\n"
            await until_delivered(tmp_path)
            await bot.kill()
        async with talking(tmp_path, endpoint, told, arguments=("--serve",)):
            with questions.open("a") as file:
                file.write("ne\n")
            await until_written(answers, "re: Half a line")
            with questions.open("a") as file:
                file.write("/context\n")
            text = await until_written(answers, "to choose")
            assert text.startswith("re: Hello!\n\nre: Half a line\n\n")
            with questions.open("a") as file:
                file.write("1\n")  # the details
            await until_written(answers, "turn", after="to choose.")
    assert len(endpoint.requests) == 2, "a choice never reaches the model"


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
