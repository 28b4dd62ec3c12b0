"""Tests of what the command line does to a bot of several processes that run."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import main
from bot.app import VERSION
from tests.cluster.cluster_processes import SLICES, cluster_of, until_joined
from tests.cluster.cluster_testbot import small_and_quick
from tests.fakes.openai_server import OpenAIServer

Run = Callable[..., Awaitable[tuple[int, str]]]


@pytest.fixture
def run(tmp_path: Path, servers: Mapping[str, Any], capsys: pytest.CaptureFixture[str]) -> Run:
    """Carries out a command in this process; returns its exit code, and all that it says."""
    (tmp_path / "config.json").write_text(json.dumps({"model": "tiny", **servers}))
    places = ("--config", str(tmp_path / "config.json"), "--data", str(tmp_path / "data"))

    async def carry_out(*arguments: str) -> tuple[int, str]:
        with small_and_quick():
            code = await asyncio.to_thread(main.main, [*places, *arguments])
        return code, "".join(capsys.readouterr())

    return carry_out


async def test_commands_say_who_is_there_and_move_nothing_under_processes_that_run(
    tmp_path: Path, servers: Mapping[str, Any], postgresql: str, run: Run
) -> None:
    saved = tmp_path / "saved"
    _, nobody = await run("doctor")
    assert re.search(r"ok   broker: RabbitMQ \d+\.\d+\.\d+ answers", nobody)
    assert "ok   cluster: 0 processes are alive." in nobody
    async with (
        OpenAIServer([]) as endpoint,
        cluster_of(tmp_path, endpoint, servers, workers=1) as processes,
    ):
        await until_joined(postgresql, 1)
        _, alone = await run("doctor")
        assert "BAD  cluster: 1 process is alive." in alone
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
        _, both = await run("doctor")
        assert "ok   cluster: 2 processes are alive." in both
        assert f"Parley {VERSION}, {SLICES} slices, up for" in both
        assert "ok   queues: In the broker's queues: 0 calls. Not answered yet: 0 mess" in both
        await worker.kill()
        _, after = await run("doctor")
        assert "Without a sign of life: worker-" in after
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
