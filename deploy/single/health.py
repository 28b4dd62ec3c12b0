"""The health check of the bot in this container: exit code 0 where it is well. Asked every half a
minute, so it imports next to nothing.

`PARLEY_HEALTH` is the address that is asked. Where it is empty (a bot without the web page), it is
enough that a bot holds the data folder."""

import os
import sys

ADDRESS = os.environ.get("PARLEY_HEALTH", "http://127.0.0.1:8080/ready")
DATA = os.environ.get("PARLEY_DATA", "/data")


def answers(address: str) -> bool:
    """Return whether what is asked there says that it is ready."""
    import urllib.request  # noqa: PLC0415 - slow, and nothing for a bot without the page

    try:
        with urllib.request.urlopen(address, timeout=4) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def holds(folder: str) -> bool:
    """Return whether a bot holds the data folder: looked up, and not tried, which could keep one
    out."""
    try:
        inode = os.stat(folder).st_ino
        with open("/proc/locks", encoding="ascii") as locks:
            return any("FLOCK" in line and f":{inode} " in line for line in locks)
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(not (answers(ADDRESS) if ADDRESS else holds(DATA)))
