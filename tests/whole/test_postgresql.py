"""A bot whose record is on a PostgreSQL server: moved there, killed, saved and restored."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from benchmarks.damaged_files import SETTINGS, echo, lived_in
from tests.fakes.openai_server import OpenAIServer
from tests.servers.postgresql import PostgresqlServer, running_server
from tests.whole.process import BotProcess, run_command, talking

ON_SERVER = {**SETTINGS, "database": "{{secret.DATABASE_URL}}"}


def set_database(folder: Path, url: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / ".env").write_text(f"DATABASE_URL={url}\n")
    (folder / "config.json").write_text(json.dumps(ON_SERVER))


async def recall(bot: BotProcess) -> list[str]:
    """Return the messages that the bot has stored."""
    asked = ("/memory search number 3", "/context", "/config agent_max_steps")
    return [str((await bot.says(line, id=f"{line} {uuid4()}"))["text"]) for line in asked]


async def test_a_bot_is_moved_over_and_goes_on_where_it_was(
    tmp_path: Path, postgresql: str
) -> None:
    await lived_in(tmp_path)
    async with OpenAIServer(echo) as endpoint:
        async with talking(tmp_path, endpoint) as bot:
            assert await bot.ended() == 0, "the summary that the kill interrupted is written"
        async with talking(tmp_path, endpoint) as bot:
            before = await recall(bot)
            assert await bot.ended() == 0
        file = tmp_path / "data" / "parley.db"
        content = file.read_bytes()
        set_database(tmp_path, postgresql)
        refused = run_command(tmp_path)
        assert "migrate --to postgresql" in refused.stderr, "it would have forgotten everything"

        moved = run_command(tmp_path, "migrate", "--to", "postgresql")
        assert moved.returncode == 0, moved.stderr
        assert "message: " in moved.stdout
        assert file.read_bytes() == content, "the old one stays as it was"
        again = run_command(tmp_path, "migrate", "--to", "postgresql")
        assert "holds a bot already" in again.stderr

        async with talking(tmp_path, endpoint) as bot:
            assert await recall(bot) == before
            await bot.says("My number is 99 now.")
            await bot.kill()
        async with talking(tmp_path, endpoint) as bot:
            found = str((await bot.says("/memory search number 99"))["text"])
            assert "My number is 99 now." in found.replace("**", "")
            assert await bot.ended() == 0
    assert file.read_bytes() == content


async def test_a_backup_is_restored_into_an_empty_database_alone(
    tmp_path: Path, postgresql: str, postgresql_server: PostgresqlServer
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    set_database(here, postgresql)
    async with OpenAIServer(echo) as endpoint:
        async with talking(here, endpoint) as bot:
            await bot.says("My number is 3.")
            before = await recall(bot)
            saved = run_command(here, "backup", str(tmp_path / "saved.tar.gz"))
            assert saved.returncode == 0, saved.stderr
            assert await bot.ended() == 0
        refused = run_command(here, "restore", str(tmp_path / "saved.tar.gz"))
        assert "holds a bot already; name an empty one" in refused.stderr

        set_database(there, postgresql_server.make_database())
        restored = run_command(there, "restore", str(tmp_path / "saved.tar.gz"))
        assert restored.returncode == 0, restored.stderr
        assert not (there / "data" / "parley.db").exists()
        async with talking(there, endpoint) as bot:
            after = await recall(bot)
            assert (after[0], after[2]) == (before[0], before[2]), "the folder has another name"


async def test_doctor_and_audit_know_where_the_record_is(tmp_path: Path, postgresql: str) -> None:
    set_database(tmp_path, postgresql)
    async with OpenAIServer(echo) as endpoint, talking(tmp_path, endpoint) as bot:
        await bot.says("Hi")
        await bot.ended()
    assert "ok   database: The database is sound." in run_command(tmp_path, "doctor").stdout
    assert "database" not in run_command(tmp_path, "audit").stderr
    set_database(tmp_path, "postgresql://parley@127.0.0.1:9/parley?connect_timeout=2")
    told = run_command(tmp_path, "doctor").stdout
    assert "BAD  database: " in told
    assert "can't be reached; start it, or correct" in told
    assert "Restore a backup" not in told, "that would not help"


@pytest.mark.usefixtures("processes")
async def test_doctor_says_which_parts_of_the_record_the_server_can_not_read_any_more(
    tmp_path: Path,
) -> None:
    with running_server() as server:
        server.execute("CREATE DATABASE parley")
        set_database(tmp_path, server.url("parley"))
        async with OpenAIServer(echo) as endpoint, talking(tmp_path, endpoint) as bot:
            await bot.says("Hi")
            await bot.ended()
        server.execute("CREATE EXTENSION amcheck", "parley")
        index = _index_of(server.url("parley"), "inbox")
        places = [_file_of(server.url("parley"), name) for name in ("message", index)]
        assert "The database is sound." in run_command(tmp_path, "doctor").stdout
        server.stop()
        for place in places:
            with (server.folder / "data" / place).open("r+b") as file:
                file.write(b"\xff" * 64)
        server.start()
        told = run_command(tmp_path, "doctor").stdout
    assert "BAD  database: The PostgreSQL database is damaged: the " in told
    assert "the table message (invalid page in block 0 of " in told
    assert f"the index {index} (invalid page in block 0 of " in told
    assert "restore" in told.lower()


def _file_of(url: str, name: str) -> str:
    with psycopg.connect(url) as connection:
        query = "SELECT pg_relation_filepath(oid) FROM pg_class WHERE relname = %s"
        return str(connection.execute(query, (name,)).fetchall()[0][0])


def _index_of(url: str, table: str) -> str:
    with psycopg.connect(url) as connection:
        query = "SELECT indexname FROM pg_indexes WHERE tablename = %s ORDER BY 1"
        return str(connection.execute(query, (table,)).fetchall()[0][0])
