"""The guards of tests/conftest.py: what no test can do, and what CI does not let pass."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SKIPPED = "import pytest\ndef test_never(): pytest.skip('no wheel')\n"
LEFT_OUT = "import pytest\npytest.importorskip('no_such_module')\ndef test_never(): ...\n"


@pytest.mark.parametrize("host", ["example.com", "8.8.8.8", "10.0.0.1", "::ffff:8.8.8.8"])
def test_a_test_cannot_reach_another_machine(host: str) -> None:
    with pytest.raises(PermissionError, match="only this machine"):
        socket.create_connection((host, 80), timeout=1)


def test_no_key_is_there_to_pay_with() -> None:
    assert not [name for name in os.environ if name.startswith("OPENAI_")]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("source", [SKIPPED, LEFT_OUT])
@pytest.mark.parametrize(("ci", "fails"), [("true", True), ("", False)])
def test_a_skip_fails_in_ci_and_only_there(
    tmp_path: Path, source: str, ci: str, fails: bool
) -> None:
    (tmp_path / "test_skips.py").write_text(source)
    (tmp_path / "test_runs.py").write_text("def test_runs(): ...\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [*command, "--rootdir", str(tmp_path), str(tmp_path)],
        env={**os.environ, "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )
    assert bool(ran.returncode) is fails, ran.stdout
    assert ("In CI a skipped test is a failed one" in ran.stdout) is fails
