"""Tests of the versions of files: their retention, and that their paths never leave the
workspace."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from plugins.file_versions.archive import Running, TooManyFiles, VersionArchive
from plugins.file_versions.keeper import ChangeRow, FileStep

MOST = 1_000


def opened(folder: Path) -> VersionArchive:
    return VersionArchive(folder / "versions", folder / "audience")


def put(folder: Path, path: str, content: str) -> None:
    file = folder / "audience" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)


def change(folder: Path, turn: int, changes: dict[str, str], most: int = MOST) -> None:
    """Run a command that writes files, or deletes them ("")."""
    archive = opened(folder)
    name = archive.begin(Running("pipe/main", turn), most)
    for path, content in changes.items():
        if content:
            put(folder, path, content)
        else:
            (folder / "audience" / path).unlink()
    archive.finish(name, most)


def steps(folder: Path, since: int = 0) -> list[FileStep]:
    archive = opened(folder)
    return archive.plan(archive.rows(), since, ())


def restore(folder: Path, since: int = 0) -> dict[str, str]:
    return opened(folder).restore(steps(folder, since), Running("pipe/main", 1, "restore"), MOST)


def test_the_oldest_versions_go_first_and_what_is_lost_is_said(tmp_path: Path) -> None:
    for turn in range(1, 9):
        change(tmp_path, turn, {"files/a.txt": str(turn) * 240})
    assert opened(tmp_path).measure() <= MOST
    lost = {since: steps(tmp_path, since)[0].is_lost for since in (1, 7)}
    assert lost == {1: True, 7: False}
    change(tmp_path, 9, {"files/a.txt": "x" * (MOST // 4 + 1)})
    change(tmp_path, 10, {"files/a.txt": "small"})
    assert steps(tmp_path, 9)[0].is_lost  # too large for a version


def test_a_version_that_is_damaged_is_not_restored(tmp_path: Path) -> None:
    change(tmp_path, 1, {"files/a.txt": "one"})
    change(tmp_path, 2, {"files/a.txt": "two"})
    (step,) = steps(tmp_path, 1)
    (tmp_path / "versions" / step.wanted).write_text("something else")
    assert restore(tmp_path, 1) == {"files/a.txt": "its version is damaged"}
    assert (tmp_path / "audience/files/a.txt").read_text() == "two"


def test_a_crash_while_a_tool_runs_loses_nothing(tmp_path: Path) -> None:
    put(tmp_path, "files/a.txt", "mine")
    opened(tmp_path).begin(Running("pipe/main", 1), MOST)
    put(tmp_path, "files/a.txt", "half of a command")
    restarted = opened(tmp_path)
    restarted.finish("", MOST)
    (row,) = restarted.rows()
    assert (row.turn, row.path) == (1, "files/a.txt")
    with (tmp_path / "versions/log.jsonl").open("a") as log:
        log.write('{"seq": 2, "ba')  # a truncated line
    assert restore(tmp_path) == {}
    assert (tmp_path / "audience/files/a.txt").read_text() == "mine"


def make_bytes(file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join((*lines[:1], b"\xff\x00 no line\n", *lines[2:])))


def make_folder(file: Path) -> None:
    file.unlink()
    (file / "inside").mkdir(parents=True)


def make_loop(file: Path) -> None:
    file.unlink()
    file.symlink_to(file)


@pytest.mark.parametrize("damage", [make_bytes, make_folder, make_loop])
@pytest.mark.parametrize("name", ["log.jsonl", "state.json"])
def test_a_damaged_file_is_put_aside_until_its_chat_is_forgotten(
    tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    for turn in (1, 2, 3):
        change(tmp_path, turn, {"files/a.txt": f"v{turn}"})
    change(tmp_path, 4, {"files/b.txt": "b"})
    versions = tmp_path / "versions"
    damage(versions / name)
    change(tmp_path, 5, {"files/b.txt": "b5"})
    rows = opened(tmp_path).rows()
    assert (rows[-1].turn, rows[-1].path) == (5, "files/b.txt")
    assert rows == opened(tmp_path).rows()
    if name == "log.jsonl":
        aside = versions / "log.jsonl.damaged"
        assert os.path.lexists(aside)
        (lost,) = (row for row in rows if row.kind == "lost")
        known = {step.path: step.is_lost for step in steps(tmp_path, lost.seq)}
        assert not any(known.values())
        unknown = {step.path: step.is_lost for step in steps(tmp_path, lost.seq - 1)}
        assert all(unknown.values()), "what the file held then may stand in a line that is lost"
    assert restore(tmp_path, rows[-1].batch - 1) == {}
    assert (tmp_path / "audience/files/b.txt").read_text() == "b"
    opened(tmp_path).forget(lambda row: row.turn == 9, is_asked=False)
    assert name != "log.jsonl" or os.path.lexists(aside)
    opened(tmp_path).forget(lambda row: bool(row.turn))
    assert not versions.exists()


def test_of_damaged_lines_only_those_count_by_which_a_change_is_missing(tmp_path: Path) -> None:
    for turn in (1, 2, 3):
        change(tmp_path, turn, {"files/a.txt": f"v{turn}"})
    log = tmp_path / "versions/log.jsonl"
    log.write_bytes(log.read_bytes().replace(b"\n", b"\n{}\n", 1))
    assert [row.kind for row in opened(tmp_path).rows()] == ["tool"] * 3
    assert restore(tmp_path, 1) == {}
    assert (tmp_path / "audience/files/a.txt").read_text() == "v1"


def test_a_file_and_a_folder_take_the_places_of_one_another(tmp_path: Path) -> None:
    change(tmp_path, 1, {"files/a/b/c.txt": "deep"})
    change(tmp_path, 2, {"files/a/b/c.txt": ""})
    for folder in ("files/a/b", "files/a"):
        (tmp_path / "audience" / folder).rmdir()
    change(tmp_path, 3, {"files/a": "a file"})
    assert restore(tmp_path, 1) == {}
    assert (tmp_path / "audience/files/a/b/c.txt").read_text() == "deep"
    assert restore(tmp_path, 3) == {}
    assert (tmp_path / "audience/files/a").read_text() == "a file"


def test_no_link_and_no_path_leads_out_of_the_workspace(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    change(tmp_path, 1, {"files/d/secret.txt": "inside"})
    (tmp_path / "audience/files/d/secret.txt").unlink()
    (tmp_path / "audience/files/d").rmdir()
    (tmp_path / "audience/files/d").symlink_to(outside)
    (tmp_path / "audience/files/link.txt").symlink_to(outside / "secret.txt")
    change(tmp_path, 2, {"files/e.txt": "e"})
    assert {row.path for row in opened(tmp_path).rows()} == {"files/d/secret.txt", "files/e.txt"}
    archive = opened(tmp_path)
    wanted = archive.rows()[0].after
    for path in ("files/d/secret.txt", "files/../../outside/secret.txt", "/etc/passwd", "x/y"):
        for version in (wanted, ""):
            running = Running("pipe/main", 2, "restore", (path,))
            assert archive.restore([FileStep(path, version)], running, MOST).keys() == {path}
    assert [file.name for file in outside.iterdir()] == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == "secret"


def test_forgetting_keeps_what_others_still_have(tmp_path: Path) -> None:
    archive = opened(tmp_path)
    change(tmp_path, 1, {"files/a.txt": "one"})
    change(tmp_path, 2, {"files/a.txt": "two"})
    change(tmp_path, 3, {"files/a.txt": "three"})

    def kept() -> set[str]:
        return {
            file.read_text() for file in (tmp_path / "versions").iterdir() if len(file.name) == 64
        }

    archive.forget(lambda row: row.turn == 1)
    assert kept() == {"one", "two", "three"}
    archive.forget(lambda row: row.turn == 2)
    assert kept() == {"two", "three"}
    archive.forget(lambda row: True)
    assert not (tmp_path / "versions").exists()


def test_a_command_that_runs_beside_another_tool_is_not_blamed_for_its_file(tmp_path: Path) -> None:
    archive = opened(tmp_path)
    command = archive.begin(Running("pipe/main", 1), MOST)
    put(tmp_path, "files/a.txt", "by the command")
    tool = archive.begin(Running("pipe/other", 7, "tool", ("files/b.txt",)), MOST)
    put(tmp_path, "files/b.txt", "by the tool")
    archive.finish(tool, MOST)
    archive.finish(command, MOST)

    def told(row: ChangeRow) -> tuple[str, int, str]:
        return row.conversation, row.turn, row.path

    assert sorted(map(told, archive.rows())) == [
        ("pipe/main", 1, "files/a.txt"),
        ("pipe/other", 7, "files/b.txt"),
    ]


def test_very_many_files_are_not_followed_when_a_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plugins.file_versions.archive.MOST_FILES", 3)
    for name in "abcd":
        put(tmp_path, f"files/{name}", name)
    archive = opened(tmp_path)
    with pytest.raises(TooManyFiles):
        archive.begin(Running("pipe/main", 1), MOST)
    tool = archive.begin(Running("pipe/main", 1, "tool", ("files/a",)), MOST)
    put(tmp_path, "files/a", "changed")
    archive.finish(tool, MOST)
    assert [row.path for row in archive.rows()] == ["files/a"]


def test_all_names_are_followed_that_can_be_restored(tmp_path: Path) -> None:
    names = (
        "a\u00a0b",
        "a\u200db",
        "a\u3000b",
        "\U0001f9d1\u200d\U0001f680",
        " ",
        "`|`",
        "é",
        "e\u0301",
    )
    change(tmp_path, 1, {f"files/{name}": name for name in (*names, "a\nb", "a\\b")})
    assert {step.path.removeprefix("files/") for step in steps(tmp_path)} == {*names}
    assert restore(tmp_path) == {}


def test_what_left_the_log_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plugins.file_versions.archive.MOST_ROWS", 10)
    for turn in range(1, 13):
        change(tmp_path, turn, {"files/a.txt": f"{turn}", f"files/{turn}": "x"})
    (one,) = (step for step in steps(tmp_path) if step.path == "files/a.txt")
    assert one.is_lost  # and not as it was at the beginning of the log
    first = opened(tmp_path).rows()[0].seq
    assert not any(step.is_lost for step in steps(tmp_path, first))
    change(tmp_path, 13, {f"files/more{n}": "x" for n in range(30)})
    assert len(steps(tmp_path, opened(tmp_path).rows()[-1].batch - 1)) == 30  # no part of a batch
    opened(tmp_path).forget(lambda row: row.turn < 13)
    change(tmp_path, 14, {"files/more1": "y"})
    opened(tmp_path).forget(lambda row: row.turn == 13)
    assert [(step.path, step.is_lost) for step in steps(tmp_path)] == [("files/more1", True)]


def test_a_file_that_is_too_large_to_be_read_counts_by_its_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plugins.file_versions.keeper.MOST_READ", 100)
    change(tmp_path, 1, {"files/a.bin": "x" * 101, "files/b.bin": "x" * 101})
    change(tmp_path, 2, {"files/a.bin": "y" * 101})
    assert [(step.path, step.is_lost) for step in steps(tmp_path, 2)] == [("files/a.bin", True)]
    assert opened(tmp_path).measure() == 0


@pytest.mark.parametrize("name", ["log.jsonl", "state.json"])
@pytest.mark.parametrize(
    "junk",
    [
        *(b"\xff\xfe\n", b"[]", b"null", b"\0" * 99, b'{"seq": "x"}', b"[" * 20_000),
        b'{"files": {"\xff": 1}}',
        b'{"files": {"files/x": ["../../x", 1, 1, 1, 1, true]}}',
        b'{"running": {"x": {"conversation": "p/m", "turn": 1, "paths": ["../../x", "a\\u0000"]}}}',
        b'{"seq": 1, "batch": 1, "at": 1, "conversation": "p/m", "turn": 1, "kind": "tool", '
        b'"path": "a\\u0000b", "before": "../../x", "after": ""}',
    ],
)
def test_a_damaged_archive_keeps_nothing_from_working(
    tmp_path: Path, name: str, junk: bytes
) -> None:
    put(tmp_path, "files/a.txt", "mine")
    (tmp_path / "versions").mkdir()
    (tmp_path / "versions" / name).write_bytes(junk)
    assert opened(tmp_path).estimate_growth(steps(tmp_path)) <= 0
    restore(tmp_path)
    change(tmp_path, 2, {"files/a.txt": "changed"})
    archive = opened(tmp_path)
    last = archive.rows()[-1]
    assert (last.turn, last.path) == (2, "files/a.txt")
    assert restore(tmp_path, last.batch - 1) == {}
    assert (tmp_path / "audience/files/a.txt").read_text() == "mine"
