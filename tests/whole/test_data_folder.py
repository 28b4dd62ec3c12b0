"""One bot for a data folder, whatever is deleted there; and none that silently starts anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.openai_server import OpenAIServer, Received, Say
from tests.whole.process import run_command, talking

ENDINGS = ("", "-wal", "-shm")


def echo(request: Received) -> Say:
    return Say("Yes.")


async def test_deleting_the_lock_lets_no_second_bot_in(tmp_path: Path) -> None:
    async with OpenAIServer(echo) as endpoint, talking(tmp_path, endpoint) as first:
        assert (await first.says("Hi"))["text"] == "Yes."
        (tmp_path / "data" / "lock").unlink()
        async with talking(tmp_path, endpoint) as second:
            assert await second.ended() == 1
        assert "Another Parley is running on the data folder" in second.errors
        restoring = run_command(tmp_path, "restore", "nothing.tar.gz")
        assert "Another Parley is running on the data folder" in restoring.stderr
        assert (await first.says("Still there?"))["text"] == "Yes."


@pytest.mark.parametrize("name", ["notes.txt", "notes.txt/data"])
def test_a_file_in_the_place_of_the_data_folder_is_said_to_be_one(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "notes.txt").write_text("Milk")
    (tmp_path / "config.json").write_text("{}")
    data = str(tmp_path / name)
    told = run_command(tmp_path, "--data", data)
    assert (told.returncode, told.stderr) == (
        1,
        f"The data folder {data} can't be made: a file is in its place. Choose another one with "
        "--data DIR.\n",
    )
    assert (
        "notes.txt is a file, and no folder."
        in run_command(tmp_path, "--data", data, "doctor").stdout
    )


async def test_who_was_killed_holds_nothing(tmp_path: Path) -> None:
    async with OpenAIServer(echo) as endpoint:
        async with talking(tmp_path, endpoint) as bot:
            await bot.says("Hi")
            await bot.kill()
        async with talking(tmp_path, endpoint) as bot:
            assert (await bot.says("Again"))["text"] == "Yes."


def emptied(data: Path) -> None:
    (data / "parley.db").write_bytes(b"")


def gone(data: Path) -> None:
    for ending in ENDINGS:
        (data / f"parley.db{ending}").unlink(missing_ok=True)


def only_the_file_gone(data: Path) -> None:
    (data / "parley.db").unlink()


@pytest.mark.parametrize("lose", [emptied, gone, only_the_file_gone])
async def test_a_lost_database_is_said_and_begun_anew_only_when_asked_to(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    data = tmp_path / "data"
    async with OpenAIServer(echo) as endpoint:
        async with talking(tmp_path, endpoint) as bot:
            await bot.says("Hi")
            await bot.kill()
        lose(data)
        before = {path.name: path.read_bytes() for path in data.glob("parley.db*")}
        async with talking(tmp_path, endpoint) as bot:
            assert await bot.ended() == 1
        assert "although there was a bot here (audiences" in bot.errors
        assert "restore FILE" in bot.errors
        assert "--new" in bot.errors
        assert {path.name: path.read_bytes() for path in data.glob("parley.db*")} == before

        async with talking(tmp_path, endpoint, arguments=("--jsonl", "--new")) as bot:
            assert (await bot.says("Hello?"))["text"] == "Yes."
            assert await bot.ended() == 0
        aside = {path.name.partition(".before-")[0] for path in data.glob("*.before-*")}
        assert aside == set(before), "what was left is kept"


async def test_new_does_not_touch_a_database_that_holds_a_bot(tmp_path: Path) -> None:
    async with OpenAIServer(echo) as endpoint:
        async with talking(tmp_path, endpoint) as bot:
            await bot.says("Hi")
            assert await bot.ended() == 0
        async with talking(tmp_path, endpoint, arguments=("--jsonl", "--new")) as bot:
            assert await bot.ended() == 1
        assert "leave out --new" in bot.errors
        async with talking(tmp_path, endpoint) as bot:
            assert "1 turn" in (await bot.says("/context"))["text"]


async def test_what_the_bot_keeps_is_for_its_owner_alone(tmp_path: Path) -> None:
    async with OpenAIServer(echo) as endpoint, talking(tmp_path, endpoint) as bot:
        await bot.says("Hi")
        everything = [tmp_path / "data", *(tmp_path / "data").rglob("*")]
        open_to_others = [path for path in everything if path.stat().st_mode & 0o077]
    assert open_to_others == []


async def test_a_backup_with_code_is_restored_without_it_unless_that_is_wanted(
    tmp_path: Path,
) -> None:
    data, saved = tmp_path / "data", str(tmp_path / "saved.tar.gz")
    (tmp_path / "config.json").write_text("{}")
    (data / "plugins").mkdir(parents=True)
    (data / "plugins" / "dice.py").write_text("import os\n")
    assert run_command(tmp_path, "backup", saved).returncode == 0

    done = run_command(tmp_path, "restore", saved, stdin="y\n")

    assert done.returncode == 0, "a pipe is nobody who could agree"
    assert "plugins/dice.py" in done.stdout
    assert "--with-code" in done.stdout
    assert not (data / "plugins" / "dice.py").exists()
    assert run_command(tmp_path, "restore", saved, "--with-code").returncode == 0
    assert (data / "plugins" / "dice.py").read_text() == "import os\n"
