"""`/forget`: its words are deleted from every file of the data folder, and nothing else is."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from channels.message import Address, Inbound, Reply
from memory.record import daily
from tests.fakes.openai_server import Answer, Call, Hang, Received, Say
from tests.waiting import until
from tests.whole.scenario import say_all
from tests.whole.testbot import TestBot, run_bot

MARK = "zanzibar"


def found_in(folder: Path, word: str = MARK) -> list[str]:
    """Return the files of the data folder that contain a word, ignoring case."""
    files = (path for path in (folder / "data").rglob("*") if path.is_file())
    return [str(p.relative_to(folder)) for p in files if word.encode() in p.read_bytes().lower()]


def echo(request: Received) -> Answer:
    """Answer with the last message; summaries repeat everything that they are shown."""
    messages = request.body["messages"]
    last = str(messages[-1]["content"])
    if request.is_summary:
        return Say(f"Summary: {' '.join(last.split()[:60])}")
    return Say(f"You said: {last.split('</summary-of-earlier-turns>')[-1].strip()}")


async def says_many(bot: TestBot, *texts: str) -> None:
    for text in texts:
        await bot.says(text)
    await bot.app.conversations.flush()


async def confirmed(bot: TestBot, request: str) -> Reply:
    """Send the command, and confirm its question."""
    question = await bot.says(request)
    assert "To do it, send" in question.text
    return await bot.says(question.actions[0].command)


async def test_a_forgotten_chat_is_in_no_file_while_the_bot_runs_and_after(tmp_path: Path) -> None:
    settings = {"agent_max_context_turns": 2, "log_level": "debug"}
    async with run_bot(tmp_path, echo, settings) as bot:
        await says_many(bot, f"I live in {MARK}.", f"{MARK} is warm.", "What is it like?", "Hm.")
        assert MARK in (await bot.says(f"/memory search {MARK}")).text
        await say_all(bot, "/memory", "/context export")
        where = found_in(tmp_path)
        assert any("memory/20" in name for name in where), "the summary is in the daily file"
        assert any(name.endswith("context.json") for name in where)
        question = await bot.says("/forget chat")
        assert question.text.startswith("This would delete 4 turns (8 messages)")
        assert [action.command for action in question.actions] == ["/forget chat yes"]
        assert found_in(tmp_path), "nothing is done before a yes"
        gone = await bot.says("/forget chat yes")
        assert gone.text.startswith("Deleted: 4 turns (8 messages)")
        assert found_in(tmp_path) == []
        await bot.app.delivery.queues.idle()
        assert found_in(tmp_path) == []
    assert found_in(tmp_path) == []
    async with run_bot(tmp_path, echo) as bot:
        bot.count = 100  # the ids of messages
        assert (await bot.says("Hello.")).text == "You said: Hello."
        assert bot.sent[-1].turn == "t5", "turn ids go on where they were"
        assert len(bot.sent_to_model()) == 2, "the model sees nothing of what is forgotten"


async def test_a_summary_that_held_a_forgotten_turn_is_told_anew_without_it(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, {"agent_max_context_turns": 2}) as bot:
        await says_many(bot, "I am Ann.", f"I live in {MARK}.", "I like tea.", "So?", "Well?")
        assert found_in(tmp_path)
        question = await bot.says("/forget t2")
        assert "of the daily memory (the parts about other turns are rewritten)" in question.text
        await bot.says("/forget t2 yes")
        assert found_in(tmp_path) == []
        await bot.app.conversations.flush()
        memory = (await bot.says("/memory")).text
        assert "Ann" in memory, "what the others said is remembered again"
        assert "tea" in memory
        await bot.says("Who am I?")
        request = str(bot.sent_to_model())
        assert "I am Ann" in request, "in the preface, too"
        assert MARK not in request
        await say_all(bot, "/context undo", "/context undo")
        assert MARK not in (await bot.says("/context detail")).text.lower()
    assert found_in(tmp_path) == []


async def test_a_forgotten_turn_leaves_pins_drops_and_clips_of_others_alone(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await says_many(bot, "One.", f"Two {MARK}.", "Three.", "Four.")
        await say_all(bot, "/context pin t2 t3", "/context drop t1 t2")
        await confirmed(bot, "/forget t2")
        await bot.says("Five.")
        texts = [m["content"] for m in bot.sent_to_model()[1:]]
        assert texts[0] == "Three."
        await say_all(bot, "/context undo", "Six.")
        assert bot.sent_to_model()[1]["content"] == "One."
    assert found_in(tmp_path) == []


async def test_the_running_turn_is_forgotten_and_the_next_answered(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Hang(f"In {MARK} they"), Say("Hello.")]) as bot:
        await bot.writes(f"Tell me of {MARK}.", id="slow")
        await bot.server.reached.acquire()
        await bot.writes("Hi", id="next")
        told = await bot.says("/forget chat yes")
        assert told.text.startswith("I stopped the running answer. Deleted: ")
        assert "Stopped" in (await bot.reply_to("slow")).reply.text
        assert (await bot.reply_to("next")).reply.text == "Hello."
        assert len(bot.sent_to_model()) == 2
        await bot.app.delivery.queues.idle()
        assert found_in(tmp_path) == []
    assert found_in(tmp_path) == []


@pytest.mark.parametrize("what", ["t1", "chat", "branches", "all"])
async def test_a_side_question_that_is_being_asked_is_stopped(tmp_path: Path, what: str) -> None:
    async with run_bot(tmp_path, [Say("Hi."), Hang(f"In {MARK} they")]) as bot:
        await bot.says(f"I live in {MARK}.")
        await bot.writes(f"/btw What is it like in {MARK}?", id="slow")
        await until(lambda: len(bot.server.requests) == 2)
        await confirmed(bot, f"/forget {what}")
        assert "Stopped" in (await bot.reply_to("slow")).reply.text
        await bot.app.delivery.queues.idle()
    assert found_in(tmp_path) == []


async def test_a_summary_that_a_person_waits_for_is_given_up(tmp_path: Path) -> None:
    def script(request: Received) -> Answer:
        return Hang() if request.is_summary else echo(request)

    async with run_bot(tmp_path, script) as bot:
        await says_many(bot, f"I live in {MARK}.", "Hm.", "So?")
        await bot.writes("/context compact", id="slow")
        while not bot.server.summaries:
            await bot.server.reached.acquire()
        await confirmed(bot, "/forget t1")
        assert "Nothing was done" in (await bot.reply_to("slow")).reply.text
        assert (await bot.says("Well?")).text == "You said: Well?"
    assert found_in(tmp_path) == []


async def test_another_chat_keeps_all_that_is_its_own(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says(f"I live in {MARK}.", chat="a/b")
        await bot.says("I live in Lisbon.", chat="a")
        await bot.says("/forget chat yes", chat="a/b")
        assert found_in(tmp_path) == []
        assert found_in(tmp_path, "lisbon")
        assert "Lisbon" in (await bot.says("/memory search lisbon", chat="a")).text


async def test_all_deletes_the_files_of_the_chat_too(tmp_path: Path) -> None:
    call = Call("write_file", f'{{"path": "a.txt", "content": "{MARK}"}}', "a")
    async with run_bot(tmp_path, [Say(calls=(call,)), Say("Done."), Say("Hello.")]) as bot:
        await bot.says("Write it down.")
        await confirmed(bot, "/forget chat")
        assert any("files/a.txt" in name for name in found_in(tmp_path)), "these stay with chat"
        gone = await confirmed(bot, "/forget all")
        assert "(1 file)" in gone.text
        assert found_in(tmp_path) == []
        assert (await bot.says("Hi")).text == "Hello."


async def test_what_cannot_be_forgotten_gets_a_sentence(tmp_path: Path) -> None:
    refused = {
        "/forget": "What should I delete for good?",
        "/forget yes": "needs to know what to delete before the yes",
        "/forget t9": "There is no turn t9; the newest is t1.",
        "/forget t3-t1": "There is no turn t3",
        "/forget everything": "'everything' is not a turn",
        "/forget t1 now": "'now' is not a turn",
    }
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Hi")
        for line, answer in refused.items():
            assert answer in (await bot.says(line)).text
        assert "1 turn" in (await bot.says("/context")).text
        cost = (await bot.says("/usage")).data
        await confirmed(bot, "/forget t1")
        assert (await bot.says("/forget t1")).text == "Nothing is left of t1."
        assert "no turn" in (await bot.says("/forget t1 yes")).text
        await confirmed(bot, "/forget all")
        left = (await bot.says("/usage")).data
        assert cost
        assert left
        for data in (cost, left):
            shown = [chat.pop("title") for day in data["days"] for chat in day["chats"]]
        assert left == cost, "what it cost is still known"
        assert shown == [""], "and no word of it"


async def test_forget_is_done_at_the_next_start_if_a_crash_came_before(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says(f"I live in {MARK}.")
        # As after a kill: it is on disk, and was not processed.
        await bot.app.bot.intake.take(Inbound("f", Address("pipe", "main"), "/forget chat yes"))
    async with run_bot(tmp_path, echo) as bot:
        await bot.reply_to("f")
        assert found_in(tmp_path) == []


async def test_what_a_channel_keeps_of_a_chat_goes_with_it(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Yes.")]) as bot:
        await bot.says("The word is plum")
        state = bot.app.bot.state
        await state.set("pipe", "late main", "an answer with plum in it")
        await state.set("pipe", "late mainland", "another chat's")
        await bot.says("/forget chat yes")
        assert await state.get("pipe", "late main") == ""
        assert await state.get("pipe", "late mainland") == "another chat's"


@pytest.mark.parametrize("what", ["t1", "chat", "all"])
async def test_a_folder_that_cannot_be_written_is_said_and_the_next_try_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def refuse(data: Path, *_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(data / "2026-11-20.md"))

    async with run_bot(tmp_path, echo) as bot:
        await bot.says(f"I live in {MARK}.")
        with monkeypatch.context() as broken:
            broken.setattr(daily, "remove", refuse)
            told = await bot.says(f"/forget {what} yes")
        assert told.problem == "failed"
        assert "2026-11-20.md can't be used (Permission denied)" in told.text
        assert str(tmp_path) not in told.text, "where the bot lives is nobody's business"
        assert found_in(tmp_path)
        await confirmed(bot, f"/forget {what}")
        await bot.app.delivery.queues.idle()
        assert found_in(tmp_path) == []
