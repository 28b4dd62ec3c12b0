"""docs/mcp.md: its example is a configuration, and does what the page says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml

from bot.settings import load_layers
from plugins.mcp.settings import McpServer
from tests.docs.pages import ROOT
from tests.mcp.testbot import NOTES, calls_in, last_result, script
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
