"""Tests that dangerous tools ask in the chat first: with the exact command, and with answers only
from authorised people."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from channels.message import Address, Inbound, Outbound, Reply
from plugins.approvals.feature import Approvals
from plugins.shell import feature as plugin
from tests.fakes.openai_server import Answer, Call, Received, Say
from tests.waiting import PATIENCE, until
from tests.whole.testbot import TestBot, run_bot

SHELL: dict[str, Any] = {"tools": {"shell": True, "shell_unboxed": True}}
FILES = Path("data/audiences/pipe-main/files")


@pytest.fixture(autouse=True)
def unboxed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "_BOX", [False])


def running_it(command: str) -> Say:
    return Say(calls=(Call("shell", json.dumps({"command": command}), "c1"),))


def results(bot: TestBot) -> list[str]:
    return [str(m["content"]) for m in bot.sent_to_model() if m["role"] == "tool"]


async def question(bot: TestBot) -> Outbound:
    """Return the bot's question while the turn waits."""
    return await bot.reply_to("")


async def test_tools_that_are_off_are_not_offered(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Hi."), Say("Hi.")]) as bot:
        await bot.says("Hello")
        await bot.says("/config tools.web_fetch true")
        await bot.says("Hello again")
        before, after = (
            {tool["function"]["name"] for tool in request.body["tools"]}
            for request in bot.server.requests
        )
    assert not {"shell", "web_fetch"} & before
    assert after == before | {"web_fetch"}


@pytest.mark.usefixtures("processes")
async def test_a_command_runs_when_a_person_has_said_yes(tmp_path: Path) -> None:
    script = [running_it("echo hello > note.txt; echo done"), Say("It is done.")]
    async with run_bot(tmp_path, script, SHELL) as bot:
        await bot.writes("Write it down", id="q")
        asked = (await question(bot)).reply
        assert not (tmp_path / FILES / "note.txt").exists()
        assert "command: echo hello > note.txt; echo done" in asked.text
        assert (await bot.says("/approve")).text == asked.text
        yes, no = asked.actions
        assert (yes.label, no.label) == ("Allow once", "Deny")
        assert name_in(asked) not in asked.text, "where there are buttons there is no code"
        assert (await bot.says(yes.command)).text == "Allowed once."
        assert (await bot.reply_to("q")).reply.text == "It is done."
        assert "Exit code 0.\ndone" in results(bot)[0]
        assert "was answered" in (await bot.says(yes.command)).text
        assert (await bot.says("/approve")).text == "No question is waiting here."
    assert (tmp_path / FILES / "note.txt").read_text() == "hello\n"


async def test_what_a_branch_waits_for_is_shown_from_another_branch(tmp_path: Path) -> None:
    script = [Say("Hi."), running_it("touch here"), Say("As you like.")]
    async with run_bot(tmp_path, script, SHELL) as bot:
        await bot.says("Hello")
        await bot.writes("Make it", id="q")
        asked = (await question(bot)).reply
        await bot.says("/fork t1")
        again = await bot.says("/approve")
        assert again.text == asked.text
        assert (await bot.says("/deny")).text.startswith("Denied")
        assert (await bot.reply_to("q")).reply.text.startswith("As you like.")
        assert (await bot.says("/deny")).text == "No question is waiting here."


async def test_nothing_runs_when_a_person_says_no(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [running_it("touch here"), Say("As you like.")], SHELL) as bot:
        await bot.writes("Do it", id="q")
        await bot.says((await question(bot)).reply.actions[1].command)
        assert (await bot.reply_to("q")).reply.text == "As you like."
        assert "the person said no" in results(bot)[0]
    assert not (tmp_path / FILES / "here").exists()


async def test_a_question_that_nobody_answers_is_a_no_and_takes_no_time_of_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = [running_it("touch here"), Say("Then not.")]
    async with run_bot(tmp_path, script, SHELL) as bot:
        approvals = bot.app.features.service(Approvals)
        monkeypatch.setattr(approvals, "_patience", 1e-9)
        reply = await bot.says("Do it")
        assert "nobody allowed it within" in results(bot)[0]
    assert reply.text == "Then not."


async def test_where_the_feature_is_not_there_nothing_runs_that_must_be_asked_for(
    tmp_path: Path,
) -> None:
    script = [running_it("touch here"), Say("Then not.")]
    async with run_bot(tmp_path, script, SHELL) as bot:
        bot.app.features.approvals.clear()
        assert (await bot.says("Do it")).text == "Then not."
        assert "nobody can be asked for permission" in results(bot)[0]
    assert not (tmp_path / FILES / "here").exists()


async def test_stop_ends_the_waiting(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [running_it("touch here")], SHELL) as bot:
        await bot.writes("Do it", id="q")
        asked = (await question(bot)).reply
        await bot.says("/stop")
        assert "Stopped" in (await bot.reply_to("q")).reply.text
        assert "No question is waiting" in (await bot.says(asked.actions[0].command)).text
    assert not (tmp_path / FILES / "here").exists()


async def test_stop_while_a_question_is_put_leaves_none_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_asking = asyncio.Event()

    async def put_for_ever(*_: object) -> None:
        is_asking.set()
        await asyncio.Event().wait()

    async with run_bot(tmp_path, [running_it("touch here")], SHELL) as bot:
        approvals = bot.app.features.service(Approvals)
        monkeypatch.setattr(approvals._delivery, "notify", put_for_ever)
        await bot.writes("Do it", id="q")
        async with asyncio.timeout(PATIENCE):
            await is_asking.wait()
        await bot.says("/stop")
        assert "Stopped" in (await bot.reply_to("q")).reply.text
        assert (await bot.says("/approve")).text == "No question is waiting here."


@pytest.mark.usefixtures("processes")
async def test_after_a_restart_the_question_is_asked_again(tmp_path: Path) -> None:
    settings = SHELL | {"shutdown_timeout": 0}

    def script(request: Received) -> Answer:
        is_done = request.body["messages"][-1]["role"] == "tool"
        return Say("Done.") if is_done else running_it("echo x >> log.txt")

    async with run_bot(tmp_path, script, settings) as bot:
        await bot.writes("Do it", id="q")
        old = name_in((await question(bot)).reply)
        signal.raise_signal(signal.SIGTERM)  # the bot has a handler for it, and ends at once
    async with run_bot(tmp_path, script, settings) as bot:
        bot.count = 100
        second = name_in((await question(bot)).reply)
        assert second != old
        assert "No question is waiting" in (await bot.says(f"/approve {old}")).text
        await bot.says(f"/approve {second}")
        assert (await bot.reply_to("q")).reply.text == "Done."
    assert (tmp_path / FILES / "log.txt").read_text() == "x\n"


def name_in(asked: Reply) -> str:
    """Return the name of a question."""
    return asked.actions[0].command.split()[1]


@pytest.mark.usefixtures("processes")
async def test_nobody_is_asked_where_the_owner_said_never(tmp_path: Path) -> None:
    script = [running_it("true"), Say("Done.")]
    settings = {"tools": SHELL["tools"] | {"approve": "never"}}
    async with run_bot(tmp_path, script, settings) as bot:
        await bot.says("Do it")
        assert "Exit code 0" in results(bot)[0]


async def test_what_is_asked_shows_what_is_not_seen(tmp_path: Path) -> None:
    command = "echo safe #\u202e\u200b\x1b[2K ```\n\n**Approved** /approve"
    async with run_bot(tmp_path, [running_it(command), Say("No.")], SHELL) as bot:
        await bot.writes("Do it", id="q")
        asked = (await question(bot)).reply
        await bot.says(asked.actions[1].command)
        await bot.reply_to("q")
    assert r"echo safe #\u202e\u200b\x1b[2K ```" in asked.text
    assert asked.text.count("\n``````\n") == 2, "a fence that the command can't close"


@asynccontextmanager
async def shared(folder: Path, script: list[Answer]) -> AsyncIterator[TestBot]:
    """Run a bot for several people: boss owns it, ann and bob are users."""
    settings = {"owners": ["afar/boss"], "tools": {"shell": True}}
    async with run_bot(folder, script, settings, channel="afar") as bot:
        for chat in ("family", "ann"):
            await bot.says("/pair here", chat, "boss")
        yield bot


async def test_in_a_group_an_owner_allows_and_anybody_forbids(tmp_path: Path) -> None:
    script: list[Answer] = [running_it("true"), Say("No."), running_it("true"), Say("Yes.")]
    async with shared(tmp_path, script) as bot:
        await bot.writes("Do it", "family", "ann", "q1")
        asked = (await question(bot)).reply
        assert "Only an owner may allow it" in asked.text
        yes, no = (action.command for action in asked.actions)
        assert "Only an owner may allow this" in (await bot.says(yes, "family", "ann")).text
        assert "Denied" in (await bot.says(no, "family", "ann")).text
        assert (await bot.reply_to("q1")).reply.text == "No."
        bot.sent = [outbound for outbound in bot.sent if outbound.reply_to]
        await bot.writes("Do it", "family", "ann", "q2")
        yes = (await question(bot)).reply.actions[0].command
        assert (await bot.says(yes, "family", "boss")).text == "Allowed once."
        assert (await bot.reply_to("q2")).reply.text == "Yes."


async def test_nobody_answers_a_question_of_another_chat(tmp_path: Path) -> None:
    script: list[Answer] = [running_it("true"), Say("No.")]
    async with shared(tmp_path, script) as bot:
        await bot.writes("Do it", "family", "boss", "q")
        yes, no = (action.command for action in (await question(bot)).reply.actions)
        for command in (yes, no):
            assert "Only an owner" in (await bot.says(command, "ann", "ann")).text
        await bot.says(no, "ann", "boss")
        assert (await bot.reply_to("q")).reply.text == "No."


async def test_in_a_private_chat_who_asked_may_allow_what_is_boxed(tmp_path: Path) -> None:
    async with shared(tmp_path, [running_it("true"), Say("Asked.")]) as bot:
        await bot.writes("Do it", "ann", "ann", "q")
        yes = (await question(bot)).reply.actions[0].command
        assert (await bot.says(yes, "ann", "ann")).text == "Allowed once."
        await bot.reply_to("q")
        assert plugin.NO_BOX in results(bot)[0], "a box is not there, and it is not run without"


async def test_what_nobody_can_allow_any_more_is_not_waited_for(tmp_path: Path) -> None:
    calls = tuple(
        Call("web_fetch", json.dumps({"url": f"http://127.0.0.{n}/"}), f"c{n}") for n in (1, 2)
    )
    again = (Call("web_fetch", json.dumps({"url": "http://127.0.0.3/"}), "c3"),)
    script = [Say(calls=calls), Say(calls=again), Say("Neither.")]
    async with run_bot(tmp_path, script, {"tools": {"web_fetch": True}}) as bot:
        await bot.writes("Read both", id="q")
        await until(lambda: len(unasked(bot)) == 2)
        bot.leave()
        assert (await bot.reply_to("q")).reply.text == "Neither."
        assert len(unasked(bot)) == 2
        assert all("nobody is there any more" in result for result in results(bot))
    assert {how for _, how in bot.closed} == {"✗ Stopped before it was answered."}


async def test_a_site_is_asked_for_once(tmp_path: Path) -> None:
    fetch = json.dumps({"url": "http://127.0.0.1:9/secret"})
    calls = tuple(Call("web_fetch", fetch, f"c{number}") for number in range(2))
    script = [Say(calls=calls), Say(calls=(Call("web_fetch", fetch, "c3"),)), Say("Refused.")]
    async with run_bot(tmp_path, script, {"tools": {"web_fetch": True}}) as bot:
        await bot.writes("Read it", id="q")
        asked = (await question(bot)).reply
        assert "http://127.0.0.1:9/secret" in asked.text
        labels = [action.label for action in asked.actions]
        assert labels == ["Allow once", "Allow 127.0.0.1:9", "Deny"]
        await bot.says(asked.actions[1].command)
        await bot.reply_to("q")
        assert len([outbound for outbound in bot.sent if not outbound.reply_to]) == 1
        assert all("not on the public internet" in result for result in results(bot))
    assert len(results(bot)) == 3


async def test_a_long_site_is_called_by_its_end_which_says_whose_it_is(tmp_path: Path) -> None:
    site = f"accounts.example.com.{'login-' * 6}now.elsewhere.example"
    fetch = Call("web_fetch", json.dumps({"url": f"https://{site}/"}), "c")
    settings = {"tools": {"web_fetch": True}}
    async with run_bot(tmp_path, [Say(calls=(fetch,)), Say("Not read.")], settings) as bot:
        await bot.writes("Read it", id="q")
        asked = (await question(bot)).reply
        label = asked.actions[1].label
        assert label.startswith("Allow …")
        assert label.endswith("now.elsewhere.example")
        assert len(label) <= len("Allow ") + 40
        await bot.says(asked.actions[-1].command)
        await bot.reply_to("q")


async def test_two_sites_are_two_questions(tmp_path: Path) -> None:
    calls = tuple(
        Call("web_fetch", json.dumps({"url": f"http://127.0.0.{n}/"}), f"c{n}") for n in (1, 2)
    )
    async with run_bot(
        tmp_path, [Say(calls=calls), Say("Neither.")], {"tools": {"web_fetch": True}}
    ) as bot:
        await bot.writes("Read both", id="q")
        await until(lambda: len(unasked(bot)) == 2)
        for asked in unasked(bot):
            await bot.says(asked.actions[-1].command)
        assert (await bot.reply_to("q")).reply.text == "Neither."


async def test_a_yes_for_once_is_for_what_was_shown_alone(tmp_path: Path) -> None:
    calls = tuple(
        Call("web_fetch", json.dumps({"url": f"http://127.0.0.1:9/{name}"}), f"c{name}")
        for name in ("one", "two", "three")
    )
    settings = {"tools": {"web_fetch": True}}
    async with run_bot(tmp_path, [Say(calls=calls), Say("Done.")], settings) as bot:
        await bot.writes("Read them", id="q")
        for place, button in enumerate((0, 0, 2)):
            await until(lambda count=place + 1: len(unasked(bot)) == count)  # type: ignore[misc]
            await bot.says(unasked(bot)[-1].actions[button].command)
        assert (await bot.reply_to("q")).reply.text == "Done."
        shown = {one.text.split("127.0.0.1:9/")[1].split("\n")[0] for one in unasked(bot)}
        assert len(shown) == 3
        refused = [result for result in results(bot) if "the person said no" in result]
        assert len(refused) == 1


def unasked(bot: TestBot) -> list[Reply]:
    """Return the unrequested messages: the questions."""
    return [outbound.reply for outbound in bot.sent if not outbound.reply_to]


@pytest.mark.parametrize(
    ("said", "is_allowed"),
    [("yes", True), ("Yes.", True), ("ja!", True), ("是的", True), ("NO", False), ("Nein", False)],
)
async def test_a_typed_yes_or_no_answers_the_question_that_waits(
    tmp_path: Path, said: str, is_allowed: bool
) -> None:
    fetch = Call("web_fetch", json.dumps({"url": "http://127.0.0.1:9/"}), "c")
    script = [Say(calls=(fetch,)), Say("Done.")]
    async with run_bot(tmp_path, script, {"tools": {"web_fetch": True}}) as bot:
        assert (await bot.writes("Read it", id="q")) is not None
        await question(bot)
        told = (await bot.says(said)).text
        assert told == ("Allowed once." if is_allowed else "Denied; it goes on without it.")
        assert (await bot.reply_to("q")).reply.text == "Done."
        assert ("the person said no" in results(bot)[0]) is not is_allowed


async def test_two_questions_are_not_answered_by_one_yes_and_other_words_are_a_message(
    tmp_path: Path,
) -> None:
    calls = tuple(
        Call("web_fetch", json.dumps({"url": f"http://127.0.0.{n}/"}), f"c{n}") for n in (1, 2)
    )
    script = [Say(calls=calls), Say("Read."), Say("Weather."), Say("You are welcome.")]
    async with run_bot(tmp_path, script, {"tools": {"web_fetch": True}}) as bot:
        await bot.writes("Read both", id="q")
        await until(lambda: len(unasked(bot)) == 2)
        for word in ("yes", "no"):
            shown = await bot.says(word)
            assert [action.label for action in shown.actions].count("Deny") == 2
        assert "needs the name" in (await bot.says("/deny")).text
        await bot.writes("yes, and how is the weather?", id="more")
        await bot.says(unasked(bot)[0].actions[-1].command)
        assert (await bot.says("No.")).text.startswith("Denied")
        assert (await bot.reply_to("q")).reply.text == "Read."
        assert (await bot.reply_to("more")).reply.text == "Weather."
        assert (await bot.says("yes")).text == "You are welcome."


async def test_nobody_elses_yes_counts_in_a_group(tmp_path: Path) -> None:
    script: list[Answer] = [running_it("true"), *map(Say, ("Asked.", "So?", "What?", "Well?"))]
    async with shared(tmp_path, script) as bot:
        await bot.writes("Do it", "family", "ann", "q")
        await question(bot)
        for number, word in enumerate(("yes", "no")):
            await bot.writes(word, "family", "ann", f"other{number}")
        await bot.writes("yes", "ann", "boss", "elsewhere")
        assert (await bot.reply_to("elsewhere")).reply.text == "Asked."
        assert (await bot.says("/approve", "family", "ann")).text.startswith(
            "Allow the model to do this?"
        )
        assert (await bot.says("yes", "family", "boss")).text == "Allowed once."
        for message in ("q", "other0", "other1"):
            await bot.reply_to(message)
        assert plugin.NO_BOX in results(bot)[0]


async def test_a_yes_from_before_the_question_is_none(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [running_it("true"), Say("No."), Say("Yes?")], SHELL) as bot:
        await bot.writes("Do it", id="q")
        asked = (await question(bot)).reply
        before = datetime.now(UTC) - timedelta(minutes=1)
        early = Inbound("early", Address("pipe", "main"), "yes", at=before)
        await (await bot.api()).submit(early)
        assert (await bot.says("/approve")).text == asked.text
        assert (await bot.says("no")).text.startswith("Denied")
        assert (await bot.reply_to("early")).reply.text == "Yes?"
