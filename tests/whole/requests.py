"""The requests of a whole bot to its model, its files on disk, and scripts for the model, for
tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from channels.base import Delta
from channels.message import Address, Reply
from tests.fakes.openai_server import Answer, Call, Received, Say
from tests.waiting import PATIENCE
from tests.whole.testbot import TestBot

Json = dict[str, Any]


# --- requests ---


def answered(bot: TestBot) -> list[Json]:
    """Return the bodies of the requests made by turns, in order."""
    return [request.body for request in bot.server.turns]


def steps(bot: TestBot) -> list[list[Json]]:
    """Return the messages of each request made by a turn, in order."""
    return [list(body["messages"]) for body in answered(bot)]


def asked_to_summarise(bot: TestBot) -> str:
    """Return all messages of the requests for summaries as one text."""
    return "\n".join(whole(request.body["messages"]) for request in bot.server.summaries)


def content(message: Json) -> str:
    """Return the text of a message; "" where it only calls tools."""
    return str(message.get("content") or "")


def texts(messages: list[Json]) -> list[str]:
    """Return the texts of a request without the system prompt."""
    return [content(message) for message in messages[1:]]


def whole(messages: list[Json]) -> str:
    """Return all texts of a request as one."""
    return "\n".join(content(message) for message in messages)


def results(body: Json) -> list[str]:
    """Return the results of tools in a request, in order."""
    return [content(message) for message in body["messages"] if message["role"] == "tool"]


def last_asked(request: Received) -> str:
    """Return the newest text of a person in a request."""
    asked = [m for m in request.body["messages"] if m["role"] == "user"]
    return content(asked[-1]) if asked else ""


def has_results(request: Received) -> bool:
    """Return whether a request ends with a result of a tool."""
    return bool(request.body["messages"][-1]["role"] == "tool")


# --- scripts ---


def answering(
    reply: Callable[[Received], Answer], summary: Callable[[Received], Answer] | str = "They talked"
) -> Callable[[Received], Answer]:
    """Make a script from the answers to turns and the answers to requests for summaries."""

    def script(request: Received) -> Answer:
        if request.is_turn:
            return reply(request)
        return Say(summary) if isinstance(summary, str) else summary(request)

    return script


def in_order(*answers: Answer) -> Callable[[Received], Answer]:
    """Make a script with these answers to turns, one after the other."""
    left = list(answers)
    return answering(lambda _: left.pop(0) if left else Say("Nothing more."), "They talked.")


def looks(request: Received, path: str, times: int = 1) -> Answer:
    """Answer with this many calls that read a file."""
    number = len(request.body["messages"])
    arguments = json.dumps({"path": path})
    # An identical call in a turn is answered from the stored result, so the lines differ.
    return Say(
        calls=tuple(
            Call("read_file", arguments[:-1] + f', "offset": {n + 1}}}', f"c{number}_{n}")
            for n in range(times)
        )
    )


# --- talking ---


async def settled(bot: TestBot) -> None:
    """Wait until no turn runs and no summary is being written."""
    await bot.app.turns.queues.idle()
    await bot.app.conversations.flush()


async def settle(bot: TestBot) -> None:
    """Wait until the background work of the conversations is done."""
    await bot.app.conversations.flush()


async def talk(bot: TestBot, *lines: str) -> str:
    """Send each line once the bot is idle, and return the text of the last reply."""
    text = ""
    for line in lines:
        text = (await bot.says(line)).text
        await settled(bot)
    return text


async def asks(bot: TestBot, question: str, words: str) -> asyncio.Task[Reply]:
    """Ask, wait until these words have streamed, and return the task that gets the complete
    reply."""
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
    """Return everything that was sent to the person."""
    return "\n".join(outbound.reply.text for outbound in bot.sent)


# --- state ---


async def data(bot: TestBot, line: str) -> Json:
    """Return the data of the reply to a command."""
    found = (await bot.says(line)).data
    assert found is not None, f"{line} returned no data"
    return dict(found)


async def state(bot: TestBot) -> Json:
    """Return the data of `/context json`."""
    return await data(bot, "/context json")


async def events(bot: TestBot, *kinds: str) -> list[Json]:
    """Return the events that changed the view, oldest first."""
    found = (await data(bot, "/context history"))["events"]
    return [event for event in found if not kinds or event["kind"] in kinds]


async def compactions(bot: TestBot) -> list[Json]:
    return await events(bot, "compact")


async def ledger(bot: TestBot) -> Json:
    """Return the cost of this chat, by `/usage`."""
    return dict((await data(bot, "/usage"))["chat"]["this chat, total"])


async def calls_paid(bot: TestBot) -> int:
    """Return the number of calls in the ledger, by `/usage`."""
    return int((await ledger(bot))["calls"])


# --- files ---


def audience(folder: Path, chat: str = "pipe-main") -> Path:
    """Return the folder of a chat's data."""
    return folder / "data" / "audiences" / chat


def put_file(folder: Path, name: str, text: str) -> None:
    """Write a file that the model's tools can read."""
    place = audience(folder) / "files"
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_text(text)


def memories(folder: Path) -> list[Path]:
    """Return the daily memory files of the chat."""
    return sorted((audience(folder) / "memory").glob("*.md"))


def daily(folder: Path) -> str:
    """Return the text of all daily memory files, including those in quarantine."""
    return "\n".join(path.read_text() for path in sorted((folder / "data").rglob("memory/*.md")))


def with_plugin(folder: Path, code: str, name: str = "extra") -> Path:
    """Install a plugin, and return the folder of plugins."""
    plugins = folder / "data" / "plugins"
    plugins.mkdir(parents=True, exist_ok=True)
    (plugins / f"{name}.py").write_text(code)
    return plugins
