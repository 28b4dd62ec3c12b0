"""Processes that read what strangers made, under limits of memory and time, and that know nothing
of the bot: documents, pages, mail, and lines that a pattern of the model is searched for in
([why](../../docs/decisions/0011-foreign-patterns-in-a-process-of-their-own.md)).

Places for the processes that read what strangers have made: documents, pages, and lines that a
pattern is searched for in. Each may take a gigabyte, so that only a few of them run at a time,
whoever wants them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from agent.tools import ToolError
from agent.tools.limited import MEMORY

AT_ONCE = 4
"""Processes that run at a time."""
PATIENCE = 60.0
"""Seconds for which a place is waited for."""
BUSY = "Too many documents and pages are being read at once; try again in a minute."


class _Taken(threading.local):
    """A mark of a thread that has a place: what it reads on the way needs no second one."""

    value = False


_free, _taken = threading.BoundedSemaphore(AT_ONCE), _Taken()


@contextmanager
def take_place(patience: float | None = PATIENCE) -> Iterator[None]:
    """Wait in this thread for a place (None: as long as it takes), and have it. Raises ToolError
    where none becomes free."""
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
"""The exit codes where it took too long."""
_NEEDED = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}  # by Windows
ALONE: Mapping[str, Any] = {"env": _NEEDED, "cwd": "/", "start_new_session": True}
"""Arguments by which such a process gets nothing of ours."""

_MEGABYTES, _SECONDS = 400, 10  # for reading nothing
_SAID = 2_000  # characters of a process's last words
_TOO_MUCH = "takes more than {0.megabytes} MB of memory or {0.seconds} seconds to read"


class ReaderProcess(Struct, frozen=True):
    """A script, the memory that it may have, the seconds of computing, and the bytes that it may
    write into a file."""

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
        """Run it, as soon as there is a place for it, for a thread. `streams` are arguments of
        `subprocess.run`; `patience` are seconds by the clock, `waiting` those for the place.
        Raises TimeoutExpired, ToolError."""
        with take_place(waiting):
            return subprocess.run(
                self.command(*arguments),
                timeout=patience or self.seconds,
                check=False,
                **ALONE,
                **streams,
            )


class ReaderFailure(Exception):
    """A process has not read what it was given. Why is for the log."""

    def __init__(self, reason: str, *, takes_too_much: bool = False) -> None:
        super().__init__(reason)
        self.takes_too_much = takes_too_much


def read_apart(script: Path, content: bytes, *arguments: str) -> bytes:
    """Return the output of a script that gets the content as its standard input, and limits by its
    size; whatever else is read has its place first. Raises ReaderFailure."""
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
        said = done.stderr.decode("utf-8", "replace").strip()
        raise ReaderFailure(f"exit code {done.returncode}: {said[-_SAID:]}")
    return done.stdout
