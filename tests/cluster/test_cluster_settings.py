"""Tests of the command line with settings by which several processes can't be one bot, and of the
broker's version."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import main
from plugins.cluster.checkup import check_broker

Start = Callable[..., tuple[int, str]]


@pytest.fixture
def start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Start:
    """Returns the exit code of a bot with these settings, which ends at once, and its complaint."""

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
