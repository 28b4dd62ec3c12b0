"""One version, told everywhere, and the changelog begins with it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from bot.app import VERSION
from tests.whole.process import MAIN, run_command

ROOT = Path(__file__).parents[2]


def test_the_command_line_and_the_doctor_tell_the_version(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, MAIN, "--version"], capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout == f"Parley {VERSION}\n"
    assert run_command(tmp_path, "doctor").stdout.startswith(f"Parley {VERSION}\n")


def test_the_newest_version_of_the_changelog_is_this_one_and_the_numbers_go_down() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    versions = re.findall(r"^## (\d+)\.(\d+)\.(\d+)$", text, re.M)
    assert ".".join(versions[0]) == VERSION
    assert versions == sorted(versions, key=lambda parts: [*map(int, parts)], reverse=True)
