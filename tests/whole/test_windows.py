"""Windows of models: their sources, silently truncated prompts, and conversations in small ones."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from memory.context.meter import Meter
from memory.keys import ConversationKey
from tests.fakes.openai_server import Answer, Call, OpenAIServer, Received, Say
from tests.whole.requests import answered, answering, data, results, state
from tests.whole.testbot import run_bot

LONG = "The quick brown fox jumps over the lazy dog. " * 700  # about 7,000 tokens
agreeing = answering(lambda _: Say("Yes."))


def at(server: OpenAIServer, provider: str, model: str, **more: Any) -> dict[str, Any]:
    """Return the settings of a provider that is reached at this server."""
    config = {"base_url": server.base_url, "api_key": "{{secret.THEIR_KEY}}"}
    if provider == "ollama":
        del config["api_key"]
    brain = {"provider": provider, "model": model, "config": config, **more}
    return {"agents": [{"id": "theirs", "brain": brain}], "agent": "theirs"}


async def test_a_local_model_says_its_window_itself_also_behind_the_usual_address(
    tmp_path: Path,
) -> None:
    """Ollama's names, llama3.1:8b, at the address of OPENAI_BASE_URL."""
    there = {"model": "llama3.1:8b"}
    async with run_bot(tmp_path, agreeing, there, ollama={"llama3.1:8b": 8_192}) as bot:
        await bot.says("Are you there?")
        assert (await state(bot))["window"] == 8_192


async def test_a_window_that_was_set_outranks_what_ollama_says(tmp_path: Path) -> None:
    own = {"context": {"max_tokens": 4_096}}
    async with (
        OpenAIServer(agreeing, ollama={"llama3.1:8b": 8_192}) as server,
        run_bot(tmp_path, (), at(server, "ollama", "llama3.1:8b", **own)) as bot,
    ):
        await bot.says("Are you there?")
        assert (await state(bot))["window"] == 4_096


async def test_each_conversation_hears_once_of_cut_prompts_and_context_says_it_until_mended(
    tmp_path: Path,
) -> None:
    """4,096 prompt tokens are reported for a request of more than 7,000. The meter is not corrected
    by such a report: the unread part is still sent with every request."""
    async with (
        OpenAIServer(agreeing, cuts_at=4_096) as server,
        run_bot(tmp_path, (), at(server, "ollama", "llama3.1:8b")) as bot,
    ):
        for chat in ("main", "other"):
            first = await bot.says(LONG, chat)
            again = await bot.says("And now?", chat)
            shown = await bot.says("/context", chat)
            assert "has read only about 4,096 of the" in first.text
            assert "OLLAMA_CONTEXT_LENGTH" in first.text
            assert "has read only" not in again.text
            assert "has read only about 4,096 of the" in shown.text
        assert (await state(bot))["tokens"] > 7_000
        await bot.says("/config context.max_tokens 4096")
        await bot.says("Better?")
        mended = await bot.says("/context")
        found = await data(bot, "/context json")
    assert "has read only" not in mended.text
    assert found["cut_prompt"] is None


async def test_a_report_that_is_a_little_below_the_estimate_alarms_nobody(tmp_path: Path) -> None:
    """Tokenizers differ; only a count far below means that the prompt was truncated."""
    async with (
        OpenAIServer(agreeing, cuts_at=6_500) as server,
        run_bot(tmp_path, (), at(server, "ollama", "llama3.1:8b")) as bot,
    ):
        assert "has read only" not in (await bot.says(LONG)).text


NEGATIVE = re.compile(r"(?<![\w-])-\d")
MORE = ("detail", "preview", "turns", "request")


@pytest.mark.parametrize("per_token", [12, 400])
async def test_no_part_is_negative_however_few_tokens_a_provider_counts(
    tmp_path: Path, per_token: int
) -> None:
    def script(_: object) -> Say:
        return Say("Well, " * 60)

    async with run_bot(tmp_path, script) as bot:
        bot.server.counts = lambda prompt: len(prompt) // per_token
        for number in range(4):
            await bot.says(f"Question {number}: " + "why? " * 50)
            shown = await bot.says("/context")
            assert shown.data is not None
            assert min(shown.data["parts"].values()) >= 0
            assert sum(shown.data["parts"].values()) == shown.data["tokens"]
            told = [(await bot.says(f"/context {what}")).text for what in MORE]
            assert not [text for text in (shown.text, *told) if NEGATIVE.search(text)]


KEY = ConversationKey("pipe/main", "pipe-main")
ALL_TOOLS = {"shell": True, "web_fetch": True}
MOST = 1_600
"""The maximum tokens of the prompt, with all built-in tools on."""


async def test_the_prompt_with_all_built_in_tools_has_at_most_1600_tokens(
    tmp_path: Path,
) -> None:
    """The test uses `slim`, which has the longest prompt."""
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
    """A model that reads, calculates and writes by the turn's number, then answers at length. With
    lean tools it calls by `use_tool`."""

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
        await bot.app.conversations.flush()
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
