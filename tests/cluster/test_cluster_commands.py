"""The command line and the settings of a bot of one process or several."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import main
from bot.app import VERSION
from plugins.cluster.checkup import check_broker
from tests.cluster.cluster_processes import SLICES, cluster_of
from tests.cluster.cluster_testbot import small_and_quick
from tests.fakes.openai_server import OpenAIServer
from tests.waiting import PATIENCE, until
from tests.whole.process import MAIN, run_command

Start = Callable[..., tuple[int, str]]


@pytest.fixture
def start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Start:
    """Return the exit code of a bot with these settings, which ends at once, and its error."""

    def run(settings: dict[str, Any], *arguments: str) -> tuple[int, str]:
        (tmp_path / ".env").write_text("BROKER_URL=amqp://guest:guest@127.0.0.1:9/\n")
        (tmp_path / "config.json").write_text(json.dumps(settings))
        places = ("--config", str(tmp_path / "config.json"), "--data", str(tmp_path / "data"))
        return main.main([*places, *arguments]), capsys.readouterr().err

    return run


def test_a_role_without_a_broker_is_refused_with_a_sentence(start: Start) -> None:
    code, told = start({}, "--role", "worker")
    assert code == 1
    assert told.startswith("--role is for a bot of several processes")


def test_an_address_with_its_password_in_the_settings_is_refused(start: Start) -> None:
    for settings in (
        {"broker": "amqp://ann:hunter2@127.0.0.1/"},
        {"database": "postgresql://parley:hunter2@db/parley"},
    ):
        code, told = start(settings)
        assert code == 2
        assert "holds an address with its password as plain text" in told
        assert "hunter2" not in told


def test_a_broker_without_a_database_is_refused_with_a_sentence(start: Start) -> None:
    code, told = start({"broker": "{{secret.BROKER_URL}}"})
    assert code == 1
    assert "can't share an SQLite file" in told


def test_a_broker_that_is_too_old_is_named() -> None:
    old, new = ("3.9.27", ""), ("3.10.0", "3.13.1", "4.0.2")
    assert not any(check_broker(version).is_ok for version in old)
    assert all(check_broker(version).is_ok for version in new)


Run = Callable[..., Awaitable[tuple[int, str]]]


@pytest.fixture
def run(tmp_path: Path, servers: Mapping[str, Any], capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process; return its exit code, and its output."""
    (tmp_path / "config.json").write_text(json.dumps({"model": "tiny", **servers}))
    places = ("--config", str(tmp_path / "config.json"), "--data", str(tmp_path / "data"))

    async def execute(*arguments: str) -> tuple[int, str]:
        with small_and_quick():
            code = await asyncio.to_thread(main.main, [*places, *arguments])
        return code, "".join(capsys.readouterr())

    return execute


async def test_commands_say_who_is_there_and_move_nothing_under_processes_that_run(
    tmp_path: Path, servers: Mapping[str, Any], run: Run
) -> None:
    saved = tmp_path / "saved"

    async def doctor(words: str) -> str:
        """Return what it says once it has these words: it listens for heartbeats only briefly."""
        said = [""]

        async def say() -> str:
            _, said[0] = await run("doctor")
            return said[0] if words in said[0] else ""

        return await until(say, lambda: said[0])

    _, nobody = await run("doctor")
    assert re.search(r"ok   broker: RabbitMQ \d+\.\d+\.\d+ answers", nobody)
    assert "ok   cluster: 0 processes are alive." in nobody
    async with (
        OpenAIServer([]) as endpoint,
        cluster_of(tmp_path, endpoint, servers, workers=1) as processes,
    ):
        alone = await doctor("BAD  cluster: 1 process is alive.")
        assert "No gateway runs, so nobody can write to it" in alone

        assert (await run("backup", str(saved)))[0] == 0, "it may run meanwhile"
        moves = [("migrate", "--to", system) for system in ("sqlite", "postgresql")]
        for arguments in (("restore", str(saved)), *moves):
            code, refused = await run(*arguments)
            assert code == 1, arguments
            assert "Another Parley works on this database; stop it" in refused
        (worker,) = processes.workers
        assert worker.process.returncode is None

        gateway = await processes.add_gateway()
        await gateway.says("/status")
        both = await doctor("ok   cluster: 2 processes are alive.")
        assert f"Parley {VERSION}, {SLICES} slices, up for" in both
        assert "ok   queues: In the broker's queues: 0 calls. Not answered yet: 0 mess" in both
        await worker.kill()
        after = await doctor("Without a sign of life: worker-")
        assert "No worker runs, so nobody answers" in after
    assert not [name for name in os.listdir(tmp_path) if name.startswith("data.before")]
    assert not (tmp_path / "data" / "parley.db").exists()
    _, told = await run("restore", str(saved))
    assert "holds a bot already; name an empty one" in told, "nobody is left, but what was said"


async def test_the_doctor_says_that_the_broker_can_not_be_reached(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKER_URL", "amqp://guest:hunter2@127.0.0.1:9/")
    _, told = await run("doctor")
    assert "BAD  broker: The message broker can't be reached." in told
    assert "hunter2" not in told


@pytest.mark.usefixtures("processes")
def test_a_bot_of_one_process_imports_nothing_of_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    arguments = ("--config", str(tmp_path / "config.json"), "--data", str(tmp_path / "data"))
    done = subprocess.run(
        [sys.executable, "-X", "importtime", str(MAIN), *arguments, "--jsonl"],
        input=b'{"text": "/status"}\n',
        capture_output=True,
        check=True,
        timeout=PATIENCE,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
    assert b"reply_to" in done.stdout
    assert "bot.app" in imported
    unwanted = ("plugins.cluster.", "aio_pika", "psycopg.")
    found = {name for name in imported if name.startswith(unwanted)}
    assert not found, "process.py, which is loaded by name, needs nothing else"


def test_a_broker_that_is_not_there_is_said_in_a_sentence(tmp_path: Path, postgresql: str) -> None:
    urls = f"BROKER_URL=amqp://guest:guest@127.0.0.1:9/\nDATABASE_URL={postgresql}\n"
    (tmp_path / ".env").write_text(urls)
    (tmp_path / "config.json").write_text(
        '{"broker": "{{secret.BROKER_URL}}", "database": "{{secret.DATABASE_URL}}"}'
    )
    done = run_command(tmp_path, "--role", "worker")
    assert done.returncode == 1
    assert "The message broker can't be reached; check that it runs" in done.stderr
    assert "Traceback" not in done.stderr
