"""A tool call interrupted by a crash is not repeated by itself: the model is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.loop import INTERRUPTED, NOT_RUN_AGAIN
from tests.fakes.openai_server import Answer, Call, OpenAIServer, Received, Say
from tests.waiting import until
from tests.whole.process import talking
from tests.whole.requests import with_plugin
from tests.whole.testbot import run_bot

PLUGIN = '''
import asyncio
from pathlib import Path
from agent.tools.base import ToolContext
from plugins.api import hookimpl, tool

@tool(is_once=True)
async def pay(context: ToolContext) -> str:
    """Pay the bill."""
    return await run(context, "paid")

@tool
async def look(context: ToolContext) -> str:
    """Look at the bill."""
    return await run(context, "looked")

async def run(context: ToolContext, did: str) -> str:
    files = Path(__file__).parents[2] / "till"  # no sign of a bot that lived here before
    with open(files / "log.txt", "a") as log:
        log.write(did + "\\n")
    while (files / "hang").exists():
        await asyncio.sleep(0.01)
    return did

@hookimpl
def parley_tools():
    return [pay, look]
'''
FILES = Path("till")
DELEGATE = Call("delegate", '{"task": "pay"}', "d")


@pytest.fixture(autouse=True)
def plugin(tmp_path: Path) -> None:
    with_plugin(tmp_path, PLUGIN, "till")
    (tmp_path / FILES).mkdir(parents=True)


def script(request: Received) -> Answer:
    """A model that calls the tools named in the question, and repeats their results."""
    messages = request.body["messages"]
    results = [str(m["content"]) for m in messages if m["role"] == "tool"]
    if results:
        return Say(" | ".join(results))
    words = messages[-1]["content"].split()
    calls = [DELEGATE if w == "delegate" else Call(w, "{}", f"c{n}") for n, w in enumerate(words)]
    return Say(calls=tuple(calls))


async def written(folder: Path, *log: str) -> None:
    await until(lambda: read(folder) == sorted(log))


def read(folder: Path) -> list[str]:
    file = folder / FILES / "log.txt"
    return sorted(file.read_text().splitlines()) if file.exists() else []


@pytest.mark.usefixtures("processes")
async def test_a_call_that_a_kill_cut_short_is_not_run_again_by_itself(tmp_path: Path) -> None:
    """Kill the bot during a call that must not run twice, one that the model may repeat, and a
    subagent's."""
    (tmp_path / FILES / "hang").touch()
    async with OpenAIServer(script) as endpoint:
        async with talking(tmp_path, endpoint) as bot:
            for word in ("pay", "look", "delegate"):
                await bot.tell(word, chat=word, id=word)
            await written(tmp_path, "paid", "looked", "paid")
            await bot.kill()
        (tmp_path / FILES / "hang").unlink()
        async with talking(tmp_path, endpoint) as bot:
            for name in ("pay", "delegate"):
                assert (await bot.reply_to(name))["text"] == INTERRUPTED.format(name=name)
            assert (await bot.reply_to("look"))["text"] == NOT_RUN_AGAIN.format(name="look")
    assert read(tmp_path) == ["looked", "paid", "paid"]


@pytest.mark.usefixtures("processes")
async def test_a_call_that_had_not_begun_runs_after_an_orderly_stop(tmp_path: Path) -> None:
    """Stop the bot after calls of the same reply that have results; `shutdown_timeout` interrupts
    the turn."""
    (tmp_path / FILES / "hang").touch()
    settings = {"shutdown_timeout": 0}
    async with OpenAIServer(script) as endpoint:
        async with talking(tmp_path, endpoint, settings) as bot:
            await bot.tell("look pay", chat="main", id="q")
            await written(tmp_path, "looked", "paid")
            bot.process.terminate()
            await bot.gone()
        (tmp_path / FILES / "hang").unlink()
        async with talking(tmp_path, endpoint) as bot:
            text = (await bot.reply_to("q"))["text"]
    assert set(text.split(" | ")) == {"looked", INTERRUPTED.format(name="pay")}
    assert read(tmp_path) == ["looked", "looked", "paid"]


async def test_a_turn_that_is_not_cut_short_runs_it_as_any_other(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script) as bot:
        assert (await bot.says("pay")).text == "paid"
        assert (await bot.says("/retry")).text
        await bot.app.turns.queues.idle()
        await bot.says("/forget chat yes")
        count = await bot.app.store.read(
            lambda db: db.execute_sql("SELECT count(*) FROM call_start").fetchone()[0]
        )
    assert count == 0
    assert read(tmp_path) == ["paid", "paid"]
