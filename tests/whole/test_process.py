"""The bot as a process: on either event loop, and its use of memory."""

from __future__ import annotations

import asyncio
import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.fakes.openai_server import OpenAIServer, Say
from tests.whole.process import AFRESH, talking


def is_loaded(library: str, process: int) -> bool:
    return library in Path(f"/proc/{process}/maps").read_text()


@pytest.mark.usefixtures("processes")
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
        talking(tmp_path, endpoint, shell=AFRESH, environ=environ) as bot,
    ):
        assert (await bot.says("Hi"))["text"] == "Hello!"
        assert is_loaded("/uvloop/loop.", bot.process.pid) == is_there
        assert await bot.ended() == 0
    assert bot.errors == ""


HEAP = 64 << 20
"""Bytes that glibc reserves for the heap of a thread."""


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has such heaps")
async def test_the_threads_share_one_heap(tmp_path: Path) -> None:
    async with (
        OpenAIServer([Say("Hello!")]) as endpoint,
        talking(tmp_path, endpoint, shell=AFRESH) as bot,
    ):
        assert (await bot.says("Hi"))["text"] == "Hello!"
        text = await asyncio.to_thread(Path(f"/proc/{bot.process.pid}/maps").read_text)
        parts = re.findall(r"^(\w+)-(\w+) (\S+) 0+ 00:00 0 *$", text, re.M)
        assert len(parts) > 10
        spans = [(int(begin, 16), int(end, 16), how) for begin, end, how in parts]
        own = [
            begin
            for (begin, end, how), (after, last, closed) in pairwise(spans)
            if begin % HEAP == 0 and how == "rw-p" and after == end and closed == "---p"
            if last - begin == HEAP
        ]
        assert own == []
