"""The cost of a long conversation, in billed tokens, under a provider's cache rule.

python -m benchmarks.cost [--turns 100 1000] [--cached-price 0.1]

Parley's own memory layer plans and compacts under each of its strategies, with a real database and
the real meter. The provider is a rule: a request is cached as far as it is byte for byte the
beginning of an earlier one, from 1,024 tokens on, in steps of 128. The same run and rule also
measure: the behaviour that CowAgent documents (the summary is made after the cut and injected from
the next turn on), a window that slides by one turn a turn, and the full history.

Billed tokens are prompt tokens, with cached ones counted at `--cached-price`, plus the cost of the
summaries at the same prices. A second table uses Anthropic's prices: tokens written into the cache
cost a quarter more than uncached ones.

A third table has turns that each read something by a tool, with old results as stubs and without;
it also lists the tokens sent, cached or not. A fourth has turns of all sizes: one in ten reads a
long page, half read nothing.

The program names figures that are more expensive than in `figures.json`, and fails; `--write`
stores new figures.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import memory.forecaster
from benchmarks import figures
from memory.context.continued import pays
from memory.context.cut_cost import InputPrice
from memory.context.meter import Meter, PromptPrefix
from memory.context.settings import Limits
from memory.context.summary import SummaryRequest, SummaryResult, behind
from memory.context.view import View
from memory.conversation import Conversation
from memory.conversations import Conversations
from memory.keys import ConversationKey
from memory.ledger import Spent
from memory.messages import Message, ToolCall
from memory.record.store import Store
from memory.services import MemoryServices
from tests.memory.harness import HarnessRules, MemoryHarness

TAU = 600
"""Tokens of a turn: 200 from the person, 400 from the model."""
SYSTEM = 2_000
SUMMARY = 300
LINE = 20
"""Tokens that a model writes into its tag under `slim`."""
RESULT = (2_000,)
"""Tokens of the result in a turn with a tool, which also has a third of `TAU`."""
UNEVEN = (0, 300, 0, 1_500, 0, 300, 0, 20_000, 1_500, 0)
"""The tokens of results in ten turns of which half have a tool, repeated."""
KEY = ConversationKey("benchmark", "benchmark")
MOST_WHOLE = 200
"""Turns with tools without any truncation: more turns exceed any window."""
WRITTEN = 1.25
"""The price at Anthropic of a token that is written into the cache."""
FLOOR, STEP = 1_024, 128
_FACT = re.compile(r"\b(?:question|reply|did)\d+")


@dataclass
class Provider:
    """A counter of billed tokens. Texts count as one token for each four characters."""

    cached_price: float
    written_price: float = 1.0
    billed: float = 0.0
    sent: int = 0
    requests: int = 0
    breaks: int = 0
    _last: str = ""

    @property
    def caches_by_itself(self) -> bool:
        """Return False for Anthropic, which caches only up to the marks in a request; these are not
        where a summary would begin."""
        return self.written_price == 1.0

    def ask(self, prompt: str) -> Spent:
        """Bill a request of a turn, in order: only the previous request is still cached. Return the
        usage that the provider reports."""
        cached = self._cached_of(prompt)
        self.breaks += bool(self._last) and not prompt.startswith(self._last)
        self._bill(len(prompt) // 4, cached, self.written_price)
        self._last = prompt
        return Spent("answer", "benchmark", len(prompt) // 4, cached, 0, None)

    def aside(self, prompt: str) -> None:
        """Bill a request outside the turns, such as a summary. Its common beginning with the last
        turn's request is still cached; it adds nothing to the cache."""
        self._bill(len(prompt) // 4, self._cached_of(prompt), 1.0)

    def _cached_of(self, prompt: str) -> int:
        shared = _shared(prompt, self._last) // 4
        return shared // STEP * STEP if shared >= FLOOR else 0

    def _bill(self, tokens: int, cached: int, fresh_price: float) -> None:
        self.requests += 1
        self.sent += tokens
        self.billed += fresh_price * (tokens - cached) + self.cached_price * cached


def _shared(one: str, other: str) -> int:
    if one.startswith(other):
        return len(other)
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one.startswith(other[:middle]) else (low, middle - 1)
    return low


@dataclass
class Result:
    """A row of the table. `bare` is the number of turns after a cut without a summary of it."""

    name: str
    provider: Provider
    cuts: int = 0
    bare: int = 0


@dataclass
class Bookkeeper:
    """The summariser of the benchmark. Its answers have a fixed length and the names that fit (a
    summary without any of the new turns is rejected); its requests are billed."""

    provider: Provider
    count: int = 0

    def _prompt(self, request: SummaryRequest) -> str:
        """Return the prompt as `agent/summarizer.py` builds it: in the conversation, if that is
        cheaper."""
        apart, asked = request.task + request.text, behind(request.task)
        price = InputPrice(1.0, self.provider.cached_price)
        begun = request.beginning if self.provider.caches_by_itself else None
        if begun is None or not pays(begun, len(asked) // 4, len(apart) // 4, price):
            return apart
        return _prompt([*begun.messages, {"role": "user", "content": asked}])

    async def summarize(self, request: SummaryRequest) -> SummaryResult:
        self.count += 1
        self.provider.aside(self._prompt(request))
        told = _fit([*dict.fromkeys(_FACT.findall(request.text))])
        return SummaryResult(_words(f"summary{self.count} {told}", SUMMARY), "benchmark")


def _fit(facts: Sequence[str]) -> str:
    """Return as many of these facts as fit, a quarter of them the newest."""
    room = SUMMARY * 3
    old = " ".join(facts)[: room * 3 // 4]
    return f"{old} {' '.join(reversed(facts))}"[:room]


def _words(name: str, tokens: int) -> str:
    """Return text of about so many tokens by the meter, and exactly so many by the provider's
    rule."""
    return f"{name} {'word ' * tokens}"[: tokens * 4]


def _prompt(messages: Sequence[Mapping[str, Any]]) -> str:
    return "".join(
        f"<{message['role']}>{message['content'] or message['tool_calls']}" for message in messages
    )


WIDE = Limits().but(max_turns=20, max_tokens=10**6, window=2 * 10**6)
NARROW = Limits().but(window=20_000, keep_recent=20)
"""Limits that cut about every tenth turn, as `WIDE` does under `trim`."""
STRATEGIES = {
    "trim, summary prepared ahead": WIDE,
    "slim, folding when it pays": replace(WIDE, strategy="slim"),
    "slim, folding 7 turns at a time": replace(WIDE, strategy="slim", fold_turns=7),
    "slim, folding every turn": replace(WIDE, strategy="slim", fold_turns=1),
    "truncate": replace(NARROW, strategy="truncate"),
    "summarize": replace(NARROW, strategy="summarize"),
    "structured": replace(NARROW, strategy="structured"),
}


BROAD = WIDE.but(max_turns=1_000)
WITH_TOOLS = {
    "full history": BROAD.but(strategy="full"),
    "stubs": BROAD.but(strategy="stubs"),
    "trim": WIDE,
    "trim, stubs first": WIDE.but(stub_tools=True),
    "slim, folding when it pays": replace(WIDE, strategy="slim"),
    "slim, folding 7 turns at a time": replace(WIDE, strategy="slim", fold_turns=7),
    "structured in a window of 128,000": Limits().but(strategy="structured"),
    "structured, stubs first": Limits().but(strategy="structured", stub_tools=True),
}


_GROWING = ("full history", "stubs")
"""Ways in which the context grows without limit."""


async def ours(
    turns: int,
    provider: Provider,
    name: str,
    limits: Limits,
    soft_mark: int = 2,
    results: Sequence[int] = (0,),
) -> Result:
    """Run Parley's memory layer. Between two turns the person waits as long as a summary takes. A
    soft mark of 0 prepares no summary ahead, which is the behaviour that CowAgent documents.
    `results` are the lengths of tool results, turn by turn and repeated; 0 means no tool call."""
    frame = PromptPrefix(_words("system", SYSTEM))
    result = Result(name, provider)
    memory.forecaster.SOFT_MARK = soft_mark
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        store = await Store.open(data / "parley.db")
        room = MemoryServices(
            store,
            Meter(),
            Bookkeeper(provider),
            HarnessRules(MemoryHarness(data, limits, frame=frame)),
            data,
        )
        conversations = Conversations(room)
        conversation = await conversations.get(KEY)
        for number in range(1, turns + 1):
            await _turn(conversation, frame, number, result, results[number % len(results)])
            await conversations.flush()
        await conversations.close()
        await store.close()
    return result


async def _turn(
    conversation: Conversation, frame: PromptPrefix, number: int, result: Result, tokens: int
) -> None:
    tau = TAU // 3 if tokens else TAU
    turn = await conversation.turns.open(_words(f"question{number}", tau // 3))
    view, limits = conversation.context.view(frame), conversation.context.limits
    if conversation.compactor.forecaster.due_in(view, limits, by_rule=True):
        await conversation.compactor.compact_by_rule()
    view = await turn.fit(frame)
    spent = result.provider.ask(_prompt(view.to_wire(frame)))
    if tokens:
        call = ToolCall(f"call{number}", "read", f'{{"page": {number}}}')
        read = _words(f"page{number}", tokens)
        await turn.record(Message("assistant", "", (call,)), spent=spent)
        await turn.record(Message("tool", read, call_id=call.id, tool="read"))
        view = await turn.fit(frame)
        spent = result.provider.ask(_prompt(view.to_wire(frame)))
    history = await conversation.context.history()
    cuts = [event for event in history if event.name == "compact"]
    result.cuts = sum(event.name in ("compact", "fold", "stub") for event in history)
    if cuts and await _is_of_an_older_cut(conversation, view, cuts[-1].id):
        result.bare += 1
    reply, line = _words(f"reply{number}", tau * 2 // 3), _words(f"did{number}", LINE)
    terse = line if conversation.context.limits.strategy == "slim" else ""
    await turn.calibrate(view, view.tokens, conversation.context.limits.model)
    await turn.record(Message("assistant", reply, terse=terse), spent=spent)


async def _is_of_an_older_cut(conversation: Conversation, view: View, cut: int) -> bool:
    summary = await conversation.compactor.summaries.summary_of(cut)
    return view.preface is None or summary != view.layout.preface


def sliding(turns: int, provider: Provider, name: str, kept: int = 20, step: int = 1) -> Result:
    """Run a window of the last turns that moves by `step` turns at a time, without summaries."""
    result = Result(name, provider)
    texts = [_turn_text(number) for number in range(1, turns + 1)]
    for number in range(turns):
        first = max(0, number - kept + 1) // step * step
        result.provider.ask(_history(texts[first:number], number + 1))
    result.cuts = max(0, turns - kept) // step
    result.bare = max(0, turns - kept - step + 1)
    return result


def full(turns: int, provider: Provider) -> Result:
    """Run with the full history."""
    result = Result("full history", provider)
    history = f"<system>{_words('system', SYSTEM)}"
    for number in range(1, turns + 1):
        question = f"<user>{_words(f'question{number}', TAU // 3)}"
        result.provider.ask(history + question)
        history += f"{question}<assistant>{_words(f'reply{number}', TAU * 2 // 3)}"
    return result


def _turn_text(number: int) -> str:
    question = _words(f"question{number}", TAU // 3)
    return f"<user>{question}<assistant>{_words(f'reply{number}', TAU * 2 // 3)}"


def _history(turns: list[str], number: int) -> str:
    system = f"<system>{_words('system', SYSTEM)}"
    return f"{system}{''.join(turns)}<user>{_words(f'question{number}', TAU // 3)}"


def table(results: list[Result]) -> str:
    """Return the results in Markdown, one row each."""
    head = (
        "| way | billed tokens | against full | requests | cuts | cache breaks a cut | "
        "turns without a summary |\n|---|---:|---:|---:|---:|---:|---:|"
    )
    whole = results[-1].provider.billed
    rows = [
        f"| {r.name} | {r.provider.billed:,.0f} | {r.provider.billed / whole:.2f} | "
        f"{r.provider.requests:,} | {r.cuts} | "
        f"{r.provider.breaks / r.cuts if r.cuts else 0:.2f} | {r.bare} |"
        for r in results
    ]
    return "\n".join([head, *rows])


def tool_table(results: list[Result]) -> str:
    """Return the results of turns with tools, relative to the first result."""
    head = (
        "| way | tokens sent | against the first | billed tokens | against the first | "
        "cuts and batches |\n"
        "|---|---:|---:|---:|---:|---:|"
    )
    whole = results[0].provider
    rows = [
        f"| {r.name} | {r.provider.sent:,} | {r.provider.sent / whole.sent:.2f} | "
        f"{r.provider.billed:,.0f} | {r.provider.billed / whole.billed:.2f} | {r.cuts} |"
        for r in results
    ]
    return "\n".join([head, *rows])


async def talk(turns: int, cached: float, written: float) -> list[Result]:
    """Run every way of holding a conversation, at a provider's prices."""
    after = "trim, summary after the cut"
    results = [
        await ours(turns, Provider(cached, written), name, way) for name, way in STRATEGIES.items()
    ]
    late = await ours(turns, Provider(cached, written), after, WIDE, soft_mark=0)
    least = sliding(
        turns, Provider(cached, written), "the last 3 to 9 turns and no log", kept=4, step=7
    )
    last = sliding(turns, Provider(cached, written), "sliding window of 20")
    return [*results, late, least, last, full(turns, Provider(cached, written))]


async def work(turns: int, cached: float, results: Sequence[int]) -> list[Result]:
    """Run the ways for turns that read something by a tool."""
    ways = WITH_TOOLS.items()
    kept = [(name, way) for name, way in ways if turns <= MOST_WHOLE or name not in _GROWING]
    return [await ours(turns, Provider(cached), name, way, results=results) for name, way in kept]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--turns", type=int, nargs="+", default=[100, 1_000])
    parser.add_argument("--cached-price", type=float, default=0.1)
    parser.add_argument("--write", action="store_true", help="keep these figures")
    options = parser.parse_args()
    price = options.cached_price
    measured: dict[str, float] = {}
    for turns in options.turns:
        for what, written in {"": 1.0, ", Anthropic's prices": WRITTEN}.items():
            results = asyncio.run(talk(turns, price, written))
            heading = f"{turns} turns of {TAU} tokens"
            print(f"\n{heading}, cached input at {price:g} of the price{what}:\n")
            print(table(results))
            measured |= {f"{heading}{what}: {r.name}": r.provider.billed for r in results}
        for what, sizes in {
            f", each with a tool's result of {RESULT[0]:,} tokens": RESULT,
            " of all sizes": UNEVEN,
        }.items():
            results = asyncio.run(work(turns, price, sizes))
            heading = f"{turns} turns{what}"
            print(f"\n{heading}:\n")
            print(tool_table(results))
            measured |= {f"{heading}: {r.name}": r.provider.billed for r in results}
    figures.conclude("cost", measured, is_kept=options.write, within=figures.EXACT)


if __name__ == "__main__":
    main()
