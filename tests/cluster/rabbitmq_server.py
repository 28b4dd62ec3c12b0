"""RabbitMQ as packaged by Debian, started by a test on this machine alone, in its own folder.

with RabbitMQServer(tmp_path) as broker:
    broker.url       # amqp://guest:guest@127.0.0.1:…
    broker.restart()
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType

import aio_pika

from plugins.cluster.wire import SLICES
from tests.waiting import wait_until

HOST = "127.0.0.1"
BINARIES = Path("/usr/lib/rabbitmq/bin")
IS_INSTALLED = (BINARIES / "rabbitmq-server").exists()
PATIENCE = 240.0
"""Seconds after which a server that has not started fails the test."""
_ATTEMPTS = 3  # to start it, each on its own ports
_ASKED = 5.0  # seconds until it is asked again whether it has started
_UNUSED = range(10_000, 32_000)  # ports outside the range of ephemeral ports
_CHANNELS = ("pipe", "afar", "telegram", "letters")  # those that a gateway of a test owns

_CONFIG = """\
listeners.tcp.1 = {host}:{port}
log.console = false
log.file.level = warning
disk_free_limit.absolute = 50MB
vm_memory_high_watermark.absolute = 512MB
collect_statistics_interval = 60000
"""


class RabbitMQServer:
    """A node with its own port mapper; both end with the block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = self._dist = self._mapper_port = 0
        self._mapper: subprocess.Popen[bytes] | None = None
        self._node: subprocess.Popen[bytes] | None = None
        self.kins = {"parley"}
        """The prefixes of the names of queues that `empty` deletes."""

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{HOST}:{self.port}/"

    def __enter__(self) -> RabbitMQServer:
        self._folder.mkdir(parents=True, exist_ok=True)
        for left in reversed(range(_ATTEMPTS)):
            try:
                self._begin()
                return self
            except BaseException as error:
                self.__exit__(None, None, None)
                if not left or not isinstance(error, RuntimeError):
                    raise
        raise AssertionError("the last attempt raises")

    def _begin(self) -> None:
        """Start the port mapper and the node on ports that are free now. Raises RuntimeError if
        other programs took one of them meanwhile."""
        self.port, self._dist, self._mapper_port = (free_port() for _ in range(3))
        config = self._folder / "rabbitmq.conf"
        config.write_text(_CONFIG.format(host=HOST, port=self.port))
        (self._folder / "enabled_plugins").write_text("[].\n")
        epmd = shutil.which("epmd")
        assert epmd is not None
        self._mapper = subprocess.Popen(
            [epmd, "-address", HOST, "-port", str(self._mapper_port)],
            env=self._surroundings,
            start_new_session=True,
        )
        self.start()
        if self._mapper.poll() is not None:
            raise RuntimeError("another program has the port of the mapper")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        if self._mapper is not None:
            _end(self._mapper)

    def start(self) -> None:
        """Start the node, which may have run before; return when it accepts connections."""
        with (self._folder / "out").open("ab") as out:
            self._node = subprocess.Popen(
                [str(BINARIES / "rabbitmq-server")],
                cwd=self._folder,
                env=self._surroundings,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        node = self._node
        wait_until(
            lambda: node.poll() is not None or self._answers(),
            lambda: (self._folder / "out").read_text()[-2_000:],
        )
        if node.poll() is not None:
            raise RuntimeError((self._folder / "out").read_text()[-2_000:])

    def kill(self) -> None:
        """Kill it with SIGKILL, as a power cut would."""
        if self._node is not None:
            _end(self._node)
        self._node = None

    def restart(self) -> None:
        self.kill()
        self.start()

    def empty(self) -> None:
        """Delete the queues of all `kins`, so that none of them reaches the next test, and the
        broker does not grow."""
        with ThreadPoolExecutor(1) as thread:  # a loop of its own, besides that of the tests
            thread.submit(asyncio.run, self._empty()).result()
        self.kins = {"parley"}

    async def _empty(self) -> None:
        async with await aio_pika.connect(self.url, timeout=PATIENCE) as connection:
            channel = await connection.channel()
            for kin in self.kins:
                slices = (f"slice.{number}" for number in range(SLICES))
                for name in (*slices, *(f"channel.{one}" for one in _CHANNELS)):
                    await channel.queue_delete(f"{kin}.{name}")

    def set_policy(self, name: str, pattern: str, definition: Mapping[str, object]) -> None:
        """Apply this policy to all queues whose names match."""
        program = (str(BINARIES / "rabbitmqctl"), "--node", f"parley{self.port}@localhost")
        command = ("set_policy", name, pattern, json.dumps(definition), "--apply-to", "queues")
        run = subprocess.run(
            (*program, *command), env=self._surroundings, capture_output=True, check=False
        )
        assert run.returncode == 0, run.stderr.decode() + run.stdout.decode()

    def _answers(self) -> bool:
        """Return whether it speaks the protocol already: it opens its port a little before."""
        with (
            suppress(OSError),
            closing(socket.create_connection((HOST, self.port), _ASKED)) as wire,
        ):
            wire.sendall(b"AMQP\x00\x00\x09\x01")
            wire.settimeout(_ASKED)
            return wire.recv(8)[:1] == b"\x01"
        return False

    @property
    def _surroundings(self) -> dict[str, str]:
        here = self._folder
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(here),
            "ERL_EPMD_ADDRESS": HOST,
            "ERL_EPMD_PORT": str(self._mapper_port),
            "RABBITMQ_NODENAME": f"parley{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self._dist),
            "RABBITMQ_CONFIG_FILE": str(here / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(here / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(here / "mnesia"),
            "RABBITMQ_LOG_BASE": str(here / "log"),
            "RABBITMQ_PID_FILE": str(here / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +A 8 +sbwt none"
            ),
            "RUNNING_UNDER_SYSTEMD": "true",  # the process is the node, and not a shell around it
        }


def free_port() -> int:
    """Return a port that is free now, and that systems never assign as an ephemeral port."""
    while True:
        port = random.SystemRandom().choice(_UNUSED)
        with suppress(OSError), closing(socket.socket()) as one:
            one.bind((HOST, port))
            return port


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children with SIGKILL."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
