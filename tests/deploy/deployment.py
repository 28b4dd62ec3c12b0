"""The services of `deploy/cluster/compose.yaml`, started without Docker, from Debian's packages."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import aiohttp
import pytest

from tests.bot.test_deploy_files import CLUSTER, commands
from tests.cluster.rabbitmq_server import HOST, IS_INSTALLED, RabbitMQServer, free_port
from tests.fakes.openai_server import OpenAIServer
from tests.waiting import until

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
TOKEN = "a-token-that-nobody-guesses"
HAS_NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")

needs_servers = pytest.mark.skipif(
    HAS_NGINX is None or not IS_INSTALLED,
    reason="RabbitMQ or nginx is not installed (apt-get install rabbitmq-server nginx-light)",
)


@dataclass
class Deployment:
    """The services, started without Docker: `proxy` is the address of the page."""

    folder: Path
    proxy: str
    environ: dict[str, str]
    ports: list[int]  # of the gateways
    stack: AsyncExitStack

    async def start(self, service: str, port: int = 0) -> asyncio.subprocess.Process:
        """Start a process as in the compose file, on a separate port."""
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
        """Return True if each gateway accepts messages; raises aiohttp.ClientError if one is
        down."""
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
    """Run nginx with the file of the compose folder; these ports replace Docker's host names."""
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
    # As if names were resolved for each request: no server is skipped after a failure.
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
async def deploy(
    folder: Path, broker: RabbitMQServer, database: str, endpoint: OpenAIServer
) -> AsyncIterator[tuple[Deployment, list[asyncio.subprocess.Process]]]:
    """Run two gateways and two workers behind a proxy."""
    ports = [free_port(), free_port()]
    with _nginx(folder, ports) as proxy:
        environ = {
            "DATABASE_URL": database,
            "BROKER_URL": broker.url,
            "PARLEY_WEB_TOKEN": TOKEN,
            "OPENAI_API_KEY": "test-key",
            "OPENAI_BASE_URL": endpoint.base_url,
        }
        async with AsyncExitStack() as stack:
            deployment = Deployment(folder, f"http://{HOST}:{proxy}", environ, ports, stack)
            for _ in range(2):
                await deployment.start("worker")
            gateways = [await deployment.start("gateway", port) for port in ports]
            yield deployment, gateways


async def until_served(ask: Callable[[], Awaitable[T | None]]) -> T:
    """Return the first result of `ask` that is not None; a refused connection counts as None."""

    async def find() -> T | None:
        with suppress(aiohttp.ClientError):
            return await ask()
        return None

    found = await until(find)
    assert found is not None
    return found
