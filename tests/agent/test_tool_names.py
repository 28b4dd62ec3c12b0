"""Names of tools as models write them."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from agent.tools.lean import unwrap_call
from agent.tools.names import resolve_name
from memory.context.meter import PrefixTokens, PromptPrefix
from memory.context.view import View
from memory.messages import CUT_OFF, TOOL_SEARCH, USE_TOOL, Message, ToolCall
from memory.turns import Entry, Turn
from tests.tables import each_row

KNOWN = ("current_time", "read_file", "Read", "read")


@each_row(
    "name",
    [
        "functions.current_time",
        "current_time<|channel|>commentary",
        " current_time ",
        "default_api.current_time",
        "default_api:current_time",
        "tool.current_time",
        "functions.tools.current_time",
        "current_time()",
        "Current_Time",
        "current-time",
        "`current_time`",
        "functions.current-time<|constrain|>json",
    ],
)
def test_what_stands_around_a_name_is_left_out(name: str) -> None:
    assert resolve_name(name, KNOWN) == "current_time"


@each_row(
    "name", ["READ", "time", "current_time_now", "", "<|channel|>", "x" * 900, "other.current_time"]
)
def test_a_name_that_means_no_tool_or_two_stays_as_it_is(name: str) -> None:
    assert resolve_name(name, KNOWN) == name


def test_a_name_that_is_one_is_not_touched() -> None:
    assert resolve_name("functions.a", ["functions.a", "a"]) == "functions.a"
    assert resolve_name("read", KNOWN) == "read"


@pytest.mark.parametrize("arguments", ['{"path": "tea', "[", "", '{"path": "tea.txt"}'])
def test_a_wrapped_call_keeps_its_name_whatever_its_arguments_are(arguments: str) -> None:
    call = ToolCall("c1", "read_file", arguments)
    asked = Message("assistant", tool_calls=(call,))
    turn = Turn(1, (Entry(1, 1, asked, 9, datetime.now(UTC)),))
    lean = tuple({"function": {"name": name}} for name in (TOOL_SEARCH, USE_TOOL))
    view = View((turn,), (turn,), PrefixTokens(0, 0))
    (sent,) = view.to_wire(PromptPrefix("", lean))
    wrapped = sent["tool_calls"][0]["function"]
    assert wrapped["name"] == USE_TOOL
    assert json.loads(wrapped["arguments"])["name"] == "read_file"
    meant = unwrap_call(ToolCall("c1", USE_TOOL, wrapped["arguments"]))
    assert meant.name == "read_file"


@pytest.mark.parametrize("cut", ["", CUT_OFF])
def test_the_name_of_a_wrapped_call_is_kept_where_the_call_is_broken(cut: str) -> None:
    wanted = '{"name": "read_file", "arguments": {"path": "te'
    meant = unwrap_call(ToolCall("c1", USE_TOOL, wanted + cut))
    assert (meant.name, meant.arguments) == ("read_file", '{"path": "te' + cut)
    assert meant.is_cut == bool(cut)
    nested = ToolCall("c1", USE_TOOL, '{"name": "use_tool", "arguments": {"na')
    assert unwrap_call(nested) == nested
