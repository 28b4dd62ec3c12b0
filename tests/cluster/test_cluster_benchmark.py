"""The benchmark of the cluster starts servers and bots, and says what became of each message."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from benchmarks import cluster as benchmark
from benchmarks.cluster import Bench, Chat, Mail, judge
from tests.cluster.cluster_processes import cluster_of, read
from tests.cluster.rabbitmq_server import IS_INSTALLED
from tests.fakes.payments import PayingModel
from tests.servers.postgresql import find_binaries
from tests.waiting import until
from tests.whole.process import MAIN

COMMAND = ("-m", "benchmarks.cluster", "--short", "--kills", "50", "--database", "postgresql")


def list_processes(folder: str) -> list[str]:
    """Those that work in a folder, or were told of it, but for dead ones."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            told = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
            place = os.readlink(process / "cwd")
            if folder.encode() in told or place.startswith(folder):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


@pytest.fixture
def reachable() -> Iterator[str]:
    """A folder that the server's user can reach."""
    with tempfile.TemporaryDirectory(prefix="parley-bench-") as folder:
        os.chmod(folder, 0o755)
        yield folder


def test_a_benchmark_that_is_ended_leaves_no_process_behind(reachable: str) -> None:
    if not IS_INSTALLED or find_binaries() is None:
        pytest.skip("RabbitMQ or PostgreSQL is not installed")
    environ = os.environ | {"TMPDIR": reachable, "PYTHONUNBUFFERED": "1"}
    command = (sys.executable, *COMMAND)
    with subprocess.Popen(command, cwd=MAIN.parent, env=environ, stdout=subprocess.PIPE) as running:
        try:
            assert running.stdout is not None
            assert b"workers are up" in running.stdout.readline()
            names = " ".join(list_processes(reachable))
            assert all(name in names for name in ("postgres", "beam.smp", "main.py"))
            running.send_signal(signal.SIGTERM)
            running.send_signal(signal.SIGINT)  # who is impatient
            assert b"ended before it was through" in running.stdout.read()
            assert running.wait() == 1
            end = time.monotonic() + 10
            while (left := list_processes(reachable)) and time.monotonic() < end:
                pass  # who was killed is gone in a moment
            assert not left
        finally:
            running.kill()
            kill_all(reachable)


def kill_all(folder: str) -> None:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if folder.encode() in (process / "environ").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)


async def test_what_is_missing_is_named_with_what_the_record_says_of_it(
    tmp_path: Path,
    servers: Mapping[str, Any],
    postgresql: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with (
        PayingModel(3600) as model,
        cluster_of(tmp_path, model, servers, workers=1) as processes,
    ):
        gateway = await processes.add_gateway()
        bench = Bench(tmp_path, postgresql, model, processes.stack, {}, gateways=[gateway])
        mail, chat = Mail(bench), Chat("c7", said=2)
        await gateway.tell("c7-0", chat="c7", id="c7-0")
        await gateway.line(lambda line: line.get("accepted") == "c7-0")
        await until(lambda: read(postgresql, "SELECT id FROM inbox"))
        mail.accepted["c7-0"] = 0.0
        await benchmark._say_what_is_missing(bench, [chat], mail)
        assert judge([chat], mail).lost == 2
    first, second = capsys.readouterr().out.splitlines()
    assert "120 s, confirmed: c7-0: InboxRow(id=1, " in first
    assert "its owner is worker-" in first
    assert "not confirmed: c7-1: nothing waits of it" in second
