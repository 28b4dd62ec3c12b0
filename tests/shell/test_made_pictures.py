"""Tests of pictures made by a command, which are shown with the answer: bounded, unchanged, and no
links."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from channels.message import Address
from plugins.shell import feature as plugin
from tests.fakes.openai_server import Answer, Call, Say
from tests.whole.telegram_testbot import at_telegram
from tests.whole.testbot import TestBot, run_bot

pytestmark = pytest.mark.usefixtures("processes")

PNG = b"\x89PNG\r\n\x1a\n"
SETTINGS = {"tools": {"shell": True, "shell_unboxed": True, "approve": "never"}}


@pytest.fixture(autouse=True)
def unboxed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "_BOX", [False])


def draw(name: str, content: bytes = PNG) -> str:
    return f"echo {base64.b64encode(content).decode()} | base64 -d > {name}"


def script(*commands: str) -> list[Answer]:
    calls = [Call("shell", json.dumps({"command": c}), f"c{n}") for n, c in enumerate(commands)]
    return [*(Say(calls=(call,)) for call in calls), Say("Drawn.")]


def results(bot: TestBot) -> list[str]:
    return [str(m["content"]) for m in bot.sent_to_model() if m["role"] == "tool"]


def pictures(paths: tuple[str, ...]) -> list[bytes]:
    return [Path(path).read_bytes() for path in paths]


async def test_a_picture_is_shown_as_it_was_and_the_model_is_told(tmp_path: Path) -> None:
    commands = (draw("plot.png", PNG + b"one"), "rm plot.png; ln -s /etc/passwd plot.png")
    async with run_bot(tmp_path, script(*commands), SETTINGS) as bot:
        reply = await bot.says("Draw it")
        assert pictures(reply.images) == [PNG + b"one"]
        assert "(Shown in the chat: files/plot.png)" in results(bot)[0]
        assert "Shown" not in results(bot)[1]
        said = await (await bot.api()).transcript(Address("pipe", "main"))
        (file,) = [file for one in said if one.role == "tool" for file in one.files]
        assert file.is_picture
        opened = await (await bot.api()).open_file(Address("pipe", "main"), file.path)
        assert opened is not None
        with opened.content as content:
            assert content.read() == PNG + b"one"
        await bot.says("/forget chat yes")
        with pytest.raises(FileNotFoundError):
            pictures(reply.images)


async def test_only_pictures_are_shown_and_not_too_many_and_none_again(tmp_path: Path) -> None:
    counts = {
        "echo no picture > a.png": 0,
        "rm *; ln -s /etc/hostname a.png": 0,
        "rm *; touch a.png": 0,
        "rm *; head -c 6000000 /dev/zero > a.png": 0,
        f"rm *; {draw('a.txt')}": 0,
        " && ".join(draw(f"{n}.png", PNG + bytes([n])) for n in range(9)): 4,
        f"rm *; mkdir -p deep && {draw('deep/a.png', PNG + b'deep')}": 1,
        f"rm -r *; {draw('a.png', PNG + b'twice')} && cp a.png b.png && sleep 0.1": 1,
        "ls": 0,
    }
    answers = [answer for command in counts for answer in script(command)]
    async with run_bot(tmp_path, answers, SETTINGS) as bot:
        shown = [len((await bot.says("Draw it")).images) for _ in counts]
        assert shown == [*counts.values()]
        assert len((await bot.says(f"/shell {draw('own.png', PNG + b'own')}")).images) == 1


async def test_telegram_shows_them(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, script(draw("a.png")), SETTINGS) as bot:
        bot.ann.says("Draw it")
        (sent,) = await bot.telegram.called("sendPhoto")
        assert sent["photo"] == PNG
