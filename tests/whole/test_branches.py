"""Branches: `/fork`, `/branches`, and a chat that switches from one conversation to another."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from channels.base import Activity, Delta, Done
from channels.terminal import display
from tests.bot.test_schedule import retain, rows
from tests.docs.pages import ROOT
from tests.fakes.openai_server import Hang, Received, Say, echo
from tests.operations.test_backup import restore, save
from tests.spending.test_spending import limit
from tests.web.site import serving
from tests.whole import test_forget as forgetting
from tests.whole.scenario import again, say_all
from tests.whole.test_busy import busy, gate
from tests.whole.test_forget import MARK, found_in, says_many
from tests.whole.testbot import TestBot, run_bot


def asked(bot: TestBot, index: int = -1) -> list[Any]:
    """Return the content of a request besides the system prompt, without the answers."""
    return [m["content"] for m in bot.sent_to_model(index) if m["role"] == "user"]


async def test_a_branch_and_its_parent_go_on_from_where_they_were(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "context.md").read_text("utf-8")
    async with run_bot(tmp_path, echo) as bot:
        await say_all(bot, "by train?", "second")
        told = await bot.says("/fork t1 By car")
        assert "You are in branch 2, “By car” now. It shares t1 with branch 1" in told.text
        assert told.text in page
        await bot.says("third, here")
        assert asked(bot) == ["by train?", "third, here"]
    async with run_bot(tmp_path, echo) as bot:  # the chat resolves to it after a restart, too
        bot.count = 100  # the ids of messages
        await bot.says("on")
        assert asked(bot) == ["by train?", "third, here", "on"]
        listed = await bot.says("/branches")
        assert "| **2** |" in listed.text
        assert [action.command for action in listed.actions] == ["/branches 1"]
        assert "You are in branch 1" in (await bot.says("/branches 1")).text
        await bot.says("third, there")
        assert asked(bot) == ["by train?", "second", "third, there"]
        question = await bot.says("/forget branches")
        assert question.text.startswith("This would delete 5 turns (10 messages)")
        await bot.says("/forget branches yes")
        assert await rows(bot, "message") == 0
        assert "no branches" in (await bot.says("/branches")).text


async def test_branches_with_one_title_are_told_apart_by_their_answers(tmp_path: Path) -> None:
    answers = iter(("Alfama", "Chiado", "Belém"))

    def model(request: Received) -> Say:
        return Say(next(answers) if request.is_turn else "Well.")

    async with run_bot(tmp_path, model) as bot:
        await bot.says("Which quarter?")
        await again(bot, "/regenerate")
        await again(bot, "/regenerate")
        listed = await bot.says("/branches")
    names = [row.split(" | ")[1] for row in listed.text.split("\n") if "Which quarter?" in row]
    assert names == [f"Which quarter? → {name}" for name in ("Alfama", "Chiado", "Belém")]
    assert "1: Alfama" in [action.label for action in listed.actions]


async def test_what_is_sent_right_behind_a_command_goes_where_that_leads(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await say_all(bot, "one", "two")
        await asyncio.gather(*(bot.writes(text, id=text) for text in ("/fork t1", "three")))
        await bot.reply_to("three")
        assert asked(bot) == ["one", "three"]


async def test_on_forty_columns_no_word_of_branches_is_broken(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Where should we stay in Lisbon in the first week of May?")
        await say_all(bot, "/fork t1 The other plan for our holidays", "What about Faro?")
        usage, listed = await bot.says("/usage"), await bot.says("/branches")
    chat = "Where should we stay in Lisbon in the first week of May?"
    assert f"| {chat} (branch 1) | 1 |" in usage.text
    assert f"| {chat} (branch 2, “The other plan for our holidays”) | 1 |" in usage.text
    assert "| this branch, total | 1 |" in usage.text
    for reply in (usage, listed):
        shown = re.sub(r"\x1b\[[0-9;]*m", "", display.markdown(reply.text, 40))
        words = re.findall(r"[\w/$.-]+", reply.text.replace("*", "").replace("---", ""))
        assert {*words} - {*re.findall(r"[\w/$.-]+", shown)} <= {"begins", "after", "-"}


async def test_a_mistyped_turn_is_not_taken_for_a_title(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await say_all(bot, "first", "second")
        for word in ("t5x", "T2,", "t1-t2", "2", "2-3", "t2th day"):
            told = await bot.says(f"/fork {word}")
            assert f"“{word.split()[0]}” is not a turn" in told.text
            assert "a title begins with another word" in told.text
        assert "no branches" in (await bot.says("/branches")).text
        for title in ("2 plans", "3D", "The t5x"):
            assert f"“{title}” now" in (await bot.says(f"/fork {title}")).text


async def test_what_was_set_here_goes_along_and_is_then_each_ones_own(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("first")
        await bot.says('/config system_prompt "Speak like a pirate." --here')
        await say_all(bot, "/config agent_max_context_turns 7 --here", "/title Treasure", "/fork")
        await bot.says("second")
        assert "Speak like a pirate." in bot.sent_to_model()[0]["content"]
        assert "“Treasure”" in (await bot.says("/title")).text
        await say_all(bot, "/config agent_max_context_turns 9 --here", "/branches 1")
        assert "7" in (await bot.says("/config agent_max_context_turns")).text
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("/branches 2")
        assert "9" in (await bot.says("/config agent_max_context_turns")).text
        await bot.says("third")
        assert "Speak like a pirate." in bot.sent_to_model()[0]["content"]


async def test_an_answer_of_a_branch_that_was_left_says_where_it_belongs(tmp_path: Path) -> None:
    async with busy(tmp_path, "queue") as bot:  # a turn waits at the gate
        assert "no complete turn" in (await bot.says("/fork")).text
        gate("opened").set()
        await bot.reply_to("first")
        gate("opened").clear()
        gate("reached").clear()
        await bot.writes("wait", id="second")
        await gate("reached").wait()
        events: list[Activity] = []
        watching = await bot.watches(events)
        told = await bot.says("/fork t1 Aside")
        assert "in branch 1 continues" in told.text
        assert (await bot.says("meanwhile")).text == "re: meanwhile"
        gate("opened").set()
        answer = await bot.reply_to("second")
        assert answer.reply.text.startswith("re: wait\n\n(This answer belongs to branch 1")
        await bot.app.turns.queues.idle()
        streamed = "".join(one.text for one in events if isinstance(one, Delta))
        assert streamed == "re: meanwhile", "what the other branch says does not come in between"
        done = [one.reply_to for one in events if isinstance(one, Done)]
        assert done == [bot.sent[-2].reply_to, "second"]
        watching.cancel()
        await say_all(bot, "/branches 1", "again")
        assert asked(bot) == ["wait", "wait", "again"]


async def test_stop_ends_the_answer_of_a_branch_that_was_left(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("One."), Hang("Let me"), Say("Two.")]) as bot:
        await bot.says("first")
        await bot.writes("second", id="second")
        await bot.server.reached.acquire()
        await bot.server.reached.acquire()
        await bot.says("/fork")
        stopped = await bot.says("/stop")
        assert stopped.text == "Stopping the answer in branch 1; what was done so far is kept."
        assert "Stopped, as you asked." in (await bot.reply_to("second")).reply.text
        assert "Nothing is running" in (await bot.says("/stop")).text
        await bot.says("third")
        assert asked(bot) == ["first", "third"]


async def test_what_is_said_right_behind_a_switch_goes_where_it_leads(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await say_all(bot, "first", "/fork")
        await bot.writes("/branches 1", id="switch")
        await bot.writes("second", id="said")
        await bot.reply_to("said")
        assert asked(bot) == ["first", "second"]
        assert "t2" in (await bot.says("/context turns")).text
        await bot.says("/branches 2")
        assert "t2" not in (await bot.says("/context turns")).text


async def test_a_message_is_answered_after_a_crash_where_it_was_said(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("One."), Hang(), Say("Aside.")]) as bot:
        await bot.says("first")
        await bot.writes("second", id="second")
        await bot.server.reached.acquire()
        await bot.server.reached.acquire()
        await say_all(bot, "/fork", "aside")
        await bot.app.turns.queues.close()  # as after a kill: running work is interrupted
    async with run_bot(tmp_path, echo) as bot:
        answer = await bot.reply_to("second")
        assert "This answer belongs to branch 1" in answer.reply.text
        assert asked(bot) == ["first", "second"]
        await bot.says("more")
        assert asked(bot) == ["first", "aside", "more"]


async def test_a_shared_turn_is_forgotten_in_all_branches(tmp_path: Path) -> None:
    async with run_bot(tmp_path, forgetting.echo, {"agent_max_context_turns": 3}) as bot:
        await says_many(bot, "Hello.", f"I live in {MARK}.", "And you?")
        await bot.says("/fork t3 Elsewhere")
        await says_many(bot, "What is it like?", "Hm.", "Well.")
        await bot.says("/branches 1")
        await says_many(bot, "Is it warm?", "Hm.", "Well.")
        question = await bot.says("/forget t2")
        assert "Shared turns are deleted from branch 2, “Elsewhere” too." in question.text
        told = (await bot.says("/forget t2 yes")).text
        assert told.startswith("Deleted: t2 (2 messages)")
        assert "Shared turns were deleted from branch 2" in told
        await bot.app.conversations.flush()
        assert found_in(tmp_path) == []
        await bot.says("Here?")
        assert MARK not in str(bot.sent_to_model())
        await say_all(bot, "/branches 2", "There?")
        assert MARK not in str(bot.sent_to_model())
        assert "t2" not in str((await bot.says("/context turns")).data)
    assert found_in(tmp_path) == []


async def test_forgetting_a_branch_leaves_what_others_share(tmp_path: Path) -> None:
    async with run_bot(tmp_path, forgetting.echo) as bot:
        await says_many(bot, "Hello.", "And you?")
        await bot.says("/fork t1")
        await says_many(bot, f"I live in {MARK}.")
        question = await bot.says("/forget chat")
        assert question.text.startswith("This would delete 1 turn (2 messages)")
        assert (
            "t1: shared with branch 1, “Hello.”, so only removed from this branch" in question.text
        )
        await bot.says("/forget chat yes")
        assert found_in(tmp_path) == []
        assert "no branches" in (await bot.says("/branches")).text
        await bot.says("Still here?")
        assert asked(bot) == ["Hello.", "And you?", "Still here?"]
        made = await bot.says("/fork")
        assert made.data is not None
        assert made.data["number"] == 3, "a number is not given out twice"


async def test_forgetting_a_chat_leaves_its_branches_what_they_share(tmp_path: Path) -> None:
    async with run_bot(tmp_path, forgetting.echo) as bot:
        await says_many(bot, "Hello.", f"I live in {MARK}.")
        await bot.says("/fork t1")
        await says_many(bot, "Go on.")
        await bot.says("/branches 1")
        cost = (await bot.says("/usage")).data
        question = await bot.says("/forget chat")
        assert question.text.startswith("This would delete 1 turn (2 messages)")
        await bot.says("/forget chat yes")
        assert found_in(tmp_path) == []
        await bot.says("Anew.")
        assert asked(bot) == ["Anew."]
        assert (await bot.says("/context turns")).data["turns"][0]["turn"] == "t3"  # type: ignore[index]
        after = (await bot.says("/usage")).data
        assert cost is not None
        assert after is not None
        ever, before = after["all chats"]["ever"]["calls"], cost["all chats"]["ever"]["calls"]
        assert ever == before + 1
        assert after["this month by chat"]["pipe/main"]["calls"] == ever - 1
        await say_all(bot, "/branches 2", "Further.")
        assert asked(bot) == ["Hello.", "Go on.", "Further."]
    async with run_bot(tmp_path, forgetting.echo) as bot:
        await bot.says("And on.")
        assert asked(bot) == ["Hello.", "Go on.", "Further.", "And on."]
        assert "Hello." in (await bot.says("/memory search Hello")).text
        await bot.says("/forget all yes")
        assert await rows(bot, "message") == 0
        assert await rows(bot, "branch") == 0


async def test_what_a_branch_shares_is_not_deleted_for_being_idle(tmp_path: Path) -> None:
    async with run_bot(tmp_path, forgetting.echo) as bot:
        await says_many(bot, "Hello.", "And you?")
        await say_all(bot, "/fork t1", "Go on.")
        await bot.app.store.write(
            lambda db: db.execute_sql(
                "UPDATE conversation SET active_at = 0, created_at = 0 WHERE key = 'pipe/main'"
            )
        )
        await retain(bot, days=1)
        await bot.says("Further.")
        assert asked(bot) == ["Hello.", "Go on.", "Further."]
        await bot.app.store.write(
            lambda db: db.execute_sql("UPDATE conversation SET active_at = 0, created_at = 0")
        )
        await retain(bot, days=1)
        assert await rows(bot, "message") == 0
        assert await rows(bot, "branch") == 0
        await bot.says("Anew.")
        assert asked(bot) == ["Anew."]


async def test_a_limit_of_spending_holds_for_a_chat_with_all_its_branches(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("first")
        await limit(bot, "spend_limit_chat", 1.5)
        await say_all(bot, "/fork", "second")
        refused = await bot.says("third")
        assert "was not sent to the model" in refused.text
        bill = (await bot.says("/usage")).data
        assert bill is not None
        by_chat = bill["this month by chat"]
        assert {name: part["calls"] for name, part in by_chat.items()} == {
            "pipe/main": 1,
            "pipe/main//2": 1,
        }
        assert bill["all chats"]["ever"]["calls"] == 2
    async with run_bot(tmp_path, echo) as bot:
        assert "was not sent to the model" in (await bot.says("fourth")).text


async def test_a_branch_is_in_a_backup_and_in_an_export(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await say_all(bot, "first", "/fork", "second", "/context export")
    (export,) = (tmp_path / "data").rglob("context.json")
    assert [m["content"] for m in json.loads(export.read_text())["messages"]][::2] == [
        "first",
        "second",
    ]
    made, restored = tmp_path / "made.tar.gz", tmp_path / "elsewhere"
    save(tmp_path / "data", made)
    restore(made, restored / "data")
    async with run_bot(restored, echo) as bot:
        await bot.says("third")
        assert asked(bot) == ["first", "second", "third"]


async def test_over_rest_a_session_is_the_branch_that_it_leads_to(tmp_path: Path) -> None:
    async with serving(tmp_path, echo) as site:
        await site.says("first", "trip")
        await site.says("second", "trip")
        forked = await site.commands("/fork t1 Elsewhere", "trip")
        assert forked["data"]["number"] == 2
        await site.says("third", "trip")
        _, told = await site.get("/api/sessions/trip/messages")
        texts = [m["text"] for m in told["messages"] if m["role"] == "user"]
        assert texts == ["first", "third"]
        _, context = await site.get("/api/sessions/trip/context")
        assert [turn["turn"] for turn in context["turns"]] == ["t1", "t2"]
        _, found = await site.get("/api/sessions")
        assert [(one["id"], one["title"]) for one in found["sessions"]] == [("trip", "first")]
        _, found = await site.get("/api/sessions?q=second")
        assert [one["id"] for one in found["sessions"]] == ["trip"]
        await site.commands("/branches 1", "trip")
        _, found = await site.get("/api/sessions")
        assert [(one["id"], one["title"]) for one in found["sessions"]] == [("trip", "first")]


async def test_killed_after_any_write_of_a_fork_it_is_there_or_not_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[Path] = []
    async with run_bot(tmp_path, echo) as bot:
        await say_all(bot, "first", "second")
        await bot.app.delivery.queues.idle()
        write = bot.app.store.write

        async def write_and_copy(*work: Any, **how: Any) -> Any:
            done = await write(*work, **how)
            copies.append(tmp_path / str(len(copies)))
            shutil.copytree(tmp_path / "data", copies[-1] / "data")
            return done

        with monkeypatch.context() as patch:
            patch.setattr(bot.app.store, "write", write_and_copy)
            await bot.says("/fork t1")
            await bot.app.delivery.queues.idle()
    made = []
    for copy in copies:
        async with run_bot(copy, echo) as bot:
            bot.count = 100  # the ids of messages
            await bot.says("/branches 1")
            listed = (await bot.says("/branches")).data
            assert listed is not None
            made.append([one["turn"] for one in listed["branches"][1:]])
            await bot.says("third")
            assert asked(bot) == ["first", "second", "third"]
            if made[-1]:
                await say_all(bot, "/branches 2", "in 2")
                assert asked(bot) == ["first", "in 2"]
    assert all(one in ([], ["t1"]) for one in made)
    assert made[-1] == ["t1"]


async def test_the_page_tells_what_a_side_question_answers(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "context.md").read_text("utf-8")
    async with run_bot(tmp_path, [Say("Yes."), Say("The one by the sea.")]) as bot:
        await bot.says("by train?")
        line = "/btw Which of the two did I like better?"
        assert f"> {line}\n{(await bot.says(line)).text}\n" in page


async def test_what_is_cleared_in_a_branch_is_in_no_file_of_its_model(tmp_path: Path) -> None:
    def in_files() -> list[str]:
        sessions = tmp_path / "data" / "audiences" / "pipe-main" / "sessions"
        return [str(path) for path in sessions.rglob("*.json*") if MARK in path.read_text()]

    def quiet(request: Received) -> Say:
        return Say("Yes.")

    async with run_bot(tmp_path, quiet, {"agent_max_context_turns": 2}) as bot:
        for text in (f"I live in {MARK}.", "And you?", "Hm.", "Well."):
            await bot.says(text)
        await bot.app.conversations.flush()
        assert in_files()
        await say_all(bot, "/fork", "/context clear")
        assert not in_files()
        await bot.says("/branches 1")
        assert MARK in (await bot.says(f"/context search {MARK}")).text
        await say_all(bot, "/branches 2", "/context undo")
        assert in_files()


async def test_what_one_branch_dropped_comes_into_no_file_by_another(tmp_path: Path) -> None:
    async with run_bot(tmp_path, lambda request: Say("Yes.")) as bot:
        await says_many(bot, f"I live in {MARK}. " * 50, "And you?")
        await say_all(bot, "/fork Elsewhere", "/context drop t1", "/branches 1")
        await bot.says("/context compact t1")
        await bot.app.conversations.flush()
        sessions = tmp_path / "data" / "audiences" / "pipe-main" / "sessions"
        assert not [path for path in sessions.rglob("*.json*") if MARK in path.read_text()]
        await say_all(bot, "/branches 2", "/context undo")
        back = [path.name for path in sessions.rglob("*.json*") if MARK in path.read_text()]
        assert back == ["context.jsonl"], "brought back there, it stands where it left"


async def test_what_waits_for_a_deleted_branch_goes_where_the_chat_leads(tmp_path: Path) -> None:
    async with busy(tmp_path, "queue") as bot:  # a turn waits at the gate
        gate("opened").set()
        await bot.reply_to("first")
        await bot.says("/fork")
        gate("opened").clear()
        gate("reached").clear()
        await bot.writes("wait", id="second")
        await gate("reached").wait()
        await bot.writes("and then?", id="waiting")
        await bot.says("/forget chat yes")
        answer = (await bot.reply_to("waiting")).reply
        assert answer.text == "re: and then?"
        assert asked(bot) == ["wait", "and then?"]
        turns = (await bot.says("/context turns")).data
        assert turns is not None
        assert [one["turn"] for one in turns["turns"]] == ["t1", "t2"]


async def test_what_branches_share_is_told_anew_once(tmp_path: Path) -> None:
    async with run_bot(tmp_path, forgetting.echo) as bot:
        await says_many(bot, "I am Yeatman. " * 50, f"I live in {MARK}. " * 50, "Hm.")
        await say_all(bot, "/context compact t1-t2", "/fork t2")
        await says_many(bot, "Well.")
        await say_all(bot, "/context compact t1-t2", "/forget t2 yes")
        await bot.app.conversations.flush()
        days = (tmp_path / "data" / "audiences" / "pipe-main" / "memory").glob("20*.md")
        assert "".join(day.read_text() for day in days).count("· t1 ") == 1


async def test_a_branch_renames_no_chat_in_lists(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await say_all(bot, "__init__ and *args", "second", "/fork t1 Another way", "third")
        (session,) = await (await bot.api()).sessions("pipe")
    assert session.title == "__init__ and *args"


async def test_asking_again_makes_a_chat_no_cheaper(tmp_path: Path) -> None:
    def priced(bot: TestBot, reply: Any) -> tuple[float, int]:
        return reply.data["usage"]["cost"], reply.data["calls"]

    async with run_bot(tmp_path, echo) as bot:
        await say_all(bot, "first", "second")
        before = priced(bot, await bot.says("/context"))
        await say_all(bot, "/fork t1", "another second")
        branch = priced(bot, await bot.says("/context"))
        await bot.says("/branches 1")
        assert priced(bot, await bot.says("/context")) == branch
    assert branch > before > (0, 1)
    assert branch[1] == 3
