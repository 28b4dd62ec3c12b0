"""Backup and restore: all comes back, nothing is overwritten, and no strange file is let in."""

from __future__ import annotations

import io
import json
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.backup import MANIFEST, BackupError, Database, Saved, backup, restore

NAME = "parley.db"


def database(data: Path) -> Database:
    """SQLite's own copying, as memory does it."""

    def copy_to(target: Path) -> None:
        with (
            closing(sqlite3.connect(data / NAME)) as live,
            closing(sqlite3.connect(target)) as copy,
        ):
            live.backup(copy)

    return Database(NAME, copy_to)


def save(data: Path, target: Path) -> Saved:
    return backup(data, target, database(data), "0.1.0")


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def rows(folder: Path) -> list[tuple[str]]:
    with closing(sqlite3.connect(folder / NAME)) as connection:
        return connection.execute("SELECT text FROM message").fetchall()


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(BackupError) as caught:
        act()
    return str(caught.value)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    for name in ("audiences/ann/memory/2026-11-21.md", "plugins/dice.py", "notes", "empty.txt"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if name == "empty.txt" else f"This is {name} ☺\n")
    with closing(sqlite3.connect(folder / NAME)) as connection, connection:
        connection.execute("CREATE TABLE message (text)")
        connection.execute("INSERT INTO message VALUES ('hello')")
    return folder


def test_all_comes_back_as_it_was(data: Path, tmp_path: Path) -> None:
    saved = save(data, tmp_path / "saved.tar.gz")
    restored = restore(tmp_path / "saved.tar.gz", tmp_path / "other" / "data")

    there = tmp_path / "other" / "data"
    without_database = {name: text for name, text in files_of(data).items() if name != NAME}
    assert {
        name: text for name, text in files_of(there).items() if name != NAME
    } == without_database
    assert rows(there) == [("hello",)]
    assert (saved.files, restored.files, restored.moved_aside) == (5, 5, None)
    assert saved.size == (tmp_path / "saved.tar.gz").stat().st_size
    assert saved.left_out == ()


def test_a_backup_under_a_running_bot_holds_what_is_committed(data: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(data / NAME, isolation_level=None)) as bot:
        bot.execute("PRAGMA journal_mode=WAL")
        bot.execute("INSERT INTO message VALUES ('committed, still in the WAL')")
        bot.execute("BEGIN")
        bot.execute("INSERT INTO message VALUES ('under way')")
        save(data, tmp_path / "saved.tar.gz")
        bot.execute("ROLLBACK")
    restore(tmp_path / "saved.tar.gz", tmp_path / "there")

    assert rows(tmp_path / "there") == [("hello",), ("committed, still in the WAL",)]
    assert not list((tmp_path / "there").glob("*-wal"))


def test_logs_the_lock_and_links_stay_behind(data: Path, tmp_path: Path) -> None:
    (data / "logs").mkdir()
    (data / "logs" / "parley.log").write_text("long")
    (data / "lock").write_text("")
    (data / "secret").symlink_to(tmp_path)
    (data / "audiences" / "passwd").symlink_to("/etc/passwd")

    saved = save(data, tmp_path / "saved.tar.gz")
    restore(tmp_path / "saved.tar.gz", tmp_path / "there")

    assert saved.left_out == ("audiences/passwd", "secret")
    assert {path.name for path in (tmp_path / "there").iterdir()} == {
        *("audiences", "plugins", "notes", "empty.txt", NAME)
    }


def test_a_data_folder_without_a_database_can_be_saved(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()

    assert save(tmp_path / "data", tmp_path / "saved.tar.gz").files == 0
    assert restore(tmp_path / "saved.tar.gz", tmp_path / "there").files == 0
    assert (tmp_path / "there").is_dir()


def test_a_backup_is_for_its_owner_alone(data: Path, tmp_path: Path) -> None:
    save(data, tmp_path / "saved.tar.gz")

    assert (tmp_path / "saved.tar.gz").stat().st_mode & 0o777 == 0o600


def test_the_manifest_says_what_made_the_backup_and_when(data: Path, tmp_path: Path) -> None:
    save(data, tmp_path / "saved.tar.gz")

    with tarfile.open(tmp_path / "saved.tar.gz") as archive:
        names = archive.getnames()
        stream = archive.extractfile(MANIFEST)
        assert stream
        manifest = json.loads(stream.read())
    assert names[-1] == MANIFEST
    assert manifest["parley"] == "0.1.0"
    assert manifest["made"].endswith("+00:00")
    assert sorted(manifest["sha256"]) == sorted(names[:-1])


def test_a_backup_that_cannot_be_made_says_why(data: Path, tmp_path: Path) -> None:
    there = tmp_path / "saved.tar.gz"
    there.write_text("precious")

    assert refusal(lambda: save(data, there)) == f"{there} is there already; choose another name."
    assert there.read_text() == "precious"
    inside = data / "saved.tar.gz"
    assert refusal(lambda: save(data, inside)) == (
        f"{inside} is inside the data folder; choose a place outside of it."
    )
    assert refusal(lambda: save(tmp_path / "gone", tmp_path / "a")) == (
        f"There is no data folder {tmp_path / 'gone'}; name it with --data DIR."
    )
    assert refusal(lambda: save(data, tmp_path / "no" / "a")).endswith(
        ": No such file or directory."
    )


def test_a_failed_backup_leaves_nothing_behind(data: Path, tmp_path: Path) -> None:
    def fail(target: Path) -> None:
        target.write_text("half")
        raise OSError(28, "No space left on device")

    before = set(tmp_path.iterdir())
    sentence = refusal(lambda: backup(data, tmp_path / "a", Database(NAME, fail), "0.1.0"))

    assert sentence == "The backup was not made: No space left on device."
    assert set(tmp_path.iterdir()) == before


def test_restoring_moves_aside_what_was_there(data: Path, tmp_path: Path) -> None:
    save(data, tmp_path / "saved.tar.gz")
    (data / "notes").write_text("newer")

    restored = restore(tmp_path / "saved.tar.gz", data)

    assert restored.moved_aside
    assert restored.moved_aside.name.startswith("data.before-restore-")
    assert (restored.moved_aside / "notes").read_text() == "newer"
    assert (data / "notes").read_text() == "This is notes ☺\n"


def test_an_empty_data_folder_is_simply_replaced(data: Path, tmp_path: Path) -> None:
    save(data, tmp_path / "saved.tar.gz")
    (tmp_path / "there").mkdir()

    assert restore(tmp_path / "saved.tar.gz", tmp_path / "there").moved_aside is None


@given(share=st.floats(min_value=0, max_value=1, exclude_max=True))
def test_half_a_backup_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, share: float
) -> None:
    place = tmp_path_factory.mktemp("half")
    (place / "data").mkdir()
    (place / "data" / "notes").write_text("kept")
    save(place / "data", place / "whole.tar.gz")
    whole = (place / "whole.tar.gz").read_bytes()
    (place / "half.tar.gz").write_bytes(whole[: int(len(whole) * share * 0.9)])

    sentence = refusal(lambda: restore(place / "half.tar.gz", place / "data"))

    assert "nothing was changed" in sentence
    assert files_of(place / "data") == {"notes": b"kept"}
    assert {path.name for path in place.iterdir()} == {"data", "whole.tar.gz", "half.tar.gz"}


def archive(target: Path, members: list[tuple[tarfile.TarInfo, bytes]], manifest: object) -> Path:
    with tarfile.open(target, "w:gz") as made:
        for member, content in members:
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
        if manifest is not None:
            text = json.dumps(manifest).encode()
            info = tarfile.TarInfo(MANIFEST)
            info.size = len(text)
            made.addfile(info, io.BytesIO(text))
    return target


def linked(name: str, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, "/etc/passwd"
    return member


@pytest.mark.parametrize(
    "member",
    [
        tarfile.TarInfo("../escaped"),
        tarfile.TarInfo("a/../../escaped"),
        tarfile.TarInfo("/escaped"),
        tarfile.TarInfo("a//b"),
        tarfile.TarInfo("."),
        linked("link", tarfile.SYMTYPE),
        linked("link", tarfile.LNKTYPE),
        linked("pipe", tarfile.FIFOTYPE),
        linked("device", tarfile.CHRTYPE),
        linked("folder", tarfile.DIRTYPE),
    ],
    ids=lambda member: f"{member.name} {member.type!r}",
)
def test_a_member_that_no_backup_has_is_refused(tmp_path: Path, member: tarfile.TarInfo) -> None:
    source = archive(tmp_path / "evil.tar.gz", [(member, b"")], {"format": 1, "sha256": {}})

    sentence = refusal(lambda: restore(source, tmp_path / "data"))

    assert sentence == f"{source} holds {member.name!r}, which no backup does; refused."
    assert list(tmp_path.iterdir()) == [source]


def test_the_same_name_twice_is_refused(tmp_path: Path) -> None:
    twice = [(tarfile.TarInfo("a"), b"1"), (tarfile.TarInfo("a"), b"2")]
    source = archive(tmp_path / "evil.tar.gz", twice, {"format": 1, "sha256": {}})

    assert "holds 'a'" in refusal(lambda: restore(source, tmp_path / "data"))


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        (None, "is not a whole backup; nothing was changed."),
        ([], "is not a whole backup; nothing was changed."),
        ({"format": 2, "sha256": {}}, "was made by a newer Parley; install that one first."),
        ({"format": 1, "sha256": {}}, "was changed since it was made; nothing was changed here."),
        (
            {"format": 1, "sha256": {"a": "0" * 64}},
            "was changed since it was made; nothing was changed here.",
        ),
        ({"format": 1, "sha256": 5}, "was changed since it was made; nothing was changed here."),
    ],
)
def test_what_differs_from_its_manifest_is_refused(
    tmp_path: Path, manifest: object, sentence: str
) -> None:
    source = archive(tmp_path / "evil.tar.gz", [(tarfile.TarInfo("a"), b"changed")], manifest)

    assert refusal(lambda: restore(source, tmp_path / "data")) == f"{source} {sentence}"
    assert list(tmp_path.iterdir()) == [source]


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "photo.jpg"
    source.write_bytes(b"\xff\xd8 no archive")

    assert refusal(lambda: restore(source, tmp_path / "data")) == (
        f"{source} is damaged or no backup; nothing was changed."
    )
    gone = tmp_path / "gone.tar.gz"
    assert refusal(lambda: restore(gone, tmp_path / "data")) == (
        f"The backup was not restored: {gone}: No such file or directory."
    )
