"""Tests of backup and restore: everything is restored, nothing is overwritten, and foreign files
are refused."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import sqlite3
import subprocess
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.data_folder import FolderError, check_not_emptied
from memory.record.engines import engine_for
from memory.record.engines.sqlite import connect
from memory.record.migrations import MIGRATIONS, migrate
from plugins.operations import restore as restoring
from plugins.operations.backup import MANIFEST, BackupError, BackupResult, SavedDatabase, backup
from plugins.operations.restore import SET_ASIDE, Contents, RestoreResult, _is_inside
from tests.bot.in_process import run_main

NAME = "parley.db"


def database(data: Path) -> SavedDatabase:
    """Return a function that copies the database with SQLite's own backup, as the memory layer
    does."""

    def copy_to(target: Path) -> None:
        with (
            closing(sqlite3.connect(data / NAME)) as live,
            closing(sqlite3.connect(target)) as copy,
        ):
            live.backup(copy)

    return SavedDatabase(NAME, copy_to)


def save(data: Path, target: Path) -> BackupResult:
    return backup(data, target, database(data), "0.1.0")


def restore(source: Path, data: Path, agrees: bool = True) -> RestoreResult:
    return restoring.restore(source, data, lambda contents: agrees)


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


def refused(source: Path, data: Path) -> str:
    """Return the reason why a backup is refused."""
    return refusal(lambda: restore(source, data))


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


@pytest.fixture
def saved(data: Path, tmp_path: Path) -> Path:
    """Save a backup of the data, and return it."""
    save(data, tmp_path / "saved.tar.gz")
    return tmp_path / "saved.tar.gz"


def test_all_comes_back_as_it_was(data: Path, tmp_path: Path) -> None:
    source, there = tmp_path / "saved.tar.gz", tmp_path / "other" / "data"
    saved = save(data, source)
    restored = restore(source, there)
    before, after = files_of(data), files_of(there)
    assert before.pop(NAME)
    assert after.pop(NAME)
    assert before == after
    assert rows(there) == [("hello",)]
    assert (saved.files, restored.files, restored.moved_aside) == (5, 5, None)
    assert saved.size == source.stat().st_size
    assert saved.left_out == ()
    with tarfile.open(source) as archive:
        names = archive.getnames()
        stream = archive.extractfile(MANIFEST)
        assert stream
        manifest = json.loads(stream.read())
    assert names[-1] == MANIFEST
    assert manifest["parley"] == "0.1.0"
    assert manifest["made"].endswith("+00:00")
    assert sorted(manifest["sha256"]) == sorted(names[:-1])


def test_a_backup_is_for_its_owner_alone(saved: Path) -> None:
    assert saved.stat().st_mode & 0o777 == 0o600


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


def test_what_is_not_to_be_saved_is_not_even_looked_into(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a separate disk, only root can read lost+found, and the data that was moved aside may be
    large."""
    closed = {"lost+found", "before-restore-20261125-120000-000000"}
    for name in closed:
        (data / name).mkdir()
        (data / name / "old").write_text("x")
    scandir = os.scandir

    def refuse(path: str | Path | int) -> object:
        if not isinstance(path, int) and Path(path).name in closed:
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    save(data, tmp_path / "saved.tar.gz")
    monkeypatch.undo()
    restore(tmp_path / "saved.tar.gz", tmp_path / "other")
    assert closed.isdisjoint(path.name for path in (tmp_path / "other").iterdir())


def test_a_folder_into_which_a_backup_was_unpacked_by_hand_can_be_saved(
    data: Path, saved: Path, tmp_path: Path
) -> None:
    with tarfile.open(saved) as archive:
        archive.extractall(tmp_path / "by-hand", filter="data")
    assert (tmp_path / "by-hand" / MANIFEST).exists()
    save(tmp_path / "by-hand", tmp_path / "second.tar.gz")
    restore(tmp_path / "second.tar.gz", tmp_path / "back")
    assert rows(tmp_path / "back") == rows(data)


def test_a_data_folder_without_a_database_can_be_saved(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()

    assert save(tmp_path / "data", tmp_path / "saved.tar.gz").files == 0
    assert restore(tmp_path / "saved.tar.gz", tmp_path / "there").files == 0
    assert (tmp_path / "there").is_dir()


def test_a_backup_that_cannot_be_made_says_why(data: Path, tmp_path: Path) -> None:
    there = tmp_path / "saved.tar.gz"
    there.write_text("precious")

    assert refusal(lambda: save(data, there)) == f"{there} already exists; choose another name."
    assert there.read_text() == "precious"
    inside = data / "saved.tar.gz"
    assert refusal(lambda: save(data, inside)) == (
        f"{inside} is inside the data folder; choose a place outside it."
    )
    assert refusal(lambda: save(tmp_path / "gone", tmp_path / "a")) == (
        f"There is no data folder {tmp_path / 'gone'}; name it with --data DIR."
    )
    assert refusal(lambda: save(data, tmp_path / "no" / "a")) == (
        f"There is no folder {tmp_path / 'no'}; create it, or name another."
    )


def test_a_failed_backup_leaves_nothing_behind(data: Path, tmp_path: Path) -> None:
    def fail(target: Path) -> None:
        target.write_text("half")
        raise OSError(28, "No space left on device")

    before = set(tmp_path.iterdir())
    sentence = refusal(lambda: backup(data, tmp_path / "a", SavedDatabase(NAME, fail), "0.1.0"))

    assert sentence == "The backup was not made: No space left on device."
    assert set(tmp_path.iterdir()) == before


def test_restoring_moves_aside_what_was_there(data: Path, saved: Path, tmp_path: Path) -> None:
    (data / "notes").write_text("newer")
    restored = restore(saved, data)
    assert restored.moved_aside
    assert restored.moved_aside.name.startswith("data.before-restore-")
    assert (restored.moved_aside / "notes").read_text() == "newer"
    assert (data / "notes").read_text() == "This is notes ☺\n"
    (tmp_path / "empty").mkdir()
    assert restore(saved, tmp_path / "empty").moved_aside is None


def test_a_data_folder_on_another_disk_is_restored_there(
    data: Path, saved: Path, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    link = tmp_path / "link"
    link.symlink_to(data.rename(disk / "data"))
    (link / "notes").write_text("later")
    moved_aside = restore(saved, link).moved_aside
    assert link.is_symlink()
    assert (link / "notes").read_text() != "later"
    assert moved_aside
    assert moved_aside.parent == disk
    assert (moved_aside / "notes").read_text() == "later"


def test_where_a_folder_stays_and_its_contents_cannot_be_exchanged_all_is_as_it_was(
    data: Path, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (data / "notes").write_text("newer")
    before = files_of(data)
    monkeypatch.setattr(restoring, "_can_be_moved", lambda folder: False)
    rename = Path.rename

    def fail_at_last(path: Path, target: Path) -> Path:
        if path.name == NAME and target.parent == data and ".parley-restore-" in str(path):
            raise OSError(28, "No space left on device")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail_at_last)
    assert "No space left" in refused(saved, data)
    assert files_of(data) == before
    assert not [*data.glob("before-restore-*")]


def test_a_bot_whose_restore_was_cut_off_does_not_begin_anew(data: Path) -> None:
    aside = data / "before-restore-20261125-120000-000000"
    aside.mkdir()
    for path in [*data.iterdir()]:
        if path != aside:
            path.rename(aside / path.name)
    with pytest.raises(FolderError, match="although there was a bot here"):
        check_not_emptied(data)


def test_a_folder_that_is_no_bots_is_neither_moved_nor_filled(saved: Path, tmp_path: Path) -> None:
    there = tmp_path / "Documents"
    there.mkdir()
    (there / "letter.txt").write_text("Dear")
    (there / "lock").write_text("")  # the restoring process locks the folder
    assert "--data DIR" in refused(saved, there)
    assert files_of(there).keys() == {"letter.txt", "lock"}
    assert not [*tmp_path.glob("Documents.*")]


@settings(max_examples=30)
@given(share=st.floats(min_value=0, max_value=1, exclude_max=True))
def test_half_a_backup_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, share: float
) -> None:
    place = tmp_path_factory.mktemp("half")
    (place / "data").mkdir()
    (place / "data" / "terminal_history").write_text("kept")
    save(place / "data", place / "whole.tar.gz")
    whole = (place / "whole.tar.gz").read_bytes()
    (place / "half.tar.gz").write_bytes(whole[: int(len(whole) * share * 0.9)])

    sentence = refused(place / "half.tar.gz", place / "data")

    assert "damaged, or not a backup; nothing was changed" in sentence
    assert files_of(place / "data") == {"terminal_history": b"kept"}
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


def test_a_member_that_no_backup_has_is_refused(tmp_path: Path) -> None:
    names = ("../escaped", "a/../../escaped", "/escaped", "a//b", ".")
    kinds = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE)
    bad = (*map(tarfile.TarInfo, names), *(linked("link", kind) for kind in kinds))
    members = [[(member, b"")] for member in bad]
    members.append([(tarfile.TarInfo("a"), b"1"), (tarfile.TarInfo("a"), b"2")])
    for held in members:
        source = archive(tmp_path / "evil.tar.gz", held, {"format": 1, "sha256": {}})
        assert refused(source, tmp_path / "data") == (
            f"{source} holds {held[0][0].name!r}, which no backup of Parley's does; nothing was "
            "changed."
        )
        assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        (None, "is not a complete backup; nothing was changed."),
        ([], "is not a complete backup; nothing was changed."),
        ({"format": 2, "sha256": {}}, "was made by a newer Parley; install that version first."),
        ({"format": 1, "sha256": {}}, "was changed since it was made; nothing was changed here."),
        ({"format": 1, "sha256": {"a": "0" * 64}},
         "was changed since it was made; nothing was changed here."),
        ({"format": 1, "sha256": 5}, "was changed since it was made; nothing was changed here."),
    ],
)  # fmt: skip
def test_what_differs_from_its_manifest_is_refused(
    tmp_path: Path, manifest: object, sentence: str
) -> None:
    source = archive(tmp_path / "evil.tar.gz", [(tarfile.TarInfo("a"), b"changed")], manifest)
    assert refused(source, tmp_path / "data") == f"{source} {sentence}"
    assert list(tmp_path.iterdir()) == [source]


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "photo.jpg"
    source.write_bytes(b"\xff\xd8 no archive")
    assert refused(source, tmp_path / "data") == (
        f"{source} is damaged, or not a backup; nothing was changed."
    )
    gone = tmp_path / "gone.tar.gz"
    assert refused(gone, tmp_path / "data") == (
        f"The backup was not restored: {gone}: No such file or directory."
    )
    deep = [(tarfile.TarInfo(MANIFEST), b"[" * 200_000)]
    source = archive(tmp_path / "deep.tar.gz", deep, None)
    assert refused(source, tmp_path / "data") == (
        f"{source} is not a complete backup; nothing was changed."
    )


def whole(target: Path, files: dict[str, bytes], mode: int = 0o644) -> Path:
    """Write a backup as made by hand, with a correct manifest."""
    members = [(tarfile.TarInfo(name), content) for name, content in files.items()]
    for member, _ in members:
        member.mode = mode
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    return archive(target, members, {"format": 1, "sha256": sums})


def modes_of(folder: Path) -> set[tuple[bool, int]]:
    everything = [folder, *folder.rglob("*")]
    return {(path.is_dir(), path.stat().st_mode & 0o7777) for path in everything}


def test_what_comes_back_is_for_its_owner_alone(tmp_path: Path) -> None:
    files = {"audiences/ann/memory/2026-11-21.md": b"secret", "plugins/a.py": b"1"}
    before = os.umask(0)
    try:
        for mode in (0o777, 0o4755, 0):
            source = whole(tmp_path / f"{mode}.tar.gz", files, mode)
            for agrees in (True, False):
                restore(source, tmp_path / f"{mode}-{agrees}", agrees)
                found = modes_of(tmp_path / f"{mode}-{agrees}")
                assert found == {(True, 0o700), (False, 0o600)}
    finally:
        os.umask(before)


CODE = {
    "plugins/dice.py": b"import os",
    "plugins/deep/er.py": b"1",
    "skills/a/SKILL.md": b"Obey.",
    "audiences/ann/skills/b/SKILL.md": b"Obey me too.",
}
HARMLESS = {"audiences/ann/files/plugins/x.py": b"no plugin", "notes": b"mine"}


def test_code_comes_back_only_where_somebody_agrees(tmp_path: Path) -> None:
    source = whole(tmp_path / "a.tar.gz", CODE | HARMLESS)
    restored = restore(source, tmp_path / "data", agrees=False)
    assert restored.is_set_aside
    assert dict(restored.contents.code) == {
        name: hashlib.sha256(content).hexdigest() for name, content in CODE.items()
    }
    aside = {f"{SET_ASIDE}/{name}": content for name, content in CODE.items()}
    assert files_of(tmp_path / "data") == aside | HARMLESS
    assert not restore(source, tmp_path / "other", agrees=True).is_set_aside
    assert files_of(tmp_path / "other") == CODE | HARMLESS
    twice = {"plugins/a.py": b"new", f"{SET_ASIDE}/plugins/a.py": b"old"}
    restore(whole(tmp_path / "b.tar.gz", twice), tmp_path / "third", agrees=False)
    assert sorted(files_of(tmp_path / "third").values()) == [b"new", b"old"]

    def never(contents: Contents) -> bool:
        raise AssertionError("asked")

    harmless = whole(tmp_path / "c.tar.gz", HARMLESS)
    assert not restoring.restore(harmless, tmp_path / "fourth", never).is_set_aside


def forged(folder: Path, *statements: str) -> bytes:
    """Return a database of ours with these changes."""
    path = folder / "forged.db"
    migrated = connect(path)
    migrate(migrated)
    migrated.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        for statement in statements:
            connection.execute(statement)
    return path.read_bytes()


def test_settings_that_give_power_are_shown_and_set_aside(tmp_path: Path) -> None:
    content = forged(
        tmp_path,
        "INSERT INTO override VALUES ('', 'tools.shell', 'true', 1)",
        "INSERT INTO override VALUES ('', 'plugins_dir', '\"/tmp/x\"', 1)",
        "INSERT INTO override VALUES ('pipe/a', 'tools.approve', '\"never\"', 1)",
        "INSERT INTO override VALUES ('', 'users_may_set', '[\"system_prompt\"]', 1)",
        "INSERT INTO override VALUES ('', 'timezone', '\"UTC\"', 1)",
        "INSERT INTO user VALUES ('person', 'telegram/666', 'owner', '', '', 1)",
        "INSERT INTO user VALUES ('chat', 'telegram/-5', 'user', '', '', 1)",
    )
    source = whole(tmp_path / "a.tar.gz", {NAME: content})

    restored = restore(source, tmp_path / "data", agrees=False)

    assert {key for _, key, _ in restored.contents.powers} == {
        *("tools.shell", "plugins_dir", "tools.approve", "users_may_set")
    }
    assert restored.contents.carried.owners == ("telegram/666",)
    assert restored.contents.carried.users == ("telegram/-5",)
    with closing(sqlite3.connect(tmp_path / "data" / NAME)) as connection:
        assert connection.execute("SELECT key FROM override").fetchall() == [("timezone",)]
    aside = (tmp_path / "data" / SET_ASIDE / "settings.json").read_text()
    assert "tools.shell" in aside
    restore(source, tmp_path / "other", agrees=True)
    with closing(sqlite3.connect(tmp_path / "other" / NAME)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM override").fetchone() == (5,)


def test_a_database_that_acts_by_itself_or_is_none_is_refused(tmp_path: Path) -> None:
    does = "INSERT INTO override VALUES ('', 'tools.shell', 'true', 1)"
    trigger = f"CREATE TRIGGER t AFTER DELETE ON override BEGIN {does}; END"
    forgeries = [(forged(tmp_path, trigger), "triggers or views")]
    (tmp_path / "forged.db").unlink()
    forgeries += [
        (forged(tmp_path, "CREATE VIEW v AS SELECT 1"), "triggers or views"),
        (b"SQLite format 3\0" + b"x" * 5_000, "its database can't be read"),
    ]
    for content, words in forgeries:
        source = whole(tmp_path / "a.tar.gz", {NAME: content})
        assert words in refused(source, tmp_path / "data")
        assert not (tmp_path / "data").exists()


def test_a_damaged_database_is_saved_with_a_warning_and_not_restored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, source = tmp_path / "data", tmp_path / "saved.tar.gz"
    data.mkdir()
    (tmp_path / "config.json").write_text("{}")
    with closing(connect(data / NAME)) as connection:
        migrate(connection)
    page = 4096
    with (data / NAME).open("r+b") as file:
        file.seek(3 * page)
        file.write(b"x" * 3 * page)
    done = run_main(capsys, tmp_path, "backup", str(source))
    assert done.code == 1
    assert "The database is damaged, and so is this backup" in done.out
    before = files_of(data)
    sentence = refused(source, data)
    assert "is damaged; nothing was changed. Take an earlier backup." in sentence
    assert f"tar -xzf {source} -C FOLDER" in sentence
    assert files_of(data) == before


@pytest.mark.skipif(not shutil.which("sqlite3"), reason="the steps need SQLite's own program")
@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("share", [0.5, 0.7, 0.9])
def test_the_documented_steps_save_what_can_be_read_of_a_damaged_backup(
    tmp_path: Path, share: float
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    steps = page.partition("### A damaged database")[2].partition("```sh\n")[2].partition("```")[0]
    data, source, saved = tmp_path / "data", tmp_path / "b.tar.gz", tmp_path / "saved"
    data.mkdir()
    with closing(connect(data / NAME)) as database:
        migrate(database)
    with closing(sqlite3.connect(data / NAME)) as rows, rows:
        rows.execute(
            "INSERT INTO conversation (id, key, audience, created_at, active_at) "
            "VALUES (1, 'pipe/main', 'pipe-main', 0, 0)"
        )
        rows.executemany(
            "INSERT INTO message (conversation, seq, turn, role, text, extra, tokens, at) "
            "VALUES (1, ?, ?, 'user', ?, '{}', 1, 0)",
            [(number, number, "x" * 1_000) for number in range(1, 401)],
        )
    with (data / NAME).open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(int(size * share) // 4096 * 4096)
        file.write(b"x" * 4096)
    backup(data, source, SavedDatabase(NAME, engine_for(data / NAME).save_to), "0.3.0")
    assert "is damaged" in refused(source, data)

    saved.mkdir()
    subprocess.run(["tar", "-xzf", source, "-C", saved], check=True)
    subprocess.run(["sh", "-ec", steps], cwd=tmp_path, check=True, capture_output=True)

    with closing(connect(saved / NAME)) as database:
        assert engine_for(saved / NAME).examine() == ""
        assert database.schema_version() == len(MIGRATIONS)
        (count,) = database.execute_sql("SELECT COUNT(*) FROM message").fetchone()
        assert 390 < count < 400


def test_a_bomb_is_refused_before_it_fills_the_disk(tmp_path: Path) -> None:
    source = tmp_path / "bomb.tar.gz"
    member = tarfile.TarInfo("zeros")
    member.size = 1 << 34
    with gzip.open(source, "wb") as stream:
        stream.write(member.tobuf())
        for _ in range(20):
            stream.write(bytes(1 << 20))

    sentence = refused(source, tmp_path / "data")

    assert (
        "which no backup of Parley's does" in sentence or "more space than the disk has" in sentence
    )
    assert list(tmp_path.iterdir()) == [source]


def test_a_header_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "header.tar.gz"
    header = tarfile.TarInfo("header")
    header.type, header.size = tarfile.XHDTYPE, 1 << 32
    with gzip.open(source, "wb") as stream:
        stream.write(header.tobuf())
        stream.write(bytes(1 << 20))

    assert "damaged, or not a backup" in refused(source, tmp_path / "data")


def test_names_that_clash_or_that_no_backup_has_get_a_sentence(tmp_path: Path) -> None:
    others = (("a" * 300,), (f"{NAME}-wal",), ("lock",), ("logs/parley.log",))
    for names in (("a", "a/b"), ("a/b", "a"), *others):
        source = whole(tmp_path / "a.tar.gz", dict.fromkeys(names, b"x"))
        assert refused(source, tmp_path / "data").endswith(".")
        assert not (tmp_path / "data").exists()


def test_what_was_set_in_a_branch_is_told_by_its_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = forged(
        tmp_path,
        "INSERT INTO override VALUES ('pipe/main//2', 'model', '\"embedded\"', 1)",
        "INSERT INTO override VALUES ('pipe/main', 'language', '\"de\"', 1)",
        "INSERT INTO override VALUES ('', 'timezone', '\"UTC\"', 1)",
    )
    source = whole(tmp_path / "a.tar.gz", {NAME: content})
    (tmp_path / "config.json").write_text("{}")
    done = run_main(capsys, tmp_path, "restore", str(source), "--with-code")
    assert done.code == 0
    assert 'model = "embedded" in pipe/main, branch 2\n' in done.out
    assert 'language = "de" in pipe/main\n' in done.out
    assert 'timezone = "UTC"\n' in done.out


def test_settings_that_say_where_words_and_tokens_go_are_powers(tmp_path: Path) -> None:
    where = {"telegram.base_url": "http://192.0.2.1", "web.trusted_proxies": "192.0.2.0/24"}
    where["channels.messengers"] = "where a token goes, too"
    statements = (
        f"INSERT INTO override VALUES ('', '{key}', '\"{value}\"', 1)"
        for key, value in where.items()
    )
    source = whole(tmp_path / "a.tar.gz", {NAME: forged(tmp_path, *statements)})

    restored = restore(source, tmp_path / "data", agrees=False)

    assert {key for _, key, _ in restored.contents.powers} == where.keys()
    with closing(sqlite3.connect(tmp_path / "data" / NAME)) as connection:
        assert not connection.execute("SELECT key FROM override").fetchall()


def test_code_is_code_also_on_disks_that_tell_no_capitals_apart(tmp_path: Path) -> None:
    files = {"Plugins/a.py": b"1", "audiences/ann/SKILLS/b/SKILL.md": b"Obey."}
    restored = restore(whole(tmp_path / "a.tar.gz", files), tmp_path / "data", agrees=False)
    assert restored.contents.code.keys() == files.keys()
    assert all(SET_ASIDE in name for name in files_of(tmp_path / "data"))


def test_a_command_that_waits_in_a_backup_is_not_carried_out_unasked(tmp_path: Path) -> None:
    columns = "(channel, chat, thread, user, platform_id, digest, text, sender, at, is_done)"
    texts = ("/config tools.shell true", "\ufeff /config owners x", "Look at a/b")
    content = forged(
        tmp_path,
        *(
            f"INSERT INTO inbox {columns} "
            f"VALUES ('pipe', 'main', '', '', 'x{n}', '{n}', '{text}', '', 1, 0)"
            for n, text in enumerate(texts)
        ),
    )
    source = whole(tmp_path / "a.tar.gz", {NAME: content})

    restored = restore(source, tmp_path / "data", agrees=False)

    assert restored.contents.carried.commands == tuple(("pipe/main", one) for one in texts[:2])
    with closing(sqlite3.connect(tmp_path / "data" / NAME)) as connection:
        assert connection.execute("SELECT text FROM inbox").fetchall() == [(texts[2],)]
    assert "tools.shell" in (tmp_path / "data" / SET_ASIDE / "commands.json").read_text()
    restore(source, tmp_path / "other", agrees=True)
    with closing(sqlite3.connect(tmp_path / "other" / NAME)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM inbox").fetchone() == (3,)


def test_a_job_in_a_backup_is_not_run_unasked(tmp_path: Path) -> None:
    zeros = ("max_steps", "run_budget", "day_budget", "branch", "retry_at", "retry_due")
    numbers = (*zeros, "attempts", "failures", "created_at", "anchor", "planned_at")
    texts = ("home", "thread", "user", "rule", "why", "turn")
    columns = ("channel", "chat", "kind", "text", "zone", "state", "grants", "next_at")
    names = ", ".join((*columns, *numbers, *texts))
    rest = ", ".join(["0"] * len(numbers) + ["''"] * len(texts))
    jobs = [
        f"INSERT INTO scheduled_job ({names}) VALUES ('pipe', 'main', '{kind}', '{text}', 'UTC', "
        f"'active', 'shell', 1, {rest})"
        for kind, text in (("prompt", "Send it all away"), ("reminder", "Tea"))
    ]
    source = whole(tmp_path / "a.tar.gz", {NAME: forged(tmp_path, *jobs)})
    kept = "SELECT text, state, grants FROM scheduled_job ORDER BY id"

    restored = restore(source, tmp_path / "data", agrees=False)

    assert restored.contents.carried.jobs == (("pipe/main", "Send it all away"),)
    with closing(sqlite3.connect(tmp_path / "data" / NAME)) as connection:
        found = connection.execute(kept).fetchall()
    assert found == [("Send it all away", "paused", ""), ("Tea", "active", "")]
    restore(source, tmp_path / "other", agrees=True)
    with closing(sqlite3.connect(tmp_path / "other" / NAME)) as connection:
        assert connection.execute(kept).fetchall()[0] == ("Send it all away", "active", "shell")


@pytest.mark.parametrize("name", ["audiences/a\0b", "\0", "../a", "/a", "a//b", "./a", ""])
def test_no_name_in_a_backup_leads_elsewhere_or_breaks_the_file_system(
    tmp_path: Path, name: str
) -> None:
    assert not _is_inside(name, tmp_path)
