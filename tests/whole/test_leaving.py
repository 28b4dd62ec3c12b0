"""Leaving a bot that has something left to do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.openai_server import Answer, Hang, OpenAIServer, Received, Say
from tests.whole.pseudo_terminal import sitting

MAIN = Path(__file__).resolve().parents[2] / "main.py"

pytestmark = pytest.mark.usefixtures("processes")


async def test_ctrl_c_after_ctrl_d_ends_the_waiting(tmp_path: Path) -> None:
    """The end waits for what is under way, in the background too; a signal ends that."""
    (tmp_path / "config.json").write_text(
        json.dumps({"model": "gpt-4o-mini", "shutdown_timeout": 0})
    )

    def script(request: Received) -> Answer:
        last = str(request.body["messages"][-1]["content"])
        return Say("word " * 300) if last.startswith("Say") else Hang("")

    async with OpenAIServer(script) as endpoint, sitting(tmp_path, endpoint) as person:
        for number in range(4):
            person.types(f"Say {number}\r")
            await person.sees(f"{number + 1}/20 turns")
        person.types("/context compact\r")
        await endpoint.reached.acquire()
        await person.sees("answers.")
        person.types("\x04")
        await person.sees("To continue:")
        os.kill(person.process.pid, signal.SIGINT)
        assert await person.ended() == 0


def test_ctrl_c_while_the_program_loads_ends_it_without_a_word(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", str(MAIN), "--web", "--data", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        # Each module is named once it is loaded, so the others are still to come.
        told = [next(line for line in process.stderr if "agent.models" in line)]
        process.send_signal(signal.SIGINT)
        told += process.stderr
    assert process.returncode == -signal.SIGINT
    assert all(line.startswith("import time:") for line in told), "".join(told[-20:])
