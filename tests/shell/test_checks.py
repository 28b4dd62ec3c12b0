"""Tests of the checks of the tool `shell`: the messages where commands cannot be confined."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bot.checks import Finding
from bot.settings.schema import validate
from plugins.shell import feature as plugin
from plugins.shell.feature import check_box, examine, list_risks
from tests.tables import each_row
from tests.waiting import until
from tests.whole.testbot import run_bot

ON, UNBOXED = {"tools.shell": True}, {"tools.shell": True, "tools.shell_unboxed": True}


@each_row(
    ("values", "is_there", "is_installed", "is_ok", "said"),
    [
        (ON, True, True, True, "They can be confined (bubblewrap)."),
        (UNBOXED, True, True, True, "They can be confined (bubblewrap)."),
        (UNBOXED, False, False, True, "They are not confined (tools.shell_unboxed)."),
        (ON, False, False, False, "bubblewrap is missing."),
        (ON, False, True, False, "bubblewrap may make no namespaces here"),
    ],
)
def test_the_doctor_says_whether_commands_are_confined(
    values: dict[str, bool], is_there: bool, is_installed: bool, is_ok: bool, said: str
) -> None:
    found = check_box(validate(values), is_there, is_installed)
    assert found.is_ok is is_ok
    assert said in found.sentence


async def test_nothing_is_looked_for_where_the_tool_is_off() -> None:
    assert await examine(validate({}), may_connect=True) == ()
    assert [*list_risks(validate({}))] == []


@pytest.mark.parametrize(
    ("values", "has_box", "severities"),
    [
        (ON, True, ["note"]),
        (ON, False, ["low", "note"]),
        (UNBOXED, False, ["high", "note"]),
        (UNBOXED, True, ["high", "note"]),
    ],
)
def test_the_risks_of_commands(
    values: dict[str, bool], has_box: bool, severities: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "bwrap" if has_box else None)
    found: list[Finding] = [*list_risks(validate(values))]
    assert [risk.severity for risk in found] == severities


SETTINGS = {"tools": {"shell": True, "shell_unboxed": True, "approve": "never"}}


@pytest.mark.parametrize("end", ["/stop", "/forget chat yes"])
@pytest.mark.usefixtures("processes")
async def test_it_ends_with_stop_and_with_the_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(plugin, "_BOX", [False])
    async with run_bot(tmp_path, [], SETTINGS) as bot:
        await bot.writes("/shell touch begun; sleep 600; touch ended", id="command")
        await until(lambda: any(tmp_path.rglob("begun")))
        await bot.says(end)
        if end == "/stop":
            reply = (await bot.reply_to("command")).reply
            assert reply.text == "Stopped; the model does not see this command."
        assert "no turns yet" in (await bot.says("/context turns")).text
        assert "Nothing is running" in (await bot.says("/stop")).text
