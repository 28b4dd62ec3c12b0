"""Tests that the tools made from any list of an MCP server are valid for a model's API."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.tools.base import Tool
from agent.tools.lean import find_tools, list_groups
from plugins.mcp.catalogue import ListedTool, describe_difference, name_for_model, read_tool
from plugins.mcp.health import Rate
from plugins.mcp.settings import find_plain_secret, parse_servers

NAMES = st.text(min_size=1, max_size=200)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=8), inside),
    max_leaves=20,
)
SCHEMAS = JSON | st.fixed_dictionaries({"type": JSON, "properties": JSON, "required": JSON})


async def nothing(arguments: dict[str, Any], context: object) -> str:
    del arguments, context
    return ""


@settings(max_examples=50)
@given(name=NAMES, description=JSON, schema=SCHEMAS)
def test_whatever_is_listed_becomes_a_tool_that_can_be_found_and_sent_or_none(
    name: str, description: Any, schema: Any
) -> None:
    listed = read_tool(name, description, schema)
    if listed is None:
        assert not name.isprintable()
        return
    assert ListedTool.from_json(name, listed.to_json()) == listed
    called = name_for_model("notes", name)
    tool = Tool(called, listed.description, listed.parameters, nothing, group="notes")
    assert re.fullmatch(r"notes__[A-Za-z0-9_-]{1,57}", called)
    json.dumps(tool.to_wire()).encode()
    assert tool.parameters["type"] == "object"
    assert find_tools([tool], "notes") == [tool]
    assert called in list_groups([tool])
    assert len(listed.description) <= 2_000


@given(names=st.sets(NAMES, min_size=2, max_size=30))
def test_no_two_tools_are_called_the_same(names: set[str]) -> None:
    assert len({name_for_model("notes", name) for name in names}) == len(names)


def test_a_name_stays_as_it_is_where_it_can() -> None:
    for name, called in (
        ("find", "notes__find"),
        ("get/thing", "notes__get_thing_"),
        ("read_resource", "notes__read_resource_"),
        ("resources/read", "notes__read_resource"),
        ("x" * 100, f"notes__{'x' * 48}_"),
    ):
        found = name_for_model("notes", name)
        assert found.startswith(called)
        assert found == name_for_model("notes", name)
        assert len(found) - len(called) == (8 if called.endswith("_") else 0)


def test_a_difference_is_told_without_what_a_server_wrote_into_its_names() -> None:
    before, now = {"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "do this\nnow": "1"}
    assert describe_difference(before, now) == "1 new: do_this_now; 1 changed: b; 1 gone: c"
    assert describe_difference(now, now) == ""
    many = {str(number): "" for number in range(100, 200)}
    assert describe_difference({}, many) == "100 new: 100, 101, 102, 103, 104 and 95 more"


@given(written=JSON)
def test_whatever_is_written_of_servers_is_refused_in_sentences(written: Any) -> None:
    find_plain_secret(written)
    said = "mcp.servers are taken."
    try:
        parse_servers(written)
    except ValueError as error:
        said = str(error)
    assert said.startswith("mcp.servers")
    assert len(said) < 10_000


def test_a_key_in_plain_text_is_found() -> None:
    def server(value: str) -> dict[str, Any]:
        return {"notes": {"url": "http://a", "headers": {"Authorization": value}}}

    assert find_plain_secret(server("Bearer abc")) == "notes.headers.Authorization"
    assert find_plain_secret(server("Bearer {{secret.NOTES}}")) == ""


async def test_what_comes_too_fast_is_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    monkeypatch.setattr("plugins.mcp.health.asyncio.sleep", sleep)
    rate = Rate(lambda: now)
    for _ in range(100):
        await rate.wait(100)
    assert slept == []
    for _ in range(900):
        await rate.wait(100)
    assert 3 < now < 6, "a thousand messages take some seconds"
