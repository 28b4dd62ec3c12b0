"""Forms: the person's next message is the input that a command asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot import forms
from channels.message import Address, Attachment, Inbound
from tests.fakes.openai_server import Hang, Say
from tests.whole.requests import with_plugin
from tests.whole.scenario import copy_as_killed
from tests.whole.telegram_testbot import at_telegram
from tests.whole.testbot import run_bot

pytestmark = pytest.mark.databases

PLUGIN = """
from plugins.api import Ask, CommandError, Form, Reply, command, hookimpl

KEPT = ["as it was"]

@command("note", "Keep a note")
async def note(ask: Ask) -> Reply:
    if not ask.text:
        return Reply("What shall it say?", form=Form("/note", KEPT[-1]))
    if "refuse" in ask.text:
        raise CommandError("That is no note.")
    KEPT.append(ask.text)
    return Reply(f"Kept: {ask.text}")

@hookimpl
def parley_commands():
    return [note]
"""


@pytest.fixture(autouse=True)
def plugin(tmp_path: Path) -> None:
    with_plugin(tmp_path, PLUGIN, "notes")


async def test_the_next_message_is_the_text_and_the_model_does_not_get_it(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Hello!")]) as bot:
        asked = await bot.says("/note")
        assert asked.form is not None
        assert "as it was" in asked.text
        assert "next message" in asked.text
        assert (await bot.says("two\nlines, /not a command")).text == (
            "Kept: two\nlines, /not a command"
        )
        assert (await bot.says("Hi")).text == "Hello!"
        assert [m["content"] for m in bot.sent_to_model() if m["role"] == "user"] == ["Hi"]
        assert "| t1 " in (await bot.says("/context turns")).text
        assert "lines" not in (await bot.says("/context detail")).text
        await bot.says("/note")
        await bot.says("```\ncode\n```")
        assert "````\n```\ncode\n```\n````" in (await bot.says("/note")).text, "it is in its block"


@pytest.mark.parametrize(
    "others", [["/whoami"], ["/context", "/help"], ["/nosuch"], ["/context drop t9"], ["/note me"]]
)
async def test_a_form_stays_open_over_other_commands_which_say_so(
    tmp_path: Path, others: list[str]
) -> None:
    async with run_bot(tmp_path, lambda request: Say("Hello!")) as bot:
        await bot.says("/note")
        for line in others:
            said = (await bot.says(line)).text
            assert ("still waiting for the text for `/note`" in said) == (line != "/note me")
        if others == ["/note me"]:
            assert said == "Kept: me", "it had its text"
            assert (await bot.says("secret")).text == "Hello!"
        else:
            assert (await bot.says("secret")).text == "Kept: secret"
            assert not bot.server.requests, "the model got nothing"
        assert "still wait" not in (await bot.says("/whoami")).text


async def test_the_word_for_it_or_a_refusal_ends_the_form(tmp_path: Path) -> None:
    async with run_bot(tmp_path, lambda request: Say("Hello!")) as bot:
        await bot.says("/note")
        assert (await bot.says("/cancel")).text == "Cancelled; `/note` changed nothing."
        assert (await bot.says("Hi")).text == "Hello!"
        assert "not waiting for any text" in (await bot.says("/cancel")).text
        await bot.says("/note")
        assert (await bot.says("refuse this")).text == "That is no note."
        assert (await bot.says("Hi")).text == "Hello!"


async def test_only_the_person_who_was_asked_is_taken_at_their_word(tmp_path: Path) -> None:
    owners = {"owners": ["pipe/ann", "pipe/bob"]}
    async with run_bot(tmp_path, [Say("To Bob."), Say("Elsewhere.")], owners) as bot:
        await bot.says("/note", chat="group", user="ann")
        assert (await bot.says("not a note", chat="group", user="bob")).text == "To Bob."
        assert (await bot.says("not a note", chat="other", user="ann")).text == "Elsewhere."
        assert (await bot.says("/cancel", chat="group", user="bob")).text.startswith("I am not")
        assert (await bot.says("a note", chat="group", user="ann")).text == "Kept: a note"


async def test_a_file_or_an_empty_message_is_no_text(tmp_path: Path) -> None:
    async with run_bot(tmp_path) as bot:
        await bot.says("/note")
        file = Attachment("a.txt", "text/plain", b"words")
        assert "not a file, so nothing was changed" in (await bot.says("x", files=(file,))).text
        assert not list((tmp_path / "data").rglob("a.txt"))
        assert "Your message is empty" in (await bot.says("  ")).text
        assert "longer than the 100,000" in (await bot.says("x" * 100_001)).text
        assert (await bot.says("a note")).text == "Kept: a note"


async def test_after_ten_minutes_a_message_is_a_message_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_bot(tmp_path, [Say("Hello!")]) as bot:
        await bot.says("/note")
        at = bot.app.forms._clock()
        monkeypatch.setattr(bot.app.forms, "_clock", lambda: at + forms.PATIENCE + 1)
        assert (await bot.says("Hi")).text == "Hello!"


async def test_the_text_is_taken_while_a_turn_runs(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Hang("Half")], {"when_busy": "queue"}) as bot:
        await bot.writes("Tell me", id="q")
        await bot.server.reached.acquire()
        await bot.says("/note")
        assert (await bot.says("in between")).text == "Kept: in between"
        await bot.says("/stop")
        await bot.reply_to("q")


async def test_a_message_that_is_delivered_again_is_taken_once(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Hello!"), Say("Again!")]) as bot:
        for _ in range(2):  # Hi once more, and the command that asks
            for text in ("Hi", "/note"):
                await bot.writes(text, id=f"the {text}")
                await bot.reply_to(f"the {text}")
        await bot.writes("the note", id="note")
        assert (await bot.reply_to("note")).reply.text == "Kept: the note"
        accepted = await bot.writes("the note", id="note")
        assert accepted is not None
        assert not accepted.is_new
        assert (await bot.says("Hi again")).text == "Again!"


@pytest.mark.sqlite
async def test_it_survives_a_kill(tmp_path: Path) -> None:
    async with run_bot(tmp_path) as bot:
        await bot.says("/note")
        folder = await copy_as_killed(bot, tmp_path)
    async with run_bot(folder) as bot:
        bot.count = 100  # the ids of messages
        assert (await bot.says("after the kill")).text == "Kept: after the kill"
        folder = await copy_as_killed(bot, folder)
    async with run_bot(folder, [Say("Hello!")]) as bot:
        bot.count = 200
        assert (await bot.says("Hi")).text == "Hello!"


async def test_what_was_taken_and_not_carried_out_is_still_for_the_command(tmp_path: Path) -> None:
    async with run_bot(tmp_path) as bot:
        await bot.says("/note")
        inbound = Inbound("late", Address("pipe", "main"), "taken before the crash")
        await bot.app.bot.intake.take(inbound)  # it is on disk, and the process dies
    async with run_bot(tmp_path) as bot:
        again = await bot.reply_to("late")
        assert again.reply.text == "Kept: taken before the crash"
        assert not bot.server.requests


async def test_at_telegram_the_text_is_the_next_message_or_a_reply(tmp_path: Path) -> None:
    owners = {"owners": ["telegram/42", "telegram/7"]}
    async with at_telegram(tmp_path, settings=owners) as bot:
        bot.ann.says("/note")
        await bot.telegram.shown("as it was")
        bot.ann.says("mine")
        await bot.telegram.shown("Kept: mine")
        group = bot.telegram.group(-100)
        ann, bob = bot.ann.at(group), bot.telegram.person("Bob", 7).at(group)
        ann.says("/note")
        asked = await bot.telegram.shown("Reply to this message")
        answer = {"reply_to_message": bot.telegram._as_message(asked)}
        bob.says("/cancel@parley_bot")
        await bot.telegram.shown("I am not waiting for any text from you")
        ann.says("ours", **answer)
        await bot.telegram.shown("Kept: ours")
        await bot.is_idle()
        assert not bot.model.requests
