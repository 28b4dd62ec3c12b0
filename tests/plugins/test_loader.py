"""Tests of user plugins: a file or a package extends the bot; broken ones are skipped and named."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from channels.message import Attachment
from plugins.approvals.feature import Approvals
from plugins.loader import SPENDING, GuardFailed
from plugins.spending.saving import MonthSpending
from tests.fakes.openai_server import Call, OpenAIServer, Say
from tests.whole.process import talking
from tests.whole.testbot import run_bot

DICE = '''
from plugins.api import Ask, Command, Reply, Tool, ToolContext, command, hookimpl, tool

@command("roll", "Roll a die", "[SIDES]")
async def roll(ask: Ask) -> Reply:
    return Reply(f"You rolled a 4 of {ask.text or 6}.", {"rolled": 4})

@tool
def throw(context: ToolContext, sides: int = 6) -> str:
    """Throw a die.

    Args:
        sides: How many sides it has.
    """
    return f"3 of {sides}, in {context.key.id}"

@hookimpl
def parley_commands() -> list[Command]:
    return [roll]

@hookimpl
def parley_tools() -> list[Tool]:
    return [throw]
'''
ROLL = """
from plugins.api import Reply, Tool, command, hookimpl

@command({name!r}, "Roll")
async def roll(ask):
    {body}

@hookimpl
def parley_commands():
    return [roll]
"""
TOOL = """
from plugins.api import Tool, hookimpl

async def run(arguments, context):
    return "x"

@hookimpl
def parley_tools():
    return [Tool({name!r}, "A tool.", {schema}, run)]
"""
HOOK = """
from plugins.api import hookimpl

@hookimpl
def {hook}:
    {body}
"""
VERB = """
from plugins.api import Reply, Verb, hookimpl

async def run(ask):
    return Reply("x")

@hookimpl
def parley_verbs():
    return [Verb(*one.split(), "something", run) for one in {names!r}]
"""
OK = "return Reply('x')"


def plugin(folder: Path, name: str, source: str | bytes) -> None:
    """Write a plugin into the data folder of a bot."""
    plugins = folder / "data" / "plugins"
    plugins.mkdir(parents=True, exist_ok=True)
    content = source.encode() if isinstance(source, str) else source
    (plugins / f"{name}.py").write_bytes(content)


async def test_one_file_adds_a_command_and_a_tool(tmp_path: Path) -> None:
    plugin(tmp_path, "dice", DICE)
    script = [Say(calls=(Call("throw", '{"sides": 20}', "a"),)), Say("A three!")]
    async with run_bot(tmp_path, script) as bot:
        assert (await bot.says("/roll 8")).text == "You rolled a 4 of 8."
        assert "Roll a die" in (await bot.says("/help all")).text
        assert "/roll" in (await bot.says("/rol")).text
        assert (await bot.says("Throw!")).text == "A three!"
        schemas = bot.server.requests[0].body["tools"]
        assert "3 of 20, in pipe/main" in bot.sent_to_model()[-1]["content"]
        status = (await bot.says("/status")).data
    assert [s["function"]["name"] for s in schemas] == sorted(
        s["function"]["name"] for s in schemas
    )
    assert status is not None
    assert "dice" in status["plugins"]
    assert status["problems"] == ()


async def test_plugins_may_live_in_a_folder_of_ones_choice(tmp_path: Path) -> None:
    plugin(tmp_path / "elsewhere", "dice", DICE)
    plugin(tmp_path, "other", ROLL.format(name="other", body=OK))
    settings = {"plugins_dir": str(tmp_path / "elsewhere" / "data" / "plugins")}
    async with run_bot(tmp_path, (), settings) as bot:
        assert (await bot.says("/roll")).text == "You rolled a 4 of 6."
        assert "no command" in (await bot.says("/other")).text


async def test_an_installed_package_adds_to_the_bot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "site" / "dice-1.0.dist-info"
    await asyncio.to_thread(info.mkdir, parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dice\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[parley]\ndice = dice_of_a_package\ngone = not_there\n")
    (tmp_path / "site" / "dice_of_a_package.py").write_text(DICE)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    async with run_bot(tmp_path) as bot:
        assert (await bot.says("/roll")).text == "You rolled a 4 of 6."
        status = (await bot.says("/status")).text
    assert "The plugin 'gone' was left out: ModuleNotFoundError" in status
    sys.modules.pop("dice_of_a_package")


BROKEN: dict[str, tuple[str | bytes, str]] = {
    "syntax": ("def oops(:", "SyntaxError"),
    "latin": (b"x = '\xe9'", "SyntaxError"),
    "raising": ("raise RuntimeError('no\\nluck')", "RuntimeError: no luck"),
    "exiting": ("import sys; sys.exit()", "SystemExit"),
    "missing": ("import not_there", "No module named 'not_there'"),
    "strings": (HOOK.format(hook="parley_commands()", body="return ['x']"), "list of Command"),
    "nothing": (HOOK.format(hook="parley_tools()", body="pass"), "list of Tool"),
    "a_dict": (HOOK.format(hook="parley_tools()", body="return {}"), "list of Tool"),
    "unlucky": (HOOK.format(hook="parley_tools()", body="return 1 / 0"), "ZeroDivisionError"),
    "arguments": (HOOK.format(hook="parley_tools(bot)", body="return []"), "'bot'"),
    "mistyped": (HOOK.format(hook="parley_comands()", body="return []"), "only parley_commands"),
    "taken": (ROLL.format(name="help", body=OK), "there is already a command 'help'"),
    "spaced": (ROLL.format(name="roll a die", body=OK), "can't name a command"),
    "shouted": (ROLL.format(name="ROLL", body=OK), "can't name a command"),
    "lost": (VERB.format(names=["contxt more"]), "there is no command 'contxt'"),
    "verb": (VERB.format(names=["context map"]), "already a subcommand 'context map'"),
    "request": (VERB.format(names=["context diff"]), "already a subcommand 'context diff'"),
    "twice": (VERB.format(names=["stop it", "stop it"]), "already a subcommand 'stop it'"),
    "loud": (VERB.format(names=["context MAP"]), "can't name a subcommand"),
    "log": (
        HOOK.format(hook="parley_request_log()", body="return 7"),
        "must return a class derived from RequestLog, not 7",
    ),
    "logs": (
        "from memory.services import RequestLog\n"
        + HOOK.format(hook="parley_request_log()", body="return RequestLog"),
        "another plugin has parley_request_log already",
    ),
    "known": (TOOL.format(name="calculate", schema={}), "there is already a tool 'calculate'"),
    "unsendable": (TOOL.format(name="my tool", schema={}), "can't name a tool"),
    "schemaless": (TOOL.format(name="mine", schema="{'type': object}"), "not JSON serializable"),
    "context": (DICE, "there is a plugin of this name already"),
}


async def test_broken_plugins_are_left_out_by_name_and_the_rest_works(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name, (source, _) in BROKEN.items():
        plugin(tmp_path, name, source)
    plugin(tmp_path, "zz_last", DICE)
    async with run_bot(tmp_path, [Say("Hello!")]) as bot:
        data = (await bot.says("/status")).data
        told = (await bot.says("/status")).text
        assert (await bot.says("/roll")).text == "You rolled a 4 of 6."
        assert (await bot.says("Hi")).text == "Hello!"
        tools = {schema["function"]["name"] for schema in bot.server.requests[0].body["tools"]}
    assert data is not None
    problems = dict(zip(sorted(BROKEN), data["problems"], strict=True))
    for name, (_, reason) in BROKEN.items():
        assert problems[name].startswith(f"The plugin {name!r} was left out: ")
        assert reason in problems[name]
        assert "\n" not in problems[name]
        assert problems[name] in told
        assert problems[name] in caplog.messages
    assert "zz_last" in data["plugins"]
    assert not tools & {"my tool", "mine"}


async def test_a_plugin_that_is_half_right_adds_nothing(tmp_path: Path) -> None:
    plugin(tmp_path, "half", DICE.replace("return [throw]", "return [throw, 5]"))
    async with run_bot(tmp_path) as bot:
        assert "no command" in (await bot.says("/roll")).text


FAULTY = (
    "return None",
    "return 'x'",
    "raise ValueError('x')",
    "raise SystemExit(3)",
    "import asyncio; raise asyncio.CancelledError",
    "return Reply('x', {1: 2})",
    "return Reply('x', {'n': 2**80})",
    r"return Reply('\ud800')",
)


async def test_a_command_that_fails_is_answered_once_and_holds_up_nothing(tmp_path: Path) -> None:
    for number, body in enumerate(FAULTY):
        plugin(tmp_path, f"faulty{number}", ROLL.format(name=f"roll{number}", body=body))
    async with run_bot(tmp_path) as bot:
        for number in range(len(FAULTY)):
            told = (await bot.says(f"/roll{number}")).text
            assert told.startswith(f"/roll{number} failed inside the bot")
        assert "Parley" in (await bot.says("/version")).text
    async with run_bot(tmp_path) as bot:
        await bot.says("/version", chat="other")
    assert [outbound.address.chat for outbound in bot.sent] == ["other"]


@pytest.mark.usefixtures("processes")
async def test_the_same_holds_for_a_bot_of_its_own_process(tmp_path: Path) -> None:
    plugin(tmp_path, "dice", DICE)
    plugin(tmp_path, "exiting", "import sys; sys.exit(3)")
    async with OpenAIServer() as endpoint, talking(tmp_path, endpoint) as bot:
        assert (await bot.says("/roll"))["data"] == {"rolled": 4}
        assert await bot.ended() == 0
    assert bot.errors == "The plugin 'exiting' was left out: SystemExit: 3.\n"


OPENED = """
from plugins.api import Command, Reply, Tool, command, hookimpl

class Made:
    @hookimpl
    def {hook}(self{also}):
        return {value}

@hookimpl
def parley_open(kernel):
    return Made()
"""
RUNTIME = {
    "parley_background": "an object with idle, stop",
    "parley_closing": "a function",
    "parley_setting_changed": "a function",
    "parley_remote_tools": "a function",
    "parley_stop": "a function",
    "parley_said": "a function",
    "parley_in_force": "a function",
    "parley_prompt_section": "a promptsection",
    "parley_notes": "a function",
    "parley_meant": "a function",
    "parley_routes": "a function",
    "parley_runs": "an object with refusal, prepare, answer",
    "parley_speech_to_text": "an object with is_needed, transcribe",
    "parley_text_to_speech": "an object with is_needed, speak",
    "parley_rows": "an object with count, forget, prune",
    "parley_approvals": "an object with ask",
    "parley_spending": f"an object with {', '.join(SPENDING)}",
    "parley_logins": "a logins",
    "parley_services": "a sequence",
    "parley_calls": "a mapping",
    "parley_context_parts": "a mapping",
}
OF_MODULES = {
    "parley_commands": "",
    "parley_verbs": "",
    "parley_tools": "",
    "parley_ledger": "",
    "parley_request_log": "",
    "parley_mirror": "",
    "parley_likeness": "",
    "parley_system_prompt": ", prompt, key",
    "parley_tables": "",
}
FAILING = """
from plugins.api import hookimpl

def fail(*handed):
    raise RuntimeError("on purpose")

async def fail_later(*handed):
    raise RuntimeError("on purpose")

class Work:
    idle = stop = staticmethod(fail_later)

class Made:
    @hookimpl
    def parley_background(self):
        return Work()

    @hookimpl
    def parley_closing(self):
        return fail_later
"""
NOTE = (Attachment("note.txt", "text/plain", b"Feed the goats."),)
SPEAKS = """
class Speaker:
    def is_needed(self, *handed, **named):
        raise RuntimeError("on purpose")

    transcribe = speak = is_needed
"""
FAILS = ("setting_changed", "remote_tools", "stop", "notes", "routes")


async def test_a_plugin_whose_object_offers_what_does_not_fit_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "plugins"
    folder.mkdir(parents=True)
    for hook in RUNTIME:
        (folder / f"{hook}_wrong.py").write_text(OPENED.format(hook=hook, also="", value="7"))
    for hook, also in OF_MODULES.items():
        (folder / f"{hook}_late.py").write_text(OPENED.format(hook=hook, also=also, value="[]"))
    async with run_bot(tmp_path, [Say("Fine.")]) as bot:
        status = (await bot.says("/status")).text
        assert (await bot.says("Hello")).text == "Fine."
        features = bot.app.features
    for hook, wanted in RUNTIME.items():
        assert f"'{hook}_wrong' was not opened: {hook} must return {wanted}, not 7." in status
    for hook in OF_MODULES:
        assert f"{hook} must be a function of the module" in status
    assert 7 not in (*features.notes, *features.rows, *features.routes, *features.background)


async def test_one_plugin_limits_what_is_spent(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "plugins"
    folder.mkdir(parents=True)
    more = OPENED.format(hook="parley_spending", also="", value="SpendingRules()")
    (folder / "frugal.py").write_text(f"from bot.spending import SpendingRules\n{more}")
    async with run_bot(tmp_path, [Say("Fine.")]) as bot:
        status = (await bot.says("/status")).text
        assert (await bot.says("Hello")).text == "Fine."
    wanted = "'frugal' was not opened: another plugin limits what is spent already."
    assert wanted in status


async def test_what_fails_in_a_plugin_while_the_bot_runs_is_logged_and_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "data" / "plugins"
    folder.mkdir(parents=True)
    hooks = "".join(
        f"\n    @hookimpl\n    def parley_{name}(self):\n        return fail\n" for name in FAILS
    )
    opened = "\n@hookimpl\ndef parley_open(kernel):\n    return Made()\n"
    (folder / "failing.py").write_text(FAILING + hooks + opened)
    async with run_bot(tmp_path, [Say("Fine.")]) as bot:
        assert (await bot.says("Hello")).text == "Fine."
        assert "failed" not in (await bot.says("/config agent_max_steps 7")).text
        assert "failed" not in (await bot.says("/stop")).text
        assert [*bot.app.bot.list_routes()]  # the commands of other plugins
    for name in (*FAILS, "background", "closing"):
        assert f"parley_{name} of the plugin failing failed" in caplog.text


async def test_objects_of_a_plugin_that_fail_take_no_turn_down(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "data" / "plugins"
    folder.mkdir(parents=True)
    hooks = ("parley_speech_to_text", "parley_text_to_speech")
    for hook in hooks:
        more = OPENED.format(hook=hook, also="", value="Speaker()")
        (folder / f"{hook}_failing.py").write_text(SPEAKS + more)
    async with run_bot(tmp_path, [Say("Fine.")]) as bot:
        assert (await bot.says("Hello", files=NOTE)).text == "Fine."
        assert "| this conversation, total | 1 |" in (await bot.says("/usage")).text
    for hook in hooks:
        assert f"{hook} (is_needed) of the plugin {hook}_failing failed" in caplog.text


@pytest.mark.parametrize("made", [Approvals, MonthSpending])
async def test_the_bot_does_not_start_where_what_keeps_something_closed_fails(
    made: type[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*handed: object) -> None:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(made, "__init__", fail)
    name = made.__module__.split(".")[1]
    with pytest.raises(GuardFailed, match=f"The feature {name} can't be started"):
        async with run_bot(tmp_path, []):
            """Send no message."""


async def test_a_plugin_takes_no_call_of_another_one_over(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "plugins"
    folder.mkdir(parents=True)
    more = OPENED.format(hook="parley_calls", also="", value='{"approvals.answer": print}')
    (folder / "greedy.py").write_text(more)
    async with run_bot(tmp_path, []) as bot:
        status = (await bot.says("/status")).text
    assert "another plugin answers the call approvals.answer already" in status
