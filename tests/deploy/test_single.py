"""`deploy/single/`: what is copied into the image is a bot that lives in a namespace like the
container's: read-only, no root, nothing but its own files."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import sysconfig
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from bot.app import VERSION
from bot.data_folder import lock_data_folder
from memory.record.rehearsal import NEWEST
from plugins.operations.restore import restore
from tests.bot.test_deploy_files import ROOT, SINGLE, copied
from tests.cluster.rabbitmq_server import free_port
from tests.upgrades.record import HERE as RELEASES
from tests.waiting import wait_until

TOKEN = "a-token-of-more-than-16-letters"
pytestmark = pytest.mark.usefixtures("processes")
needs_box = pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")


def make_image(folder: Path, port: int) -> None:
    """Copy what the image holds, but its packages, into a folder."""
    for source, target in copied():
        where = folder / (target if not target.endswith("/") else f"{target}{Path(source).name}")
        where.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / source).is_dir():
            skip = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / source, where, ignore=skip, dirs_exist_ok=True)
        else:
            shutil.copy(ROOT / source, where)
    config = folder / "config.json"
    config.write_text(config.read_text().replace("8080", str(port)))


def confine(image: Path, data: Path) -> list[str]:
    """A command in a namespace with the image's files and this data; nothing else is to be
    written, and whoever runs there has no rights beyond their own."""
    base, prefix = sys.base_prefix, sysconfig.get_paths()["purelib"]
    seen = [part for path in (base, sys.prefix, prefix) for part in ("--ro-bind", path, path)]
    system = ("/usr", "/lib", "/lib64", "/bin", "/etc/ssl", "/etc/localtime", "/etc/resolv.conf")
    seen += [part for path in system for part in ("--ro-bind-try", path, path)]
    return [
        *("bwrap", "--unshare-user", "--uid", "10001", "--gid", "10001", "--unshare-pid"),
        *("--unshare-ipc", "--cap-drop", "ALL", "--die-with-parent", "--clearenv"),
        *("--tmpfs", "/tmp", *seen),  # first: this project may be in there
        *("--ro-bind", str(image), "/parley", "--bind", str(data), "/data"),
        *("--bind-try", str(data.with_name("backups")), "/backups"),
        *("--proc", "/proc", "--dev", "/dev", "--remount-ro", "/", "--chdir", "/parley"),
        *("--setenv", "HOME", "/tmp", "--setenv", "PYTHONDONTWRITEBYTECODE", "1"),
        *("--setenv", "PATH", os.environ["PATH"], "--setenv", "PARLEY_WEB_TOKEN", TOKEN),
        *("--setenv", "OPENAI_API_KEY", "test-key"),
    ]


BOT = ("main.py", "--config", "/parley/config.json", "--data", "/data")


@contextmanager
def contained(image: Path, data: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [*confine(image, data), sys.executable, *BOT, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(60)
            finally:
                process.kill()


def ask_health(image: Path, data: Path, address: str) -> int:
    """Return what the health check says, asked in the same way."""
    command = [*confine(image, data), "--setenv", "PARLEY_HEALTH", address]
    done = subprocess.run(
        [*command, sys.executable, "-I", "health.py"], capture_output=True, check=False, timeout=60
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.returncode


@needs_box
def test_the_files_of_the_image_are_a_bot_that_is_well_where_nothing_can_be_written(
    tmp_path: Path,
) -> None:
    image, data, port = tmp_path / "image", tmp_path / "data", free_port()
    data.mkdir()
    make_image(image, port)
    told = subprocess.run(
        [*confine(image, data), sys.executable, *BOT, "doctor"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    ).stdout
    assert "/data can be written" in told
    assert "/parley/config.json is valid" in told

    address = f"http://127.0.0.1:{port}/ready"
    assert ask_health(image, data, address) == 1
    with contained(image, data, "--web") as process:
        wait_until(lambda: process.poll() is not None or ask_health(image, data, address) == 0)
        assert process.poll() is None, process.stdout and process.stdout.read().decode()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/openapi.json", timeout=60) as told:
            assert json.load(told)["info"]["version"] == VERSION
    assert ask_health(image, data, address) == 1
    assert (data / "parley.db").exists()
    assert not [*image.rglob("__pycache__")]


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="this system lists no locks")
def test_a_bot_without_the_page_is_well_while_it_holds_its_data(tmp_path: Path) -> None:
    def ask(folder: Path = tmp_path) -> int:
        environ = {"PARLEY_HEALTH": "", "PARLEY_DATA": str(folder)}
        command = [sys.executable, "-I", str(SINGLE / "health.py")]
        done = subprocess.run(command, env=environ, check=False, timeout=60, stderr=subprocess.PIPE)
        assert done.stderr == b""
        return done.returncode

    assert ask() == 1
    assert ask(tmp_path / "none") == 1
    with lock_data_folder(tmp_path):
        assert ask() == 0
    assert ask() == 1


def find_schema(database: Path) -> int:
    with closing(sqlite3.connect(database)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


@needs_box
def test_an_upgrade_in_the_container_has_its_way_back(tmp_path: Path) -> None:
    """The data is on a volume there, which can't be moved, and nothing is written beside it."""
    image, data = tmp_path / "image", tmp_path / "data"
    restore(RELEASES / "schema-43.tar.gz", data, lambda contents: True)
    (tmp_path / "backups").mkdir()
    make_image(image, free_port())

    def run(*arguments: str) -> str:
        command = [*confine(image, data), sys.executable, *BOT, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    told = run("upgrade", "--backup", "/backups/before.tar.gz")
    assert find_schema(data / "parley.db") == NEWEST
    (back,) = {*re.findall(r"restore (/backups/\S+) --with-code", told)}
    (data / "lost+found").mkdir()  # of the disk, and for root alone
    told = run("restore", back, "--with-code")
    assert find_schema(data / "parley.db") == 43
    (aside,) = re.findall(r"The previous data is in /data/(\S+)\.\n", told)
    assert find_schema(data / aside / "parley.db") == NEWEST
    assert (data / "lost+found").is_dir()
    assert not [*data.glob(".parley-*")]

    run("backup", "/backups/after.tar.gz")
    restore(tmp_path / "backups" / "after.tar.gz", tmp_path / "other", lambda contents: True)
    assert not [*(tmp_path / "other").glob("before-restore-*")], "it was saved once more"
