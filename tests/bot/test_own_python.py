"""Parley started with a Python that has none of its packages."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("processes")

ROOT = Path(__file__).parents[2]


def start(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """main.py in a folder of its own; -S hides all packages that are installed."""
    shutil.copy(ROOT / "main.py", folder)
    return subprocess.run(
        [sys.executable, "-S", "main.py", *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_goes_on_with_the_python_that_has_them(tmp_path: Path) -> None:
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "went on: $*"\nexit 7\n')
    python.chmod(0o755)
    started = start(tmp_path, "ask", "What is new?")
    assert (started.stdout, started.returncode) == ("went on: main.py ask What is new?\n", 7)


def test_without_one_it_says_how_to_install_them(tmp_path: Path) -> None:
    started = start(tmp_path, "doctor")
    assert started.stderr.startswith("Parley's packages are not installed: run `make run`")
    assert started.returncode == 1
