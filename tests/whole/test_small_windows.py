"""Small windows: a short prompt, and conversations that go on in 4,096 and 8,192 tokens."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from memory.context.meter import Meter
from memory.keys import ConversationKey
from tests.fakes.openai_server import Answer, Call, Received, Say
from tests.whole.requests import answered, results
from tests.whole.testbot import run_bot

KEY = ConversationKey("pipe/main", "pipe-main")
ALL_TOOLS = {"shell": True, "web_fetch": True}
MOST = 1_600
"""Tokens that the prompt may have, with all built-in tools on."""


async def test_the_prompt_with_all_built_in_tools_has_at_most_1600_tokens(
    tmp_path: Path,
) -> None:
    """Under `slim`, which has the longest."""
    settings = {"tools": ALL_TOOLS, "context": {"strategy": "slim"}}
    async with run_bot(tmp_path, settings=settings) as bot:
        await bot.says("/context")
        prefix = bot.app.config.prefix(KEY)
        tokens = bot.app.conversations.services.meter.prefix(prefix)
    assert {"shell", "web_fetch"} < {tool["function"]["name"] for tool in prefix.tools}
    assert 0 < tokens.system + tokens.tools <= MOST


# --- turns with tools ---

TURNS = 16
WINDOW = 4_096
WORDS = "the tide comes in at noon and the boats leave the harbour one by one "
FIELDS = {
    "task_overview": "Keep the keys of the harbour.",
    "current_state": "Some keys are noted.",
    "important_discoveries": "The tide comes in at noon.",
    "next_steps": "Note the next key.",
    "context_to_preserve": "The person owns a boat.",
}


class Clerk:
    """A model that reads, reckons and writes as the turn's number says, then answers at length. In
    a lean offer it calls by `use_tool`."""

    def __call__(self, request: Received) -> Answer:
        body = request.body
        if "tools" not in body:
            return Say(json.dumps(FIELDS) if "JSON" in str(body["messages"]) else WORDS * 5)
        asked = max(n for n, m in enumerate(body["messages"]) if m["role"] == "user")
        text = str(body["messages"][asked]["content"])
        steps = sum(m["role"] == "tool" for m in body["messages"][asked:])
        if found := re.search(r"Find (locker\d+)", text):
            calls = [("context_search", {"mode": "search", "query": found[1]})]
        else:
            number = re.findall(r"turn (\d+)", text)
            calls = self._work(int(number[-1]) if number else 0)
        if steps < len(calls):
            name, arguments = calls[steps]
            return Say(calls=(self._call(body, name, arguments, f"c{steps}"),))
        return Say(f"It is noted. {WORDS * 4}")

    @staticmethod
    def _work(number: int) -> list[tuple[str, dict[str, Any]]]:
        read = ("read_file", {"path": f"files/{'long' if number % 2 else 'short'}.txt"})
        reckon = ("calculate", {"expression": f"{number} * 7"})
        write = ("write_file", {"path": f"files/{number}.txt", "content": WORDS * 3})
        return {0: [read, reckon], 1: [], 2: [write, read, read], 3: [reckon]}[number % 4]

    @staticmethod
    def _call(body: dict[str, Any], name: str, arguments: dict[str, Any], id: str) -> Call:
        if body["tools"][0]["function"]["name"] == "tool_search":
            return Call("use_tool", json.dumps({"name": name, "arguments": arguments}), id)
        return Call(name, json.dumps(arguments), id)


def put_files(folder: Path) -> None:
    files = folder / "data" / "audiences" / "pipe-main" / "files"
    files.mkdir(parents=True)
    (files / "long.txt").write_text("\n".join(f"{n}: {WORDS}" for n in range(150)))
    (files / "short.txt").write_text("\n".join(f"{n}: {WORDS}" for n in range(15)))


@pytest.mark.parametrize(
    ("strategy", "offer"),
    [
        *((name, "all") for name in ("trim", "slim", "full", "summarize", "structured")),
        ("stubs", "lean"),
    ],
)
async def test_turns_with_tools_go_on_in_a_small_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str, offer: str
) -> None:
    monkeypatch.setattr("memory.compactor.COOLDOWN", 0)  # the turns take no time
    put_files(tmp_path)
    meter = Meter()
    await meter.ready()
    settings = {
        "context": {"strategy": strategy, "max_tokens": WINDOW},
        "tools": ALL_TOOLS | {"offer": offer},
    }
    async with run_bot(tmp_path, Clerk(), settings, window=WINDOW) as bot:
        bot.server.counts = lambda prompt: meter.count(prompt.decode())
        replies = [
            (await bot.says(f"The key of turn {n} is in locker{n:02d}. {WORDS}")).text
            for n in range(1, TURNS + 1)
        ]
        await bot.app.conversations.settle()
        found = []
        for number in (1, TURNS // 2, TURNS - 1):
            await bot.says(f"Find locker{number:02d}")
            found.append(f"The key of turn {number} is in locker" in results(answered(bot)[-1])[-1])
        refused = bot.server.refused
        history = (await bot.says("/context history")).data
    assert history is not None
    kinds = Counter((e["kind"], e["actor"]) for e in history["events"])
    assert kinds, "nothing was cut"
    assert refused == 0
    if strategy in ("trim", "slim", "structured"):
        assert not [actor for _, actor in kinds if actor == "emergency"]
    assert all(reply.startswith("It is noted.") for reply in replies)
    assert found == [True] * 3
