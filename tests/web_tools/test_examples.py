"""The page on the web's tools: its examples are configurations that search."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from tests.docs.pages import example
from tests.fakes.openai_server import Call, Say
from tests.fakes.search_servers import KEY, searching
from tests.whole.testbot import run_bot

EXAMPLES = [
    yaml.safe_load(example("web-tools.md", "yaml")),
    json.loads(example("web-tools.md", "json")),
]


async def test_the_examples_search(tmp_path: Path) -> None:
    for settings in EXAMPLES:
        script = [Say(calls=(Call("web_search", '{"query": "tea"}', "c"),)), Say("Green.")]
        folder = tmp_path / settings["tools"]["web_search"]["provider"]
        folder.mkdir()
        async with searching() as server:
            server.results = [("Tea", "https://example.org/tea", "A drink.")]
            settings["tools"]["web_search"]["base_url"] = server.url
            settings["tools"]["approve"] = "never"
            async with run_bot(folder, script, settings, {"BRAVE_API_KEY": KEY}) as bot:
                assert (await bot.says("What about tea?")).text == "Green."
                found = str(bot.sent_to_model()[-1]["content"])
                assert "[1] Tea\nhttps://example.org/tea\nA drink." in found
        assert server.queries == ["tea"]
