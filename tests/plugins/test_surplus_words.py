"""No command ignores a word: each is used, or refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs.commands import builtin
from tests.fakes.openai_server import Received, Say
from tests.whole.testbot import run_bot

WORD = "zzqx"
EXEMPT = {"/stop", "/start", "/memory edit", "/context keep"}
"""The first ends something at once, Telegram's links send words after the second, and the others
store them without a word of them in the answer."""
LINES = sorted(
    {
        f"/{one.name} {name}".rstrip()
        for one in builtin()
        for name in ("", *(sub.name for sub in one.subs))
    }.difference(EXEMPT)
    | {"/context map json", "/mcp trim undo", "/why t2", "/without t1", "/model forget"}
    | {"/memory today", "/memory nightly on", "/rules keep 1", "/private on", "/usage lift a/1"}
    | {"/model gpt-4o --here", "/config model", "/agent default", "/help config", "/jobs run 1"}
)


@pytest.mark.parametrize("surplus", [WORD, f"--{WORD}"])
async def test_a_word_after_a_command_is_used_or_refused(tmp_path: Path, surplus: str) -> None:
    asked = list[str]()

    def answer(request: Received) -> Say:
        asked.append(json.dumps(request.body["messages"], ensure_ascii=False))
        return Say("Well.")

    async with run_bot(tmp_path, answer) as bot:
        for question in ("One", "Two", "Three"):
            await bot.says(question)
        ignored = []
        for number, line in enumerate(LINES):
            told = await bot.says(f"{line} {surplus}")
            if not (told.problem or WORD in told.text or any(WORD in one for one in asked)):
                ignored.append((number, line, told.text[:80]))
            asked.clear()
        assert ignored == []


async def test_one_name_is_asked_for_where_more_would_be_left_out(tmp_path: Path) -> None:
    async with run_bot(tmp_path, lambda request: Say("Well.")) as bot:
        for question in ("One", "Two", "Three"):
            await bot.says(question)
        for line in ("/why t2 t3", "/why t2-t3", "/without t1 t2 t3"):
            assert "one turn" in (await bot.says(line)).text, line
        assert "t2" in (await bot.says("/why t2")).text
