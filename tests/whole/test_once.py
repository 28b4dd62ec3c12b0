"""A tool call that a crash cut short is not run again by itself: the model is told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent.loop import INTERRUPTED, NOT_RUN_AGAIN
from tests.fakes.openai_server import Answer, Call, OpenAIServer, Received, Say
from tests.whole.process import Json, talking
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
    (tmp_path / "data" / "plugins").mkdir(parents=True)
    (tmp_path / "data" / "plugins" / "till.py").write_text(PLUGIN)
    (tmp_path / FILES).mkdir(parents=True)


def script(request: Received) -> Answer:
    """A model that calls the tools that it is told to, and repeats their results."""
    messages = request.body["messages"]
    results = [str(m["content"]) for m in messages if m["role"] == "tool"]
    if results:
        return Say(" | ".join(results))
    words = messages[-1]["content"].split()
    calls = [DELEGATE if w == "delegate" else Call(w, "{}", f"c{n}") for n, w in enumerate(words)]
    return Say(calls=tuple(calls))


async def killed_in(folder: Path, question: str, log: str) -> Json:
    """The answer to a question whose tool hangs, and whose process is killed when the log says
    this, and started again."""
    (folder / FILES / "hang").touch()
    async with OpenAIServer(script) as endpoint:
        async with talking(folder, endpoint) as bot:
            await bot.tell(question, chat="main", id="q")
            await written(folder, log)
            await bot.kill()
        (folder / FILES / "hang").unlink()
        async with talking(folder, endpoint) as bot:
            return await bot.reply_to("q")


async def written(folder: Path, log: str) -> None:
    async with asyncio.timeout(60):
        while read(folder) != log:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)


def read(folder: Path) -> str:
    file = folder / FILES / "log.txt"
    return file.read_text() if file.exists() else ""


async def test_what_must_not_run_twice_is_not_run_again_after_a_kill(tmp_path: Path) -> None:
    reply = await killed_in(tmp_path, "pay", "paid\n")
    assert reply["text"] == INTERRUPTED.format(name="pay")
    assert read(tmp_path) == "paid\n"


async def test_what_may_run_twice_is_not_run_again_by_itself_after_a_kill(tmp_path: Path) -> None:
    reply = await killed_in(tmp_path, "look", "looked\n")
    assert reply["text"] == NOT_RUN_AGAIN.format(name="look"), "the model may call it again"
    assert read(tmp_path) == "looked\n"


async def test_a_subagent_that_began_such_a_tool_is_not_sent_again(tmp_path: Path) -> None:
    reply = await killed_in(tmp_path, "delegate", "paid\n")
    assert reply["text"] == INTERRUPTED.format(name="delegate")
    assert read(tmp_path) == "paid\n"


async def test_a_call_that_had_not_begun_runs_after_an_orderly_stop(tmp_path: Path) -> None:
    """Those before it in the same reply have results; `shutdown_timeout` cuts the turn short."""
    (tmp_path / FILES / "hang").touch()
    settings = {"shutdown_timeout": 0}
    async with OpenAIServer(script) as endpoint:
        async with talking(tmp_path, endpoint, settings) as bot:
            await bot.tell("look pay", chat="main", id="q")
            await written(tmp_path, "looked\npaid\n")
            bot.process.terminate()
            await bot.gone()
        (tmp_path / FILES / "hang").unlink()
        async with talking(tmp_path, endpoint) as bot:
            text = (await bot.reply_to("q"))["text"]
    assert set(text.split(" | ")) == {"looked", INTERRUPTED.format(name="pay")}
    assert read(tmp_path) == "looked\npaid\nlooked\n"


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
    assert read(tmp_path) == "paid\npaid\n"
