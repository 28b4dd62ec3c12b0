"""`python moved_clock.py 2026-12-01T07:58:00+01:00 main.py …`: a program whose clock shows this
time when it starts, and runs on from there."""

from __future__ import annotations

import runpy
import sys
from datetime import datetime
from pathlib import Path

import time_machine

if __name__ == "__main__":
    at, *sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(sys.argv[0]).parent)  # as if the program were started directly
    with time_machine.travel(datetime.fromisoformat(at), tick=True):
        runpy.run_path(sys.argv[0], run_name="__main__")
