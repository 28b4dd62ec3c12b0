"""A test of the plugin on the page about plugins, in a bot."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import cast

import pytest

from channels.web.operations import Operation
from tests.docs.pages import example
from tests.fakes.openai_server import Answer, Call, Received, Say
from tests.whole.requests import answered, with_plugin
from tests.whole.testbot import run_bot

DICE = example("plugins.md", "python")


async def test_the_file_on_the_page_adds_a_command_and_a_tool(tmp_path: Path) -> None:
    with_plugin(tmp_path, DICE, "dice")
    call = Call("roll_dice", '{"count": 3, "sides": 1}')
    async with run_bot(tmp_path, [Say(calls=(call,)), Say("Three.")]) as bot:
        reply = await bot.says("/roll 2d1")
        assert (reply.text, reply.data) == ("1 + 1 = 2", {"dice": [1, 1]})
        assert "Roll dice" in (await bot.says("/help all")).text
        assert "needs dice like 2d6" in (await bot.says("/roll a stone")).text
        assert (await bot.says("Roll three!")).text == "Three."
        assert bot.sent_to_model()[-1]["content"] == "1 + 1 + 1 = 3"
        (schema,) = (
            tool["function"]
            for tool in bot.server.requests[0].body["tools"]
            if tool["function"]["name"] == "roll_dice"
        )
    assert schema["parameters"]["properties"]["sides"]["description"].startswith("How many sides")


async def test_the_verb_on_the_page_is_one_of_the_command(tmp_path: Path) -> None:
    with_plugin(tmp_path, example("plugins.md", 'py title="longest.py"'), "longest")
    async with run_bot(tmp_path, [Say("Yes. " * 99), Say("No.")]) as bot:
        assert (await bot.says("/context longest")).text == "Nothing was said yet."
        await bot.says("Hello")
        await bot.says("Again")
        assert (await bot.says("/context Longest")).text == "t1 is the longest."
        listed = (await bot.says("/help context")).text
        mistyped = (await bot.says("/context longst")).text
    lines = listed.splitlines()
    place = lines.index("- `/context longest`: which turn is the longest")
    assert lines[place - 1].startswith("- `/context turns`:")
    assert "did you mean /context longest?" in mistyped


async def test_the_larger_plugin_keeps_its_list_over_a_restart_and_is_forgotten(
    tmp_path: Path,
) -> None:
    plugins = tmp_path / "data" / "plugins"
    plugins.mkdir(parents=True)
    page = example("features.md", 'python title="shopping.py"')
    older = re.sub(r'^ *"ALTER TABLE .*\n', "", page, flags=re.MULTILINE)
    assert older != page
    (plugins / "shopping.py").write_text(older)
    async with run_bot(tmp_path) as bot:
        assert "shopping_item" in await bot.app.store.read(lambda db: db.get_tables())
    (plugins / "shopping.py").write_text(page)
    call = Call("shopping_list", "{}")
    async with run_bot(tmp_path) as bot:
        assert (await bot.says("/buy milk")).text == "milk"
        assert (await bot.says("/buy bread")).text == "milk, bread"
        assert "Nothing is on the list" in (await bot.says("/buy", chat="other")).text
    async with run_bot(tmp_path, [Say(calls=(call,)), Say("Milk and bread.")]) as bot:
        await bot.says("What do I need?")
        assert bot.sent_to_model()[-1]["content"] == "milk, bread"
        await bot.app.schedule.fire()
        await bot.app.schedule.idle()
        served = [cast(Operation, one) for one in bot.app.bot.list_routes()]
        assert [one.method for one in served if one.path == "/api/shopping"] == ["GET"]
        assert "2 purchases" in (await bot.says("/forget all")).text
        await bot.says("/forget all yes")
        assert "Nothing is on the list" in (await bot.says("/buy")).text
    (plugins / "shopping.py").write_text(older)
    async with run_bot(tmp_path) as bot:
        assert "changed by a newer version" in (await bot.says("/status")).text


async def test_the_listener_on_the_page_keeps_a_tool_from_running(tmp_path: Path) -> None:
    with_plugin(tmp_path, example("plugins.md", "py"), "guard")
    call = Call("write_file", '{"path": "a.txt", "content": "x"}')
    async with run_bot(tmp_path, [Say(calls=(call,)), Say("Not today.")]) as bot:
        await bot.says("Write x!")
        result = bot.sent_to_model()[-1]["content"]
    assert result.startswith("write_file was not run: nothing is written on Sundays.")
    assert "Say so in one sentence." in result
    assert not (tmp_path / "data/audiences/pipe-main/files/a.txt").exists()


async def test_the_package_on_the_page_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tomllib.loads(example("plugins.md", "toml"))["project"]
    ((group, points),) = project["entry-points"].items()
    ((name, module),) = points.items()
    installed = tmp_path / "site"
    info = installed / f"{module}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}\n")
    (installed / f"{module}.py").write_text(DICE)
    monkeypatch.syspath_prepend(str(installed))
    async with run_bot(tmp_path) as bot:
        assert (await bot.says("/roll 1d1")).text == "1 = 1"
    sys.modules.pop(module)


async def test_the_hook_on_the_page_has_the_last_word_in_the_prompt(tmp_path: Path) -> None:
    with_plugin(tmp_path, example("plugins.md", "python3"), "example")
    async with run_bot(tmp_path, lambda _: Say("Fine.")) as bot:
        await bot.says("Hi")
        assert bot.sent_to_model()[0]["content"].endswith(
            "\n\nThe heating is never set above 21 degrees."
        )
        await bot.says("Hi", chat="other")
        assert "heating" not in bot.sent_to_model()[0]["content"]


async def test_the_offloader_on_the_page_keeps_what_leaves_and_the_model_reads_it(
    tmp_path: Path,
) -> None:
    with_plugin(tmp_path, example("plugins.md", "py3"), "shelf")
    where = "shelf://pipe/main/turns"

    def script(request: Received) -> Answer:
        last = request.body["messages"][-1]
        is_asked = last["role"] == "user" and str(last["content"]).endswith("Look it up.")
        calls = (Call("read_shelf", json.dumps({"reference": where}), "a"),) if is_asked else ()
        return Say("" if calls else "Fine.", calls)

    async with run_bot(tmp_path, script, {"agent_max_context_turns": 2}) as bot:
        for number in range(5):
            await bot.says(f"The number is {number}.")
            await bot.app.conversations.flush()
        await bot.says("Look it up.")
        sent = answered(bot)[-1]["messages"]
        assert where in json.dumps(sent)
        assert "user: The number is 0." in sent[-1]["content"]
        await bot.says("/forget t1 yes")
        await bot.says("Look it up.")
        said = answered(bot)[-1]["messages"][-1]["content"]
        assert "is 1." in said
        assert "is 0." not in said


async def test_the_skill_on_the_page_is_listed_and_read(tmp_path: Path) -> None:
    file = tmp_path / "data" / "skills" / "invoices" / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text(example("plugins.md", "markdown"))
    call = Call("read_skill", '{"name": "invoices"}')
    async with run_bot(tmp_path, [Say(calls=(call,)), Say("Whose?")]) as bot:
        await bot.says("An invoice, please.")
        sent = bot.sent_to_model()
    assert "\n- invoices: Write an invoice for a customer." in sent[0]["content"]
    assert sent[-1]["content"].startswith("Ask for the customer's address")
