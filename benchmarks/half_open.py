"""Connections that are opened and never say what they want: does somebody with the token still get
an answer, and do the other channels?

python -m benchmarks.half_open --connections 1100 --seconds 10

The bot runs as a person runs it, with the descriptors that a shell usually grants (1,024), with the
web channel beside the pipe, and with a model in another process that answers at once. All traffic
stays on 127.0.0.1, all connections are closed at the end. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import secrets
import selectors
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

from benchmarks.overhead import BOT, MODEL, Line, Pipe, cpu_of, memory_of, running

MOST, LONGEST = 5_000, 120.0
"""Upper limits of connections and seconds, whatever the options say."""
AGAIN = 100
"""Closed connections that are reopened in a tenth of a second, at most."""
DESCRIPTORS = 1_024
HALF = b"GET /api/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
PATIENCE = 30.0
"""Seconds after which an answer counts as missing."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one run: the slowest answers over HTTP and through the pipe in seconds (None:
    no answer), the bot's CPU as a share of one core, the growth of its logs and stderr in bytes,
    and the growth of its resident memory in MB."""

    connections: int
    opened: int
    page: float | None
    pipe: float | None
    cpu: float
    logged: int
    grown: float

    @property
    def line(self) -> Line:
        said = ", ".join(
            (
                f"page {_seconds(self.page)}",
                f"pipe {_seconds(self.pipe)}",
                f"CPU {self.cpu:.0%}",
                f"logs +{self.logged / 1e3:.1f} kB",
                f"memory {self.grown:+.0f} MB",
            )
        )
        wants = "page and pipe within 1 s, logs under 10 kB"
        return Line(f"{self.connections:,} half-open connections", said, wants)


def _seconds(value: float | None) -> str:
    return "no answer" if value is None else f"{value:.2f} s"


def half_open(connections: int = 1_100, seconds: float = 10.0) -> Outcome:
    """Hold that many connections open for that long, reopen those that are closed, and meanwhile
    send a request over HTTP with the token and one through the pipe every second."""
    connections, seconds = min(connections, MOST), min(seconds, LONGEST)
    _allow(connections + 200)
    token = secrets.token_urlsafe(32)
    with tempfile.TemporaryDirectory() as name, running(MODEL) as model:
        assert model.stdout is not None
        folder = Path(name)
        with _served(folder, model.stdout.readline().decode().strip(), token) as (bot, port):
            bot.ask("Hello!", "pipe")  # once this is answered, everything has started
            _ask(port, token)
            logged, memory = _logged(folder), memory_of(bot.process).resident
            cpu, start = cpu_of(bot.process), time.monotonic()
            with _holding(port, connections, seconds) as crowd:
                page, pipe = _answers(bot, port, token, start + seconds)
                spent = time.monotonic() - start
                used = (cpu_of(bot.process) - cpu) / 1e3 / spent
            grown = memory_of(bot.process).resident - memory
            written = _logged(folder) - logged
    return Outcome(connections, crowd.opened, page, pipe, used, written, grown)


def _allow(descriptors: int) -> None:
    """Allow this process that many descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < descriptors:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, max(hard, descriptors)))


@contextmanager
def _served(folder: Path, model: str, token: str) -> Iterator[tuple[Pipe, int]]:
    """Run a bot on both channels, with few descriptors and with its stderr in a file; yield its
    pipe and its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = folder / "config.json"
    settings = {"model": "gpt-4o-mini", "channels": {"web": True}, "web": {"port": port}}
    config.write_text(json.dumps(settings))
    places = ("--jsonl", "--config", str(config), "--data", str(folder / "data"))
    limited = ("sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "sh", *BOT, *places)
    given = {"OPENAI_BASE_URL": model, "OPENAI_API_KEY": "none", "PARLEY_WEB_TOKEN": token}
    with (
        (folder / "stderr").open("wb") as errors,
        running(limited, env={**os.environ, **given}, stdin=subprocess.PIPE, stderr=errors) as bot,
    ):
        yield Pipe(bot), port


def _logged(folder: Path) -> int:
    """Return the bytes in the logs and on stderr."""
    files = [folder / "stderr", *(folder / "data" / "logs").glob("*")]
    return sum(file.stat().st_size for file in files)


def _ask(port: int, token: str) -> float:
    """Send a request that needs the token; return the seconds until its answer. Raises OSError."""
    start = time.monotonic()
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", "/api/sessions", headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise OSError(f"HTTP status {answer.status}")
    finally:
        connection.close()
    return time.monotonic() - start


def _answers(bot: Pipe, port: int, token: str, end: float) -> tuple[float | None, float | None]:
    """Return the slowest answer of each channel until this time."""
    page: list[float] = []
    pipe: list[float] = []
    try:
        while time.monotonic() < end:
            page.append(_ask(port, token))
            pipe.append(_said(bot))
            time.sleep(max(0.0, min(1.0, end - time.monotonic())))
    except (OSError, ValueError):
        return None, max(pipe, default=None)
    return max(page), (None if pipe[-1] >= PATIENCE else max(pipe))


def _said(bot: Pipe) -> float:
    """Return the seconds that an answer through the pipe took."""
    start = time.monotonic()
    hearing = threading.Thread(target=bot.ask, args=("Hello!", "pipe"), daemon=True)
    hearing.start()
    hearing.join(PATIENCE)
    return time.monotonic() - start


class _Crowd(threading.Thread):
    """A thread that opens connections and holds them; `opened` counts them."""

    def __init__(self, port: int, connections: int, seconds: float) -> None:
        super().__init__(name="half-open", daemon=True)
        self.opened = 0
        self.is_there, self.leaving = threading.Event(), threading.Event()
        self._port, self._wanted = port, connections
        self._end = time.monotonic() + seconds + 3 * PATIENCE
        self._ways = selectors.DefaultSelector()

    def run(self) -> None:
        try:
            while not self.leaving.is_set() and time.monotonic() < self._end:
                self._open_missing()
                self.is_there.set()
                for key, _ in self._ways.select(0):
                    self._hear(key.fileobj)
                self.leaving.wait(0.1)
        finally:
            for key in tuple(self._ways.get_map().values()):
                self._close(key.fileobj)
            self._ways.close()
            self.is_there.set()

    def _open_missing(self) -> None:
        missing = self._wanted - len(self._ways.get_map())
        for _ in range(min(missing, AGAIN) if self.is_there.is_set() else missing):
            self._open()
            if self.leaving.is_set():
                return

    def _open(self) -> None:
        connection = socket.socket()
        connection.settimeout(1)
        try:
            connection.connect(("127.0.0.1", self._port))
            connection.send(HALF)
        except OSError:
            connection.close()
            return
        self.opened += 1
        self._ways.register(connection, selectors.EVENT_READ)

    def _hear(self, connection: object) -> None:
        assert isinstance(connection, socket.socket)
        with suppress(OSError):
            if connection.recv(4_096):
                return
        self._close(connection)

    def _close(self, connection: object) -> None:
        assert isinstance(connection, socket.socket)
        self._ways.unregister(connection)
        connection.close()


@contextmanager
def _holding(port: int, connections: int, seconds: float) -> Iterator[_Crowd]:
    crowd = _Crowd(port, connections, seconds)
    crowd.start()
    try:
        crowd.is_there.wait(PATIENCE)
        yield crowd
    finally:
        crowd.leaving.set()
        crowd.join(PATIENCE)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--connections", type=int, default=1_100)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    outcome = half_open(options.connections, options.seconds)
    line = outcome.line
    print(f"{line.what} ({outcome.opened:,} were opened): {line.value}; wanted: {line.target}")


if __name__ == "__main__":
    main()
