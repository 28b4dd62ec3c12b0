"""The process in which patterns of the model are compiled and searched for.

It is started for one search (`agent/tools/text_lines.py`), with limits, since a few characters can
describe more than a machine holds. It imports nothing of Parley. Argument: the folder of the
package `regex`.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def main() -> None:
    """Answer each frame with a frame: the pattern with an error or none, lines with their
    matches."""
    sys.path.insert(0, sys.argv[1])
    import regex  # noqa: PLC0415 - found only now

    wanted = json.loads(_read() or b"{}")
    try:
        flags = regex.IGNORECASE if wanted["ignore_case"] else 0
        expression = regex.compile(wanted["pattern"], flags, cache_pattern=False)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        _write({"fault": str(error)})
        return
    _write({})
    while (text := _read()) is not None:
        found = enumerate(map(expression.search, text.decode().split("\n")))
        _write({"hits": [(number, match.start()) for number, match in found if match]})


def _read() -> bytes | None:
    head = sys.stdin.buffer.read(4)
    return sys.stdin.buffer.read(int.from_bytes(head, "big")) if len(head) == 4 else None


def _write(answer: dict[str, Any]) -> None:
    content = json.dumps(answer).encode()
    sys.stdout.buffer.write(len(content).to_bytes(4, "big") + content)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    try:
        main()
    except MemoryError:
        _write({"is_too_large": True})
