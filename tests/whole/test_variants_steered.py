"""A question asked again, and what people did to the context since: it holds for what is shared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.openai_server import Received, Say
from tests.whole.house import House, living
from tests.whole.test_branches import asked
from tests.whole.test_context_commands import states
from tests.whole.test_variants import again, echo


async def talk(house: House, *questions: str) -> None:
    for question in questions:
        await house.says(question)


LONG = [f"{word} {'and so on ' * 60}".strip() for word in ("one", "two", "three")]
SUMMARY = "They spoke of trains."


def summarising(request: Received) -> Say:
    is_turn = "You are Parley" in str(request.body["messages"][0]["content"])
    return Say("Well." if is_turn else SUMMARY)


@pytest.mark.parametrize("line", ["/regenerate", "/edit t3 three", "/regenerate t3 gpt-4o"])
async def test_what_was_pinned_and_dropped_since_the_answer_holds_where_it_is_asked_again(
    tmp_path: Path, line: str
) -> None:
    async with living(tmp_path, echo) as house:
        await talk(house, "one", "two", "three")
        await house.says("/context pin t2")
        await house.says("/context drop t1")
        await again(house, line)
        assert asked(house) == ["two", "three"]
        assert (await states(house))["t1"] == "dropped"
        assert "pinned" in (await states(house))["t2"]
    async with living(tmp_path, echo) as house:  # after a restart, too
        await house.says("four")
        assert asked(house) == ["two", "three", "four"]


async def test_what_was_done_to_the_turn_that_is_asked_again_does_not_hold_for_its_successor(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, echo) as house:
        await talk(house, "one", "two", "three")
        await house.says("/context drop t1-t3")
        await again(house, "/regenerate t3")
        assert asked(house) == ["three"]
        await house.says("four")
        assert asked(house) == ["three", "four"]


async def test_a_cut_since_the_answer_holds_with_its_summary_and_is_undone_in_each_alone(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, summarising) as house:
        await talk(house, *LONG)
        assert "t1 to t2" in (await house.says("/context compact t1-t2 trains")).text
        await again(house, "/regenerate t3")
        assert SUMMARY in str(house.sent_to_model())
        assert LONG[0] not in str(house.sent_to_model())
        await house.says("/context undo")
        await house.says("four")
        assert asked(house) == [*LONG, "four"]
        await house.says("/branches 1")
        await house.says("five")
        assert SUMMARY in str(house.sent_to_model())
        assert LONG[0] not in str(house.sent_to_model())


async def test_a_summary_that_tells_of_the_turn_that_is_asked_again_stays_where_it_was(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, summarising) as house:
        await talk(house, *LONG)
        assert "t2 to t3" in (await house.says("/context compact t2-t3 trains")).text
        await again(house, "/regenerate t3")
        assert asked(house) == LONG
        assert SUMMARY not in str(house.sent_to_model())
        await house.says("/branches 1")
        await house.says("four")
        assert SUMMARY in str(house.sent_to_model())


async def test_what_was_taken_back_since_the_answer_is_taken_back_there(tmp_path: Path) -> None:
    async with living(tmp_path, echo) as house:
        await talk(house, "one", "two")
        await house.says("/context drop t1")
        await house.says("three")
        await house.says("/context undo")
        await again(house, "/regenerate t3")
        assert asked(house) == ["one", "two", "three"]


async def test_what_was_cleared_since_the_answer_is_out_of_the_models_reach_there(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, echo) as house:
        await talk(house, "The word is swordfish.", "two", "three")
        await house.says("/context clear")
        await again(house, "/regenerate t3")
        assert asked(house) == ["three"]
        assert (await states(house))["t1"] == "cleared"
        await house.says("/context undo")
        await house.says("four")
        assert asked(house) == ["The word is swordfish.", "two", "three", "four"]


async def test_it_holds_when_it_is_asked_again_in_the_branch_and_when_that_is_forgotten(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, echo) as house:
        await talk(house, "one", "two", "three")
        await again(house, "/edit t3 other")
        await house.says("/context drop t1")
        await again(house, "/regenerate t3")
        assert asked(house) == ["two", "other"]
        await house.says("/branches 2")
        sure = await house.says("/forget chat")
        await house.says(sure.actions[0].command)
        await house.says("/branches 3")
        await house.says("four")
        assert asked(house) == ["two", "other", "four"]


async def test_what_is_done_later_in_another_branch_does_not_come_along(tmp_path: Path) -> None:
    async with living(tmp_path, echo) as house:
        await talk(house, "one", "two")
        await house.says("/fork t2")
        await house.says("three")
        await house.says("/branches 1")
        await house.says("/context drop t1")
        await house.says("/branches 2")
        await again(house, "/regenerate t3")
        assert asked(house) == ["one", "two", "three"]


async def test_a_fork_from_an_earlier_turn_begins_with_the_context_as_it_was_then(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, echo) as house:
        await talk(house, "one", "two", "three")
        await house.says("/context drop t1")
        await house.says("/fork t2")
        await house.says("other")
        assert asked(house) == ["one", "two", "other"]
