"""The services of `deploy/cluster/compose.yaml`, started without Docker, from Debian's packages."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
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

from tests.cluster.rabbitmq_server import HOST, IS_INSTALLED, RabbitMQServer, free_port
from tests.fakes.openai_server import OpenAIServer
from tests.servers.postgresql import PostgresqlServer

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "deploy" / "cluster"
TOKEN = "a-token-that-nobody-guesses"
PATIENCE = 90.0
HAS_NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")

needs_servers = pytest.mark.skipif(
    HAS_NGINX is None or not IS_INSTALLED,
    reason="RabbitMQ or nginx is not installed (apt-get install rabbitmq-server nginx-light)",
)


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CLUSTER / "compose.yaml").read_text())
    return found


def commands() -> dict[str, list[str]]:
    """The command lines of the bot's own services."""
    services = compose()["services"]
    return {name: services[name]["command"] for name in ("gateway", "worker")}


@dataclass
class ByHand:
    """The services, started without Docker: `proxy` is the address of the page."""

    folder: Path
    proxy: str
    environ: dict[str, str]
    ports: list[int]  # of the gateways
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
            *("--data", str(self.folder / "data"), *commands()[service]),
            env=os.environ | self.environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        self.stack.push_async_callback(_end, process)
        return process

    async def are_ready(self) -> bool:
        """Whether each gateway takes messages in; raises aiohttp.ClientError where one is down."""
        async with aiohttp.ClientSession() as http:
            for port in self.ports:
                async with http.get(f"http://{HOST}:{port}/ready") as response:
                    if not response.ok:
                        return False
        return True


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
    # As where a name is looked up for each request: none is left out for having failed before.
    servers = " ".join(f"server {HOST}:{port} max_fails=0;" for port in gateways)
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
async def by_hand(
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
            hands = ByHand(folder, f"http://{HOST}:{proxy}", environ, ports, stack)
            for _ in range(2):
                await hands.start("worker")
            gateways = [await hands.start("gateway", port) for port in ports]
            yield hands, gateways


async def until(is_so: Callable[[], Any]) -> Any:
    """What this returns, as soon as it returns something; a refused connection is nothing."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(aiohttp.ClientError):
                if found := await is_so():
                    return found
            await asyncio.sleep(0.1)
