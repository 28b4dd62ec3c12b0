"""A cluster of real processes under load: what is lost when they are killed, and what it costs.

    python -m benchmarks.cluster                      figures and 100 kills, on SQLite
    python -m benchmarks.cluster --kills 1000 --database postgresql
    python -m benchmarks.cluster --short              as CI runs it

A gateway with the pipe, workers, and an endpoint that takes a while for each answer. Every chat
says two messages, and the next two when it has heard the answers. Meanwhile workers and the
gateway are killed (kill -9) at random moments and started again; a message that was not confirmed
is said again with the same id, as platforms do. Then what was said is compared with what came back.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from bot.cluster.slices import slice_of
from memory.record import cluster
from memory.record.engines import engine_for
from memory.record.store import Store
from tests.cluster.rabbitmq_server import RabbitMQServer
from tests.fakes import openai_server
from tests.fakes.openai_server import OpenAIServer, Received, Say
from tests.servers.postgresql import PostgresqlServer, find_binaries
from tests.whole.process import BotProcess, Json, talking

TICK = os.sysconf("SC_CLK_TCK")
STOPPED = 14.0
"""Seconds for which a process stands still: more than the broker's heartbeats."""


class Model(OpenAIServer):
    """Answers each message with itself, after a while."""

    def __init__(self, pause: float) -> None:
        super().__init__()
        self.pause = pause
        self.at_once = self.most_at_once = 0

    async def _respond(self, request: web.Request, received: Received) -> web.StreamResponse:
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            await asyncio.sleep(self.pause)
        finally:
            self.at_once -= 1
        text = received.body["messages"][-1]["content"]
        self.requests.clear()  # which a test would look at
        return await openai_server._act(request, received, Say(f"re: {text}"), (1, 0))


@dataclass
class Bench:
    """The processes, and what was heard of them."""

    folder: Path
    place: Path | str
    model: Model
    stack: AsyncExitStack
    settings: Json
    workers: list[BotProcess] = field(default_factory=list)
    gateway: BotProcess | None = None
    gateways: list[BotProcess] = field(default_factory=list)

    async def add_worker(self) -> BotProcess:
        worker = await self._start("--role", "worker")
        self.workers.append(worker)
        return worker

    async def set_gateway(self) -> BotProcess:
        self.gateway = await self._start("--role", "gateway", "--jsonl")
        self.gateways.append(self.gateway)
        return self.gateway

    async def _start(self, *arguments: str) -> BotProcess:
        return await self.stack.enter_async_context(
            talking(self.folder, self.model, self.settings, arguments=arguments)
        )

    async def owners(self) -> dict[str, int]:
        """What is owned, by the process's id."""
        store = await Store.open(engine_for(self.place))
        try:
            rows = await store.read(cluster.list_owners)
        finally:
            await store.close()
        return {row.name: int(row.process.split("-")[-2]) for row in rows if row.process}

    async def until_shared(self, workers: int) -> float:
        """Until so many have even shares of the slices; the seconds that it took."""
        started = time.monotonic()
        async with asyncio.timeout(120):
            while True:
                owners = await self.owners()
                shares = Counter(pid for name, pid in owners.items() if name.startswith("slice."))
                alive = {one.process.pid for one in self.workers}
                if (
                    sum(shares.values()) == 64
                    and set(shares) == alive
                    and len(shares) == workers
                    and max(shares.values()) - min(shares.values()) <= 1
                ):
                    return time.monotonic() - started
                await asyncio.sleep(0.1)


class Mail:
    """What came out of the gateways: when each message was confirmed, and its replies."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.accepted: dict[str, float] = {}
        self.replies: dict[str, list[Json]] = {}
        self.order: dict[str, list[int]] = {}
        self.times: dict[str, list[float]] = {}
        self.heard = asyncio.Event()
        self._read = Counter[int]()

    async def follow(self) -> None:
        while True:
            for number, gateway in enumerate(self.bench.gateways):
                lines = gateway.out[self._read[number] :]
                whole = [line for line in lines if line.endswith(b"\n")]
                self._read[number] += len(whole)
                for line in whole:
                    self._take(json.loads(line))
            await asyncio.sleep(0.005)

    def _take(self, line: Json) -> None:
        if "accepted" in line:
            self.accepted.setdefault(line["accepted"], time.monotonic())
        elif "reply_to" in line:
            if line["reply_to"] not in self.replies:
                number = int(line["reply_to"].rpartition("-")[2])
                self.order.setdefault(line["chat"], []).append(number)
                self.times.setdefault(line["chat"], []).append(time.monotonic())
            self.replies.setdefault(line["reply_to"], []).append(line)

    async def ask(self, chat: str, name: str, text: str, *, is_awaited: bool = True) -> None:
        """Say it until it is answered, or confirmed where the answer is not awaited; again over
        each new gateway, unless it was confirmed."""
        gateway = None
        while name not in self.replies and (is_awaited or name not in self.accepted):
            if gateway is not self.bench.gateway and name not in self.accepted:
                gateway = self.bench.gateway
                assert gateway is not None
                await gateway.tell(text, chat=chat, id=name)
            await asyncio.sleep(0.005)


@dataclass
class Chat:
    """Somebody who waits for each answer before they write again; `waiting` is since when."""

    name: str
    said: int = 0
    waiting: float = 0.0
    answered: int = 0

    async def talk(self, mail: Mail, is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            number, self.said = self.said, self.said + 2
            self.waiting = time.monotonic()
            await mail.ask(self.name, f"{self.name}-{number}", str(number), is_awaited=False)
            await mail.ask(self.name, f"{self.name}-{number + 1}", str(number + 1))
            await mail.ask(self.name, f"{self.name}-{number}", str(number))
            self.answered += 2
            self.waiting = 0.0


@dataclass
class Verdict:
    """What was said, compared with what came back."""

    said: int = 0
    lost: int = 0
    wrong: int = 0
    twice: int = 0
    marked: int = 0
    out_of_order: int = 0


def judge(chats: list[Chat], mail: Mail) -> Verdict:
    verdict = Verdict()
    for chat in chats:
        heard = mail.order.get(chat.name, [])
        verdict.out_of_order += sum(a > b for a, b in itertools.pairwise(heard))
        for number in range(chat.said):
            replies = mail.replies.get(f"{chat.name}-{number}", [])
            plain = [one for one in replies if not one.get("resent")]
            verdict.said += 1
            verdict.lost += not replies
            verdict.wrong += any(one["text"] != f"re: {number}" for one in replies)
            verdict.twice += len(plain) > 1
            verdict.marked += len(replies) - len(plain)
    return verdict


def busy(process: BotProcess) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{process.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def slice_name(chat: str) -> str:
    return f"slice.{slice_of(f'pipe/{chat}')}"


async def run_kills(bench: Bench, kills: int, stops: int, chance: random.Random, calm: int) -> bool:
    """Kill at random moments; before the first `calm` kills all is shared again."""
    mail = Mail(bench)
    chats = [Chat(f"c{number}") for number in range(24)]
    is_over = asyncio.Event()
    following = asyncio.create_task(mail.follow())
    talking_ = [asyncio.create_task(chat.talk(mail, is_over)) for chat in chats]
    times: list[float] = []
    for number in range(kills):
        if number < calm:
            await bench.until_shared(len(bench.workers))
        await asyncio.sleep(chance.uniform(0.2, 1.5))
        if number >= calm and number % 5 == 4:
            gateway = bench.gateway
            assert gateway is not None
            await gateway.kill()
            await bench.set_gateway()
            continue
        victim = bench.workers.pop(chance.randrange(len(bench.workers)))
        owners = await bench.owners()
        mine = [
            chat
            for chat in chats
            if chat.waiting and owners.get(slice_name(chat.name)) == victim.process.pid
        ]
        if stops and number >= calm and (number - calm) % max(1, (kills - calm) // stops) == 0:
            os.kill(victim.process.pid, signal.SIGSTOP)
            await asyncio.sleep(STOPPED)
            os.kill(victim.process.pid, signal.SIGCONT)
            bench.workers.append(victim)
            continue
        counts = {chat.name: len(mail.times.get(chat.name, [])) for chat in mine}
        died = time.monotonic()
        await victim.kill()
        async with asyncio.timeout(90):
            while number < calm and any(  # noqa: ASYNC110 - other processes tell no event
                len(mail.times.get(one.name, [])) == counts[one.name] for one in mine
            ):
                await asyncio.sleep(0.005)
        if number < calm:
            times += [mail.times[one.name][counts[one.name]] - died for one in mine]
        await bench.add_worker()
    is_over.set()
    async with asyncio.timeout(120):
        await asyncio.gather(*talking_)
    following.cancel()
    verdict = judge(chats, mail)
    print(f"kills {kills}, {stops} times a worker stood still for {STOPPED:g} s: {verdict}")
    if times:
        print(
            f"  from a worker's death to the next answer of its conversations ({len(times)}), with"
            f" {bench.model.pause:g} s of the model: median {statistics.median(times):.2f} s, worst"
            f" {max(times):.2f} s"
        )
    return not (verdict.lost or verdict.wrong or verdict.twice or verdict.out_of_order)


async def run_load(bench: Bench, chats: int, seconds: float) -> None:
    """Messages a second, and what they cost each role."""
    mail = Mail(bench)
    people = [Chat(f"l{len(bench.workers)}x{number}") for number in range(chats)]
    is_over = asyncio.Event()
    following = asyncio.create_task(mail.follow())
    talking_ = [asyncio.create_task(one.talk(mail, is_over)) for one in people]
    gateway = bench.gateway
    assert gateway is not None
    await asyncio.sleep(2)
    before = busy(gateway), sum(map(busy, bench.workers)), sum(one.answered for one in people)
    await asyncio.sleep(seconds)
    after = busy(gateway), sum(map(busy, bench.workers)), sum(one.answered for one in people)
    is_over.set()
    await asyncio.gather(*talking_)
    following.cancel()
    count = max(1, after[2] - before[2])
    print(
        f"{len(bench.workers)} workers, {chats} chats, {bench.model.pause:g} s of the model: "
        f"{count / seconds:.1f} messages/s; CPU a message: gateway "
        f"{1000 * (after[0] - before[0]) / count:.1f} ms, worker "
        f"{1000 * (after[1] - before[1]) / count:.1f} ms; most turns at once "
        f"{bench.model.most_at_once}"
    )


@asynccontextmanager
async def benching(database: str, pause: float, workers: int) -> AsyncIterator[Bench]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parley-cluster-")))
        os.chmod(folder, 0o755)  # a server that is not root's looks into it
        broker = stack.enter_context(RabbitMQServer(folder / "rabbitmq"))
        settings: Json = {"broker": "{{secret.BROKER_URL}}", "messages_per_minute": 0}
        os.environ["BROKER_URL"] = broker.url
        place: Path | str = folder / "data" / "parley.db"
        if database == "postgresql":
            place = _start_postgresql(folder / "postgresql", stack)
            os.environ["DATABASE_URL"] = place
            settings["database"] = "{{secret.DATABASE_URL}}"
        model = await stack.enter_async_context(Model(pause))
        bench = Bench(folder, place, model, stack, settings)
        for _ in range(workers):
            await bench.add_worker()
        await bench.set_gateway()
        print(f"{workers} workers are up after {await bench.until_shared(workers):.1f} s")
        yield bench


def _start_postgresql(folder: Path, stack: AsyncExitStack) -> str:
    binaries = find_binaries()
    assert binaries is not None, "PostgreSQL is not installed"
    folder.mkdir()
    server = PostgresqlServer(folder, binaries, settings=("max_connections=200",))
    server.initialize()
    server.start()
    stack.callback(server.stop)
    return server.make_database("template1")


async def measure(options: argparse.Namespace) -> bool:
    is_good = True
    chance = random.Random(options.seed)
    async with benching(options.database, 0.2, 3) as bench:
        is_good = await run_kills(bench, options.kills, options.stops, chance, options.calm)
    if options.short:
        return is_good
    for workers in (1, 2, 4):
        async with benching(options.database, 0.0, workers) as bench:
            await run_load(bench, 40, 10)
            idle = busy(bench.workers[0])
            await asyncio.sleep(10)
            print(f"  an idle worker: {100 * (busy(bench.workers[0]) - idle) / 10:.1f}% of a core")
            started = time.monotonic()
            await bench.add_worker()
            await bench.until_shared(workers + 1)
            print(f"  one more worker has its share after {time.monotonic() - started:.1f} s")
    async with benching(options.database, 30.0, 2) as bench:
        await run_load(bench, options.turns, 60)
    return is_good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--stops", type=int, default=2, help="of them, how often one stands still")
    parser.add_argument("--calm", type=int, default=10, help="of them, how many are measured")
    parser.add_argument("--turns", type=int, default=500, help="turns in flight")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--short", action="store_true", help="the kills alone")
    return 0 if asyncio.run(measure(parser.parse_args())) else 1


if __name__ == "__main__":
    sys.exit(main())
