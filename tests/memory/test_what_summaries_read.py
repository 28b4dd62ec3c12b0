"""No turn is removed unread: each removed turn was in the source of the summary that replaces
it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memory.context import summary as words
from memory.context.change import Change
from memory.context.emergency import RequestTooLong
from memory.context.plan import Plan, SummarySpec
from memory.context.strategies import STRATEGIES
from memory.context.summary import SummaryRequest
from memory.conversation import Conversation
from memory.record.summaries import Job, Summary
from memory.summary.writer import SummaryWriter
from memory.turns import Turn
from tests.memory.harness import MemoryHarness, Obedient

SHORT, LONG = st.integers(1, 8), st.integers(100, 700)
PROFILES = st.sampled_from(
    [
        st.tuples(SHORT, LONG),  # short questions with long answers
        st.tuples(LONG, SHORT),
        st.tuples(SHORT, SHORT),
        st.tuples(st.one_of(SHORT, LONG), st.one_of(SHORT, LONG)),
    ]
)
TURNS = PROFILES.flatmap(
    lambda sizes: st.lists(st.tuples(sizes, st.booleans()), min_size=4, max_size=14)
)
LIMITS = st.fixed_dictionaries(
    {
        "strategy": st.sampled_from(sorted(STRATEGIES)),
        "window": st.sampled_from([1_500, 2_500, 4_000, 8_000]),
        "max_turns": st.sampled_from([3, 6, 20]),
        "keep_recent": st.sampled_from([1, 2, 4, 10]),
        "full_turns": st.sampled_from([1, 3]),
        "max_terse_entries": st.sampled_from([2, 40]),
        "compression_trigger": st.sampled_from([0.5, 0.75]),
    }
)


@dataclass
class Inputs:
    """Return the source of each summary, by its id: the request to the model, or without one the
    turns from which an extract was made."""

    of: dict[int, str] = field(default_factory=dict)
    asked: ContextVar[list[str]] = field(default_factory=lambda: ContextVar("asked"))
    extracted: ContextVar[list[str]] = field(default_factory=lambda: ContextVar("extracted"))

    def answer(self, request: SummaryRequest) -> str:
        self.asked.get().append("\n".join(request.parts))
        return f"summary {len(self.of)}"

    def watch(self) -> Any:
        make, extract = SummaryWriter._make, words.without_model

        async def watched_make(writer: SummaryWriter, spec: SummarySpec) -> Summary:
            self.asked.set([])
            self.extracted.set([])
            summary = await make(writer, spec)
            self.of[summary.id] = "\n".join(self.asked.get() or self.extracted.get())
            return summary

        def watched_extract(style: words.Style, turns: Sequence[Turn], prior: str) -> str:
            if style != "excerpt":
                said = (entry.message.text for turn in turns for entry in turn.entries)
                self.extracted.get().append("\n".join(said))
            return extract(style, turns, prior)

        return patch.multiple(SummaryWriter, _make=watched_make), patch.object(
            words, "without_model", watched_extract
        )


async def live(
    folder: Path, limits: dict[str, Any], turns: list[tuple[tuple[int, int], bool]]
) -> None:
    inputs = Inputs()
    harness = MemoryHarness(folder, summarizer=Obedient(inputs.answer))
    harness.limit(**limits)
    await harness.open()
    first, second = inputs.watch()
    try:
        with first, second:
            for number, ((asked, replied), is_settled) in enumerate(turns, 1):
                question = f"Question-{number}. " + "ask " * asked
                try:
                    await harness.says(question, reply=f"Answer-{number}. " + "tell " * replied)
                except RequestTooLong:
                    return  # the person is notified
                if is_settled:
                    await harness.settle()
            await harness.settle()
            await check(harness, await harness.conversation(), inputs, len(turns))
    finally:
        await harness.close()


async def check(
    harness: MemoryHarness, conversation: Conversation, inputs: Inputs, turns: int
) -> None:
    view = conversation.context.view()
    sent = "\n".join(str(message["content"]) for message in view.to_wire(harness.frame))
    read = await list_read(conversation, conversation.context.layout.front or 0)
    for number in set(range(1, turns + 1)) - {*view.logged}:
        for fact in (f"Question-{number}.", f"Answer-{number}."):
            made_of = [inputs.of[one.id] for one in read if number in one.turns]
            if view.rendering == "exchange":  # lines that leave the log are in the daily memory
                made_of += inputs.of.values()
            assert fact in sent or any(fact in text for text in made_of), fact


async def list_read(conversation: Conversation, event: int) -> list[Summary]:
    """Return the summary of a cut, and all that it continues."""
    writer = conversation.compactor.summaries
    left = [await writer.summary_of(event)] if event else []
    found = []
    while left:
        if (one := await writer.read(left.pop())) is not None:
            found.append(one)
            left += [*([one.prior] if one.prior else []), *one.ranges]
    return found


def chat(turns: int, asked: int, replied: int) -> list[tuple[tuple[int, int], bool]]:
    return [((asked, replied), True)] * turns


# Shrinking a conversation takes minutes; the turns of a failing one are short enough to read.
@settings(max_examples=20, phases=(Phase.explicit, Phase.generate))
@example({"strategy": "structured", "window": 4_000}, chat(9, 3, 600))
@example({"strategy": "summarize", "window": 4_000, "keep_recent": 1}, chat(9, 3, 400))
@example({"strategy": "trim", "window": 4_000}, chat(9, 3, 600))
@given(LIMITS, TURNS)
def test_whatever_has_left_was_read_by_the_summary_that_stands_for_it(
    limits: dict[str, Any], turns: list[tuple[tuple[int, int], bool]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(live(Path(folder), limits, turns))


async def test_one_that_is_prepared_serves_for_nothing_but_what_it_has_read(
    tmp_path: Path,
) -> None:
    """The turns may be the same: of the last one it may have read only the question."""
    harness = MemoryHarness(tmp_path)
    await harness.open()
    for number in (1, 2):
        await harness.says(f"Question-{number}.", reply=f"Answer-{number}.")
    conversation = await harness.conversation()
    writer, view = conversation.compactor.summaries, conversation.context.view()
    plan = Plan(Change(), "it is asked for", (1, 2))
    spec = conversation.compactor.forecaster.spec(plan, "strategy")
    assert spec.until == view.turns[-1].entries[-1].seq
    summary = await writer.ahead(spec)
    assert summary is not None
    assert writer.find_prepared(spec) == summary
    asked = replace(spec, until=view.turns[-1].entries[0].seq)
    writer.written_ahead = (asked, summary)
    assert writer.find_prepared(spec) is None
    entries = [entry for turn in view.turns for entry in turn.entries]
    assert writer._find_prepared_for(Job(0, spec), entries) is None
    await harness.close()
