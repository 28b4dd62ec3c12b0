"""A gateway or a worker was killed or stopped: another one takes over."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cluster.cluster_processes import (
    HASTY,
    Processes,
    cluster_of,
    read,
    send_signal,
    until_owned_by,
    until_shared,
)
from tests.docs.test_features import set_up, until_written
from tests.fakes.openai_server import Call, OpenAIServer, Received, Say
from tests.fakes.payments import Echo
from tests.fakes.telegram_server import TOKEN, TelegramServer
from tests.waiting import PATIENCE, until
from tests.whole.process import BotProcess

SERVING = "channel.letters"


async def test_when_the_gateway_of_a_messenger_is_killed_another_goes_on_where_it_was(
    tmp_path: Path, servers: Mapping[str, Any], postgresql: str
) -> None:
    told = set_up(tmp_path)
    questions, answers = tmp_path / "letters/questions.txt", tmp_path / "letters/answers.txt"
    questions.touch()

    def writes(line: str) -> None:
        with questions.open("a") as file:
            file.write(f"{line}\n")

    async with (
        Echo(0.3) as endpoint,
        cluster_of(tmp_path, endpoint, {**servers, **told}, workers=1) as processes,
    ):
        gateways = [await processes.start("--role", "gateway", "--serve") for _ in range(2)]
        await until_shared(postgresql, 1)
        active = await until_owned_by(postgresql, SERVING, *gateways)
        writes("one")
        await until_written(answers, "re: one")
        writes("two")
        await asyncio.wait_for(endpoint.reached.acquire(), PATIENCE)
        await asyncio.wait_for(endpoint.reached.acquire(), PATIENCE)
        await active.kill()
        writes("three")
        (other,) = [gateway for gateway in gateways if gateway is not active]
        assert await until_owned_by(postgresql, SERVING, other) is other
        text = await until_written(answers, "re: three")
    told_of = re.findall(r"re: (\w+)", text)
    assert list(dict.fromkeys(told_of)) == ["one", "two", "three"], "in order, none lost"
    assert told_of.count("one") == told_of.count("three") == 1
    asked = read(postgresql, "SELECT text FROM message WHERE role = 'user' ORDER BY id")
    assert [text for (text,) in asked] == ["one", "two", "three"]


POLLING = "channel.telegram"


async def start(processes: Processes, count: int) -> list[BotProcess]:
    environ = {"TELEGRAM_BOT_TOKEN": TOKEN}
    await processes.start("--role", "worker", environ=environ)
    return [await start_gateway(processes) for _ in range(count)]


async def start_gateway(processes: Processes) -> BotProcess:
    environ = {"TELEGRAM_BOT_TOKEN": TOKEN}
    return await processes.start("--role", "gateway", "--telegram", environ=environ)


async def test_when_the_gateway_that_polls_is_killed_another_goes_on_and_nothing_is_lost_or_twice(
    tmp_path: Path, servers: Mapping[str, Any], postgresql: str
) -> None:
    async with TelegramServer() as telegram, Echo(0.3) as endpoint:
        here = {"base_url": telegram.base_url}
        settings = {**servers, "owners": ["telegram/42"], "telegram": here}
        ann = telegram.person("Ann", 42)
        async with cluster_of(tmp_path, endpoint, settings, workers=0) as processes:
            gateways = await start(processes, 2)
            await until_shared(postgresql, 1)
            active = await until_owned_by(postgresql, POLLING, *gateways)
            ann.says("one")
            await telegram.shown("re: one")
            reached = asyncio.create_task(_reach(endpoint, 2))
            ann.says("two")
            ann.says("three")
            await reached
            await active.kill()
            ann.says("four")
            (other,) = [gateway for gateway in gateways if gateway is not active]
            assert await until_owned_by(postgresql, POLLING, other) is other
            for word in ("two", "three", "four"):
                await telegram.shown(f"re: {word}")
            shown = Counter(sent.text for sent in telegram.messages.values())
            assert {text: shown[text] for text in shown if text.startswith("re: ")} == {
                f"re: {word}": 1 for word in ("one", "two", "three", "four")
            }
            order = [sent.text for sent in telegram.messages.values() if sent.text in shown]
            words = [text.removeprefix("re: ") for text in order if text.startswith("re: ")]
            assert words == ["one", "two", "three", "four"]
        asked = read(postgresql, "SELECT text FROM message WHERE role = 'user' ORDER BY id")
        assert [text for (text,) in asked] == ["one", "two", "three", "four"]


async def _reach(endpoint: Echo, count: int) -> None:
    for _ in range(count):
        await endpoint.reached.acquire()


STOPS = """
import os, signal, threading
sync = os.fsync
def stop(file):
    sync(file)
    name = os.readlink(f'/proc/self/fd/{file}')
    if '/files/' in name and name.endswith('.draft'):
        # Sent to this thread, so that it does not get any further.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
os.fsync = stop
"""
"""A worker that is stopped when a file written by a tool is ready to replace the other."""


STOPS_AT_ITS_MEMORY = """
import os, signal, threading
from memory.record import daily
look = daily._is_written
def stop(data, section):
    found = look(data, section)
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    return found
daily._is_written = stop
"""
"""A worker that is stopped when it is about to append to the daily memory."""


def answer(request: Received) -> Say:
    """A model that repeats the result of writing the file; an interrupted call is made again."""
    results = [one["content"] for one in request.body["messages"] if one["role"] == "tool"]
    if results and "Wrote" in results[-1]:
        return Say(f"It is number {len(results)}.")
    content = f"number {len(results) + 1}"
    arguments = json.dumps({"path": "files/notes.txt", "content": content})
    return Say(calls=(Call("write_file", arguments, f"c{len(results)}"),))


def is_stopped(process: BotProcess) -> bool:
    stat = Path(f"/proc/{process.process.pid}/stat")
    return stat.read_text().rpartition(")")[2].split()[0] == "T"


async def until_stopped(process: BotProcess) -> None:
    await until(lambda: is_stopped(process))


async def test_a_zombie_does_not_overwrite_the_file_that_its_successor_wrote(
    tmp_path: Path, servers: Mapping[str, Any], postgresql: str
) -> None:
    async with (
        OpenAIServer(answer) as endpoint,
        cluster_of(tmp_path, endpoint, servers, workers=0) as processes,
    ):
        zombie = await processes.start("--role", "worker", change=HASTY + STOPS)
        await until_shared(postgresql, 1)
        gateway = await processes.add_gateway()
        await gateway.tell("Write it down", id="m1")
        await until_stopped(zombie)
        await processes.add_worker()
        assert (await gateway.reply_to("m1"))["text"] == "It is number 2."
        (file,) = (tmp_path / "data").rglob("files/notes.txt")
        assert file.read_text() == "number 2"

        send_signal(zombie, signal.SIGCONT)
        await until(lambda: "begins anew" in zombie.errors)
        await until(lambda: os.listdir(file.parent) == ["notes.txt"])  # the draft is deleted
        assert file.read_text() == "number 2"
        assert "Traceback" not in zombie.errors


def repeat(request: Received) -> Say:
    messages = request.body["messages"]
    if str(messages[0]["content"]).startswith("Summarise"):
        return Say("They counted.")
    return Say(f"re: {messages[-1]['content']}")


async def test_a_zombie_does_not_tell_the_daily_memory_what_its_successor_has_told_it(
    tmp_path: Path, servers: Mapping[str, Any], postgresql: str
) -> None:
    settings = {**servers, "agent_max_context_turns": 4}
    async with (
        OpenAIServer(repeat) as endpoint,
        cluster_of(tmp_path, endpoint, settings, workers=0) as processes,
    ):
        zombie = await processes.start("--role", "worker", change=HASTY + STOPS_AT_ITS_MEMORY)
        await until_shared(postgresql, 1)
        gateway = await processes.add_gateway()
        stopping = asyncio.create_task(until_stopped(zombie))
        for number in range(6):
            await gateway.tell(f"{number}", id=f"m{number}")
        await stopping
        await processes.add_worker()
        for number in range(6):
            assert (await gateway.reply_to(f"m{number}"))["text"] == f"re: {number}"
        memory = tmp_path / "data" / "audiences" / "pipe-main" / "memory"
        await until(lambda: any(day.read_text() for day in memory.glob("*.md")))
        (file,) = memory.glob("*.md")
        before = file.read_text()
        assert before.count("They counted.") == 1

        send_signal(zombie, signal.SIGCONT)
        await until(lambda: "begins anew" in zombie.errors)
        assert file.read_text() == before
        assert "Traceback" not in zombie.errors
