"""The laws of the context on the requests that reach the model: random histories with the actions
of people that `test_mechanisms_meet.py` leaves out, in a private chat and in a group.

`LAWS=200` has that many histories instead of three, from the seed `LAWS_FROM` on.
"""

from __future__ import annotations

import json
import logging
import os
import random
import re
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent.models.history import NOTHING
from memory.context.layout import undoable
from memory.context.meter import PromptPrefix
from memory.context.strategies import STRATEGIES
from memory.context_state import ContextState
from memory.conversation import Conversation
from memory.keys import ConversationKey
from memory.messages import Message, ToolCall
from memory.record import summaries
from tests.fakes.openai_server import (
    Answer,
    Break,
    Call,
    Fail,
    Hang,
    OpenAIServer,
    Received,
    Say,
    prompt_bytes,
)
from tests.waiting import until
from tests.whole.testbot import TestBot, running

SEEDS = range(n := int(os.environ.get("LAWS_FROM", "0")), n + int(os.environ.get("LAWS", "3")))
STEPS = 30
_MARK = re.compile(r"mark\d+z")
Json = dict[str, Any]


def text_of(message: Json) -> str:
    return str(message.get("content") or "")


def joined(messages: list[Json]) -> list[Json]:
    """Join the texts of neighbouring answers, as a client does for providers that want turns."""
    found = list[Json]()
    for message in messages:
        plain = [m.keys() == {"role", "content"} for m in (message, *found[-1:])]
        if found and message["role"] == found[-1]["role"] == "assistant" and all(plain):
            found[-1] = found[-1] | {"content": f"{text_of(found[-1])}\n\n{text_of(message)}"}
        else:
            found.append(message)
    return found


class Chat:
    """A chat of one person, or of several."""

    def __init__(self, name: str, people: tuple[str, ...]) -> None:
        self.name, self.people = name, people
        self.key = ConversationKey(f"pipe/{name}", f"pipe-{name}")
        self.last: tuple[Any, list[Json]] | None = None


class History:
    def __init__(self, seed: int, folder: Path) -> None:
        self.chance, self.folder = random.Random(seed), folder
        self.count = self.prompt = self.completion = 0
        self.mood = "well"
        self.log: list[str] = []
        self.chats = [Chat("main", ("",)), Chat("group", ("ann", "bob"))]
        self.chat = self.chats[0]

    # --- the model ---------------------------------------------------------------------------

    def answer(self, request: Received) -> Answer:
        answer = self.choose(request)
        if isinstance(answer, Say):
            said = answer.text + "".join(c.name + c.arguments for c in answer.calls)
            self.prompt += self.server.counts(prompt_bytes(request.body))
            self.completion += len(said.encode()) // 4 + 1
        return answer

    def choose(self, request: Received) -> Answer:
        messages = request.body["messages"]
        if request.is_summary:
            told = " ".join(dict.fromkeys(_MARK.findall(json.dumps(messages))))
            return Say(f"They spoke of {told}.")
        if request.is_turn:
            match self.mood:
                case "fails":
                    return Fail(400, {"message": "Something is wrong.", "code": "bad"})
                case "breaks":
                    return Break("I began to ")
                case "hangs":
                    return Hang("I began to say ")
        said = text_of(messages[-1])
        if "and write" in said and request.body.get("tools"):
            self.count += 1
            calls = [
                Call("write_file", json.dumps({"path": f"a{n}.txt", "content": "x" * 400}))
                for n in range(self.chance.choice([1, 3]))
            ]
            return Say("I will.", calls=tuple(calls))
        return Say("I heard that. " * self.chance.choice([1, 30]))

    # --- a life ------------------------------------------------------------------------------

    async def live(self) -> None:
        strategy = self.chance.choice([*STRATEGIES])
        context = {
            "strategy": strategy,
            "max_tokens": self.chance.choice([9_000, 20_000]),
            "keep_recent": self.chance.choice([2, 6]),
            "full_turns": self.chance.choice([1, 3]),
            "fold_turns": self.chance.choice(["auto", 1, 2]),
            "compression_trigger": self.chance.choice([0.3, 0.75]),
            "compaction_approval": self.chance.choice(["off", "off", "show", "ask"]),
            "stub_tools": self.chance.random() < 0.3,
        }
        self.settings = {
            "agent_max_context_turns": self.chance.choice([3, 5, 20]),
            "context": context,
            "owners": ["pipe/ann", "pipe/bob"],
        }
        self.log.append(json.dumps(self.settings))
        acts = [self.say, self.say, self.say, self.say, self.chain, self.chain]
        # The cost of an answer that broke off is an estimate.
        is_exact = self.chance.random() < 0.5
        acts += [] if is_exact else [self.fail, self.stop]
        acts += [self.side, self.away_and_back, self.fork, self.restart, self.other]
        acts += [self.set_so, self.agree, self.by_name]
        async with OpenAIServer(self.answer) as self.server, AsyncExitStack() as self.process:
            await self.start()
            await self.fill()
            for _ in range(STEPS):
                act = self.chance.choice(acts)
                self.log.append(f"{self.chat.name}: {act.__name__}")
                await act()
                await self.check()
            if is_exact:
                await self.check_ledger()

    async def start(self) -> None:
        self.bot = TestBot()
        self.bot.patience = 20
        self.bot.server, self.bot.count = self.server, 100_000 * (1 + len(self.log))
        environ = {"OPENAI_BASE_URL": self.server.base_url, "OPENAI_API_KEY": "test-key"}
        await self.process.enter_async_context(
            running(self.folder, self.bot, self.settings, environ)
        )

    async def says(self, text: str) -> Any:
        self.log.append(f"  > {text[:100]}")
        reply = await self.bot.says(text, self.chat.name, self.chance.choice(self.chat.people))
        self.log.append(f"  < {reply.text[:200]!r}")
        return reply

    async def fill(self) -> None:
        """Add some turns, as an import does, so that there is something to compact."""
        for chat in reversed(self.chats):
            self.chat, turns = chat, []
            for _ in range(self.chance.randint(1, 9)):
                self.count += 1
                words = self.chance.choice(["", "word " * 300])
                reply = "I heard that. " * self.chance.choice([1, 60])
                asked = f"Tell of mark{self.count}z {words}"
                call = ToolCall(f"call{self.count}", "list_files", "{}")
                tool = Message("tool", "file " * 200, call_id=call.id, tool="list_files")
                acts = [Message("assistant", "", tool_calls=(call,)), tool]
                acts *= self.chance.random() < 0.3
                turns.append([Message("user", asked), *acts, Message("assistant", reply)])
            await (await self.here()).turns.append(turns)

    # --- what is seen ------------------------------------------------------------------------

    async def here(self) -> Conversation:
        conversations = self.bot.app.conversations
        await self.bot.app.turns.queues.idle()
        await conversations.flush()
        found = await conversations.get(conversations.branches.current(self.chat.key))
        await found.turns.fitter.flush()
        return found

    async def wire(self) -> list[Json]:
        return (await self.here()).context.view().to_wire(PromptPrefix(""))

    async def turns(self) -> str:
        newest = max(1, (await self.here()).context.newest)
        first = self.chance.randint(1, newest)
        last = min(newest, first + self.chance.randint(0, 3))
        return f"t{first}" if first == last else f"t{first}-t{last}"

    async def known(self) -> int:
        return len(await (await self.here()).context.history())

    # --- what happens ------------------------------------------------------------------------

    async def say(self) -> None:
        here = await self.here()
        state = here.context
        await here.compactor.resolve_proposal()
        preview = await here.compactor.forecaster.preview()
        waits = state.waits_for_strategy
        promised = preview.then.to_wire(state.prefix)
        is_exact = not waits and not any(p.leaving for p in preview.plans)
        is_exact |= not waits and preview.is_ready
        shown = await self.says("/context preview")
        self.count += 1
        mark = f"mark{self.count}z"
        more = self.chance.choice(["", "and write", "word " * 300])
        first = len(self.server.turns)
        asked = f"Tell of {mark} {more}"
        before = [one.id for one in await state.history()]
        await self.says(asked)
        requests = self.server.turns[first:]
        for request in requests:
            messages = request.body["messages"]
            assert any(mark in text_of(m) for m in messages if m["role"] == "user"), "question"
        # an unchanged prefix stays byte for byte unless an event names the change
        after = await (await self.here()).context.history()
        events = [one for one in after if one.id not in before]
        # A provider wants a question before the first answer: what stands there is no message.
        real = [m for m in requests[0].body["messages"] if m.get("content") != NOTHING]
        if (
            is_exact
            and len(preview.plans) == len(events)
            and text_of(real[0]) == text_of(promised[0])
        ):
            assert joined(real[:-1]) == joined(promised[:-1]), "preview"
            assert text_of(real[-1]).startswith(text_of(promised[-1]).rstrip()), "preview front"
            assert sum(m["tokens"] for m in shown.data["messages"]) == shown.data["tokens"]
        self.same_prefix(requests, events)
        place = (self.chat.name, (await self.here()).key.id)
        held = await self.changed_at()
        if self.chat.last and self.chat.last[0] == (place, held) and not events:
            old, new = self.chat.last[1], real
            assert new[: len(old)] == old, "prefix"
        last = [m for m in requests[-1].body["messages"] if m.get("content") != NOTHING]
        is_late = any(one.kind == "text" for one in events)  # a summary came after this request
        self.chat.last = None if is_late else ((place, await self.changed_at()), last)

    def same_prefix(self, requests: list[Received], events: list[Any]) -> None:
        if events:
            return
        for one, other in pairwise(requests):
            old, new = one.body["messages"], other.body["messages"]
            assert new[: len(old)] == old, "prefix in a turn"

    async def changed_at(self) -> Any:
        state = (await self.here()).context
        return state.last_event, state.limits.strategy, state.prefix.system

    async def act(self) -> str:
        turns, other = await self.turns(), await self.turns()
        acts = ["compact", f"compact {turns}", "clear", "free", f"free {other}"]
        acts += [f"{verb} {turns}" for verb in ("pin", "unpin", "drop", "expand")]
        acts += [f"{verb} {other}" for verb in ("pin", "drop", "expand", "compact")]
        acts += [
            "summary edit They spoke of tea.",
            'compress {"trigger_ratio": 0.1}',
            "compact tea",
        ]
        return f"/context {self.chance.choice(acts)}"

    async def chain(self) -> None:
        """Let a person make some changes, undo them all, and redo them all."""
        seen, made = [await self.wire()], 0
        for _ in range(self.chance.randint(1, 4)):
            known = await self.known()
            await self.says(await self.act())
            grown = await self.known() - known
            if grown == 1:
                made += 1
                seen.append(await self.wire())
            elif grown:
                seen, made = [await self.wire()], 0
            else:
                assert await self.wire() == seen[-1], "nothing was done"
        if self.chance.random() < 0.7:
            for before in reversed(seen[:-1]):
                await self.says("/context undo")
                assert await self.wire() == before, "undo"
            if self.chance.random() < 0.3:
                await self.reopen()
                assert await self.wire() == seen[0], "undo, restart"
            if self.chance.random() < 0.7:
                for after in seen[1:]:
                    await self.says("/context redo")
                    assert await self.wire() == after, "redo"

    async def by_name(self) -> None:
        """Undo an event by its name, and redo it."""
        events = undoable(await (await self.here()).context.history())
        if not events:
            return
        before = await self.wire()
        one = self.chance.choice(events)
        known = await self.known()
        await self.says(f"/context undo e{one.id}")
        if await self.known() == known + 1:
            await self.says("/context redo")
            assert await self.wire() == before, "undo and redo by name"

    async def fail(self) -> None:
        self.mood = self.chance.choice(["fails", "breaks"])
        self.count += 1
        await self.says(f"Tell of mark{self.count}z in vain")
        self.mood = "well"
        self.chat.last = None

    async def stop(self) -> None:
        act = await self.act()
        self.mood = "hangs"
        self.count += 1
        first = len(self.server.turns)
        text = f"Tell of mark{self.count}z for ever"
        self.bot.count += 1
        name = f"m{self.bot.count}"
        await self.bot.writes(text, self.chat.name, self.chat.people[0], name)
        await until(lambda: len(self.server.turns) > first)
        self.mood = "well"
        if self.chance.random() < 0.4:
            await self.says(act)
        await self.says("/stop")
        await self.bot.reply_to(name)
        self.chat.last = None

    async def side(self) -> None:
        before = await self.wire()
        await self.says("/btw What was that?")
        assert await self.wire() == before, "a side question"

    async def away_and_back(self) -> None:
        state = (await self.here()).context
        if state.waits_for_strategy or not state.newest:
            return
        before, own = await self.wire(), state.limits.strategy
        async with state.changing:
            await state.switch(self.chance.choice([*STRATEGIES]), await state.history())
            await state.switch(own, await state.history())
        assert await self.wire() == before, "away and back"

    async def fork(self) -> None:
        turns = (await self.turns()).split("-")[0]
        acts = ["/fork", f"/fork {turns}", "/branches 1", "/branches 2", "/undo", "/retry"]
        acts += [f"/edit {turns} Anew", f"/regenerate {turns}", f"/without {turns}"]
        act, before = self.chance.choice(acts), await self.wire()
        state = (await self.here()).context
        settled = not state.waits_for_strategy and state.newest
        done = await self.says(act)
        if asked := (done.data or {}).get("asked"):
            await self.bot.reply_to(asked)
        if act == "/fork" and settled and not asked:
            now = (await self.here()).context
            if now.newest == state.newest and now is not state:
                assert await self.wire() == before, "a fork here"
        self.chat.last = None

    async def restart(self) -> None:
        before = await self.wire()
        await self.reopen()
        assert await self.wire() == before or (await self.here()).context.waits_for_strategy
        self.chat.last = None

    async def reopen(self) -> None:
        await self.here()
        await self.process.aclose()
        await self.start()

    async def other(self) -> None:
        self.chat = self.chance.choice(self.chats)

    async def set_so(self) -> None:
        strategy = self.chance.choice([*STRATEGIES])
        acts = [f"context.strategy {strategy} --here", "context.max_tokens 6000"]
        acts += ["context.max_tokens 30000", "agent_max_context_turns 3", "context.full_turns 5"]
        acts += ["agent_max_context_turns 9", "context.max_terse_entries 3", "model gpt-4"]
        await self.says(f"/config {self.chance.choice(acts)}")
        self.chat.last = None

    async def agree(self) -> None:
        await self.says(self.chance.choice(["/context approve", "/context decline"]))

    # --- what must hold ----------------------------------------------------------------------

    async def check(self) -> None:
        here = await self.here()
        state = here.context
        view = state.view()
        if self.chance.random() < 0.3:
            found = (await self.says("/context json")).data
            usage = found["usage"]
            assert usage["tokens"] == view.tokens, "tokens"
            shown = (await self.says("/context turns")).data
            inside = {f"t{turn.number}" for turn in view.turns}
            if shown and shown.get("turns"):
                said = {t["turn"] for t in shown["turns"] if t["state"] == "in context"}
                assert said <= inside, "turns"
        await self.check_covered(state)
        await self.check_removed(state)

    async def check_ledger(self) -> None:
        for chat in self.chats:
            self.chat = chat
            await self.here()
        titles = [self.server.counts(prompt_bytes(one.body)) for one in self.server.titles]
        query = "SELECT SUM(prompt), SUM(completion) FROM usage"
        booked = await self.bot.app.store.read(lambda db: db.execute_sql(query).fetchone())
        expected = (self.prompt + sum(titles), self.completion + len(titles))
        assert booked == expected, f"ledger {booked} {expected}"

    async def check_removed(self, state: ContextState) -> None:
        """Check that no request has what a person has removed."""
        away, marks = state.layout.removed_turns, dict[bool, set[str]]({True: set(), False: set()})
        for turn in await state.turns(sorted(await state.kept_turns())):
            marks[away.has(turn.number)].update(_MARK.findall(turn.question.text))
        wire = str(await self.wire())
        left = [mark for mark in marks[True] - marks[False] if mark in wire]
        assert left == [], "a request has what a person has removed"

    async def check_covered(self, state: ContextState) -> None:
        layout = state.layout

        def covered(db: Any, number: int) -> set[int]:
            found, todo = set(), [number]
            while todo:
                one = summaries.summary(db, todo.pop())
                if one is not None:
                    found |= {*one.turns}
                    todo += [*filter(None, (one.prior, one.edits, *one.ranges))]
            return found

        there, read = await state.kept_turns(), self.bot.app.store.read
        if layout.front in layout.texts:
            has = await read(lambda db: covered(db, layout.preface))
            out = {*layout.turns("summary")} & there
            assert out <= has, f"a summary that has not read {sorted(out - has)}"
        ranges = [one for one in layout.ranges if one.summary]
        found = await read(lambda db: [covered(db, one.summary) for one in ranges])
        for one, has in zip(ranges, found, strict=True):
            assert {*one.turns} & there <= has, "a range summary that has not read all"


@pytest.mark.parametrize("seed", SEEDS)
async def test_the_laws_hold_whatever_happens(
    tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    history = History(seed, tmp_path)
    try:
        await history.live()
    except AssertionError as error:
        error.add_note("\n".join(history.log))
        raise
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []
