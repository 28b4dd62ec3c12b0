"""Tests of server settings as written on our page and in the documentation of others."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bot.settings import load_layers
from plugins.mcp.pasted import make_name, read_pasted
from plugins.mcp.settings import NAME, McpServer, parse_servers
from tests.docs.pages import ROOT
from tests.mcp.testbot import NOTES, calls_in, last_result, script
from tests.tables import each_row
from tests.whole.testbot import run_bot

PAGE = (ROOT / "docs" / "mcp.md").read_text("utf-8")
(EXAMPLE,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
ENVIRON = {"NOTES_KEY": "a-key-to-notes", "TICKETS_TOKEN": "a-token-for-tickets"}


def test_the_example_can_be_read(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(EXAMPLE)
    servers = load_layers(config, ENVIRON).file.values["mcp.servers"]
    assert servers["tickets"]["headers"]["Authorization"] == "Bearer a-token-for-tickets"
    tickets = McpServer.model_validate({**servers["tickets"], "name": "tickets"})
    assert tickets.offers("read_ticket")
    assert not tickets.offers("close_ticket")
    assert tickets.asks("search")


@pytest.mark.usefixtures("processes")
async def test_the_example_does_what_the_page_says(tmp_path: Path) -> None:
    settings = yaml.safe_load(EXAMPLE)
    notes = settings["mcp"]["servers"]["notes"]
    assert (notes["command"], notes["args"]) == ("python", ["notes_server.py"])
    notes |= {"command": sys.executable, "args": [str(NOTES), str(tmp_path)]}
    async with run_bot(tmp_path, script, settings, ENVIRON) as bot:
        await bot.says("use notes__find_notes")
        prompt = bot.sent_to_model()[0]["content"]
        assert "One note." in last_result(bot), "its tools to find notes ask nobody"
    assert "\n- notes: my notes\n- tickets" in prompt
    assert calls_in(tmp_path)[-1].startswith("find_notes")


def test_every_field_is_told_of() -> None:
    for name in McpServer.model_fields:
        if name not in ("name", "transport"):
            assert re.search(rf"^\|[^|]*`{name}`", PAGE, re.MULTILINE), name
        assert name in PAGE


def test_the_extra_is_installed_as_the_page_says() -> None:
    (file,) = re.findall(r"pip install -r (\S+)", PAGE)
    pinned = (ROOT / file).read_text("utf-8")
    tested = (ROOT / "tests" / "requirements.txt").read_text("utf-8")
    for line in pinned.splitlines():
        assert line.startswith("#") or f"\n{line}" in f"\n{tested}", line


WORD = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="$"), max_size=12)
KEYS = st.text("abcXYZ_-./@ 09", min_size=1, max_size=30)
PROGRAMS = st.fixed_dictionaries(
    {"command": st.sampled_from(["npx", "uvx", "/opt/x"]), "args": st.lists(WORD, max_size=4)},
    optional={"env": st.dictionaries(st.sampled_from(["A", "B_KEY"]), WORD)},
)
ADDRESSES = st.fixed_dictionaries(
    {"url": st.sampled_from(["https://x.example/mcp", "http://127.0.0.1:3001/sse"])},
    optional={"headers": st.dictionaries(st.sampled_from(["X-A", "X-B"]), WORD)},
)
SERVERS = st.dictionaries(KEYS, PROGRAMS | ADDRESSES, min_size=1, max_size=3)
GROUPS: list[Callable[[Any], Any]] = [
    lambda servers: {"mcpServers": servers},
    lambda servers: {"servers": servers, "inputs": [{"id": "key", "type": "promptString"}]},
    lambda servers: {"mcp": {"servers": servers}},
    lambda servers: {"$schema": "https://a.example", "theme": {"x": 1}, "mcp": servers},
    lambda servers: {"context_servers": servers},
    lambda servers: {"mcpServers": [{"name": name, **one} for name, one in servers.items()]},
    lambda servers: servers,
]
RENAMED: list[dict[str, str]] = [
    {},
    {"url": "serverUrl", "env": "environment"},
    {"url": "httpUrl", "headers": "http_headers"},
]
AROUND: list[Callable[[str], str]] = [
    lambda text: text,
    lambda text: f"```json\n{text}\n```",
    lambda text: (
        f"Put this into your settings (see https://a.example):\n\n{text}\n\nThen restart {{it}}."
    ),
    lambda text: text.replace('"', "“"),
    lambda text: f"// the servers\n{text}/* all of them, */",
    lambda text: re.sub(r"(?<=[}\]\"])(?=\n\s*[}\]])", ",", text),
]


@given(data=st.data(), servers=SERVERS)
def test_servers_are_read_from_what_any_program_calls_them(
    data: st.DataObject, servers: dict[str, Any]
) -> None:
    group, names, around = (data.draw(st.sampled_from(one)) for one in (GROUPS, RENAMED, AROUND))
    written = {
        name: {names.get(key, key): value for key, value in one.items()}
        for name, one in servers.items()
    }
    text = around(json.dumps(group(written), indent=2))
    if "“" in text and any(mark in str(servers) for mark in "“”„\\"):
        return
    found = read_pasted(text)
    assert [one.name for one in found] == list(servers)
    for read, one in zip(found, servers.values(), strict=True):
        asked = {key: value for key, value in one.items() if value or key == "command"}
        assert read.fields == {**asked, **({"args": one["args"]} if one.get("args") else {})}
        assert read.unused == ()


READ = {
    '"context7": {"serverUrl": "https://a.example/mcp"}': {"url": "https://a.example/mcp"},
    '{"x": {"type": "http", "url": "https://a.example"}}': {"url": "https://a.example"},
    '{"x": {"type": "streamable-http", "url": "http://a"}}': {"url": "http://a"},
    '{"x": {"type": "sse", "url": "http://a"}}': {"url": "http://a", "transport": "sse"},
    '{"x": {"type": "stdio", "command": "a"}}': {"command": "a"},
    '{"x": {"command": "npx -y foo --port 3"}}': {
        "command": "npx",
        "args": ["-y", "foo", "--port", "3"],
    },
    '{"x": {"command": ["npx", "-y", "foo"]}}': {"command": "npx", "args": ["-y", "foo"]},
    '{"x": {"command": "a", "args": "-b c"}}': {"command": "a", "args": ["-b", "c"]},
    '{"x": {"command": {"path": "a", "args": ["b"], "env": {"C": "d"}}}}': {
        "command": "a",
        "args": ["b"],
        "env": {"C": "d"},
    },
    '{"x": {"command": "cmd", "args": ["/c", "npx", "a"]}}': {"command": "npx", "args": ["a"]},
    '{"x": {"command": "a", "env": {"PORT": 3, "OK": true}}}': {
        "command": "a",
        "env": {"PORT": "3", "OK": "true"},
    },
    '{"x": {"command": "a", "args": ["${workspaceFolder}/b"]}}': {"command": "a", "args": ["./b"]},
    '{"x": {"url": "http://a", "headers": {"Authorization": "Bearer ${input:my-key}"}}}': {
        "url": "http://a",
        "headers": {"Authorization": "Bearer {{secret.MY_KEY}}"},
    },
    '{"x": {"command": "a", "env": {"A_KEY": "${env:A_KEY}", "B_KEY": "$B_KEY"}}}': {
        "command": "a",
        "env": {"A_KEY": "{{secret.A_KEY}}", "B_KEY": "{{secret.B_KEY}}"},
    },
    '{"mcpServers": {"x": {"command": "a", "args": []}}': {"command": "a"},  # one } is missing
    '{"command": "a", "serves": ["users"], "approve": "never"}': {
        "command": "a",
        "serves": ["users"],
        "approve": "never",
    },
}


@each_row(("written", "fields"), READ.items())
def test_fields_have_our_names(written: str, fields: dict[str, Any]) -> None:
    (found,) = read_pasted(written)
    assert found.fields == fields
    parse_servers({"x": found.fields})


def test_what_can_not_be_used_is_named() -> None:
    (found,) = read_pasted('{"x": {"command": "a", "cwd": "/b", "disabled": false, "trust": true}}')
    assert found.unused == ("cwd", "trust")


NONE = (
    "",
    "{}",
    "[]",
    "notes",
    "{" * 3_000,
    '{"a": 1}',
    '{"command": 1}',
    "sh -c {{secret.A}}",
    "null",
)


@each_row("written", NONE)
def test_where_there_is_no_server_none_is_read(written: str) -> None:
    assert read_pasted(written) == []


@given(
    written=st.text()
    | st.recursive(
        st.none() | st.text() | st.integers(),
        lambda x: (
            st.lists(x)
            | st.dictionaries(st.sampled_from(["command", "url", "args", "env", "headers", "a"]), x)
        ),
    ).map(json.dumps)
)
def test_whatever_is_pasted_raises_nothing(written: str) -> None:
    for one in read_pasted(written):
        json.dumps(one.fields)


@given(written=st.text())
def test_a_name_is_one_that_the_settings_take_or_none(written: str) -> None:
    name = make_name(written)
    assert not name or re.fullmatch(NAME, name)


def test_names_are_the_ends_of_what_others_write() -> None:
    for written, name in {
        "Sequential Thinking": "sequential-thinking",
        "@modelcontextprotocol/server-filesystem": "server-filesystem",
        "github.com/upstash/context7-mcp": "context7-mcp",
        "brave_search": "brave-search",
        "21st": "mcp-21st",
        "a-very-long-name-of-a-server": "a-very-long-name-of-a-se",
    }.items():
        assert make_name(written) == name
    assert McpServer(name=make_name("X"), command="a").name == "x"
