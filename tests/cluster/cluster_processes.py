"""A cluster of real processes: `python main.py --role …`, on one data folder and one broker."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from plugins.cluster import wire
from tests.fakes.openai_server import OpenAIServer
from tests.waiting import PATIENCE, until
from tests.whole.forks import RUN_MAIN
from tests.whole.process import BotProcess, talking

SLICES = 8
_CHANGED = f"""
from plugins.cluster import rabbit, wire
wire.SLICES = {SLICES}
rabbit.ATTEMPTS = 12
"""
"""The code that gives a process few slices, each of which is a queue on the broker's disk."""

HASTY = """
from plugins.cluster import rabbit, worker
rabbit.HEARTBEAT = 3
worker.DATABASE_TIMEOUT = 8.0
"""
"""A change of a worker: it counts as dead sooner, and releases its slices sooner, than others."""

PATIENT = f"""
from plugins.cluster import gateway
gateway.PATIENCE = {PATIENCE}
"""
"""A change of a gateway: it waits longer for an owner, as servers may start slowly."""


@dataclass
class Processes:
    """The running processes; `gateway` has the pipe."""

    folder: Path
    endpoint: OpenAIServer
    settings: Mapping[str, Any]
    stack: AsyncExitStack
    workers: list[BotProcess] = field(default_factory=list)

    async def add_worker(self) -> BotProcess:
        worker = await self.start("--role", "worker")
        self.workers.append(worker)
        return worker

    async def add_gateway(self, change: str = "") -> BotProcess:
        return await self.start("--role", "gateway", "--jsonl", change=change)

    async def start(self, *arguments: str, change: str = "", **others: Any) -> BotProcess:
        """Return a process that executes `change` before the bot begins; `others` are further
        arguments of `talking`."""
        told = {"arguments": arguments, "program": _CHANGED + change + RUN_MAIN, **others}
        starting = talking(self.folder, self.endpoint, self.settings, **told)
        return await self.stack.enter_async_context(starting)


def send_signal(process: BotProcess, number: signal.Signals) -> None:
    os.kill(process.process.pid, number)


@asynccontextmanager
async def cluster_of(
    folder: Path,
    endpoint: OpenAIServer,
    settings: Mapping[str, Any],
    workers: int,
) -> AsyncIterator[Processes]:
    """Start this many workers."""
    async with AsyncExitStack() as stack:
        processes = Processes(folder, endpoint, settings, stack)
        for _ in range(workers):
            await processes.add_worker()
        yield processes


def answered(chats: Mapping[str, int], *gateways: BotProcess) -> dict[str, list[str]]:
    """Return the replies in each chat in order, those marked as resent once."""
    found: dict[str, list[str]] = {chat: [] for chat in chats}
    for line in (line for gateway in gateways for line in gateway.replies):
        text = line["text"]
        if not (line.get("resent") and text in found[line["chat"]]):
            found[line["chat"]].append(text)
    return found


async def says_all(gateway: BotProcess, chats: Mapping[str, int]) -> None:
    """Send this many messages in each chat: 0, 1, 2, …"""
    for number in range(max(chats.values())):
        for chat, count in chats.items():
            if number < count:
                await gateway.tell(f"{number}", chat=chat, id=f"{chat}-{number}")
        await asyncio.sleep(0)


def slice_of(chat: str) -> str:
    """Return the name of the slice of a chat on the pipe, in a cluster with few SLICES."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "SLICES", SLICES)
        return wire.name_of_slice(wire.slice_of(f"pipe/{chat}"))


async def until_owned_by(url: str, name: str, *processes: BotProcess) -> BotProcess:
    """Wait for the first of these processes to own this, and return it."""
    query = f"SELECT process FROM owner WHERE name = '{name}'"

    async def find() -> BotProcess | None:
        names = [row[0] for row in await asyncio.to_thread(read, url, query)]
        owning = (p for p in processes if any(f"-{p.process.pid}-" in one for one in names))
        return next(owning, None)

    owner = await until(find)
    assert owner is not None
    return owner


def read(url: str, query: str) -> list[tuple[Any, ...]]:
    """Return the result of a query on the record."""
    with psycopg.connect(url) as connection:
        return connection.execute(query.encode()).fetchall()


async def until_shared(url: str, workers: int) -> dict[str, int]:
    """Wait until this many workers have even shares of the slices; return the process id of each
    owner."""
    query = "SELECT name, process FROM owner WHERE name LIKE 'slice.%' AND process != ''"

    async def find() -> dict[str, int] | None:
        rows = await asyncio.to_thread(read, url, query)
        owners = {name: int(process.split("-")[-2]) for name, process in rows}
        shares = Counter(owners.values())
        is_even = len(shares) == workers and max(shares.values()) - min(shares.values()) <= 1
        return owners if len(owners) == SLICES and is_even else None

    owners = await until(find)
    assert owners is not None
    return owners
