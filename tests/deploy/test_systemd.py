"""Tests of the systemd units: the notifications of a running bot, and the actions of `service`. A
strict fake replaces systemd's programs and rejects other calls."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import main
from main import make_parser
from tests.fakes.openai_server import OpenAIServer, Say
from tests.waiting import PATIENCE
from tests.whole.process import MAIN, talking

pytestmark = pytest.mark.usefixtures("processes")
ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "systemd" / "parley.service"
FAKE = """#!{python}
import os, pathlib, sys
folder = pathlib.Path({folder!r})
call = [pathlib.Path(sys.argv[0]).name, *sys.argv[1:]]
with (folder / "calls").open("a") as calls:
    print(*call, file=calls)
state = folder / "active"
answers = {{
    "systemctl --user list-units --no-pager --no-legend parley": "",
    "systemctl --user daemon-reload": "",
    "systemctl --user enable parley": "",
    "systemctl --user restart parley": "active",
    "systemctl --user stop parley": "inactive",
    "systemctl --user is-active parley": None,
    "systemctl --user is-enabled parley": "enabled",
    "systemctl --user disable --now parley": "inactive",
    "loginctl enable-linger ann": "",
    "loginctl show-user ann --property=Linger": "Linger=no",
    "journalctl --user --unit parley --lines 5 --output cat": "It said this.",
}}
told = answers[" ".join(call)]
if (folder / "broken").exists() and (folder / "broken").read_text() in call:
    sys.exit("Failed to connect to bus: No medium found")
if told in ("active", "inactive"):
    state.write_text(told)
elif told is None:
    told = state.read_text()
    print(told)
    sys.exit(told != "active")
print(told)
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Create a folder with systemd's programs in `bin`, and a configuration."""
    (tmp_path / "bin").mkdir()
    for name in ("systemctl", "loginctl", "journalctl"):
        program = tmp_path / "bin" / name
        program.write_text(FAKE.format(python=sys.executable, folder=str(tmp_path)))
        program.chmod(0o755)
    (tmp_path / "a bot").mkdir()
    (tmp_path / "a bot" / "config.json").write_text('{"model": "gpt-4o-mini"}')
    return tmp_path


@dataclass(frozen=True)
class Done:
    """The exit code of a command, and its output."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def run(machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs `main.py` on that machine."""
    monkeypatch.setattr(sys, "argv", [str(MAIN)])
    monkeypatch.setenv("HOME", str(machine))
    monkeypatch.setenv("USER", "ann")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)

    def execute(*arguments: str, path: str = "bin") -> Done:
        monkeypatch.setenv("PATH", str(machine / path))
        config, data = machine / "a bot" / "config.json", machine / "a bot" / "da%ta"
        code = main.main(["--config", str(config), "--data", str(data), *arguments])
        return Done(code, *capsys.readouterr())

    return execute


def unit_of(machine: Path) -> Path:
    return machine / ".config" / "systemd" / "user" / "parley.service"


def command_of(unit: str) -> list[str]:
    """Return the command of a unit, split as systemd does."""
    found = re.search(r"^ExecStart=(.*)$", unit, re.M)
    assert found
    return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(found[1])]


def test_a_service_is_installed_looked_at_and_taken_away(machine: Path, run: Run) -> None:
    done = run("service", "install")
    assert done.returncode == 0, done.stderr
    assert "The bot runs, and starts with the machine." in done.stdout
    unit = unit_of(machine).read_text()
    assert f"WorkingDirectory={machine}/a bot\n" in unit
    command = command_of(unit)
    assert command[:2] == [sys.executable, str(MAIN)]
    options = make_parser().parse_args(command[2:])
    assert options.web
    assert options.data == machine / "a bot" / "da%ta"
    assert options.config == machine / "a bot" / "config.json"

    status = run("service", "status")
    assert status.returncode == 0
    assert "active, enabled" in status.stdout
    assert "sudo loginctl enable-linger ann" in status.stdout

    (machine / "a bot" / "da%ta").mkdir()
    assert run("service", "uninstall").returncode == 0
    assert not unit_of(machine).exists()
    assert (machine / "a bot" / "da%ta").exists()
    assert (machine / "active").read_text() == "inactive"
    assert run("service", "status").returncode == 1
    assert "no service 'parley'" in run("service", "uninstall").stderr


def test_a_service_has_the_channels_that_were_asked_for(machine: Path, run: Run) -> None:
    assert run("--telegram", "service", "install").returncode == 0
    assert command_of(unit_of(machine).read_text())[-1] == "--telegram"
    assert run("--serve", "service", "install").returncode == 0
    assert command_of(unit_of(machine).read_text())[-1] == "--serve"


def test_where_systemd_is_not_to_be_had_a_sentence_says_what_to_do(machine: Path, run: Run) -> None:
    (machine / "broken").write_text("list-units")
    done = run("service", "install")
    assert done.returncode == 1
    assert "no systemd for your user here" in done.stderr
    assert not unit_of(machine).exists()
    (machine / "empty").mkdir()
    assert "this system has no systemd" in run("service", "install", path="empty").stderr


def test_a_bot_that_does_not_start_is_shown_with_what_it_said(machine: Path, run: Run) -> None:
    (machine / "broken").write_text("restart")
    done = run("service", "install")
    assert done.returncode == 1
    assert "The bot did not start:\nIt said this." in done.stderr
    (machine / "broken").write_text("enable-linger")
    done = run("service", "install")
    assert done.returncode == 0
    assert "only while you are logged in" in done.stdout


def test_a_name_that_leads_elsewhere_is_none_for_a_service(machine: Path, run: Run) -> None:
    for name in ("../evil", "a b", "", "-x", "a/b", "\u00e9", "a\nb"):
        for action in ("install", "status", "uninstall"):
            done = run("service", action, f"--name={name}")
            assert done.returncode == 1
            assert "can't be the name of a service" in done.stderr
    assert not [*machine.rglob("*.service")]


def test_a_wrong_configuration_is_no_service(machine: Path, run: Run) -> None:
    (machine / "a bot" / "config.json").write_text('{"model": 3}')
    assert run("service", "install").returncode == 2
    assert not unit_of(machine).exists()


async def test_systemd_is_told_when_the_bot_is_ready_lives_and_ends(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(PATIENCE)
        environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        async with (
            OpenAIServer(lambda request: Say("Hello!")) as endpoint,
            talking(tmp_path, endpoint, environ=environ) as bot,
        ):
            assert (await bot.says("Hi"))["text"] == "Hello!"
            assert listener.recv(100) == b"READY=1"
            assert [listener.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3
            assert await bot.ended() == 0
        told = b""
        while told != b"STOPPING=1":
            told = listener.recv(100)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_understands_the_units_and_finds_them_little_exposed(
    machine: Path, tmp_path: Path, run: Run
) -> None:
    assert run("service", "install").returncode == 0
    program = f"ExecStart={sys.executable} "
    for text, most in (
        (UNIT.read_text(), 3.5),
        (UNIT.read_text() + (UNIT.parent / "strict.conf").read_text(), 2.0),
        (unit_of(machine).read_text(), 9.5),
    ):
        unit = tmp_path / "parley.service"
        unit.write_text(re.sub(r"^ExecStart=\S+ ", lambda found: program, text, flags=re.M))
        analyze = ["systemd-analyze", "--offline=true", "security", str(unit)]
        told = subprocess.run(
            analyze,
            capture_output=True,
            text=True,
            check=True,
            env={"PATH": os.defpath, "LANG": "C"},
        )
        score = re.search(r"exposure level for parley.service: ([\d.]+)", told.stdout)
        assert score, told.stdout
        assert float(score[1]) <= most
        assert not re.search(r"Unknown|Failed to parse|ignoring", told.stderr), told.stderr
