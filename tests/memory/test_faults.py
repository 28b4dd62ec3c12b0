"""An error of a library or of the database is described in the project's own words, wherever a
person sees it."""

from __future__ import annotations

import errno
import logging
import os
import random
import shutil
import socket
import sqlite3
import ssl
import zipfile
import zlib
from collections.abc import Callable, Mapping
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
import pytest
from lxml import etree

from agent.tools import ToolError
from memory import faults
from memory.record.engines.sqlite import SqliteEngine
from memory.record.store import StoreError
from plugins.mcp.client import _find_reason
from plugins.moving.reading import Archive
from plugins.moving.record import ForeignDatabase
from plugins.moving.source import MovingError
from plugins.operations import record as carried
from plugins.web_tools.pages import Fetcher
from tests.tables import case, each_row

WORDS = ("Extra data: line 1 column 5 (char 4)", "xmlCtxtSetMaxAmplification", "NotADatabaseError")


def of_sqlite(code: int, kind: type[sqlite3.Error] = sqlite3.OperationalError) -> sqlite3.Error:
    error = kind(f"{random.Random(code).choice(WORDS)} {code}")
    error.sqlite_errorcode = code
    return error


def of_system(number: int) -> OSError:
    return OSError(number, os.strerror(number), "/srv/some/file")


def caused(error: BaseException, inner: BaseException) -> BaseException:
    error.__cause__ = inner
    return error


KINDS: Mapping[str, list[BaseException]] = {
    faults.NO_MEMORY: [
        MemoryError(),
        of_system(errno.ENOMEM),
        of_sqlite(sqlite3.SQLITE_NOMEM),
        etree.XMLSyntaxError("Memory allocation failed : building node", 1, 1, 1),
        caused(ValueError(WORDS[0]), MemoryError()),
    ],
    faults.TOO_LARGE: [
        of_system(errno.EFBIG),
        of_sqlite(sqlite3.SQLITE_TOOBIG),
        sqlite3.DataError("string or blob too big"),
        zipfile.LargeZipFile("Filesize would require ZIP64 extensions"),
        OverflowError("Python int too large to convert to C int"),
        etree.XMLSyntaxError("Maximum entity amplification factor exceeded", 1, 1, 1),
    ],
    faults.DAMAGED: [
        zipfile.BadZipFile("Bad CRC-32 for file 'a'"),
        zlib.error("Error -3 while decompressing data: incorrect header check"),
        EOFError("Compressed file ended before the end-of-stream marker was reached"),
        of_sqlite(sqlite3.SQLITE_NOTADB, sqlite3.DatabaseError),
        of_sqlite(sqlite3.SQLITE_CORRUPT, sqlite3.DatabaseError),
        UnicodeDecodeError("utf-8", b"a", 0, 1, "invalid start byte"),
    ],
    faults.LOCKED: [
        RuntimeError("File 'a' is encrypted, password required for extraction"),
        RuntimeError("Bad password for file 'a'"),
    ],
    faults.NOT_PERMITTED: [
        PermissionError(errno.EACCES, "Permission denied", "/root/a"),
        of_system(errno.EPERM),
        of_system(errno.EROFS),
        of_sqlite(sqlite3.SQLITE_READONLY),
        of_sqlite(sqlite3.SQLITE_CANTOPEN),
    ],
    faults.DISK_FULL: [
        of_system(errno.ENOSPC),
        of_system(errno.EDQUOT),
        of_sqlite(sqlite3.SQLITE_FULL),
    ],
    faults.TOO_SLOW: [
        TimeoutError(),
        of_system(errno.ETIMEDOUT),
        of_sqlite(sqlite3.SQLITE_INTERRUPT),
        aiohttp.ServerTimeoutError("Timeout on reading data from socket"),
        httpx2.ReadTimeout("The read operation timed out"),
        httpx2.ConnectTimeout(""),
    ],
    faults.UNREACHABLE: [
        ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 9)"),
        of_system(errno.EHOSTUNREACH),
        httpx2.ConnectError("All connection attempts failed"),
        caused(httpx2.ConnectError(""), of_system(errno.ENETUNREACH)),
    ],
    faults.BROKE_OFF: [
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        BrokenPipeError(errno.EPIPE, "Broken pipe"),
        aiohttp.ServerDisconnectedError(),
        aiohttp.ClientPayloadError("Response payload is not completed"),
        httpx2.ReadError("[Errno 104]"),
    ],
    faults.NO_NAME: [
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        caused(httpx2.ConnectError("[Errno -2]"), socket.gaierror(-2, "Name or …")),
    ],
    faults.NOT_TRUSTED: [
        ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] self-signed (_ssl.c:1)"),
        caused(httpx2.ConnectError(""), ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER]")),
    ],
    faults.NOT_THERE: [FileNotFoundError(errno.ENOENT, "No such file", "/a"), of_system(2)],
    faults.NO_FILE: [IsADirectoryError(errno.EISDIR, "Is a directory", "/a")],
    faults.IN_USE: [of_sqlite(sqlite3.SQLITE_BUSY), of_sqlite(sqlite3.SQLITE_LOCKED)],
}
CASES = [(said, error) for said, errors in KINDS.items() for error in errors]


def of(*kinds: type[BaseException]) -> list[tuple[str, BaseException]]:
    """Return the possible errors of a path."""
    return [(said, error) for said, error in CASES if isinstance(error, kinds)]


def own_words(told: str, error: BaseException) -> bool:
    """Return whether the text for people is free of words from libraries."""
    theirs = [str(one) for one in (error, error.__cause__) if one is not None and len(str(one)) > 3]
    names = ("Errno", "Error", "Exception", "0x", "_ssl", *WORDS)
    return not any(one in told for one in (*theirs, *names))


def test_the_kind_of_an_error_is_told(
    caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    for said, error in CASES:
        with case(subtests, repr(error)), caplog.at_level(logging.INFO):
            assert faults.describe_fault(error) == said
            assert own_words(said, error)
            assert any(one.exc_info and one.exc_info[1] is error for one in caplog.records)


@each_row(("words", "kind"), product(WORDS, [ValueError, RuntimeError, KeyError, etree.XPathError]))
def test_of_an_error_of_no_kind_the_default_is_told(
    kind: Callable[[str], BaseException], words: str
) -> None:
    said = faults.describe_fault(kind(words), faults.STRANGE_ANSWER)
    assert own_words(said, kind(words))


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_given: Any, **_named: Any) -> Any:
        raise error

    return fail


BROKEN = (OSError, RuntimeError, ValueError, zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error)


def test_an_importer_says_it_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("a.json", "[]")
    archive = Archive(path)
    for said, error in of(*BROKEN, EOFError, MemoryError):
        monkeypatch.setattr(zipfile.ZipFile, "open", raising(error))
        with case(subtests, repr(error)):
            with pytest.raises(MovingError) as raised, archive.open("a.json"):
                pass
            assert str(raised.value) == f"a.json in {path} can't be read: {said}."


def test_what_reads_databases_of_others_says_it_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for said, error in of(sqlite3.Error, OSError, ValueError, MemoryError):
        monkeypatch.setattr(sqlite3, "connect", raising(error))
        with case(subtests, repr(error)):
            with pytest.raises(StoreError) as raised:
                ForeignDatabase(tmp_path / "a.db")
            assert f"a.db can't be read as an SQLite database: {said}." in str(raised.value)
            assert own_words(str(raised.value).replace(str(tmp_path), ""), error)


def test_what_restores_a_backup_says_it_so(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"SQLite format 3\0" + b"x" * 5_000)
    with pytest.raises(StoreError) as raised:
        carried.read_carried(tmp_path / "a.db")
    assert str(raised.value) == "its database can't be read: it is damaged"


@each_row(("said", "error"), CASES)
def test_an_mcp_server_that_fails_is_told_of_so(said: str, error: BaseException) -> None:
    told = _find_reason(BaseExceptionGroup("unhandled errors in a TaskGroup", [error]))
    if told is not None:
        assert own_words(told, error)
        assert told in (said, "its answer breaks the protocol")


async def test_the_reader_of_pages_says_it_so(subtests: pytest.Subtests) -> None:
    async def approve(_url: object) -> None:
        """Call no model."""

    for said, error in of(OSError, aiohttp.ClientError, ValueError):
        with case(subtests, repr(error)):
            with pytest.raises(ToolError) as raised:
                await Fetcher(raising(error)).page("http://a.test/", approve)
            told = str(raised.value)
            assert own_words(told, error)
            assert said in told or isinstance(error, TimeoutError)


def statement(text: str) -> Callable[[SqliteEngine], None]:
    def run(engine: SqliteEngine) -> None:
        with closing(engine.connect()) as database:
            database.execute_sql(text)

    return run


def held(engine: SqliteEngine) -> None:
    with (
        closing(sqlite3.connect(engine.path)) as other,
        closing(engine.connect()) as database,
    ):
        other.execute("BEGIN EXCLUSIVE")
        database.execute_sql("PRAGMA busy_timeout = 0")
        database.execute_sql("CREATE TABLE a (b)")


def full(engine: SqliteEngine) -> None:
    with closing(engine.connect()) as database:
        database.execute_sql("PRAGMA max_page_count = 1")
        database.execute_sql("CREATE TABLE a (b)")
        database.execute_sql("INSERT INTO a VALUES (zeroblob(1000000))")


def no_text(engine: SqliteEngine) -> None:
    with closing(engine.connect()) as database:
        database.execute_sql("SELECT CAST(x'ff' AS TEXT)").fetchall()


def spoiled(engine: SqliteEngine) -> None:
    content = bytearray(engine.path.read_bytes())
    content[100:8_000] = b"\x7f" * 7_900
    engine.path.write_bytes(bytes(content))
    statement("SELECT * FROM message")(engine)


def without(change: str) -> Callable[[SqliteEngine], None]:
    def run(engine: SqliteEngine) -> None:
        with closing(sqlite3.connect(engine.path)) as database, database:
            database.execute(change)
        statement("SELECT is_done FROM job")(engine)

    return run


def fails(engine: SqliteEngine, work: Callable[[SqliteEngine], None]) -> BaseException:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - peewee's, of any kind
        work(engine)
    return engine.explain(raised.value)


@pytest.fixture
def engine(tmp_path: Path) -> SqliteEngine:
    made = SqliteEngine(tmp_path / "parley.db")
    made.prepare()
    return made


FAULTS: dict[str, tuple[Callable[[SqliteEngine], None], str]] = {
    "another process": (held, "This could not be saved: another process holds the database; "),
    "a full disk": (full, "This could not be saved: the disk is full; "),
    "what is no text": (no_text, "The database is damaged. Stop the bot, "),
    "damaged pages": (spoiled, "The database is damaged. Stop the bot, "),
    "a table of ours is gone": (without("DROP TABLE job"), "The database is damaged. Stop "),
    "a column of ours is gone": (
        without("ALTER TABLE job RENAME COLUMN is_done TO other"),
        "The database is damaged. Stop ",
    ),
}


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_is_told_in_words_of_our_own(
    what: str, engine: SqliteEngine, caplog: pytest.LogCaptureFixture
) -> None:
    work, sentence = FAULTS[what]
    with caplog.at_level(logging.INFO):
        told = fails(engine, work)
    assert isinstance(told, StoreError)
    assert str(told).startswith(sentence)
    (record,) = [one for one in caplog.records if one.exc_info]
    said = str(record.exc_info and record.exc_info[1])
    assert said
    assert said not in str(told)


SPACELESS = ("SQLITE_FULL", "SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_PERM")


@pytest.mark.parametrize("code", SPACELESS)
def test_whatever_sqlite_says_on_a_disk_without_space_the_disk_is_full(
    code: str, engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = getattr(sqlite3, code)
    usage = shutil.disk_usage(engine.path.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage._replace(free=4096))
    assert "the disk is full; free some space" in str(engine.explain(error))
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage._replace(free=10**9))
    assert ("is full" in str(engine.explain(error))) == (code == "SQLITE_FULL")


WRONG_SQL = (
    *("SELEC 1", "SELECT * FROM no_such_table", "SELECT nothing FROM message", "SELECT 1 +"),
    *("INSERT INTO message (nothing) VALUES (1)", "SELECT no_function(1)", "CREATE TABLE job (a)"),
    *("ALTER TABLE job ADD COLUMN is_done", "SELECT count(*) FROM job GROUP BY", "SELECT ?"),
)


@pytest.mark.parametrize("wrong", WRONG_SQL)
def test_wrong_sql_is_a_fault_of_who_wrote_it_and_no_damage(
    wrong: str, engine: SqliteEngine
) -> None:
    told = fails(engine, statement(wrong))
    assert not isinstance(told, StoreError), told
    assert engine.examine() == ""


def test_a_database_that_can_t_be_opened_is_told_so_too(tmp_path: Path) -> None:
    path = tmp_path / "parley.db"
    SqliteEngine(path).prepare()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DROP TABLE job")
        database.execute("PRAGMA user_version = 1")
    with pytest.raises(StoreError) as told:
        SqliteEngine(path).prepare()
    assert str(told.value).startswith(f"{path} is damaged. Stop the bot")
