"""Leaving a bot that has something left to do."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.fakes.openai_server import Answer, Hang, OpenAIServer, Received, Say
from tests.whole.pseudo_terminal import sitting

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
