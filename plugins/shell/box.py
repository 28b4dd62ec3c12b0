"""A sandbox for commands (bubblewrap) with the chat's folder and the system's programs only: no
network, no home, none of the bot's environment, and no other processes."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from msgspec import Struct

from agent.tools.allowance import MEGABYTE
from agent.tools.child_process import end_group
from agent.tools.workspace import WRITABLE

INSIDE = "/workspace"
"""The path of the workspace inside the sandbox."""
PROGRAMS = "/usr/local/bin:/usr/bin:/bin"
_SYSTEM = (  # never a whole /usr: in a container, the bot itself may be there
    *("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec"),
    *("/usr/share", "/usr/local/bin", "/usr/local/lib", "/bin", "/sbin", "/lib", "/lib64"),
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime"),
)
_LIMITS = "ulimit -u 1000 || ulimit -p 1000; ulimit -f {blocks}; ulimit -v 4000000; ulimit -c 0"
"""Limits: processes (option names differ between shells, and root has no such limit), blocks of 512
or 1,024 bytes per file, kB of memory per process, no core dumps."""
_BLOCK, _MOST_BLOCKS = 512, 2_000_000
_FIRST = "echo 1000 > /proc/self/oom_score_adj"
"""The shell's first command: if the machine runs out of memory, the system kills the command and
not the bot."""
_SCRATCH = "200000000"  # bytes of `/tmp`, and of `/dev/shm`, which are in memory
_LATE = 10  # the niceness of a command, so that the bot has priority
_TICK = 0.2  # seconds between checks of a command's resource use
_REST = 10  # the pause after a check, as a multiple of its duration
_KEPT = 15_000  # bytes kept of the beginning and of the end of an output
_MOST = 20_000_000  # bytes of output after which the command is killed
MOST_PROCESSES = 500
_SPARE_MEMORY = 200 * MEGABYTE  # of the machine, to be left free; on a small one, a twentieth
_PATIENCE = 1.0  # seconds for reading output of processes that a command has left running


class CommandResult(Struct, frozen=True):
    """The result of a command. `status` is its exit code, negative for a signal; `ended` is the
    reason why it was killed, if it was; `gone` is the number of bytes omitted between `head` and
    `tail`."""

    status: int
    head: bytes
    tail: bytes
    gone: int
    ended: str = ""


def build_box_command(workspace: Path) -> list[str]:
    """Build the command line of a command in the sandbox: the workspace is readable, and `files/`
    writable."""
    shown = [part for path in _SYSTEM for part in ("--ro-bind-try", path, path)]
    files = (workspace / WRITABLE, f"{INSIDE}/{WRITABLE}")
    return [
        *("bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *shown,
        *("--proc", "/proc", "--dev", "/dev", "--size", _SCRATCH, "--tmpfs", "/dev/shm"),
        *("--size", _SCRATCH, "--tmpfs", "/tmp", "--remount-ro", "/dev"),
        *("--ro-bind", str(workspace), INSIDE, "--bind", *map(str, files)),
        *("--remount-ro", "/", "--chdir", str(files[1])),
    ]


def limit_command(command: str, room: int) -> list[str]:
    """Return a command for a shell that first sets its own limits, so that no file exceeds `room`
    bytes; limits that the system does not support are skipped."""
    blocks = min(_MOST_BLOCKS, room // _BLOCK)
    limits = f"{{ {_LIMITS.format(blocks=blocks)}; {_FIRST}; }} 2>/dev/null"
    return ["nice", "-n", str(_LATE), "sh", "-c", f'{limits}; exec sh -c "$1"', "sh", command]


def environment(home: str) -> dict[str, str]:
    """Return the environment of a command, which contains no secrets."""
    return {"PATH": PROGRAMS, "LANG": "C.UTF-8", "HOME": home}


async def is_there() -> bool:
    """Return whether bubblewrap is installed and works on this machine."""
    if shutil.which("bwrap") is None:
        return False
    trial = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    return (await run(trial, environment("/"), Path("/"), 10)).status == 0


Complaint = Callable[[int], str]
"""A check that returns the reason why the command with this first process must be killed, or ""; it
is called in a thread."""


async def run(
    arguments: Sequence[str],
    environment: dict[str, str],
    folder: Path,
    seconds: float,
    complaints: Sequence[Complaint] = (),
) -> CommandResult:
    """Run a program without input. It is killed with its process group after the time limit, on too
    much output, on a complaint, or when the caller is cancelled. Raises OSError."""
    program = shutil.which(arguments[0]) or arguments[0]  # by the bot's PATH, not the command's
    output = _Output()
    with _pipe() as (pipe, end):
        process = await asyncio.create_subprocess_exec(
            program,
            *arguments[1:],
            stdin=asyncio.subprocess.DEVNULL,
            stdout=end,
            stderr=end,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        end.close()
        try:
            watching = [asyncio.create_task(_watch(process.pid, one)) for one in complaints]
            ended = await _follow(process, output, pipe, seconds, watching)
        finally:
            await _kill(process)
    status = process.returncode or 0
    return CommandResult(status, bytes(output.head), output.tail, output.gone, ended)


@contextmanager
def _pipe() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Open a pipe; yield its read end and its write end. asyncio's own pipes would delay the wait
    for a process until all processes that it left running have closed them. uvloop closes a pipe
    that it was given a second time, when the number may belong to another thread's file."""
    out, end = os.pipe()
    os.set_blocking(out, False)
    with os.fdopen(out, "rb", buffering=0) as pipe, os.fdopen(end, "wb") as entry:
        yield pipe, entry


async def _follow(
    process: asyncio.subprocess.Process,
    output: _Output,
    pipe: IO[bytes],
    seconds: float,
    watching: Sequence[asyncio.Task[str]],
) -> str:
    """Read until the command ends; return the reason why it must be killed, if any."""
    reading = asyncio.create_task(output.read(pipe))
    waiting = asyncio.create_task(process.wait())
    try:
        async with asyncio.timeout(seconds):
            either = asyncio.FIRST_COMPLETED
            await asyncio.wait((reading, waiting, *watching), return_when=either)
            if not output.is_flood:  # it may continue with its output closed
                await asyncio.wait((waiting, *watching), return_when=either)
    except TimeoutError:
        return f"it took longer than {seconds:g} s"
    else:
        if not waiting.done() and (found := [one.result() for one in watching if one.done()]):
            return found[0]
        await asyncio.wait((reading,), timeout=_PATIENCE)
        return f"it wrote more than {_MOST // 1_000_000} MB" if output.is_flood else ""
    finally:
        tasks = (reading, waiting, *watching)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _watch(process: int, complaint: Complaint) -> str:
    """Return the first complaint about a command. Slow checks run less often."""
    while True:
        began = time.monotonic()
        if why := await asyncio.to_thread(complaint, process):
            return why
        await asyncio.sleep(max(_TICK, _REST * (time.monotonic() - began)))


async def _kill(process: asyncio.subprocess.Process) -> None:
    end_group(process.pid)  # including processes that it has left running
    await process.wait()


class _Output:
    """The beginning and the end of a command's output."""

    def __init__(self) -> None:
        self.head, self._end, self._total = bytearray(), bytearray(), 0

    @property
    def is_flood(self) -> bool:
        return self._total > _MOST

    @property
    def tail(self) -> bytes:
        return bytes(self._end[-_KEPT:])

    @property
    def gone(self) -> int:
        return self._total - len(self.head) - len(self.tail)

    async def read(self, pipe: IO[bytes]) -> None:
        loop, is_ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(pipe, is_ready.set)
        try:
            while not self.is_flood and await is_ready.wait():
                is_ready.clear()
                piece = pipe.read(65_536)
                if piece == b"":
                    return
                self._add(piece or b"")  # no data after a spurious wakeup
        finally:
            loop.remove_reader(pipe)

    def _add(self, piece: bytes) -> None:
        self._total += len(piece)
        room = _KEPT - len(self.head)
        self.head += piece[:room]
        self._end += piece[room:]
        del self._end[: -2 * _KEPT]


def overuse(process: int, megabytes: int) -> str:
    """Return a sentence on the resource that a process and its descendants exceed, or "". Without
    /proc nothing is known; processes that left the tree are not counted."""
    parents, memory = _processes()
    family, young = {process}, [process]
    while young:
        young = [one for parent in young for one in parents.get(parent, ())]
        family.update(young)
    if len(family) > MOST_PROCESSES:
        return f"it had more than {MOST_PROCESSES} processes"
    if sum(memory.get(one, 0) for one in family) > megabytes * MEGABYTE:
        return f"its processes took more than {megabytes:,} MB of memory (tools.shell_memory)"
    is_scarce = _is_scarce(_figures(Path("/proc/meminfo"), "MemTotal:", "MemAvailable:"))
    return "the machine was about to run out of memory" if is_scarce else ""


def _processes() -> tuple[dict[int, list[int]], dict[int, int]]:
    """Return the children of each process, and the bytes of memory that each has for itself or
    shares without a file."""
    children: dict[int, list[int]] = {}
    memory: dict[int, int] = {}
    for place in _folders("/proc"):
        if place.isdigit():
            parent, *sizes = _figures(
                Path("/proc", place, "status"), "PPid:", "RssAnon:", "RssShmem:"
            )
            children.setdefault(parent, []).append(int(place))
            memory[int(place)] = sum(sizes) * 1_024
    return children, memory


def _figures(file: Path, *names: str) -> list[int]:
    """Return the figures after these names at the beginning of lines; 0 for missing ones, as for a
    process that has just ended."""
    found = dict.fromkeys(names, 0)
    with suppress(OSError), file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            name, *rest = line.split() or [""]
            if name in found:
                found[name] = int(rest[0])
    return list(found.values())


def _is_scarce(figures: Sequence[int]) -> bool:
    total, available = (figure * 1_024 for figure in figures)
    return available < min(_SPARE_MEMORY, total // 20)


def _folders(path: str) -> Iterator[str]:
    with suppress(OSError):
        yield from os.listdir(path)
