"""A cluster of real processes: `python main.py --role …`, on one data folder and one broker."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

from bot.cluster.slices import SLICES
from tests.fakes.openai_server import OpenAIServer
from tests.whole.process import MAIN, PATIENCE, BotProcess, talking


@dataclass
class Processes:
    """What runs; `gateway` has the pipe."""

    folder: Path
    endpoint: OpenAIServer
    settings: Mapping[str, Any]
    stack: AsyncExitStack
    workers: list[BotProcess] = field(default_factory=list)

    async def add_worker(self) -> BotProcess:
        worker = await self.start("--role", "worker")
        self.workers.append(worker)
        return worker

    async def add_gateway(self) -> BotProcess:
        return await self.start("--role", "gateway", "--jsonl")

    async def start(self, *arguments: str, **others: Any) -> BotProcess:
        """A process; `others` are what `talking` is told of it besides."""
        starting = talking(self.folder, self.endpoint, self.settings, arguments=arguments, **others)
        return await self.stack.enter_async_context(starting)

    async def start_changed(self, program: str, *arguments: str, **others: Any) -> BotProcess:
        """A process in which this is carried out before the bot begins."""
        file = self.folder / f"changed-{uuid4().hex}.py"
        file.write_text(f"{program}\nimport sys, main\nsys.exit(main.main())\n")
        path = f"PYTHONPATH={MAIN.parent}"
        shell = f'python=$1; shift 2; {path} exec "$python" {file} "$@"'
        return await self.start(*arguments, shell=shell, **others)


def send_signal(process: BotProcess, number: signal.Signals) -> None:
    os.kill(process.process.pid, number)


@asynccontextmanager
async def cluster_of(
    folder: Path,
    endpoint: OpenAIServer,
    settings: Mapping[str, Any],
    workers: int,
) -> AsyncIterator[Processes]:
    """So many workers, which are on their way up."""
    async with AsyncExitStack() as stack:
        processes = Processes(folder, endpoint, settings, stack)
        for _ in range(workers):
            await processes.add_worker()
        yield processes


def answered(gateway: BotProcess, chats: Mapping[str, int]) -> dict[str, list[str]]:
    """The replies in each chat, in the order in which they came, those marked as resent once."""
    found: dict[str, list[str]] = {chat: [] for chat in chats}
    for line in gateway.replies:
        text = line["text"]
        if not (line.get("resent") and text in found[line["chat"]]):
            found[line["chat"]].append(text)
    return found


async def says_all(gateway: BotProcess, chats: Mapping[str, int]) -> None:
    """So many messages in each chat: 0, 1, 2, …"""
    for number in range(max(chats.values())):
        for chat, count in chats.items():
            if number < count:
                await gateway.tell(f"{number}", chat=chat, id=f"{chat}-{number}")
        await asyncio.sleep(0)


def dump(lines: list[Any]) -> str:
    return "\n".join(json.dumps(line) for line in lines)


def read(url: str, query: str) -> list[tuple[Any, ...]]:
    """What a query finds in the record."""
    with psycopg.connect(url) as connection:
        return connection.execute(query.encode()).fetchall()


async def until_joined(url: str, count: int) -> None:
    """Until so many processes stand in the record."""
    async with asyncio.timeout(PATIENCE):
        while len(await asyncio.to_thread(read, url, "SELECT id FROM process")) < count:
            pass  # what happens in other processes tells nobody


async def until_shared(url: str, workers: int) -> dict[str, int]:
    """Until so many workers have even shares of the slices; the process id of each one's owner."""
    query = "SELECT name, process FROM owner WHERE name LIKE 'slice.%' AND process != ''"
    async with asyncio.timeout(PATIENCE):
        while True:
            rows = await asyncio.to_thread(read, url, query)
            owners = {name: int(process.split("-")[-2]) for name, process in rows}
            shares = Counter(owners.values())
            is_even = len(shares) == workers and max(shares.values()) - min(shares.values()) <= 1
            if len(owners) == SLICES and is_even:
                return owners
