"""The whole bot at a real pseudo-terminal, as a person uses it."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from channels.terminal.completion import KEYS
from tests.fakes.openai_server import Call, OpenAIServer, Say
from tests.whole.pseudo_terminal import Sitter, sitting

pytestmark = pytest.mark.usefixtures("processes")

CONFIG = '{"model": "gpt-4o-mini"}'


def install(folder: Path) -> None:
    """Write the files of the folder in which the bot is started."""
    (folder / "config.json").write_text(CONFIG)


def allow_shell(folder: Path) -> None:
    settings = {"model": "gpt-4o-mini", "tools": {"shell": True, "shell_unboxed": True}}
    (folder / "config.json").write_text(json.dumps(settings))


async def find_command(person: Sitter, name: str) -> str:
    """Return the command that answers the question about a tool."""
    await person.sees("Run shell with exactly this")
    await person.sees("Allow once: /approve")
    found = re.search(rf"/{name} \w{{4}}", person.glass.text)
    assert found is not None
    return found[0]


async def test_the_bottom_line_names_the_model_and_context_is_drawn(tmp_path: Path) -> None:
    install(tmp_path)
    async with (
        OpenAIServer([Say("Hello!")]) as endpoint,
        sitting(tmp_path, endpoint, environ={"TERM": "xterm-kitty"}) as person,
    ):
        await person.sees("gpt-4o-mini answers.")
        person.types("Hi\r")
        await person.sees("Hello!")
        await person.sees(re.compile(r"1/20 turns .* · <\$0\.01"))
        person.types("/context\r")
        await person.sees("▒ tools (")
        await person.sees("Tools: context_search ")
        person.types("/context map\r")
        await person.sees("context-map.png")
        assert "\x1b_Ga=T,f=100,c=72," in person.glass.raw
        assert await person.leaves() == 0


async def test_the_terminal_speaks_the_language_that_is_set_and_changes_it_at_once(
    tmp_path: Path,
) -> None:
    (tmp_path / "config.json").write_text('{"model": "gpt-4o-mini", "language": "de"}')
    async with (
        OpenAIServer([Say("Hallo!")]) as endpoint,
        sitting(tmp_path, endpoint) as person,
    ):
        await person.sees("Schreib einfach; /help zeigt die Befehle, Strg-D beendet.")
        await person.sees("Es antwortet gpt-4o-mini.")
        person.types("Hi\r")
        await person.sees("Hallo!")
        await person.sees(re.compile(r"1/20 Runden .* · <0,01\s\$"))
        person.types("/context\r")
        await person.sees("▒ Werkzeuge (")
        await person.sees("Weiter: /context ")
        person.types("/resume\r")
        await person.sees("Gespräche dieses Terminals")
        await person.sees("tippen sucht · ↑ ↓ wählt · Enter öffnet · Esc schließt")
        person.types("\x03")
        person.types("/config language zh\r")
        await person.sees("1/20 轮")
        person.types("/help keys\r")
        await person.sees("按键")
        assert await person.leaves() == 0


async def test_a_map_is_made_of_blocks_where_pictures_are_not_shown(tmp_path: Path) -> None:
    install(tmp_path)
    async with (
        OpenAIServer([Say("Hello!")]) as endpoint,
        sitting(tmp_path, endpoint) as person,
    ):
        person.types("Hi\r")
        await person.sees("Hello!")
        person.types("/context map\r")
        await person.sees("in context")
        assert "\x1b_G" not in person.glass.raw
        assert await person.leaves() == 0


async def test_several_conversations_are_chosen_searched_and_begun(tmp_path: Path) -> None:
    install(tmp_path)
    async with OpenAIServer([Say("Mild."), Say("Sour."), Say("Sweet.")]) as endpoint:
        async with sitting(tmp_path, endpoint) as person:
            person.types("How is Lisbon?\r")
            await person.sees("Mild.")
            person.types("/resume\r")
            await person.sees("Conversations of this terminal")
            person.types("recipes")
            await person.sees("a new conversation, “recipes”")
            person.types("\r")
            await person.sees("── recipes · nothing was said here yet ──")
            person.types("How are lemons?\r")
            await person.sees("Sour.")
            await person.sees("recipes · gpt-4o-mini · ")
            person.types("/resume mild\r")  # a word of the answer
            await person.sees("› How is Lisbon? · Mild.")
            person.types("\r")
            await person.sees("── main · 1 turn · today ──")
            await person.sees("Mild.", times=2)
            assert await person.leaves() == 0
        async with sitting(tmp_path, endpoint, arguments=("--continue",)) as person:
            await person.sees("── recipes · 1 turn · today ──")
            await person.sees("Sour.")
            person.types("And oranges?\r")
            await person.sees("Sweet.")
            person.types("/resume\r")
            await person.sees("Conversations of this terminal")
            person.types("\x03half a thought")
            await person.sees("› half a thought")
            assert "Conversations of this terminal" not in person.glass.text
            person.types("\x15")
            assert await person.leaves() == 0
        said = [str(m["content"]) for m in endpoint.turns[-1].body["messages"][1:]]
        assert said == ["How are lemons?", "Sour.", "And oranges?"]


async def test_an_answer_of_another_conversation_is_told_with_its_name(tmp_path: Path) -> None:
    allow_shell(tmp_path)
    script = [Say(calls=(Call("shell", '{"command": "true"}', "c1"),)), Say("Here at last.")]
    async with (
        OpenAIServer(script) as endpoint,
        sitting(tmp_path, endpoint) as person,
    ):
        person.types("Run something\r")
        approve = await find_command(person, "approve")
        person.types("/resume other\r")
        await person.sees("a new conversation, “other”")
        person.types("\r")
        await person.sees("── other")
        person.types(f"{approve}\r")
        await person.sees("From the conversation “main”:\n\nHere at last.")
        assert await person.leaves() == 0


async def test_files_are_named_completed_and_sent(tmp_path: Path) -> None:
    install(tmp_path)
    (tmp_path / "notes of mine.txt").write_text("milk")
    picture = tmp_path / "pic.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(60))
    async with (
        OpenAIServer([Say("Seen.")]) as endpoint,
        sitting(tmp_path, endpoint, columns=160) as person,
    ):
        await person.sees("gpt-4o-mini answers.")
        person.types("Look at @notes")
        await person.sees('@"notes of mine.txt"')
        person.types("\t ")
        person.types(f"\x1b[200~{picture}\x1b[201~")
        await person.sees(f"@{picture}")
        person.types("\r")
        await person.sees("Seen.")
        assert await person.leaves() == 0
    content = endpoint.requests[0].body["messages"][1]["content"]
    assert {part["type"] for part in content} == {"text", "image_url"}
    assert "[file: files/notes_of_mine.txt" in str(content)


async def test_up_changes_the_last_question_in_a_branch_and_goes_on_to_older_lines(
    tmp_path: Path,
) -> None:
    install(tmp_path)
    async with (
        OpenAIServer([Say("One."), Say("Two."), Say("Three.")]) as endpoint,
        sitting(tmp_path, endpoint) as person,
    ):
        person.types("first question\r")
        await person.sees("One.")
        person.types("second question\r")
        await person.sees("Two.")
        await person.sees(re.compile("\ngpt-4o-mini · 2/20 turns"))  # and runs no longer
        person.types("\x1b[A")
        await person.sees("Enter asks it again in a branch")
        person.types("\x1b[A")
        await person.sees("› first question", times=2)
        person.types("\x15\x1b[A")
        await person.sees("Enter asks it again in a branch")
        person.types(", in other words\r")
        await person.sees("Three.")
        assert await person.leaves() == 0
    said = [str(m["content"]) for m in endpoint.turns[-1].body["messages"][1:]]
    assert said == ["first question", "One.", "second question, in other words"]


async def test_long_texts_are_written_in_an_editor_of_ones_own(tmp_path: Path) -> None:
    install(tmp_path)
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "%s\\nand more" "$(cat "$1")" > "$1"\n')
    editor.chmod(0o755)
    async with (
        OpenAIServer([Say("Read.")]) as endpoint,
        sitting(tmp_path, endpoint, environ={"EDITOR": str(editor)}) as person,
    ):
        await person.sees("gpt-4o-mini answers.")
        person.types("a line\x18\x05")
        await person.sees("and more")
        person.types("\r")
        await person.sees("Read.")
        assert await person.leaves() == 0
    assert endpoint.requests[0].body["messages"][1]["content"] == "a line\nand more"


async def test_turns_are_completed_and_the_keys_are_listed(tmp_path: Path) -> None:
    install(tmp_path)
    async with OpenAIServer([Say("One.")]) as endpoint, sitting(tmp_path, endpoint) as person:
        person.types("a question\r")
        await person.sees("One.")
        await person.sees("1/20 turns")
        person.types("/context drop t")
        await person.sees(re.compile("(in context|running) · a question"))  # it may just be ending
        person.types("\x15!id\r")
        await person.sees("tools.shell true")
        person.types("/help\r")
        await person.sees("In the terminal, too: /resume")
        person.types("/help keys\r")
        for key, _ in KEYS:
            await person.sees(key)
        assert await person.leaves() == 0


async def test_a_command_runs_when_it_is_allowed_and_the_model_sees_it_as_untrusted(
    tmp_path: Path,
) -> None:
    allow_shell(tmp_path)
    async with (
        OpenAIServer([Say("I see.")]) as endpoint,
        sitting(tmp_path, endpoint) as person,
    ):
        await person.sees("gpt-4o-mini answers.")
        person.types("!echo six times $((6 * 7))\r")
        approve = await find_command(person, "approve")
        assert "42" not in person.glass.text
        person.types(f"{approve}\r")
        await person.sees("six times 42")
        await person.sees("The model sees it as t1.")
        person.types("What was it?\r")
        await person.sees("I see.")
        person.types("!echo hi > note.txt\r")
        await person.sees("Run shell with exactly this", times=2)
        await person.sees("Allow once: /approve", times=2)
        name = re.findall(r"/deny (\w{4})", person.glass.text)[-1]
        person.types(f"/deny {name}\r")
        await person.sees("the person said no")
        assert await person.leaves() == 0
        assert await asyncio.to_thread(lambda: [*tmp_path.rglob("note.txt")]) == []
    result = endpoint.requests[0].body["messages"][3]
    assert result["role"] == "tool"
    assert "<untrusted" in result["content"]
    assert "six times 42" in result["content"]
