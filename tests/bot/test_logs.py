"""Logs: the content of a line, and the texts that it must never contain."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bot import logs
from bot.settings import load_layers

log = logging.getLogger("bot.test_logs")
Begin = Callable[..., Path]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Return a function that starts the logs with an environment, and returns their file."""
    closing: list[Callable[[], None]] = []

    def set_up(is_quiet: bool = True, **environ: str) -> Path:
        config = tmp_path / "config.json"
        config.write_text("{}")
        folder = tmp_path / "data" / "logs"
        closing.append(logs.set_up_logs(folder, load_layers(config, environ), is_quiet))
        return folder / "parley.log"

    yield set_up
    for close in closing:
        close()


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_line_names_commands_as_people_type_them_here(
    begin: Begin, log_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("channels.program.IS_WHEEL", True)
    path = begin(PARLEY_LOG_FORMAT=log_format)
    log.warning("look with `python main.py doctor`")
    assert "look with `parley doctor`" in path.read_text()


async def test_a_line_names_its_turn_in_tasks_of_the_turn_too(begin: Begin) -> None:
    async def tool(name: str) -> None:
        log.info("%s ran", name)

    async def turn(name: str) -> None:
        with logs.in_turn(name):
            await asyncio.gather(tool("a"), tool("b"))

    file = begin()
    await asyncio.gather(turn("pipe/ann t1"), turn("pipe/bob t7"))
    log.info("idle")

    written = file.read_text()
    assert written.count("INFO [pipe/ann t1] bot.test_logs: ") == 2
    assert written.count("INFO [pipe/bob t7] bot.test_logs: ") == 2
    assert "INFO [-] bot.test_logs: idle" in written


def test_no_secret_is_written_wherever_it_stands(
    begin: Begin, capsys: pytest.CaptureFixture[str]
) -> None:
    file = begin(is_quiet=False, MY_TOKEN="hush-hush", PASSWORD="hush-hush-more", HOME_KEY="abc")
    try:
        raise ValueError("the header was Bearer abc.def")
    except ValueError:
        log.exception("hush-hush-more and hush-hush, sk-proj-12345678, abc")
    log.warning("POST http://127.0.0.1/bot1234567:%s/getMe", "A" * 35)

    for text in (file.read_text(), capsys.readouterr().err):
        assert "*** and ***, ***, abc" in text
        assert "/bot***/getMe" in text
        assert "hush" not in text
        assert "abc.def" not in text
        assert "AAAA" not in text


def test_the_ticket_of_a_connection_is_not_written(begin: Begin) -> None:
    file = begin()
    log.info("500, url='wss://x.example/ws?device_id=7&access_key=abc-1&ticket=0a1b-2c3d'")
    log.info("wss://y.example/link/?ticket=1234567&app_id=5678")
    written = file.read_text()
    assert "url='wss://x.example/ws?device_id=7&access_key=***&ticket=***'" in written
    assert "wss://y.example/link/?ticket=***&app_id=5678" in written


def test_a_traceback_stands_in_the_file_and_not_on_the_screen(
    begin: Begin, capsys: pytest.CaptureFixture[str]
) -> None:
    file = begin(is_quiet=False)
    try:
        raise ValueError("deep inside")
    except ValueError:
        log.exception("The tool broke.")
    log.info("all is well")
    assert capsys.readouterr().err == "The tool broke.\n"
    assert "\n    Traceback (most recent call last):" in file.read_text()
    assert "all is well" in file.read_text()


def test_nothing_disturbs_the_terminal(begin: Begin, capsys: pytest.CaptureFixture[str]) -> None:
    begin(is_quiet=True)
    log.error("The tool broke.")
    (handler,) = (one for one in logging.getLogger().handlers if isinstance(one, logs._LogFile))
    assert handler.stream
    handler.stream.close()  # as on a full disk
    log.info("lost")
    handler.stream = None
    assert capsys.readouterr() == ("", "")


def test_a_line_is_a_line_with_its_time_whatever_is_said(begin: Begin) -> None:
    file = begin()
    log.info("hello\n2026-01-01T00:00:00.000Z ERROR [-] bot: forged")
    log.info("broken \ud800 text")
    first, second, third = file.read_text().splitlines()
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO ", first), "it is UTC"
    assert second.startswith("    ")
    assert "broken \\ud800 text" in third


def test_the_level_holds_for_our_own_lines_and_libraries_only_warn(begin: Begin) -> None:
    file = begin(PARLEY_LOG_LEVEL="debug")
    log.debug("ours")
    logging.getLogger("some.library").info("a whole request")
    logging.getLogger("some.library").warning("mind this")
    logs.set_level("error")
    log.warning("not any more")

    written = file.read_text()
    assert "ours" in written
    assert "mind this" in written
    assert "a whole request" not in written
    assert "not any more" not in written


def test_old_lines_make_room_for_new_ones(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "FILE_SIZE", 1_000)
    file = begin()
    for number in range(200):
        log.info("line %d", number)

    kept = sorted(path.name for path in file.parent.iterdir())
    assert kept == ["parley.log", *(f"parley.log.{number}" for number in range(1, 6))]
    # A file is closed when it is full, so it exceeds the limit by one line at most.
    assert all(path.stat().st_size <= 1_100 for path in file.parent.iterdir())
    assert "line 199" in file.read_text()


def test_a_folder_that_cannot_be_made_is_an_os_error(begin: Begin, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")

    with pytest.raises(OSError, match="data"):
        begin()


async def test_a_line_off_the_record_has_none_of_the_words_that_were_filled_in(
    begin: Begin,
) -> None:
    async def work() -> None:
        try:
            raise ValueError("my zebra")
        except ValueError:
            log.exception("the answer to %s failed", "my zebra")

    file, again = begin(), begin()  # each handler reads the same records
    assert file == again
    with logs.off_record():
        await asyncio.create_task(work())
        logging.getLogger("openai").warning("Retrying my zebra")
        log.info("%s", "my zebra")
    log.info("%s is told", "all else")
    said = file.read_text()
    assert "zebra" not in said
    assert "off the record) (" not in said
    assert "the answer to %s failed (ValueError, off the record)" in said
    assert "all else is told" in said
