"""Tests of the conditions under which a summary can be requested in the conversation itself, and is
cheaper."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from memory.context import emergency
from memory.context.change import Change, Clip
from memory.context.continued import (
    KEPT_FOR,
    LEAST,
    LastRequest,
    RequestBeginning,
    find_beginning,
    pays,
)
from memory.context.cut_cost import InputPrice
from memory.context.forecast import certain, is_far
from memory.context.forms import TurnForm, assign_form
from memory.context.meter import PrefixTokens, PromptPrefix
from memory.context.settings import Limits
from memory.context.strategies import STRATEGIES
from memory.context.view import LogLine, Scale, View
from memory.ledger import Spent
from memory.messages import NOTHING_BESIDE, Image, Message, ToolCall
from memory.turns import Entry, Turn
from tests.memory.harness import MemoryHarness, execute

CACHED = Spent("answer", "fake", 2_000, 1_900, 5, None)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[MemoryHarness]:
    harness = MemoryHarness(tmp_path)
    harness.limit(max_turns=20)
    await harness.open()
    for number in range(1, 7):
        await harness.says(f"question {number}", ["a result"] if number == 2 else [])
    await report(harness)
    (await harness.conversation()).context.book(CACHED)
    yield harness
    await harness.close()


async def report(harness: MemoryHarness, model: str = "") -> None:
    """The provider has counted the next request."""
    conversation = await harness.conversation()
    await conversation.calibration.learn(conversation.context.view(), 2_000, model)


async def sent(harness: MemoryHarness) -> LastRequest:
    found = (await harness.conversation()).context.as_sent()
    assert found is not None
    return found


def find(sent: LastRequest, turns: Sequence[Turn], prior: int = 0) -> RequestBeginning | None:
    return find_beginning(sent, turns, prior, datetime.now(UTC))


async def test_it_ends_with_the_last_of_the_turns(harness: MemoryHarness) -> None:
    now = await sent(harness)
    found = find(now, now.view.whole[:3])
    assert found is not None
    whole = now.view.to_wire(now.prefix)
    assert list(found.messages) == whole[: len(found.messages)]
    assert whole[len(found.messages)]["content"] == "question 4"
    assert found.tools == harness.frame.tools
    assert 0 < found.tokens < now.view.tokens


async def test_a_conversation_whose_provider_reports_no_cache_has_none(
    harness: MemoryHarness,
) -> None:
    await harness.restart()  # its cost is on disk, where the calls had no cached tokens
    await report(harness)
    assert (await harness.conversation()).context.as_sent() is None


async def test_one_that_another_model_was_sent_last_has_none(harness: MemoryHarness) -> None:
    await report(harness, "another")
    assert (await harness.conversation()).context.as_sent() is None


async def test_one_that_stood_behind_another_prompt_has_none(harness: MemoryHarness) -> None:
    harness.frame = PromptPrefix("You are another test.", harness.frame.tools)
    assert (await harness.conversation()).context.as_sent() is None


async def test_one_of_which_nobody_knows_what_was_sent_last_has_none(
    harness: MemoryHarness,
) -> None:
    await harness.restart()
    (await harness.conversation()).context.book(CACHED)
    assert (await harness.conversation()).context.as_sent() is None


async def test_turns_that_are_not_the_first_have_none(harness: MemoryHarness) -> None:
    now = await sent(harness)
    assert find(now, now.view.whole[1:3]) is None
    assert find(now, ()) is None
    assert find(now, (*now.view.whole, Turn(7, now.view.whole[0].entries))) is None


async def test_turns_behind_another_summary_than_theirs_have_none(harness: MemoryHarness) -> None:
    now = await sent(harness)
    assert find(now, now.view.whole[:3], prior=1) is None


@pytest.mark.parametrize("kind", ["squeeze", "clip"])
async def test_turns_that_are_not_sent_as_they_were_said_have_none(
    harness: MemoryHarness, kind: str
) -> None:
    conversation = await harness.conversation()
    turn = conversation.context.view().whole[1]
    change = (
        Change(assign_form({2}, TurnForm("squeezed")))
        if kind == "squeeze"
        else Change(clip={turn.entries[0].seq: Clip(3, 2)})
    )
    await execute(conversation, change)
    now = await sent(harness)
    assert find(now, now.view.whole[:3]) is None
    assert find(now, now.view.whole[:1]) is not None


async def test_turns_with_pictures_have_none(harness: MemoryHarness) -> None:
    now = await sent(harness)
    first, *rest = now.view.whole
    (asked, *answer) = first.entries
    seen = replace(asked, message=replace(asked.message, images=(Image("f", "image/png"),)))
    turns = (Turn(1, (seen, *answer)), *rest)
    view = replace(now.view, whole=turns, turns=turns)
    assert find(replace(now, view=view), turns[:3]) is None


async def test_what_was_sent_long_ago_is_forgotten(harness: MemoryHarness) -> None:
    now = await sent(harness)
    said = now.view.whole[-1].entries[-1].at
    for after, is_there in ((KEPT_FOR - timedelta(seconds=1), True), (KEPT_FOR, False)):
        found = find_beginning(now, now.view.whole[:3], 0, said + after)
        assert (found is not None) == is_there


async def test_an_activity_log_stays_and_is_not_summarised_with_the_turns(
    harness: MemoryHarness,
) -> None:
    conversation = await harness.conversation()
    harness.limit(strategy="slim", fold_turns=1, full_turns=2)
    await harness.says("question 7")
    now = LastRequest(conversation.context.view(harness.frame), harness.frame)
    assert now.view.log
    assert find(now, now.view.whole[:1]) is None
    logged = await conversation.context.turns(now.view.logged)
    moment = datetime.now(UTC)
    found = find_beginning(now, logged[:2], 0, moment, of_log=True)
    assert found is not None
    log, understood = found.messages[-2:]
    whole = now.view.to_wire(now.prefix)[-len(now.view.messages) - 2]
    assert str(whole["content"]).startswith(str(log["content"]))
    assert "t2" in log["content"]
    assert "t3" not in log["content"]
    assert understood["role"] == "assistant"
    assert find_beginning(now, logged[1:3], 0, moment, of_log=True) is None
    assert find_beginning(now, now.view.whole[:1], 0, moment, of_log=True) is None


def test_it_is_asked_for_where_that_is_at_most_half_as_dear() -> None:
    beginning = RequestBeginning((), (), NOTHING_BESIDE, "", 5_000)
    tenth, half = InputPrice(1.0, 0.1), InputPrice(1.0, 0.5)
    assert pays(beginning, 100, 1_200, tenth)
    assert not pays(beginning, 100, 1_199, tenth)
    assert not pays(beginning, 100, 5_100, half)
    assert not pays(beginning, 100, 10_000, None), "the price is not known"
    assert not pays(replace(beginning, tokens=LEAST - 1), 100, 10_000, tenth)


NOW = datetime.fromtimestamp(0, UTC)
SIZES = st.tuples(st.integers(1, 800), st.integers(0, 800), st.integers(1, 800))
LIMITS = st.fixed_dictionaries(
    {
        "strategy": st.sampled_from(sorted(STRATEGIES)),
        "max_turns": st.integers(1, 12),
        "max_tokens": st.integers(500, 8_000),
        "window": st.sampled_from([2_000, 4_000, 16_000]),
        "output_reserved": st.sampled_from([0, 500]),
        "keep_recent": st.integers(1, 8),
        "stub_tools": st.booleans(),
        "compression_trigger": st.sampled_from([0.0, 0.5, 0.75]),
    }
)


def turn(number: int, question: int, result: int, reply: int) -> Turn:
    """Return a turn of entries with this many tokens; without a result, no tool was called."""
    call = ToolCall("c", "look", "{}")
    entries = [Entry(number * 4, number, Message("user", "q" * 8 * question), question, NOW)]
    if result:
        found = Message("tool", "r" * 8 * result, call_id="c", tool="look")
        entries.append(Entry(number * 4 + 1, number, Message("assistant", "", (call,)), 9, NOW))
        entries.append(Entry(number * 4 + 2, number, found, result, NOW))
    entries.append(Entry(number * 4 + 3, number, Message("assistant", "a"), reply, NOW))
    return Turn(number, tuple(entries))


@st.composite
def views(draw: st.DrawFn) -> View:
    sizes = draw(st.lists(SIZES, min_size=0, max_size=10))
    turns = tuple(turn(number, *size) for number, size in enumerate(sizes, 1))
    lines = tuple(LogLine(one.number, "", 20) for one in turns)
    scale = Scale(draw(st.sampled_from([0.7, 1.0, 1.6])), draw(st.integers(-200, 200)))
    prefix = PrefixTokens(draw(st.integers(0, 600)), 50)
    is_logged = draw(st.booleans())
    return View(
        turns,
        turns,
        prefix,
        scale=scale,
        lines=lines if is_logged else (),
        rendering="exchange" if is_logged else "block",
        newest=len(turns),
    )


@given(views(), LIMITS, st.integers(1, 5))
def test_no_cut_is_near_where_a_look_shows_none(
    view: View, given_limits: dict[str, object], within: int
) -> None:
    limits = Limits().but(**given_limits)
    cut = certain(view, limits, within)
    is_cut = cut is not None and bool(cut.leaving)
    event(f"far: {is_far(view, limits, within)}, cut: {is_cut}")
    assert not (is_far(view, limits, within) and is_cut)


@given(views(), LIMITS)
def test_nothing_is_clipped_where_the_request_fits(
    view: View, given_limits: dict[str, object]
) -> None:
    limits = Limits().but(**given_limits)
    if view.tokens <= limits.ceiling and not view.lines:
        assert emergency.plan(view, limits, 0).change.is_empty


def test_a_young_conversation_is_far_from_any_limit() -> None:
    turns = tuple(turn(number, 30, 0, 30) for number in range(1, 6))
    view = View(turns, turns, PrefixTokens(500, 500), newest=5)
    assert is_far(view, Limits(), 2)
    assert not is_far(view, Limits().but(max_turns=6), 2)
