"""A bot of one process: nothing of the cluster is in it, nor of PostgreSQL."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.whole.process import MAIN


@pytest.mark.usefixtures("processes")
def test_a_bot_of_one_process_imports_nothing_of_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    arguments = ("--config", str(tmp_path / "config.json"), "--data", str(tmp_path / "data"))
    done = subprocess.run(
        [sys.executable, "-X", "importtime", str(MAIN), *arguments, "--jsonl"],
        input=b'{"text": "/status"}\n',
        capture_output=True,
        check=True,
        timeout=60,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
    assert b"reply_to" in done.stdout
    assert "bot.app" in imported
    unwanted = ("plugins.cluster.", "aio_pika", "psycopg.")
    found = {name for name in imported if name.startswith(unwanted)}
    assert found == {"plugins.cluster.checks"}, "what process.py needs, and nothing else"


def test_a_broker_that_is_not_there_is_said_in_a_sentence(tmp_path: Path, postgresql: str) -> None:
    urls = f"BROKER_URL=amqp://guest:guest@127.0.0.1:9/\nDATABASE_URL={postgresql}\n"
    (tmp_path / ".env").write_text(urls)
    (tmp_path / "config.json").write_text(
        '{"broker": "{{secret.BROKER_URL}}", "database": "{{secret.DATABASE_URL}}"}'
    )
    arguments = ("--config", str(tmp_path / "config.json"), "--data", str(tmp_path / "data"))
    done = subprocess.run(
        [sys.executable, str(MAIN), *arguments, "--role", "worker"],
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "The message broker can't be reached; check that it runs" in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()
