"""Tests of the pages about rules, jobs and channels: their examples behave as described."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest
import time_machine
import yaml

from bot.assembly import assemble
from bot.data_folder import plugins_folder
from bot.messengers import make_messengers
from bot.settings import SettingError, SettingsStore, load_layers
from memory.context.settings import Limits
from memory.events import EventName
from plugins.rules import Rule, auto_compact, find_compacting
from plugins.rules.conditions import Condition
from plugins.rules.rule import Action, members
from tests.docs.pages import ROOT, example
from tests.fakes.openai_server import OpenAIServer, Say, echo
from tests.waiting import until
from tests.web.site import serving
from tests.whole.process import BotProcess, Json, talking
from tests.whole.testbot import TestChannel, run_bot

PAGE = (ROOT / "docs" / "hooks.md").read_text("utf-8")
FIRST, INJECTED, REPLACING = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def rules_in(folder: Path, text: str) -> tuple[Rule, ...]:
    """Return the rules in force with this configuration."""
    config = folder / "config.yaml"
    config.write_text(text)
    return SettingsStore(load_layers(config, {})).effective().hooks


def test_the_examples_are_the_rules_that_the_page_says(tmp_path: Path) -> None:
    tidy, careful, many = rules_in(tmp_path, FIRST)
    assert (tidy.on, tidy.action.type) == ("turn_end", "compact_context")
    assert (careful.condition.type, careful.max_fires) == ("all_of", 3)
    assert (many.condition.type, many.action.type) == ("tool_calls", "notify")
    assert rules_in(tmp_path, INJECTED) == (auto_compact(Limits().but(strategy="summarize")),)
    rules = rules_in(tmp_path, REPLACING)
    assert [rule.condition.type for rule in rules] == ["turn_count", "tool_calls"]
    assert find_compacting(rules)
    (typed,) = re.findall(r"`/config hooks (\[\{.*?\}\])`", PAGE, re.DOTALL)
    assert rules_in(tmp_path, yaml.safe_dump({"hooks": json.loads(typed, strict=False)}))


def test_the_message_about_a_faulty_rule_is_as_on_the_page(tmp_path: Path) -> None:
    (message,) = re.findall(r"^```text\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)
    with pytest.raises(SettingError) as caught:
        rules_in(tmp_path, FIRST.replace("{type: tool_failed}", "{type: tool_faild}"))
    assert str(caught.value) == message


def test_every_event_condition_and_action_is_on_the_page() -> None:
    kinds = [*members(Condition), *members(Action)]
    types = [get_args(kind.model_fields["type"].annotation)[0] for kind in kinds]
    fields = [*Rule.model_fields, *(name for kind in kinds for name in kind.model_fields)]
    gone = [name for name in (*get_args(EventName), *types, *fields) if f"`{name}`" not in PAGE]
    assert not [name for name in gone if name != "type"]


LINES = example("jobs.md", "text").splitlines()


async def test_the_examples_are_understood(tmp_path: Path) -> None:
    with time_machine.travel(datetime(2026, 11, 23, 12, tzinfo=UTC), tick=True):
        settings = {"timezone": "Europe/Berlin", "tools": {"web_fetch": True}}
        async with run_bot(tmp_path, settings=settings) as bot:
            for number, line in enumerate(LINES, 1):
                answer = (await bot.says(line)).text
                assert f" {number} is set: " in answer
                assert "(Europe/Berlin)" in answer


@pytest.mark.usefixtures("processes")
async def test_the_examples_of_looking_are_understood(tmp_path: Path) -> None:
    settings = {"tools": {"web_fetch": True, "shell": True}}
    async with run_bot(tmp_path, settings=settings) as bot:
        for number, line in enumerate(example("jobs.md", "plain").splitlines(), 1):
            answer = (await bot.says(line)).text
            assert f" {number} is set: " in answer
            assert "finds anything new" in answer


async def test_the_webhook_is_called_as_the_page_says(tmp_path: Path) -> None:
    lines, call = example("jobs.md", "ini").splitlines(), shlex.split(example("jobs.md", "bash"))
    secret = "a-long-random-text-0123456789"
    (tmp_path / ".env").write_text(f"PARLEY_HOOK_SECRET_GITHUB={secret}\n")
    async with serving(tmp_path, [Say("Hello."), Say("Ann mended it.")]) as site:
        await site.says("Hello")
        answers = [(await site.commands(line))["text"] for line in lines]
        assert "is set" in answers[-1]
        headers = dict(
            call[n + 1].replace("$SECRET", secret).split(": ", 1)
            for n, word in enumerate(call)
            if word == "-H"
        )
        body = json.loads(call[call.index("-d") + 1])
        assert (await site.post("/api/hooks/github", body, headers=headers))[0] == 202
        await site.app.idle()
        asked = site.server.turns[-1].body["messages"][-1]["content"]
        assert "pusher.name: Ann\nref: main\ncommits.0.message: Mend the roof" in asked


def set_up(folder: Path) -> Json:
    """Follow the steps of the page; return the configuration."""
    (folder / "data" / "plugins").mkdir(parents=True)
    (folder / "letters").mkdir()
    (folder / "data" / "plugins" / "letters.py").write_text(example("channels.md", "python"))
    config: Json = json.loads(example("channels.md", "json"))
    config["channels"]["letters"]["folder"] = str(folder / "letters")  # not the cwd
    return config


async def until_written(file: Path, words: str, after: str = "") -> str:
    """Return the content of a file once it has these words after the others."""

    def written() -> str:
        text = file.read_text() if file.exists() else ""
        return text if words in text[text.find(after) + len(after) :] else ""

    return await until(written)


async def test_the_channel_on_the_page_answers_each_line_once(tmp_path: Path) -> None:
    """Start the channel and talk; its behaviour after a kill is tested with all channels
    (tests/channels/contract)."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model": "gpt-4o-mini", **set_up(tmp_path)}))
    questions, answers = tmp_path / "letters/questions.txt", tmp_path / "letters/answers.txt"

    def ask(text: str) -> None:
        with questions.open("a") as file:
            file.write(text)

    async with OpenAIServer(echo) as endpoint:
        environ = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "test-key"}
        layers = load_layers(config, environ)
        settings = SettingsStore(layers).effective()
        plugins = plugins_folder(settings, tmp_path / "data")
        letters = make_messengers(
            settings.channels.messengers, layers.secrets, plugins, has_server=False
        )
        pipe = TestChannel("pipe")
        app = await assemble(layers, tmp_path / "data", [pipe, *letters])
        running = asyncio.create_task(app.run(until="pipe"))
        ask("Hello!\nHalf a li")
        assert await until_written(answers, "Hello!") == "re: Hello!\n\n"
        ask("ne\n")
        await until_written(answers, "re: Half a line")
        ask("/context\n")
        shown = await until_written(answers, "to choose")
        assert shown.startswith("re: Hello!\n\nre: Half a line\n\n")
        ask("1\n")  # the details
        await until_written(answers, "turn", after="to choose.")
        pipe.leave()
        await running
    assert len(endpoint.requests) == 2, "a choice never reaches the model"


@pytest.mark.usefixtures("processes")
async def test_the_session_on_the_page_is_what_the_pipe_says(tmp_path: Path) -> None:
    exchanges = exchanges_in(example("channels.md", "jsonl"))
    script = [Say(line["text"]) for _, out in exchanges for line in out if line.get("turn")]
    async with OpenAIServer(script) as endpoint, talking(tmp_path, endpoint) as bot:
        for line, out in exchanges:
            await said(bot, line, out)
        assert await bot.ended() == 0
    assert bot.lines == [line for _, out in exchanges for line in out]


def exchanges_in(session: str) -> list[tuple[str, list[Json]]]:
    """Return each input line, with the output lines before the next one."""
    parts = session.removeprefix("> ").split("\n> ")
    exchanges = [part.strip().split("\n< ") for part in parts]
    return [(line, [json.loads(answer) for answer in out]) for line, *out in exchanges]


async def said(bot: BotProcess, line: str, out: list[Json]) -> None:
    """Write a line, and wait for as many output lines as in `out`."""
    count = len(bot.out) + len(out)
    await bot.write(f"{line}\n".encode())
    await bot.until(lambda: len(bot.out) >= count)
