"""The commands that show and steer the context, as a person uses them."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from channels.message import Address, Outbound, Reply
from channels.pipe import Pipe
from memory.context.view import Scale
from memory.forecaster import HELD_GROWTH, hold_limit
from memory.keys import ConversationKey
from memory.messages import Message
from tests.fakes.openai_server import Answer, Call, Fail, Hang, Received, Say
from tests.whole.scenario import ask_many as talk
from tests.whole.scenario import say_all
from tests.whole.testbot import TestBot, run_bot

SUMMARY = "They talked about Lisbon."
FILES = Path("data/audiences/pipe-main/files")
SESSION = Path("data/audiences/pipe-main/sessions/pipe%2Fmain")
EXACT = {"restore": "exact"}


def echo(request: Received) -> Answer:
    """Summaries are one line; replies repeat the question's number, at some length; the calculator
    answers a question for a sum."""
    if request.is_summary:
        return Say(SUMMARY)
    last = request.body["messages"][-1]
    if "sum" in str(last["content"]) and last["role"] == "user":
        return Say(calls=(Call("calculate", '{"expression": "6*7"}', "a"),))
    return Say(f"reply {str(last['content']).split()[-1]}" + " and so on" * 20)


async def data(bot: TestBot, line: str) -> dict[str, Any]:
    """Return a command's data in its JSON form."""
    reply = await bot.says(line)
    assert reply.data is not None, reply.text
    return dict(orjson.loads(orjson.dumps(reply.data)))


async def states(bot: TestBot) -> dict[str, str]:
    turns = (await data(bot, "/context turns"))["turns"]
    return {turn["turn"]: ", ".join(turn["state"]) for turn in turns}


async def request_of(bot: TestBot, text: str) -> list[dict[str, Any]]:
    """Return the text sent to the model for a message, without the system prompt."""
    await bot.says(text)
    return bot.sent_to_model()[1:]


# --- looking ---


async def test_the_glance_says_where_the_tokens_go_and_what_comes_next(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, {"agent_max_context_turns": 6}) as bot:
        await talk(bot, 4)
        reply = await bot.says("/context")
    assert reply.text.startswith("**4 of 6 turns (67%) · ")
    assert "measured at the last request" in reply.text
    assert "| turns (t1 to t4) |" in reply.text
    assert "In context: 4 turns, 8 messages (4 user, 4 assistant)" in reply.text
    assert (
        "strategy trim (default), 50k tokens (default), 6 turns (configuration file)" in reply.text
    )
    assert "Next compaction: about t7. t1 to t3 will be summarised (about " in reply.text
    assert "Last compaction: none yet." in reply.text
    assert "summaries included: $0." in reply.text
    assert len(reply.text.splitlines()) < 25
    assert [action.label for action in reply.actions] == ["Details", "Map", "Compact", "Clear"]
    assert reply.data is not None
    assert sum(reply.data["parts"].values()) == reply.data["tokens"]


async def test_the_turn_that_runs_now_is_over_when_the_next_cut_comes(tmp_path: Path) -> None:
    settings = {"agent_max_context_turns": 6, "context": {"strategy": "slim"}}
    async with run_bot(tmp_path, [Hang("Half")], settings) as bot:
        running = asyncio.create_task(bot.says("Hello?"))
        await bot.server.reached.acquire()
        reply = await bot.says("/context")
        await bot.says("/stop")
        await running
    expected = "about t5. t1 becomes a line of the log"
    assert f"Next compaction: {expected}" in reply.text


async def test_after_a_cut_the_glance_shows_the_summary_and_the_sizes(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, {"agent_max_context_turns": 6}) as bot:
        await talk(bot, 8)
        reply = await bot.says("/context")
    assert "| summary |" in reply.text
    assert "t1 to t3," in reply.text
    assert "(strategy trim: there were 7 turns, and the limit is 6)" in reply.text
    assert reply.data is not None
    last = reply.data["last_change"]
    assert (last["kind"], last["turns"]) == ("compact", ["t1", "t2", "t3"])
    assert last["tokens_before"] > last["tokens_after"]
    assert sum(reply.data["parts"].values()) == reply.data["tokens"]
    assert [action.label for action in reply.actions][-1] == "Undo"


async def test_an_undo_that_holds_no_cut_off_leaves_the_forecast_as_it_was(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, 2)
        before = (await data(bot, "/context"))["next_cut"]
        await bot.says("/context clear")
        assert "by itself" not in (await bot.says("/context undo")).text
        after = await data(bot, "/context")
        assert (after["held_off_until"], after["next_cut"]) == (None, before)
        assert before["at"] == "t21"


async def test_a_small_window_is_named_as_what_sets_the_budget(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, {"context": {"max_tokens": 8_000}}) as bot:
        reply = await bot.says("/context")
    assert "of 6k tokens" in reply.text
    assert "Besides the reply, it has room for 6k: this is the limit" in reply.text


async def test_a_running_turn_is_shown_and_counted(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Hello."), Hang("Well")]) as bot:
        await bot.says("Hi")
        await bot.writes("A long one. " * 50, id="slow")
        await bot.server.reached.acquire()
        await bot.server.reached.acquire()
        assert "| running turn (t2) |" in (await bot.says("/context")).text
        assert (await states(bot)) == {"t1": "in context", "t2": "running"}
        refused = await bot.says("/context drop t2")
        assert "t2 is being answered" in refused.text
        await bot.says("/stop")
        await bot.reply_to("slow")


async def test_detail_and_json_hold_everything(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("a sum, please")
        detail = (await bot.says("/context detail")).text
        reply = await bot.says("/context json")
        overview = await bot.says("/context")
    for piece in ("calculate result", "calls calculate", "You are Parley", "tool_result_limit"):
        assert piece in detail
    assert json.loads(reply.text.removeprefix("```json").removesuffix("```")) == orjson.loads(
        orjson.dumps(reply.data)
    )
    figures = dict(overview.data or {})
    sizes = figures["tool_sizes"]
    assert list(sizes.values()) == sorted(sizes.values(), reverse=True)
    assert re.search(rf"Tools: context.?.?search {sizes['context_search']}, ", overview.text)
    assert sum(sizes.values()) == figures["parts"]["tools"]


@pytest.mark.parametrize("ratio", [0.7, 1.3])
async def test_every_list_of_turns_adds_up_to_the_total_above_it(
    tmp_path: Path, ratio: float
) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, 7)
        conversation = await bot.app.conversations.get(ConversationKey("pipe/main", "pipe-main"))
        learned = conversation.calibration
        learned.scale = lambda view, model: Scale(ratio)  # type: ignore[method-assign]
        shown = await data(bot, "/context")
        listed = (await data(bot, "/context turns"))["turns"]
        blocks = (await data(bot, "/context map json"))["blocks"]
        detail = (await bot.says("/context detail")).text
    total = shown["parts"]["turns"]
    assert sum(turn["tokens"] for turn in listed) == total
    assert [b["tokens"] for b in blocks if b["part"] == "turns"] == [t["tokens"] for t in listed]
    rows = re.findall(r"^\|[t\d ]*\| (?:user|assistant) \| (\d+) \|", detail, re.M)
    assert sum(map(int, rows)) == total


async def test_turns_say_what_became_of_each(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, {"agent_max_context_turns": 6}) as bot:
        assert "no turns yet" in (await bot.says("/context turns")).text
        await talk(bot, 7)
        await say_all(bot, "/context pin t5", "/context drop t6")
        assert await states(bot) == {
            "t1": "summarised",
            "t2": "summarised",
            "t3": "summarised",
            "t4": "in context",
            "t5": "pinned",
            "t6": "dropped",
            "t7": "in context",
        }
        await bot.says("/context clear")
        assert set((await states(bot)).values()) == {"cleared"}
        one = await bot.says("/context turns t2-t3")
        assert one.text.count("\n") == 3


async def test_of_many_turns_the_newest_are_listed_and_the_others_can_be(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, {"context": {"strategy": "full"}}) as bot:
        conversation = await bot.app.conversations.get(ConversationKey("pipe/main", "pipe-main"))
        said = [Message("user", "question"), Message("assistant", "reply")]
        await conversation.turns.append([said] * 32)
        reply = await bot.says("/context turns")
        assert "| t2 |" not in reply.text
        assert "| t3 |" in reply.text
        assert "/context turns t1-t2" in reply.text
        assert "| t2 |" in (await bot.says("/context turns t1-t2")).text


async def test_the_preview_is_what_is_sent(tmp_path: Path) -> None:
    """Within the limits, at the limit (with a summary that is ready), and after a cut."""
    async with run_bot(tmp_path, echo, {"agent_max_context_turns": 6}) as bot:
        for count, start in ((3, 1), (2, 5), (0, 8)):
            await talk(bot, count, start)
            preview = await data(bot, "/context preview")
            previewed = [m for m in preview["messages"] if m["turn"]]
            assert sum(row["tokens"] for row in preview["messages"]) == preview["tokens"]
            if start != 5:  # where a cut comes first
                assert preview["tokens"] == (await data(bot, "/context"))["tokens"]
            summary = "| summary |" in (await bot.says("/context preview")).text
            sent = await request_of(bot, f"question {start + count}")
            assert [message["message"] for message in previewed] == [m["role"] for m in sent]
            assert summary == (SUMMARY in sent[0]["content"]) == (start > 1)
            for shown, real in zip(previewed[:-1], sent[:-1], strict=True):
                assert shown["beginning"].rstrip("…") in real["content"]
            assert previewed[-1]["beginning"] == "(your next message)"
            await bot.app.conversations.flush()


async def test_the_preview_says_what_goes_by_which_rule(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, {"agent_max_context_turns": 6}) as bot:
        await talk(bot, 3)
        assert "Nothing will be compacted first" in (await bot.says("/context preview")).text
        await talk(bot, 3, start=4)
        reply = await bot.says("/context preview")
    assert "First, t1 to t3 will be summarised (about" in reply.text
    assert "there will be 7 turns, and the limit is 6. The summary is ready" in reply.text


@pytest.mark.parametrize(
    "failure", [Fail(500, {"message": "down"}), Fail(401, {"message": "key"}), Say("")]
)
async def test_each_row_of_the_preview_says_what_it_is(tmp_path: Path, failure: Answer) -> None:
    """Also the note on a turn that failed, and an answer without text."""

    def model(request: Received) -> Answer:
        return failure if "fail" in str(request.body["messages"][-1]) else echo(request)

    async with run_bot(tmp_path, model) as bot:
        await say_all(bot, "question 1", "sum 2", "fail 3", "question 4")
        shown = await bot.says("/context preview")
    rows = [line.strip("| ").split(" | ") for line in shown.text.split("\n") if " | " in line]
    assert [row for row in rows[1:] if not row[-1].strip()] == []


async def test_the_preview_of_an_overlong_context_knows_emergencies(tmp_path: Path) -> None:
    settings = {"context": {"strategy": "full"}, "tools": {"offer": "all"}}
    async with run_bot(tmp_path, echo, settings) as bot:
        await talk(bot, 30)
        await bot.says("/config context.max_tokens 3500 --here")
        reply = await bot.says("/context preview")
        sent = await request_of(bot, "question next")
    assert "the request was too long for the model" in reply.text
    assert reply.data is not None
    previewed = [m for m in reply.data["messages"] if m["turn"]]
    assert len(previewed) == len(sent)


async def test_the_preview_of_a_request_that_can_not_fit_says_so_as_the_turn_then_does(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, 3)
        await bot.says(f"/config system_prompt {'word ' * 9_000}")
        await bot.says("/config context.max_tokens 8000")
        shown = (await bot.says("/context preview")).text.split("\n\n")[-1]
        told = (await bot.says("question next")).text
        context = await data(bot, "/context json")
    assert shown.partition(" the running turn")[0] in told
    assert "is too small" in shown
    assert context["turns"] == ["t1", "t2", "t3", "t4"], "nothing was removed for it"


async def test_the_history_names_who_did_what_and_what_was_undone(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, {"agent_max_context_turns": 6}) as bot:
        assert "never been changed" in (await bot.says("/context history")).text
        await talk(bot, 7)
        await say_all(bot, "/context pin t7", "/context drop t5", "/context undo")
        reply = await bot.says("/context history")
        events = (await data(bot, "/context history"))["events"]
    assert [(e["kind"], e["actor"], e["undone"], e["next"]) for e in events] == [
        ("compact", "strategy", False, ""),
        ("pin", "person", False, "undo"),
        ("drop", "person", True, "redo"),
        ("undo", "person", False, ""),
    ]
    assert {one["strategy"] for one in events} == {"trim"}
    assert "~~drop~~ undone · " in reply.text
    assert "**undo of e3 (drop)** · " in reply.text
    assert "there were 7 turns, and the limit is 6" in reply.text


# --- steering ---


async def test_a_compact_that_would_not_shrink_writes_nothing(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Hello."), Say("much longer " * 50)]) as bot:
        assert "nothing to compact" in (await bot.says("/context compact")).text
        await bot.says("Hi")
        reply = await bot.says("/context compact")
        assert reply.text.startswith("Nothing was changed: t1 has")
        assert "never been changed" in (await bot.says("/context history")).text


async def test_other_commands_do_not_wait_for_a_compact(tmp_path: Path) -> None:
    def script(request: Received) -> Answer:
        return echo(request) if request.is_turn else Hang()

    async with run_bot(tmp_path, script) as bot:
        await talk(bot, 3)
        await bot.writes("/context compact", id="slow")
        for _ in range(4):
            await bot.server.reached.acquire()
        assert "In context: 3 turns" in (await bot.says("/context")).text
        assert (await bot.says("/context pin t1")).text.startswith("Pinned")
        await bot.app.bot.commands.queues.close()


async def test_pins_that_fill_the_budget_are_warned_of(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, {"agent_max_context_tokens": 1_000}) as bot:
        await bot.says("word " * 600)
        assert "of the budget" in (await bot.says("/context pin t1")).text


async def test_pins_that_fill_the_limit_of_turns_are_said_at_once_and_below_one_answer(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, echo, {"agent_max_context_turns": 3}) as bot:
        await talk(bot, 2)
        filled = "fill the limit of 3 turns"
        assert filled in (await bot.says("/context pin t1-t2")).text
        told = [filled in (await bot.says(f"And {n}?")).text for n in range(4)]
    assert told == [False, True, False, False], "once it is over the limit"


async def test_redo_does_again_what_was_undone_last(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, 4)
        assert "nothing to undo" in (await bot.says("/context undo")).text
        await bot.says("/context drop t2")
        undone = await bot.says("/context undo")
        assert "t2 is back in context" in undone.text
        assert undone.actions[0].command.startswith("/context redo e")
        assert "t2 is out of the context" in (await bot.says("/context redo")).text
        assert "nothing to redo" in (await bot.says("/context redo")).text
        assert (await states(bot))["t2"] == "dropped"


async def test_clear_forgets_the_summary_too_and_clears_all_or_nothing(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        assert "nothing to clear" in (await bot.says("/context clear")).text
        await talk(bot, 3)
        await bot.says("/context compact")
        refusal = (await bot.says("/context clear t3")).text
        assert "so nothing was changed" in refusal
        assert "/context drop" in refusal
        reply = await bot.says("/context clear")
        sent = await request_of(bot, "Who am I?")
    assert "t3 (2 messages, about" in reply.text
    assert "and the summary of older turns" in reply.text
    assert [message["content"] for message in sent] == ["Who am I?"]


async def test_what_is_mistyped_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    refused = {
        "": "needs turns",
        "t0": "'t0' is not a turn",
        "x": "'x' is not a turn",
        "t99": "There is no turn t99",
        "t3-t2": "is backwards",
    }
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, 3)
        for verb in ("pin", "unpin", "drop"):
            for turns, sentence in refused.items():
                reply = await bot.says(f"/context {verb} {turns}")
                assert sentence in reply.text
                assert "\n" not in reply.text
        assert "never been changed" in (await bot.says("/context history")).text
        assert "did you mean /context compact?" in (await bot.says("/context comapct")).text
        assert "/help context" in (await bot.says("/context qqq")).text
        assert "compact" in (await bot.says("/help context")).text


async def test_turns_that_are_not_in_play_or_not_pinned_are_refused(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, 4)
        await say_all(bot, "/context drop t1", "/context pin t3")
        for line, sentence in (
            (
                "/context pin t1-t2",
                "t1 is not in context (see /context turns); nothing was changed.",
            ),
            ("/context drop t1", "t1 is not in context"),
            ("/context pin t3", "t3 is already pinned."),
            ("/context unpin t2-t3", "t2 is not pinned (pinned: t3); nothing was changed."),
        ):
            assert sentence in (await bot.says(line)).text
        assert len((await data(bot, "/context history"))["events"]) == 2
        assert "Unpinned: t3; it may be removed" in (await bot.says("/context unpin t3")).text


# --- searching ---


async def test_search_finds_what_left_and_marks_it(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await say_all(bot, "Wir treffen uns in der Straße nach Lissabon", "a sum, please")
        await say_all(bot, "/context clear", "And now?")
        found = await bot.says("/context search STRASSE lissabon")
        call = await bot.says("/context search 6*7")
    assert found.text.startswith("1 message with “STRASSE lissabon”:")
    assert "- **t1** user, " in found.text
    assert "(cleared): Wir treffen uns in der **Straße** nach **Lissabon**" in found.text
    assert "- **t2** assistant, " in call.text


async def test_search_says_when_only_a_part_or_nothing_is_found(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("a secret", chat="other")
        await bot.says("red wine")
        await bot.says("white bread " + "hay " * 2_000 + "needle" + " hay" * 2_000)
        for words, told in (
            ("red bread", "No message contains all of “red bread”"),
            ("secret", "Nothing in this conversation"),
            (" ", "needs words"),
        ):
            assert told in (await bot.says(f"/context search {words}")).text
        reply = await bot.says("/context search NEEDLE")
    assert "…y hay" in reply.text, "the part that matches is shown, however deep it stands"
    assert "**needle**" in reply.text
    assert len(reply.text) < 300


# --- files ---


async def test_what_is_exported_can_be_imported_and_makes_a_valid_request(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, EXACT) as bot:
        assert "nothing to export" in (await bot.says("/context export")).text
        await bot.says("a sum, please")
        await talk(bot, 2)
        await bot.says("/context drop t2")
        exported = await bot.says("/context export")
        whole = json.loads((tmp_path / SESSION / "context.json").read_text())
        terse = json.loads((tmp_path / SESSION / "context.terse.json").read_text())
        imported = await bot.says("/context import")
        sent = await request_of(bot, "question 7")
        again = await bot.says("/context undo")
    assert "Exported 2 turns (6 messages)" in exported.text
    assert [m["turnId"] for m in whole["messages"]] == ["t1"] * 4 + ["t3"] * 2
    assert [line["turnId"] for line in terse["entries"]] == ["t1", "t3"]
    assert "Imported 2 turns from context.json as t4 to t5" in imported.text
    roles = [message["role"] for message in sent]
    complete = ["user", "assistant", "tool", "assistant"]
    assert roles == [*complete, "user", "assistant", *complete, "user", "assistant", "user"]
    assert "the drop of" in again.text
    async with run_bot(tmp_path, echo, EXACT) as bot:
        await bot.says("/context redo")
        assert (await data(bot, "/context"))["turns"][-3:] == ["t4", "t5", "t6"], "it is on disk"


async def test_an_import_waits_for_the_running_turn(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Hello."), Hang("Well")]) as bot:
        await say_all(bot, "Hi", "/context export")
        await bot.writes("Slow", id="slow")
        await bot.server.reached.acquire()
        await bot.server.reached.acquire()
        await bot.writes("/context import", id="import")
        await bot.says("/stop")
        assert "as t3" in (await bot.reply_to("import")).reply.text
        assert (await data(bot, "/context"))["turns"] == ["t1", "t2", "t3"]


async def test_a_file_that_can_not_be_imported_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / FILES
    os.makedirs(folder)
    (folder / "link.json").symlink_to("/etc/passwd")
    (folder / "huge.json").write_bytes(b" " * 16_000_001)
    (folder / "broken.json").write_text("{")
    async with run_bot(tmp_path, echo) as bot:
        for name, sentence in {
            "nothing.json": "does not exist",
            "../../parley.db": "leads out",
            "/etc/passwd": "leads out",
            "link.json": "symbolic link",
            "huge.json": "larger than 16 MB",
            "broken.json": "This is not a context.json",
        }.items():
            reply = await bot.says(f"/context import {name}")
            assert reply.text.startswith("Nothing was imported from")
            assert sentence in reply.text
        assert "no turns yet" in (await bot.says("/context turns")).text


async def test_the_map_is_a_picture_in_the_files_of_the_audience(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, {"agent_max_context_turns": 4}) as bot:
        await talk(bot, 6)
        reply = await bot.says("/context map")
    file = tmp_path / FILES / "context-map.png"
    assert reply.images == (str(file.resolve()),)
    assert file.read_bytes().startswith(b"\x89PNG")
    assert reply.data is not None
    for state in ("summarised", "in context"):
        assert f">{state}<" in reply.data["svg"]


async def test_the_pipe_shows_pictures_as_their_paths() -> None:
    reply = Reply("The map.", images=("/data/map.png",))
    shown = []
    for is_jsonl in (True, False):
        out = io.BytesIO()
        pipe = Pipe(io.BytesIO(), out, is_jsonl)
        await pipe.send(Outbound(1, Address("pipe", "main"), reply, "again-1"))
        shown.append(out.getvalue())
    line = json.loads(shown[0])
    assert (line["images"], line["reply_to"]) == (["/data/map.png"], "again-1")
    assert shown[1] == b"The map.\n/data/map.png\n"


async def test_pictures_outside_of_the_data_folder_are_not_sent_again(tmp_path: Path) -> None:
    """A row of the outbox may come from a backup made by another person."""
    secret = tmp_path / "secret.png"
    secret.write_text("the key")
    own = tmp_path / "data" / "audiences" / "main" / "files" / "map.png"
    async with run_bot(tmp_path, echo):
        pass
    reply = {"text": "Look.", "data": None, "actions": [], "images": [str(secret), str(own)]}
    with closing(sqlite3.connect(tmp_path / "data" / "parley.db")) as database, database:
        database.execute(
            "INSERT INTO outbox (inbox, channel, chat, thread, user, reply_to, reply, at)"
            " VALUES (0, 'pipe', 'main', '', '', 'm9', ?, 0)",
            (json.dumps(reply),),
        )
    async with run_bot(tmp_path, echo) as bot:
        again = await bot.reply_to("m9")
    assert (again.reply.text, again.reply.images) == ("Look.", (str(own),))


# --- taking turns back ---


async def test_undo_takes_the_last_turns_back_and_names_them(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, 4)
        reply = await bot.says("/undo 2")
        assert "- t3: “question 3”\n- t4: “question 4”" in reply.text
        sent = await request_of(bot, "question 5")
        assert [m["content"] for m in sent if m["role"] == "user"] == [
            "question 1",
            "question 2",
            "question 5",
        ]
        assert (await states(bot))["t4"] == "dropped"
        assert "t3 to t4 are back in context" in (await bot.says("/context undo")).text


async def test_undo_stops_the_running_turn_first(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Hello."), Hang("Well"), Say("Fine.")]) as bot:
        await bot.says("Hi")
        await bot.writes("A hard one", id="slow")
        await bot.server.reached.acquire()
        await bot.server.reached.acquire()
        reply = await bot.says("/undo")
        assert reply.text.startswith("I stopped the running answer. Undone:\n\n- t2:")
        assert "Stopped" in (await bot.reply_to("slow")).reply.text
        sent = await request_of(bot, "How are you?")
    assert [message["content"] for message in sent] == ["Hi", "Hello.", "How are you?"]


async def test_what_can_not_be_taken_back_is_answered_with_a_sentence(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        assert "No turn is in context" in (await bot.says("/undo")).text
        await talk(bot, 2)
        for line, sentence in {
            "/undo 0": "takes a number of turns",
            "/undo -1": "takes a number of turns",
            "/undo t3": "/context drop t3",
            "/undo 3": "Only 2 turns are in context; nothing was undone.",
            "/undo 99999999999999": "takes a number of turns",
            "/retry now": "/retry takes no text",
        }.items():
            assert sentence in (await bot.says(line)).text
        assert (await data(bot, "/context"))["turns"] == ["t1", "t2"]


async def test_retry_asks_the_last_question_again_as_a_new_turn(tmp_path: Path) -> None:
    script = [Say("Hello."), Say("A bad answer."), Say("A good answer.")]
    async with run_bot(tmp_path, script) as bot:
        assert "No turn is in context" in (await bot.says("/retry")).text
        await say_all(bot, "Hi", "//etc or **what**?")
        reply = await bot.says("/retry")
        assert reply.data is not None
        answer = await bot.reply_to(reply.data["asked"])
        contents = [message["content"] for message in bot.sent_to_model()[1:]]
    assert reply.text == r"t2 is taken back and asked again: “/etc or \*\*what\*\*?”"
    assert (answer.turn, answer.reply.text) == ("t3", "A good answer.")
    assert contents == ["Hi", "Hello.", "/etc or **what**?"]


async def test_what_two_ask_for_at_once_is_done_once(tmp_path: Path) -> None:
    """As from two tabs of the page: their commands do not wait for each other."""
    async with run_bot(tmp_path, lambda request: Say("Well.")) as bot:
        api = await bot.api()
        for line, requests in (("/retry", 3), ("/undo", 2), ("/context drop t2", 2)):
            chat, before = f"for {line}", len(bot.server.requests)
            await bot.says("One", chat)
            await bot.says("Two", chat)
            here = Address("pipe", chat)
            replies = await asyncio.gather(api.command(here, line), api.command(here, line))
            assert sorted(reply.problem for reply in replies) == ["", "command_refused"]
            assert any(reply.text.startswith("t2 is not in context") for reply in replies)
            await bot.app.turns.queues.idle()
            assert len(bot.server.requests) - before == requests
            assert "t2 is back in context" in (await bot.says("/context undo", chat)).text


async def test_a_question_that_is_asked_again_survives_a_crash(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Bad."), Hang("Well")]) as bot:
        await bot.says("//etc?")
        reply = await bot.says("/retry")
        assert reply.data is not None
        await bot.server.reached.acquire()
        await bot.server.reached.acquire()
        await bot.app.turns.queues.close()  # as after a kill
    async with run_bot(tmp_path, [Say("Good.")]) as bot:
        answer = await bot.reply_to(reply.data["asked"])
        assert bot.sent_to_model()[-1]["content"] == "/etc?"
    assert (answer.turn, answer.reply.text) == ("t2", "Good.")


@pytest.mark.parametrize("ratio", [0.3, 1.0, 1.7, 4.0])
async def test_an_undo_holds_compaction_off_however_the_model_counts(
    tmp_path: Path, ratio: float
) -> None:
    async with run_bot(tmp_path, lambda request: Say("Well."), {"context": {}}) as bot:
        for question in ("One", "Two", "Three"):
            await bot.says(question)
        await bot.says("/context drop t1")
        await bot.says("/context undo")
        key = ConversationKey("pipe/main", "pipe-main")
        conversation = await bot.app.conversations.get(key)
        view, limits = conversation.context.view(), conversation.context.limits
        counted = replace(view, scale=Scale(ratio))
        assert conversation.compactor.forecaster.is_held(counted, limits)
        move = conversation.context.replayed.move
        assert move is not None
        size = counted.tokens
        assert hold_limit(move, counted) == pytest.approx(size * HELD_GROWTH, abs=2)
        grown = [replace(one, number=one.number + 9) for one in view.turns] * 40
        later = replace(counted, turns=(*view.turns, *grown))
        assert hold_limit(move, later) == pytest.approx(size * HELD_GROWTH, abs=2)
        assert later.tokens > hold_limit(move, later)
