"""Tests of `/rules`: each of its words, the limit, and the messages in other commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memory.keys import ConversationKey
from plugins.instructions.carried import import_entry
from tests.fakes.openai_server import Say, echo
from tests.instructions.test_rules_said import BOSS, commands, list_rules, system
from tests.whole.scenario import say_all
from tests.whole.telegram_testbot import at_telegram
from tests.whole.test_access import OWNER, afar, befriended
from tests.whole.testbot import TestBot, run_bot

JOKES = "Always end with a joke."


async def texts(bot: TestBot) -> list[str]:
    return [rule["text"] for rule in await list_rules(bot)]


@pytest.mark.databases
async def test_rules_are_given_changed_moved_revoked_and_undone(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        assert "There are no standing instructions here" in (await bot.says("/rules")).text
        kept = await bot.says(f"/rules add {BOSS}")
        assert commands(kept) == ["/rules undo c1", "/rules move 1 everywhere"]
        await bot.says(f"/rules add --everywhere {JOKES}")
        assert "This is rule 1 already" in (await bot.says(f"/rules add {BOSS.lower()}")).text
        await bot.says("/rules edit 1 Ask me\nbefore you write.")
        assert await texts(bot) == ["Ask me\nbefore you write.", JOKES]
        await bot.says("And?")
        assert system(bot).endswith(f"\n- Ask me\nbefore you write.\n- {JOKES}")
        assert "rule 2 says the same" in (await bot.says(f"/rules edit 1 {JOKES}")).text
        await bot.says("/rules undo")
        assert await texts(bot) == [BOSS, JOKES]
        await bot.says("/rules move 1 everywhere")
        await bot.says("Hi", "other")
        assert system(bot).endswith(f"\n- {BOSS}\n- {JOKES}")
        await bot.says("/rules undo")
        await bot.says("Hi", "other")
        assert system(bot).endswith(f"\n- {JOKES}")
        assert "1 rule was revoked" in (await bot.says("/rules revoke all")).text
        assert await texts(bot) == [JOKES]
        assert "has no rules of its own" in (await bot.says("/rules revoke all")).text
        await bot.says("/rules revoke 2")
        assert await texts(bot) == []
        await say_all(bot, "/rules undo", "/rules undo")
        assert await texts(bot) == [BOSS, JOKES]
        kinds = [one["kind"] for one in ((await bot.says("/rules history")).data or {})["changes"]]
        assert kinds == ["revoke", "revoke", "move", "edit", "add", "add"]


async def test_undo_takes_back_its_own_change_and_no_other(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await say_all(bot, f"/rules add {BOSS}", f"/rules add {JOKES}", "/rules revoke all")
        await bot.says("/rules undo 2")
        assert await texts(bot) == [JOKES]
        await bot.says("/rules undo")
        assert await texts(bot) == [BOSS, JOKES]
        await say_all(bot, "/rules move 1 everywhere")
        await bot.says("/rules edit 1 Ask me first.", "other")
        await bot.says("/rules undo")
        assert await texts(bot) == ["Ask me first.", JOKES], "what was done elsewhere stays"
        assert ((await bot.says("/rules", "other")).data or {})["rules"] == []


async def test_a_wrong_line_changes_nothing_and_says_what_to_do(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says(f"/rules add {BOSS}")
        lines = ("nonsense", "add", "add !", "keep", "keep 1", "keep 7", "dismiss 1", "edit 1")
        for line in (*lines, "edit x y", "move 1 nowhere", "revoke one", "undo x", "move 1"):
            reply = await bot.says(f"/rules {line}")
            assert reply.problem == "command_refused", line
            assert "/rules" in reply.text or "sentence" in reply.text or "number" in reply.text
        assert await texts(bot) == [BOSS]


async def test_a_chats_rules_hold_in_its_branches_and_not_elsewhere(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Hi")
        await say_all(bot, f"/rules add {BOSS}", "/fork t1", "And here?")
        assert BOSS in system(bot)
        await bot.says("Hello", "other")
        assert BOSS not in system(bot)
        assert "no rule 1 here" in (await bot.says("/rules revoke 1", "other")).text


async def test_what_exceeds_the_limit_is_refused_with_its_tokens(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"rules": {"max_tokens": 100, "detect": "auto"}}
    long = "Never use the words " + "alpha beta gamma delta " * 12
    async with run_bot(tmp_path, echo, settings) as bot:
        await bot.says(f"/rules add {BOSS}")
        refused = await bot.says(f"/rules add {long}")
        assert "the rules would have 1" in refused.text
        assert "the most is 100 (rules.max_tokens)" in refused.text
        assert "/config rules.max_tokens 200" in refused.text
        reply = await bot.says(f"{long}.")
        assert commands(reply)[0] == "/rules keep 2", "it is asked about where it can't be kept"
        assert "the most is 100" in (await bot.says("/rules keep 2")).text
        await say_all(bot, "/config rules.max_tokens 200", "/rules keep 2", "Hi")
        assert long.strip() in system(bot)
        await say_all(bot, "/config rules.max_tokens 50", "Hi")
        assert long.strip() in system(bot), "none is dropped where the limit is lowered"


async def test_the_context_shows_them_and_what_removes_turns_says_that_they_stay(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, echo) as bot:
        assert ((await bot.says("/context")).data or {})["parts"]["standing instructions"] == 0
        await say_all(bot, "first", "second", f"/rules add {BOSS}", f"/rules add {JOKES}")
        for line in ("/context", "/context map"):
            data = (await bot.says(line)).data or {}
            assert data["parts"]["standing instructions"] > 40, line
        assert sum(data["parts"].values()) == ((await bot.says("/context")).data or {})["tokens"]
        said = "2 standing instructions stay in force: “Never send anything"
        for line in (
            "/context clear",
            "/context summary",
            "/new",
            "/context compact",
            "/context free",
        ):
            reply = await bot.says(line)
            if line != "/new":
                assert said in reply.text, line
                assert (reply.data or {})["in_force"] == [BOSS, JOKES]
        await say_all(bot, "third", "fourth")
        assert said in (await bot.says("/context compact t3")).text
        await bot.says("/rules revoke all")
        assert "in force" not in (await bot.says("/context clear")).text


async def test_what_can_be_kept_is_shown_to_its_end(tmp_path: Path) -> None:
    long = "Never use the words " + "alpha beta gamma " * 30 + "or omega"
    async with afar(tmp_path) as bot:
        await befriended(bot, "ann")
        for line, number in ((long, 1), (f"/rules add {long} {long}", 2)):
            for said in (line, f"/rules keep {number}"):
                reply = await bot.says(said, "group", OWNER if "keep" in said else "ann")
                assert line.removeprefix("/rules add ") in reply.text, said
                assert reply.actions


@pytest.mark.parametrize(
    ("text", "is_own", "count"),
    [
        (f"{BOSS} \n\n today", False, 1),
        ("Never " * 101, False, 0),
        ("Never " * 101, True, 1),
        (" \n", False, 0),
        ("…", True, 0),
    ],
)
async def test_an_export_of_others_brings_short_rules_only(
    text: str, is_own: bool, count: int
) -> None:
    content = json.dumps([{"text": text, "scope": "everywhere", "state": "active", "turn": 3}])
    key = ConversationKey("pipe/main", "pipe/main")
    brought = await import_entry({}, key, content.encode(), is_own=is_own, is_rehearsal=True)
    assert brought == count


async def test_rules_that_moved_elsewhere_are_not_shown_where_they_were(tmp_path: Path) -> None:
    secret = "Never tell ZEBRAWORD"
    async with run_bot(tmp_path, echo) as bot:
        await say_all(bot, f"/rules add --everywhere {BOSS}", f"/rules add {JOKES}")
        await bot.says("/rules move 1 here", "other")
        await bot.says(f"/rules edit 1 {secret}", "other")
        for line in ("/rules history", "/rules undo 1", "/rules history"):
            reply = await bot.says(line)
            assert not reply.problem, reply.text
            for words in (secret, BOSS):
                assert words not in f"{reply.text} {reply.data}", line
        assert JOKES in (await bot.says("/rules history")).text
        assert secret in (await bot.says("/rules history", "other")).text


async def test_in_telegram_it_has_two_buttons(tmp_path: Path) -> None:
    async with at_telegram(tmp_path, [Say("Fine."), Say("Yes.")]) as bot:
        bot.ann.says(BOSS)
        answer = await bot.telegram.shown("Keep this as a rule?")
        assert [*answer.buttons] == ["Keep", "Dismiss"]
        bot.ann.presses(answer, "Keep")
        kept = await bot.telegram.shown("Kept as a rule in this conversation")
        bot.ann.presses(kept, "Everywhere")
        await bot.telegram.shown("Rule 1 holds everywhere now.")
        bot.ann.says("And?")
        await bot.telegram.shown("Yes.")
        assert BOSS in bot.model.turns[-1].body["messages"][0]["content"]
