"""Tests of the bot outside Linux: a start that sees only the features of Windows (`windows.py`)."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import aiohttp
import pytest

from tests.fakes.openai_server import Call, OpenAIServer, Say
from tests.web.test_process import ANYWHERE, url_of
from tests.whole.process import BotProcess, Endpoint, talking

pytestmark = pytest.mark.usefixtures("processes")

ROOT = Path(__file__).parents[2]
AS_THERE = f'cd {ROOT}; python=$1; shift 2; exec "$python" -m tests.install.windows "$@"'
ILL_NAMED = (
    *("con.txt", "NUL", "aux.tar.gz", "lpt1", "COM9.log", "a:b.txt", "C:\\x\\notes.txt", "tail. "),
    *("what?.md", "dots...", '"quoted".txt', "tab\there.txt", "\U0001f600.txt", "x" * 300 + ".txt"),
    *("Tea.txt", "tea.txt", "TEA.TXT"),
)
"""Names of files that people send."""


def starting(
    folder: Path, endpoint: Endpoint | None, *arguments: str, **settings: object
) -> AbstractAsyncContextManager[BotProcess]:
    return talking(folder, endpoint, settings, arguments=arguments, shell=AS_THERE)


async def test_a_conversation_with_files_tools_and_memory(tmp_path: Path) -> None:
    calls = (
        Call("write_file", '{"path": "tea.txt", "content": "green\\nblack"}'),
        Call("list_files", "{}"),
        Call("glob", '{"pattern": "**/*.txt"}'),
        Call("read_file", '{"path": "tea.txt"}'),
        Call("grep", '{"pattern": "gr.+n"}'),
    )
    script = [*(Say(calls=(call,)) for call in calls), Say("Green it is.")]

    def answer(request: object) -> Say:
        return script.pop(0) if script else Say("Noted: all of it.")

    async with (
        OpenAIServer(answer) as server,
        starting(tmp_path, server, "--jsonl") as bot,
    ):
        assert (await bot.says("Which tea?"))["text"] == "Green it is."
        found = [str(m) for m in server.requests[5].body["messages"] if m["role"] == "tool"]
        assert "green" in found[-1]
        for number, name in enumerate(ILL_NAMED):
            (tmp_path / f"{number}.txt").write_text(f"file {number}")
            file = {"name": name, "path": str(tmp_path / f"{number}.txt")}
            said = await bot.says(f"Look at file {number}", attachments=[file])
            assert said["text"] == "Noted: all of it.", said
        for command in ("/context compact", "/memory", "/context", "/fork t1", "/export", "/undo"):
            assert "failed" not in (await bot.says(command))["text"].lower(), command
        assert await bot.ended() == 0
    assert "Traceback" not in bot.errors + _logged(tmp_path)
    kept = sorted((tmp_path / "data/audiences/pipe-main/files").iterdir())
    assert len(kept) == len(ILL_NAMED) + 1, kept


def _logged(folder: Path) -> str:
    return "".join(one.read_text() for one in sorted((folder / "data/logs").glob("*.log")))


async def test_the_page_and_a_message_through_it(tmp_path: Path) -> None:
    async with (
        OpenAIServer([Say("Hello yourself!")]) as server,
        talking(tmp_path, server, ANYWHERE, arguments=("--web",), shell=AS_THERE) as bot,
        aiohttp.ClientSession() as http,
    ):
        url = await url_of(bot)
        async with http.get(url) as page:
            assert "<title>" in await page.text()
        message = {"text": "Hello", "id": "m1"}
        async with http.post(f"{url}/api/sessions/main/messages", json=message) as answered:
            assert "Hello yourself!" in await answered.text()
        bot.process.terminate()
        assert await bot.gone() == 0
    assert "Traceback" not in bot.errors + _logged(tmp_path)


COMMANDS = (
    ("doctor", "ok   data"),
    ("audit", ""),
    ("backup saved.tar.gz", "saved.tar.gz"),
    ("upgrade --check", "nothing to upgrade"),
    ("export exported", "exported"),
    ("logs", ""),
    ("report report.txt", ""),
    ("service status", "this system has no systemd"),
    ("restore saved.tar.gz", ""),
    ("add nothing", "there is no nothing"),
)


async def test_commands_of_the_command_line(tmp_path: Path) -> None:
    async with OpenAIServer(lambda request: Say("Yes.")) as server:
        async with starting(tmp_path, server, "--jsonl") as bot:
            await bot.says("Is it?")
            assert await bot.ended() == 0
        for line, expected in COMMANDS:
            words = [
                tmp_path / word if "." in word or word == "exported" else word
                for word in line.split()
            ]
            async with starting(tmp_path, server, *map(str, words)) as ran:
                await ran.gone()
            said = b"".join(ran.out).decode() + ran.errors
            assert expected in said, line
            assert "Traceback" not in said, line


async def test_the_tool_shell_is_off_with_a_sentence(tmp_path: Path) -> None:
    script = [Say(calls=(Call("shell", '{"command": "ls"}'),)), Say("I can't.")]
    tools = {"shell": True, "approve": "never"}
    async with (
        OpenAIServer(script) as server,
        starting(tmp_path, server, "--jsonl", tools=tools) as bot,
    ):
        assert (await bot.says("List"))["text"] == "I can't."
        assert "Windows has no sandbox" in str(server.requests[-1].body["messages"][-1])


async def test_a_second_bot_is_kept_off(tmp_path: Path) -> None:
    async with starting(tmp_path, None, "--jsonl") as first:
        await first.says("/help")
        async with starting(tmp_path, None, "--jsonl") as second:
            assert await second.gone() == 1
        assert "Another Parley is running" in second.errors
