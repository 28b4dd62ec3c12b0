"""Tests of `python main.py report`: it is useful, and no byte of it is private."""

from __future__ import annotations

import asyncio
import json
import re
import stat
import traceback
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.logs import LAYERS, set_up_logs
from bot.recent import LEFT_OUT, Sentence
from bot.settings import load_layers
from channels.message import Address, Inbound
from plugins.operations.log_reading import LogEntry
from plugins.operations.report import describe_versions, mask_value
from plugins.operations.report_masking import REQUIREMENTS, ROOT, LogMasker, mask_traceback
from tests.bot.in_process import run_main
from tests.fakes.openai_server import Answer, Fail, Received, Say
from tests.whole.testbot import run_bot

CANARY = "zqcanary7"
"""The text that must not be found; private words begin with it."""
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
PLUGIN = f'''
import logging
from plugins.api import Ask, Reply, command, hookimpl

class {CANARY}Error(Exception):
    pass

@command("{CANARY}break", "Break")
async def {CANARY}_break(ask: Ask) -> Reply:
    logging.getLogger("{CANARY}.log").error("{CANARY} says %s", ask.text)
    raise {CANARY}Error("{CANARY} in an error")

@hookimpl
def parley_commands():
    return [{CANARY}_break]
'''
SECRETS = {
    "OPENAI_API_KEY": f"sk-{CANARY}-key-0123456789",
    "TELEGRAM_BOT_TOKEN": f"123456789:{CANARY}{'A' * 30}",
    "PARLEY_WEB_TOKEN": f"{CANARY}-web-token",
    "HOME_ADDRESS": f"{CANARY} street",
    "MY_PASSWORD": f'{CANARY}%/"\\pass',
}


def settings() -> dict[str, object]:
    server = {"url": f"https://mcp.{CANARY}.example/?token={CANARY}"}
    return {
        "model": f"{CANARY}-model",
        "owners": [f"pipe/{CANARY}-owner"],
        "system_prompt": f"You are {CANARY}.",
        "agents": [
            {"id": f"{CANARY}-agent", "description": CANARY, "brain": {"model": f"{CANARY}-m"}}
        ],
        "mcp": {"servers": {"one": server}},
        "log_level": "debug",
        "agent_max_steps": 7,
        "when_busy": "steer",
    }


def answer(request: Received) -> Answer:
    """Answer with private words; fail on request."""
    if b"fail" in json.dumps(request.body["messages"][-1]).encode():
        return Fail(400, {"message": f"{CANARY} was in https://x.example/?key={CANARY}"})
    return Say(f"The answer is {CANARY}.")


def members_of(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as zipped:
        assert zipped.testzip() is None
        return {info.filename: zipped.read(info) for info in zipped.infolist()}


def assert_private(file: Path, *words: str) -> None:
    """Check that none of these words is in any byte of the file, or of its members."""
    everything = b"\n".join(
        [file.read_bytes(), *members_of(file).values(), "".join(members_of(file)).encode()]
    ).lower()
    for word in (CANARY, *words):
        assert word.lower().encode() not in everything, word


async def test_nothing_that_anybody_said_or_is_called_or_keeps_secret_is_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / f"{CANARY}-home"
    plugins = home / "data" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / f"{CANARY}_plugin.py").write_text(PLUGIN)
    (home / ".env").write_text("".join(f"{k}={json.dumps(v)}\n" for k, v in SECRETS.items()))
    (home / "config.json").write_text(json.dumps(settings()))
    log = home / "data" / "logs" / "parley.log"
    close_logs = set_up_logs(log.parent, load_layers(home / "config.json", {}), is_quiet=True)
    chat, owner = f"{CANARY}-chat", f"{CANARY}-owner"
    try:
        async with run_bot(home, answer, settings()) as bot:
            named = Inbound("named", Address("pipe", chat, user=owner), CANARY, f"{CANARY} Smith")
            await (await bot.api()).submit(named)
            await bot.reply_to("named")
            for said in (
                f"fail {CANARY}",
                f"/{CANARY}break {CANARY}",
                f"/title {CANARY}",
                f"/config --here system_prompt {CANARY}",
            ):
                await bot.says(said, chat, owner)
            await bot.says(f"Hello {CANARY}", "elsewhere", f"{CANARY}-stranger")
    finally:
        close_logs()
    assert CANARY in log.read_text(), "there is nothing to hide"
    with log.open("a") as writing:
        writing.writelines(f"{line}\n" for line in hostile_lines())
    file = await asyncio.to_thread(reported, capsys, home)
    assert_private(file, *SECRETS.values(), str(tmp_path), "smith", "parley.log.")

    members = {name: text.decode() for name, text in members_of(file).items()}
    assert set(members) == {
        *("README.txt", "versions.json", "settings.json", "checks.json", "data.json", "log.txt")
    }
    told = json.loads(members["settings.json"])["settings"]
    assert told["agent_max_steps"]["value"] == 7
    assert told["when_busy"]["value"] == "steer"
    assert told["system_prompt"]["value"].startswith("<text, ")
    assert json.loads(members["data.json"])["rows"]["message"] >= 2
    assert json.loads(members["checks.json"])["MCP servers"] == "well"
    assert "bot.turn_runner: the turn failed: " in members["log.txt"]
    assert 'File "bot/commands.py", line ' in members["log.txt"]
    assert "(error 400)" not in members["log.txt"]


def hostile_lines() -> list[str]:
    """Return log lines that an attacker might write to get them into a report."""
    head = "2026-11-23T12:00:00.000Z ERROR"
    package = Path(zipfile.__file__).parent
    return [
        f"{head} [{CANARY}] {CANARY}: {CANARY}",
        f"{head} [a] {CANARY}.x: b] bot.turn_runner: the turn failed: {CANARY}",
        f"{CANARY}",
        f"2026-11-23T12:00:00.000Z {CANARY.upper()[:8]} [-] bot.turns: {CANARY}",
        f"{head} [-] bot.turns: the turn for {CANARY} failed",
        f"{head} [-] bot.{CANARY}: the turn failed: x",
        f"{head} [-] bot.turn_runner: the turn failed: https://{CANARY}.example can't be reached",
        f'    File "{ROOT}/data/{CANARY}.py", line 1, in {CANARY}',
        f'    File "{ROOT}/bot/turns.py", line 1, in {CANARY}',
        f'    File "{ROOT}/bot/../{CANARY}/x.py", line 3, in run',
        f'    File "{package}/{CANARY}.py", line 3, in run',
        f'    File "{ROOT}/bot/turns.py", line 99999999, in <module>',
        f"    {CANARY}.{CANARY}: {CANARY}",
        f"    builtins.{CANARY}: {CANARY}",
        f"    bot.turns.{CANARY}: {CANARY}",
        f"    aiohttp.{CANARY}: {CANARY}",
        f"    ValueError: {CANARY}",
        f"      | {CANARY}",
        json.dumps(
            {
                "at": "2026-11-23T12:00:00Z",
                "level": CANARY,
                "turn": CANARY,
                "logger": CANARY,
                "text": CANARY,
                "error": f"{CANARY}\n{CANARY}: x",
            }
        ),
        json.dumps({"at": CANARY, "text": CANARY}),
    ]


TEMPLATES = [
    "{0}",
    'File "{0}", line 1, in {1}',
    'File "{0}.py", line {2}, in {1}',
    f'File "{ROOT}/bot/{{0}}", line {{2}}, in {{1}}',
    f'File "{ROOT}/bot/turns.py", line {{2}}, in {{1}}',
    "{0}: {1}",
    "ValueError: {0}",
    "bot.turns.{0}: {1}",
    "  | {0}",
    "+---------------- {2} {0}----------------",
]
words = st.one_of(
    st.just(CANARY),
    st.text(max_size=20).map(lambda text: f"{text}{CANARY}"),
    st.text(max_size=20).map(lambda text: f"{CANARY}{text}"),
    st.sampled_from([f"../{CANARY}", f"{CANARY}.py", f"%s {CANARY}", f"{{url}}{CANARY}"]),
)
lines = st.builds(
    lambda template, one, two, number: template.format(one, two, number),
    st.sampled_from(TEMPLATES),
    words,
    words,
    st.integers(0, 10**8),
)


@given(st.lists(lines, max_size=6))
def test_no_traceback_brings_a_private_word_along(rest: list[str]) -> None:
    assert CANARY not in "\n".join(mask_traceback(rest))


@given(
    words,
    words,
    words,
    words,
    st.sampled_from(["bot.turn_runner", "bot.sending", "asyncio", CANARY]),
)
def test_no_event_brings_a_private_word_along(
    level: str, turn: str, text: str, more: str, logger: str
) -> None:
    masker = LogMasker()
    for said in (text, f"the turn failed: {text}", f"the reply to {text} waits for the next start"):
        entry = LogEntry(NOW, level, turn, logger, said, (more,), process=more)
        assert CANARY not in "\n".join(masker.mask(entry))


@given(st.lists(st.text(max_size=5), min_size=1, max_size=5), st.lists(st.text(max_size=5)))
def test_a_sentence_is_found_again_whatever_was_filled_in(
    pieces: list[str], filled: list[str]
) -> None:
    places = [*filled, *[""] * len(pieces)][: len(pieces) - 1]
    said = "".join(f"{piece}{place}" for piece, place in zip(pieces, [*places, ""], strict=True))
    found = Sentence(tuple(pieces)).match(said)
    assert found is not None
    again = zip(pieces, [*found, ""], strict=True)
    assert "".join(f"{piece}{place}" for piece, place in again) == said


def test_a_traceback_keeps_the_places_and_the_kinds_of_errors() -> None:
    try:
        zipfile.ZipFile("/nonexistent/zqcanary7")
    except FileNotFoundError:
        written = traceback.format_exc()
    shown = mask_traceback(written.splitlines())
    assert shown[0] == "Traceback (most recent call last):"
    assert any('File "python/zipfile.py", line ' in line for line in shown)
    assert any("self.fp = io.open(file, filemode)" in line for line in shown)
    assert shown[-1] == f"FileNotFoundError: {LEFT_OUT}"


def test_a_chat_has_the_same_number_in_all_events() -> None:
    masker = LogMasker()
    heads = [
        masker.mask(LogEntry(NOW, "INFO", turn, "bot.turn_runner", "answered in 1.25 s"))[0]
        for turn in ("telegram/42 t1", "telegram/7 t9", "telegram/42 t2", "-")
    ]
    assert [head.partition("[")[2].partition("]")[0] for head in heads] == [
        "chat 1 t1",
        "chat 2 t9",
        "chat 1 t2",
        "-",
    ]
    assert heads[0].endswith("bot.turn_runner: answered in 1.25 s")


def test_values_are_told_as_far_as_they_are_harmless() -> None:
    for value in (7, True, None, "", "steer"):
        assert mask_value(value, ("queue", "steer")) is value
    for hidden, shown in (
        ("a secret", "<text, 8 characters>"),
        (["a", "b"], "<2 entries>"),
        ({"a": "b"}, "<1 entry>"),
        (object(), "<something>"),
    ):
        assert mask_value(hidden, ("queue", "steer")) == shown


def test_packages_are_told_once_and_only_those_that_we_name() -> None:
    packages = describe_versions()["packages"]
    assert "openai" in packages
    assert "sphinx" not in packages, "something in .venv names it"
    assert "pytest" not in packages, "the bot does without it"
    names = [re.sub(r"[-_.]+", "-", name).lower() for name in packages]
    assert len(names) == len({*names})
    assert ROOT / "channels" / "mail" / "requirements.txt" in REQUIREMENTS
    assert {file.relative_to(ROOT).parts[0] for file in REQUIREMENTS} <= {
        *LAYERS,
        "requirements.txt",
    }


def test_it_is_for_nobody_else_and_overwrites_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text("{}")
    file = reported(capsys, tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    before = file.read_bytes()
    again = run_main(capsys, tmp_path, "report", str(file))
    assert again.code == 1
    assert "can't be written" in again.err
    assert file.read_bytes() == before


def reported(capsys: pytest.CaptureFixture[str], folder: Path) -> Path:
    """Write a report on a bot; return its file."""
    file = folder / "report.zip"
    file.unlink(missing_ok=True)
    done = run_main(capsys, folder, "report", str(file))
    assert done.code == 0, done.err
    return file


def test_it_is_made_also_where_something_is_broken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, data = tmp_path / "config.json", tmp_path / "data"
    (tmp_path / ".env").write_text(f"A_KEY={CANARY}-secret\n")
    secret = '{"model": "{{secret.ZQCANARY7}}"}'
    for broken in ("{", '{"nonsense": "zqcanary7"}', secret, "\x00"):
        config.write_text(broken)
        file = reported(capsys, tmp_path)
        assert json.loads(members_of(file)["checks.json"])["settings"] == "not well"
        assert_private(file)
    config.write_text("{}")
    (data / "logs" / "parley.log").mkdir(parents=True)
    (data / "parley.db").write_bytes(f"SQLite format 3\0{CANARY}".encode() * 500)
    file = reported(capsys, tmp_path)
    assert json.loads(members_of(file)["checks.json"])["database"] == "not well"
    assert members_of(file)["log.txt"] == b"The log can't be read (IsADirectoryError).\n"
    assert_private(file)
