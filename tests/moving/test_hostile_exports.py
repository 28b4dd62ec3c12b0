"""Tests of malicious exports: reading any of them ends with a sentence, within a gigabyte of
memory, and without writing a file."""

from __future__ import annotations

import json
import os
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.moving.other_programs import (
    gpt_conversation,
    gpt_message,
    webui_chat,
    write_cow_database,
    write_webui_database,
)
from tests.whole.forks import run

pytestmark = pytest.mark.usefixtures("processes")

GIGABYTE = 1_000_000_000
READ = f"""
import resource, sys
for what, most in (("AS", {GIGABYTE}), ("CPU", 60), ("FSIZE", 1_000_000), ("NOFILE", 100)):
    resource.setrlimit(getattr(resource, "RLIMIT_" + what), (most, most))
from pathlib import Path
from plugins.moving.kinds import OPENERS
from plugins.moving.source import MovingError
from memory.record.store import StoreError
try:
    source = OPENERS[sys.argv[1]](Path(sys.argv[2]))
    for chat in source.chats():
        print("chat", repr(chat)[:500])
    for name in ("file-abc", "../secret", "data:image/png;base64,!!!"):
        source.picture(name)
    print("own", source.read_profile())
    print("left out", dict(source.skipped.counts))
except (MovingError, StoreError) as error:
    print("sentence", error)
"""


def read(kind: str, path: Path) -> str:
    """Return the result of reading an export, in a separate process with little memory and time."""
    done = run((kind, str(path)), os.environ, READ)
    assert done.returncode == 0, done.stderr[-2_000:]
    return done.stdout


def deep(path: Path) -> None:
    path.write_bytes(b"[" + b'{"mapping":' * 3_000_000)


def brackets(path: Path) -> None:
    path.write_bytes(b"[" * 20_000_000)


def many_small(path: Path) -> None:
    path.write_bytes(b'[{"mapping": {"a": [' + b'"a","b",' * 8_000_000)


def one_long_text(path: Path) -> None:
    path.write_bytes(b'[{"mapping": {"a": "' + b"x" * 400_000_000)


def half(path: Path) -> None:
    whole = json.dumps([gpt_conversation("c", "C", [gpt_message("user", "Hi")])])
    path.write_text(whole[: len(whole) // 2])


def noise(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 1_000)


def nothing(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("write", [deep, brackets, many_small, one_long_text, half, noise, nothing])
def test_damaged_and_endless_json_ends_in_a_sentence(
    tmp_path: Path, write: Callable[[Path], None]
) -> None:
    path = tmp_path / "conversations.json"
    write(path)
    assert read("chatgpt", path).startswith("sentence ")


@pytest.mark.parametrize("write", [deep, one_long_text])
def test_endless_lines_are_told(tmp_path: Path, write: Callable[[Path], None]) -> None:
    (tmp_path / "sessions").mkdir()
    write(tmp_path / "sessions" / "session.jsonl")
    assert "chat UnreadableChat(" in read("openclaw", tmp_path)


def test_json_of_other_shapes_is_nothing_to_read(tmp_path: Path) -> None:
    shapes: list[object] = [
        1,
        None,
        "text",
        [],
        {},
        {"mapping": 5},
        {"mapping": {"a": 5, "b": {"parent": "b", "message": []}}, "current_node": "b"},
        {"mapping": {"a": {"parent": "b"}, "b": {"parent": "a"}}, "current_node": "a"},
        {"mapping": {"a": {"message": {"author": 5, "content": {"parts": {"x": 1}}}}}, "id": 7},
        {"chat": {"history": {"messages": {"a": {"role": "user", "content": {"x": 1}}}}}},
        {"chat": {"history": {"messages": {"a": {"parentId": "a", "files": [1, {"url": 5}]}}}}},
        {"chat": {"messages": [5, {"role": "assistant", "content": '<details type="x' * 9}]}},
    ]
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(shapes))
    for kind in ("chatgpt", "open-webui"):
        assert read(kind, path).count("\nchat ") == len(shapes) - 1


def test_a_bomb_in_a_zip_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("conversations.json", "w", force_zip64=True) as member,
    ):
        for _ in range(300):
            member.write(b" " * 1_000_000)
    assert "300 MB unpacked" in read("chatgpt", path)


def test_names_in_a_zip_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    path = tmp_path / "inner" / "export.zip"
    path.parent.mkdir()
    conversation = gpt_conversation("../../c", "../../title", [gpt_message("user", "Hi")])
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../conversations.json", json.dumps([conversation]))
        archive.writestr("/etc/file-abc.png", b"no picture")
    before = sorted(tmp_path.rglob("*"))
    told = read("chatgpt", path)
    assert "chat ForeignChat" in told
    assert "secret" not in told
    assert sorted(tmp_path.rglob("*")) == before


def test_links_in_a_folder_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps([gpt_conversation("c", "C", [gpt_message("user", "secret")])]))
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "conversations.json").symlink_to(secret)
    (folder / "self").symlink_to(folder)
    assert "There is no conversations.json" in read("chatgpt", folder)
    link = tmp_path / "my-export.json"
    link.symlink_to(secret)
    assert "secret" in read("chatgpt", link), "the one that the person names is"


def test_a_zip_with_a_password_or_half_of_one_ends_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", json.dumps([1] * 10_000))
    content = bytearray(path.read_bytes())
    (tmp_path / "half.zip").write_bytes(content[: len(content) // 2])
    for kind in ("chatgpt", "open-webui", "cowagent"):
        assert "is an incomplete or damaged ZIP" in read(kind, tmp_path / "half.zip")
    place = content.index(b"PK\x01\x02") + 8  # the flags of the member
    content[place] |= 1
    content[6] |= 1
    (tmp_path / "locked.zip").write_bytes(content)
    assert "password" in read("chatgpt", tmp_path / "locked.zip")


def test_a_database_that_computes_is_not_asked(tmp_path: Path) -> None:
    path = tmp_path / "webui.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            """CREATE VIEW chat(id, user_id, chat) AS WITH RECURSIVE n(i) AS
                (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, i, i FROM n"""
        )
    assert "no database of Open WebUI" in read("open-webui", path)
    (path).unlink()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE big(x)")
        database.execute(
            """CREATE TABLE chat(id, user_id, chat AS (hex(zeroblob(1000000000))), title)"""
        )
    assert "no database of Open WebUI" in read("open-webui", path)


HUGE = 200_000_000


def write_with_hole(path: Path, entries: list[object]) -> None:
    """Write a JSON list, with a huge text where an entry says so."""
    before, after = json.dumps(entries).encode().split(b'"hole"', 1)
    with path.open("wb") as file:
        file.write(before + b'"')
        for _ in range(HUGE // 1_000_000):
            file.write(b"x" * 1_000_000)
        file.write(b'"' + after)


@pytest.mark.parametrize("kind", ["chatgpt", "open-webui"])
def test_one_huge_value_of_a_list_costs_its_conversation(tmp_path: Path, kind: str) -> None:
    entries: list[object] = [
        gpt_conversation(name, name, [gpt_message("user", text)])
        if kind == "chatgpt"
        else webui_chat(name, name, [{"role": "user", "content": text}])
        for name, text in {"first": "Hi", "second": "hole", "third": "Hi"}.items()
    ]
    path = tmp_path / "conversations.json"
    write_with_hole(path, entries)
    told = read(kind, path)
    assert told.count("chat ForeignChat") == 2
    assert told.count("chat UnreadableChat('larger than") == 1
    assert "'first'" in told
    assert "'third'" in told


def test_one_huge_value_of_a_database_costs_its_row(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "Hi"}]
    chats = [webui_chat(name, name, said) for name in ("first", "second", "third", "fourth")]
    path = write_webui_database(tmp_path, chats, memories=["one", "two", "three"])
    with closing(sqlite3.connect(path)) as database, database:
        huge = f"CAST(zeroblob({HUGE}) AS TEXT)"
        database.execute(f"UPDATE chat SET chat = {huge} WHERE id = 'second'")
        database.execute(f"UPDATE chat SET created_at = {huge} WHERE id = 'fourth'")
        database.execute(f"UPDATE memory SET content = {huge} WHERE content = 'two'")
    told = read("open-webui", path)
    assert told.count("chat ForeignChat") == 2
    assert told.count("chat UnreadableChat('larger than") == 2
    assert "memory=['one', 'three']" in told
    assert "part of memory that is larger than" in told


def test_one_huge_message_of_cowagent_costs_no_other(tmp_path: Path) -> None:
    said = [("user", "one"), ("user", "two"), ("user", "three")]
    path = write_cow_database(tmp_path / "sessions" / "conversations.db", {"s": said, "t": said})
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            f"UPDATE messages SET content = CAST(zeroblob({HUGE}) AS TEXT) WHERE id = 2"
        )
    told = read("cowagent", tmp_path)
    assert told.count("chat ForeignChat") == 2
    assert told.count("text='one'") == told.count("text='three'") == 2
    assert told.count("text='two'") == 1
    assert "message that is larger than" in told


def test_a_damaged_database_ends_in_a_sentence(tmp_path: Path) -> None:
    path = write_cow_database(tmp_path / "sessions" / "conversations.db", {"s": [("user", "Hi")]})
    content = path.read_bytes()
    for start in (0, 40, 5_000, len(content) // 2):
        path.write_bytes(content[:start] + b"\xff" * 3_000 + content[start + 3_000 :])
        told = read("cowagent", tmp_path)
        assert told.startswith(("sentence ", "chat ", "own "))
    path.write_bytes(b"no database")
    assert read("cowagent", tmp_path).startswith("sentence ")


def test_blocks_of_other_shapes_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    contents: list[object] = [
        5,
        [],
        {},
        [5, {"type": "text"}, {"type": "tool_use", "input": [1], "id": 5}],
        [{"type": "tool_result", "tool_use_id": [], "content": {"x": 1}}],
        "[" * 2_000,
    ]
    said = [(role, one) for one in contents for role in ("user", "assistant", "system")]
    write_cow_database(tmp_path / "sessions" / "conversations.db", {"s": said})
    assert "chat ForeignChat" in read("cowagent", tmp_path)
