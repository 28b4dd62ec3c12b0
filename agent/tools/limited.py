"""The process in which a script reads what a stranger made: it takes limits upon itself, and runs
the script then.

It is started by `agent/tools/apart.py`, and imports nothing of Parley. Arguments: megabytes of
memory, seconds of computing, bytes of a file that may be written, the script, and its arguments.
"""

from __future__ import annotations

import runpy
import sys

MEMORY = 4
"""The exit code where there was too little memory."""


def main() -> None:
    """Make of this process one that runs the script and can do little else."""
    megabytes, seconds, room = map(int, sys.argv[1:4])
    del sys.argv[:4]
    _take_limits(megabytes, seconds, room)
    runpy.run_path(sys.argv[0], run_name="__main__")


def _take_limits(megabytes: int, seconds: int, room: int) -> None:
    try:
        import resource  # noqa: PLC0415
    except ImportError:  # on Windows the limit of time alone holds, which is kept from outside
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
