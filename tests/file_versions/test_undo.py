"""Tests that undo and branches offer to restore the files that tools wrote, and that a button does
it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from channels.message import Reply
from tests.fakes.openai_server import Call, Say
from tests.whole.testbot import TestBot, run_bot

FILES = Path("data/audiences/pipe-main/files")


def writes(path: str, content: str) -> list[Say]:
    call = Call("write_file", json.dumps({"path": path, "content": content}))
    return [Say(calls=(call,)), Say("Done.")]


def command(reply: Reply, label: str) -> str:
    return next(action.command for action in reply.actions if action.label == label)


async def press(bot: TestBot, reply: Reply, label: str) -> Reply:
    return await bot.says(command(reply, label))


async def test_undo_offers_the_files_and_a_button_restores_them(tmp_path: Path) -> None:
    script = [*writes("plan.txt", "one"), *writes("plan.txt", "two")]
    async with run_bot(tmp_path, script) as bot:
        await bot.says("Write a plan")
        await bot.says("Write another")
        plan = tmp_path / FILES / "plan.txt"
        undone = await bot.says("/undo")
        assert undone.text.endswith(
            "The files are not as they were at the end of t1: `plan.txt`. /files restore t1 "
            "restores them."
        )
        assert plan.read_text() == "two"
        restored = await press(bot, undone, "Restore files")
        assert restored.text == "Restored: `plan.txt`."
        assert plan.read_text() == "one"
        assert (await press(bot, restored, "Undo")).text == "Restored: `plan.txt`."
        assert plan.read_text() == "two"
        back = await bot.says("/files undo")
        assert (await press(bot, restored, "Undo")).problem == "command_refused", "done already"
        assert plan.read_text() == "one"
        redone = await press(bot, undone, "Bring back")
        assert command(redone, "Restore files") == "/files restore t2"
        await press(bot, redone, "Restore files")
        assert plan.read_text() == "two"
        assert "t2" in (await bot.says("/files")).text
        assert back.data == {"restored": ["files/plan.txt"], "failed": {}, "left": []}


async def test_branches_and_edits_offer_the_files_of_where_they_lead(tmp_path: Path) -> None:
    script = [*writes("a.txt", "1"), *writes("a.txt", "2"), *writes("b.txt", "3")]
    async with run_bot(tmp_path, script) as bot:
        folder = tmp_path / FILES
        await bot.says("One")
        await bot.says("Two")
        forked = await bot.says("/fork t1")
        listed = await bot.says("/files")
        assert "| t1 | `a.txt` |" in listed.text, "the branch shares this turn"
        assert "| t2 |" not in listed.text
        await press(bot, forked, "Restore files")
        assert (folder / "a.txt").read_text() == "1"
        await bot.says("Three")
        first = await bot.says("/branches 1")
        assert command(first, "Restore files") == "/files restore branch"
        await press(bot, first, "Restore files")
        assert {file.name: file.read_text() for file in folder.iterdir()} == {"a.txt": "2"}
        second = await bot.says("/branches 2")
        await press(bot, second, "Restore files")
        there = {file.name: file.read_text() for file in folder.iterdir()}
        assert there == {"a.txt": "1", "b.txt": "3"}


async def test_what_a_person_changed_is_named_and_takes_another_yes(tmp_path: Path) -> None:
    script = [*writes("a.txt", "1"), *writes("a.txt", "2")]
    async with run_bot(tmp_path, script) as bot:
        file = tmp_path / FILES / "a.txt"
        await bot.says("One")
        await bot.says("Two")
        file.write_text("mine")
        undone = await bot.says("/undo")
        assert "Somebody else has changed `a.txt` since" in undone.text
        refused = await bot.says("/files restore t1")
        assert refused.text.startswith("Nothing was restored. Somebody else has changed `a.txt`")
        assert file.read_text() == "mine"
        done = await press(bot, refused, "Restore all the same")
        assert file.read_text() == "1"
        await press(bot, done, "Undo")
        assert file.read_text() == "mine"


async def test_a_turn_that_came_since_is_not_taken_back_by_an_old_button(tmp_path: Path) -> None:
    script = [*writes("a.txt", "1"), *writes("a.txt", "2")]
    async with run_bot(tmp_path, script) as bot:
        file = tmp_path / FILES / "a.txt"
        await bot.says("One")
        edited = await bot.says("/edit t1 Another one")
        await bot.reply_to((edited.data or {})["asked"])
        old = await press(bot, edited, "Restore files")
        assert "Turns that are still in the context have changed `a.txt` since" in old.text
        assert file.read_text() == "2"


async def test_a_damaged_list_of_changes_is_said_to_be_and_keeps_nothing_from_working(
    tmp_path: Path,
) -> None:
    versions = tmp_path / "data/versions/pipe-main"
    async with run_bot(tmp_path, [*writes("a.txt", "1"), *writes("a.txt", "2")]) as bot:
        await bot.says("One")
        log = versions / "log.jsonl"
        log.unlink()
        log.mkdir()
        assert (await bot.says("/files")).text == (
            "The list of file changes was damaged, so some are not known any more; the damaged "
            "file is kept as `log.jsonl.damaged`."
        )
        await bot.says("Two")
        undone = await bot.says("/undo")
        assert "The list of file changes was damaged" in undone.text
        assert not [one for one in undone.actions if "Restore" in one.label]
        assert "1 file change" in (await bot.says("/forget chat")).text
        await bot.says("/forget chat yes")
        assert not versions.exists()


async def test_a_folder_of_versions_that_can_t_be_used_is_told_in_a_sentence(
    tmp_path: Path,
) -> None:
    versions = tmp_path / "data/versions/pipe-main"
    async with run_bot(tmp_path, [*writes("a.txt", "1"), *writes("a.txt", "2")]) as bot:
        await bot.says("One")
        shutil.rmtree(versions)
        versions.write_text("no folder")
        assert (await bot.says("Two")).text == "Done."
        told = f"{versions} can't be used: it is not a regular file."
        for command in ("/files", "/files restore t1", "/forget chat yes"):
            assert (await bot.says(command)).text == told
        assert "Undone" in (await bot.says("/undo")).text


async def test_forgetting_deletes_versions_and_the_setting_keeps_none(tmp_path: Path) -> None:
    versions = tmp_path / "data/versions/pipe-main"
    async with run_bot(tmp_path, [*writes("a.txt", "1"), *writes("a.txt", "2")]) as bot:
        await bot.says("One")
        await bot.says("Two")
        assert versions.exists()
        assert "2 file changes" in (await bot.says("/forget chat")).text
        await bot.says("/forget chat yes")
        assert not versions.exists()
    off = {"tools": {"versions_quota": 0}}
    async with run_bot(tmp_path, writes("a.txt", "3"), off) as bot:
        await bot.says("Three")
        assert not versions.exists()
        assert "restore" not in (await bot.says("/undo")).text.replace("restores it", "")
        assert (await bot.says("/files")).text.startswith("No versions are kept")
