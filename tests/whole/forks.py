"""Processes of the bot that skip its imports: a server loads the program once and forks itself.

A process of its own in every other respect: it executes `main.py` with its own arguments,
environment and streams, and can be killed. The imports were most of the CPU time of a start.
"""

from __future__ import annotations

import asyncio
import atexit
import fcntl
import gc
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import termios
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from pkgutil import iter_modules
from tempfile import TemporaryFile, mkdtemp
from typing import Any

from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
RUN_MAIN = f"""
import runpy, sys
sys.argv[0] = {str(ROOT / "main.py")!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""The usual code of a process."""
_LIMIT = 1 << 17
"""Bytes of a request: arguments and environment."""
_PID = 8
"""Bytes of the number of a process."""


class Fork:
    """A process that the server has forked; it has what tests use of an `asyncio` process."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None
        self._ended = asyncio.create_task(self._await_end(connection))

    async def _await_end(self, connection: socket.socket) -> int:
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        code = await reader.read()
        writer.close()
        self.returncode = int(code or -signal.SIGKILL)
        return self.returncode

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    async def communicate(self, given: bytes | None = None) -> tuple[bytes, bytes]:
        """Write to stdin and close it; return the output of stdout and stderr at the end."""
        if self.stdin is not None:
            self.stdin.write(given or b"")
            self.stdin.close()
        assert self.stdout is not None
        assert self.stderr is not None
        out, errors = await asyncio.gather(self.stdout.read(), self.stderr.read())
        await self.wait()
        return out, errors

    def send_signal(self, number: int) -> None:
        if self.returncode is not None:
            raise ProcessLookupError
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


async def fork(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    program: str = RUN_MAIN,
    *,
    streams: tuple[int, int, int] = (PIPE, PIPE, PIPE),
    folder: Path = ROOT,
    has_terminal: bool = False,
) -> Fork:
    """Start a program in a folder. Each stream is a pipe, DEVNULL, or an open file. If it
    `has_terminal`, its input controls the process."""
    pipes = {number: os.pipe() for number, stream in enumerate(streams) if stream == PIPE}
    nothing = os.open(os.devnull, os.O_RDWR)
    theirs = [nothing if stream == DEVNULL else stream for stream in streams]
    for number, ends in pipes.items():
        theirs[number] = ends[number > 0]
    connection, pid = _request(
        program,
        theirs,
        arguments=[*arguments],
        environ={**environ},
        folder=str(folder),
        has_terminal=has_terminal,
    )
    for descriptor in (nothing, *(theirs[number] for number in pipes)):
        os.close(descriptor)
    made = Fork(connection, pid)
    made.stdin = await _writer(pipes[0][1]) if 0 in pipes else None
    made.stdout = await _reader(pipes[1][0]) if 1 in pipes else None
    made.stderr = await _reader(pipes[2][0]) if 2 in pipes else None
    return made


def run(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    program: str = RUN_MAIN,
    *,
    given: bytes = b"",
    stdout: int = PIPE,
) -> subprocess.CompletedProcess[str]:
    """Execute a program to its end with this input; return its output. `stdout` may be an open file
    that is not read here."""
    with TemporaryFile() as stdin, TemporaryFile() as out, TemporaryFile() as errors:
        stdin.write(given)
        stdin.seek(0)
        streams = [stdin.fileno(), out.fileno() if stdout == PIPE else stdout, errors.fileno()]
        fields = {"arguments": [*arguments], "environ": {**environ}, "folder": str(ROOT)}
        connection, pid = _request(program, streams, **fields)
        with connection:
            connection.settimeout(2 * PATIENCE)
            try:
                code = int(connection.recv(_LIMIT) or -signal.SIGKILL)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise
        texts = [os.pread(one.fileno(), 1 << 26, 0).decode() for one in (out, errors)]
        return subprocess.CompletedProcess(arguments, code, *texts)


class _Output(asyncio.StreamReaderProtocol):
    """The reader of a pipe, which is closed at its end."""

    def eof_received(self) -> bool:
        super().eof_received()
        return False


async def _reader(descriptor: int) -> asyncio.StreamReader:
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(limit=1 << 26)
    pipe = os.fdopen(descriptor, "rb", 0)
    await loop.connect_read_pipe(lambda: _Output(reader), pipe)
    return reader


async def _writer(descriptor: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    pipe = os.fdopen(descriptor, "wb", 0)
    transport, _ = await loop.connect_write_pipe(lambda: protocol, pipe)
    return asyncio.StreamWriter(transport, protocol, None, loop)


def _request(program: str, streams: Sequence[int], **fields: Any) -> tuple[socket.socket, int]:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(_server())
    request = json.dumps({"code": program, **fields}).encode() + b"\n"
    socket.send_fds(connection, [request], streams)
    pid = connection.recv(_PID, socket.MSG_WAITALL)  # the exit code may follow at once
    return connection, int.from_bytes(pid, "big")


@cache
def _server() -> str:
    """Start the server; return its address once it accepts connections."""
    address = f"{mkdtemp(prefix='parley-forks-')}/socket"
    command = (sys.executable, "-m", "tests.whole.forks", address)
    server = subprocess.Popen(command, cwd=ROOT, stdin=PIPE, stdout=PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    server.stdout.close()
    server.stdout = None
    atexit.register(server.communicate)
    return address


_NAMES = (
    *("main", "agent.models.openai_client", "apscheduler.schedulers.asyncio", "babel.dates"),
    *("babel.messages.pofile", "genai_prices.data", "tiktoken_ext", "uvloop"),
)
"""Modules that import most of what a start and a first answer import, with those of features."""


def _load() -> None:
    for name in _NAMES:
        import_module(name)
    for part in ("feature", "process", "command_line", "monitoring"):
        [*import_module("plugins.features").find_modules(part)]
    for module in iter_modules([str(ROOT / "plugins/builtin")]):
        import_module(f"plugins.builtin.{module.name}")


class _Server:
    """The server, in its own process."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(address)
        self.listener.listen(64)
        self.running: dict[int, tuple[int, socket.socket]] = {}

    def serve(self) -> dict[str, Any]:
        """Fork for each request until stdin ends; return the request in the forked process."""
        gc.freeze()
        os.write(1, b"ready\n")
        with selectors.DefaultSelector() as selector:
            selector.register(self.listener, selectors.EVENT_READ)
            selector.register(0, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fd in self.running:
                        selector.unregister(key.fd)
                        self._report_end(key.fd)
                    elif key.fd:
                        number, request = self._fork()
                        if request:
                            return request
                        selector.register(number, selectors.EVENT_READ)
                    else:
                        shutil.rmtree(Path(self.address).parent)
                        sys.exit()

    def _fork(self) -> tuple[int, dict[str, Any]]:
        """Return the descriptor of a new process, or the request in that process."""
        connection, _ = self.listener.accept()
        request, streams, _, _ = socket.recv_fds(connection, _LIMIT, 3)
        while not request.endswith(b"\n"):
            request += connection.recv(_LIMIT)
        pid = os.fork()
        if not pid:
            for number, descriptor in enumerate(streams):
                os.dup2(descriptor, number)
            for descriptor in (*streams, *self.running):
                os.close(descriptor)
            for one in (self.listener, connection, *(c for _, c in self.running.values())):
                one.close()
            return 0, json.loads(request)
        for descriptor in streams:
            os.close(descriptor)
        connection.send(pid.to_bytes(_PID, "big"))
        watched = os.pidfd_open(pid)
        self.running[watched] = pid, connection
        return watched, {}

    def _report_end(self, watched: int) -> None:
        pid, connection = self.running.pop(watched)
        os.close(watched)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with connection, suppress(OSError):  # a test that was killed
            connection.send(b"%d" % code)


def _prepare(asked: dict[str, Any]) -> None:
    """Give the forked process what its request asks for."""
    if asked.get("has_terminal"):
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())
    os.environ.clear()
    os.environ.update(asked["environ"])
    time.tzset()
    os.chdir(asked["folder"])
    sys.argv[1:] = asked["arguments"]
    sys.path[0] = str(ROOT)


if __name__ == "__main__":
    _load()
    _asked = _Server(sys.argv[1]).serve()
    _prepare(_asked)
    exec(_asked["code"], {"__name__": "__main__"})
