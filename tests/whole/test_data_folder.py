"""Tests of one bot for a data folder, whatever is deleted there; and none that silently starts
anew."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from bot.data_folder import FolderError, lock_data_folder
from main import main
from plugins.operations import doctor
from tests.fakes.openai_server import OpenAIServer, Received, Say
from tests.whole.process import talking
from tests.whole.testbot import run_bot

ANOTHER = "Another Parley is running on the data folder"


def echo(request: Received) -> Say:
    return Say("Yes.")


def run(folder: Path, *arguments: str) -> int:
    """The command line, in this process."""
    if not (folder / "config.json").exists():
        (folder / "config.json").write_text("{}")
    places = ("--config", str(folder / "config.json"), "--data", str(folder / "data"))
    return main([*places, *arguments])


def test_deleting_the_lock_lets_no_second_bot_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with lock_data_folder(tmp_path / "data"):
        (tmp_path / "data" / "lock").unlink()
        with pytest.raises(FolderError, match=ANOTHER), lock_data_folder(tmp_path / "data"):
            pass
        for line in (("--jsonl",), ("restore", "nothing.tar.gz")):
            assert run(tmp_path, *line) == 1
            assert ANOTHER in capsys.readouterr().err


def test_a_file_in_the_place_of_the_data_folder_is_said_to_be_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("Milk")
    for name in ("notes.txt", "notes.txt/data"):
        data = tmp_path / name
        assert run(tmp_path, "--data", str(data), "--jsonl") == 1
        assert capsys.readouterr().err == (
            f"The data folder {data} can't be made: a file is in its place. Choose another one "
            "with --data DIR.\n"
        )
        found = doctor.check_data_folder(data)
        assert found.sentence == f"{tmp_path / 'notes.txt'} is a file, not a folder."


async def test_a_lost_database_is_said_and_one_that_holds_a_bot_is_not_touched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, saved = tmp_path / "data", tmp_path / "saved"
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Hi")
        shutil.copytree(data, saved)  # as a kill leaves it, with a write-ahead log
    ways: dict[str, list[str]] = {
        "emptied": [],
        "gone": ["parley.db", "parley.db-wal", "parley.db-shm"],
        "only the file gone": ["parley.db"],
    }
    for lost in ways.values():
        shutil.rmtree(data)
        shutil.copytree(saved, data)
        (data / "parley.db").write_bytes(b"")
        for name in lost:
            (data / name).unlink(missing_ok=True)
        before = {path.name: path.read_bytes() for path in data.glob("parley.db*")}
        assert await asyncio.to_thread(run, tmp_path, "--jsonl") == 1
        told = capsys.readouterr().err
        assert "although there was a bot here (audiences" in told
        assert "restore FILE" in told
        assert "--new" in told
        assert {path.name: path.read_bytes() for path in data.glob("parley.db*")} == before
    shutil.rmtree(data)
    shutil.copytree(saved, data)
    assert await asyncio.to_thread(run, tmp_path, "--jsonl", "--new") == 1
    assert "omit --new" in capsys.readouterr().err
    async with run_bot(tmp_path, echo) as bot:
        assert "1 turn" in (await bot.says("/context")).text


@pytest.mark.usefixtures("processes")
async def test_new_begins_beside_what_is_left_for_its_owner_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with OpenAIServer(echo) as endpoint:
        async with talking(tmp_path, endpoint) as bot:
            await bot.says("Hi")
            async with talking(tmp_path, endpoint) as second:
                assert await second.ended() == 1
            assert ANOTHER in second.errors
            await bot.kill()
        (data / "parley.db").unlink()
        before = {path.name for path in data.glob("parley.db*")}
        async with talking(tmp_path, endpoint, arguments=("--jsonl", "--new")) as bot:
            assert (await bot.says("Hello?"))["text"] == "Yes."
            everything = [data, *data.rglob("*")]
            assert [path for path in everything if path.stat().st_mode & 0o077] == []
            assert await bot.ended() == 0
        aside = {path.name.partition(".before-")[0] for path in data.glob("*.before-*")}
        assert aside == before, "what was left is kept"


def test_a_backup_with_code_is_restored_without_it_unless_that_is_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, saved = tmp_path / "data", str(tmp_path / "saved.tar.gz")
    (data / "plugins").mkdir(parents=True)
    (data / "plugins" / "dice.py").write_text("import os\n")
    assert run(tmp_path, "backup", saved) == 0
    assert run(tmp_path, "restore", saved) == 0, "there is nobody who could agree"
    told = capsys.readouterr().out
    assert "plugins/dice.py" in told
    assert "--with-code" in told
    assert not (data / "plugins" / "dice.py").exists()
    assert run(tmp_path, "restore", saved, "--with-code") == 0
    assert (data / "plugins" / "dice.py").read_text() == "import os\n"
