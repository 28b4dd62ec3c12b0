"""The bot as a process, on either event loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.openai_server import OpenAIServer, Say
from tests.whole.process import talking

pytestmark = pytest.mark.usefixtures("processes")


def is_loaded(library: str, process: int) -> bool:
    return library in Path(f"/proc/{process}/maps").read_text()


@pytest.mark.parametrize("is_there", [True, False])
async def test_it_answers_on_uvloop_and_where_there_is_none(tmp_path: Path, is_there: bool) -> None:
    pytest.importorskip("uvloop", reason="uvloop does not exist for this system")
    environ = {}
    if not is_there:
        (tmp_path / "uvloop.py").write_text("raise ImportError")
        environ["PYTHONPATH"] = str(tmp_path)
    script = [Say("Hello!")]
    async with (
        OpenAIServer(script) as endpoint,
        talking(tmp_path, endpoint, environ=environ) as bot,
    ):
        assert (await bot.says("Hi"))["text"] == "Hello!"
        assert is_loaded("/uvloop/loop.", bot.process.pid) == is_there
        assert await bot.ended() == 0
    assert bot.errors == ""
