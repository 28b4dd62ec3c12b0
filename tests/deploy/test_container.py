"""Tests of the image that `deploy/Dockerfile` makes: it is read-only, without root, and a complete
bot."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.app import VERSION
from bot.data_folder import lock_data_folder
from memory.record.rehearsal import NEWEST
from plugins.operations.restore import restore
from tests.cluster.rabbitmq_server import free_port
from tests.deploy.image import (
    DOCKERFILE,
    ROOT,
    Container,
    Stage,
    build,
    execute,
    layers_in_memory,
    read,
)
from tests.fakes.openai_server import OpenAIServer, Say
from tests.upgrades.record import HERE as RELEASES
from tests.waiting import PATIENCE, wait_until

TOKEN = "a-token-of-more-than-16-letters"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
pytestmark = pytest.mark.usefixtures("processes")
needs_root = pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.geteuid() != 0,
    reason="root alone may mount the layers of an image",
)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with layers_in_memory(tmp_path_factory.mktemp("image") / "layers") as layers:
        # Without compiling all packages, which takes most of the time: only used files are
        # compiled.
        made = build(layers, CACHE, {"UV_COMPILE_BYTECODE": "0"})
        environ = {**made.environ, "PYTHONDONTWRITEBYTECODE": ""}
        command = ("parley", "--data", "/tmp/none", "doctor")
        line = made.enter(command, binds={}, environ=environ, is_final=False)
        assert b"packages" in subprocess.run(line, capture_output=True, timeout=PATIENCE).stdout
        yield made


@pytest.fixture
def container(image: Stage, tmp_path: Path) -> Container:
    environ = {
        "PARLEY_WEB_TOKEN": TOKEN,
        "PARLEY_WEB__PORT": str(free_port()),
        "PARLEY_WEB__HOST": "127.0.0.1",
        "PARLEY_MODEL": "gpt-4o-mini",
        "OPENAI_API_KEY": "test-key",
    }
    return Container(image, tmp_path, environ)


@contextmanager
def running(container: Container) -> Iterator[subprocess.Popen[bytes]]:
    """Run the image until the block ends; then stop it as an engine does."""
    command = container.line(*container.image.entrypoint, *container.image.command)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            yield process
            stop(process)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


def stop(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM to the first process of the container."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    with suppress(ProcessLookupError):
        os.kill(int(children[0]), signal.SIGTERM)


def ask(container: Container, path: str, body: Any = None) -> Any:
    address = f"http://127.0.0.1:{container.environ['PARLEY_WEB__PORT']}{path}"
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, headers)
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        return json.load(response)


def is_well(container: Container) -> bool:
    done = container.run(*container.image.health)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode == 0


@needs_root
async def test_it_is_a_bot_that_runs_as_nobody_special_and_writes_its_data_alone(
    container: Container,
) -> None:
    user = container.run("id", "--user")
    assert (user.stdout, user.stderr) == ("10001\n", "")
    for place in ("/", "/parley", "/usr", "/etc"):
        refused = container.run("touch", f"{place}/written")
        assert "Read-only file system" in refused.stderr, place
    for place in ("/data", "/backups", "/tmp"):
        assert container.run("touch", f"{place}/written").returncode == 0, place
    told = container.parley("doctor").stdout
    assert "/data can be written" in told
    assert "/parley/config.json is valid" in told
    assert "ok   packages" in told

    assert not is_well(container)
    async with OpenAIServer([Say("From the container.")]) as server:
        served = replace(
            container, environ={**container.environ, "OPENAI_BASE_URL": server.base_url}
        )
        said = await asyncio.to_thread(talk, served)
    assert said["text"] == "From the container."
    assert not is_well(container)
    assert (container.folder / "data" / "parley.db").stat().st_uid == 10001


def talk(container: Container) -> Any:
    """Start the container, wait until it is healthy, and send a message; return the answer."""
    with running(container) as process:
        wait_until(lambda: process.poll() is not None or is_well(container))
        assert process.poll() is None, process.stdout and process.stdout.read().decode()
        assert ask(container, "/openapi.json")["info"]["version"] == VERSION
        return ask(container, "/api/sessions/main/messages", {"text": "Where are you?"})


@needs_root
def test_the_small_model_is_in_it_unless_it_is_built_without(image: Stage, tmp_path: Path) -> None:
    packages = "lib/python*/site-packages/xllamacpp"
    assert [*image.place("/parley").glob(packages)]
    bare = Stage("bare", tmp_path, image.layers)
    bare.prepare()
    (step,) = (step for step in read(DOCKERFILE.read_text("utf-8")) if "$EMBEDDED" in step.rest)
    bare.arguments["EMBEDDED"] = "no"
    execute(step, [bare], tmp_path, {}, ROOT)
    assert not bare.place("/parley").exists()


@needs_root
def test_the_addon_of_home_assistant_gives_its_options_to_the_bot(container: Container) -> None:
    options = {"web_token": TOKEN, "openai_api_key": "", "telegram_bot_token": "123:abc"}
    written = container.folder / "data/options.json"
    written.write_text(json.dumps(options))
    written.chmod(0o644)  # regardless of the umask
    script = DOCKERFILE.with_name("stores") / "home-assistant/run.sh"
    shutil.copy(script, container.folder / "backups")
    bot = container.folder / "backups/parley"
    bot.write_text("#!/bin/sh\nenv\necho called with $@\n")
    bot.chmod(0o755)
    path = f"/backups:{container.image.environ['PATH']}"
    bare = replace(container, environ={"PATH": path})
    done = bare.run("sh", "/backups/run.sh")
    assert done.returncode == 0, done
    said = done.stdout.splitlines()
    assert "called with --config /parley/config.json --data /data/parley --web" in said
    assert {f"PARLEY_WEB_TOKEN={TOKEN}", "TELEGRAM_BOT_TOKEN=123:abc"} <= {*said}
    assert not [line for line in said if line.startswith(("OPENAI_API_KEY", "OPTIONS"))]


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="this system lists no locks")
def test_a_bot_without_the_page_is_well_while_it_holds_its_data(tmp_path: Path) -> None:
    def ask_script(folder: Path = tmp_path) -> int:
        environ = {"HEALTH_ADDRESS": "", "HEALTH_DATA": str(folder)}
        command = [sys.executable, "-I", str(DOCKERFILE.with_name("health.py"))]
        done = subprocess.run(
            command, env=environ, check=False, timeout=PATIENCE, stderr=subprocess.PIPE
        )
        assert done.stderr == b""
        return done.returncode

    assert ask_script() == 1
    assert ask_script(tmp_path / "none") == 1
    with lock_data_folder(tmp_path):
        assert ask_script() == 0
    assert ask_script() == 1


def find_schema(database: Path) -> int:
    with closing(sqlite3.connect(database)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


@needs_root
def test_an_upgrade_in_the_container_has_its_way_back(container: Container, tmp_path: Path) -> None:
    """The data is on a volume there, which cannot be moved, and nothing is written beside it."""
    data = container.folder / "data"
    data.rmdir()
    restore(RELEASES / "0.1.0-schema-43.tar.gz", data, lambda contents: True)
    for path in (data, *data.rglob("*")):
        os.chown(path, 10001, 10001)

    def run(*arguments: str) -> str:
        done = container.parley(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    told = run("upgrade", "--backup", "/backups/before.tar.gz")
    assert find_schema(data / "parley.db") == NEWEST
    (back,) = {*re.findall(r"restore (/backups/\S+) --with-code", told)}
    (data / "lost+found").mkdir()  # belongs to the disk, and only root can read it
    told = run("restore", back, "--with-code")
    assert find_schema(data / "parley.db") == 43
    (aside,) = re.findall(r"The previous data is in /data/(\S+)\.\n", told)
    assert find_schema(data / aside / "parley.db") == NEWEST
    assert (data / "lost+found").is_dir()
    assert not [*data.glob(".parley-*")]

    run("backup", "/backups/after.tar.gz")
    restore(tmp_path / "backups" / "after.tar.gz", tmp_path / "other", lambda contents: True)
    assert not [*(tmp_path / "other").glob("before-restore-*")], "it was saved once more"
