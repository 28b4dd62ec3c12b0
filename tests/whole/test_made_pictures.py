"""Pictures that a command made are shown with the answer: bounded, as they were, and no links."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from channels.message import Address
from plugins.builtin import shell as plugin
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


@pytest.mark.parametrize(
    ("command", "count"),
    [
        ("echo no picture > a.png", 0),
        ("ln -s /etc/hostname a.png", 0),
        ("touch a.png", 0),
        ("head -c 6000000 /dev/zero > a.png", 0),
        (f"{draw('a.txt')}", 0),
        (" && ".join(draw(f"{n}.png", PNG + bytes([n])) for n in range(9)), 4),
        (f"mkdir -p deep && {draw('deep/a.png')}", 1),
        (f"{draw('a.png')} && cp a.png b.png", 1),
    ],
)
async def test_only_pictures_are_shown_and_not_too_many(
    tmp_path: Path, command: str, count: int
) -> None:
    async with run_bot(tmp_path, script(command), SETTINGS) as bot:
        assert len((await bot.says("Draw it")).images) == count


async def test_what_was_there_before_is_not_shown_again(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [*script(draw("a.png")), *script("ls")], SETTINGS) as bot:
        assert len((await bot.says("Draw it")).images) == 1
        assert not (await bot.says("List them")).images


async def test_a_person_who_runs_a_command_sees_them_too(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [], SETTINGS) as bot:
        assert len((await bot.says(f"/shell {draw('a.png')}")).images) == 1


async def test_telegram_shows_them(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, script(draw("a.png")), SETTINGS) as bot:
        bot.ann.says("Draw it")
        (sent,) = await bot.telegram.called("sendPhoto")
        assert sent["photo"] == PNG


async def test_forget_takes_them_along(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script(draw("a.png")), SETTINGS) as bot:
        (shown,) = (await bot.says("Draw it")).images
        await bot.says("/forget chat yes")
        with pytest.raises(FileNotFoundError):
            pictures((shown,))
