"""A proof by trial that no content that was sent before changes without an event.

`PROOF_LIVES=250` has 10,000 turns instead of 480, which takes about three minutes.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from memory.context.emergency import RequestTooLong
from memory.context.meter import Meter, PromptPrefix
from memory.context.strategies import STRATEGIES
from memory.context.view import View
from memory.messages import Message
from memory.summary_editor import EditRefused
from plugins.request_log.comparison import RequestPart, compare, list_parts
from tests.memory.harness import FRAME, MemoryHarness, calls

LIVES = int(os.environ.get("PROOF_LIVES", "12"))
"""Random lives, each of 40 turns."""
OTHERS = (
    PromptPrefix("You are another test.", FRAME.tools),
    PromptPrefix("You are a test.", ()),
    PromptPrefix("You are a test.\n\nAnn.", FRAME.tools, (("memory", "Ann."),)),
)


class Letters(Meter):
    """A meter that counts letters, which needs no vocabulary."""

    def count(self, text: str) -> int:
        return len(text)


class Watched:
    """A conversation in which each request is compared with the previous one."""

    def __init__(self, harness: MemoryHarness, chance: random.Random) -> None:
        self.harness, self.chance = harness, chance
        self.before: list[RequestPart] = []
        self.event = 0
        self.changed = self.sent = 0

    async def says(self, text: str, results: int) -> None:
        conversation = await self.harness.conversation()
        results_of = ["found " * self.chance.randint(1, 200) for _ in range(results)]
        turn = await conversation.turns.open(text)
        for number in range(results + 1):
            self.harness.frame = self.chance.choice((self.harness.frame,) * 40 + OTHERS)
            await self.look(await turn.fit(self.harness.frame))
            if number < results:
                await calls(turn, number, results_of[number])
        await turn.record(Message("assistant", "Yes. " * self.chance.randint(1, 80)))

    async def look(self, view: View) -> None:
        context = (await self.harness.conversation()).context
        frame, last = self.harness.frame, context.last_event
        parts = list_parts(view, frame, view.to_wire(frame), Letters())
        events = [event for event in await context.history() if self.event < event.id <= last]
        compared = compare(self.before, parts, events)
        assert compared.unexplained == [], (compared.lines, events)
        self.changed += bool(compared.place)
        self.sent += 1
        self.before, self.event = parts, last

    async def act(self) -> None:
        """Change the context or a setting, as a person or a rule would, or restart."""
        chance, harness = self.chance, self.harness
        conversation = await harness.conversation()
        editor, compactor, newest = (
            conversation.editor,
            conversation.compactor,
            conversation.context.newest,
        )
        turns = frozenset(chance.sample(range(1, newest + 1), min(newest, chance.randint(1, 3))))
        acts: dict[str, Any] = {
            "compact": lambda: compactor.compact_for_person(),
            "free": lambda: compactor.free(),
            "rule": lambda: compactor.compact_by_rule(keep_recent=chance.randint(1, 6)),
            "range": lambda: compactor.compact_range(turns),
            "clear": lambda: editor.clear("clear"),
            "pin": lambda: editor.pin(turns),
            "unpin": lambda: editor.unpin(turns),
            "drop": lambda: editor.drop(turns),
            "expand": lambda: editor.expand(turns),
            "undo": lambda: editor.undo(),
            "redo": lambda: editor.redo(),
            "edit": lambda: conversation.summary.edit("It was about Lisbon."),
            "restart": harness.restart,
            "settle": harness.settle,
        }
        match chance.choice((*acts, "strategy", "max_turns", "window")):
            case "strategy":
                harness.limit(strategy=chance.choice(sorted(STRATEGIES)))
            case "max_turns":
                harness.limit(max_turns=chance.randint(0, 8))
            case "window":
                harness.limit(window=chance.choice((4_000, 128_000)))
            case name:
                try:
                    await acts[name]()
                except EditRefused:
                    return


async def prove(folder: Path, seed: int, turns: int) -> Watched:
    """Run that many random turns, and return the observed conversation. Raises AssertionError."""
    chance = random.Random(seed)
    harness = MemoryHarness(folder)
    await harness.open()
    watched = Watched(harness, chance)
    try:
        for _ in range(turns):
            if chance.random() < 0.3:
                await watched.act()
            try:
                await watched.says("word " * chance.randint(1, 120), chance.choice((0, 0, 1, 2)))
            except RequestTooLong:
                harness.limit(window=128_000)
    finally:
        await harness.close()
    return watched


@pytest.mark.parametrize("seed", range(LIVES))
async def test_nothing_that_was_sent_changes_without_an_event(tmp_path: Path, seed: int) -> None:
    watched = await prove(tmp_path, seed, turns=40)
    assert watched.changed
