"""Parley as one package of its own.

The application is in `_app`, as it is in a checkout: its folders are found by the program alone,
and by nothing else that is installed beside it.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """Run the program that `_app` holds; the command `parley`."""
    sys.path.insert(0, str(Path(__file__).resolve().with_name("_app")))
    from bot.own_python import end_silently  # noqa: PLC0415 - it is found only now

    end_silently()
    from bot import early as steps  # noqa: PLC0415 - what it needs takes longer to load

    steps.begin_loading()
    early = steps.open_input(sys.argv[1:])  # before what takes long to load
    from main import main as run  # noqa: PLC0415

    return run(early=early)
