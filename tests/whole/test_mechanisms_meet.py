"""Random days with the whole bot: actions of people in a chat, in any order, with restarts.

`MEETINGS=60` has that many days instead of four, in a minute.
"""

from __future__ import annotations

import json
import logging
import os
import random
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from memory.context.meter import PromptPrefix
from memory.context.strategies import STRATEGIES
from memory.conversation import Conversation
from memory.keys import ConversationKey
from tests.fakes.openai_server import Answer, Call, Fail, OpenAIServer, Received, Say
from tests.whole.testbot import TestBot, running

DAYS = int(os.environ.get("MEETINGS", "4"))
STEPS = 30
KEY = ConversationKey("pipe/main", "pipe-main")
_MARK = re.compile(r"mark\d+z")


class Day:
    """A chat, and its invariants. `rules` are those in force, by their numbers; `gone` are words
    that were forgotten or sent off the record."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.chance, self.folder = random.Random(seed), folder
        self.count, self.seen, self.paid = 0, 0, 0
        self.rules: dict[int, str] = {}
        self.gone: list[str] = []

    def answer(self, request: Received) -> Answer:
        answer = self.choose(request)
        self.paid += isinstance(answer, Say)
        return answer

    def choose(self, request: Received) -> Answer:
        said = str(request.body["messages"][-1]["content"])
        if request.is_summary:
            told = ", ".join(dict.fromkeys(_MARK.findall(str(request.body["messages"]))))
            answers: list[Answer] = [Say(f"They spoke of {told}."), Say(""), Fail(500, "")]
            return self.chance.choice(answers)
        if "write" in said and request.body.get("tools"):
            call = Call("write_file", json.dumps({"path": "a.txt", "content": str(self.count)}))
            return Say(calls=(call,))
        return Say("I heard that. " * self.chance.choice([1, 30]))

    async def live(self) -> None:
        context = {"max_tokens": 9_000, "strategy": self.chance.choice([*STRATEGIES])}
        self.settings = {"agent_max_context_turns": 5, "context": context}
        acts = [self.say, self.say, self.say, self.change, self.change, self.branch]
        acts += [self.rule, self.set_so, self.forget, self.whisper, self.restart]
        async with OpenAIServer(self.answer) as self.server, AsyncExitStack() as self.process:
            await self.start()
            for _ in range(STEPS):
                await self.chance.choice(acts)()
                self.look()
            await self.check_ledger()
            self.check_disk()

    async def start(self) -> None:
        self.bot = TestBot()
        self.bot.server, self.bot.count = self.server, 1_000 * len(self.server.requests)
        environ = {"OPENAI_BASE_URL": self.server.base_url, "OPENAI_API_KEY": "test-key"}
        await self.process.enter_async_context(
            running(self.folder, self.bot, self.settings, environ)
        )

    # --- what happens ------------------------------------------------------------------------

    def mark(self) -> str:
        self.count += 1
        return f"mark{self.count}z"

    async def say(self) -> None:
        mark, more = self.mark(), self.chance.choice(["", "and write", "word " * 300])
        await self.bot.says(f"Tell of {mark} {more}")
        asked = [one.body["messages"] for one in self.server.turns[self.seen :]]
        assert asked
        for messages in asked:
            assert any(mark in str(m["content"]) for m in messages if m["role"] == "user")

    async def change(self) -> None:
        """Let a person change the context, usually undo that, and redo it."""
        turn = await self.turn()
        acts = ["compact", f"compact t{turn}", "clear", "free", "summary edit They spoke of tea."]
        acts += [f"{verb} t{turn}" for verb in ("pin", "unpin", "drop", "expand")]
        before, known = await self.view(), len(await (await self.here()).context.history())
        await self.bot.says(f"/context {self.chance.choice(acts)}")
        after, events = await self.view(), await (await self.here()).context.history()
        if len(events) == known + 1 and self.chance.random() < 0.7:
            await self.bot.says("/context undo")
            assert await self.view() == before
            await self.bot.says("/context redo")
            assert await self.view() == after

    async def branch(self) -> None:
        turn = await self.turn()
        acts = ["/fork", f"/fork t{turn}", "/branches 1", "/branches 2", "/undo", "/retry"]
        acts += [f"/edit t{turn} Anew", f"/regenerate t{turn}", f"/without t{turn}"]
        done = await self.bot.says(self.chance.choice(acts))
        if asked := (done.data or {}).get("asked"):
            await self.bot.reply_to(asked)

    async def rule(self) -> None:
        if self.rules and self.chance.random() < 0.4:
            number, _ = self.rules.popitem()
            await self.bot.says(f"/rules revoke {number}")
            return
        text = f"Never say {self.mark()}"
        kept = await self.bot.says(f"/rules add {text}")
        self.rules |= {
            one["id"]: text for one in (kept.data or {}).get("rules", ()) if one["text"] == text
        }

    async def set_so(self) -> None:
        strategy = self.chance.choice([*STRATEGIES])
        acts = [f"context.strategy {strategy} --here", "context.max_tokens 6000"]
        acts += ["context.summary_audit off", "agent_max_context_turns 3", "model gpt-4o"]
        await self.bot.says(f"/config {self.chance.choice(acts)}")

    async def forget(self) -> None:
        turn, here = await self.turn(), await self.here()
        marks = {m for one in await here.context.turns([turn]) for m in _MARK.findall(str(one))}
        await self.bot.says(f"/forget t{turn} yes")
        query = "SELECT text FROM message"
        rows = await self.bot.app.store.read(lambda db: db.execute_sql(query).fetchall())
        left = " ".join(text for (text,) in rows)
        self.gone += [mark for mark in marks if mark not in left]

    async def whisper(self) -> None:
        await self.bot.says("/private on")
        self.gone.append(mark := self.mark())
        await self.bot.says(f"My secret is {mark}")
        self.seen = len(self.server.turns)
        await self.bot.says("/private off")

    async def restart(self) -> None:
        before = await self.view()
        await self.process.aclose()
        await self.start()
        assert await self.view() == before or (await self.here()).context.waits_for_strategy

    # --- what must hold ----------------------------------------------------------------------

    async def here(self) -> Conversation:
        conversations = self.bot.app.conversations
        await conversations.flush()
        found = await conversations.get(conversations.branches.current(KEY))
        await found.turns.fitter.flush()
        return found

    async def turn(self) -> int:
        return self.chance.randint(1, max(1, (await self.here()).context.newest))

    async def view(self) -> list[dict[str, Any]]:
        return (await self.here()).context.view().to_wire(PromptPrefix(""))

    def look(self) -> None:
        """Check the requests that turns have made since."""
        for request in self.server.turns[self.seen :]:
            said = json.dumps(request.body["messages"])
            system = str(request.body["messages"][0]["content"])
            assert all(f"\n- {text}" in system for text in self.rules.values())
            assert [mark for mark in self.gone if mark in said] == []
        self.seen = len(self.server.turns)

    def check_disk(self) -> None:
        held = [one.read_bytes() for one in self.folder.rglob("*") if one.is_file()]
        assert [mark for mark in self.gone if any(mark.encode() in one for one in held)] == []

    async def check_ledger(self) -> None:
        await self.bot.app.conversations.flush()
        query = "SELECT COUNT(*) FROM usage"
        booked = await self.bot.app.store.read(lambda db: db.execute_sql(query).fetchone()[0])
        assert booked == self.paid + len(self.server.titles)


@pytest.mark.parametrize("seed", range(DAYS))
async def test_whatever_meets_whatever(
    tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    await Day(seed, tmp_path).live()
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []
