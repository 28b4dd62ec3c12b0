"""Conversations leave memory when there are many, and come back as they were."""

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
from tests.memory.rooms import FRAME, KEY, Lodge

pytestmark = pytest.mark.databases

OTHERS = [ConversationKey(f"pipe/{number}", f"pipe-{number}") for number in range(3)]


@pytest.fixture(autouse=True)
def quick_collections() -> Iterator[None]:
    """Keep the garbage collector from what was there before the test."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
async def lodge(tmp_path: Path) -> AsyncIterator[Lodge]:
    """A memory in which two conversations stay; a restart would cut (`restore: recent`)."""
    lodge = Lodge(tmp_path, restores_exactly=False)
    await lodge.open()
    lodge.conversations._most_open = 2
    yield lodge
    await lodge.close()


async def crowd_out(lodge: Lodge) -> None:
    """Speak in so many others that the first leaves memory."""
    for key in OTHERS:
        await lodge.says("Hello.", key=key)
    await lodge.settle()
    gc.collect()


def is_loaded(lodge: Lodge, key: ConversationKey = KEY) -> bool:
    gc.collect()
    return key.id in lodge.conversations._alive


async def seen(conversation: Conversation) -> dict[str, Any]:
    """All that can be seen of a conversation, the next request byte for byte."""
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


async def test_one_that_left_memory_comes_back_byte_for_byte(lodge: Lodge) -> None:
    lodge.limit(max_turns=8)
    for number in range(13):
        await lodge.says(f"question {number}", results=["a result"] * (number % 2))
        await lodge.settle()  # so that no summary is late and put in place at a turn of its own
    conversation = await lodge.conversation()
    await conversation.editor.pin({9})
    view = conversation.context.view()
    await conversation.calibration.learn(view, view.raw_tokens * 6 // 5, lodge.limits.model)
    await lodge.says("one more")
    await lodge.settle()
    await conversation.turns.begin_session()
    before, summaries = await seen(conversation), len(lodge.summarizer.requests)
    assert before["events"]
    assert before["besides"].prepared is not None, "the summary of the next cut is written"
    assert before["tokens"][2].is_measured
    del conversation
    await crowd_out(lodge)
    assert not is_loaded(lodge)
    assert await seen(await lodge.conversation()) == before
    await lodge.settle()
    assert len(lodge.summarizer.requests) == summaries, "nothing is paid for twice"


async def test_coming_back_is_no_restart_and_a_restart_still_is_one(lodge: Lodge) -> None:
    for number in range(12):
        await lodge.says(f"question {number}", results=["a result"])
    await crowd_out(lodge)
    one, other = await asyncio.gather(lodge.conversation(), lodge.conversation())
    assert one is other
    assert len(one.context.view().turns) == 12
    (view,) = await lodge.says("and on")
    assert [turn.id for turn in view.turns][-2:] == ["t12", "t13"]
    await lodge.restart()
    assert len((await lodge.conversation()).context.view().turns) == 3


async def test_one_with_a_running_turn_stays(lodge: Lodge) -> None:
    conversation = id(await lodge.conversation())
    await (await lodge.conversation()).turns.open("Wait for it.")
    await crowd_out(lodge)
    assert is_loaded(lodge)
    assert id(await lodge.conversation()) == conversation


async def test_one_whose_summary_is_under_way_stays(lodge: Lodge) -> None:
    for number in range(6):
        await lodge.says(f"question {number}")
    lodge.summarizer.gate = asyncio.Event()
    await (await lodge.conversation()).editor.clear("new")
    for key in OTHERS:
        await lodge.says("Hello.", key=key)
    assert is_loaded(lodge)
    lodge.summarizer.gate.set()
    await lodge.settle()
    await crowd_out(lodge)
    assert not is_loaded(lodge)


async def test_one_that_somebody_still_holds_is_never_there_twice(lodge: Lodge) -> None:
    held = await lodge.conversation()
    await crowd_out(lodge)
    assert KEY.id not in lodge.conversations._open
    await held.turns.open("I was away.")
    assert await lodge.conversation() is held
    assert held.context.newest == 1


async def test_one_that_waits_for_another_strategy_stays_until_it_has_it(lodge: Lodge) -> None:
    await lodge.says("Hello.")
    lodge.limit(strategy="full")
    await crowd_out(lodge)
    assert is_loaded(lodge)
    await lodge.says("Again.")
    assert [event.name for event in (await (await lodge.conversation()).context.history())] == [
        "strategy"
    ]


async def test_memory_does_not_grow_with_the_number_of_conversations(lodge: Lodge) -> None:
    for number in range(40):
        await lodge.says("Hello.", key=ConversationKey(f"pipe/many{number}", f"pipe-{number}"))
    gc.collect()
    assert len(lodge.conversations._alive) <= 3


async def test_one_that_is_idle_for_an_hour_leaves_and_its_session_is_over(tmp_path: Path) -> None:
    now, heard = 0.0, list[str]()

    async def hear(event: Event) -> None:
        heard.append(f"{event.name} {event.key.id}")

    lodge = Lodge(tmp_path, events=Events([Listener("ear", hear)]))
    await lodge.open()
    lodge.conversations._clock = lambda: now
    for key in (KEY, OTHERS[0]):
        await (await lodge.conversation(key)).turns.begin_session()
    running = await (await lodge.conversation(OTHERS[1])).turns.open("Wait for it.")
    now = IDLE / 2
    await lodge.conversation(OTHERS[0])
    now = IDLE + 1
    await lodge.conversations.rest()
    assert is_loaded(lodge, OTHERS[0]), "it was looked at meanwhile"
    assert is_loaded(lodge, running.log.state.key), "a turn runs in it"
    assert not is_loaded(lodge)
    assert heard[2:] == [f"session_end {KEY.id}"]
    await (await lodge.conversation()).turns.begin_session()
    assert heard[3:] == [f"session_start {KEY.id}"]
    await lodge.close()
