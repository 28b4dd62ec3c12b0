"""The bot as a script runs it: `python main.py --jsonl`, a real process with two pipes.

async with talking(tmp_path, endpoint) as bot:
    assert (await bot.says("Hi"))["text"] == "Hello!"
    assert await bot.ended() == 0
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from io import StringIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Protocol

from main import main
from tests.waiting import PATIENCE
from tests.whole.forks import RUN_MAIN, Fork, fork, run

AFRESH = 'exec "$@"'
"""A `shell` for a process that imports everything itself."""

MAIN = Path(__file__).parents[2] / "main.py"

Json = dict[str, Any]
Process = asyncio.subprocess.Process | Fork


class Endpoint(Protocol):
    """A server in place of the model's."""

    @property
    def base_url(self) -> str: ...


class BotProcess:
    """A running bot. `out` are the lines that it wrote, `errors` the text of its stderr."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        self.process, self.stdin = process, process.stdin
        self.out: list[bytes] = []
        self.errors = ""
        self._arrived = asyncio.Condition()
        self._reading = asyncio.gather(self._read(process.stdout), self._hear(process.stderr))

    async def _read(self, stdout: asyncio.StreamReader | None) -> None:
        while stdout and (line := await stdout.readline()):
            async with self._arrived:
                self.out.append(line)
                self._arrived.notify_all()

    async def _hear(self, stderr: asyncio.StreamReader | None) -> None:
        while stderr and (line := await stderr.readline()):
            self.errors += line.decode()

    @property
    def lines(self) -> list[Json]:
        """Return its output, parsed; a line truncated by a kill is left out."""
        return [json.loads(line) for line in self.out if line.endswith(b"\n")]

    @property
    def replies(self) -> list[Json]:
        return [line for line in self.lines if "reply_to" in line]

    @property
    def is_over(self) -> bool:
        """Return whether everything that it wrote before its end has been read."""
        return self._reading.done()

    async def write(self, data: bytes) -> None:
        """Write raw bytes to its stdin, also if the process is dead."""
        with suppress(ConnectionError, RuntimeError):  # uvloop raises RuntimeError
            self.stdin.write(data)
            await self.stdin.drain()

    async def tell(self, text: str, **fields: object) -> None:
        """Send a message without waiting for its answer."""
        await self.write(json.dumps({"text": text, **fields}).encode() + b"\n")

    async def says(self, text: str, **fields: object) -> Json:
        """Send a message and return the reply; the text is its id unless one is given."""
        fields.setdefault("id", text)
        await self.tell(text, **fields)
        return await self.reply_to(fields["id"])

    async def reply_to(self, message: object) -> Json:
        """Wait for the reply to the message with this id, and return it."""
        return await self.line(lambda line: line.get("reply_to") == message)

    async def line(self, is_needed: Callable[[Json], bool]) -> Json:
        """Wait for the first line of this kind, and return it."""

        def found() -> Json | None:
            return next((line for line in self.lines if is_needed(line)), None)

        await self.until(found)
        line = found()
        assert line is not None
        return line

    async def until(self, is_so: Callable[[], object]) -> None:
        """Wait until a condition holds; it is checked after each line. Fails if the process
        ends."""

        async def wait() -> None:
            async with self._arrived:
                await self._arrived.wait_for(is_so)

        waiting = asyncio.create_task(wait())
        ways = (waiting, self._reading)
        try:
            await asyncio.wait(ways, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        assert is_so(), f"it did not come; the bot said {self.out} and {self.errors}"

    async def ended(self) -> int:
        """Close its stdin; return the exit code once all its output has been read."""
        self.stdin.close()
        return await self.gone()

    async def gone(self) -> int:
        """Wait for its end, whatever the cause, while it continues to write; return the exit
        code."""
        said = -1
        while not self._reading.done() and said < (said := len(self.out)):
            await asyncio.wait((self._reading,), timeout=PATIENCE)
        assert self._reading.done(), f"it does not end; it wrote {self.out} and {self.errors}"
        await self._reading
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()

    async def lives(self, seconds: float) -> None:
        """Let it run for this time, unless it ends before."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.gone()

    async def kill(self) -> None:
        """Kill it with SIGKILL."""
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.gone()


@asynccontextmanager
async def talking(  # noqa: PLR0913 - one for each property of a process
    folder: Path,
    endpoint: Endpoint | None = None,
    settings: Mapping[str, Any] | None = None,
    *,
    arguments: tuple[str, ...] = ("--jsonl",),
    shell: str = "",
    program: str = RUN_MAIN,
    stdout: int = PIPE,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[BotProcess]:
    """Run a bot on `folder`, which may be one that another bot has used; kill it if it still runs
    at the end.

    `program` is forked (`forks`), unless there is a `shell` line, which starts the command "$@";
    `stdout` may be a file descriptor that is not read here; `environ` are additions to the
    environment.
    """
    if settings is not None or not (folder / "config.json").exists():
        config = {"model": "gpt-4o-mini", **(settings or {})}
        (folder / "config.json").write_text(json.dumps(config))
    surroundings = _surroundings(endpoint) | dict(environ or {})
    command, streams = (*_places(folder), *arguments), (PIPE, stdout, PIPE)
    process: Process
    if shell:
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", shell, "sh", sys.executable, str(MAIN), *command),
            stdin=PIPE,
            stdout=stdout,
            stderr=PIPE,
            env=surroundings,
            limit=1 << 26,
        )
    else:
        process = await fork(command, surroundings, program, streams=streams)
    bot = BotProcess(process)
    try:
        yield bot
    finally:
        await bot.kill()
        with suppress(ConnectionError):
            bot.stdin.close()
            await bot.stdin.wait_closed()


def _places(folder: Path) -> tuple[str, ...]:
    return ("--config", str(folder / "config.json"), "--data", str(folder / "data"))


def _surroundings(endpoint: Endpoint | None) -> dict[str, str]:
    """Return this environment with an endpoint: the given one, or one without a server."""
    url = endpoint.base_url if endpoint else "http://127.0.0.1:9/v1"
    return os.environ | {"OPENAI_API_KEY": "test-key", "OPENAI_BASE_URL": url}


def run_command(
    folder: Path, *arguments: str, stdin: str = "", stdout: int = PIPE
) -> subprocess.CompletedProcess[str]:
    """Return the output of the command line, on the data that `talking` uses there; `stdout` may be
    a file descriptor that is not read here."""
    command = (*_places(folder), *arguments)
    return run(command, os.environ, given=stdin.encode(), stdout=stdout)


def run_here(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Return the same as `run_command`, without a process: for a start that fails."""
    before = sys.stdin, sys.stdout, sys.stderr
    with open(os.devnull) as stdin, TemporaryFile("w+") as stdout, StringIO() as stderr:
        sys.stdin, sys.stdout, sys.stderr = stdin, stdout, stderr
        try:
            code = main([*_places(folder), *arguments])
        finally:
            sys.stdin, sys.stdout, sys.stderr = before
        stdout.seek(0)
        return subprocess.CompletedProcess(arguments, code, stdout.read(), stderr.getvalue())
