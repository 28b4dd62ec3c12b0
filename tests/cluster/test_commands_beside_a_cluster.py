"""What the command line does to a bot of several processes that run."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bot.app import VERSION
from tests.cluster.cluster_processes import cluster_of, until_joined
from tests.fakes.openai_server import OpenAIServer
from tests.whole.process import run_command


async def test_nothing_is_moved_or_restored_under_processes_that_run(
    tmp_path: Path, servers: Mapping[str, Any], postgresql: str
) -> None:
    saved = tmp_path / "saved"
    async with (
        OpenAIServer([]) as endpoint,
        cluster_of(tmp_path, endpoint, servers, workers=1) as processes,
    ):
        await until_joined(postgresql, 1)
        assert run_command(tmp_path, "backup", str(saved)).returncode == 0, "it may run meanwhile"
        for arguments in (
            ("restore", str(saved)),
            ("migrate", "--to", "sqlite"),
            ("migrate", "--to", "postgresql"),
        ):
            refused = run_command(tmp_path, *arguments)
            assert refused.returncode == 1, arguments
            assert "Another Parley works on this database; stop it" in refused.stderr
            assert "Traceback" not in refused.stderr
        assert processes.workers[0].process.returncode is None
    assert not [name for name in os.listdir(tmp_path) if name.startswith("data.before")]
    assert not (tmp_path / "data" / "parley.db").exists()
    assert run_command(tmp_path, "restore", str(saved)).returncode == 0, "nobody is left"


async def test_the_doctor_says_who_is_there_and_what_is_missing(
    tmp_path: Path, servers: Mapping[str, Any], postgresql: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model": "tiny", **servers}))
    nobody = run_command(tmp_path, "doctor").stdout
    assert re.search(r"ok   broker: RabbitMQ \d+\.\d+\.\d+ answers", nobody)
    assert "ok   cluster: 0 processes are alive." in nobody
    async with (
        OpenAIServer([]) as endpoint,
        cluster_of(tmp_path, endpoint, servers, workers=0) as processes,
    ):
        worker = await processes.add_worker()
        await until_joined(postgresql, 1)
        alone = run_command(tmp_path, "doctor").stdout
        assert "BAD  cluster: 1 process is alive." in alone
        assert "No gateway runs, so nobody can write to it" in alone
        gateway = await processes.add_gateway()
        await gateway.says("/status")
        both = run_command(tmp_path, "doctor").stdout
        assert "ok   cluster: 2 processes are alive." in both
        assert f"Parley {VERSION}, 64 slices, up for" in both
        assert "ok   queues: In the broker's queues: 0 calls. Not answered yet: 0 mess" in both
        await worker.kill()
        after = run_command(tmp_path, "doctor").stdout
        assert "Without a sign of life: worker-" in after
        assert "No worker runs, so nobody answers" in after


def test_the_doctor_says_that_the_broker_can_not_be_reached(
    tmp_path: Path, servers: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model": "tiny", **servers}))
    monkeypatch.setenv("BROKER_URL", "amqp://guest:hunter2@127.0.0.1:9/")
    seen = run_command(tmp_path, "doctor")
    assert "BAD  broker: The message broker can't be reached." in seen.stdout
    assert "hunter2" not in seen.stdout + seen.stderr
    assert "Traceback" not in seen.stderr
