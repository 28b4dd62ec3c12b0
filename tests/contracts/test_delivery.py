"""Tests of the guarantees of sessions and delivery, here in one process; `test_cluster` runs the
same tests in several."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bot import turns
from tests.contracts.lives import Heard, Life, Lives, parley
from tests.waiting import PATIENCE

pytestmark = pytest.mark.databases

MANY = 5_000
"""More messages than any implementation queues in one conversation."""


@dataclass
class World:
    """The environment of the bot, under a test's control: the model and the platform.

    The model waits for texts in `slow` until the test releases them. Chats in `slow` accept no
    reply until then, and chats in `broken` refuse all.
    """

    folder: Path
    lives: Lives
    slow: defaultdict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(_open_gate))
    broken: set[str] = field(default_factory=set)
    thoughts: list[str] = field(default_factory=list)
    taken: list[Heard] = field(default_factory=list)
    thinking: set[str] = field(default_factory=set)
    most_at_once: Counter[str] = field(default_factory=Counter)
    moved: asyncio.Condition = field(default_factory=asyncio.Condition)

    def slow_down(self, name: str) -> asyncio.Event:
        """Block everything of this name until the returned event is set."""
        self.slow[name] = asyncio.Event()
        return self.slow[name]

    async def think(self, text: str) -> str:
        await self._note(self.thoughts, text)
        self.thinking.add(text)
        for part in ("", text[0]):
            at_once = sum(other.startswith(part) for other in self.thinking)
            self.most_at_once[part] = max(self.most_at_once[part], at_once)
        try:
            await self.slow[text].wait()
        finally:
            self.thinking.discard(text)
        if "nonsense" in text:
            raise ValueError("nonsense")
        return f"re: {text}"

    async def take(self, heard: Heard) -> None:
        await self._note(self.taken, heard)
        await self.slow[heard.chat].wait()
        if heard.chat in self.broken:
            raise ConnectionError("the platform refuses it")

    async def _note(self, notes: list[str] | list[Heard], what: str | Heard) -> None:
        async with self.moved:
            notes.append(what)  # type: ignore[arg-type]
            self.moved.notify_all()

    async def until_thought_of(self, text: str) -> None:
        async with self.moved:
            await asyncio.wait_for(self.moved.wait_for(lambda: text in self.thoughts), PATIENCE)

    async def until_offered(self, chat: str) -> None:
        """Wait until a reply in this chat is offered to the platform."""

        def is_offered() -> bool:
            return any(heard.chat == chat for heard in self.taken)

        async with self.moved:
            await asyncio.wait_for(self.moved.wait_for(is_offered), PATIENCE)

    @asynccontextmanager
    async def life(self) -> AsyncIterator[Life]:
        async with self.lives(self.folder, self.think, self.take) as life:
            yield life


def _open_gate() -> asyncio.Event:
    gate = asyncio.Event()
    gate.set()
    return gate


@pytest.fixture
def lives() -> Lives:
    return parley


@pytest.fixture
async def world(lives: Lives, tmp_path: Path) -> World:
    return World(tmp_path, lives)


# Sessions


async def test_a_conversation_is_answered_in_order(world: World) -> None:
    async with world.life() as life:
        first = world.slow_down("a0")
        for number in range(8):
            await life.says(f"m{number}", f"a{number}")
        await world.until_thought_of("a0")
        first.set()
        await life.hears("m7")
        assert world.thoughts == [f"a{number}" for number in range(8)]
        assert [heard.reply_to for heard in life.heard] == [f"m{number}" for number in range(8)]
        assert [heard.text for heard in life.heard] == [f"re: a{number}" for number in range(8)]


async def test_one_thing_at_a_time_in_a_conversation_and_many_side_by_side(world: World) -> None:
    gates = [world.slow_down(f"{chat}0") for chat in "abc"]
    async with world.life() as life:
        for number in range(4):
            for chat in "abc":
                await life.says(f"{chat}{number}", f"{chat}{number}", chat)
        for chat in "abc":
            await world.until_thought_of(f"{chat}0")
        for gate in gates:
            gate.set()
        for chat in "abc":
            await life.hears(f"{chat}3")
    assert world.most_at_once[""] == 3
    assert {chat: world.most_at_once[chat] for chat in "abc"} == {"a": 1, "b": 1, "c": 1}


async def test_a_conversation_that_hangs_holds_up_no_other(world: World) -> None:
    gate = world.slow_down("a")
    async with world.life() as life:
        await life.says("a", "a", "a")
        await world.until_thought_of("a")
        await life.says("b", "b", "b")
        assert (await life.hears("b")).text == "re: b"
        gate.set()
        assert (await life.hears("a")).text == "re: a"


async def test_what_fails_is_answered_with_a_sentence_and_the_next_is_answered(
    world: World,
) -> None:
    async with world.life() as life:
        await life.says("m1", "nonsense")
        await life.says("m2", "sense")
        assert (await life.hears("m1")).text
        assert (await life.hears("m2")).text == "re: sense"


async def test_a_line_is_bounded_and_says_so_and_takes_again_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "LONGEST_LINE", 12)
    gate = world.slow_down("a0")
    async with world.life() as life:
        number = 0
        while await life.says(f"m{number}", f"a{number}"):
            number += 1
            assert number < MANY
        refused = await life.hears(f"m{number}")
        assert refused.text
        assert await life.says("elsewhere", "b", "b"), "others are not held up"
        gate.set()
        assert (await life.hears(f"m{number - 1}")).text == f"re: a{number - 1}"
        assert await life.says(f"m{number}", f"a{number}"), "the same message, told again"
    assert world.thoughts.count(f"a{number}") == 1


# Delivery


async def test_the_same_message_is_handled_once(world: World) -> None:
    async with world.life() as life:
        assert await life.says("m1", "a")
        assert await life.says("m1", "a"), "confirmed again, since the platform asks again"
        await life.hears("m1")
        assert await life.says("m1", "a")
        await life.says("m2", "b")
        await life.hears("m2")
    async with world.life() as life:
        assert await life.says("m1", "a"), "after a restart too"
        await life.says("m3", "c")
        await life.hears("m3")
    assert world.thoughts == ["a", "b", "c"]


async def test_the_same_id_in_another_chat_is_another_message(world: World) -> None:
    async with world.life() as life:
        for chat in "ab":
            await life.says("m1", chat, chat)
        await life.says("m2", "a2", "a")
        await life.says("m2", "b2", "b")
        await life.hears("m2")
    assert sorted(world.thoughts) == ["a", "a2", "b", "b2"]


async def test_what_was_confirmed_is_answered_after_a_crash_in_order(world: World) -> None:
    world.slow_down("a0")
    async with world.life() as life:
        for number in range(5):
            assert await life.says(f"m{number}", f"a{number}")
        await world.until_thought_of("a0")
        await life.dies()
    world.slow["a0"].set()
    async with world.life() as life:
        await life.hears("m4")
        assert [heard.text for heard in life.heard] == [f"re: a{number}" for number in range(5)]
        assert not any(heard.is_resent for heard in life.heard)


async def test_what_was_answered_is_not_answered_again(world: World) -> None:
    async with world.life() as life:
        await life.says("m1", "a")
        await life.hears("m1")
    async with world.life() as life:
        await life.says("m2", "b")
        await life.hears("m2")
        assert [heard.reply_to for heard in life.heard] == ["m2"]
    assert world.thoughts == ["a", "b"]


async def test_a_reply_that_may_have_arrived_is_sent_again_with_a_mark(world: World) -> None:
    world.slow_down("main")
    async with world.life() as life:
        await life.says("m1", "a")
        await world.until_offered("main")
        await life.dies()
    world.slow["main"].set()
    async with world.life() as life:
        again = await life.hears("m1")
    assert (again.text, again.is_resent) == ("re: a", True)
    assert world.thoughts == ["a"], "nobody thinks twice"
    assert [heard.is_resent for heard in world.taken] == [False, True]


async def test_a_reply_that_the_platform_refused_is_offered_again_at_the_next_start(
    world: World,
) -> None:
    world.broken.add("main")
    async with world.life() as life:
        await life.says("m1", "a")
        await world.until_offered("main")
    world.broken.clear()
    async with world.life() as life:
        assert (await life.hears("m1")).text == "re: a"
    assert world.thoughts == ["a"]


async def test_a_chat_that_takes_its_replies_slowly_holds_up_no_other(world: World) -> None:
    gate = world.slow_down("slow")
    async with world.life() as life:
        await life.says("m1", "a", "slow")
        await world.until_offered("slow")
        await life.says("m2", "b", "fast")
        assert (await life.hears("m2")).text == "re: b"
        gate.set()
        assert (await life.hears("m1")).text == "re: a"


async def test_an_orderly_stop_lets_finish_what_is_under_way(world: World) -> None:
    gate = world.slow_down("a")
    async with world.life() as life:
        await life.says("m1", "a")
        await world.until_thought_of("a")
        asyncio.get_running_loop().call_soon(gate.set)
    assert [heard.reply_to for heard in life.heard] == ["m1"]
