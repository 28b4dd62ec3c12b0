"""Branches: `/fork`, `/branches`, and a chat that leads from one conversation to another."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from channels.base import Activity, Delta, Done
from channels.terminal import display
from tests.bot.test_backup import restore, save
from tests.bot.test_schedule import retain, rows
from tests.docs.pages import ROOT
from tests.fakes.openai_server import Hang, OpenAIServer, Received, Say
from tests.web.site import serving
from tests.web.test_completions import client, named, user
from tests.whole import test_forget as forgetting
from tests.whole.house import House, living
from tests.whole.process import talking
from tests.whole.telegram_house import at_telegram
from tests.whole.test_busy import busy, gate
from tests.whole.test_forget import MARK, found_in, says_many
from tests.whole.test_spending import limit


def echo(request: Received) -> Say:
    return Say(f"re: {request.body['messages'][-1]['content']}")


def asked(house: House, index: int = -1) -> list[Any]:
    """What a request held besides the system prompt, without the answers."""
    return [m["content"] for m in house.sent_to_model(index) if m["role"] == "user"]


async def test_a_branch_goes_on_from_a_turn_and_the_other_conversation_from_where_it_was(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, [Say("One."), Say("Two."), Say("New."), Say("Old.")]) as house:
        await house.says("first")
        await house.says("second")
        told = await house.says("/fork t1 Another way")
        assert "You are in branch 2, “Another way” now. It shares t1 with branch 1" in told.text
        await house.says("third, here")
        assert asked(house) == ["first", "third, here"]
        assert "You are in branch 1" in (await house.says("/branches 1")).text
        await house.says("third, there")
        assert asked(house) == ["first", "second", "third, there"]


async def test_on_forty_columns_no_word_is_broken_and_branches_have_names(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, echo) as house:
        await house.says("Where should we stay in Lisbon in the first week of May?")
        await house.says("/fork t1 The other plan for our holidays")
        await house.says("What about Faro?")
        usage, listed = await house.says("/usage"), await house.says("/branches")
    assert "| pipe/main, branch 2, “The other plan for our holidays” | 1 |" in usage.text
    assert "| this branch, in all | 1 |" in usage.text
    for reply in (usage, listed):
        shown = re.sub(r"\x1b\[[0-9;]*m", "", display.markdown(reply.text, 40))
        words = re.findall(r"[\w/$.-]+", reply.text.replace("*", "").replace("---", ""))
        assert {*words} - {*re.findall(r"[\w/$.-]+", shown)} <= {"begins", "after", "-"}


@pytest.mark.parametrize("word", ["t5x", "T2,", "t1-t2", "2", "2-3", "t2th day"])
async def test_a_mistyped_turn_is_not_taken_for_a_title(tmp_path: Path, word: str) -> None:
    async with living(tmp_path, echo) as house:
        await house.says("first")
        await house.says("second")
        told = await house.says(f"/fork {word}")
        assert f"“{word.split()[0]}” is not a turn" in told.text
        assert "a title begins with another word" in told.text
        assert "no branches" in (await house.says("/branches")).text
        for title in ("2 plans", "3D", "The t5x"):
            assert f"“{title}” now" in (await house.says(f"/fork {title}")).text


async def test_the_branch_that_a_chat_leads_to_is_the_same_after_a_restart(tmp_path: Path) -> None:
    async with living(tmp_path, [Say("One.")]) as house:
        await house.says("first")
        await house.says("/fork")
    async with living(tmp_path, [Say("Two."), Say("Three.")]) as house:
        await house.says("second")
        assert asked(house) == ["first", "second"]
        listed = await house.says("/branches")
        assert "| **2** |" in listed.text
        assert [action.command for action in listed.actions] == ["/branches 1"]
        await house.says("/branches 1")
        await house.says("again")
        assert asked(house) == ["first", "again"]


async def test_what_was_set_here_goes_along_and_is_each_ones_own_from_then_on(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, echo) as house:
        await house.says("first")
        await house.says('/config system_prompt "Speak like a pirate." --here')
        await house.says("/config agent_max_context_turns 7 --here")
        await house.says("/title Treasure")
        await house.says("/fork")
        await house.says("second")
        assert "Speak like a pirate." in house.sent_to_model()[0]["content"]
        assert "“Treasure (2)”" in (await house.says("/title")).text
        await house.says("/config agent_max_context_turns 9 --here")
        await house.says("/branches 1")
        assert "7" in (await house.says("/config agent_max_context_turns")).text
    async with living(tmp_path, echo) as house:
        await house.says("/branches 2")
        assert "9" in (await house.says("/config agent_max_context_turns")).text
        await house.says("third")
        assert "Speak like a pirate." in house.sent_to_model()[0]["content"]


async def test_a_turn_that_runs_when_its_branch_is_left_ends_with_a_word_where_it_belongs(
    tmp_path: Path,
) -> None:
    async with busy(tmp_path, "queue") as house:  # a turn waits at the gate
        assert "no complete turn" in (await house.says("/fork")).text
        gate("opened").set()
        await house.reply_to("first")
        gate("opened").clear()
        gate("reached").clear()
        await house.writes("wait", id="second")
        await gate("reached").wait()
        events: list[Activity] = []
        watching = await house.watches(events)
        told = await house.says("/fork t1 Aside")
        assert "in branch 1 goes on" in told.text
        assert (await house.says("meanwhile")).text == "re: meanwhile"
        gate("opened").set()
        answer = await house.reply_to("second")
        assert answer.reply.text.startswith("re: wait\n\n(This answer belongs to branch 1")
        await house.app.turns.queues.idle()
        streamed = "".join(one.text for one in events if isinstance(one, Delta))
        assert streamed == "re: meanwhile", "what the other branch says does not come in between"
        done = [one.reply_to for one in events if isinstance(one, Done)]
        assert done == [house.sent[-2].reply_to, "second"]
        watching.cancel()
        await house.says("/branches 1")
        await house.says("again")
        assert asked(house) == ["wait", "wait", "again"]


async def test_stop_ends_the_answer_of_a_branch_that_was_left(tmp_path: Path) -> None:
    async with living(tmp_path, [Say("One."), Hang("Let me"), Say("Two.")]) as house:
        await house.says("first")
        await house.writes("second", id="second")
        await house.server.reached.acquire()
        await house.server.reached.acquire()
        await house.says("/fork")
        stopped = await house.says("/stop")
        assert stopped.text == "Stopping the answer in branch 1; what was done so far is kept."
        assert "Stopped, as you asked." in (await house.reply_to("second")).reply.text
        assert "Nothing is running" in (await house.says("/stop")).text
        await house.says("third")
        assert asked(house) == ["first", "third"]


async def test_what_is_said_right_behind_a_switch_goes_where_it_leads(tmp_path: Path) -> None:
    async with living(tmp_path, echo) as house:
        await house.says("first")
        await house.says("/fork")
        await house.writes("/branches 1", id="switch")
        await house.writes("second", id="said")
        await house.reply_to("said")
        assert asked(house) == ["first", "second"]
        assert "t2" in (await house.says("/context turns")).text
        await house.says("/branches 2")
        assert "t2" not in (await house.says("/context turns")).text


async def test_a_message_that_a_crash_left_unanswered_is_answered_where_it_was_said(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, [Say("One."), Hang(), Say("Aside.")]) as house:
        await house.says("first")
        await house.writes("second", id="second")
        await house.server.reached.acquire()
        await house.server.reached.acquire()
        await house.says("/fork")
        await house.says("aside")
        await house.app.turns.queues.close()  # as at a kill: what runs is cut short
    async with living(tmp_path, echo) as house:
        answer = await house.reply_to("second")
        assert "This answer belongs to branch 1" in answer.reply.text
        assert asked(house) == ["first", "second"]
        await house.says("more")
        assert asked(house) == ["first", "aside", "more"]


async def test_forgetting_a_shared_turn_takes_it_from_all_branches_and_says_so_before(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, forgetting.echo, {"agent_max_context_turns": 3}) as house:
        await says_many(house, "Hello.", f"I live in {MARK}.", "And you?")
        await house.says("/fork t3 Elsewhere")
        await says_many(house, "What is it like?", "Hm.", "Well.")
        await house.says("/branches 1")
        await says_many(house, "Is it warm?", "Hm.", "Well.")
        question = await house.says("/forget t2")
        assert "What is shared goes from branch 2, “Elsewhere” too." in question.text
        assert (await house.says("/forget t2 yes")).text.startswith("Deleted: t2 (2 messages)")
        await house.app.conversations.settle()
        assert found_in(tmp_path) == []
        await house.says("Here?")
        assert MARK not in str(house.sent_to_model())
        await house.says("/branches 2")
        await house.says("There?")
        assert MARK not in str(house.sent_to_model())
        assert "t2" not in str((await house.says("/context turns")).data)
    assert found_in(tmp_path) == []


async def test_forgetting_the_chat_in_a_branch_leaves_what_others_share_and_goes_back(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, forgetting.echo) as house:
        await says_many(house, "Hello.", "And you?")
        await house.says("/fork t1")
        await says_many(house, f"I live in {MARK}.")
        question = await house.says("/forget chat")
        assert question.text.startswith("This would delete 1 turn (2 messages)")
        assert "What branch 1, “Hello.” shares with this branch, t1, stays there" in question.text
        await house.says("/forget chat yes")
        assert found_in(tmp_path) == []
        assert "no branches" in (await house.says("/branches")).text
        await house.says("Still here?")
        assert asked(house) == ["Hello.", "And you?", "Still here?"]
        made = await house.says("/fork")
        assert made.data is not None
        assert made.data["number"] == 3, "a number is not given out twice"


async def test_forgetting_a_chat_that_branches_share_leaves_them_what_they_share(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, forgetting.echo) as house:
        await says_many(house, "Hello.", f"I live in {MARK}.")
        await house.says("/fork t1")
        await says_many(house, "Go on.")
        await house.says("/branches 1")
        cost = (await house.says("/usage")).data
        question = await house.says("/forget chat")
        assert question.text.startswith("This would delete 1 turn (2 messages)")
        await house.says("/forget chat yes")
        assert found_in(tmp_path) == []
        await house.says("Anew.")
        assert asked(house) == ["Anew."]
        assert (await house.says("/context turns")).data["turns"][0]["turn"] == "t3"  # type: ignore[index]
        after = (await house.says("/usage")).data
        assert cost is not None
        assert after is not None
        ever, before = after["all chats"]["ever"]["calls"], cost["all chats"]["ever"]["calls"]
        assert ever == before + 1
        assert after["this month by chat"]["pipe/main"]["calls"] == ever - 1
        await house.says("/branches 2")
        await house.says("Further.")
        assert asked(house) == ["Hello.", "Go on.", "Further."]
    async with living(tmp_path, forgetting.echo) as house:
        await house.says("And on.")
        assert asked(house) == ["Hello.", "Go on.", "Further.", "And on."]
        assert "Hello." in (await house.says("/memory search Hello")).text
        await house.says("/forget all yes")
        assert await rows(house, "message") == 0
        assert await rows(house, "branch") == 0


async def test_a_conversation_that_a_branch_shares_is_not_deleted_for_being_idle(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, forgetting.echo) as house:
        await says_many(house, "Hello.", "And you?")
        await house.says("/fork t1")
        await house.says("Go on.")
        await house.app.store.write(
            lambda db: db.execute_sql(
                "UPDATE conversation SET active_at = 0, created_at = 0 WHERE key = 'pipe/main'"
            )
        )
        await retain(house, days=1)
        await house.says("Further.")
        assert asked(house) == ["Hello.", "Go on.", "Further."]
        await house.app.store.write(
            lambda db: db.execute_sql("UPDATE conversation SET active_at = 0, created_at = 0")
        )
        await retain(house, days=1)
        assert await rows(house, "message") == 0
        assert await rows(house, "branch") == 0
        await house.says("Anew.")
        assert asked(house) == ["Anew."]


async def test_a_limit_of_spending_holds_for_a_chat_with_all_its_branches(tmp_path: Path) -> None:
    async with living(tmp_path, echo) as house:
        await house.says("first")
        await limit(house, "spend_limit_chat", 1.5)
        await house.says("/fork")
        await house.says("second")
        refused = await house.says("third")
        assert "was not sent to the model" in refused.text
        bill = (await house.says("/usage")).data
        assert bill is not None
        by_chat = bill["this month by chat"]
        assert {name: part["calls"] for name, part in by_chat.items()} == {
            "pipe/main": 1,
            "pipe/main//2": 1,
        }
        assert bill["all chats"]["ever"]["calls"] == 2
    async with living(tmp_path, echo) as house:
        assert "was not sent to the model" in (await house.says("fourth")).text


async def test_a_branch_is_in_a_backup_and_in_an_export(tmp_path: Path) -> None:
    async with living(tmp_path, echo) as house:
        await house.says("first")
        await house.says("/fork")
        await house.says("second")
        await house.says("/context export")
    (export,) = (tmp_path / "data").rglob("context.json")
    assert [m["content"] for m in json.loads(export.read_text())["messages"]][::2] == [
        "first",
        "second",
    ]
    made, restored = tmp_path / "made.tar.gz", tmp_path / "elsewhere"
    save(tmp_path / "data", made)
    restore(made, restored / "data")
    async with living(restored, echo) as house:
        await house.says("third")
        assert asked(house) == ["first", "second", "third"]


async def test_at_telegram_branches_are_buttons_and_each_topic_has_its_own(
    tmp_path: Path,
) -> None:
    async with at_telegram(tmp_path, echo) as house:
        house.ann.says("first")
        await house.telegram.shown("re: first")
        house.ann.says("/fork")
        forked = await house.telegram.shown("You are in branch 2")
        house.ann.says("second")
        await house.telegram.shown("re: second")
        house.ann.presses(forked, "All branches")
        listed = await house.telegram.shown("You are in branch 2. /branches N")
        house.ann.presses(listed, "1: first")
        await house.telegram.shown("You are in branch 1")
        house.ann.says("third")
        await house.telegram.shown("re: third")
        said = [m["content"] for m in house.sent_to_model() if m["role"] == "user"]
        assert said == ["first", "third"]


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
        assert [(one["id"], one["title"]) for one in found["sessions"]] == [("trip", "Elsewhere")]
        _, found = await site.get("/api/sessions?q=second")
        assert [one["id"] for one in found["sessions"]] == ["trip"]
        await site.commands("/branches 1", "trip")
        _, found = await site.get("/api/sessions")
        assert [(one["id"], one["title"]) for one in found["sessions"]] == [("trip", "first")]


async def test_in_openais_protocol_a_conversation_is_the_branch_that_it_leads_to(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, echo) as site, client(site) as openai:

        async def asks(text: str) -> None:
            said = [user(text)]
            await openai.chat.completions.create(model="parley", messages=said, **named("trip"))

        await asks("first")
        await asks("second")
        await site.commands("/fork t1", "trip")
        await asks("third")
        assert asked_of(site.server) == ["first", "third"]


async def test_killed_at_any_moment_of_a_fork_it_is_there_or_not_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    async with OpenAIServer(echo) as endpoint:
        async with talking(tmp_path, endpoint) as bot:
            await bot.says("first")
            await bot.says("second")
        for number in range(6):
            async with talking(tmp_path, endpoint) as bot:
                await bot.says("/branches 1", id=f"go {number}")
                await bot.tell("/fork t1", id=f"fork {number}")
                await asyncio.sleep(number * 0.004)  # any moment will do
                bot.process.kill()
        async with talking(tmp_path, endpoint) as bot:
            await bot.says("/branches 1", id="back")
            listed = await bot.says("/branches", id="list")
            made = listed["data"]["branches"][1:]
            assert all(one["turn"] == "t1" for one in made)
            await bot.says("third")
            assert asked_of(endpoint) == ["first", "second", "third"]
            for one in made:
                await bot.says(f"/branches {one['number']}", id=f"to {one['number']}")
                await bot.says(f"in {one['number']}")
                assert asked_of(endpoint) == ["first", f"in {one['number']}"]


def asked_of(endpoint: OpenAIServer) -> list[str]:
    messages = endpoint.requests[-1].body["messages"]
    return [m["content"] for m in messages if m["role"] == "user"]


async def test_a_chat_is_forgotten_with_all_its_branches(tmp_path: Path) -> None:
    async with living(tmp_path, forgetting.echo) as house:
        await says_many(house, f"I live in {MARK}.", "And you?")
        await house.says("/fork t1")
        await says_many(house, f"Not in {MARK}?")
        await house.says("/branches 1")
        question = await house.says("/forget branches")
        assert question.text.startswith("This would delete 3 turns (6 messages)")
        await house.says("/forget branches yes")
        assert found_in(tmp_path) == []
        assert await rows(house, "message") == 0
        assert "no branches" in (await house.says("/branches")).text


async def test_the_page_tells_what_a_fork_and_a_side_question_answer(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "context.md").read_text("utf-8")
    async with living(tmp_path, [Say("Yes."), Say("The one by the sea.")]) as house:
        await house.says("by train?")
        assert (await house.says("/fork t1 By car")).text in page
        line = "/btw Which of the two did I like better?"
        assert f"> {line}\n{(await house.says(line)).text}\n" in page


async def test_what_is_cleared_in_a_branch_is_in_no_file_that_its_model_may_read(
    tmp_path: Path,
) -> None:
    def in_files() -> list[str]:
        sessions = tmp_path / "data" / "audiences" / "pipe-main" / "sessions"
        return [str(path) for path in sessions.rglob("*.json*") if MARK in path.read_text()]

    def quiet(request: Received) -> Say:
        return Say("Yes.")

    async with living(tmp_path, quiet, {"agent_max_context_turns": 2}) as house:
        for text in (f"I live in {MARK}.", "And you?", "Hm.", "Well."):
            await house.says(text)
        await house.app.conversations.settle()
        assert in_files()
        await house.says("/fork")
        await house.says("/context clear")
        assert not in_files()
        await house.says("/branches 1")
        assert MARK in (await house.says(f"/context search {MARK}")).text
        await house.says("/branches 2")
        await house.says("/context undo")
        assert in_files()


async def test_what_was_dropped_in_one_branch_comes_into_no_file_when_it_leaves_another(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, lambda request: Say("Yes.")) as house:
        await says_many(house, f"I live in {MARK}. " * 50, "And you?")
        await house.says("/fork Elsewhere")
        await house.says("/context drop t1")
        await house.says("/branches 1")
        await house.says("/context compact t1")
        await house.app.conversations.settle()
        sessions = tmp_path / "data" / "audiences" / "pipe-main" / "sessions"
        assert not [path for path in sessions.rglob("*.json*") if MARK in path.read_text()]
        await house.says("/branches 2")
        await house.says("/context undo")
        back = [path.name for path in sessions.rglob("*.json*") if MARK in path.read_text()]
        assert back == ["context.jsonl"], "brought back there, it stands where it left"


async def test_the_answer_to_forget_does_not_name_a_branch_by_what_is_gone(tmp_path: Path) -> None:
    async with living(tmp_path, forgetting.echo) as house:
        await says_many(house, f"I live in {MARK}.")
        await house.says("/fork")
        await says_many(house, "Hm.")
        told = await house.says("/forget t1 yes")
        assert "What is shared went from branch 1 too." in told.text
        assert found_in(tmp_path) == []


async def test_what_waits_in_line_for_a_branch_that_is_deleted_goes_where_the_chat_leads(
    tmp_path: Path,
) -> None:
    async with busy(tmp_path, "queue") as house:  # a turn waits at the gate
        gate("opened").set()
        await house.reply_to("first")
        await house.says("/fork")
        gate("opened").clear()
        gate("reached").clear()
        await house.writes("wait", id="second")
        await gate("reached").wait()
        await house.writes("and then?", id="waiting")
        await house.says("/forget chat yes")
        answer = (await house.reply_to("waiting")).reply
        assert answer.text == "re: and then?"
        assert asked(house) == ["wait", "and then?"]
        turns = (await house.says("/context turns")).data
        assert turns is not None
        assert [one["turn"] for one in turns["turns"]] == ["t1", "t2"]


async def test_what_branches_share_is_told_once_anew_when_a_turn_of_it_is_forgotten(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, forgetting.echo) as house:
        await says_many(house, "I am Yeatman. " * 50, f"I live in {MARK}. " * 50, "Hm.")
        await house.says("/context compact t1-t2")
        await house.says("/fork t2")
        await says_many(house, "Well.")
        await house.says("/context compact t1-t2")
        await house.says("/forget t2 yes")
        await house.app.conversations.settle()
        days = (tmp_path / "data" / "audiences" / "pipe-main" / "memory").glob("20*.md")
        assert "".join(day.read_text() for day in days).count("· t1 ") == 1
