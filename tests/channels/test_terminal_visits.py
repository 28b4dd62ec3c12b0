"""The terminal: starting and leaving, copying, reasoning, lists, and missing files."""

from __future__ import annotations

import asyncio
import base64
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from channels.base import Delta, Thought, TranscriptMessage
from channels.terminal import conversations
from channels.terminal.conversations import describe_way_back, format_day
from channels.terminal.mentions import describe_unknown
from tests.channels.at_terminal import TerminalUser, at_terminal, says, silent

THEN = datetime(2026, 3, 2, 12, tzinfo=UTC)
CODE = "Do this:\n\n```sh\nls -l\n```\n\nor\n\n```\nmake\ttea\n```"


def turn(number: int, question: str, answer: str, reasoning: str = "") -> list[TranscriptMessage]:
    name = f"t{number}"
    return [
        TranscriptMessage(name, "user", question, THEN),
        TranscriptMessage(name, "assistant", answer, THEN, reasoning=reasoning),
    ]


SAID = [
    *turn(10, "first", "One."),
    *turn(11, "second", "Two **bold**."),
    *turn(12, "third", CODE, "I thought hard."),
]


async def test_coming_back_shows_where_one_is_and_the_last_two_turns_dimmed(tmp_path: Path) -> None:
    async with at_terminal(tmp_path, silent, said=SAID) as person:
        await person.sees("── main · 12 turns · 2 Mar 2026 ──\n\n› second\n\nTwo bold.\n\n› third")
        await person.leaves()
        assert "first" not in person.glass.text
        for word in ("› second", "Two ", "bold", "› third", "ls"):
            codes = re.findall(rf"\x1b\[([0-9;]*)m[^\x1b\n]*{word}", person.glass.raw)
            assert any("2" in one.split(";") for one in codes), word
        assert "To continue: python main.py\n" in person.glass.text


async def test_what_was_said_since_one_came_is_not_told_again(tmp_path: Path) -> None:
    since = datetime.now(UTC) + timedelta(hours=1)
    said = [*turn(1, "first", "One."), TranscriptMessage("t2", "user", "second", since)]
    said.append(TranscriptMessage("t2", "assistant", "Two.", since))
    async with at_terminal(tmp_path, silent, said=said) as person:
        await person.sees("── main · 1 turn · 2 Mar 2026 ──\n\n› first\n\nOne.")
        await person.leaves()
        assert "second" not in person.glass.text
        assert "Two." not in person.glass.text


async def test_nothing_is_told_of_where_nothing_was_said(tmp_path: Path) -> None:
    async with at_terminal(tmp_path, silent) as person:
        await person.leaves()
        assert "──" not in person.glass.text


async def test_leaving_another_conversation_says_how_to_continue_it(tmp_path: Path) -> None:
    async with at_terminal(tmp_path, says(Delta("Yes.")), chat="two words") as person:
        await person.sees("── two words · nothing was said here yet ──")
        person.types("hi\r")
        await person.sees("Yes.")
        await person.leaves()
        assert "To continue: python main.py --chat 'two words'\n" in person.glass.text
    assert describe_way_back("python main.py --data d", "main").endswith("main.py --data d")


def test_days_are_said_as_people_say_them() -> None:
    now = datetime(2026, 3, 10, 1, 0).astimezone()
    for hours, said in (
        *((0, "today"), (0.5, "today"), (2, "yesterday"), (24, "yesterday"), (26, "2 days ago")),
        *((6 * 24, "6 days ago"), (7 * 24, "3 Mar 2026"), (-1, "today")),
    ):
        assert format_day(now - timedelta(hours=hours), now) == said, hours


# Copying


def clipboard(person: TerminalUser) -> str:
    found = re.findall(r"\x1b\]52;c;([^\x07]*)\x07", person.glass.raw)
    return base64.b64decode(found[-1]).decode()


async def test_answers_and_code_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    async with at_terminal(tmp_path, silent, said=SAID) as person:
        await person.sees("› third")
        for typed, told, text in (
            ("/copy", "Copied the last answer (11 lines). If the clipboard", CODE),
            ("/copy 2", "Copied answer 2 from the end (1 line).", "Two **bold**."),
            ("/copy code", "Copied the last code block (1 line).", "make\ttea"),
            ("/copy code 2", "Copied code block 2 from the end (1 line).", "ls -l"),
        ):
            person.types(f"{typed}\r")
            await person.sees(told)
            assert clipboard(person) == text
        for typed, told in (
            ("/copy 9", "There are only 3 to copy."),
            ("/copy that", "Write /copy, /copy 2 for the answer before the last"),
        ):
            person.types(f"{typed}\r")
            await person.sees(told)
        await person.leaves()
        assert not person.bot.submitted


async def test_a_dumb_terminal_shows_what_is_to_be_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    async with at_terminal(tmp_path, silent, said=SAID) as person:
        person.types("/copy code\r")
        await person.sees("This terminal has no clipboard; select the text above.")
        assert "\nmake\ttea\n" in person.glass.copied
        await person.leaves()


def test_there_may_be_nothing_to_copy() -> None:
    for words, told in (("", "no answer here"), ("code", "no code here"), ("0", "Write /copy")):
        with pytest.raises(conversations.NothingToCopy, match=told):
            conversations.find_copy([], words)
    assert conversations.find_copy(SAID, "").text == CODE


# Reasoning


async def test_reasoning_is_shown_while_it_is_wanted(tmp_path: Path) -> None:
    hold, more = asyncio.Event(), asyncio.Event()
    script = says(Thought("First I think"), hold, Thought(" of tea."), Delta("Green.\n\n"), more)
    async with at_terminal(tmp_path, script) as person:
        person.types("which?\r")
        await person.sees("Ctrl-O shows it")
        assert "First I think" not in person.glass.text
        person.types("\x0f")
        await person.sees("First I think")
        await person.sees("Reasoning is shown · Ctrl-O hides it")
        hold.set()
        await person.sees("First I think of tea.\n\nGreen.")
        person.types("\x0f")
        await person.sees("Reasoning is hidden.")
        more.set()
        await person.leaves()
        assert person.glass.text.count("First I think") == 1


async def test_the_last_answers_reasoning_is_shown_afterwards(tmp_path: Path) -> None:
    async with at_terminal(tmp_path, silent, said=SAID) as person:
        await person.sees("› third")
        person.types("\x0f")
        await person.sees("I thought hard.")
        await person.leaves()
    async with at_terminal(tmp_path, silent, said=SAID[:2]) as person:
        person.types("\x0f")
        await person.sees("The last answer came without reasoning.")
        await person.leaves()


# Lists, and files


async def test_escape_closes_lists(tmp_path: Path) -> None:
    async with at_terminal(tmp_path, silent) as person:
        person.types("half a thought")
        await person.sees("half a thought")
        person.types("\x15/resume\r")
        await person.sees("Conversations of this terminal")
        await person.sees("Esc closes")
        person.types("\x1b")
        await person.glass.until(lambda: "Conversations of" not in person.glass.text)
        person.types("/cont")
        await person.sees("what the model sees")
        person.types("\x1b")
        await person.glass.until(lambda: "what the model sees" not in person.glass.text)
        person.types("ext\x1b\r\x15\x7f\x15")
        await person.leaves()
        assert not person.bot.submitted


async def test_a_file_that_is_not_there_is_told_before_a_message_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes.txt").write_text("x")
    monkeypatch.chdir(tmp_path)
    async with at_terminal(tmp_path, says(Delta("Yes."))) as person:
        person.types("look at @nots.txt please\r")
        await person.sees("No file @nots.txt, but @notes.txt; Enter sends it as text")
        assert not person.bot.submitted
        person.types("\r")
        await person.sees("Yes.")
        await person.leaves()
        assert [one.text for one in person.bot.submitted] == ["look at @nots.txt please"]


async def test_a_dumb_terminal_tells_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.chdir(tmp_path)
    async with at_terminal(tmp_path, says(Delta("Yes."))) as person:
        person.types("look at @gone.txt\r")
        await person.sees("No file @gone.txt; Enter sends it as text")
        assert not person.bot.submitted
        person.types("\r")
        await person.sees("Yes.")
        await person.leaves()


def test_only_what_looks_like_a_file_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "docs").mkdir()
    for text, missed in (
        ("see @notes.txt, and mind", ""),
        ("see @gone.txt, and mind", "@gone.txt"),
        ('see @"two words"', '@"two words"'),
        ("see @docs/gone", "@docs/gone"),
        ("see @/gone/x and", "@/gone/x"),
        ("@~nobody-here/x.txt", "@~nobody-here/x.txt"),
        ("ask @alice, or @angular/core", ""),
        ('@app.get("/")\ndef f(): ...', ""),
        ("ann@example.org", ""),
        ("/context @gone.txt", ""),
        ("!cat @gone.txt", ""),
    ):
        told = describe_unknown(text)
        assert told.startswith(f"No file {missed}") if missed else not told, text
