"""Tests of `python main.py logs`: it prints the log for people, in order, and without harmful
content."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot import logs
from bot.app import VERSION
from bot.settings import load_layers
from plugins.operations import log_reading
from plugins.operations.log_reading import (
    LogFollower,
    LogPrinter,
    LogStream,
    parse_since,
    read_entries,
)
from tests.bot.in_process import Ended, run_main
from tests.fakes.openai_server import Fail
from tests.whole.process import MAIN
from tests.whole.testbot import run_bot

log = logging.getLogger("bot.test_log_reading")
Begin = Callable[..., Path]
NOON = datetime(2026, 11, 23, 12, tzinfo=ZoneInfo("Europe/Berlin"))
FORGED = "2026-01-01T00:00:00.000Z ERROR [-] bot: forged"


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Return a function that starts logs in a folder, and returns it."""
    closing: list[Callable[[], None]] = []

    def set_up(
        format: str = "text", place: str = "logs", secrets: Mapping[str, str] | None = None
    ) -> Path:
        config = tmp_path / "config.json"
        config.write_text(json.dumps({"log_format": format, "log_level": "debug"}))
        folder = tmp_path / "data" / place
        layers = load_layers(config, secrets or {})
        closing.append(logs.set_up_logs(folder, layers, is_quiet=True))
        return folder

    yield set_up
    for close in closing:
        close()


def fail() -> None:
    try:
        raise ValueError("deep\ninside")
    except ValueError:
        log.exception("it broke")


@pytest.mark.parametrize("format", ["text", "json"])
def test_what_is_written_is_read_again(begin: Begin, format: str) -> None:
    folder = begin(format)
    with logs.in_turn("telegram/42 t3"):
        log.info("one\ntwo")
    fail()
    log.debug("last")
    first, second, third = read_entries(folder)
    assert (first.level, first.turn, first.text, first.rest) == (
        "INFO",
        "telegram/42 t3",
        "one",
        ("two",),
    )
    assert first.logger == "bot.test_log_reading"
    assert abs(first.at - datetime.now(UTC)) < timedelta(minutes=1)
    assert (second.level, second.text) == ("ERROR", "it broke")
    assert second.rest[0] == "Traceback (most recent call last):"
    assert second.rest[-2:] == ("ValueError: deep", "inside")
    assert (third.level, third.rest) == ("DEBUG", ())


def test_json_is_an_object_a_line_without_secrets(begin: Begin) -> None:
    hush = 'hush"\\hush-☃'
    folder = begin("json", secrets={"MY_TOKEN": hush})
    log.info("it is %s\n%s", hush, FORGED)
    log.warning("broken \ud800 text")
    fail()
    lines = (folder / "parley.log").read_bytes().splitlines()
    whole: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert [one["level"] for one in whole] == ["info", "warning", "error"]
    assert whole[0]["text"] == f"it is ***\n{FORGED}"
    assert "deep\ninside" in whole[2]["error"]
    assert whole[0]["at"].endswith("Z")


@pytest.mark.parametrize("format", ["text", "json"])
def test_no_text_passes_for_an_event_of_its_own(begin: Begin, format: str) -> None:
    folder = begin(format)
    breaks = ("\n", "\r", "\r\n", "\x0b", "\x85", "\u2028")
    for between in breaks:
        log.info("hello%s%s", between, FORGED)
    assert [entry.text[:5] for entry in read_entries(folder)] == ["hello"] * len(breaks)


def test_several_processes_and_old_files_are_read_in_order(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "FILE_SIZE", 1_500)
    folder = begin("text")
    begin("json", "logs/worker-a-1")
    for number in range(40):
        log.info("line %d", number)
    entries = list(read_entries(folder))
    assert len(list(folder.iterdir())) > 2, "nothing was rotated"
    assert entries == sorted(entries, key=lambda entry: entry.at)
    assert {entry.process for entry in entries} == {"", "worker-a-1"}
    for process in ("", "worker-a-1"):
        own = [entry.text for entry in entries if entry.process == process]
        assert own == [f"line {number}" for number in range(40)]


def test_following_goes_on_where_a_file_is_replaced(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "FILE_SIZE", 2_000)
    folder = begin()
    log.info("before")
    follower = LogFollower(folder)
    follower.begin()
    seen = []
    for number in range(60):
        log.info("line %d", number)
        if number % 7 == 0:
            seen += [entry.text for entry in follower.read()]
    begin("text", "logs/worker-b-2")  # it is created later
    log.info("both")
    seen += [entry.text for entry in follower.read()]
    follower.close()
    assert seen == [*(f"line {number}" for number in range(60)), "both", "both"]


def test_a_line_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    follower = LogFollower(tmp_path)
    file = tmp_path / "parley.log"
    head, tail = FORGED[:50], FORGED[50:]
    with file.open("a") as writing:
        writing.write(head)
        writing.flush()
        assert follower.read() == []
        writing.write(f"{tail}\n")
        writing.flush()
        assert [entry.text for entry in follower.read()] == ["forged"]
    follower.close()


def test_since_takes_what_people_write() -> None:
    for words, moment in {
        "2h": NOON - timedelta(hours=2),
        "30 min": NOON - timedelta(minutes=30),
        "90s": NOON - timedelta(seconds=90),
        "3d": NOON - timedelta(days=3),
        "11:30": NOON - timedelta(minutes=30),
        "14:30": NOON - timedelta(hours=21, minutes=30),
        "2026-11-22": NOON.replace(day=22, hour=0),
        "2026-11-23T08:00:00Z": NOON - timedelta(hours=3),
    }.items():
        assert parse_since(words, NOON) == moment
    for words in ("", "soon", "25:00", "999999d", "-1h", "2026-13-01"):
        with pytest.raises(ValueError):  # noqa: PT011 - its text is for nobody
            parse_since(words, NOON)


@settings(max_examples=50)
@given(st.text(), st.text(), st.booleans())
def test_nothing_in_a_log_steers_a_terminal(text: str, turn: str, is_json: bool) -> None:
    line = f"2026-01-01T00:00:00.000Z ERROR [{turn}] bot: {text}"
    if is_json:
        parts = {"level": turn, "turn": turn, "logger": turn, "text": text}
        line = json.dumps({"at": "2026-01-01T00:00:00Z", **parts})
    stream = LogStream()
    for entry in (*stream.feed([line, f"    {text}"]), *stream.flush()):
        for shown in LogPrinter(UTC).lines(entry):
            assert all(c.isprintable() or c == "\t" for c in shown)


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\n"))))
def test_whatever_stands_in_a_file_is_read_without_an_error(lines: list[str]) -> None:
    stream = LogStream()
    assert len([*stream.feed(lines), *stream.flush()]) <= len(lines)


def test_deep_json_is_no_event() -> None:
    assert log_reading.parse_line("{" + '"a":{' * 100_000) is None


async def test_a_person_reads_what_happened_in_a_bot(
    begin: Begin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin()
    async with run_bot(tmp_path, [Fail(401, {"message": "no"})]) as bot:
        await bot.says("Anyone?")
    async with run_bot(tmp_path):
        pass

    async def logs(*options: str) -> Ended:
        return await asyncio.to_thread(run_main, capsys, tmp_path, "logs", *options)

    shown = await logs("--level", "warning")
    assert shown.code == 0, shown.err
    assert "WARNING main t1: the turn failed: " in shown.out.replace("pipe/", "")
    assert "refused the API key" in shown.out
    assert "INFO" not in shown.out
    assert "\x1b" not in shown.out, "no colours where no terminal is"
    everything = (await logs()).out
    assert re.findall(r"INFO +(started|stopped)", everything) == ["started", "stopped"] * 2
    assert f"started: Parley {VERSION} on pipe" in everything
    assert len((await logs("--since", "2026-01-01", "-n", "1")).out.splitlines()) in (2, 3)
    wrong = await logs("--since", "yesterdayish")
    assert wrong.code == 1
    assert "is no time; write 2h" in wrong.err
    wrong = await logs("-n", "-5")
    assert wrong.code == 2
    assert "'-5' is no number of entries; write -n 50." in wrong.err


def test_where_nothing_was_logged_it_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text("{}")
    done = run_main(capsys, tmp_path, "logs")
    assert (done.code, done.out) == (1, "")
    assert "There are no logs in" in done.err
    (tmp_path / "data" / "logs").mkdir(parents=True)
    (tmp_path / "data" / "logs" / "parley.log").write_text("")
    none = run_main(capsys, tmp_path, "logs", "--level", "error")
    assert (none.code, none.out) == (0, "")
    assert none.err == "No log entry matches.\n"


@pytest.mark.usefixtures("processes")
def test_it_follows_in_colour_on_a_terminal_until_ctrl_c(begin: Begin, tmp_path: Path) -> None:
    begin()
    log.warning("first")
    terminal, inside = pty.openpty()
    command = [sys.executable, str(MAIN), "--config", str(tmp_path / "config.json")]
    process = subprocess.Popen(
        [*command, "--data", str(tmp_path / "data"), "logs", "-f"],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm"},
        # A shell's background job would pass on that it ignores Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    os.close(inside)
    try:
        drawn = read_until(terminal, b"first")
        assert b"\x1b[38;5;130m" in drawn
        log.error("second")
        read_until(terminal, b"second")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def read_until(terminal: int, wanted: bytes) -> bytes:
    drawn = b""
    while wanted not in drawn:
        drawn += os.read(terminal, 65_536)
    return drawn


def test_a_time_that_there_is_not_begins_no_event(tmp_path: Path) -> None:
    times = ("2026-99-99T99:99:99.999Z", "0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z")
    for at in times:
        told = {"at": at, "level": "info", "turn": "-", "logger": "bot", "text": "x"}
        lines = [FORGED, f"{at} INFO [-] bot: x", json.dumps(told), json.dumps({**told, "at": 5})]
        (tmp_path / "parley.log").write_text("\n".join(lines))
        (entry,) = read_entries(tmp_path)
        assert [*entry.rest] == lines[1:]
        assert [*LogPrinter(ZoneInfo("America/New_York")).lines(entry)]
