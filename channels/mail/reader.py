"""The process in which a larger mail is read.

Its standard input is the mail, its output the `Letter` in MessagePack. Arguments: an id for a
message without one, and the bot's address. The modules of mail are imported without their packages'
other imports, which would take three times as long as reading the mail.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import msgspec


def main() -> None:
    root = Path(__file__).parents[2]
    for name in ("channels", "channels.mail"):
        package = ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")))]
        sys.modules[name] = package
    from channels.mail.reading import read  # noqa: PLC0415 - it is found only now

    letter = read(sys.stdin.buffer.read(), *sys.argv[1:])
    sys.stdout.buffer.write(msgspec.msgpack.encode(letter))


if __name__ == "__main__":
    main()
