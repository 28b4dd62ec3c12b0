"""Secrets of the bot's environment stand in no tool result and in no export."""

from __future__ import annotations

import json
from pathlib import Path

from tests.fakes.openai_server import Call, Say
from tests.whole.testbot import run_bot

SECRET = "hunter2-of-the-house"


async def test_a_secret_in_a_tools_result_reaches_neither_the_model_nor_the_disk(
    tmp_path: Path,
) -> None:
    files = tmp_path / "data/audiences/pipe-main/files"
    files.mkdir(parents=True)
    (files / "env.txt").write_text(f"TOKEN={SECRET}\nTEA=green")
    call = Call("read_file", json.dumps({"path": "files/env.txt"}), "c")
    environ = {"DOOR_TOKEN": SECRET}
    async with run_bot(tmp_path, [Say(calls=(call,)), Say("Read.")], environ=environ) as bot:
        await bot.says("Read it")
        (result,) = [m["content"] for m in bot.sent_to_model() if m["role"] == "tool"]
    assert "TOKEN=***" in result
    assert "TEA=green" in result
    for file in (tmp_path / "data").rglob("*"):
        assert file.name == "env.txt" or file.is_dir() or SECRET.encode() not in file.read_bytes()


async def test_a_secret_that_was_said_is_not_exported(tmp_path: Path) -> None:
    answer = Say(f'It is "{SECRET}".')
    async with run_bot(tmp_path, [answer], environ={"DOOR_TOKEN": SECRET}) as bot:
        await bot.says(f"My token is {SECRET}")
        await bot.says("/context export")
        exported = list(bot.app.conversations.services.data.rglob("context*.json"))
    assert exported
    for file in exported:
        text = file.read_text()
        assert SECRET not in text
        assert "***" in text
