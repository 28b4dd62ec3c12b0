"""The process in which a script reads foreign content: it limits itself, and then runs the script.

`agent/tools/child_process.py` starts it; it imports nothing of Parley. Arguments: megabytes of
memory, seconds of CPU time, bytes of a file that may be written, the script, and its arguments.
"""

from __future__ import annotations

import runpy
import sys

MEMORY = 4
"""The exit code for insufficient memory."""


def main() -> None:
    """Limit this process, and run the script in it."""
    megabytes, seconds, room = map(int, sys.argv[1:4])
    del sys.argv[:4]
    _apply_limits(megabytes, seconds, room)
    runpy.run_path(sys.argv[0], run_name="__main__")


def _apply_limits(megabytes: int, seconds: int, room: int) -> None:
    try:
        import resource  # noqa: PLC0415
    except ImportError:  # on Windows only the time limit applies, enforced by the parent
        return
    limits = {"RLIMIT_AS": megabytes << 20, "RLIMIT_CPU": seconds, "RLIMIT_CORE": 0}
    limits["RLIMIT_FSIZE"] = room
    for name, limit in limits.items():
        resource.setrlimit(getattr(resource, name), (limit, limit))


if __name__ == "__main__":
    try:
        main()
    except MemoryError:
        sys.exit(MEMORY)
