"""Tests of the version, which is the same everywhere, and begins the changelog."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import main
from bot.app import VERSION

ROOT = Path(__file__).parents[2]


def test_the_command_line_and_the_doctor_tell_the_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main.main(["--version"])
    assert capsys.readouterr().out == f"Parley {VERSION}\n"
    main.main(["--config", f"{tmp_path}/config.json", "--data", f"{tmp_path}/data", "doctor"])
    assert capsys.readouterr().out.startswith(f"Parley {VERSION}\n")


def test_the_newest_version_of_the_changelog_is_this_one_and_the_numbers_go_down() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    versions = re.findall(r"^## (\d+)\.(\d+)\.(\d+)(?: \(not released yet\))?$", text, re.M)
    assert ".".join(versions[0]) == VERSION
    assert versions == sorted(versions, key=lambda parts: [*map(int, parts)], reverse=True)
