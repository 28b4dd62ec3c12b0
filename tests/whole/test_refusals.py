"""A refused command changes nothing, whatever its arguments."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.settings.schema import SETTINGS
from plugins.loader import load
from tests.fakes.openai_server import Answer, Fail, Received, Say
from tests.waiting import PATIENCE
from tests.whole.testbot import TestBot, run_bot

COMMANDS = load(Path(os.devnull)).commands
LINES = 600
_ENDS = {"private", "link", "new"}  # which switch the chat, or make the other commands impossible
_MOVES = {
    *("inbox", "outbox", "call_start", "clock", "usage", "calibration", "channel_state", "sitting"),
    *("sqlite_sequence", "request", "request_prefix", "learnt_model", "spending_note"),
}
"""Tables in which each message adds a row, refused or not."""


def kept(folder: Path) -> dict[str, Any]:
    """Return everything on disk, except for transient rows."""
    path = next(folder.rglob("*.db"))
    with sqlite3.connect(path) as database:
        names = [
            n for (n,) in database.execute("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        found: dict[str, Any] = {
            name: database.execute(f"SELECT * FROM {name}").fetchall()
            for name in names
            if name not in _MOVES and not name.startswith("passage")
        }
    files = (one for one in folder.rglob("*") if one.is_file() and one.parent != path.parent)
    return found | {str(one): one.read_bytes() for one in files if "logs" not in one.parts}


def lines(seed: int) -> Iterator[str]:
    """Command lines, most of which name an existing object and an unusual action on it."""
    chosen = random.Random(seed)
    names = [
        f"{command.name} {sub}".strip()
        for command in COMMANDS.values()
        if command.name not in _ENDS
        for sub in ("", *(one.name for one in command.subs))
    ]
    words = [
        *("t1", "t2", "t3", "t99", "t3-t1", "t2-t3", "s1", "s9", "1", "2", "9", "m1", "summary"),
        *("all", "now", "undo", "yes", "no", "here", "--here", "--unset", "tomorrow 9:00 stretch"),
        *("words of a text", "gpt-4o", "embedded", "pipe/ann", "ABCD", "chat", "every day", "0"),
        *("model", "language", "de", "true", "rules.max_tokens", "spend_limit_chat", "-1", "x"),
    ]
    for _ in range(LINES):
        name = chosen.choice(names)
        given = [chosen.choice(words) for _ in range(chosen.choice((0, 1, 1, 2, 2, 3)))]
        if name.startswith("config") and given and chosen.random() < 0.5:
            given[0] = chosen.choice([*SETTINGS])
        yield f"/{name} {' '.join(given)}".strip()


async def _prepare(bot: TestBot) -> None:
    for number in range(3):
        await bot.says(f"The {number}th question, about Lisbon")
    await bot.says("/rules add Never write to my boss")
    await bot.says("/remind tomorrow 9:00 stretch")
    await bot.says("/remember I live in Lisbon")
    await bot.says("/fork aside")
    await bot.says("/branches 1")
    await bot.says("/context pin t1")


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("is_spent", [False, True])
async def test_a_command_that_is_refused_has_changed_nothing(
    tmp_path: Path, is_spent: bool
) -> None:
    said = Say("I see.")
    refused: set[str] = set()
    async with run_bot(tmp_path, lambda got: said, {"when_busy": "queue"}) as bot:
        bot.patience = PATIENCE
        await _prepare(bot)
        if is_spent:
            await bot.says("/config spend_limit_chat 0.0000001")
        for line in lines(2 + is_spent):
            await bot.app.idle()
            before = kept(tmp_path)
            reply = await bot.says(line)
            if reply.problem == "command_refused":
                refused.add(line.split()[0])
                now = kept(tmp_path)
                changed = [name for name in before | now if before.get(name) != now.get(name)]
                assert not changed, f"{line}: {changed}; it said {reply.text}"
            if reply.form:
                await bot.says("/cancel")
    assert len(refused) > 20


@pytest.mark.parametrize("line", ["/retry", "/regenerate", "/regenerate t1", "/edit t1 Why?"])
async def test_at_a_limit_nothing_changes_for_a_question_that_is_not_asked(
    tmp_path: Path, line: str
) -> None:
    async with run_bot(tmp_path, [Say("It is 42.")]) as bot:
        await bot.says("What is it?")
        await bot.says("/config spend_limit_chat 0.0000001")
        before = kept(tmp_path)
        reply = await bot.says(line)
        assert reply.problem == "command_refused"
        assert "/usage lift" in reply.text
        assert kept(tmp_path) == before


@pytest.mark.usefixtures("processes")
async def test_at_a_limit_a_model_that_costs_nothing_may_be_asked_again(tmp_path: Path) -> None:
    async with run_bot(tmp_path, lambda got: Say("It is 42.")) as bot:
        await bot.says("What is it?")
        await bot.says("/config spend_limit_chat 0.0000001")
        assert not (await bot.says("/regenerate t1 embedded")).problem
        await bot.app.turns.queues.idle()
        await bot.app.idle()
        before = kept(tmp_path)
        assert (await bot.says("/regenerate t1 gpt-4o")).problem == "command_refused"
        assert kept(tmp_path) == before


LONG = "The meeting about the garden, the bridge and the boat is on 4 May 2026 in Lisbon. " * 20


def answer(request: Received) -> Answer:
    if request.is_summary:
        return Say("They speak of a meeting about the garden on 4 May 2026 in Lisbon.")
    return Say("Noted.")


async def look(bot: TestBot) -> tuple[int, int, str]:
    """Return the number of changes of the context in force, the number of remembered lines, and the
    rules."""
    history = (await bot.says("/context history")).data
    memory = (await bot.says("/memory list")).data
    assert history is not None
    assert memory is not None
    held = [e for e in history["events"] if not e["undone"] and e["kind"] not in ("undo", "redo")]
    return len(held), len(memory.get("lines", ())), (await bot.says("/rules")).text


@pytest.mark.parametrize(
    "line",
    [
        *("/context drop t2", "/context clear", "/new", "/undo", "/context compact"),
        *("/context compact t2-t3", "/context free t2-t3", "/remember Ann sings."),
        *("/rules edit 1 Never call.", "/rules revoke 1", "/rules add Never shout."),
    ],
)
async def test_an_undo_takes_back_its_own_change_and_no_other(tmp_path: Path, line: str) -> None:
    async with run_bot(tmp_path, answer) as bot:
        for number in range(1, 7):
            await bot.says(f"{number}: {LONG}")
        for earlier in ("/context drop t1", "/remember Ben cooks.", "/rules add Never lie."):
            await bot.says(earlier)
        before = await look(bot)
        done = await bot.says(line)
        assert await look(bot) != before
        (undo,) = (one.command for one in done.actions if one.label in ("Undo", "Bring back"))
        after = await look(bot)
        undone = await bot.says(undo)
        assert not undone.problem
        assert await look(bot) == before
        again = await bot.says(undo)
        assert again.problem == "command_refused", "who was slower hears a sentence"
        assert await look(bot) == before
        for redo in (one.command for one in undone.actions if " redo " in one.command):
            for problem in ("", "command_refused"):
                assert (await bot.says(redo)).problem == problem
                assert await look(bot) == after


async def test_a_failed_question_is_asked_again_once(tmp_path: Path) -> None:
    answers: list[Answer] = []

    def answer_later(_request: Received) -> Answer:
        return answers.pop() if answers else Fail(400, "Bad.")

    async with run_bot(tmp_path, answer_later) as bot:
        failed = await bot.says("Why?")
        answers += [Say("Here again."), Say("Here.")]
        (retry,) = (one.command for one in failed.actions if one.label == "Retry")
        for message in ("ann", "bob"):
            await bot.writes(retry, id=message)
        assert "asked again" in (await bot.reply_to("ann")).reply.text
        assert (await bot.reply_to("bob")).reply.problem == "command_refused"
        await bot.app.turns.queues.idle()
        await bot.app.delivery.queues.idle()
        assert "Here." in [sent.reply.text for sent in bot.sent]
        assert len(answers) == 1, "it is paid once"
