"""A plan that frees next to nothing is not executed, recorded or paid for, whoever made it."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from memory.context.emergency import RequestTooLong
from memory.context.meter import PromptPrefix
from memory.context.plan import LEAST_FREED
from memory.context.strategies import STRATEGIES
from memory.context.summary import LEFT_OUT
from memory.context.view import View
from memory.conversation import Conversation
from memory.messages import Message
from memory.request_fitter import Overflow
from tests.memory.harness import MemoryHarness

LIMITS = st.fixed_dictionaries(
    {
        "strategy": st.sampled_from(sorted(STRATEGIES)),
        "window": st.sampled_from([3_000, 8_000, 32_000]),
        "max_tokens": st.sampled_from([1_000, 2_000, 50_000]),
        "max_turns": st.sampled_from([3, 6, 20]),
        "keep_recent": st.sampled_from([1, 4, 10]),
        "compression_trigger": st.sampled_from([0.0, 0.3, 0.75]),
        "trigger_ratio": st.sampled_from([0.3, 0.8]),
        "stub_tools": st.booleans(),
    }
)
SIZE = st.sampled_from([1, 10, 100, 600])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), SIZE, SIZE, st.lists(SIZE, max_size=3)),
        st.tuples(st.just("pin"), st.integers(1, 8)),
        st.tuples(st.sampled_from(["compact", "free", "rule", "compress", "settle"])),
        st.tuples(st.sampled_from(["range", "free range"]), st.integers(1, 8), st.integers(1, 3)),
    ),
    min_size=6,
    max_size=14,
)


async def steer(conversation: Conversation, what: str, *turns: int) -> None:
    compactor = conversation.compactor
    if what == "pin":
        await conversation.editor.pin(turns)
    elif what == "compact":
        await compactor.compact_for_person()
    elif what == "free":
        await compactor.free()
    elif what == "rule":
        await compactor.compact_by_rule()
    elif what == "compress":
        await compactor.compress_context(trigger_ratio=0.1, reserve_ratio=0.05)
    else:
        first, count = turns
        named = range(first, first + count)
        await (compactor.compact_range if what == "range" else compactor.free_range)(named)


async def live(folder: Path, limits: dict[str, Any], steps: list[tuple[Any, ...]]) -> None:
    harness = MemoryHarness(folder)
    harness.limit(**limits)
    await harness.open()
    try:
        known = 0
        for what, *rest in [*steps, ("say", 1, 1, [])]:
            before = (await harness.conversation()).context.view()
            if what == "settle":
                await harness.settle()
            elif what == "say":
                asked, replied, results = rest
                texts = ["word " * size for size in results]
                try:
                    await harness.says("ask " * asked, texts, "tell " * replied)
                except RequestTooLong:
                    return  # the person is notified
            else:
                await steer(await harness.conversation(), what, *rest)
            known = await check(harness, before, known, is_alone=what not in ("say", "settle"))
        await harness.settle()
        asked_for = Counter(
            (request.task, request.parts, request.prior)
            for request in harness.summarizer.requests
            if LEFT_OUT not in request.task
        )
        assert set(asked_for.values()) <= {1}, "nothing is paid twice"
    finally:
        await harness.close()


async def check(harness: MemoryHarness, before: View, known: int, *, is_alone: bool) -> int:
    """Check that every event frees enough; return the number of events."""
    conversation = await harness.conversation()
    events = await conversation.context.history()
    ceiling = conversation.context.limits.ceiling
    fixed = before.prefix.system + before.prefix.tools
    for event in events[known:]:
        if not event.leaving or event.change.folded is not None or event.change.rolled:
            continue
        if "turns were over the limit" in event.reason:
            continue  # which is in force whatever their size
        freed = event.tokens_before - event.tokens_after
        assert freed > 0
        is_needed = event.tokens_before > ceiling
        if not is_needed and not event.change.makes("range") and not event.change.texts:
            assert freed >= LEAST_FREED * (event.tokens_before - fixed), event
    if is_alone and len(events) > known and events[-1].leaving:
        view = conversation.context.view()
        is_shorter = view.tokens < before.tokens
        is_bound = "turns were over the limit" in events[-1].reason
        is_slim = events[-1].change.folded is not None or events[-1].change.rolled
        assert is_shorter or is_bound or is_slim
    return len(events)


@settings(max_examples=60, phases=(Phase.explicit, Phase.generate))
@example({"strategy": "trim", "window": 32_000, "max_tokens": 1_000}, [("say", 600, 600, [])])
@given(LIMITS, STEPS)
def test_no_plan_is_carried_out_that_frees_too_little_and_nothing_is_paid_twice(
    limits: dict[str, Any], steps: list[tuple[Any, ...]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(live(Path(folder), limits, steps))


async def pin(harness: MemoryHarness, *turns: int) -> Conversation:
    conversation = await harness.conversation()
    await harness.settle()  # a summary may have been prepared
    harness.summarizer.requests.clear()
    await conversation.editor.pin(turns)
    return conversation


async def talk_on(harness: MemoryHarness, times: int = 8) -> list[View]:
    views = []
    for number in range(times):
        views += await harness.says(f"And {number}?")
        await harness.settle()
    return views


@pytest.mark.parametrize("strategy", ["trim", "summarize", "structured"])
async def test_one_pinned_turn_over_the_budget_lets_no_other_turn_be_paid_for(
    harness: MemoryHarness, strategy: str
) -> None:
    harness.limit(strategy=strategy, max_tokens=8_000, window=14_000, keep_recent=2)
    harness.limit(trigger_ratio=0.6)
    await harness.says("word " * 8_900)
    conversation = await pin(harness, 1)
    views = await talk_on(harness)
    assert not harness.summarizer.requests
    assert [event.name for event in await conversation.context.history()] == ["pin"]
    assert [turn.number for turn in views[-1].turns] == list(range(1, 10)), "the newest is there"
    step = views[-1], conversation.context.limits
    told = [conversation.compactor.describe_stuck(turn, *step) for turn in (9, 9, 10, 11)]
    assert "unpin" in told[0]
    assert told == [told[0], told[0], "", ""], "once, however often that answer is composed"


@pytest.mark.parametrize("pins", [5, 6])
async def test_pins_that_fill_the_limit_of_turns_let_no_new_turn_leave_at_once(
    harness: MemoryHarness, pins: int
) -> None:
    harness.limit(max_turns=6)
    for number in range(pins):
        await harness.says(f"Keep {number}.")
    conversation = await pin(harness, *range(1, pins + 1))
    views = await talk_on(harness)
    for view in views[1:]:
        assert view.current - 1 in {turn.number for turn in view.turns}
    assert not harness.summarizer.requests
    newest, limits = conversation.context.newest, conversation.context.limits
    told = conversation.compactor.describe_stuck(newest, views[-1], limits)
    assert "limit of 6 turns" in told


async def test_a_running_turn_over_the_trigger_pays_for_nothing_at_each_step(
    harness: MemoryHarness,
) -> None:
    harness.limit(strategy="structured", window=12_000)
    await harness.says("Hello.")
    await harness.says("Read it all.", ["word " * 4_800, "word " * 4_700, "word ", "word "])
    await harness.settle()
    assert not harness.summarizer.requests


async def test_what_a_person_asks_for_never_makes_the_context_longer(
    harness: MemoryHarness,
) -> None:
    for strategy in sorted(STRATEGIES):
        harness.limit(strategy=strategy, keep_recent=2)
        for number in range(4):
            await harness.says(f"{number}")
        conversation = await harness.conversation()
        before = conversation.context.view().tokens
        event = await conversation.compactor.free()
        assert event is None or event.tokens_before > event.tokens_after
        assert conversation.context.view().tokens <= before


@pytest.mark.parametrize("strategy", ["trim", "summarize", "structured"])
@pytest.mark.parametrize("window", [2_000, 4_000, 8_000])
async def test_in_a_small_window_with_tools_each_cut_is_paid_once(
    harness: MemoryHarness, strategy: str, window: int
) -> None:
    harness.limit(strategy=strategy, window=window)
    for number in range(12):
        results = ["word " * (window // 12)] * 2
        await harness.says(f"Question {number} {'ask ' * 20}", results, "tell " * 60)
        await harness.settle()
    events = await (await harness.conversation()).context.history()
    cuts = sum(bool(event.leaving) for event in events)
    assert cuts
    assert len(harness.summarizer.requests) <= cuts + 1, "one may be ready for the next"


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
@pytest.mark.parametrize(
    ("system", "question", "is_clipped", "named"),
    [(3_000, 1, True, 0), (3_000, 1, False, 0), (1, 9_000, False, 0), (1, 9_000, False, 3_000)],
)
async def test_nothing_is_removed_for_a_request_that_can_not_fit_anyway(
    harness: MemoryHarness, strategy: str, system: int, question: int, is_clipped: bool, named: int
) -> None:
    """The window is in the settings, or `named` by a refusal."""
    harness.limit(strategy=strategy, truncate_oversized=is_clipped, full_turns=10)
    harness.frame = PromptPrefix("word " * system)
    for number in range(6):
        await harness.says(f"question {number}")
    harness.limit(window=128_000 if named else 2_000)
    conversation = await harness.conversation()
    turn = await conversation.turns.open("word " * question)
    with pytest.raises(RequestTooLong, match="is too small: the system prompt has"):
        await turn.shrink_request(await turn.fit(harness.frame), harness.frame, Overflow(named))
    await turn.record(Message("assistant", "It does not fit."))
    assert len(conversation.context.view().turns) == 7
    assert not conversation.context.view().layout.clipped
