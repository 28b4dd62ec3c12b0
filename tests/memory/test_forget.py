"""Forgetting, over random conversations: forgotten words are in no file, and the rest is
complete."""

from __future__ import annotations

import asyncio
import re
import tempfile
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from memory.context.summary import SummaryRequest
from memory.record.forget import find_tainted
from memory.record.offload import LocalWorkspace
from tests.memory.harness import KEY, MemoryHarness, Obedient, squeeze_turns
from tests.waiting import until

TURNS = st.frozensets(st.integers(1, 9), min_size=1, max_size=4)
STEP = st.one_of(
    st.just(("say",)),
    st.just(("say",)),
    st.tuples(
        st.sampled_from(["compact", "undo", "redo", "clear", "new", "restart", "settle", "search"])
    ),
    st.tuples(st.sampled_from(["pin", "drop", "squeeze"]), TURNS),
    st.tuples(st.sampled_from(["range", "free", "expand"]), TURNS),
)


def mark(turn: int) -> str:
    """Return a word that is in a turn, and in everything derived from it."""
    return f"mark{turn}x"


def repeating(request: SummaryRequest) -> str:
    return " ".join(dict.fromkeys(re.findall(r"mark\d+x", request.text)))


async def take(harness: MemoryHarness, step: tuple[Any, ...]) -> None:
    conversation = await harness.conversation()
    match step:
        case ("say",):
            number = conversation.context.newest + 1
            result = f"{mark(number)} " * 30
            await harness.says(f"{mark(number)} is said", [result], f"{mark(number)} is heard")
        case ("clear" | "new" as kind,):
            await conversation.editor.clear(kind)
        case ("restart",):
            await harness.restart()
        case ("settle",):
            await harness.settle()
        case ("search",):
            await conversation.memory.search("is said", 5)  # the messages are in the index now
        case ("compact",):
            await conversation.compactor.compact_for_person()
        case (name,):
            await getattr(conversation.editor, name)()
        case ("pin" | "drop" as kind, turns):
            await getattr(conversation.editor, kind)(turns)
        case (name, turns):
            acts: dict[str, Callable[[frozenset[int]], Awaitable[object]]] = {
                "range": conversation.compactor.compact_range,
                "free": conversation.compactor.free_range,
                "expand": conversation.editor.expand,
                "squeeze": lambda ns: squeeze_turns(conversation, ns),
            }
            await acts[name](turns)


LONG_LIFE: list[tuple[Any, ...]] = [
    *[("say",)] * 3,
    ("settle",),
    ("search",),
    ("pin", frozenset({2, 3})),
    ("say",),
    ("range", frozenset({1, 2})),
    ("compact",),
    ("undo",),
    ("restart",),
    ("drop", frozenset({1})),
    ("say",),
    ("free", frozenset({4})),
    ("squeeze", frozenset({5})),
    ("redo",),
    ("expand", frozenset({1, 2})),
    ("new",),
]


async def live(folder: Path, steps: list[tuple[Any, ...]], forgotten: frozenset[int]) -> None:
    harness = MemoryHarness(folder, summarizer=Obedient(repeating))
    harness.offloader = LocalWorkspace(folder / "audiences" / KEY.audience)
    harness.limit(max_turns=3, tool_result_limit=60)
    await harness.open()
    try:
        for step in [*steps, ("say",)]:
            await take(harness, step)
        conversation = await harness.conversation()
        newest = conversation.context.newest
        await conversation.forget(forgotten)
        await harness.store.scrub()
        nothing_is_left_of(forgotten, folder)
        await harness.settle()
        nothing_is_left_of(forgotten, folder)
        kept = await conversation.context.turns(range(1, newest + 1))
        assert [turn.number for turn in kept] == sorted({*range(1, newest + 1)} - forgotten)
        await harness.says("and then?")
        assert conversation.context.newest == newest + 1
        before = conversation.context.view().to_wire(harness.frame)
        await harness.settle()
        await harness.restart()
        conversation = await harness.conversation()
        assert conversation.context.view().to_wire(harness.frame) == before
        while await conversation.editor.undo():
            assert not any(
                mark(n) in str(conversation.context.view().to_wire(harness.frame))
                for n in forgotten
            )
    finally:
        await harness.close()


def nothing_is_left_of(turns: frozenset[int], folder: Path) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    left = [(n, p.name) for p in files for n in turns if mark(n).encode() in p.read_bytes()]
    assert left == []


async def test_a_summary_asked_for_while_turns_are_deleted_lacks_them(tmp_path: Path) -> None:
    harness = MemoryHarness(tmp_path, summarizer=Obedient(repeating))
    await harness.open()
    for number in range(1, 5):
        await harness.says(f"{mark(number)} is said " * 9)
    conversation, continue_summary = await harness.conversation(), threading.Event()
    lock = conversation.compactor.summaries._one_at_a_time
    held = asyncio.create_task(harness.store.write(lambda db: continue_summary.wait(60)))
    forgetting = asyncio.create_task(conversation.forget({1}))
    await until(lock.locked)  # the deletion has begun, and can't end
    compacting = asyncio.create_task(conversation.compactor.compact_for_person())
    await until(lambda: lock._waiters)
    continue_summary.set()
    await asyncio.gather(held, forgetting)
    compacted = await compacting
    await harness.settle()
    await harness.store.scrub()
    await harness.close()
    nothing_is_left_of(frozenset({1}), tmp_path)
    assert harness.summarizer.requests == []
    assert compacted is not None
    assert compacted.is_overtaken


@settings(max_examples=4)
@example(LONG_LIFE, frozenset({2, 4}))
@given(st.lists(STEP, min_size=2, max_size=14), TURNS)
def test_what_is_forgotten_is_in_no_file(
    steps: list[tuple[Any, ...]], turns: frozenset[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(live(Path(folder), steps, turns))


def test_a_summary_goes_with_those_that_continue_it() -> None:
    made = [(1, (1, 2), 0), (2, (3, 4), 1), (3, (5, 6), 0), (4, (7,), 2)]
    for turn, expected in {1: {1, 2, 4}, 3: {2, 4}, 5: {3}, 7: {4}, 9: set()}.items():
        assert find_tainted(made, frozenset({turn})) == expected
