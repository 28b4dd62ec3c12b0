"""How much of what was said is found again, when a question needs it.

python -m benchmarks.recall --data PATH/TO/locomo.json

The data are conversations of LoCoMo's shape (Maharana et al., 2024): what two people said in many
sessions, and questions with the ids of the messages that hold the evidence. Each conversation goes
message by message into a memory of Parley's own, with its speakers and dates; then each question is
put to the memory search as it stands. Recall is the mean share of the evidence that is in the hits.

The second table holds the same conversations under each strategy: what a request is billed (a rule
for the provider, as in `benchmarks/cost.py`), and how much of the evidence is in the context at the
end, or within five hits with their neighbours.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.cost import Bookkeeper, Provider
from memory.context.limits import Limits
from memory.context.meter import Meter, PromptPrefix
from memory.context.strategies import STRATEGIES
from memory.conversation import Conversation
from memory.conversations import Conversations
from memory.keys import ConversationKey
from memory.messages import Message
from memory.record.search import Hit
from memory.record.store import Store
from memory.services import MemoryServices

DEPTHS = (5, 10, 20)
FEW = 5
"""Hits that are shown with their neighbours."""
WINDOW = 16_000
"""Tokens of the model's window, below the length of the conversations; `full` has all it needs."""
FRAME = PromptPrefix("You are Parley, a helpful assistant in a chat.")


@dataclass(frozen=True, slots=True)
class Line:
    """A message of the data."""

    id: str
    speaker: str
    text: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A conversation in turns, and what is asked about it."""

    key: ConversationKey
    turns: tuple[tuple[Line, ...], ...]
    first_speaker: str
    questions: tuple[Question, ...]

    @property
    def lines(self) -> list[Line]:
        return [line for turn in self.turns for line in turn]

    def messages(self, turn: Sequence[Line]) -> list[Message]:
        """One of the two is the person, the other answers."""
        return [
            Message(
                "user" if line.speaker == self.first_speaker else "assistant",
                line.text,
                speaker=line.speaker,
            )
            for line in turn
        ]


def dialogues(path: Path) -> list[Dialogue]:
    """What is in a file of LoCoMo's shape."""
    return [_dialogue(item) for item in json.loads(path.read_text("utf-8"))]


def _dialogue(item: Mapping[str, Any]) -> Dialogue:
    said = item["conversation"]
    first = said["speaker_a"]
    questions = (Question(q["question"], _evidence(q["evidence"])) for q in item["qa"])
    return Dialogue(
        ConversationKey(item["sample_id"], item["sample_id"]),
        tuple(_turns(_lines(said), first)),
        first,
        tuple(question for question in questions if question.evidence),
    )


def _evidence(ids: Iterable[str]) -> frozenset[str]:
    return frozenset(re.findall(r"D\d+:\d+", " ".join(ids)))


def _lines(said: Mapping[str, Any]) -> Iterator[Line]:
    numbers = sorted(int(name[8:]) for name in said if re.fullmatch(r"session_\d+", name))
    for number in numbers:
        begin = datetime.strptime(said[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y")
        for minute, line in enumerate(said[f"session_{number}"]):
            at = begin.replace(tzinfo=UTC) + timedelta(minutes=minute)
            yield Line(line["dia_id"], line["speaker"], line["text"], at)


def _turns(lines: Iterable[Line], first: str) -> Iterator[tuple[Line, ...]]:
    """What the first speaker says, and what the other answers."""
    turn: list[Line] = []
    for line in lines:
        if turn and line.speaker == first and turn[-1].speaker != first:
            yield tuple(turn)
            turn = []
        turn.append(line)
    yield tuple(turn)


@asynccontextmanager
async def memory(limits: Limits, provider: Provider) -> AsyncIterator[Conversations]:
    """A memory room with a real database and the real meter."""
    with TemporaryDirectory() as folder:
        store = await Store.open(Path(folder) / "parley.db")
        conversations = Conversations(
            MemoryServices(
                store,
                Meter(),
                Bookkeeper(provider),
                lambda key: limits,
                lambda key: FRAME,
                Path(folder),
                zone=lambda: UTC,
                restores_exactly=lambda: True,
            )
        )
        try:
            yield conversations
        finally:
            await conversations.close()
            await store.close()


@dataclass
class Searched:
    """What the memory search found: recall by depth, milliseconds of each search, CPU of all
    together, and for each question the ids within `FEW` hits with their neighbours."""

    recall: dict[int, list[float]] = field(default_factory=lambda: {d: [] for d in DEPTHS})
    times: list[float] = field(default_factory=list)
    cpu: float = 0.0
    near: dict[Question, frozenset[str]] = field(default_factory=dict)


async def searched(data: Sequence[Dialogue]) -> Searched:
    """Say everything, then ask everything."""
    result = Searched()
    async with memory(Limits().but(strategy="full"), Provider(0.1)) as conversations:
        for dialogue in data:
            conversation = await conversations.get(dialogue.key)
            for turn in dialogue.turns:
                await conversation.turns.append(
                    [dialogue.messages(turn)], [line.at for line in turn]
                )
            await conversation.memory.recall("what is not there", 1)  # catches up
            for question in dialogue.questions:
                await _ask(conversation, dialogue.lines, question, result)
    return result


async def _ask(
    conversation: Conversation, lines: Sequence[Line], question: Question, result: Searched
) -> None:
    start, cpu = time.perf_counter(), time.process_time()
    found = await conversation.memory.recall(question.text, DEPTHS[-1])
    result.times.append((time.perf_counter() - start) * 1e3)
    result.cpu += (time.process_time() - cpu) * 1e3
    ids = [lines[hit.entry.seq - 1].id for hit in found.said.hits]
    for depth in DEPTHS:
        result.recall[depth].append(_share(question, ids[:depth]))
    near = (lines[seq - 1].id for hit in found.said.hits[:FEW] for seq in _with_neighbours(hit))
    result.near[question] = frozenset(near)


def _with_neighbours(hit: Hit) -> list[int]:
    return [entry.seq for entry in (hit.before, hit.entry, hit.after) if entry]


def _share(question: Question, ids: Iterable[str]) -> float:
    return len(question.evidence.intersection(ids)) / len(question.evidence)


@dataclass
class Strategy:
    """What a strategy costs and holds: billed tokens of each conversation's turns, and by question
    the share of the evidence that is in the context, and there or near a hit."""

    name: str
    billed: list[float] = field(default_factory=list)
    in_context: list[float] = field(default_factory=list)
    in_reach: list[float] = field(default_factory=list)


async def held(name: str, data: Sequence[Dialogue], search: Searched, price: float) -> Strategy:
    """Hold the conversations under a strategy, and look what is in the context at the end."""
    result = Strategy(name)
    window = 10**6 if name == "full" else WINDOW
    limits = Limits().but(
        strategy=name, window=window, fold_turns=7
    )  # as "auto" does with such a cache
    for dialogue in data:
        provider = Provider(price)
        async with memory(limits, provider) as conversations:
            conversation = await conversations.get(dialogue.key)
            for turn in dialogue.turns:
                await _talk(conversation, dialogue, turn, provider)
                await conversations.settle()
            result.billed.append(provider.billed / len(dialogue.turns))
            there = {turn.number for turn in conversation.context.view().turns}
        context = {
            line.id for n, turn in enumerate(dialogue.turns, 1) if n in there for line in turn
        }
        for question in dialogue.questions:
            result.in_context.append(_share(question, context))
            result.in_reach.append(_share(question, context | search.near[question]))
    return result


async def _talk(
    conversation: Conversation, dialogue: Dialogue, turn: Sequence[Line], provider: Provider
) -> None:
    first = dialogue.first_speaker
    question = "\n".join(line.text for line in turn if line.speaker == first)
    reply = "\n".join(line.text for line in turn if line.speaker != first)
    running = await conversation.turns.open(question or "…")
    if conversation.compactor.forecaster.due(FRAME, by_rule=True):
        await conversation.compactor.compact_by_rule()
    view = await running.fit(FRAME)
    wire = view.to_wire(FRAME)
    provider.ask("".join(f"<{message['role']}>{message['content']}" for message in wire))
    await running.record(Message("assistant", reply or "…"))


def search_table(result: Searched) -> str:
    """Recall by depth, in Markdown."""
    names = [f"recall at {depth}" for depth in DEPTHS]
    near = fmean(_share(question, ids) for question, ids in result.near.items())
    cells = [f"{100 * fmean(result.recall[depth]):.1f}" for depth in DEPTHS]
    return "\n".join(
        (
            f"| questions | {' | '.join(names)} | {FEW} hits with neighbours | ms a query | CPU |",
            "|---:|" + "---:|" * (len(DEPTHS) + 3),
            f"| {len(result.times)} | {' | '.join(cells)} | {100 * near:.1f} "
            f"| {fmean(result.times):.1f} | {result.cpu / len(result.times):.1f} |",
        )
    )


def strategy_table(results: Iterable[Strategy]) -> str:
    """A strategy a line, in Markdown."""
    head = (
        "| strategy | billed tokens a turn | evidence in the context | there or near a hit |\n"
        "|---|---:|---:|---:|"
    )
    rows = (
        f"| {r.name} | {fmean(r.billed):,.0f} | {fmean(r.in_context):.0%} "
        f"| {fmean(r.in_reach):.0%} |"
        for r in results
    )
    return "\n".join((head, *rows))


async def measure(data: Sequence[Dialogue], price: float) -> None:
    search = await searched(data)
    print(f"\n{search_table(search)}\n")
    print(strategy_table([await held(name, data, search, price) for name in sorted(STRATEGIES)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="a file of LoCoMo's shape")
    parser.add_argument("--cached-price", type=float, default=0.1)
    options = parser.parse_args()
    asyncio.run(measure(dialogues(options.data), options.cached_price))


if __name__ == "__main__":
    main()
