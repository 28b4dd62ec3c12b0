"""A model that has a tool pay for each message, and a file that records each payment, so that a
double payment is visible.

payments.install(folder)
async with PayingModel(pause=0.1) as endpoint: ...
assert payments.made(folder) == …
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from aiohttp import web

from tests.fakes import openai_server
from tests.fakes.openai_server import Call, OpenAIServer, Received, Say
from tests.whole.requests import with_plugin

_PLUGIN = '''
import asyncio
from pathlib import Path
from plugins.api import hookimpl, tool

TILL = Path(__file__).parents[2] / "till.txt"

@tool(is_once=True)
async def pay(what: str) -> str:
    """Pay for something.

    Args:
        what: what for
    """
    with TILL.open("a") as till:
        till.write(what + "\\n")
    await asyncio.sleep(0.05)
    return "paid"

@hookimpl
def parley_tools():
    return [pay]
'''


def install(folder: Path) -> None:
    """Give the bot on this folder the tool, which must not run twice for one call."""
    with_plugin(folder, _PLUGIN, "till")


def made(folder: Path) -> list[str]:
    """Return the payments, with repetitions."""
    till = folder / "till.txt"
    return till.read_text().split() if till.exists() else []


class PayingModel(OpenAIServer):
    """A model that takes `pause` seconds for each step, pays for each message, and then answers
    with the message."""

    def __init__(self, pause: float) -> None:
        super().__init__()
        self.pause = pause
        self.at_once = self.most_at_once = 0

    async def _respond(self, request: web.Request, received: Received) -> web.StreamResponse:
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            await asyncio.sleep(self.pause)  # the time that a model takes
        finally:
            self.at_once -= 1
        self.requests.clear()  # which a test would look at
        return await openai_server._act(request, received, self.answer(received), (1, 0))

    def answer(self, received: Received) -> Say:
        messages = received.body["messages"]
        text = next(one["content"] for one in reversed(messages) if one["role"] == "user")
        if messages[-1]["role"] == "tool":
            return Say(f"re: {text}")
        return Say(calls=(Call("pay", json.dumps({"what": text}), f"call-{text}"),))


class Echo(PayingModel):
    """A model that answers each message with itself, after a while, and pays nothing."""

    def answer(self, received: Received) -> Say:
        return Say(f"re: {received.body['messages'][-1]['content']}")
