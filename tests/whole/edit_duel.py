"""A bot that is killed while a person edits the context, compared with one that is not killed.

A script edits, branches and asks, one line after the other. The first bot is sometimes killed just
before or after one of its writes to the database. The second bot, which is never killed, gets the
lines that the first one has confirmed. If a line was in progress when the bot died, the database
shows whether it took effect. Both bots must be equal in every row, and in their requests to the
model.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from bot.commands import INTERRUPTED
from channels.message import Reply
from plugins.side_questions.feature import btw
from tests.fakes.openai_server import Call, OpenAIServer, Received, Say
from tests.whole.process import BotProcess, Json, talking
from tests.whole.requests import with_plugin
from tests.whole.test_stubs import PAGES
from tests.whole.testbot import TestBot, run_bot

WARM_UP = 6
"""The questions at the beginning, during which no bot is killed."""
TO_THE_END = 200
"""The maximum number of changes that are undone."""

KILLER = '''
"""Ends the process at one of its writes: a file says at which, and whether before or after it."""
import os
import signal
from pathlib import Path

from memory.record.store import Store

ORDER = Path(FOLDER) / "data" / "dies"
_write, _counts = Store.write, {}

def die():
    ORDER.unlink()
    os.kill(os.getpid(), signal.SIGKILL)

async def write(store, work, *, is_synced=True, is_long=False):
    try:
        name, number, when = ORDER.read_text().split()
    except (OSError, ValueError):
        return await _write(store, work, is_synced=is_synced, is_long=is_long)
    _counts[name] = count = _counts.get(name, 0) + 1
    if (count, when) == (int(number), "before"):
        die()
    done = await _write(store, work, is_synced=is_synced, is_long=is_long)
    if count == int(number):
        die()
    return done

Store.write = write
'''
ROWS = {
    "conversations": "SELECT key, title FROM conversation ORDER BY key",
    "messages": """SELECT key, seq, turn, role, text FROM message JOIN conversation c
        ON c.id = conversation ORDER BY key, seq""",
    "events": """SELECT key, kind, actor, strategy, reason, change, turn, leaving FROM view_event e
        JOIN conversation c ON c.id = conversation ORDER BY e.id""",
    "summaries": """SELECT key, s.id, turns, prior, text FROM summary s JOIN conversation c
        ON c.id = conversation ORDER BY s.id""",
    "jobs": """SELECT key, event, turns, summary, is_done FROM job JOIN conversation c
        ON c.id = conversation ORDER BY event""",
    "branches": """SELECT c.key, p.key, b.seq, b.turn, b.event FROM branch b
        JOIN conversation c ON c.id = b.conversation JOIN conversation p ON p.id = b.parent
        ORDER BY c.key""",
    "leading": """SELECT chat, key FROM current_branch JOIN conversation c
        ON c.id = conversation ORDER BY chat""",
    "remembered": "SELECT number, state, lines FROM memory_version ORDER BY number",
    "asides": """SELECT key, turn, question, answer, state FROM side_question q
        JOIN conversation c ON c.id = conversation WHERE state != '' ORDER BY q.id""",
}


CONTEXTS: dict[str, Json] = {
    name: {"strategy": name, "stub_tools": True, "stub_keep": 1, "stub_batch": 300}
    for name in ("stubs", "trim", "slim", "truncate")
}
"""Settings under which old tool results become one line each, by strategy."""


def answer(request: Received) -> Say:
    """A model that uses the tools named in the question, and otherwise repeats the question."""
    messages = request.body["messages"]
    if messages[0]["content"].startswith("Summarise"):
        diary = "\n=== Diary ===\nOf these." if "=== Diary ===" in messages[0]["content"] else ""
        return Say(f"They spoke of {len(messages[1]['content'])} things.{diary}")
    last = str(messages[-1]["content"])
    if messages[-1]["role"] == "tool":
        return Say("Done.")
    if found := re.search(r"count to (\d+)", last):
        return Say(calls=(Call("count", json.dumps({"to": int(found[1])}), "c"),))
    if found := re.search(r"look at (\w+)", last):
        return Say(calls=(Call("look", json.dumps({"page": found[1]}), "c"),))
    return Say(f"re: {last.rpartition(chr(10))[2]}")


def server() -> OpenAIServer:
    """Report no tokens: the meters of the two bots must not learn different values if one of them
    has asked twice."""
    endpoint = OpenAIServer(answer)
    endpoint.counts = lambda prompt: 0
    return endpoint


def asked(endpoint: OpenAIServer) -> list[Json]:
    """Return the content of the last request of a turn."""
    turns = [r.body["messages"] for r in endpoint.turns]
    return list(turns[-1]) if turns else []


def rows(folder: Path) -> dict[str, list[Any]]:
    """Return everything that a bot has on disk, except for times."""
    with closing(sqlite3.connect(folder / "data" / "parley.db")) as database:
        return {
            name: [_timeless(row) for row in database.execute(query)]
            for name, query in ROWS.items()
        }


def _timeless(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(re.sub(r"\d\d:\d\d", "", one) if isinstance(one, str) else one for one in row)


def share_unused(folder: Path, other: Path, answer: str) -> None:
    """Give another bot the summaries that were written when this one died and are not used: their
    names are not assigned again. If the answer says that a summary would not help, the other bot
    writes the last one itself."""
    new = """FROM first.summary WHERE edits = 0 AND id NOT IN (SELECT summary FROM first.job)
        AND id > (SELECT COALESCE(MAX(id), 0) FROM main.summary)"""
    with closing(sqlite3.connect(other / "data" / "parley.db")) as database, database:
        database.execute("ATTACH ? AS first", (str(folder / "data" / "parley.db"),))
        found = database.execute(f"SELECT id, conversation {new} ORDER BY id").fetchall()
        for row, conversation in found[:-1] if "would not make the context" in answer else found:
            database.execute(
                "INSERT INTO main.summary SELECT * FROM first.summary WHERE id = ?", (row,)
            )
            database.execute(
                "UPDATE conversation SET last_summary = last_summary + 1 WHERE id = ?",
                (conversation,),
            )


class Script:
    """The random script of the messages."""

    def __init__(self, chance: random.Random) -> None:
        self._chance, self._said = chance, 0

    def ask(self) -> str:
        self._said += 1
        return self._chance.choice(
            [
                *[f"question {self._said}" + " and so on" * self._chance.randint(0, 60)] * 3,
                f"{self._said}: count to {self._chance.randint(250, 350)}",
                f"{self._said}: look at page{self._said}",
            ]
        )

    def edit(self) -> str:
        self._said += 1
        number, pick = self._said, self._chance.randint
        first = pick(1, WARM_UP)
        turns = f"t{first}-t{min(first + pick(0, 4), WARM_UP)}"
        lines = [
            *[f"/context compact {turns}", f"/context compact {turns} the numbers"],
            *[f"/context free {turns}", f"/context expand s{pick(1, 6)}", "/context compact"],
            *[f"/context drop t{first}", f"/context pin {turns}", f"/context unpin t{first}"],
            *["/context summary edit", f"/context summary edit Edited {number}."],
            *[f"/context summary edit s{pick(1, 6)} Edited in place {number}."],
            *[f"/context keep word{number}", f"/context keep s{pick(1, 6)} word{number}"],
            *["/context undo", "/context undo", "/context redo", "/context clear", "/new"],
            *["/fork", f"/fork t{first} Aside {number}", *[f"/branches {pick(1, 4)}"] * 3],
            *[f"/btw Why {number}?", f"/remember Fact {number}.", "/memory undo"],
        ]
        return self._chance.choice(lines)


class Mortal:
    """The bot that is killed. It is restarted when a message is sent to it."""

    def __init__(self, folder: Path, endpoint: OpenAIServer, chance: random.Random) -> None:
        self.kills = 0
        self.endpoint, self.chance = endpoint, chance
        self._folder = folder
        self._life, self._bot = AsyncExitStack(), cast(BotProcess | None, None)
        self._said = 0
        self._accepted = set[str]()

    def arm(self) -> None:
        """Kill the bot at one of its next writes."""
        when = self.chance.choice(("before", "after"))
        number = self.chance.randint(1, 9)
        (self._folder / "data" / "dies").write_text(f"{self._said} {number} {when}")

    def disarm(self) -> None:
        (self._folder / "data" / "dies").unlink(missing_ok=True)

    async def says(self, text: str) -> str:
        """Send a text and return the answer, however often the bot dies."""
        self._said += 1
        message = f"m{self._said}"
        while not (replies := await self._live(message, text)):
            await self.end()
            self.kills += 1
        return replies[0]

    async def _live(self, message: str, text: str) -> list[str]:
        """Return the replies of this process; none if it ends before them."""
        bot = self._bot = self._bot or await self._start()
        if message not in self._accepted:
            await bot.tell(text, id=message)
        await bot.until(lambda: bot.is_over or _replies(bot, message))
        self._accepted |= {line["accepted"] for line in bot.lines if "accepted" in line}
        return _replies(bot, message)

    async def _start(self) -> BotProcess:
        return await self._life.enter_async_context(talking(self._folder, self.endpoint))

    async def end(self) -> None:
        bot, self._bot = self._bot, None
        await self._life.aclose()
        assert bot is None or bot.errors == "", bot.errors

    async def settle(self) -> None:
        """Wait until no summary is being written."""
        while self._has_jobs():
            await self.says("/version")

    def _has_jobs(self) -> bool:
        with closing(sqlite3.connect(self._folder / "data" / "parley.db")) as database:
            return bool(database.execute("SELECT 1 FROM job WHERE NOT is_done").fetchall())


def _replies(bot: BotProcess, message: str) -> list[str]:
    return [line["text"] for line in bot.replies if line["reply_to"] == message]


@dataclass
class Duel:
    """A bot that is killed, and one that gets the lines confirmed by the first one."""

    mortal: Mortal
    undisturbed: TestBot
    folders: tuple[Path, Path]

    async def says(self, text: str, again: str = "") -> Reply:
        """Send a line. If the bot dies and the line had no effect, send it again, or the line that
        replaces it by then."""
        kills = self.mortal.kills
        answer = await self.mortal.says(text)
        while _is_cut_short(answer):
            self.mortal.disarm()
            await self.mortal.settle()
            if self._took_effect():
                break
            answer = await self.mortal.says(again or text)
        await self.mortal.settle()
        if self.mortal.kills > kills:
            share_unused(*self.folders, answer)
        told = await self.undisturbed.says(text)
        await self.are_the_same(text)
        if not text.startswith("/") and not again:
            assert asked(self.mortal.endpoint) == asked(self.undisturbed.server)
        return told

    def _took_effect(self) -> bool:
        """Return whether a line had an effect; an unused summary alone is none."""
        killed, whole = (rows(folder) | {"summaries": []} for folder in self.folders)
        return killed != whole

    async def are_the_same(self, text: str) -> None:
        await self.mortal.settle()
        await self.undisturbed.app.conversations.flush()
        killed, whole = map(rows, self.folders)
        for name, expected in whole.items():
            assert killed[name] == expected, f"{name} after {text!r}"


def _is_cut_short(answer: str) -> bool:
    name = re.escape(INTERRUPTED).replace(r"\{name\}", r"\w+")
    return answer == btw.interrupted or re.fullmatch(name, answer) is not None


async def fight(folder: Path, seed: int, context: Json, steps: int) -> int:
    """Send this many lines, then undo everything; return how often the bot was killed."""
    chance, folders = random.Random(seed), (folder / "killed", folder / "undisturbed")
    for one in folders:
        with_plugin(one, PAGES)
    with_plugin(folders[0], KILLER.replace("FOLDER", repr(str(folders[0]))), "killer")
    config = {"model": "gpt-4o-mini", "agent_max_context_turns": 100, "context": context}
    (folders[0] / "config.json").write_text(json.dumps(config))
    async with server() as endpoint, run_bot(folders[1], answer, config) as bot:
        bot.server.counts = endpoint.counts
        mortal = Mortal(folders[0], endpoint, chance)
        duel, script = Duel(mortal, bot, folders), Script(chance)
        try:
            for _ in range(WARM_UP):
                await duel.says(script.ask())
            for _ in range(steps):
                await step(duel, script)
            for branch in ("1", "2"):
                await duel.says(f"/branches {branch}")
                await take_all_back(duel, "/context undo")
                shown = await duel.says("/context turns")
                assert shown.data is not None
                assert all(turn["state"] == ["in context"] for turn in shown.data["turns"])
            await take_all_back(duel, "/memory undo")
            assert "The long-term memory is empty" in (await duel.says("/memory list")).text
        finally:
            await mortal.end()
    return mortal.kills


async def step(duel: Duel, script: Script) -> None:
    """Send a question or a command during which the bot may be killed, but not while a tool runs,
    which the bot would not run again."""
    text = duel.mortal.chance.choice((script.ask, script.edit, script.edit))()
    if "count" in text or "look" in text:
        duel.mortal.disarm()
    elif duel.mortal.chance.random() < 0.6:
        duel.mortal.arm()
    told = await duel.says(text)
    if told.form:
        own = f"As I say after {text}."
        await duel.says(own, again=f"{told.form.command} {own}")


async def take_all_back(duel: Duel, undo: str) -> None:
    for _ in range(TO_THE_END):
        if duel.mortal.chance.random() < 0.1:
            duel.mortal.arm()
        if (await duel.says(undo)).text.startswith("There is nothing to"):
            return
    raise AssertionError("it does not end")
