"""Chats in lists: pinned, put away; and turns that come with a command."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from channels.message import Attachment
from tests.fakes.openai_server import Answer, Received, Say
from tests.whole.house import House, living


def echo(request: Received) -> Answer:
    return Say(f"re: {request.body['messages'][-1]['content']}")


async def standing(house: House) -> str:
    (session,) = await (await house.bot()).sessions("pipe")
    return session.standing


async def test_a_chat_is_pinned_or_archived_and_stays_so(tmp_path: Path) -> None:
    async with living(tmp_path, echo) as house:
        await house.says("Hello")
        assert await standing(house) == ""
        assert (await house.says("/pin")).actions[0].command == "/pin --unset"
        assert await standing(house) == "pinned"
        await house.says("/archive")
        assert await standing(house) == "archived"
        assert "is not pinned" in (await house.says("/pin --unset")).text
        await house.says("/fork")
        assert await standing(house) == "archived"
    async with living(tmp_path, echo) as house:
        assert await standing(house) == "archived"
        await house.says("/archive --unset")
        assert await standing(house) == ""


@pytest.mark.parametrize("line", ["/pin t3", "/archive now", "/pin --unset now"])
async def test_what_is_not_understood_changes_nothing(tmp_path: Path, line: str) -> None:
    async with living(tmp_path, echo) as house:
        await house.says("Hello")
        assert "takes nothing but --unset" in (await house.says(line)).text
        assert await standing(house) == ""


async def test_what_was_forgotten_stands_nowhere(tmp_path: Path) -> None:
    async with living(tmp_path, echo) as house:
        await house.says("Hello")
        await house.says("/pin")
        await house.says("/forget chat yes")
        await house.says("Hello again")
        assert await standing(house) == ""


async def test_a_file_that_comes_with_the_command_is_imported(tmp_path: Path) -> None:
    async with living(tmp_path, echo) as house:
        await house.says("Hello")
        exported = (await house.says("/context export")).data
        assert exported
        content = await asyncio.to_thread(Path(exported["files"][0]).read_bytes)
        file = Attachment("trip.json", "application/json", content)
        reply = await house.says("/context import", chat="other", files=(file,))
        assert "Imported 1 turn" in reply.text
        reply = await house.says("/context drop t1", chat="other", files=(file,))
        files = [*(tmp_path / "data" / "audiences" / "pipe-other" / "files").iterdir()]
        assert len(files) == 1  # what comes with other commands is not kept
