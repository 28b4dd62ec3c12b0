"""What the tests of the points look at from outside: the wire, the files, and what was said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.fakes.openai_server import Answer, Call, Received, Say
from tests.whole.testbot import TestBot

Json = dict[str, Any]
AUDIENCE = Path("data/audiences/pipe-main")
SESSION = AUDIENCE / "sessions" / "pipe%2Fmain"


def is_summary(request: Received) -> bool:
    """Whether a request asks for a summary: it carries no tools."""
    return "tools" not in request.body


def steps(bot: TestBot) -> list[list[Json]]:
    """The messages of each request that a turn has made, in order."""
    return [list(r.body["messages"]) for r in bot.server.requests if not is_summary(r)]


def summaries(bot: TestBot) -> list[Received]:
    """The requests for summaries, in order."""
    return [request for request in bot.server.requests if is_summary(request)]


def content(message: Json) -> str:
    """The text of a message; "" where it only calls tools."""
    return str(message.get("content") or "")


def texts(messages: list[Json]) -> list[str]:
    """The texts of a request without the system prompt."""
    return [content(message) for message in messages[1:]]


def whole(messages: list[Json]) -> str:
    """All that the model received in a request, as one text."""
    return "\n".join(content(message) for message in messages)


def last_asked(request: Received) -> str:
    """The newest text of a person in a request."""
    asked = [m for m in request.body["messages"] if m["role"] == "user"]
    return content(asked[-1]) if asked else ""


def answering(
    reply: Callable[[Received], Answer], summary: Callable[[Received], Answer] | str = "They talked"
) -> Callable[[Received], Answer]:
    """A script: what a turn is answered with, and what a summary is."""

    def script(request: Received) -> Answer:
        if not is_summary(request):
            return reply(request)
        return Say(summary) if isinstance(summary, str) else summary(request)

    return script


def looks(request: Received, path: str, times: int = 1) -> Answer:
    """A step that reads a file as often as is said, in one reply."""
    number = len(request.body["messages"])
    arguments = json.dumps({"path": path})
    # An identical call in a turn is answered from what is stored: the lines differ.
    return Say(
        calls=tuple(
            Call("read_file", arguments[:-1] + f', "offset": {n + 1}}}', f"c{number}_{n}")
            for n in range(times)
        )
    )


def has_results(request: Received) -> bool:
    """Whether the model is to read on after its tools have answered."""
    return bool(request.body["messages"][-1]["role"] == "tool")


def put_file(folder: Path, name: str, text: str) -> None:
    """A file that the model's tools can read."""
    place = folder / AUDIENCE / "files"
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_text(text)


async def settled(bot: TestBot) -> None:
    """Wait until no turn runs and no summary is under way."""
    await bot.app.turns.queues.idle()
    await bot.app.conversations.settle()


async def talk(bot: TestBot, *lines: str) -> str:
    """Say these one after the other, each when all is quiet; the last reply's text."""
    text = ""
    for line in lines:
        text = (await bot.says(line)).text
        await settled(bot)
    return text


async def events(bot: TestBot) -> list[Json]:
    """The durable events, as `/context history` has them."""
    reply = await bot.says("/context history json")
    return list((reply.data or {})["events"])


async def state(bot: TestBot) -> Json:
    """The data of `/context json`."""
    return dict((await bot.says("/context json")).data or {})


async def calls_paid(bot: TestBot) -> int:
    """The calls that the ledger knows of, by `/usage`."""
    data = (await bot.says("/usage")).data or {}
    return int(data["chat"]["this chat, in all"]["calls"])


def daily(folder: Path) -> str:
    """All that stands in the daily memory files, also what waits to be looked through."""
    return "\n".join(path.read_text() for path in sorted((folder / "data").rglob("memory/*.md")))


def offloaded(folder: Path) -> str:
    """All that was offloaded of the conversation."""
    file = folder / SESSION / "context.jsonl"
    return file.read_text() if file.exists() else ""


def said_aloud(bot: TestBot) -> Iterator[str]:
    """All texts that the person got, replies and notices, in order."""
    return (outbound.reply.text for outbound in bot.sent)
