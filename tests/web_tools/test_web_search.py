"""Tests of the model's web search: at the owner's provider, after approval, with marked results."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from tests.docs.pages import example
from tests.fakes.openai_server import Call, Say
from tests.fakes.search_servers import KEY, SearchServer, searching
from tests.whole.testbot import TestBot, run_bot

PROVIDERS = ["searxng", "brave", "tavily"]
TEA = ("Tea &amp; co", "https://example.org/tea", "A drink\nof leaves.")


@pytest.fixture
async def server() -> AsyncIterator[SearchServer]:
    async with searching() as one:
        yield one


def settings(server: SearchServer, provider: str, approve: str = "never", **more: Any) -> Any:
    search = {"provider": provider, "base_url": server.url, **more}
    if provider != "searxng":
        search["api_key"] = "{{secret.SEARCH_KEY}}"
    return {"tools": {"web_search": search, "approve": approve}}


def script(*queries: str) -> list[Say]:
    calls = [
        Call("web_search", json.dumps({"query": one}), f"c{n}") for n, one in enumerate(queries)
    ]
    return [*(Say(calls=(call,)) for call in calls), Say("Here you are.")]


SECRETS = {"SEARCH_KEY": KEY}


def result(bot: TestBot) -> str:
    return str(next(m["content"] for m in reversed(bot.sent_to_model()) if m["role"] == "tool"))


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_results_are_numbered_with_their_addresses_and_marked(
    tmp_path: Path, server: SearchServer, provider: str
) -> None:
    server.results = [TEA, ("Milk", "https://example.org/milk", "")]
    async with run_bot(
        tmp_path, script("tea and milk"), settings(server, provider), SECRETS
    ) as bot:
        assert (await bot.says("Search")).text == "Here you are."
        assert result(bot) == (
            '<untrusted source="web_search">\n'
            "[1] Tea & co\nhttps://example.org/tea\nA drink of leaves.\n\n"
            "[2] Milk\nhttps://example.org/milk\n</untrusted>"
        )
        assert KEY not in str(bot.server.requests)
    assert server.queries == ["tea and milk"]


async def test_without_a_provider_there_is_no_such_tool(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Hello.")]) as bot:
        await bot.says("Hi")
        assert "web_search" not in str(bot.server.turns[-1].body["tools"])


async def test_a_person_is_asked_once_with_the_words_that_go_out(
    tmp_path: Path, server: SearchServer
) -> None:
    server.results = [TEA]
    asking = settings(server, "searxng", approve="ask")
    async with run_bot(tmp_path, script("my `secret` plan", "more"), asking) as bot:
        await bot.writes("Search", id="q")
        asked = (await bot.reply_to("")).reply
        assert server.queries == []
        assert "Search the web at 127.0.0.1 for:" in asked.text
        assert "my  secret  plan" in asked.text
        await bot.says(asked.actions[1].command)  # approves the provider, not only this search
        assert (await bot.reply_to("q")).reply.text == "Here you are."
        assert len([o for o in bot.sent if not o.reply_to]) == 1
    assert server.queries == ["my `secret` plan", "more"]


async def test_no_more_results_than_wanted_each_page_once_and_none_that_is_no_page(
    tmp_path: Path, server: SearchServer
) -> None:
    server.results = [
        TEA,
        TEA,
        ("Trap", "javascript:alert(1)", "x"),
        ("Long\u202e" * 1_000, "https://example.org/long", "y" * 100_000),
        *((f"Page {n}", f"https://example.org/{n}", "z") for n in range(30)),
    ]
    async with run_bot(tmp_path, script("tea"), settings(server, "searxng", results=3)) as bot:
        await bot.says("Search")
        found = result(bot)
    assert found.count("https://") == 3
    assert found.count("example.org/tea") == 1
    assert "javascript" not in found
    assert "\u202e" not in found
    assert len(found) < 2_000


NOTHING: list[tuple[Callable[[], web.StreamResponse], str]] = [
    (lambda: web.Response(text="<html>", content_type="text/html"), "can't be read"),
    (lambda: web.json_response([1, 2]), "is no list of results"),
    (lambda: web.json_response({"results": {"a": 1}}), "is no list of results"),
    (lambda: web.json_response({"results": [1, None, {"url": 7}]}), "Nothing was found for"),
    (lambda: web.json_response({}), "Nothing was found for"),
    (lambda: web.Response(body=b'{"results": []}' + b" " * 3_000_000), "sent more than 2 MB"),
    (lambda: web.Response(status=500), "with the error 500"),
    (lambda: web.Response(status=429), "takes no more searches for now"),
    (
        lambda: web.Response(status=302, headers={"Location": "http://169.254.169.254/"}),
        "with the error 302",
    ),
]


async def test_an_answer_that_is_none_is_a_sentence(tmp_path: Path, server: SearchServer) -> None:
    searches = script("tea") * (len(NOTHING) + 1)
    async with run_bot(tmp_path, searches, settings(server, "searxng")) as bot:
        for server.answer, sentence in NOTHING:
            assert (await bot.says("Search")).text == "Here you are."
            assert sentence in result(bot)
        server.speaks_json = False
        await bot.says("Search")
        assert "search.formats" in result(bot), "what to change there"


@pytest.mark.parametrize("provider", ["brave", "tavily"])
async def test_a_wrong_key_is_said_and_not_shown(
    tmp_path: Path, server: SearchServer, provider: str
) -> None:
    wrong = {"SEARCH_KEY": "wrong-key-1234567890"}
    async with run_bot(tmp_path, script("tea"), settings(server, provider), wrong) as bot:
        await bot.says("Search")
        assert "it does not take the key. Tell the owner." in result(bot)
        assert "wrong-key" not in str(bot.sent_to_model())


MISSING = (
    ({"provider": "searxng"}, "tools.web_search.base_url must be the address"),
    ({"provider": "tavily"}, "tools.web_search.api_key must be a key"),
    (
        {"provider": "searxng", "base_url": "http://127.0.0.1:9"},
        "The search failed: 127.0.0.1 can't be read",
    ),
)


async def test_what_is_missing_is_said_and_nothing_is_asked_for(tmp_path: Path) -> None:
    for number, (search, sentence) in enumerate(MISSING):
        half = {"tools": {"web_search": search, "approve": "never"}}
        async with run_bot(tmp_path, script("tea"), half) as bot:
            bot.count = 10 * number  # each message has its own id
            await bot.says("Search")
            assert sentence in result(bot)


async def test_the_chat_can_not_send_the_key_elsewhere(
    tmp_path: Path, server: SearchServer
) -> None:
    async with run_bot(tmp_path, [], settings(server, "brave"), SECRETS) as bot:
        said = await bot.says("/config tools.web_search.base_url http://127.0.0.1:9")
        assert "can't be changed" in said.text or "configuration" in said.text
        assert KEY not in (await bot.says("/config tools.web_search.api_key")).text
        assert server.url in (await bot.says("/config tools.web_search.base_url")).text


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
