"""The system prompt in a whole bot: the base, the skills, and the changes by plugins, in order."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.agent.test_skills import skill, write
from tests.fakes.openai_server import Answer, Call, Received, Say
from tests.whole.testbot import TestBot, run_bot

ADDS = """
from plugins.api import hookimpl

@hookimpl
def parley_system_prompt(prompt, key):
    return f"{{prompt}}\\n\\n{word} for {{key.id}}"
"""
FAILS = """
from plugins.api import hookimpl

@hookimpl
def parley_system_prompt(prompt):
    {line}
"""


def plugin(folder: Path, name: str, text: str) -> None:
    file = folder / "data" / "plugins" / f"{name}.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def echo(request: Received) -> Answer:
    return Say("Yes.")


async def prompt(bot: TestBot, chat: str = "main") -> str:
    """Return the system prompt of a turn."""
    await bot.says("Hi", chat=chat)
    first = asked(bot, "Hi")[0]
    assert first["role"] == "system"
    return str(first["content"])


def asked(bot: TestBot, text: str) -> list[dict[str, Any]]:
    """Return the messages of the newest request that ends with these words of a person."""
    requests = [request.body["messages"] for request in bot.server.requests]
    return next(m for m in reversed(requests) if str(m[-1]["content"]).endswith(text))


async def test_the_order_is_base_skills_hooks_summary_context(tmp_path: Path) -> None:
    plugin(tmp_path, "b_second", ADDS.format(word="second"))
    plugin(tmp_path, "a_first", ADDS.format(word="first"))
    write(tmp_path / "data", "tax", skill("tax", "Fill in tax forms."))
    settings = {"system_prompt": "You are Ada.", "agent_max_context_turns": 2}
    async with run_bot(tmp_path, echo, settings) as bot:
        for text in ("One.", "Two.", "Three."):
            await bot.says(text)
            await bot.app.conversations.flush()
        sent = asked(bot, "Three.")
    text = str(sent[0]["content"])
    parts = ["You are Ada.", "You have tools.", "- tax: Fill in", "first for", "second for"]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert text.endswith("first for pipe/main\n\nsecond for pipe/main")
    assert str(sent[1]["content"]).startswith("<summary-of-earlier-turns>")


async def test_the_prompt_is_byte_for_byte_the_same_until_a_skill_changes(tmp_path: Path) -> None:
    file = write(tmp_path / "data", "tax", skill("tax", "One."))
    async with run_bot(tmp_path, echo) as bot:
        first = await prompt(bot)
        assert await prompt(bot) == first
        file.write_text(skill("tax", "Two."))
        os.utime(file, ns=(1, 1))
        assert await prompt(bot) == first.replace("- tax: One.", "- tax: Two.")


async def test_the_model_reads_a_skill_when_it_needs_it(tmp_path: Path) -> None:
    write(tmp_path / "data", "tax", skill("tax", body="Ask for the year first."))
    write(tmp_path / "data/audiences/pipe-main", "own", skill("own", body="Ours."))
    calls = (
        Call("read_skill", '{"name": "tax"}', "a"),
        Call("read_file", '{"path": "skills/own/SKILL.md"}', "b"),
        Call("read_skill", '{"name": "tex"}', "c"),
    )
    async with run_bot(tmp_path, [Say(calls=calls), Say("Which year?")]) as bot:
        assert (await bot.says("My taxes, please.")).text == "Which year?"
        results = {m["tool_call_id"]: m["content"] for m in bot.sent_to_model()[-3:]}
    assert results["a"] == "Ask for the year first."
    assert results["b"].endswith("Ours.")
    assert results["c"] == "There is no skill 'tex'; did you mean 'tax'?"


async def test_a_chat_sees_its_own_skills_and_no_other_chats(tmp_path: Path) -> None:
    write(tmp_path / "data/audiences/pipe-main", "own", skill("own"))
    async with run_bot(tmp_path, echo) as bot:
        assert "- own: Does it." in await prompt(bot)
        assert "- own" not in await prompt(bot, chat="other")


@pytest.mark.parametrize("line", ["raise RuntimeError('no')", "return 7"])
async def test_a_hook_that_fails_is_skipped_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, line: str
) -> None:
    plugin(tmp_path, "a_broken", FAILS.format(line=line))
    plugin(tmp_path, "b_whole", ADDS.format(word="whole"))
    async with run_bot(tmp_path, echo) as bot:
        for _ in range(2):
            text = await prompt(bot)
            assert text.startswith("You are Parley")
            assert text.endswith("whole for pipe/main")
    failures = [r.getMessage() for r in caplog.records if "parley_system_prompt" in r.message]
    assert failures == ["parley_system_prompt of the plugin a_broken failed"]


async def test_what_left_can_be_found_where_the_prompt_says(tmp_path: Path) -> None:
    call = Call("read_file", '{"path": "sessions/pipe%2Fmain/context.jsonl"}', "r")

    def script(request: Received) -> Answer:
        last = request.body["messages"][-1]
        is_asked = str(last["content"]).endswith("Where do I live?")
        return Say(calls=(call,)) if is_asked else Say("In Lisbon.")

    async with run_bot(tmp_path, script, {"agent_max_context_turns": 1}) as bot:
        assert "sessions/*/context.jsonl" in await prompt(bot)
        await bot.says("I live in Lisbon.")
        await bot.says("Hm.")
        await bot.app.conversations.flush()
        await bot.says("Where do I live?")
        results = [
            m for r in bot.server.requests for m in r.body["messages"] if m["role"] == "tool"
        ]
        assert "I live in Lisbon." in results[-1]["content"]
        await bot.says("/config context.offload false")
        assert "context.jsonl" not in await prompt(bot)


async def test_a_tools_long_output_is_read_from_the_file_that_the_marker_names(
    tmp_path: Path,
) -> None:
    big = tmp_path / "data/audiences/pipe-main/files/big.txt"
    big.parent.mkdir(parents=True)
    big.write_text("".join(f"line {number}\n" for number in range(400)))
    whole = Call("read_file", '{"path": "files/big.txt"}', "w")
    settings = {"context": {"tool_result_limit": 300}}
    async with run_bot(tmp_path, [Say(calls=(whole,)), Say("Long.")], settings) as bot:
        await bot.says("Read it.")
        shown = bot.sent_to_model()[-1]["content"]
    assert "\nline 0\nline 1\n" in shown
    file = shown.split("refer to the file in '")[1].split("'")[0]
    assert file == "sessions/pipe%2Fmain/tool_result-w.txt"
    again = Call("read_file", f'{{"path": "{file}", "offset": 400, "limit": 1}}', "x")
    async with run_bot(tmp_path, [Say(calls=(again,)), Say("There.")], settings) as bot:
        await bot.says("And the last line?")
        assert "line 399" in bot.sent_to_model()[-1]["content"]


async def kinds(bot: TestBot) -> list[tuple[str, str]]:
    data = (await bot.says("/context history")).data or {}
    return [(event["kind"], event["reason"]) for event in data["events"]]


async def test_what_changes_the_beginning_of_the_prompt_is_a_recorded_event(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        for _ in range(2):
            await bot.says("Hello.")
        assert await kinds(bot) == [], "a first prompt replaces none"
        await bot.says("/config model gpt-4o")
        assert await kinds(bot) == [], "nothing was sent yet"
        await bot.says("Hello.")
        await bot.says("/config system_prompt Be brief.")
        await bot.says("/config tools.web_fetch true")
        await bot.says("Hello.")
        both = "changed: system prompt, tools"
        assert await kinds(bot) == [("prompt", "changed: model"), ("prompt", both)]
        assert "change of the prompt" in (await bot.says("/context history")).text
        assert "nothing to undo" in (await bot.says("/context undo")).text


async def test_flags_before_the_value_of_a_setting_are_no_part_of_it(tmp_path: Path) -> None:
    async with run_bot(tmp_path) as bot:
        said = (await bot.says("/config system_prompt --here Be brief.")).text
        assert "is now **Be brief.** in this conversation" in said
        assert "(the default)" in (await bot.says("/config system_prompt", chat="other")).text
        both = (await bot.says("/config system_prompt --unset Be brief.")).text
        assert "takes a value or --unset, not both" in both
        for line in ("/model --unset", "/regenerate --unset"):
            assert "has no option --unset" in (await bot.says(line)).text
        assert "must be a model's name" in (await bot.says("/config model gpt-4o --her")).text
        assert (await bot.says("/model")).text.startswith("gpt-4o-mini ")


async def test_a_change_while_the_bot_was_down_is_recorded_too(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Hello.")
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Nothing is new.")
    async with run_bot(tmp_path, echo, {"system_prompt": "Be brief."}) as bot:
        await bot.says("And again.")
        assert await kinds(bot) == [("prompt", "changed: system prompt")]


async def test_skills_that_are_left_out_are_told_of_by_status(tmp_path: Path) -> None:
    """Leave out a skill with a name that exists already, one with a file name in lower case, and
    the one above a hundred."""
    for place, name, file in (
        ("cooker", "cooking", "SKILL.md"),
        ("kitchen", "cooking", "SKILL.md"),
        ("pantry", "storing", "skill.md"),
        *((f"place-{number:03}", f"skill-{number:03}", "SKILL.md") for number in range(98)),
    ):
        folder = tmp_path / "data" / "skills" / place
        folder.mkdir(parents=True)
        (folder / file).write_text(skill(name))
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Hello")
        said = (await bot.says("/status")).text
    for words in ("cooking", "kitchen", "pantry", "SKILL.md", "100 are read", "place-097"):
        assert words in said
