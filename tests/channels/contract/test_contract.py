"""Tests of the duties of every messenger channel, by a whole bot on each platform."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from bot.data_folder import DATABASE
from channels.base import WithHealth
from channels.message import Address
from plugins.approvals.feature import Approvals
from plugins.operations.doctor import check_health
from plugins.shell import feature as shell
from plugins.shell.box import CommandResult
from tests.channels.contract.stage import Ability, Seen, Stage
from tests.channels.contract.stages import SERVERS, STAGES, list_stages
from tests.channels.contract.testbot import at_platform
from tests.fakes.openai_server import Call, Received, Say
from tests.waiting import PATIENCE, until
from tests.whole.testbot import TestChannel

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360000000000500010d0a2db40000000049454e44ae426082"
)
LONG = "\n\n".join(f"Paragraph {n}. " + f"word{n} " * 60 for n in range(60))
MARKUP = {
    "Half **bold and `code, [a link](http://x.example, ~~gone\n\n> quote\n\n- a\n  - b\n\n* * *\n"
    "Broken.": ("Half", "bold", "code", "a link", "quote"),
    "See:\n\n```python\nif a < b and c > d:\n    print('& so on')  # *not* bold\n```\n\nDone.": (
        *("if a < b and c > d:", "print('& so on')", "# *not* bold"),
    ),
    "| fruit | price |\n|---|---|\n| apple | 3 |\n| pear & plum | 4 |\n\nAll.": (
        *("fruit", "price", "apple", "3", "pear & plum", "4"),
    ),
}
"""Answers, and their visible text."""


IN_PROCESS = STAGES.keys() - SERVERS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test with the platforms that have its requirements, with servers in this process."""
    run_over(metafunc, IN_PROCESS)


def run_over(metafunc: pytest.Metafunc, names: Collection[str]) -> None:
    """Run a test with those of these platforms that have its requirements."""
    if "stage" in metafunc.fixturenames:
        metafunc.parametrize("stage", find_stages(metafunc.function, names), indirect=True)


def find_stages(test: Any, names: Collection[str]) -> list[ParameterSet]:
    """Return those of these platforms that have a test's requirements."""
    marker = next((one for one in getattr(test, "pytestmark", ()) if one.name == "needs"), None)
    if marker is None:
        return list_stages((), names)
    only = marker.kwargs.get("only", "")
    return list_stages(marker.args, {only} & {*names} if only else names)


@pytest.fixture
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    found: Stage = request.param()
    if found.server_fixture:
        found.use(request.getfixturevalue(found.server_fixture))
    await found.open()
    try:
        yield found
    finally:
        await found.close()


def question_of(got: Received) -> str:
    """Return the newest question as the model gets it; in a group the author's name precedes it."""
    return str(got.body["messages"][-1]["content"])


ASKS = Say(calls=(Call("shell", json.dumps({"command": "echo hello"}), "c1"),))
WITH_SHELL = {"tools": {"shell": True, "shell_unboxed": True}}


@pytest.fixture
def runs_hello(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a permitted command print hello, whatever it is."""

    async def run(*_given: object) -> CommandResult:
        return CommandResult(0, b"hello", b"", 0)

    monkeypatch.setattr(shell, "_BOX", [False])
    monkeypatch.setattr("plugins.shell.box.run", run)


def echo(got: Received) -> Say:
    return Say(f"re {question_of(got)}")


def needs(*abilities: Ability, **only: str) -> pytest.MarkDecorator:
    """Select the platforms that have all of these; `only` is one, for behaviour without platform
    code."""
    return pytest.mark.needs(*abilities, **only)


def words_of(seen: list[Seen]) -> list[str]:
    return " ".join(one.text for one in seen).split()


async def test_messages_of_a_chat_are_answered_in_order(stage: Stage, tmp_path: Path) -> None:
    async with at_platform(stage, tmp_path, echo) as bot:
        for number in range(3):
            await stage.say(f"number {number}")
        seen = await stage.until(
            lambda all_: sum("re number" in one.text and "…" not in one.text for one in all_) == 3
        )
        told = [one.text.strip() for one in seen if "re number" in one.text]
        assert told == [f"re number {number}" for number in range(3)]
        await bot.is_idle()
        assert bot.asked() == [f"number {number}" for number in range(3)]
        assert bot.state == "up"


@needs("stranger")
async def test_a_stranger_gets_a_code_and_nothing_else(stage: Stage, tmp_path: Path) -> None:
    async with at_platform(stage, tmp_path) as bot:
        await stage.say("Let me in!", by="bob")
        (seen,) = await stage.until(lambda all_: all_, by="bob")
        assert "/pair" in seen.text
        await bot.is_idle()
        assert bot.asked() == []


@needs("redeliver")
async def test_what_comes_again_is_answered_once(stage: Stage, tmp_path: Path) -> None:
    """Messages and choices are handled while the bot runs, and after a restart."""
    async with at_platform(stage, tmp_path, echo) as bot:
        await stage.say("one")
        await stage.shown("re one")
        await stage.redeliver()
        await stage.say("two")
        await stage.shown("re two")
        await stage.say("/context")
        await choose(stage, "Clear", "In context")
        await choose(stage, "No", "are you sure?")
        await bot.is_idle()
        assert bot.asked() == ["one", "two"]
    async with at_platform(stage, tmp_path, echo) as bot:
        await stage.redeliver()
        await stage.say("three")
        await stage.shown("re three")
        await bot.is_idle()
        assert bot.asked() == ["three"]
    assert sum("re one" in one.text for one in await stage.see()) == 1


@needs("edit")
async def test_an_edited_message_is_taken_as_it_is_now(stage: Stage, tmp_path: Path) -> None:
    async with at_platform(stage, tmp_path, echo) as bot:
        message = await stage.say("Wat?")
        await stage.shown("re Wat?")
        await stage.edit(message, "Wat?")  # the same text: no change
        await stage.edit(message, "What?")
        await stage.shown("re What?")
        await bot.is_idle()
        assert bot.asked() == ["Wat?", "What?"]


@needs("delete")
async def test_a_deleted_message_breaks_nothing(stage: Stage, tmp_path: Path) -> None:
    async with at_platform(stage, tmp_path, echo):
        message = await stage.say("one")
        await stage.shown("re one")
        await stage.delete(message)
        await stage.say("two")
        await stage.shown("re two")


async def test_long_answers_and_markup_arrive_whole_and_in_order(
    stage: Stage, tmp_path: Path
) -> None:
    async with at_platform(stage, tmp_path, list(map(Say, (*MARKUP, LONG)))) as bot:
        for number, text in enumerate(MARKUP):
            await stage.say(f"Show me {number}")
            await stage.shown(text.split()[-1])
        await bot.is_idle()
        shown = [one.text for one in await stage.see()]
        said = " ".join(shown)
        assert [word for words in MARKUP.values() for word in words if word not in said] == []
        await stage.say("Tell me everything")
        await stage.until(
            lambda all_: any(b"word59" in one.file for one in all_) or "word59" in words_of(all_)
        )
        await bot.is_idle()
        seen = [one for one in (await stage.see())[len(shown) :] if "code" not in one.buttons]
    if whole := next((one.file for one in seen if one.file), b""):
        assert whole.decode().split() == LONG.split()
    else:
        kept = [word for word in words_of(seen) if word.startswith("word")]
        assert kept == [word for word in LONG.split() if word.startswith("word")]


@needs("refuse")
async def test_what_the_platform_refuses_goes_as_plain_text(stage: Stage, tmp_path: Path) -> None:
    async with at_platform(stage, tmp_path, [Say("So **it** is")]):
        await stage.refuse_markup()
        await stage.say("Is it?")
        await stage.until(lambda all_: any("it" in one.text and "So" in one.text for one in all_))


@needs("file", "picture", "voice")
async def test_files_go_both_ways(stage: Stage, tmp_path: Path) -> None:
    async with at_platform(stage, tmp_path, lambda got: Say("Seen.")) as bot:
        await stage.send_file("notes.txt", b"milk and eggs", "text/plain", "What is this?")
        await stage.shown("Seen.")
        await bot.is_idle()
        assert "notes.txt" in str(bot.model.turns[-1].body["messages"])
        kept = [*(tmp_path / "data").rglob("notes*.txt")]
        assert [path.read_bytes() for path in kept] == [b"milk and eggs"]
        await stage.send_file("dot.png", PNG, "image/png", "And this?")
        await stage.until(lambda all_: len(bot.model.requests) == 2)
        await bot.is_idle()
        assert "image_url" in str(bot.model.turns[-1].body["messages"][-1])
        count = len(await stage.see())
        await stage.send_file("voice.ogg", b"OggS" + bytes(60), "audio/ogg")
        await stage.until(lambda all_: len(all_) > count)
        await stage.say("/context map")
        await stage.until(lambda all_: any(one.file[:4] == b"\x89PNG" for one in all_))
        await bot.is_idle()


async def choose(stage: Stage, label: str, words: str) -> None:
    """Press a button, or answer with its number, below the message with these words."""
    if "buttons" in stage.can:  # which may be added below a message later
        seen = await stage.shown(words, button=label)
        await stage.press(seen, next(one for one in seen.buttons if label in one))
        return
    seen = await stage.shown(words)
    line = next(line for line in seen.text.splitlines() if label in line and line[:1].isdigit())
    await stage.say(line.partition(".")[0])


async def test_a_choice_is_made_and_asks_first(stage: Stage, tmp_path: Path) -> None:
    async with at_platform(stage, tmp_path, [Say("Hello!")]) as bot:
        await stage.say("Remember: the word is plum")
        await stage.shown("Hello!")
        await stage.say("/context")
        await choose(stage, "Clear", "In context")
        await choose(stage, "Yes", "are you sure?")
        await stage.shown("undo")
        await bot.is_idle()
        assert bot.asked() == ["Remember: the word is plum"], "a choice never reaches the model"


@needs("typing")
async def test_the_bot_shows_that_it_thinks(stage: Stage, tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with at_platform(stage, tmp_path, [Say("Yes, I am here.", gate=gate)]):
        await stage.say("Are you there?")
        await stage.until(lambda all_: stage.has_typed())
        gate.set()
        await stage.shown("Yes, I am here.")


@needs("stream")
async def test_an_answer_streams_and_is_there_once(stage: Stage, tmp_path: Path) -> None:
    text = " ".join(f"word{n}" for n in range(40))
    gate = asyncio.Event()
    async with at_platform(stage, tmp_path, [Say(text, pieces=40, gate=gate)]) as bot:
        await stage.say("Count")
        await stage.shown("word0 ")
        gate.set()
        await stage.shown("word39")
        await bot.is_idle()
        seen = await stage.see()
        assert stage.has_streamed()
        assert words_of(seen) == text.split(), "one message, with nothing of the draft left"


@needs("wait")
async def test_a_platform_that_asks_to_wait_is_left_alone_and_told_then(
    stage: Stage, tmp_path: Path
) -> None:
    async with at_platform(stage, tmp_path, [Say("Here I am")]):
        await stage.ask_to_wait(1)
        await stage.say("Hello?")
        await stage.shown("Here I am")


@needs("group")
async def test_in_a_group_it_answers_who_speaks_to_it_and_keeps_what_is_private(
    stage: Stage, tmp_path: Path
) -> None:
    async with at_platform(stage, tmp_path, lambda got: Say("Noted.")) as bot:
        await stage.say("My secret is plum")
        await stage.shown("Noted.")
        await stage.say("Nice weather", "group", mention=False)
        await stage.say("And you?", "group")
        await stage.shown("Noted.", "group")
        await bot.is_idle()
        _private, request = bot.model.requests
        messages = request.body["messages"]
        assert "And you?" in str(messages[-1]["content"])
        assert "Ann" in str(messages), "the model is told who speaks"
        assert "Nice weather" not in str(messages)
        assert "plum" not in str(messages)


@needs("thread")
async def test_a_thread_is_a_conversation_and_is_answered_there(
    stage: Stage, tmp_path: Path
) -> None:
    async with at_platform(stage, tmp_path, lambda got: Say("Here.")) as bot:
        await stage.say("outside", "group")
        await stage.shown("Here.", "group")
        thread = await stage.open_thread()
        await stage.say("inside", "group", thread=thread)
        await stage.until(lambda all_: any(one.thread == thread for one in all_), "group")
        await bot.is_idle()
        assert "outside" not in str(bot.model.turns[-1].body["messages"][1:])


@needs("thread", "picture")
async def test_pictures_and_long_answers_stay_in_their_thread(stage: Stage, tmp_path: Path) -> None:
    long = " ".join(f"word{number}" for number in range(20_000))
    story = lambda got: Say("No." if got.is_summary else long)  # noqa: E731
    async with at_platform(stage, tmp_path, story) as bot:
        await stage.say("outside", "group", mention=False)
        thread = await stage.open_thread()
        await stage.say("/context map", "group", thread=thread)
        await stage.until(lambda all_: any(one.file[:4] == b"\x89PNG" for one in all_), "group")
        await stage.say("Tell me everything", "group", thread=thread)
        await stage.until(
            lambda all_: any(b"word19999" in one.file or "word19999" in one.text for one in all_),
            "group",
        )
        await bot.is_idle()
        assert {one.thread for one in await stage.see("group")} == {thread}


@needs("react")
@pytest.mark.usefixtures("runs_hello")
async def test_a_reaction_approves_and_another_stops(stage: Stage, tmp_path: Path) -> None:
    gate = asyncio.Event()
    script = [ASKS, Say("It is done."), Say("a very long story", gate=gate)]
    async with at_platform(stage, tmp_path, script, WITH_SHELL) as bot:
        await stage.say("Write it down")
        seen = await stage.shown("Allow the model to do this?")
        await stage.react(seen, "👍")
        await stage.shown("It is done.")
        assert any("hello" in str(m) for m in bot.model.turns[-1].body["messages"])
        await stage.say("Go on")
        await stage.until(lambda all_: len(bot.model.requests) == 3)
        await stage.react(seen, "🛑")
        await bot.is_idle()  # and does not wait for the story


@needs("settle")
@pytest.mark.usefixtures("runs_hello")
@pytest.mark.parametrize("way", ["chosen", "typed", "refused", "said", "stopped"])
async def test_a_question_that_was_answered_says_so_and_has_no_more_buttons(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A message that can be edited shows it; a refused answer changes nothing."""
    monkeypatch.setattr(Approvals, "_new_name", lambda *_: "K7QM")
    script = [ASKS, *([] if way == "stopped" else [Say("It is done.")])]
    async with at_platform(stage, tmp_path, script, WITH_SHELL):
        await stage.say("Write it down")
        button = "Allow once" if "buttons" in stage.can else ""  # added below a message later
        asked = await stage.shown("Allow the model to do this?", button=button)
        if way == "refused":
            await stage.say("/deny MQ7K")
            await stage.shown("No question is waiting")
            assert (await stage.shown("Allow the model to do this?")).buttons == asked.buttons
        if way == "chosen":
            await choose(stage, "Allow once", "Allow the model to do this?")
        else:
            words = {"said": "Yes.", "stopped": "/stop"}
            await stage.say(words.get(way, "/approve k7qm once"))
        if way != "stopped":
            await stage.shown("It is done.")
        seen = await stage.shown("✗ Stopped" if way == "stopped" else "✓ Allow once")
        assert (seen.id, seen.buttons) == (asked.id, ())
        assert "echo hello" in seen.text
        assert "Answer with a number" not in seen.text


@needs("settle", "wait")
@pytest.mark.usefixtures("runs_hello")
@pytest.mark.parametrize("when", ["card", "draft"])
async def test_a_platform_that_asks_to_wait_while_a_message_is_edited_shows_it_at_last(
    stage: Stage, tmp_path: Path, when: str
) -> None:
    gate = asyncio.Event()
    text = " ".join(f"word{n}" for n in range(40))
    script = [ASKS, Say(text, pieces=40, gate=gate)]
    async with at_platform(stage, tmp_path, script, WITH_SHELL) as bot:
        await stage.say("Write it down")
        asked = await stage.shown("Allow the model to do this?")
        if when == "card":
            for seconds in (90, 7, 90):
                await stage.ask_to_wait_to_edit(seconds)
        await choose(stage, "Allow once", "Allow the model to do this?")
        if when == "draft":
            await stage.shown("word0 ")
            for seconds in (90, 7, 90):
                await stage.ask_to_wait_to_edit(seconds)
        gate.set()
        await stage.shown("word39")
        seen = await stage.shown("✓ Allow once")
        assert (seen.id, seen.buttons) == (asked.id, ())
        await bot.is_idle()
        told = " ".join(one.text for one in await stage.see() if one.id != seen.id)
        assert told.split().count("word39") == 1
        assert "…" not in told


@needs("outage")
async def test_after_a_cut_and_an_outage_nothing_is_lost(stage: Stage, tmp_path: Path) -> None:
    async with at_platform(stage, tmp_path, echo) as bot:
        await stage.say("one")
        await stage.shown("re one")
        if "cut" in stage.can:
            await stage.cut()
            await stage.say("after the cut")
            await stage.shown("re after the cut")
        await stage.outage(is_on=True)
        await until(lambda: bot.state == "troubled")
        await stage.outage(is_on=False)
        await stage.say("two")
        await stage.shown("re two")
        await until(
            lambda: bot.state == "up"
        )  # it may be shown before the platform has confirmed it


@needs("outage", only="discord")
async def test_status_and_doctor_say_that_the_platform_is_out_of_reach(
    stage: Stage, tmp_path: Path
) -> None:
    async with at_platform(stage, tmp_path, echo) as bot:
        await stage.say("one")
        await stage.shown("re one")
        await stage.outage(is_on=True)
        await until(lambda: bot.state != "up")
        here = Address("terminal", "main")
        said = await bot.app.bot.command(here, "/status")
        assert f"The channel {stage.name} can't be reached since" in said.text
        await stage.outage(is_on=False)
        await stage.say("two")
        await stage.shown("re two")
        await until(lambda: bot.state == "up")
        assert "can't be reached" not in (await bot.app.bot.command(here, "/status")).text
    finding = [one for one in check_health(tmp_path / "data" / DATABASE) if stage.name in one.name]
    assert not finding, "it was well when it was stopped"


@needs("outage", only="feishu")
async def test_an_outage_does_not_keep_the_bot_from_ending(stage: Stage, tmp_path: Path) -> None:
    """The reply is kept for the next start."""
    gate = asyncio.Event()
    hurried = {"shutdown_timeout": 0}
    async with at_platform(stage, tmp_path, [Say("Here it is.", gate=gate)], hurried) as bot:
        await stage.say("Send it")
        await asyncio.wait_for(bot.model.reached.acquire(), PATIENCE)
        await stage.outage(is_on=True)
        gate.set()
        for queues in (bot.app.bot.commands.queues, bot.app.turns.queues):
            await asyncio.wait_for(queues.idle(), PATIENCE)
    await stage.outage(is_on=False)
    async with at_platform(stage, tmp_path):
        await stage.shown("Here it is.")


@needs("revoke")
async def test_a_revoked_token_is_said_and_the_log_has_no_secret(
    stage: Stage, tmp_path: Path
) -> None:
    async with at_platform(stage, tmp_path, [Say("Hello!")]) as bot:
        await stage.say("Hi")
        await stage.shown("Hello!")
        await stage.revoke()
        await asyncio.wait({bot.running}, timeout=PATIENCE)
        assert isinstance(bot.channel, WithHealth)
        assert bot.state == "down"
        assert bot.channel.health.reason
    logs = "".join(path.read_text() for path in (tmp_path / "logs").rglob("*") if path.is_file())
    assert logs
    assert not [secret for secret in stage.secrets if secret in logs]


@needs("late")
async def test_another_clock_confuses_nothing(stage: Stage, tmp_path: Path) -> None:
    async with at_platform(stage, tmp_path, echo):
        for text, age in (("from tomorrow", -3_600.0), ("from yesterday", 86_400.0)):
            await stage.say(text, age=age)
            await stage.shown(f"re {text}")


def searching(got: Received) -> Say:
    """A model that searches for a word on request, and reports the result."""
    last = got.body["messages"][-1]
    if last["role"] == "tool":
        return Say(f"found {last['content']}")
    if "Search" in str(last["content"]):
        call = Call("context_search", json.dumps({"query": "plum"}), f"c{len(got.raw)}")
        return Say(calls=(call,))
    return Say("Noted.")


@needs("stranger", only="telegram")
async def test_a_person_has_one_conversation_over_all_channels(
    stage: Stage, tmp_path: Path
) -> None:
    here = TestChannel("pipe")
    async with at_platform(stage, tmp_path, searching, beside=here) as bot:
        found = re.search(r"`/link ([A-Z2-9-]+)`", (await here.says("/link")).text)
        assert found
        await stage.say(f"/link {found[1]}")
        await stage.shown("until then nothing changes")
        await here.says("/link yes")
        await stage.shown("is linked to the conversation of")
        await stage.say("My word is plum")
        await stage.shown("Noted.")
        await bot.is_idle()
        await here.says("What is my word?")
        assert "My word is plum" in str(bot.model.turns[-1].body["messages"])


@needs("stranger", "group", only="telegram")
async def test_memory_stays_with_its_audience_whoever_looks_for_it(
    stage: Stage, tmp_path: Path
) -> None:
    here = TestChannel("pipe")
    async with at_platform(stage, tmp_path, searching, beside=here) as bot:
        await stage.say("My word is plum")
        await stage.shown("Noted.")
        await stage.say("Let me in!", by="bob")
        seen = await stage.shown("/pair", by="bob")
        code = re.search(r"/pair ([A-Z0-9-]+)", seen.text)
        assert code
        await here.says(f"/pair {code[1]}")
        await stage.say("Search for it", by="bob")
        await stage.shown("found", by="bob")
        await stage.say("Search for it", "group")
        await stage.shown("found", "group")
        await here.says("Search for it")
        await bot.is_idle()
        told = [str(request.body["messages"]) for request in bot.model.requests][1:]
        assert len(told) == 6
        assert not [one for one in told if "My word is plum" in one]
