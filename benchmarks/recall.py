"""The share of the evidence for a question that the memory search finds.

python -m benchmarks.recall --data locomo.json realtalk.json

Each conversation of the data (`benchmarks/dialogues.py`) is added message by message to a new
memory, with its speakers and dates; then each question is sent to the memory search unchanged.
Recall is the mean share of the evidence in the hits. "Beside" also counts the evidence within
`--neighbours` messages of one of the ten hits. "In parts" counts all hits of five searches (the
question, and the halves and thirds of its words) and the messages beside them: an upper estimate
for a model that searches five times, since nothing has selected among the hits.

`--semantic` compares meanings, too (`plugins/recall`). `--leave-one-out` tries other settings of
the ranking (`benchmarks/weights.py`). `--messages N` and `--tokens N` measure the CPU of a search
in one long conversation, which joins that much of each file, and of all of them together.
`--strategies` runs the conversations under each strategy: the billed tokens (a rule for the
provider, as in `benchmarks/cost.py`), and the share of the evidence that is in the context at the
end, or within five hits with their neighbours.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory

from benchmarks import weights
from benchmarks.cost import Bookkeeper, Provider
from benchmarks.dialogues import Dialogue, Line, Question, dialogues, join
from bot.ports import Processes
from memory.context.meter import Meter, PromptPrefix
from memory.context.settings import Limits
from memory.context.strategies import STRATEGIES
from memory.conversation import Conversation
from memory.conversations import Conversations
from memory.messages import Message
from memory.record import feature_tables
from memory.record.database import Database, DatabaseEngine
from memory.record.engines import engine_for
from memory.record.engines.postgresql import PostgresqlEngine
from memory.record.search import Hit, index, words
from memory.record.search.likeness import Likeness
from memory.record.store import Store
from memory.services import MemoryServices
from plugins.recall.feature import VectorBackfill, VectorLikeness
from plugins.recall.record import TABLES
from tests.memory.harness import HarnessRules, MemoryHarness
from tests.servers.postgresql import running_server

DEPTHS = (5, 10, 20)
SHOWN = 10
"""Hits of each query whose neighbours are shown."""
FEW = 5
"""Hits with their neighbours that count for a strategy."""
WINDOW = 16_000
"""Tokens of the model's window, smaller than the conversations; `full` has no such limit."""
METER = Meter()
FRAME = PromptPrefix("You are Parley, a helpful assistant in a chat.")


_database: ContextVar[Callable[[Path], DatabaseEngine]] = ContextVar("database", default=engine_for)
"""The function that opens the engine of each memory's record."""
_is_semantic: ContextVar[bool] = ContextVar("is_semantic", default=False)


@asynccontextmanager
async def memory(limits: Limits, provider: Provider) -> AsyncIterator[Conversations]:
    """Open a memory layer with a real database and the real meter, and yield its conversations."""
    with TemporaryDirectory() as folder:
        store = await Store.open(_database.get()(Path(folder) / "parley.db"))
        likeness = VectorLikeness() if _is_semantic.get() else Likeness()
        await store.write(lambda db: feature_tables.migrate(db, "recall", TABLES))
        conversations = Conversations(
            MemoryServices(
                store,
                METER,
                Bookkeeper(provider),
                HarnessRules(MemoryHarness(Path(folder), limits, frame=FRAME)),
                Path(folder),
                likeness=likeness,
            )
        )
        try:
            yield conversations
        finally:
            await conversations.close()
            await store.close()


# --- the search ----------------------------------------------------------------------------


@dataclass
class Searched:
    """The results of the memory search: recall by depth, beside hits, and in parts; milliseconds of
    each search, and of CPU; and for each question the ids within `FEW` hits with their
    neighbours."""

    recall: dict[int, list[float]] = field(default_factory=lambda: {d: [] for d in DEPTHS})
    beside: list[float] = field(default_factory=list)
    in_parts: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    near: dict[Question, frozenset[str]] = field(default_factory=dict)


async def search(data: Sequence[Dialogue], neighbours: int = 1) -> Searched:
    """Add all messages, then ask all questions."""
    result = Searched()
    async with memory(Limits().but(strategy="full"), Provider(0.1)) as conversations:
        for dialogue in data:
            conversation = await say(conversations, dialogue)
            for question in dialogue.questions:
                await _ask(conversation, dialogue.lines, question, result, neighbours)
    return result


async def say(conversations: Conversations, dialogue: Dialogue) -> Conversation:
    """Add all messages of a dialogue, and wait for their index and vectors."""
    conversation = await conversations.get(dialogue.key)
    for turn in dialogue.turns:
        said = [line.message for line in turn]
        await conversation.turns.append([said], [line.at for line in turn])
    await conversation.memory.recall("what is not there", 1)
    await make_vectors(conversations.services.store)
    return conversation


async def make_vectors(store: Store) -> None:
    """Make the vectors of indexed messages, if meanings are compared."""
    if _is_semantic.get():
        filling = VectorBackfill(store, Processes(), lambda: True)
        await filling.start_if_due()
        await filling.tasks.idle()


async def _ask(
    conversation: Conversation,
    lines: Sequence[Line],
    question: Question,
    result: Searched,
    neighbours: int,
) -> None:
    start, cpu = time.perf_counter(), time.process_time()
    found = await conversation.memory.recall(question.text, DEPTHS[-1])
    result.times.append((time.perf_counter() - start) * 1e3)
    result.cpu.append((time.process_time() - cpu) * 1e3)
    hits = found.said.hits
    for depth in DEPTHS:
        seqs = [hit.entry.seq for hit in hits[:depth]]
        result.recall[depth].append(_share(question, lines, seqs))
    shown = _around(hits[:SHOWN], neighbours)
    result.beside.append(_share(question, lines, shown))
    for part in in_parts(question.text):
        again = await conversation.memory.recall(part, SHOWN)
        shown |= _around(again.said.hits, neighbours)
    result.in_parts.append(_share(question, lines, shown))
    near = (lines[seq - 1].id for hit in hits[:FEW] for seq in _with_neighbours(hit))
    result.near[question] = frozenset(near)


def in_parts(text: str) -> Iterator[str]:
    """Yield the halves and the thirds of a question's search terms."""
    told = [term.word for term in words.question(text, ()).terms if not term.is_prefix]
    for parts in (2, 3):
        size = -(-len(told) // parts)
        if len(told) >= parts:
            yield from (" ".join(told[n : n + size]) for n in range(0, len(told), size))


def _around(hits: Iterable[Hit], reach: int) -> set[int]:
    seqs = (hit.entry.seq for hit in hits)
    return {near for seq in seqs for near in range(seq - reach, seq + reach + 1)}


def _with_neighbours(hit: Hit) -> list[int]:
    return [entry.seq for entry in (hit.before, hit.entry, hit.after) if entry]


def _share(question: Question, lines: Sequence[Line], seqs: Iterable[int]) -> float:
    ids = {lines[seq - 1].id for seq in seqs if 0 < seq <= len(lines)}
    return share(question, ids)


def share(question: Question, ids: Iterable[str]) -> float:
    """Return the share of the evidence that is in `ids`."""
    return len(question.evidence.intersection(ids)) / len(question.evidence)


def search_table(results: Mapping[str, Searched], neighbours: int = 1) -> str:
    """Return a table in Markdown with a row for each file, and their mean."""
    names = ["data", "questions", *(f"recall at {depth}" for depth in DEPTHS)]
    names += [f"10, {neighbours} beside", "in parts", "ms a query", "CPU: median", "one of 20"]
    rows = {name: _columns(result) for name, result in results.items()}
    if len(rows) > 1:
        rows["mean"] = [fmean(column) for column in zip(*rows.values(), strict=True)]
    head = [f"| {' | '.join(names)} |", "|---" + "|---:" * (len(names) - 1) + "|"]
    return "\n".join((*head, *(_row(name, columns) for name, columns in rows.items())))


def _columns(result: Searched) -> list[float]:
    shares = [*(result.recall[depth] for depth in DEPTHS), result.beside, result.in_parts]
    recall = [100 * fmean(column) for column in shares]
    return [len(result.times), *recall, fmean(result.times), *_spread(result.cpu)]


def _spread(values: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 95th percentile."""
    return median(values), sorted(values)[len(values) * 95 // 100]


def _row(name: str, columns: Sequence[float]) -> str:
    first, *others = columns
    cells = [f"{first:.0f}", *(f"{value:.1f}" for value in others)]
    return f"| {' | '.join((name, *cells))} |"


# --- one long conversation -----------------------------------------------------------------


async def measure_long(name: str, dialogue: Dialogue) -> str:
    """Measure the cost of a search in a conversation, regardless of its hits."""
    cpu = []
    async with memory(Limits().but(strategy="full"), Provider(0.1)) as conversations:
        conversation = await say(conversations, dialogue)
        store = conversations.services.store
        indexing = await store.write(_index_anew)
        await make_vectors(store)  # the old ones were deleted with the index
        for question in dict.fromkeys(dialogue.questions):
            start = time.process_time()
            await conversation.memory.recall(question.text, SHOWN)
            cpu.append((time.process_time() - start) * 1e3)
    tokens = sum(map(count_tokens, dialogue.lines))
    middle, high = _spread(cpu)
    return (
        f"| {name} | {len(dialogue.lines):,} | {tokens:,} | {len(cpu):,} | {middle:.2f} "
        f"| {high:.2f} | {indexing / len(dialogue.lines):.3f} |"
    )


def _index_anew(database: Database) -> float:
    """Index the only conversation; return the milliseconds of CPU that it took."""
    index.forget(database, 1)
    start = time.process_time()
    while index.catch_up(database, 1):
        pass
    return (time.process_time() - start) * 1e3


async def measure_joined(files: Sequence[Path], size: Callable[[Line], int], most: int) -> str:
    """Measure one conversation of that much of each file, repeated if the file is shorter, and one
    of all files joined. Return lines in Markdown."""
    await METER.ready()
    data = {named(file): dialogues(file) for file in files}
    if len(data) > 1:
        data["together"] = [dialogue for file in data.values() for dialogue in file]
    lines = [
        "| one conversation of | messages | tokens | questions | CPU ms: median | one of 20 "
        "| to index a message |",
        "|---" + "|---:" * 6 + "|",
    ]
    for name, said in data.items():
        once = sum(size(line) for dialogue in said for line in dialogue.lines)
        lines.append(await measure_long(name, join(said * -(-most // once), size, most)))
    return "\n".join(lines)


def count_tokens(line: Line) -> int:
    return METER.count(line.text)


# --- the strategies ------------------------------------------------------------------------


@dataclass
class Strategy:
    """The cost and content of a strategy: billed tokens of each conversation's turns, and for each
    question the share of the evidence that is in the context, and there or near a hit."""

    name: str
    billed: list[float] = field(default_factory=list)
    in_context: list[float] = field(default_factory=list)
    in_reach: list[float] = field(default_factory=list)


async def hold(name: str, data: Sequence[Dialogue], search: Searched, price: float) -> Strategy:
    """Run the conversations under a strategy, and check the context at the end."""
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
                await _talk(conversation, turn, provider)
                await conversations.flush()
            result.billed.append(provider.billed / len(dialogue.turns))
            there = {turn.number for turn in conversation.context.view().turns}
        context = {
            line.id for n, turn in enumerate(dialogue.turns, 1) if n in there for line in turn
        }
        for question in dialogue.questions:
            result.in_context.append(share(question, context))
            result.in_reach.append(share(question, context | search.near[question]))
    return result


async def _talk(conversation: Conversation, turn: Sequence[Line], provider: Provider) -> None:
    question = "\n".join(line.text for line in turn if line.is_user)
    reply = "\n".join(line.text for line in turn if not line.is_user)
    running = await conversation.turns.open(question or "…")
    view, limits = conversation.context.view(FRAME), conversation.context.limits
    if conversation.compactor.forecaster.due_in(view, limits, by_rule=True):
        await conversation.compactor.compact_by_rule()
    view = await running.fit(FRAME)
    wire = view.to_wire(FRAME)
    provider.ask("".join(f"<{message['role']}>{message['content']}" for message in wire))
    await running.record(Message("assistant", reply or "…"))


def strategy_table(results: Iterable[Strategy]) -> str:
    """Return a table in Markdown with a row for each strategy."""
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


# --- the options ---------------------------------------------------------------------------


async def measure(files: Sequence[Path], neighbours: int, price: float | None) -> None:
    results = {}
    for file in files:
        data = dialogues(file)
        found = results[named(file)] = await search(data, neighbours)
        if price is not None:
            held = [await hold(name, data, found, price) for name in sorted(STRATEGIES)]
            print(f"\n{named(file)}:\n\n{strategy_table(held)}")
    print(f"\n{search_table(results, neighbours)}")


async def try_weights(files: Sequence[Path], tried: int) -> None:
    settings, recall = weights.vary(tried), {}
    for file in files:
        data = dialogues(file)
        async with memory(Limits().but(strategy="full"), Provider(0.1)) as conversations:
            for dialogue in data:
                await say(conversations, dialogue)
            recall[named(file)] = await conversations.services.store.read(
                partial(
                    weights.evaluate,
                    data=data,
                    settings=settings,
                    likeness=conversations.services.likeness,
                )
            )
    print(weights.leave_one_out(settings, recall))


def named(file: Path) -> str:
    """Return the name of a file; for one of the name `dev.json`, that of its folder."""
    return file.parent.name if file.stem == "dev" else file.stem


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--data", type=Path, nargs="+", required=True, help="files of LoCoMo's shape")
    add("--neighbours", type=int, default=1, help="messages beside a hit that are shown with it")
    add("--strategies", action="store_true", help="hold the conversations under each strategy")
    add("--cached-price", type=float, default=0.1)
    add("--leave-one-out", action="store_true", help="try other weights of the ranking")
    add("--settings", type=int, default=40, help="how many")
    add("--messages", type=int, help="measure a search in conversations of so many messages")
    add("--tokens", type=int, help="measure a search in conversations of so many tokens")
    add("--postgresql", action="store_true", help="on a PostgreSQL server of its own")
    add("--semantic", action="store_true", help="compare meanings, too")
    options = parser.parse_args()
    _is_semantic.set(options.semantic)
    with running_server() if options.postgresql else nullcontext() as server:
        if server is not None:
            _database.set(lambda path: PostgresqlEngine(server.make_database("template1")))
        run(options)


def run(options: argparse.Namespace) -> None:
    if options.leave_one_out:
        asyncio.run(try_weights(options.data, options.settings))
    elif options.tokens:
        print(asyncio.run(measure_joined(options.data, count_tokens, options.tokens)))
    elif options.messages:
        print(asyncio.run(measure_joined(options.data, lambda line: 1, options.messages)))
    else:
        price = options.cached_price if options.strategies else None
        asyncio.run(measure(options.data, options.neighbours, price))


if __name__ == "__main__":
    main()
