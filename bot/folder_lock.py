"""The lock that keeps a second bot off a data folder: the only place that locks files.

The lock is on the folder itself, so that it holds whatever is deleted in it; the file `lock` is for
systems and file systems that can't lock a folder (Windows), and for an older Parley.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

if sys.platform != "win32":
    import fcntl


@contextmanager
def hold_alone(folder: Path) -> Iterator[None]:
    """Hold a folder that is there. Raises BlockingIOError where somebody else does, and OSError."""
    with ExitStack() as stack:
        try:
            stack.enter_context(FileLock(folder / "lock", timeout=0))
        except Timeout:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK)) from None
        stack.enter_context(_lock(folder))
        yield


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise BlockingIOError(error.errno, error.strerror) from None
        yield
    finally:
        os.close(descriptor)
