"""The health check of the bot in this container: exit code 0 where it is well. Asked every half a
minute, so it imports next to nothing.

`HEALTH_ADDRESS` is the address that is asked. Where it is empty (a bot without the web page), it is
enough that a bot holds the data folder. (The names of settings, and they alone, begin with PARLEY.)
"""

import os
import sys

PORT = os.environ.get("PARLEY_WEB__PORT", "8080")
ADDRESS = os.environ.get("HEALTH_ADDRESS", f"http://127.0.0.1:{PORT}/ready")
DATA = os.environ.get("HEALTH_DATA", "/data")


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
