"""Conversations are evicted from memory when there are many, and loaded again unchanged."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from memory.conversation import Conversation
from memory.conversations import IDLE
from memory.events import Event, Events, Listener
from memory.keys import ConversationKey
from tests.memory.harness import FRAME, KEY, MemoryHarness

pytestmark = pytest.mark.databases

OTHERS = [ConversationKey(f"pipe/{number}", f"pipe-{number}") for number in range(3)]


@pytest.fixture(autouse=True)
def quick_collections() -> Iterator[None]:
    """Exclude objects from before the test from garbage collection."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[MemoryHarness]:
    """A memory that holds two conversations; a restart would cut (`restore: recent`)."""
    harness = MemoryHarness(tmp_path, restores_exactly=False)
    await harness.open()
    harness.conversations._most_open = 2
    yield harness
    await harness.close()


async def crowd_out(harness: MemoryHarness) -> None:
    """Use so many other conversations that the first one is evicted."""
    for key in OTHERS:
        await harness.says("Hello.", key=key)
    await harness.settle()
    gc.collect()


def is_loaded(harness: MemoryHarness, key: ConversationKey = KEY) -> bool:
    gc.collect()
    return key.id in harness.conversations._alive


async def seen(conversation: Conversation) -> dict[str, Any]:
    """Return the visible state of a conversation, including the next request byte for byte."""
    view = conversation.context.view()
    return {
        "request": json.dumps(view.to_wire(FRAME)),
        "tokens": (view.tokens, view.raw_tokens, view.scale),
        "boundaries": view.layout,
        "events": (await conversation.context.history()),
        "forecast": conversation.compactor.forecaster.forecast(),
        "newest": conversation.context.newest,
        "besides": conversation.evicted,
    }


async def test_one_that_left_memory_comes_back_byte_for_byte(harness: MemoryHarness) -> None:
    harness.limit(max_turns=8)
    for number in range(13):
        await harness.says(f"question {number}", results=["a result"] * (number % 2))
        await harness.settle()  # so that no summary is late and applied at its own turn
    conversation = await harness.conversation()
    await conversation.editor.pin({9})
    view = conversation.context.view()
    await conversation.calibration.learn(view, view.raw_tokens * 6 // 5, harness.limits.model)
    await harness.says("one more")
    await harness.settle()
    await conversation.turns.begin_session()
    before, summaries = await seen(conversation), len(harness.summarizer.requests)
    assert before["events"]
    assert before["besides"].prepared is not None, "the summary of the next cut is written"
    assert before["tokens"][2].is_measured
    del conversation
    await crowd_out(harness)
    assert not is_loaded(harness)
    assert await seen(await harness.conversation()) == before
    await harness.settle()
    assert len(harness.summarizer.requests) == summaries, "nothing is paid for twice"


async def test_coming_back_is_no_restart_and_a_restart_still_is_one(harness: MemoryHarness) -> None:
    for number in range(12):
        await harness.says(f"question {number}", results=["a result"])
    await crowd_out(harness)
    one, other = await asyncio.gather(harness.conversation(), harness.conversation())
    assert one is other
    assert len(one.context.view().turns) == 12
    (view,) = await harness.says("and on")
    assert [turn.id for turn in view.turns][-2:] == ["t12", "t13"]
    await harness.restart()
    assert len((await harness.conversation()).context.view().turns) == 3


async def test_one_with_a_running_turn_stays(harness: MemoryHarness) -> None:
    conversation = id(await harness.conversation())
    await (await harness.conversation()).turns.open("Wait for it.")
    await crowd_out(harness)
    assert is_loaded(harness)
    assert id(await harness.conversation()) == conversation


async def test_one_whose_summary_is_under_way_stays(harness: MemoryHarness) -> None:
    for number in range(6):
        await harness.says(f"question {number}")
    harness.summarizer.gate = asyncio.Event()
    await (await harness.conversation()).editor.clear("new")
    for key in OTHERS:
        await harness.says("Hello.", key=key)
    assert is_loaded(harness)
    harness.summarizer.gate.set()
    await harness.settle()
    await crowd_out(harness)
    assert not is_loaded(harness)


async def test_one_that_somebody_still_holds_is_never_there_twice(harness: MemoryHarness) -> None:
    held = await harness.conversation()
    await crowd_out(harness)
    assert KEY.id not in harness.conversations._open
    await held.turns.open("I was away.")
    assert await harness.conversation() is held
    assert held.context.newest == 1


async def test_one_that_waits_for_another_strategy_stays_until_it_has_it(
    harness: MemoryHarness,
) -> None:
    await harness.says("Hello.")
    harness.limit(strategy="full")
    await crowd_out(harness)
    assert is_loaded(harness)
    await harness.says("Again.")
    assert [event.name for event in (await (await harness.conversation()).context.history())] == [
        "strategy"
    ]


async def test_memory_does_not_grow_with_the_number_of_conversations(
    harness: MemoryHarness,
) -> None:
    for number in range(40):
        await harness.says("Hello.", key=ConversationKey(f"pipe/many{number}", f"pipe-{number}"))
    gc.collect()
    assert len(harness.conversations._alive) <= 3


async def test_one_that_is_idle_for_an_hour_leaves_and_its_session_is_over(tmp_path: Path) -> None:
    now, heard = 0.0, list[str]()

    async def hear(event: Event) -> None:
        heard.append(f"{event.name} {event.key.id}")

    harness = MemoryHarness(tmp_path, events=Events([Listener("ear", hear)]))
    await harness.open()
    harness.conversations._clock = lambda: now
    for key in (KEY, OTHERS[0]):
        await (await harness.conversation(key)).turns.begin_session()
    running = await (await harness.conversation(OTHERS[1])).turns.open("Wait for it.")
    now = IDLE / 2
    await harness.conversation(OTHERS[0])
    now = IDLE + 1
    await harness.conversations.rest()
    assert is_loaded(harness, OTHERS[0]), "it was looked at meanwhile"
    assert is_loaded(harness, running.log.state.key), "a turn runs in it"
    assert not is_loaded(harness)
    assert heard[2:] == [f"session_end {KEY.id}"]
    await (await harness.conversation()).turns.begin_session()
    assert heard[3:] == [f"session_start {KEY.id}"]
    await harness.close()
