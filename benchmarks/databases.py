"""The cost of a message with its record on PostgreSQL, beside the default in the same run.

python -m benchmarks.databases

The bot runs as in production (`benchmarks/overhead.py`), once with SQLite and once with a
PostgreSQL server on the same machine, which waits for the disk as SQLite does. The two alternate,
so that noise affects both alike. CPU of the server is that of all its processes. Linux only.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.overhead import MODEL, WARM, Setup, crowd, piped, running
from tests.servers.postgresql import PostgresqlServer, running_server

CHATS, EACH = 20, 15
"""Simultaneous chats, and the messages each of them sends."""
ALONE = 60
"""Messages of the single chat that is measured by itself."""
_TICK = 1e3 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class OnServer(Setup):
    """A bot whose record is on a database server."""

    url: str = ""

    @property
    def command(self) -> tuple[str, ...]:
        command = super().command
        written = '{"model": "gpt-4o-mini", "database": "{{secret.DATABASE_URL}}"}'
        (self.folder / "config.json").write_text(written)
        return command

    @property
    def environ(self) -> dict[str, str]:
        return {**super().environ, "DATABASE_URL": self.url}


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a message: CPU of the bot and of the server, alone and among many, in
    milliseconds; the time to its reply; and the answers per second to many chats."""

    alone: float
    latency: float
    server: float
    among: float
    server_among: float
    rate: float


def measure(setup: Setup, server: PostgresqlServer | None) -> Cost:
    with piped(setup) as bot:
        for _ in range(WARM):
            bot.ask("What was that?", "warm")
        bot.ask("/context clear", "warm")
        before = cpu_of_server(server)
        samples = [bot.sample("alone") for _ in range(ALONE)]
        alone = (cpu_of_server(server) - before) / ALONE
        before = cpu_of_server(server)
        many = crowd(bot, CHATS, EACH)
        used = (cpu_of_server(server) - before) / (CHATS * EACH)
    cpu, latency = median(s.cpu for s in samples), median(s.latency for s in samples)
    return Cost(cpu, latency, alone, many.cpu, used, many.rate)


def cpu_of_server(server: PostgresqlServer | None) -> float:
    """Return the CPU milliseconds of a server's processes so far, including ended ones."""
    if server is None or server.process is None:
        return 0.0
    postmaster = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
    total = 0.0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(folder.name) == postmaster:
            total += sum(map(int, fields[11:15]))  # its own, and those of ended children
        elif int(fields[1]) == postmaster:
            total += sum(map(int, fields[11:13]))
    return total * _TICK


@contextmanager
def a_model() -> Iterator[str]:
    with running(MODEL) as model:
        assert model.stdout is not None
        yield model.stdout.readline().decode().strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    found: dict[str, list[Cost]] = {"SQLite": [], "PostgreSQL": []}
    with running_server(("shared_buffers=128MB",)) as server, a_model() as model:
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
                found["SQLite"].append(measure(Setup(Path(one), model), None))
                url = server.make_database("template1")
                setup = OnServer(Path(two), model, url)
                found["PostgreSQL"].append(measure(setup, server))
    print(
        "| | CPU ms a message | ms to its reply | CPU ms of the server "
        f"| of {CHATS} chats: CPU ms a message | of the server | messages/s |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, costs in found.items():
        columns = [median(values) for values in zip(*map(_values, costs), strict=True)]
        print(f"| {name} | " + " | ".join(f"{value:.2f}" for value in columns) + " |")


def _values(cost: Cost) -> tuple[float, ...]:
    return (cost.alone, cost.latency, cost.server, cost.among, cost.server_among, cost.rate)


if __name__ == "__main__":
    main()
