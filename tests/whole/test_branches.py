"""Branches: `/fork`, `/branches`, and a chat that leads from one conversation to another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.fakes.openai_server import Say
from tests.whole.house import House, living


def asked(house: House, index: int = -1) -> list[Any]:
    """What a request held besides the system prompt, without the answers."""
    return [m["content"] for m in house.sent_to_model(index) if m["role"] == "user"]


async def test_a_branch_goes_on_from_a_turn_and_the_other_conversation_from_where_it_was(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, [Say("One."), Say("Two."), Say("New."), Say("Old.")]) as house:
        await house.says("first")
        await house.says("second")
        told = await house.says("/fork t1 Another way")
        assert "You are in branch 2, “Another way” now. It shares t1 with branch 1" in told.text
        await house.says("third, here")
        assert asked(house) == ["first", "third, here"]
        assert "You are in branch 1" in (await house.says("/branches 1")).text
        await house.says("third, there")
        assert asked(house) == ["first", "second", "third, there"]


async def test_the_branch_that_a_chat_leads_to_is_the_same_after_a_restart(tmp_path: Path) -> None:
    async with living(tmp_path, [Say("One.")]) as house:
        await house.says("first")
        await house.says("/fork")
    async with living(tmp_path, [Say("Two."), Say("Three.")]) as house:
        await house.says("second")
        assert asked(house) == ["first", "second"]
        listed = await house.says("/branches")
        assert "| **2** |" in listed.text
        assert [action.command for action in listed.actions] == ["/branches 1"]
        await house.says("/branches 1")
        await house.says("again")
        assert asked(house) == ["first", "again"]
