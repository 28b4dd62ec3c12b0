"""A test that this version saves and upgrades the record of an earlier release in PostgreSQL."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path

import pytest

import main
from bot.app import VERSION
from bot.paragraphs import count
from memory.record.engines.postgresql import PostgresqlEngine
from memory.record.engines.sqlite import SqliteEngine, in_memory
from memory.record.rehearsal import NEWEST, find_schema
from memory.record.transfer import digest, shapes, transfer
from plugins.operations.restore import unpack
from tests.servers.postgresql import PostgresqlServer
from tests.upgrades.record import HERE

SCHEMA = 36
pytestmark = pytest.mark.sqlite  # it tests both systems


@pytest.fixture
def address(tmp_path: Path, postgresql_server: PostgresqlServer) -> str:
    """Return the address of a record on a server, as a release has left it; a configuration names
    it."""
    url = postgresql_server.make_database("template1")
    (tmp_path / "file").mkdir()
    unpack(HERE / f"0.1.0-schema-{SCHEMA}.tar.gz", tmp_path / "file")
    tables = "SELECT name, sql FROM sqlite_master WHERE sql != '' ORDER BY rowid"
    with PostgresqlEngine(url).visit() as server, closing(in_memory(schema=SCHEMA)) as old:
        for name, sql in old.execute_sql(tables).fetchall():
            if not name.startswith(("sqlite_", "passage_words")):
                server.execute_sql(sql)
        server.execute_sql("CREATE TABLE writer (id TEXT PRIMARY KEY, commits INTEGER, at REAL)")
        server.execute_sql("ALTER TABLE writer ALTER at TYPE TIMESTAMPTZ USING now()")
        server.execute_sql(f"CREATE TABLE schema_version AS SELECT {SCHEMA} AS version")
        with SqliteEngine(tmp_path / "file" / "parley.db").visit() as source:
            transfer(source, server)
    (tmp_path / "data").mkdir()
    (tmp_path / ".env").write_text(f"DATABASE_URL={url}\n")
    config = {"model": "gpt-4o-mini", "database": "{{secret.DATABASE_URL}}"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    return url


def test_a_record_on_a_server_is_rehearsed_in_a_file_and_upgraded_where_it_is(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = PostgresqlEngine(address)
    places = ("--config", str(tmp_path / "config.json"), "--data", str(tmp_path / "data"))
    assert main.main([*places, "upgrade", "--check", "--backup", str(tmp_path / "saved.gz")]) == 0
    assert f"{count(NEWEST - SCHEMA, 'step')} in " in capsys.readouterr().out
    assert find_schema(engine) == SCHEMA
    assert main.main([*places, "upgrade"]) == 0
    assert find_schema(engine) == NEWEST

    (tmp_path / "saved").mkdir()
    unpack(tmp_path / "saved.gz", tmp_path / "saved")
    saved = SqliteEngine(tmp_path / "saved" / "parley.db")
    assert find_schema(saved) == SCHEMA
    saved.prepare()
    with saved.visit() as before, engine.visit() as after:
        for shape in shapes():
            assert digest(before, shape) == digest(after, shape), shape.name


ROOT = Path(__file__).parents[2]


def test_the_command_line_and_the_doctor_tell_the_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main.main(["--version"])
    assert capsys.readouterr().out == f"Parley {VERSION}\n"
    main.main(["--config", f"{tmp_path}/config.json", "--data", f"{tmp_path}/data", "doctor"])
    assert capsys.readouterr().out.startswith(f"Parley {VERSION}\n")


def test_the_newest_version_of_the_changelog_is_this_one_and_the_numbers_go_down() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    versions = re.findall(r"^## (\d+)\.(\d+)\.(\d+)(?: \(not released yet\))?$", text, re.M)
    assert ".".join(versions[0]) == VERSION
    assert versions == sorted(versions, key=lambda parts: [*map(int, parts)], reverse=True)
