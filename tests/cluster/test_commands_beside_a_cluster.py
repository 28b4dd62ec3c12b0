"""What the command line does to a bot of several processes that run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cluster.cluster_processes import cluster_of, until_joined
from tests.fakes.openai_server import OpenAIServer
from tests.whole.process import MAIN


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    places = ("--config", str(folder / "config.json"), "--data", str(folder / "data"))
    return subprocess.run(
        [sys.executable, str(MAIN), *places, *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )


async def test_nothing_is_moved_or_restored_under_processes_that_run(
    tmp_path: Path, servers: Mapping[str, Any], postgresql: str
) -> None:
    saved = tmp_path / "saved"
    async with (
        OpenAIServer([]) as endpoint,
        cluster_of(tmp_path, endpoint, servers, workers=1) as processes,
    ):
        await until_joined(postgresql, 1)
        assert command(tmp_path, "backup", str(saved)).returncode == 0, "it may run meanwhile"
        for arguments in (
            ("restore", str(saved)),
            ("migrate", "--to", "sqlite"),
            ("migrate", "--to", "postgresql"),
        ):
            refused = command(tmp_path, *arguments)
            assert refused.returncode == 1, arguments
            assert "Another Parley works on this database; stop it" in refused.stderr
            assert "Traceback" not in refused.stderr
        assert processes.workers[0].process.returncode is None
    assert not [name for name in os.listdir(tmp_path) if name.startswith("data.before")]
    assert not (tmp_path / "data" / "parley.db").exists()
    assert command(tmp_path, "restore", str(saved)).returncode == 0, "nobody is left"
