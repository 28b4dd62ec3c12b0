"""The providers that are known by name: where they are, what they list, and what they want."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from genai_prices.data_snapshot import get_snapshot

from agent.models.base import ModelRequest, ModelUnlisted
from agent.models.catalogue import readings
from agent.models.endpoint import Endpoint
from agent.models.listed import ListedModel, find_window, read_list
from agent.models.openai import OpenAIModel
from agent.models.openai_request import shorten_id
from agent.models.providers import NOBODY, PROVIDERS, Provider, find_provider
from agent.models.selection import Credentials, ModelLists, place_of
from agent.settings import Brain
from memory.messages import Message, ToolCall
from tests.fakes.openai_server import OpenAIServer, Say

REMOTE = {name: one for name, one in PROVIDERS.items() if not one.is_free}


@pytest.mark.parametrize("name", PROVIDERS)
def test_each_has_an_address_that_its_host_is_known_by(name: str) -> None:
    known = PROVIDERS[name]
    variables = {"AZURE_OPENAI_ENDPOINT": "https://me.openai.azure.com/", "AWS_REGION": "eu-west-1"}
    url = known.address(variables)
    parts = urlsplit(url)
    assert parts.scheme == ("http" if known.is_free else "https")
    assert re.fullmatch(r"(/[\w.]+)+", parts.path)
    assert find_provider(name, "https://elsewhere.example/v1") is known
    assert find_provider("", url) is (NOBODY if known.is_free else known)


@pytest.mark.parametrize("name", REMOTE)
def test_the_prices_of_each_that_costs_something_are_found(name: str) -> None:
    _, where = readings("any", name)[0]
    provider = get_snapshot().find_provider("any", where.id, where.url)
    assert provider.models


@pytest.mark.parametrize("url", ["http://[", "", "https://api.openai.com.evil.example/v1"])
def test_nobody_is_known_by_another_address(url: str) -> None:
    assert find_provider("", url) is NOBODY


def test_what_an_address_wants_is_asked_of_the_environment() -> None:
    brain = Brain(provider="bedrock")
    assert place_of(brain, Credentials()).missing == "AWS_REGION"
    there = {"AWS_REGION": "eu-west-1"}
    assert place_of(brain, Credentials(keys=there)).missing == "AWS_BEARER_TOKEN_BEDROCK"
    place = place_of(brain, Credentials(keys=there | {"AWS_BEARER_TOKEN_BEDROCK": "k"}))
    assert place.base_url == "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1"
    assert (place.api_key, place.missing) == ("k", "")


LISTS: list[tuple[str, object, list[ListedModel]]] = [
    (
        "openai",
        {"data": [{"id": "gpt-5.1"}, {"id": "text-embedding-3-small"}, {"id": "whisper-1"}]},
        [ListedModel("gpt-5.1")],
    ),
    (
        "gemini",
        {"data": [{"id": "models/gemini-2.5-flash"}, {"id": "models/gemini-embedding-001"}]},
        [ListedModel("gemini-2.5-flash")],
    ),
    (
        "together",
        [
            {"id": "meta-llama/Llama-3.3-70B", "type": "chat", "context_length": 131_072},
            {"id": "black-forest/FLUX", "type": "image"},
        ],
        [ListedModel("meta-llama/Llama-3.3-70B", 131_072)],
    ),
    (
        "mistral",
        {
            "data": [
                {
                    "id": "mistral-large-latest",
                    "capabilities": {"completion_chat": True},
                    "max_context_length": 131_072,
                },
                {"id": "other", "capabilities": {"completion_chat": False}},
            ]
        },
        [ListedModel("mistral-large-latest", 131_072)],
    ),
    ("groq", {"data": [{"id": "a", "context_window": 8192}]}, [ListedModel("a", 8192)]),
    ("vllm", {"data": [{"id": "a", "max_model_len": 4096}]}, [ListedModel("a", 4096)]),
    ("", {"data": [{"id": "a"}, {"id": "a"}, {"id": 5}, {"id": ""}, "b"]}, [ListedModel("a")]),
    ("", {"data": [{"id": "a", "context_length": -1}, {"id": "x" * 201}]}, [ListedModel("a")]),
    ("", {"data": "none"}, []),
    ("", None, []),
]


@pytest.mark.parametrize(("provider", "listing", "models"), LISTS)
def test_a_list_has_the_models_that_one_can_talk_to(
    provider: str, listing: object, models: list[ListedModel]
) -> None:
    assert read_list(listing, PROVIDERS.get(provider, NOBODY)) == models


def test_a_list_is_bounded() -> None:
    assert len(read_list([{"id": f"m{n}"} for n in range(9_000)], NOBODY)) == 5_000


async def test_who_has_no_list_is_not_asked_for_one() -> None:
    async with OpenAIServer() as server:
        model = OpenAIModel(Endpoint("mine", server.base_url, provider="azure"))
        with pytest.raises(ModelUnlisted, match="does not say which models there are"):
            await model.list_models()
        await model.close()
        assert server.listings == 0


async def test_a_list_is_asked_for_again_when_it_is_old() -> None:
    now = [0.0]
    lists = ModelLists(lambda: now[0])
    async with OpenAIServer(models=("one",)) as server:
        endpoint = Endpoint("", server.base_url)
        for at, listings in ((0.0, 1), (599.0, 1), (601.0, 2)):
            now[0] = at
            assert await lists.of(endpoint, lambda: OpenAIModel(endpoint)) == [ListedModel("one")]
            assert server.listings == listings


# --- windows ---

LMSTUDIO = {"data": [{"id": "qwen", "loaded_context_length": 8192, "max_context_length": 40_960}]}
SAID: dict[str, dict[str, Any]] = {
    "/api/v0/models": LMSTUDIO,
    "/props": {"default_generation_settings": {"n_ctx": 5}, "n_ctx": 7},
}


@pytest.mark.parametrize(
    ("provider", "listed", "window"),
    [
        ("vllm", {"id": "qwen", "max_model_len": 16_384}, 16_384),
        ("lmstudio", "qwen", 8192),
        ("llama.cpp", "qwen", 5),
        ("groq", {"id": "qwen", "context_window": 131_072}, 131_072),
        ("openai", {"id": "qwen", "context_window": 131_072}, 0),
        ("vllm", "qwen", 0),
    ],
)
async def test_a_window_is_what_the_server_says(
    provider: str, listed: str | dict[str, Any], window: int
) -> None:
    async with OpenAIServer(models=[listed]) as endpoint:
        endpoint.documents = SAID
        model = OpenAIModel(Endpoint("qwen", endpoint.base_url, provider=provider))
        for _ in range(4):
            await model.ready()
        await model.close()
        assert model.window == window
        assert endpoint.listings <= 2


async def test_a_window_that_is_known_is_not_asked_for() -> None:
    async with OpenAIServer() as server:
        model = OpenAIModel(Endpoint("llama3.1-8b", server.base_url, provider="cerebras"))
        await model.ready()
        await model.close()
        assert server.listings == 0


@pytest.mark.parametrize("answer", [None, [], {"data": 5}, {"data": [{"id": "b", "n": 5}]}, "text"])
def test_a_window_that_is_not_there_is_none(answer: object) -> None:
    assert find_window(answer, ("data", "n"), "a") == 0


# --- ids of calls ---


async def test_calls_of_another_model_are_taken_by_one_that_wants_ids_of_nine_letters() -> None:
    said = [
        {"role": "user", "content": "Look."},
        Message("assistant", tool_calls=(ToolCall("call_t1_1", "look", "{}"),)).to_wire(),
        Message("tool", "A moon.", call_id="call_t1_1", tool="look").to_wire(),
        Message("assistant", tool_calls=(ToolCall("abcDEF123", "look", "{}"),)).to_wire(),
        Message("tool", "Two.", call_id="abcDEF123", tool="look").to_wire(),
    ]
    async with OpenAIServer([Say("I see.")] * 2) as server:
        server.call_ids = 9
        model = OpenAIModel(Endpoint("m", server.base_url, provider="mistral"))
        for _ in range(2):
            assert (await model.reply(ModelRequest(said), lambda _: None)).text == "I see."
        await model.close()
        first, second = (one.body for one in server.requests)
    assert first == second
    assert set(first) == {"model", "messages", "stream", "stream_options"}
    assert first["messages"][3]["tool_calls"][0]["id"] == "abcDEF123"


def test_ids_of_calls_stay_apart() -> None:
    made = {shorten_id(f"call_{n}", 9) for n in range(5_000)}
    assert len(made) == 5_000
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", one) for one in made)


def test_a_provider_of_ones_own_has_nothing_different() -> None:
    assert Provider("http://127.0.0.1:9/v1", "").may_chat("text-embedding")
