"""A button stays below its message, and several people may press it: it takes back the change that
it stands below, once, and asks the question again that it stands below, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.openai_server import Answer, Fail, Received, Say
from tests.whole.testbot import TestBot, run_bot

LONG = "The meeting about the garden, the bridge and the boat is on 4 May 2026 in Lisbon. " * 20


def answer(request: Received) -> Answer:
    if request.is_summary:
        return Say("They speak of a meeting about the garden on 4 May 2026 in Lisbon.")
    return Say("Noted.")


async def look(bot: TestBot) -> tuple[int, int, str]:
    """Return how many changes of the context hold, how many lines are remembered, and the rules."""
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
