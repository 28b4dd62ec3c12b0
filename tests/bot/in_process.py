"""The command line on the data of a bot, run in this process."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from main import main


class Ended(NamedTuple):
    """The result of a command: its exit code, and its output."""

    code: int
    out: str
    err: str


def run_main(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str) -> Ended:
    """Run a command on the configuration and the data in a folder."""
    places = ("--config", str(folder / "config.json"), "--data", str(folder / "data"))
    capsys.readouterr()
    try:
        code = main([*places, *arguments])
    except SystemExit as end:  # of the parser
        code = int(end.code or 0)
    return Ended(code, *capsys.readouterr())
