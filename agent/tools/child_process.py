"""Processes that read foreign content, with limits of memory and time, and without access to the
bot ([why](../../docs/decisions/0011-foreign-patterns-in-a-process-of-their-own.md)). Each may take
a gigabyte, so a semaphore lets only a few run at a time; one is ended together with its
children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from agent.tools import ToolError
from agent.tools.limited import MEMORY

HAS_GROUPS = hasattr(os, "killpg")
"""True if a process started in its own session leads a group. Windows has no groups: its children
keep running there."""
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


def end_group(process: int, number: int = KILL) -> None:
    """Send a signal to a process and its group; an ended one is ignored."""
    if HAS_GROUPS:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process, number)
    else:
        with suppress(OSError):  # Windows reports an ended process as an invalid number
            os.kill(process, number)


AT_ONCE = 4
"""The maximum number of processes at a time."""
PATIENCE = 60.0
"""Seconds for which a caller waits for a place."""
BUSY = "Too many documents and pages are being read at once; try again in a minute."


class _Taken(threading.local):
    """A mark of a thread that has a place: nested reads need no second one."""

    value = False


_free, _taken = threading.BoundedSemaphore(AT_ONCE), _Taken()


@contextmanager
def acquire_slot(patience: float | None = PATIENCE) -> Iterator[None]:
    """Wait in this thread for a place (None: without a limit), and hold it. Raises ToolError if
    none becomes free."""
    if _taken.value:
        yield
        return
    if not _free.acquire(timeout=patience):
        raise ToolError(BUSY)
    _taken.value = True
    try:
        yield
    finally:
        _taken.value = False
        _free.release()


_LIMITED = Path(__file__).with_name("limited.py")
SLOW = tuple(-getattr(signal, name, 1_000) for name in ("SIGXCPU", "SIGKILL"))
"""The exit codes of a process that took too long."""
_NEEDED = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}
ALONE: Mapping[str, Any] = {"env": _NEEDED, "cwd": "/", "start_new_session": True}
"""Arguments that give such a process nothing of the bot's environment."""

_MEGABYTES, _SECONDS = 400, 10  # the base for any content
_MOST_OUTPUT = 2_000  # characters of a process's error output
_TOO_MUCH = "takes more than {0.megabytes} MB of memory or {0.seconds} seconds to read"


class ReaderProcess(Struct, frozen=True):
    """A script, with its limits: memory, seconds of CPU time, and the bytes that it may write into
    a file."""

    script: Path
    megabytes: int
    seconds: int
    room: int = 0

    def command(self, *arguments: str, flags: tuple[str, ...] = ()) -> list[str]:
        limits = map(str, (self.megabytes, self.seconds, self.room))
        script = (str(_LIMITED), *limits, str(self.script))
        return [sys.executable, "-I", *flags, *script, *arguments]

    def run(
        self,
        *arguments: str,
        patience: float | None = None,
        waiting: float | None = PATIENCE,
        **streams: Any,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run it in a thread, as soon as there is a place. `streams` are arguments of
        `subprocess.run`; `patience` is the limit in seconds of wall-clock time, `waiting` that for
        the place. Raises TimeoutExpired, ToolError."""
        with acquire_slot(waiting):
            return subprocess.run(
                self.command(*arguments),
                timeout=patience or self.seconds,
                check=False,
                **ALONE,
                **streams,
            )


class ReaderFailure(Exception):
    """Raised if a process has failed to read its content. The reason is for the log."""

    def __init__(self, reason: str, *, takes_too_much: bool = False) -> None:
        super().__init__(reason)
        self.takes_too_much = takes_too_much


def run_limited(script: Path, content: bytes, *arguments: str) -> bytes:
    """Return the output of a script that gets the content as its standard input, with limits that
    depend on its size. It waits for a place without a limit. Raises ReaderFailure."""
    size = len(content) / 1e6
    reader = ReaderProcess(script, int(_MEGABYTES + 8 * size), int(_SECONDS + size / 4))
    try:
        done = reader.run(
            *arguments,
            patience=2 * reader.seconds,
            waiting=None,
            input=content,
            capture_output=True,
        )
    except subprocess.TimeoutExpired:
        raise ReaderFailure(_TOO_MUCH.format(reader), takes_too_much=True) from None
    if done.returncode in (*SLOW, MEMORY):
        raise ReaderFailure(_TOO_MUCH.format(reader), takes_too_much=True)
    if done.returncode:
        errors = done.stderr.decode("utf-8", "replace").strip()
        raise ReaderFailure(f"exit code {done.returncode}: {errors[-_MOST_OUTPUT:]}")
    return done.stdout
