"""Tests of a provider's differences in the configuration: they override the known ones."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from agent.models.base import ContextOverflow, ModelRequest
from agent.models.brain import NOBODY, PROVIDERS, Brain, BrainConfig, Provider, find_provider
from agent.models.endpoint import Endpoint
from agent.models.history import normalize, spell_out
from agent.models.learnt import ProviderQuirks
from agent.models.listed import inquiries, ollama_inquiries, read_list
from agent.models.openai_request import to_body, to_neutral
from agent.models.selection import Credentials, ModelChoice, Models, place_of
from memory.messages import Message, RequestExtras, ToolCall
from tests.agent.endpoints import (
    CHAT,
    CLAUDE,
    HELLO_WITH_TOOL,
    RESPONSES,
    TOOL,
    ask,
    conversation,
    user,
)
from tests.agent.endpoints import said as answered
from tests.fakes.openai_server import Say
from tests.tables import each_row

HERE = "http://gpu-box:8000/v1"
EVERY: dict[str, Any] = {
    "local": True,
    "lists": False,
    "prefix": "models/",
    "hides": "embed",
    "window": ("/props", "n_ctx"),
    "cache_key": "body",
    "call_ids": 9,
    "thoughts": "reasoning_content",
    "responses": "big-.*",
    "without": ("stream_options",),
    "extra": '{"reasoning_split": true}',
    "empty_content": True,
    "max_tokens": "max_completion_tokens",
    "largest_body": 1_000_000,
    "takes_tools": False,
    "sees": False,
}
LOOKED = [
    user("Look."),
    Message("assistant", tool_calls=(ToolCall("call_1", "look", '{"at": "it"}'),)).to_wire(),
    Message("tool", "A moon.", call_id="call_1", tool="look").to_wire(),
    answered("I looked."),
    user("Well?"),
]


def test_every_quirk_can_be_set_and_has_the_name_that_it_has_in_the_table() -> None:
    quirks = ProviderQuirks(**EVERY)
    assert dict(quirks.given) == EVERY
    assert set(EVERY) == set(ProviderQuirks.model_fields)
    found = find_provider("", HERE, quirks.given)
    own = {"is_free" if name == "local" else name: value for name, value in EVERY.items()}
    assert found == Provider("", "", **own)
    known = {
        "base_url",
        "key_name",
        "speaks",
        "host",
        "title",
    }  # which a brain sets by other settings
    assert set(Provider.__struct_fields__) == {*own, *known}


def test_what_is_set_is_laid_over_what_is_known() -> None:
    known = PROVIDERS["mistral"]
    found = find_provider("mistral", HERE, (("call_ids", 0), ("hides", "")))
    assert (found.call_ids, found.hides, found.window) == (0, "", known.window)
    assert find_provider("mistral", HERE) is known
    assert find_provider("", HERE) is NOBODY
    assert ProviderQuirks().given == ()


@each_row(
    "wrong",
    [
        {"window": ["models", "data"]},
        {"window": ["/models"]},
        {"hides": "("},
        {"responses": "["},
        {"without": ["model"]},
        {"without": ["Max Tokens"]},
        {"thoughts": "thinking"},
        {"call_ids": 41},
        {"largest_body": -1},
        {"cache_key": "a b"},
        {"max_tokens": "Max"},
        {"extra": "[1]"},
        {"extra": '{"messages": []}'},
    ],
)
def test_what_fits_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ProviderQuirks(**wrong)


async def test_a_brains_quirks_are_those_of_its_endpoint() -> None:
    quirks = ProviderQuirks(local=True, without=("stream_options",), sees=False, takes_tools=False)
    brain = Brain(config=BrainConfig(base_url=HERE), provider="mine", quirks=quirks)
    assert place_of(brain, Credentials()).is_free
    model = Models(Credentials()).of(ModelChoice("m", (), 1.0, brain))
    assert (model.is_free, model.sees, model.takes_tools) == (True, False, False)
    lent = brain.model_copy(update={"quirks": ProviderQuirks(local=False)})
    assert not place_of(lent, Credentials()).is_free
    rented = Brain(config=BrainConfig(base_url=HERE), provider="vllm", quirks=lent.quirks)
    assert not place_of(rented, Credentials()).is_free


def test_a_server_that_says_its_window_is_asked_for_it() -> None:
    quirks = (("window", ("/models", "data", "n")),)
    assert inquiries(Endpoint("m", HERE, quirks=quirks)) == 1
    assert inquiries(Endpoint("m", HERE, quirks=(*quirks, ("is_free", True)))) == 2
    assert ollama_inquiries(Endpoint("qwen3:8b", HERE)) == 2
    assert ollama_inquiries(Endpoint("qwen3:8b", HERE, quirks=quirks)) == 0


def test_a_list_is_read_as_it_is_set() -> None:
    found = find_provider("", HERE, (("prefix", "org/"), ("hides", "embed")))
    listed = read_list({"data": [{"id": "org/a"}, {"id": "org/embed"}]}, found)
    assert [one.name for one in listed] == ["a"]


# --- on the wire ---


@pytest.mark.parametrize("protocol", [CHAT, RESPONSES, CLAUDE], ids=["chat", "responses", "claude"])
async def test_a_parameter_that_is_never_sent_is_not_sent(protocol: Any) -> None:
    quirks = (("without", ("stream_options", "include", "tool_choice")),)
    async with conversation(protocol, Say("Yes."), quirks=quirks) as (server, model):
        await ask(model, HELLO_WITH_TOOL)
        (request,) = server.requests
        assert not {"stream_options", "include", "tool_choice"} & request.body.keys()


async def test_the_longest_reply_is_sent_under_the_name_that_is_set() -> None:
    quirks = (("max_tokens", "max_completion_tokens"),)
    async with conversation(CHAT, Say("Yes."), quirks=quirks, max_tokens=50) as (server, model):
        await ask(model)
        body = server.requests[0].body
        assert (body.get("max_tokens"), body["max_completion_tokens"]) == (None, 50)


async def test_a_request_that_is_known_to_be_too_large_is_not_sent() -> None:
    async with conversation(CHAT, Say("Yes."), quirks=(("largest_body", 500),)) as (server, model):
        with pytest.raises(
            ContextOverflow, match="less than 501 bytes; send less at once"
        ) as caught:
            await ask(model, ModelRequest([user("x" * 500)]))
        assert caught.value.status == 413
        assert not server.requests
        assert (await ask(model)).text == "Yes."


async def test_ids_thoughts_and_the_cache_are_as_they_are_set() -> None:
    quirks = (("call_ids", 9), ("thoughts", "reasoning_content"), ("cache_key", "body"))
    kept = RequestExtras({"call_1": '{"reasoning_content": "Hm."}'})
    request = ModelRequest(LOOKED, [TOOL], affinity="talk", beside=kept)
    async with conversation(CHAT, Say("Yes."), quirks=quirks) as (server, model):
        server.call_ids, server.thoughts = 9, "reasoning_content"
        await ask(model, request)
        body = server.requests[0].body
        assert body["prompt_cache_key"] == "talk"
        assert body["messages"][1]["reasoning_content"] == "Hm."
        assert len(body["messages"][1]["tool_calls"][0]["id"]) == 9


async def test_a_message_that_only_calls_has_an_empty_content_where_null_is_refused() -> None:
    quirks = (("empty_content", True), ("extra", '{"seed": 5}'))
    async with conversation(CHAT, Say("Yes."), quirks=quirks) as (server, model):
        await ask(model, ModelRequest(LOOKED, [TOOL]))
        body = server.requests[0].body
        assert body["messages"][1]["content"] == ""
        assert body["seed"] == 5
        assert "empty_content" not in body


async def test_moonshot_is_asked_as_it_is_documented() -> None:
    settings: dict[str, Any] = {"provider": "moonshot", "temperature": 0.5, "max_tokens": 50}
    async with conversation(CHAT, Say("Yes."), **settings) as (server, model):
        server.thoughts = "reasoning_content"
        await ask(model, ModelRequest(LOOKED, [TOOL], affinity="talk"))
        body = server.requests[0].body
        assert not {"temperature", "max_tokens"} & body.keys()
        assert (body["max_completion_tokens"], body["prompt_cache_key"]) == (50, "talk")
        said = body["messages"][1]
        assert said["content"] == ""
        assert said["reasoning_content"].strip()


# --- calls where no tools are offered ---


def test_calls_and_results_become_text_where_tools_are_refused() -> None:
    made = spell_out(normalize(LOOKED))
    assert made[1:3] == [
        {"role": "assistant", "content": '[called look with {"at": "it"}]'},
        {"role": "user", "content": "[look returned]\n\nA moon."},
    ]
    assert made[3:] == LOOKED[3:]
    provider = find_provider("", HERE, (("takes_tools", False),))
    neutral = to_neutral(Endpoint("m", HERE), provider, ModelRequest(LOOKED))
    messages = to_body(neutral, RequestExtras())["messages"]
    assert [one["role"] for one in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert not any("tool_calls" in one for one in messages)


async def test_claude_is_sent_no_calls_in_a_request_without_tools() -> None:
    async with conversation(CLAUDE, Say("Yes."), Say("No.")) as (server, model):
        await ask(model, ModelRequest(LOOKED))
        await ask(model, ModelRequest(LOOKED, [TOOL]))
        kinds = [
            {block["type"] for message in one.body["messages"] for block in message["content"]}
            for one in server.requests
        ]
        assert kinds == [{"text"}, {"text", "tool_use", "tool_result"}]
