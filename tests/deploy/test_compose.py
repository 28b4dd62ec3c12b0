"""`deploy/cluster/`: what its files name is there, and its services are one bot, when they are
started by hand from Debian's packages with the settings that stand there."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from bot.settings import load_layers
from bot.settings.book import SettingsStore
from main import make_parser
from tests.cluster.rabbitmq_server import HOST, IS_INSTALLED, RabbitMQServer, free_port
from tests.fakes.openai_server import OpenAIServer, Say
from tests.servers.postgresql import PostgresqlServer

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "deploy" / "cluster"
TOKEN = "a-token-that-nobody-guesses"
PATIENCE = 90.0
HAS_NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")


def _compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CLUSTER / "compose.yaml").read_text())
    return found


SERVICES = sorted(_compose()["services"])


@pytest.mark.parametrize("name", SERVICES)
def test_the_files_that_a_service_names_are_there(name: str) -> None:
    service = _compose()["services"][name]
    volumes = _compose()["volumes"]
    for volume in service.get("volumes", ()):
        source = volume.split(":")[0]
        assert (CLUSTER / source).is_file() if source.startswith(".") else source in volumes
    if "build" in service:
        context = (CLUSTER / service["build"]["context"]).resolve()
        assert context == ROOT
        assert (context / service["build"]["dockerfile"]).is_file()
    for other in service.get("depends_on", ()):
        assert other in SERVICES


def test_the_image_is_made_of_files_that_are_there_and_let_through() -> None:
    dockerfile = (CLUSTER / "Dockerfile").read_text()
    copied = re.findall(r"^COPY (\S+) ", dockerfile, re.M)
    assert {"main.py", "bot", "memory"} <= {*copied}
    ignore = (CLUSTER / "Dockerfile.dockerignore").read_text()
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name.split('/')[0]}\n" in ignore, name
    for wanted in re.findall(r"-r (\S+)", dockerfile):
        assert wanted in copied


def test_only_the_proxy_can_be_reached_from_outside_and_only_from_this_machine() -> None:
    ports = {name: one.get("ports") for name, one in _compose()["services"].items()}
    assert ports.pop("proxy") == ["127.0.0.1:8080:80"]
    assert not any(ports.values())


def test_every_password_comes_from_the_environment_and_has_a_place_in_the_example() -> None:
    text = (CLUSTER / "compose.yaml").read_text()
    example = (CLUSTER / ".env.example").read_text()
    wanted = {*re.findall(r"\$\{(\w+)", text)}
    assert wanted == {"POSTGRES_PASSWORD", "RABBITMQ_PASSWORD"}
    for name in (*wanted, "PARLEY_WEB_TOKEN", "OPENAI_API_KEY"):
        assert f"{name}=\n" in example, name
    secret = re.compile(r"PASS|PASSWORD|URL|TOKEN|KEY")
    for service in _compose()["services"].values():
        for name, value in service.get("environment", {}).items():
            assert not secret.search(name) or "${" in value


def _commands() -> dict[str, list[str]]:
    services = _compose()["services"]
    return {name: services[name]["command"] for name in ("gateway", "worker")}


def test_the_command_lines_and_the_settings_are_understood() -> None:
    roles = {name: make_parser().parse_args(command).role for name, command in _commands().items()}
    assert roles == {"gateway": ["gateway"], "worker": ["worker"]}
    environ = {"DATABASE_URL": "postgresql://h/p", "BROKER_URL": "amqp://h/"}
    settings = SettingsStore(load_layers(CLUSTER / "config.json", environ)).effective()
    assert (settings.database, settings.broker) == ("postgresql://h/p", "amqp://h/")
    grace = int(_compose()["services"]["worker"]["stop_grace_period"].removesuffix("s"))
    assert grace > settings.shutdown_timeout


# --- by hand -------------------------------------------------------------------------------------


@dataclass
class ByHand:
    """The services, started without Docker: `proxy` is the address of the page."""

    folder: Path
    proxy: str
    environ: dict[str, str]
    stack: AsyncExitStack

    async def start(self, service: str, port: int = 0) -> asyncio.subprocess.Process:
        """A process as the compose file has it, on a port of its own."""
        config = json.loads((CLUSTER / "config.json").read_text())
        config["model"] = "gpt-4o-mini"
        config["web"] |= {"host": HOST, "port": port, "trusted_proxies": [HOST]}
        place = self.folder / f"{service}-{port}.json"
        place.write_text(json.dumps(config))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(ROOT / "main.py"), "--config", str(place)),
            *("--data", str(self.folder / "data"), *_commands()[service]),
            env=os.environ | self.environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        self.stack.push_async_callback(_end, process)
        return process


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


@contextmanager
def _nginx(folder: Path, gateways: list[int]) -> Iterator[int]:
    """nginx with the file of the compose folder; Docker's names stand for these ports."""
    assert HAS_NGINX is not None
    port = free_port()
    server = (CLUSTER / "nginx.conf").read_text()
    for there, here in (
        ("listen 80;", f"listen {HOST}:{port};"),
        ("resolver 127.0.0.11 valid=2s;", ""),
        ("set $gateways http://gateway:8080;", ""),
        ("proxy_pass $gateways;", "proxy_pass http://gateways;"),
    ):
        assert server.count(there) == 1, there
        server = server.replace(there, here)
    servers = " ".join(f"server {HOST}:{port};" for port in gateways)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;\n"
        f"events {{}}\nhttp {{ access_log off; {temporary}\n"
        f"upstream gateways {{ {servers} }}\n{server} }}\n"
    )
    with subprocess.Popen([HAS_NGINX, "-p", str(folder), "-c", f"{folder}/nginx.conf"]) as process:
        try:
            yield port
        finally:
            process.kill()


@asynccontextmanager
async def _by_hand(
    folder: Path, postgresql_server: PostgresqlServer, endpoint: OpenAIServer
) -> AsyncIterator[tuple[ByHand, list[asyncio.subprocess.Process]]]:
    """Two gateways and two workers behind a proxy."""
    ports = [free_port(), free_port()]
    with ExitStack() as servers:
        broker = servers.enter_context(RabbitMQServer(folder / "rabbitmq"))
        proxy = servers.enter_context(_nginx(folder, ports))
        environ = {
            "DATABASE_URL": postgresql_server.make_database("template1"),
            "BROKER_URL": broker.url,
            "PARLEY_WEB_TOKEN": TOKEN,
            "OPENAI_API_KEY": "test-key",
            "OPENAI_BASE_URL": endpoint.base_url,
        }
        async with AsyncExitStack() as stack:
            hands = ByHand(folder, f"http://{HOST}:{proxy}", environ, stack)
            for _ in range(2):
                await hands.start("worker")
            gateways = [await hands.start("gateway", port) for port in ports]
            yield hands, gateways


async def _until(is_so: Callable[[], Any]) -> Any:
    """What this returns, as soon as it returns something; a refused connection is nothing."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(aiohttp.ClientError):
                if found := await is_so():
                    return found
            await asyncio.sleep(0.1)


@pytest.mark.skipif(not IS_INSTALLED, reason="RabbitMQ is not installed")
@pytest.mark.skipif(
    HAS_NGINX is None, reason="nginx is not installed (apt-get install nginx-light)"
)
async def test_the_services_started_by_hand_are_one_bot_that_outlives_a_gateway_and_a_worker(
    tmp_path: Path, postgresql_server: PostgresqlServer
) -> None:
    async with (
        OpenAIServer(lambda request: Say(f"Answer {len(request.body['messages'])}")) as endpoint,
        _by_hand(tmp_path, postgresql_server, endpoint) as (hands, gateways),
        aiohttp.ClientSession(hands.proxy, headers={"Authorization": f"Bearer {TOKEN}"}) as http,
    ):

        async def says(text: str) -> str:
            async def ask() -> str:
                body = {"text": text, "id": text}
                async with http.post("/api/sessions/trip/messages", json=body) as response:
                    return str((await response.json())["text"]) if response.ok else ""

            return str(await _until(ask))

        assert await says("one") == "Answer 2"
        async with http.get("/api/sessions/trip", headers={"Authorization": ""}) as response:
            assert response.status == 401
        gateways[0].send_signal(signal.SIGKILL)
        assert await says("two") == "Answer 4"
        assert await says("three") == "Answer 6"
        assert await says("three") == "Answer 6", "the same message is taken once"
        gateways[1].send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(gateways[1].wait(), PATIENCE) == 0
