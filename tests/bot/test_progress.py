"""The line of progress: its text for a share and for seconds, and its rate of updates."""

from __future__ import annotations

import io
import re
import signal
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bot.installing import UvInstallation, count_requirements
from bot.progress import BYTES, ProgressLine, format_left, format_progress
from bot.settings.schema import SETTINGS
from channels.language import LANGUAGES, _, speaking
from memory.plain_text import plain_json, plain_number
from tests.fakes.openai_server import echo
from tests.waiting import PATIENCE
from tests.whole.testbot import run_bot


def test_the_time_that_is_left_is_said_in_words() -> None:
    for share, elapsed, words in (
        (0.0, 10.0, ""),
        (0.5, 0.5, ""),
        (0.5, 3.0, "a few seconds left"),
        (0.5, 22.0, "about 20 s left"),
        (0.25, 60.0, "about 3 min left"),
        (0.5, 58.0, "about 1 min left"),
        (0.1, 400.0, "about 1 h left"),
        (0.01, 80.0, "about 2 h 12 min left"),
        (1.0, 80.0, "a few seconds left"),
    ):
        assert format_left(share, elapsed) == words, (share, elapsed)


@given(st.floats(0.001, 1), st.floats(1, 10**6))
def test_the_words_are_near_the_seconds(share: float, elapsed: float) -> None:
    left = elapsed * (1 - share) / share
    words = format_left(share, elapsed).split()
    numbers = {unit: int(number) for number, unit in pairwise(words) if number.isdecimal()}
    said = numbers.get("h", 0) * 3600 + numbers.get("min", 0) * 60 + numbers.get("s", 0)
    assert abs(said - left) <= (5 if left < 60 else 31)


def test_the_line_says_what_how_much_and_how_long() -> None:
    for arguments, line in (
        (
            ("Importing", "conversations", 1_200, 5_000, 57.0),
            "Importing: 1,200 of 5,000 conversations, 24 %, about 3 min left",
        ),
        (("Importing", "conversations", 12, 0, 57.0), "Importing: 12 conversations"),
        (("Backing up", BYTES, 5_000_000, 5_000_000, 9.0), "Backing up: 5.0 MB of 5.0 MB, 100 %"),
        (("Copying", "rows", 12, 10, 9.0), "Copying: 10 of 10 rows, 100 %"),
        (("Copying", "rows", 0, 10, 9.0), "Copying: 0 of 10 rows, 0 %"),
    ):
        assert format_progress(*arguments) == line, arguments


@given(
    st.sampled_from(("Importing", "Reading the backup")),
    st.integers(0, 10**7),
    st.integers(1, 10**7),
    st.floats(1, 10**4),
    st.integers(1, 100),
)
@example("Importing", 1_200, 5_000, 57.0, 39)
def test_where_there_is_little_room_the_time_is_said_rather_than_the_count(
    what: str, done: int, total: int, elapsed: float, room: int
) -> None:
    line = format_progress(what, "conversations", done, total, elapsed, room)
    whole = format_progress(what, "conversations", done, total, elapsed)
    done = min(done, total)
    left = format_left(done / total, elapsed) if done < total else ""
    assert len(line) <= room
    assert line == whole or len(whole) > room
    if room >= 30:
        assert line.endswith(left)
        assert f"{100 * done // total} %" in line


class Person(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@given(st.lists(st.floats(0, 5), max_size=100))
def test_a_log_gets_a_line_at_most_every_ten_seconds(pauses: list[float]) -> None:
    now, stream = [0.0], io.StringIO()
    shown = ProgressLine("Importing", "messages", stream, lambda: now[0])
    for number, pause in enumerate(pauses):
        now[0] += pause
        shown.show_progress(number, len(pauses))
    shown.close()
    lines = stream.getvalue().splitlines()
    assert len(lines) <= sum(pauses) / 10
    assert "\r" not in stream.getvalue()


def test_a_person_sees_one_line_that_is_gone_at_the_end() -> None:
    now, stream = [0.0], Person()
    shown = ProgressLine("Importing", "messages", stream, lambda: now[0])
    for number in range(3):
        now[0] += 1
        shown.show_progress(number, 3)
    shown.close()
    assert stream.getvalue().split("\r")[1:] == [
        "Importing: 0 of 3 messages, 0 %\x1b[K",
        "Importing: 1 of 3 messages, 33 %, a few seconds left\x1b[K",
        "Importing: 2 of 3 messages, 66 %, a few seconds left\x1b[K",
        "\x1b[K",
    ]


def test_requirements_are_counted_without_comments_and_options() -> None:
    lines = [
        "# what we need",
        "--require-hashes",
        "",
        "peewee==3.1  # via x",
        " rich>=13",
        "-r a.txt",
    ]
    assert count_requirements(lines) == 2


def test_the_downloads_of_uv_are_counted_in_bytes_and_the_rest_is_kept() -> None:
    """The lines of uv 0.13.9, without a terminal."""
    state = UvInstallation()
    for line in (
        "Resolved 13 packages in 360ms",
        "Downloading pygments (1.2MiB)",
        "Downloading numpy (16.1MiB)",
        "Downloading tiny (300.5KiB)",
        " Downloaded pygments",
        " Downloaded elsewhere",
    ):
        state.read_line(line)
    there, total = state.downloaded
    assert there == round(1.2 * 2**20)
    assert total == there + round(16.1 * 2**20) + round(300.5 * 2**10)
    for line in (
        " Downloaded numpy",
        " Downloaded tiny",
        "error: no space left",
        "Prepared 13 packages",
    ):
        state.read_line(line)
    assert state.downloaded == (total, total)
    assert state.messages == ["Resolved 13 packages in 360ms", "error: no space left"]


@pytest.mark.usefixtures("processes")
def test_an_installation_is_interrupted_without_a_traceback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as index:
        index.settimeout(PATIENCE)
        address = f"http://127.0.0.1:{index.getsockname()[1]}/simple"
        options = ("--index-url", address, "--dry-run", "no-such-package")
        process = subprocess.Popen(
            [sys.executable, "-m", "bot.installing", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        asked, _ = index.accept()  # and never answered
        with asked:
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said) == (130, "")


SCIENTIFIC = re.compile(r"\d[eE][+-]?\d")
TINY = ("0.0000001", "0.00001234", "0.1", "99999")


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(1e-07)
@example(1e22)
@example(0.0)
@example(-0.25)
def test_a_number_is_written_in_digits_and_reads_as_the_same(value: float) -> None:
    written = plain_number(value)
    assert not SCIENTIFIC.search(written)
    assert float(written) == value
    assert not SCIENTIFIC.search(plain_json({"a": [value, {"b": value}]}))


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(LANGUAGES))
@example(1e-07, "de")
def test_a_number_in_a_sentence_is_written_in_digits(value: float, language: str) -> None:
    with speaking(language):
        for said in (_("{n:g} minutes", n=value), _("{n} entry", n=value)):
            assert not SCIENTIFIC.search(said)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_no_setting_is_shown_in_scientific_notation(tmp_path: Path, language: str) -> None:
    numbers = [key for key, one in SETTINGS.items() if one.wants.startswith("a number ")]
    assert len(numbers) > 10
    async with run_bot(tmp_path, echo, {"language": language}) as bot:
        for key in numbers:
            for value in TINY:
                said = await bot.says(f"/config {key} {value}")
                assert not SCIENTIFIC.search(said.text), said.text
                if said.problem != "command_refused":
                    assert not SCIENTIFIC.search((await bot.says(f"/config {key}")).text)
        for line in ("/config", "/config spend_limit_chat 0.0000001"):
            assert not SCIENTIFIC.search((await bot.says(line)).text)
        await bot.says("Hi")
        for line in ("Hi again", "/usage", "/status", "/context", "/context compact"):
            assert not SCIENTIFIC.search((await bot.says(line)).text)
