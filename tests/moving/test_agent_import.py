"""Tests of importing from OpenClaw, Hermes and Claude Code by the command line: the bot continues
with the imported data."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from main import main
from tests.docs.pages import example
from tests.moving.agent_programs import (
    GOATS,
    SECRET,
    claude_line,
    claw_events,
    result,
    use,
    write_claude,
    write_claw_database,
    write_claw_lines,
    write_claw_workspace,
    write_hermes,
    write_hermes_rest,
)
from tests.moving.other_programs import (
    gpt_conversation,
    gpt_message,
    webui_chat,
    write_gpt_zip,
    write_webui_database,
)
from tests.moving.test_agent_sources import ASKED
from tests.moving.test_import import Bringing, Opened, command, searching

__all__ = ["command"]

pytestmark = pytest.mark.sqlite  # the other system keeps the data on a server

DAILY = {"name": "Feed", "schedule": {"kind": "cron", "expr": "0 7 * * *"}}
LINES: list[Any] = [
    {"type": "custom-title", "customTitle": "Hotel"},
    claude_line("u1", None, "user", "Where is Casa Amarela?"),
    claude_line("a1", "u1", "assistant", use("c1"), at=1),
    claude_line("r1", "a1", "user", result("c1", "casa amarela is yellow"), at=2),
    claude_line("a2", "r1", "assistant", "In Lisbon.", at=3),
]


def make_openclaw(folder: Path, *, is_grown: bool = False) -> None:
    more = [{"role": "user", "content": "And now?"}] if is_grown else []
    (folder / "agents/main/agent/openclaw-agent.sqlite").unlink(missing_ok=True)
    write_claw_database(folder, claw_events([*GOATS, *more]))
    if not is_grown:
        feed = {**DAILY, "payload": {"kind": "agentTurn", "message": "Feed the goats"}}
        late = {"name": "Late", "schedule": {"kind": "at", "at": "2020-01-01T00:00:00Z"}}
        write_claw_workspace(folder, [feed, late])


def make_hermes(folder: Path, *, is_grown: bool = False) -> None:
    more = [{"role": "user", "content": "And now?"}] if is_grown else []
    (folder / "state.db").unlink(missing_ok=True)
    write_hermes(folder, [*ASKED, *more])
    if not is_grown:
        write_hermes_rest(folder, [{**DAILY, "prompt": "Feed the goats"}])


def make_claude(folder: Path, *, is_grown: bool = False) -> None:
    more = [claude_line("u2", "a2", "user", "And now?", at=4)] if is_grown else []
    path = write_claude(folder, [*LINES, *more])
    (path.parent / "memory").mkdir(exist_ok=True)
    (path.parent / "memory" / "MEMORY.md").write_text("- Ann keeps two goats\n")
    (folder / "CLAUDE.md").write_text("You are Bessie.")


@pytest.mark.parametrize(
    ("kind", "make", "persona", "tasks"),
    [
        ("openclaw", make_openclaw, "openclaw", 1),
        ("hermes", make_hermes, "hermes", 1),
        ("claude-code", make_claude, "claude-code", 0),
    ],
)
async def test_a_folder_is_rehearsed_and_talked_to_and_comes_once(
    command: Bringing, kind: str, make: Callable[..., None], persona: str, tasks: int
) -> None:
    folder = command.place("origin")
    make(folder)
    rehearsed = await command.brings(kind, folder, "--dry-run")
    assert "1 conversation, into web: 1 turn" in rehearsed
    assert "Nothing was written" in rehearsed
    assert not (command.folder / "data").exists()
    told = await command.brings(kind, folder, "--with-settings")
    for text in (rehearsed, told):
        assert SECRET not in text
        assert ("1 scheduled task, for the chat web/main; paused" in text) == bool(tasks)
        assert persona in text
    assert "Bessie" in command.config.read_text()
    async with Opened(command, searching) as page:
        chat = (await page.chats())["Hotel"]
        usage = await page.says("/context", chat=chat)
        answer = await page.says("Where do I stay?", chat=chat)
        sent = page.sent_to_model(0)
        jobs = await page.says("/jobs", chat="main")
        proposed = await page.says("/memory diff")
    assert usage.data
    assert usage.data["turns"] == ["t1"]
    assert "Where is Casa Amarela?" in answer.text
    calls = [call["id"] for one in sent for call in one.get("tool_calls", ())]
    results = [one["tool_call_id"] for one in sent if one["role"] == "tool"]
    assert sorted(calls) == sorted(results)
    assert any("casa amarela is yellow" in str(one["content"]) for one in sent)
    assert ("paused: it was imported" in jobs.text) == bool(tasks)
    assert "Ann keeps two goats" in proposed.text


@pytest.mark.parametrize(
    ("kind", "make"),
    [("openclaw", make_openclaw), ("hermes", make_hermes), ("claude-code", make_claude)],
)
async def test_twice_gives_nothing_twice_and_later_what_is_new(
    command: Bringing, kind: str, make: Callable[..., None]
) -> None:
    folder = command.place("origin")
    make(folder)
    await command.brings(kind, folder)
    again = await command.brings(kind, folder)
    assert "already imported, unchanged: 1 conversation" in again
    assert "scheduled task, for" not in again
    assert "of memory" not in again
    make(folder, is_grown=True)
    later = await command.brings(kind, folder)
    assert "1 conversation that had grown, into web: 1 turn" in later


async def test_a_task_runs_once_a_person_has_resumed_it(command: Bringing) -> None:
    folder = command.place("origin")
    make_openclaw(folder)
    told = await command.brings("openclaw", folder)
    assert "The scheduled task Late: its time has passed." in told
    async with Opened(command) as page:
        (before,) = (await page.says("/jobs")).data["jobs"]  # type: ignore[index]
        resumed = await page.says("/jobs resume 1")
        (after,) = (await page.says("/jobs")).data["jobs"]  # type: ignore[index]
    assert before["state"] == "paused"
    assert after["state"] == "active", resumed.text


async def test_an_agent_of_the_same_name_stays_and_the_report_says_so(command: Bringing) -> None:
    folder = command.place("origin")
    make_claude(folder)
    mine = {"id": "claude-code", "description": "mine", "system_prompt": "Mine."}
    command.config.write_text(json.dumps({"model": "gpt-4o-mini", "agents": [mine]}))
    told = await command.brings("claude-code", folder, "--with-settings")
    assert "There is an agent claude-code already, which stays as it is." in told
    assert json.loads(command.config.read_text())["agents"] == [mine]


async def test_a_folder_of_another_program_is_named(command: Bringing) -> None:
    made = {"openclaw": make_openclaw, "hermes": make_hermes, "claude-code": make_claude}
    for kind, make in made.items():
        make(command.place(kind))
    for kind, looks in (
        ("openclaw", "a folder of OpenClaw"),
        ("hermes", "a folder of Hermes"),
        ("claude-code", "sessions of Claude Code"),
    ):
        for other in {*made, *(["cowagent"] if kind != "claude-code" else [])} - {kind}:
            told = await command.brings(other, command.folder / kind, "--dry-run", code=1)
            assert f"This looks like {looks}; try: " in told, (other, kind)
    for kind in made:
        told = await command.brings(kind, command.folder, "--dry-run", code=1)
        assert "name its folder (~/." in told


async def test_a_rehearsal_beside_a_bot_changes_no_file(command: Bringing) -> None:
    folder = command.place("origin")
    make_openclaw(folder)
    await command.brings("openclaw", folder)
    make_openclaw(folder, is_grown=True)
    before = {path: path.read_bytes() for path in command.folder.rglob("*") if path.is_file()}
    told = await command.brings("openclaw", folder, "--dry-run")
    assert "Nothing was written." in told
    after = {path: path.read_bytes() for path in command.folder.rglob("*") if path.is_file()}
    assert before == after


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create a folder with a configuration, in which the commands run."""
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
    assert "already imported, unchanged: 1 conversation" in capsys.readouterr().out
