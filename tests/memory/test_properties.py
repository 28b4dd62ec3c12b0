"""Tests of invariants over random conversations with tools, limits, and steering by a person."""

from __future__ import annotations

import asyncio
import hashlib
import re
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from bot.settings import Settings
from memory.context.change import ViewEvent
from memory.context.emergency import RequestTooLong
from memory.context.layout import replay
from memory.context.settings import Limits
from memory.context.strategies import STRATEGIES, next_plan
from memory.context.summary import SummaryRequest
from memory.context.view import View
from memory.conversation import Conversation
from memory.forecaster import PATIENCE
from memory.keys import ConversationKey
from memory.ledger import Spent
from memory.messages import Message, ToolCall
from memory.record.search import ExactMessage
from memory.summary_editor import EditRefused
from plugins.request_log.reading import StoredRequestLog, StoredRequests
from tests.fakes.openai_server import refusal
from tests.memory.harness import KEY, MemoryHarness, Obedient

WORDS = st.sampled_from(["yes", "no", "Wörter", "数字", "a longer sentence than most", "🙂"])
TEXT = st.tuples(WORDS, st.integers(1, 120))
RESULT = st.tuples(WORDS, st.integers(1, 6_000))
SAY = st.tuples(st.just("say"), TEXT, st.lists(RESULT, max_size=3))
TURNS = st.frozensets(st.integers(1, 12), min_size=1, max_size=3)
RANGE = st.tuples(st.integers(1, 10), st.integers(0, 5)).map(lambda r: range(r[0], r[0] + r[1] + 1))
STEER = st.one_of(
    st.tuples(st.sampled_from(["approve", "decline", "wait"])),
    st.tuples(st.just("edit"), TEXT),
    st.tuples(st.just("keep"), WORDS),
    st.tuples(st.just("compaction_approval"), st.sampled_from(["off", "show", "ask"])),
    st.tuples(st.just("summary_min_kept"), st.sampled_from([0.0, 1.0])),
    st.tuples(
        st.sampled_from(
            ["halve", "compact", "undo", "redo", "clear", "new", "restart", "settle"],
        )
    ),
    st.tuples(st.just("rule"), st.integers(1, 9)),
    st.tuples(st.sampled_from(["pin", "unpin", "drop"]), TURNS),
    st.tuples(st.sampled_from(["range", "free", "expand"]), RANGE),
    st.tuples(st.sampled_from(["fork", "switch"]), st.integers(0, 11)),
    st.tuples(st.just("max_turns"), st.integers(1, 12)),
    st.tuples(st.just("max_tokens"), st.integers(500, 8_000)),
    st.tuples(st.just("window"), st.sampled_from([2_000, 8_000, 128_000])),
    st.tuples(st.just("strategy"), st.sampled_from(sorted(STRATEGIES))),
    st.tuples(st.just("fold_turns"), st.sampled_from([0, 1, 3])),
    st.tuples(st.just("max_terse_entries"), st.integers(1, 6)),
    st.tuples(st.just("full_turns"), st.integers(1, 6)),
    st.tuples(st.just("keep_recent"), st.integers(1, 12)),
    st.tuples(st.just("stub_tools"), st.booleans()),
    st.tuples(st.just("stub_keep"), st.integers(0, 3)),
    st.tuples(st.just("stub_batch"), st.sampled_from([1, 100, 4_000])),
)
BRANCH = st.one_of(
    st.tuples(st.sampled_from(["fork", "switch"]), st.integers(0, 11)),
    st.tuples(st.sampled_from(["compact", "undo", "redo", "clear", "new", "restart"])),
    st.tuples(st.sampled_from(["pin", "drop"]), TURNS),
    st.tuples(st.sampled_from(["range", "free", "expand"]), RANGE),
)
SHORT = st.tuples(
    st.just("say"), st.tuples(WORDS, st.integers(1, 20)), st.lists(RESULT, max_size=0)
)
REPLY = re.compile(r"reply \d+")
BRANCHES = st.lists(st.one_of(SHORT, BRANCH, BRANCH), min_size=8, max_size=24)
MANY_CUTS: list[tuple[Any, ...]] = [
    ("max_turns", 4),
    ("keep_recent", 4),
    ("max_terse_entries", 8),
    ("full_turns", 1),
    ("fold_turns", 2),
]
SUMMARISED = st.lists(
    st.one_of(
        *[SHORT] * 8,
        SAY,
        st.tuples(st.sampled_from(["undo", "restart", "settle", "compact"])),
        st.tuples(st.sampled_from(["pin", "unpin", "drop"]), TURNS),
        st.tuples(st.sampled_from(["range", "expand"]), RANGE),
        st.tuples(st.just("edit"), TEXT),
    ),
    min_size=14,
    max_size=28,
)
CONVERSATION = st.lists(st.one_of(SAY, SAY, STEER), min_size=3, max_size=18)


@dataclass
class Witness:
    """A witness that follows a conversation and checks every request that it would send. `ends` has
    the number of messages at the end of each turn; `cached` is the provider's report for each
    request."""

    harness: MemoryHarness
    said: list[str] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    cached: int = 0
    last: tuple[int, list[dict[str, Any]]] | None = None

    async def says(self, conversation: Conversation, text: str, results: list[str]) -> None:
        turn = await conversation.turns.open(text)
        self.said.append(text)
        if conversation.compactor.forecaster.due(by_rule=True):
            await conversation.compactor.compact_by_rule()
        fresh: list[str] = []
        for number in range(len(results) + 1):
            try:
                view = await turn.fit(self.harness.frame)
            except RequestTooLong:  # the reason is shown; another test checks it
                break
            await self.check(conversation, view, text, fresh)
            body = {"messages": view.to_wire(self.harness.frame)}
            turn.note_sent(view, self.harness.frame, (), body, orjson.dumps(body))
            if number < len(results):
                call = ToolCall(f"c{turn.number}_{number}", "look", "{}")
                await turn.record(Message("assistant", "", (call,)))
                await turn.record(Message("tool", results[number], call_id=call.id, tool="look"))
                self.said.append(results[number])
                fresh.append(results[number])
        self.said.append(f"reply {len(self.said)}")
        spent = Spent("answer", "fake", 100, self.cached, 1, None)
        await turn.record(Message("assistant", self.said[-1]), spent=spent if self.cached else None)
        self.ends.append(len(self.said))
        assert await StoredRequests(conversation.turns).numbers()
        await what_was_sent_can_be_made_again(conversation, newest=1)

    def branch(self, turn: int) -> Witness:
        """Return a witness for a branch that begins after this turn."""
        said, ends = self.said[: self.ends[turn - 1]], self.ends[:turn]
        return Witness(self.harness, said, ends, self.cached)

    async def check(
        self, conversation: Conversation, view: View, text: str, fresh: list[str]
    ) -> None:
        history = await conversation.context.history()
        limits = conversation.context.limits
        wire = view.to_wire(self.harness.frame)
        assert not refusal({"model": "m", "messages": wire}), "an orphaned call or result"
        current = wire[-1 - 2 * len(fresh) :]
        assert same_or_clipped(text, str(current[0]["content"])), "the question is in the request"
        for result, message in zip(fresh, current[2::2], strict=True):
            assert same_or_clipped(result, message["content"]), "fresh results are in the request"
        assert view.tokens <= limits.ceiling
        is_asked = conversation.compactor.approval.current is not None
        if limits.strategy == "trim" and not is_held(history) and not is_asked:
            is_over = view.tokens > limits.budget or len(view.turns) > limits.max_turns
            assert not is_over or next_plan(view, limits) is None, "what frees enough has left"
        strategy = conversation.context.limits.strategy
        assert conversation.context.replayed == replay(history, strategy), (
            "one by one, and all at once"
        )
        self.check_prefix(len(history), wire)
        await self.check_stubs(conversation, view)

    async def check_stubs(self, conversation: Conversation, view: View) -> None:
        """Check that no result of the running turn is a stub, and that each stubbed result can be
        read again."""
        whole = {entry.seq: entry for turn in view.whole for entry in turn.entries}
        for entry in (entry for turn in view.turns for entry in turn.entries):
            if entry.seq in view.layout.stubbed:
                assert entry.turn != view.current
                (hit,) = (await conversation.passages(ExactMessage(entry.turn, entry.seq))).hits
                assert hit.text == whole[entry.seq].message.shown_text

    def check_prefix(self, events: int, wire: list[dict[str, Any]]) -> None:
        """Check that between two events each request extends the previous one byte for byte."""
        if self.last is not None and self.last[0] == events:
            before = self.last[1]
            assert wire[: len(before)] == before
        self.last = (events, wire)


def same_or_clipped(text: str, sent: str) -> bool:
    """Return whether a text is in the request: complete, after a summary, or clipped with a
    mark."""
    if sent.endswith(text):
        return True
    is_marked = "characters left out here" in sent or "<<<TRUNCATED>>>" in sent
    body = sent.rpartition("</summary-of-earlier-turns>\n\n")[2]
    return is_marked and body.startswith(text[:80])


def is_held(history: list[ViewEvent]) -> bool:
    """Return whether an undo may delay cuts (another test checks the rule itself)."""
    kinds = [event.kind for event in history]
    return "undo" in kinds or "redo" in kinds


async def steer(harness: MemoryHarness, conversation: Conversation, step: tuple[Any, ...]) -> None:
    match step:
        case ("compact" | "halve" | "rule", *keep):
            await steer_cut(harness, conversation, step[0], keep)
        case ("range" | "free" | "expand", turns):
            await steer_range(harness, conversation, step[0], turns)
        case ("edit" | "keep" | "approve" | "decline" | "wait" as what, *words):
            await steer_summaries(harness, conversation, what, words)
        case ("undo" | "redo" as move,):
            await getattr(conversation.editor, move)()
        case ("clear" | "new" as kind,):
            await conversation.editor.clear(kind)
            assert not conversation.context.view().turns
            assert not conversation.context.view().layout.ranges
        case ("restart",):
            before = conversation.context.view().to_wire(harness.frame)
            waits = conversation.context.waits_for_strategy  # which is in force afterwards
            await harness.restart()
            conversation = await harness.conversation(conversation.key)
            assert waits or conversation.context.view().to_wire(harness.frame) == before
        case ("settle",):
            await harness.settle()
        case ("pin" | "unpin" | "drop" as kind, turns):
            await getattr(conversation.editor, kind)(turns)
        case (name, value):
            harness.limit(**{name: value})


async def steer_cut(
    harness: MemoryHarness, conversation: Conversation, what: str, keep: list[int]
) -> None:
    if what == "rule":
        await conversation.compactor.compact_by_rule(keep_recent=keep[0])
        return
    if what == "halve":
        await conversation.compactor.free()
        return
    before = conversation.context.view().to_wire(harness.frame)
    made = await conversation.compactor.compact_for_person()
    if made is not None and made.event is not None:
        assert made.event.tokens_after < made.event.tokens_before
        after = conversation.context.view().to_wire(harness.frame)
        await conversation.editor.undo()
        assert conversation.context.view().to_wire(harness.frame) == before
        await conversation.editor.redo()
        assert conversation.context.view().to_wire(harness.frame) == after


async def steer_summaries(
    harness: MemoryHarness, conversation: Conversation, what: str, words: list[Any]
) -> None:
    if what in ("edit", "keep"):
        await edit_summary(harness, conversation, what, words[0])
    else:
        await answer_cut(harness, conversation, what)


async def edit_summary(
    harness: MemoryHarness, conversation: Conversation, what: str, words: Any
) -> None:
    """The model sees an edited summary, and undoing the edit is exact."""
    before = conversation.context.view()
    sent, standing = before.to_wire(harness.frame), await conversation.summary.list_standing()
    try:
        editor = conversation.summary
        edited = await (editor.edit(spoken(words)) if what == "edit" else editor.keep(words))
    except EditRefused:
        assert conversation.context.view().to_wire(harness.frame) == sent
        return
    view = conversation.context.view()
    if edited.is_range:  # the only summary
        assert [one.is_range for one in standing] == [True]
        (shown,) = view.summaries.values()
    else:
        assert view.preface is not None
        shown = view.preface
    assert shown.text.startswith(edited.after.text)
    assert edited.event is not None
    assert edited.event.tokens_after == view.tokens
    assert edited.after.is_untrusted >= edited.before.is_untrusted
    assert {turn.number for turn in view.turns} == {turn.number for turn in before.turns}
    await conversation.editor.undo()
    assert conversation.context.view().to_wire(harness.frame) == sent
    await conversation.editor.redo()
    assert conversation.context.view().to_wire(harness.frame) == view.to_wire(harness.frame)


async def answer_cut(harness: MemoryHarness, conversation: Conversation, answer: str) -> None:
    """A cut that waits for approval is executed exactly as shown, or not at all."""
    await harness.settle()
    compactor = conversation.compactor
    waiting = compactor.approval.current
    if waiting is None:
        return
    before = {turn.number for turn in conversation.context.view().turns}
    if answer == "decline":
        async with conversation.context.changing:
            await compactor.approval.decline()
    elif answer == "approve":
        await compactor.approve()
    else:
        compactor.approval.clock = lambda: time.time() + PATIENCE + 1
        await compactor.resolve_proposal()
        compactor.approval.clock = time.time
    assert compactor.approval.current is None
    gone = before - {turn.number for turn in conversation.context.view().turns}
    assert gone == (set() if answer == "decline" else before & set(waiting.plan.leaving))


async def steer_range(
    harness: MemoryHarness, conversation: Conversation, what: str, turns: range
) -> None:
    before = conversation.context.view()
    sent = before.to_wire(harness.frame)
    if what == "range":
        made = await conversation.compactor.compact_range(turns)
        event = made.event if made else None
        assert event is None or event.tokens_after < event.tokens_before
    elif what == "free":
        event = await conversation.compactor.free_range(turns)
    else:
        opened = await conversation.editor.expand(turns)
        event, view = opened.event, conversation.context.view()
        assert {t.number for t in view.turns} == {t.number for t in before.turns} | {*opened.back}
        assert event is None or view.tokens <= conversation.context.limits.ceiling
    view = conversation.context.view()
    stand_in_for_all(view)
    if event is None:
        assert view.to_wire(harness.frame) == sent
        return
    assert event.tokens_after == view.tokens
    await conversation.editor.undo()
    assert conversation.context.view().to_wire(harness.frame) == sent
    await conversation.editor.redo()
    assert conversation.context.view().to_wire(harness.frame) == view.to_wire(harness.frame)


def stand_in_for_all(view: View) -> None:
    """Check that no turn is in context together with a summary that replaces it, that none has two
    of them, and that they are in the order of the transcript."""
    covered = [turn for stand_in in view.layout.ranges for turn in stand_in.turns]
    assert len(covered) == len(set(covered))
    assert not {turn.number for turn in view.turns} & {*covered}
    assert not {*covered} & {*view.logged}
    places = [one.turns[-1] for one in view.layout.ranges]
    assert places == sorted(places)


def spoken(text: tuple[str, int]) -> str:
    """Return a word, repeated this many times."""
    word, count = text
    return f"{word} " * count


def is_of_the_same(request: SummaryRequest) -> str:
    """A summary in the conversation is requested for the same source as a separate one."""
    if (beginning := request.beginning) is not None:
        task = {"role": "user", "content": request.task}
        assert not refusal({"model": "m", "messages": [*beginning.messages, task]})
        there = "\n".join(str(message["content"]) for message in beginning.messages)
        assert request.prior in there
        there = there.replace(request.prior, "", 1)
        assert REPLY.findall(there) == REPLY.findall("\n".join(request.parts))
    return "They talked."


async def live(
    folder: Path, steps: list[tuple[Any, ...]], strategy: str = "trim", cached: int = 0
) -> None:
    limits = Limits(context=Settings().context)  # including the sizes from the request log
    summarizer = Obedient(is_of_the_same)
    harness = MemoryHarness(folder, limits, summarizer, request_log=StoredRequestLog)
    harness.limit(strategy=strategy)
    await harness.open()
    witnesses = {KEY: Witness(harness, cached=cached)}
    try:
        for step in steps:
            before = await send_all(harness, witnesses)
            conversation = await harness.conversation(harness.conversations.branches.current(KEY))
            witness = witnesses[conversation.key]
            if step[0] == "say":
                await witness.says(conversation, spoken(step[1]), [spoken(r) for r in step[2]])
            elif step[0] in ("fork", "switch"):
                await move(harness, conversation, witnesses, step)
            else:
                await steer(harness, conversation, step)
            after = await send_all(harness, witnesses)
            for key in (before.keys() & after.keys()) - {conversation.key}:
                assert after[key] == before[key], "no branch changes what another one sends"
        await harness.settle()
        for key, witness in witnesses.items():
            await everything_is_there(await harness.conversation(key), witness.said)
            await what_was_sent_can_be_made_again(await harness.conversation(key))
    finally:
        await harness.close()


async def send_all(
    harness: MemoryHarness, keys: Iterable[ConversationKey]
) -> dict[ConversationKey, Any]:
    """Return the next request of each of these conversations, except for those that wait for a
    strategy: a restart puts it in force."""
    there = {key: await harness.conversation(key) for key in keys}
    return {
        key: one.context.view().to_wire(harness.frame)
        for key, one in there.items()
        if not one.context.waits_for_strategy
    }


async def move(
    harness: MemoryHarness,
    conversation: Conversation,
    witnesses: dict[ConversationKey, Witness],
    step: tuple[Any, ...],
) -> None:
    """Fork, or switch to another branch."""
    what, number = step
    if what == "switch":
        await harness.conversations.branches.switch([*witnesses][number % len(witnesses)])
    elif newest := conversation.context.newest:
        turn = 1 + number % newest
        before = conversation.context.view().to_wire(harness.frame)
        branch = await harness.conversations.fork(conversation.key, turn)
        witnesses[branch] = witnesses[conversation.key].branch(turn)
        made = await harness.conversation(branch)
        assert max((t.number for t in made.context.view().whole), default=0) <= turn
        if turn == newest and not conversation.context.waits_for_strategy:
            assert made.context.view().to_wire(harness.frame) == before


async def what_was_sent_can_be_made_again(conversation: Conversation, newest: int = 1_000) -> None:
    """Each logged request is rebuilt byte for byte, whatever was changed since."""
    log = StoredRequests(conversation.turns)
    for number in (await log.numbers())[-newest:]:
        sent = await log.request(number)
        assert sent is not None
        view, prefix = await log.view_of(sent)
        again = orjson.dumps({"messages": view.to_wire(prefix)})
        assert hashlib.sha256(again).hexdigest() == sent.digest


async def everything_is_there(conversation: Conversation, said: list[str]) -> None:
    """Every word is in the transcript, in order, once, and a search finds it, whether it is in
    context or not."""
    turns = await conversation.context.turns(range(1, len(said) + 1))
    kept = [e.message.text for t in turns for e in t.entries if not e.message.tool_calls]
    assert kept == said
    assert [turn.number for turn in turns] == list(range(1, len(turns) + 1))
    for text in said:
        words = text.split()[:5]
        best = (await conversation.search(words, most=1)).hits[0].text
        assert all(word in best for word in words)


# Shrinking a conversation takes minutes; the steps of a failing one are short enough to read.
@settings(max_examples=40, phases=(Phase.explicit, Phase.generate))
@given(CONVERSATION)
def test_no_request_is_broken_and_nothing_is_lost(steps: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(live(Path(folder), steps))


@settings(max_examples=12, phases=(Phase.explicit, Phase.generate))
@given(SUMMARISED, st.sampled_from(["trim", "slim", "summarize"]))
def test_a_summary_in_the_conversation_is_of_what_it_would_be_of_apart(
    steps: list[tuple[Any, ...]], strategy: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(live(Path(folder), MANY_CUTS + steps, strategy, cached=50))


@settings(max_examples=16, phases=(Phase.explicit, Phase.generate))
@given(BRANCHES, st.sampled_from(sorted(STRATEGIES)))
def test_no_branch_changes_what_another_one_sends(
    steps: list[tuple[Any, ...]], strategy: str
) -> None:
    start: list[tuple[Any, ...]] = [("say", ("hello", 3), []), ("say", ("again", 3), [])]
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(live(Path(folder), start + steps, strategy))
