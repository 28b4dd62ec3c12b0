"""The cost of 100 turns at Anthropic: by its own protocol, with marks for its cache, and through
its OpenAI-compatible layer, which has none.

`python -m benchmarks.claude_cost` has two whole bots hold the same conversation, each with a strict
fake endpoint: one keeps a cache by the API's rules and bills what it says it does, the other bills
every token in full. Prices are those that are published, in US dollars for a million tokens.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fakes.anthropic_server import AnthropicServer
from tests.fakes.openai_server import Call, OpenAIServer, Received, Say
from tests.whole.testbot import TestBot, running

MODEL = "claude-sonnet-4-5"
FRESH, READ, WRITTEN, SAID = 3.0, 0.3, 3.75, 15.0
TALK = "It was a dark and stormy night, and the rain fell in torrents. "
EVERY = 4
"""A tool is called first in one of this many turns."""


def speaker() -> Callable[[Received], Say]:
    """Return a model that gives fairly long answers and calls the calculator now and then."""
    last = {"calls": 0}

    def answer(received: Received) -> Say:
        if "tools" not in received.body:
            return Say("They talked of the weather. " * 20)
        text = str(received.body["messages"][-1])
        if "tool_result" in text or "tool_call_id" in text:
            return Say(TALK * 12)
        last["calls"] += 1
        if last["calls"] % EVERY == 0:
            return Say(
                calls=(Call("calculate", '{"expression": "6 * 7"}', f"call_{last['calls']}"),)
            )
        return Say(TALK * 12)

    return answer


async def talk(
    server: Any, provider: str, strategy: str, turns: int, window: int
) -> dict[str, Any]:
    brain = {
        "provider": provider,
        "backend": "anthropic" if provider == "anthropic" else "openai_compat",
        "config": {"base_url": server.base_url, "api_key": "{{secret.KEY}}"},
    }
    context = {"strategy": strategy, "max_tokens": window}
    config = {"model": MODEL, "brain": brain, "context": context}
    bot = TestBot()
    with tempfile.TemporaryDirectory() as folder:
        async with running(Path(folder), bot, config, {"KEY": "sk-test"}):
            for number in range(turns):
                await bot.says(f"Question {number}: {TALK * 3}")
            reply = await bot.says("/usage")
    assert reply.data is not None
    bill: dict[str, Any] = reply.data["chat"]["this chat, total"]
    return bill


async def compare(strategy: str, turns: int, window: int) -> tuple[float, float]:
    async with AnthropicServer(speaker()) as server:
        own = await talk(server, "anthropic", strategy, turns, window)
        fresh, read, written = (
            sum(getattr(one, name) for one in server.bills) for name in ("fresh", "read", "written")
        )
        assert (read, written) == (own["cached"], own["written"])
    async with OpenAIServer(speaker()) as compatible:
        other = await talk(compatible, "compatible", strategy, turns, window)
    native = FRESH * fresh + READ * read + WRITTEN * written + SAID * own["completion"]
    plain = FRESH * other["prompt"] + SAID * other["completion"]
    print(
        f"{strategy:<11}{other['prompt']:>12,}{plain / 1e6:>9.2f}"
        f"{fresh:>11,}{read:>12,}{written:>10,}{native / 1e6:>9.2f}{1 - native / plain:>8.0%}"
    )
    return native, plain


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--window", type=int, default=60_000)
    parser.add_argument("strategies", nargs="*", default=["trim", "slim", "full", "structured"])
    options = parser.parse_args()
    print(f"{options.turns} turns, {MODEL}; $ with {SAID:g} for a million tokens of answers")
    heads = ("compat. in", "$", "fresh", "read", "written", "$", "saved")
    widths = (12, 9, 11, 12, 10, 9, 8)
    columns = "".join(f"{head:>{width}}" for head, width in zip(heads, widths, strict=True))
    print(f"{'strategy':<11}{columns}")
    for strategy in options.strategies:
        await compare(strategy, options.turns, options.window)


if __name__ == "__main__":
    asyncio.run(main())
