"""A cluster of real processes under load: the losses when processes are killed, and its cost.

    python -m benchmarks.cluster                      figures and 100 kills, on SQLite
    python -m benchmarks.cluster --kills 1000 --database postgresql
    python -m benchmarks.cluster --short              the kills alone, as CI runs it
    python -m benchmarks.cluster --short --kills 0 --cuts 100 --database postgresql
    python -m benchmarks.cluster --kills 0 --workers --slow-workers 1 2 4 --turns 2000

The cluster has a gateway with the pipe, workers, and an endpoint that takes a while for each
answer. Every chat sends two messages (one where the model is slow), and the next ones after it has
received the answers. Meanwhile workers and the gateway are killed (kill -9) at random moments and
restarted. A message that was not confirmed is sent again with the same id, as platforms do. Each
message is paid for by a tool that must not run twice. Then the messages are compared with the
replies and with the payments.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import re
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bot.turns import PUT_ASIDE
from memory.record import mailbox
from memory.record.engines import engine_for
from memory.record.store import Store
from memory.tasks import cancel_and_wait
from plugins.cluster import record
from plugins.cluster.rabbit import UNANSWERED
from plugins.cluster.wire import slice_of
from tests.cluster.rabbitmq_server import RabbitMQServer
from tests.fakes import payments
from tests.fakes.payments import Echo, PayingModel
from tests.servers.link import Link
from tests.servers.postgresql import PostgresqlServer, find_binaries
from tests.whole.process import AFRESH, BotProcess, Json, talking

TICK = os.sysconf("SC_CLK_TCK")
LAST = 120.0
"""Seconds to wait for the last answers."""
STOPPED = 14.0
"""Seconds for which a process is stopped: longer than the broker's heartbeats."""


SWALLOWED = 16.0
"""Maximum seconds for which a link passes no data: longer than the broker's heartbeats."""


@dataclass
class Bench:
    """The processes and their output. Workers reach each of `servers` (a socket or a port, as in
    `Link`) over a link that may be cut; a link has the name of the variable of its address."""

    folder: Path
    place: Path | str
    model: PayingModel
    stack: AsyncExitStack
    settings: Json
    servers: Mapping[str, str | int] = field(default_factory=dict)
    links: dict[BotProcess, dict[str, Link]] = field(default_factory=dict)
    workers: list[BotProcess] = field(default_factory=list)
    gateway: BotProcess | None = None
    gateways: list[BotProcess] = field(default_factory=list)

    async def add_worker(self) -> BotProcess:
        links = {
            name: await self.stack.enter_async_context(Link(target))
            for name, target in self.servers.items()
        }
        environ = {
            name: re.sub(r"@[^/]*/([^?]*).*", rf"@127.0.0.1:{link.port}/\1", os.environ[name])
            for name, link in links.items()
        }
        worker = await self._start("--role", "worker", environ=environ)
        self.workers.append(worker)
        self.links[worker] = links
        return worker

    async def set_gateway(self) -> BotProcess:
        self.gateway = await self._start("--role", "gateway", "--jsonl")
        self.gateways.append(self.gateway)
        return self.gateway

    async def _start(self, *arguments: str, environ: Mapping[str, str] | None = None) -> BotProcess:
        where = (self.folder, self.model, self.settings)
        starting = talking(*where, arguments=arguments, environ=environ, shell=AFRESH)
        return await self.stack.enter_async_context(starting)

    async def owners(self) -> dict[str, int]:
        """Return the owned resources, by process id."""
        store = await Store.open(engine_for(self.place))
        try:
            rows = await store.read(record.list_owners)
        finally:
            await store.close()
        return {row.name: int(row.process.split("-")[-2]) for row in rows if row.process}

    async def describe(self, missing: Mapping[str, str]) -> list[str]:
        """Describe, from the record, the messages without an answer, by their ids, with the chat of
        each."""
        store = await Store.open(engine_for(self.place))
        try:
            unanswered = {row.platform_id: row for row in await store.read(mailbox.list_inbox)}
            unsent = {row.reply_to: row for row in await store.read(mailbox.list_outbox)}
            owners = {row.name: row.process for row in await store.read(record.list_owners)}
        finally:
            await store.close()
        lines = []
        for name, chat in missing.items():
            identity = json.dumps(name)  # as the pipe stores it
            known = unanswered.get(identity) or unsent.get(identity)
            owner = owners.get(slice_name(chat)) or "nobody"
            lines.append(f"{name}: {known or 'nothing waits of it'}; its owner is {owner}")
        return lines

    async def until_shared(self, workers: int) -> float:
        """Wait until that many workers have even shares of the slices; return the seconds it
        took."""
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
    """The output of the gateways: when each message was confirmed, and its replies."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.accepted: dict[str, float] = {}
        self.replies: dict[str, list[Json]] = {}
        self.order: dict[str, list[int]] = {}
        self.times: dict[str, list[float]] = {}
        self._news: dict[str, asyncio.Event] = {}
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
        name = line.get("accepted") or line.get("reply_to")
        if name in self._news:
            self._news[name].set()
        if "accepted" in line:
            self.accepted.setdefault(line["accepted"], time.monotonic())
        elif "reply_to" in line:
            if line["reply_to"] not in self.replies:
                number = int(line["reply_to"].rpartition("-")[2])
                self.order.setdefault(line["chat"], []).append(number)
                self.times.setdefault(line["chat"], []).append(time.monotonic())
            self.replies.setdefault(line["reply_to"], []).append(line)

    async def ask(self, chat: str, name: str, *, is_awaited: bool = True) -> None:
        """Send a message whose text is also its id, and wait for the answer, or for the
        confirmation if `is_awaited` is false. The message is sent again over each new gateway until
        it is confirmed."""
        gateway = None
        while name not in self.replies and (is_awaited or name not in self.accepted):
            if gateway is not self.bench.gateway and name not in self.accepted:
                gateway = self.bench.gateway
                assert gateway is not None
                await gateway.tell(name, chat=chat, id=name)
            news = self._news.setdefault(name, asyncio.Event())
            news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(0.5):  # another gateway may be running by then
                    await news.wait()


@dataclass
class Chat:
    """A person who sends `each_time` messages and waits for the answers before sending more;
    `waiting` is the time at which the wait began."""

    name: str
    each_time: int = 2
    said: int = 0
    waiting: float = 0.0
    answered: int = 0

    async def talk(self, mail: Mail, is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            number, self.said = self.said, self.said + self.each_time
            *before, last = (f"{self.name}-{one}" for one in range(number, self.said))
            self.waiting = time.monotonic()
            for name in before:
                await mail.ask(self.name, name, is_awaited=False)
            for name in (last, *before):
                await mail.ask(self.name, name)
            self.answered += self.each_time
            self.waiting = 0.0


@dataclass
class Verdict:
    """The comparison of the messages sent with the replies received."""

    said: int = 0
    lost: int = 0
    wrong: int = 0
    twice: int = 0
    marked: int = 0
    late: int = 0  # the user was asked to check the outcome, and may have got an answer later
    out_of_order: int = 0
    paid_twice: int = 0
    put_aside: int = 0  # killed three times in a row; random kills can do that

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.wrong or self.twice or self.out_of_order or self.paid_twice)


def judge(chats: list[Chat], mail: Mail, kills: int) -> Verdict:
    paid = Counter(payments.made(mail.bench.folder))
    verdict = Verdict(paid_twice=sum(count > 1 for count in paid.values()))
    for chat in chats:
        order = mail.order.get(chat.name, [])
        verdict.out_of_order += sum(a > b for a, b in itertools.pairwise(order))
        for number in range(chat.said):
            heard = mail.replies.get(f"{chat.name}-{number}", [])
            replies = [one for one in heard if one["text"] != UNANSWERED]
            plain = [one for one in replies if not one.get("resent")]
            aside = [one for one in replies if one["text"] == f"({PUT_ASIDE})"]
            wrong = [one for one in replies if one["text"] != f"re: {chat.name}-{number}"]
            wrong = [one for one in wrong if one not in aside]
            verdict.put_aside += bool(aside)
            verdict.said += 1
            verdict.lost += not heard
            if len(replies) < len(heard):
                verdict.late += 1
                print(f"  late, as was said: {chat.name}-{number}")
            verdict.wrong += bool(wrong)
            verdict.twice += len(plain) > 1
            verdict.marked += len(replies) - len(plain)
            for one in wrong:
                print(f"  wrong: {one}")
    verdict.wrong += max(0, verdict.put_aside - kills // 20)  # more than this is not by chance
    return verdict


def busy(process: BotProcess) -> float:
    """Return the seconds of CPU that a process has used."""
    fields = Path(f"/proc/{process.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def slice_name(chat: str) -> str:
    return f"slice.{slice_of(f'pipe/{chat}')}"


async def run_faults(bench: Bench, options: argparse.Namespace) -> bool:
    """Kill processes at random moments, and cut links; all slices are shared again before each of
    the first `calm` kills."""
    kills, stops, cuts, calm = options.kills, options.stops, options.cuts, options.calm
    chance = random.Random(options.seed)
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
        if number < calm:
            times += await _time_next(bench, mail, mine, counts, died)
        await bench.add_worker()
    done = await run_cuts(bench, cuts, chance)
    is_over.set()
    _, left = await asyncio.wait(talking_, timeout=LAST)
    if left:
        await _say_what_is_missing(bench, chats, mail)
    await cancel_and_wait(*left, following)
    verdict = judge(chats, mail, kills)
    print(f"kills {kills}, {stops} times a worker stood still for {STOPPED:g} s: {verdict}")
    if cuts:
        how_often = ", ".join(f"{count} times {name}" for name, count in sorted(done.items()))
        print(f"  links between a worker and a server: {how_often}")
    if times:
        print(
            f"  from a worker's death to the next answer of its conversations ({len(times)}), with"
            f" two steps of {bench.model.pause:g} s of the model: median"
            f" {statistics.median(times):.2f} s, worst {max(times):.2f} s"
        )
    return verdict.is_good


async def _time_next(
    bench: Bench, mail: Mail, waiting: list[Chat], counts: Mapping[str, int], died: float
) -> list[float]:
    """Return the seconds from a worker's death to the next answer in each of these chats."""

    def is_silent(chat: Chat) -> bool:
        return len(mail.times.get(chat.name, [])) == counts[chat.name]

    try:
        async with asyncio.timeout(LAST):
            while any(map(is_silent, waiting)):  # noqa: ASYNC110 - other processes tell no event
                await asyncio.sleep(0.005)
    except TimeoutError:
        await _say_what_is_missing(bench, [chat for chat in waiting if is_silent(chat)], mail)
    return [mail.times[c.name][counts[c.name]] - died for c in waiting if not is_silent(c)]


async def _say_what_is_missing(bench: Bench, chats: list[Chat], mail: Mail) -> None:
    said = {f"{chat.name}-{number}": chat.name for chat in chats for number in range(chat.said)}
    missing = {name: chat for name, chat in said.items() if name not in mail.replies}
    for line in await bench.describe(missing):
        confirmed = "confirmed" if line.partition(":")[0] in mail.accepted else "not confirmed"
        print(f"  missing after {LAST:g} s, {confirmed}: {line}")


async def run_cuts(bench: Bench, cuts: int, chance: random.Random) -> Counter[str]:
    """Cut links between workers and servers at random moments; count them by server and kind."""
    done = Counter[str]()
    for number in range(cuts):
        await asyncio.sleep(chance.uniform(0.2, 1.5))
        links = bench.links[chance.choice(bench.workers)]
        name = chance.choice(sorted(links))
        server = name.partition("_")[0].lower()
        if number % 4:
            links[name].reset()
            done[f"the {server}'s reset"] += 1
        else:
            links[name].swallow()
            await asyncio.sleep(chance.uniform(1, SWALLOWED))
            links[name].mend()
            done[f"the {server}'s swallowed all"] += 1
    return done


async def run_load(bench: Bench, chats: int, seconds: float, each_time: int = 2) -> None:
    """Measure messages a second, and their cost for each role."""
    mail = Mail(bench)
    people = [Chat(f"l{len(bench.workers)}x{number}", each_time) for number in range(chats)]
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
async def benching(
    database: str, model: PayingModel, workers: int, is_linked: bool = False
) -> AsyncIterator[Bench]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parley-cluster-")))
        os.chmod(folder, 0o755)  # a server that does not run as root needs access
        broker = stack.enter_context(RabbitMQServer(folder / "rabbitmq"))
        settings: Json = {"broker": "{{secret.BROKER_URL}}", "messages_per_minute": 0}
        os.environ["BROKER_URL"] = broker.url
        targets: dict[str, str | int] = {"BROKER_URL": broker.port}
        payments.install(folder)
        place: Path | str = folder / "data" / "parley.db"
        if database == "postgresql":
            place = _start_postgresql(folder / "postgresql", stack)
            os.environ["DATABASE_URL"] = place
            settings["database"] = "{{secret.DATABASE_URL}}"
            targets["DATABASE_URL"] = f"{folder}/postgresql/.s.PGSQL.5432"
        await stack.enter_async_context(model)
        bench = Bench(folder, place, model, stack, settings, targets if is_linked else {})
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
    if options.kills or options.cuts:
        async with benching(options.database, PayingModel(0.1), 3, options.cuts > 0) as bench:
            is_good = await run_faults(bench, options)
    if options.short:
        return is_good
    for workers in options.workers:
        async with benching(options.database, Echo(0.0), workers) as bench:
            await run_load(bench, 40, 10)
            idle = busy(bench.workers[0])
            await asyncio.sleep(10)
            print(f"  an idle worker: {100 * (busy(bench.workers[0]) - idle) / 10:.1f}% of a core")
            started = time.monotonic()
            await bench.add_worker()
            await bench.until_shared(workers + 1)
            print(f"  one more worker has its share after {time.monotonic() - started:.1f} s")
    for workers in options.slow_workers:
        async with benching(options.database, Echo(30.0), workers) as bench:
            await run_load(bench, options.turns, options.seconds, each_time=1)
    return is_good


async def measure_until_told(options: argparse.Namespace) -> bool:
    """Measure until done, or until SIGTERM or Ctrl-C, which also end all started processes."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: task.cancelling() or task.cancel())
    try:
        return await measure(options)
    except asyncio.CancelledError:
        print("It was ended before it was through.")
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--stops", type=int, default=2, help="of them, how often one stands still")
    parser.add_argument("--calm", type=int, default=10, help="of them, how many are measured")
    parser.add_argument("--cuts", type=int, default=0, help="cuts of a worker's link to a server")
    parser.add_argument(
        "--workers", type=int, nargs="*", default=(1, 2, 4), help="how many, with a quick model"
    )
    parser.add_argument(
        "--slow-workers", type=int, nargs="*", default=(2,), help="how many, with one of 30 s"
    )
    parser.add_argument("--turns", type=int, default=500, help="turns in flight, with that one")
    parser.add_argument("--seconds", type=float, default=60, help="for which these are measured")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--short", action="store_true", help="the kills alone")
    return 0 if asyncio.run(measure_until_told(parser.parse_args())) else 1


if __name__ == "__main__":
    sys.exit(main())
