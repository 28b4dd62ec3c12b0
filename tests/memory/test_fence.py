"""Tests that code that changes or deletes a file of an audience first checks that this process
may."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent.tools.allowance import record_own
from agent.tools.workspace import save_file
from memory.keys import ConversationKey
from memory.messages import Message
from memory.record import daily, folders, forget, memory_file, offload
from memory.record.store import Store
from memory.services import Redactor
from memory.turns import Entry, Turn
from plugins.cluster.record import FencedError
from plugins.context_files import files

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
KEY = ConversationKey("pipe/main", "pipe-main")


def turn(number: int) -> Turn:
    question = Entry(2 * number, number, Message("user", "Hi"), 3, NOON)
    reply = Entry(2 * number + 1, number, Message("assistant", "Hello!"), 3, NOON)
    return Turn(number, (question, reply))


def section(job: int) -> daily.Section:
    return daily.Section(KEY, NOON, f"t{job}", "They spoke.", job)


def lay_out(data: Path) -> None:
    """Create the files left by an earlier process."""
    folder = data / "audiences" / KEY.audience
    daily.append(data, section(1))
    daily.append(daily.quarantine(data), section(2))
    memory_file.write_draft(memory_file.path_of(data, KEY.audience), "- One\n")
    memory_file.publish(memory_file.path_of(data, KEY.audience))
    memory_file.write_draft(memory_file.path_of(data, KEY.audience), "- Two\n")
    offload.append(folder / "sessions" / "s" / offload.CONTEXT, turn(1).entries)
    offload.save_once(folder / "sessions" / "s" / "result.txt", b"42")
    offload.save_once(folder / "data" / "picture.png", b"\x89PNG")
    files.write(folder / "sessions" / "s", [turn(1)], KEY.id, Redactor())
    save_file(folder, folder / "files" / "notes.txt", b"one")
    record_own(folder, folder / "files" / "notes.txt", b"one")


CHANGES: dict[str, Callable[[Path, Path], object]] = {
    "add to a day": lambda data, folder: daily.append(data, section(3)),
    "take out of a day": lambda data, folder: daily.remove(
        data, KEY.audience, daily.SectionFilter(frozenset({1}))
    ),
    "let out of quarantine": lambda data, folder: daily.release(data, KEY.audience, 2),
    "draft a memory": lambda data, folder: memory_file.write_draft(
        memory_file.path_of(data, KEY.audience), "- Three\n"
    ),
    "publish a memory": lambda data, folder: memory_file.publish(
        memory_file.path_of(data, KEY.audience)
    ),
    "drop a draft": lambda data, folder: memory_file.drop_draft(
        memory_file.path_of(data, KEY.audience)
    ),
    "write what removed from the context": lambda data, folder: offload.append(
        folder / "sessions" / "s" / offload.CONTEXT, turn(2).entries
    ),
    "take turns out of it": lambda data, folder: offload.remove_turns(
        folder / "sessions" / "s", {1}, lambda name: name == "result.txt"
    ),
    "keep a file": lambda data, folder: offload.save_once(folder / "data" / "a.png", b"new"),
    "write a conversation's files": lambda data, folder: files.write(
        folder / "sessions" / "s", [turn(1), turn(2)], KEY.id, Redactor()
    ),
    "delete a conversation's files": lambda data, folder: files.write(
        folder / "sessions" / "s", [], KEY.id, Redactor()
    ),
    "delete data": lambda data, folder: forget.delete_data(folder, ["data/picture.png"]),
    "delete a folder": lambda data, folder: forget.delete_folder(folder),
    "write a file": lambda data, folder: save_file(folder, folder / "files" / "notes.txt", b"two"),
    "vouch for a file": lambda data, folder: record_own(
        folder, folder / "files" / "new.txt", b"new"
    ),
}


def contents(data: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in data.rglob("*") if path.is_file()}


def refuse() -> None:
    raise FencedError("Another process has taken over this work.")


def test_who_was_taken_for_dead_changes_no_file_and_all_others_do(tmp_path: Path) -> None:
    def try_it(change: str, data: Path) -> None:
        folders.set_file_check(refuse)
        try:
            CHANGES[change](data, data / "audiences" / KEY.audience)
        except FencedError:
            return
        assert change == "drop a draft", "it is said nowhere else"

    for number, change in enumerate(CHANGES):
        data = tmp_path / str(number)
        lay_out(data)
        before = contents(data)
        copy_context().run(try_it, change, data)
        assert contents(data) == before, change
        CHANGES[change](data, data / "audiences" / KEY.audience)
        assert contents(data) != before, change


async def test_a_fence_holds_for_the_files_of_all_that_begins_after_it(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "parley.db")
    file = tmp_path / "files" / "notes.txt"

    async def write() -> None:
        await asyncio.to_thread(save_file, tmp_path, file, b"two")

    async def work() -> None:
        store.fence(lambda database: refuse())
        await asyncio.create_task(write())

    await write()
    with pytest.raises(FencedError):
        await asyncio.create_task(work())
    await write()  # a concurrent task has another store, or none
    await store.close()
