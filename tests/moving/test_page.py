"""The page on moving: its commands are carried out, on files like those that it speaks of."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from main import main
from tests.docs.pages import example
from tests.moving.agent_programs import claw_events, write_claw_lines
from tests.moving.other_programs import (
    gpt_conversation,
    gpt_message,
    webui_chat,
    write_gpt_zip,
    write_webui_database,
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a configuration, in which the commands are carried out."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text("{}")


def test_each_command_of_the_page_brings_a_conversation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("Downloads", "open-webui/data"):
        Path(name).mkdir(parents=True)
    said = [gpt_message("user", "Hi"), gpt_message("assistant", "Ho")]
    write_gpt_zip(Path("Downloads/export.zip"), [gpt_conversation("c", "C", said)], {})
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    write_webui_database(Path("open-webui/data"), [webui_chat("w", "W", chat)])
    write_claw_lines(Path(".openclaw"), claw_events(chat))
    commands = example("moving.md", "sh").splitlines()
    assert len(commands) == 4
    for line in commands:
        python, script, *arguments = shlex.split(line)
        assert (python, script) == ("python", "main.py")
        assert main(arguments) == 0, line
        told = capsys.readouterr().out
        assert "1 conversation, into web: 1 turn, 2 messages" in told


def test_what_was_exported_comes_back(capsys: pytest.CaptureFixture[str]) -> None:
    said = [gpt_message("user", "Hi"), gpt_message("assistant", "Ho")]
    write_gpt_zip(Path("export.zip"), [gpt_conversation("c", "C", said)], {})
    assert main(["import", "chatgpt", "export.zip"]) == 0
    out, back = example("moving.md", "bash").splitlines()
    assert main(shlex.split(out)[2:]) == 0
    assert main(shlex.split(back)[2:]) == 0
    assert "here already, unchanged: 1 conversation" in capsys.readouterr().out
