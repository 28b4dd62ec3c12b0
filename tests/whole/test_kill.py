"""kill -9 at any moment: over the pipe, over messengers, and while a person edits the context."""

from __future__ import annotations

import asyncio
import json
import random
import re
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from benchmarks import kills
from channels.message import Address, Inbound
from tests.fakes.openai_server import Answer, Call, Hang, OpenAIServer, Received, Say
from tests.whole.edit_duel import CONTEXTS, fight
from tests.whole.process import BotProcess, Json, talking
from tests.whole.requests import with_plugin
from tests.whole.testbot import run_bot

KILLS = 6
"""The number of kills for each of two seeds; `python -m benchmarks.kills` kills hundreds of
times."""

MOMENTS = ("start", "line", "line", "request", "request", "rest")
"""Every third kill comes at rest: a turn that is killed more often is quarantined
(test_restart_loop.py)."""

COMMANDS = ("/context", "/context compact", "/context pin t2", "/config agent_max_steps 9")

NOTEBOOK = '''
from agent.tools.base import ToolContext
from plugins.api import hookimpl, tool

@tool(is_parallel=True)
def note(context: ToolContext, text: str) -> str:
    """Write a line down."""
    with open(context.workspace / "files" / "notes.txt", "a") as notes:
        notes.write(text + "\\n")
    return f"Noted: {text}"

@hookimpl
def parley_tools():
    return [note]
'''


def answer(request: Received) -> Say:
    """A model that has its question noted if it ends in "!", and then repeats it."""
    messages = request.body["messages"]
    if messages[0]["content"].startswith("Summarise"):
        diary = "\n=== Diary ===\nOf these." if "=== Diary ===" in messages[0]["content"] else ""
        named = dict.fromkeys(re.findall(r"\b[ab]\d+\b", messages[1]["content"]))
        return Say(f"They spoke of {', '.join(named)}.{diary}")
    asked = [m["content"] for m in messages if m["role"] == "user"][-1].rpartition("\n\n")[2]
    if asked.endswith("!") and messages[-1]["role"] == "user":
        calls = (_call("first", asked), _call("second", asked))
        return Say(calls=calls)
    return Say(f"re: {asked}")


def _call(word: str, asked: str) -> Call:
    return Call("note", json.dumps({"text": f"{word} {asked}"}), word)


@dataclass
class Script:
    """The script of the messages, and the replies seen so far; it outlives the bot's processes."""

    chance: random.Random
    said: list[Json] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)
    replies: list[Json] = field(default_factory=list)
    noted_by_death: list[tuple[Counter[str], set[str]]] = field(default_factory=list)

    @property
    def asked(self) -> list[Json]:
        """Return the messages for the model."""
        return [message for message in self.said if message["text"] not in COMMANDS]

    def think_of_more(self) -> None:
        for _ in range(self.chance.randint(1, 5)):
            number, chat = len(self.said), self.chance.choice("ab")
            question = f"{chat}{number}" + self.chance.choice(["", "!", " and so on" * 20])
            text = self.chance.choice([*COMMANDS, *[question] * 12])
            self.said.append({"text": text, "chat": chat, "id": f"m{number}"})

    async def speak(self, bot: BotProcess) -> None:
        """Send the messages that were not accepted, in order."""
        for message in self.said:
            if message["id"] not in self.accepted:
                await bot.tell(**message)

    def hear(self, bot: BotProcess) -> None:
        self.accepted |= {line["accepted"] for line in bot.lines if "accepted" in line}
        self.replies += bot.replies

    def is_answered(self, bot: BotProcess) -> bool:
        answered = {reply["reply_to"] for reply in (*self.replies, *bot.replies)}
        return answered >= {message["id"] for message in self.said}


@dataclass(frozen=True)
class Files:
    """The files that a bot has left on disk."""

    data: Path

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.data / "parley.db")) as database:
            return database.execute(query).fetchall()

    def notes(self) -> list[str]:
        files = self.data.glob("audiences/*/files/notes.txt")
        return [line for file in files for line in file.read_text().splitlines()]

    def noted(self) -> set[str]:
        """Return the notes whose result is in the transcript."""
        rows = self.rows("SELECT text FROM message WHERE role = 'tool' AND text LIKE 'Noted: %'")
        return {text.removeprefix("Noted: ") for (text,) in rows}

    def memory(self) -> str:
        """Return the text of the daily memory."""
        return "".join(file.read_text() for file in self.data.glob("audiences/*/memory/*.md"))

    def sections(self) -> Counter[int]:
        """Count the sections of each job in the daily memory."""
        return Counter(int(job) for job in re.findall(r"<!-- job (\d+) -->", self.memory()))


async def live_and_die(
    bot: BotProcess, endpoint: OpenAIServer, script: Script, moments: tuple[str, ...]
) -> None:
    """Send messages until a random moment, and then kill the bot."""
    chance = script.chance
    count = chance.randint(1, 8)
    match chance.choice(moments):
        case "start":
            await bot.lives(chance.random() * 0.7)  # no event shows how far a start has come
        case "line":
            await bot.until(lambda: len(bot.out) >= count or script.is_answered(bot))
        case "request":
            await _either(_requests(endpoint, count), bot.until(lambda: script.is_answered(bot)))
        case _:
            await bot.until(lambda: script.is_answered(bot))
    await bot.lives(chance.random() * 0.02)  # between two events too
    await bot.kill()


async def _requests(endpoint: OpenAIServer, count: int) -> None:
    for _ in range(count):
        await endpoint.reached.acquire()


async def _either(*waits: Any) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    for task in done:
        task.result()


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("seed", "settings"),
    [
        (1, {"agent_max_context_turns": 3, "restore": "exact"}),
        (2, {"agent_max_context_tokens": 1_600}),
    ],
)
async def test_nothing_is_lost_and_nothing_is_doubled_however_often_the_bot_is_killed(
    tmp_path: Path, seed: int, settings: Json
) -> None:
    with_plugin(tmp_path, NOTEBOOK, "notebook")
    script, files = Script(random.Random(seed)), Files(tmp_path / "data")
    async with OpenAIServer(answer) as endpoint:
        for life in range(KILLS):
            script.think_of_more()
            async with talking(tmp_path, endpoint, settings) as bot:
                await script.speak(bot)
                await live_and_die(bot, endpoint, script, MOMENTS if life % 3 else ("rest",))
            script.hear(bot)
            assert bot.errors == ""
            check_after_death(files, script)
        async with talking(tmp_path, endpoint, settings) as bot:
            await script.speak(bot)
            assert await bot.ended() == 0
        script.hear(bot)
        assert bot.errors == ""
    check_mail(files, script)
    check_transcript(files, script)
    check_memory(files)
    check_offloaded(files)
    check_tools(files, script)


async def test_a_summary_that_was_written_down_as_the_bot_died_is_not_written_again(
    tmp_path: Path,
) -> None:
    """The moment between writing a section to the daily memory and marking its job as done is too
    short to hit by chance. The model's text looks like the mark by which a job finds its own
    section."""
    files, settings = Files(tmp_path / "data"), {"agent_max_context_turns": 3}

    def script(request: Received) -> Say:
        task = request.body["messages"][0]["content"]
        marks = "".join(f"<!-- job {n} -->" for n in range(9))
        if not task.startswith("Summarise"):
            return Say("I see.")
        return Say(f"{marks}\n=== Diary ===\n{marks}" if "=== Diary ===" in task else marks)

    async with run_bot(tmp_path, script, settings) as bot:
        for number in range(9):
            await bot.says(f"message {number}" + " and so on" * 100)  # longer than its summary
    jobs = [job for (job,) in files.rows("SELECT id FROM job")]
    written = files.memory()
    assert re.findall(r"^## .*<!-- job (\d+) -->$", written, re.MULTILINE) == list(map(str, jobs))
    with closing(sqlite3.connect(files.data / "parley.db")) as database, database:
        database.execute("UPDATE job SET is_done = 0")
    async with run_bot(tmp_path, script, settings | {"restore": "exact"}):
        pass
    assert files.memory() == written
    assert files.rows("SELECT * FROM job WHERE NOT is_done") == []


async def test_a_turn_that_was_cut_short_keeps_its_tool_results_when_it_goes_on(
    tmp_path: Path,
) -> None:
    """A restart restores earlier turns as text alone, but not the one that was running."""
    call = Call("calculate", '{"expression": "6*7"}', "a")
    script: list[Answer] = [
        *(Say(f"answer {number}") for number in range(3)),
        Say(calls=(call,)),
        Hang(),
    ]
    async with run_bot(tmp_path, script) as bot:
        for number in range(3):
            await bot.says(f"question {number}")
        await bot.writes("6*7?", id="q")
        for _ in script:
            await bot.server.reached.acquire()
        await bot.app.turns.queues.close()  # as after a kill: nothing is recorded any longer
    async with run_bot(tmp_path, [Say("It is 42."), Say("Yes.")]) as bot:
        await bot.reply_to("q")
        await bot.says("Sure?")
        roles = [message["role"] for message in bot.sent_to_model()]
    before = ["user", "assistant"] * 3
    assert roles == ["system", *before, "user", "assistant", "tool", "assistant", "user"]


@pytest.mark.parametrize("command", ["/context clear", "/context compact", "/context drop t1"])
async def test_a_command_takes_nothing_from_a_turn_that_was_cut_short(
    tmp_path: Path, command: str
) -> None:
    """It was accepted when the bot died, and is executed before the turn continues."""
    call = Call("calculate", '{"expression": "6*7"}', "a")
    async with run_bot(tmp_path, [Say(calls=(call,)), Hang()]) as bot:
        await bot.writes("6*7?", id="q")
        for _ in range(2):
            await bot.server.reached.acquire()
        await bot.app.turns.queues.close()  # as after a kill: nothing is recorded any longer
        await bot.app.bot.intake.take(Inbound("c", Address("pipe", "main"), command))
    async with run_bot(tmp_path, [Say("It is 42.")]) as bot:
        assert (await bot.reply_to("q")).reply.text == "It is 42."
        roles = [message["role"] for message in bot.sent_to_model()]
    assert roles == ["system", "user", "assistant", "tool"]


def check_after_death(files: Files, script: Script) -> None:
    if not (files.data / "parley.db").exists():
        return  # killed before it had begun
    if files.rows("SELECT 1 FROM sqlite_master WHERE name = 'outbox'"):
        assert files.rows("PRAGMA integrity_check") == [("ok",)]
        stored = {json.loads(row) for (row,) in files.rows("SELECT platform_id FROM inbox")}
        assert script.accepted <= stored
        script.noted_by_death.append((Counter(files.notes()), files.noted()))


def check_mail(files: Files, script: Script) -> None:
    """Check that each message has a reply, at most one of them without the mark `resent`, and that
    answers come in the order of their questions."""
    assert script.accepted == {message["id"] for message in script.said}
    assert files.rows("SELECT * FROM inbox WHERE is_done = 0") == []
    assert files.rows("SELECT * FROM outbox WHERE is_sent = 0") == []
    first = {reply["reply_to"]: reply["text"] for reply in reversed(script.replies)}
    assert first.keys() == script.accepted
    for message in script.asked:
        answer, _space, _notice = first[message["id"]].partition("\n\n")  # of a small window
        assert answer == f"re: {message['text']}"
    fresh = Counter(reply["reply_to"] for reply in script.replies if "resent" not in reply)
    assert max(fresh.values()) == 1
    for chat in "ab":
        asked = [message["id"] for message in script.asked if message["chat"] == chat]
        heard = dict.fromkeys(r["reply_to"] for r in script.replies if r["reply_to"] in asked)
        assert list(heard) == asked


def check_transcript(files: Files, script: Script) -> None:
    """Check that each question opened exactly one turn, in order, which ends with its answer."""
    for chat in "ab":
        rows = files.rows(
            "SELECT turn, role, text FROM message JOIN conversation c ON c.id = conversation "
            f"WHERE c.key = 'pipe/{chat}' ORDER BY seq"
        )
        asked = [message["text"] for message in script.asked if message["chat"] == chat]
        assert [text for _, role, text in rows if role == "user"] == asked
        for number, text in enumerate(asked, 1):
            turn = [(role, spoken) for turn, role, spoken in rows if turn == number]
            assert turn[0] == ("user", text)
            assert turn[-1] == ("assistant", f"re: {text}")
            steps = ["user", "assistant", "tool", "tool", "assistant"]
            assert [role for role, _ in turn] == (steps if "!" in text else steps[::4])
    assert files.rows("SELECT inbox FROM message GROUP BY inbox HAVING COUNT(inbox) > 1") == []


def check_memory(files: Files) -> None:
    """Check that the turns removed from the context are in the daily memory, once."""
    jobs = files.rows("SELECT id, conversation, event, turns, is_done FROM job")
    assert all(is_done for *_, is_done in jobs)
    assert files.sections() == Counter(job for job, *_ in jobs)
    of_jobs = Counter((c, turn) for _, c, _, turns, _ in jobs for turn in json.loads(turns))
    events = files.rows("SELECT conversation, leaving FROM view_event")
    assert of_jobs == Counter(
        (c, turn)
        for c, spans in events
        for first, last in json.loads(spans)
        for turn in range(first, last + 1)
    )
    assert max(of_jobs.values()) == 1
    assert len({event for _, _, event, *_ in jobs}) == len(jobs) > 0


def check_offloaded(files: Files) -> None:
    """Check that the turns removed from the context are in their conversation's file, each message
    once."""
    for chat in "ab":
        places = files.rows(
            "SELECT seq, turn, c.id FROM message JOIN conversation c ON c.id = conversation "
            f"WHERE c.key = 'pipe/{chat}' ORDER BY seq"
        )
        jobs = files.rows("SELECT conversation, turns FROM job")
        left = {(c, turn) for c, turns in jobs for turn in json.loads(turns)}
        file = files.data / f"audiences/pipe-{chat}/sessions/pipe%2F{chat}/context.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        kept = [json.loads(line)["seq"] for line in lines]
        assert sorted(kept) == [seq for seq, turn, c in places if (c, turn) in left]


def check_tools(files: Files, script: Script) -> None:
    """Check that no tool ran twice by itself: neither one with a recorded result, nor one during
    which the bot died."""
    at_the_end = Counter(files.notes())
    assert files.noted() <= set(at_the_end)
    assert set(at_the_end.values()) == {1}
    for notes, noted in script.noted_by_death:
        assert {note: at_the_end[note] for note in noted} == {note: notes[note] for note in noted}


KILLS_EACH = 3


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("channel", "seed"), [("telegram", 1), ("discord", 3), ("slack", 4)])
async def test_a_platform_that_redelivers_loses_nothing_and_gets_nothing_twice(
    tmp_path: Path, channel: str, seed: int
) -> None:
    figures = await kills.run(tmp_path, channel, KILLS_EACH, seed)
    assert figures.kills == KILLS_EACH
    assert figures.messages > KILLS_EACH
    assert figures.faults == 0, str(figures)


def test_what_is_counted_is_seen() -> None:
    figures = kills.Figures(lost=1)
    figures += kills.Figures(doubled=2, marked=3)
    assert figures.faults == 3


STEPS = 12


@pytest.mark.usefixtures("processes")
async def test_a_killed_bot_has_the_context_that_an_undisturbed_one_has(tmp_path: Path) -> None:
    assert await fight(tmp_path, 1, CONTEXTS["stubs"], STEPS) > STEPS // 6
