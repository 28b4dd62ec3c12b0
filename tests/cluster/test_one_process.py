"""A bot of one process: nothing of the cluster is in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.whole.process import MAIN


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
    assert not {name for name in imported if name.startswith(("bot.cluster", "aio_pika"))}


def test_a_role_without_a_broker_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    arguments = ("--config", str(tmp_path / "config.json"), "--data", str(tmp_path / "data"))
    done = subprocess.run(
        [sys.executable, str(MAIN), *arguments, "--role", "worker"],
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.decode().startswith("--role is for a bot of several processes")


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


def test_an_address_with_its_password_in_the_settings_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"broker": "amqp://ann:hunter2@127.0.0.1/"}')
    done = subprocess.run(
        [sys.executable, str(MAIN), "--config", str(tmp_path / "config.json"), "--role", "worker"],
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "plain text" in done.stderr.decode()
    assert "hunter2" not in done.stderr.decode()


def test_a_broker_without_a_database_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("BROKER_URL=amqp://guest:guest@127.0.0.1:9/\n")
    (tmp_path / "config.json").write_text('{"broker": "{{secret.BROKER_URL}}"}')
    done = subprocess.run(
        [sys.executable, str(MAIN), "--config", str(tmp_path / "config.json")],
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "can't share an SQLite file" in done.stderr.decode()
