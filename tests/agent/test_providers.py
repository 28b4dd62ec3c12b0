"""The providers known by name: their addresses, their lists of models, and their requirements."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import pytest

from agent.models.base import ModelRequest, ModelUnlisted
from agent.models.brain import NOBODY, PROVIDERS, Brain, Provider, find_provider
from agent.models.endpoint import Endpoint
from agent.models.listed import (
    ListedModel,
    find_window,
    ollama_inquiries,
    read_list,
    window_of_loaded,
    window_set,
)
from agent.models.openai import OpenAIModel
from agent.models.openai_request import shorten_id
from agent.models.selection import Credentials, ModelLists, place_of
from memory.messages import Message, ToolCall
from tests.agent.endpoints import CHAT, HELLO_WITH_TOOL, ask, conversation, user
from tests.fakes.openai_server import OpenAIServer, Say
from tests.tables import each_row


def test_each_has_an_address_that_its_host_is_known_by() -> None:
    variables = {"AZURE_OPENAI_ENDPOINT": "https://me.openai.azure.com/", "AWS_REGION": "eu-west-1"}
    for name, known in PROVIDERS.items():
        url = known.address(variables)
        parts = urlsplit(url)
        assert parts.scheme == ("http" if known.is_free else "https")
        assert re.fullmatch(r"(/[\w.-]+)+", parts.path)
        assert find_provider(name, "https://elsewhere.example/v1") is known
        assert find_provider("", url) is (NOBODY if known.is_free else known)
    for url in ("http://[", "", "https://api.openai.com.evil.example/v1"):
        assert find_provider("", url) is NOBODY
    assert Provider("http://127.0.0.1:9/v1", "").may_chat("text-embedding")


def test_the_addresses_of_other_regions_are_known_too() -> None:
    others = {
        "dashscope": ("dashscope.aliyuncs.com", "dashscope-us.aliyuncs.com"),
        "minimax": ("api.minimaxi.com",),
        "moonshot": ("api.moonshot.cn",),
        "siliconflow": ("api.siliconflow.cn",),
        "volcengine": ("ark.ap-southeast.bytepluses.com",),
        "zai": ("open.bigmodel.cn",),
    }
    for name, hosts in others.items():
        for host in hosts:
            assert find_provider("", f"https://{host}/v1") is PROVIDERS[name]
            assert find_provider("", f"https://{host}.evil.example/v1") is NOBODY


def test_what_an_address_wants_is_asked_of_the_environment() -> None:
    brain = Brain(provider="bedrock")
    assert place_of(brain, Credentials()).missing == "AWS_REGION"
    there = {"AWS_REGION": "eu-west-1"}
    assert place_of(brain, Credentials(keys=there)).missing == "AWS_BEARER_TOKEN_BEDROCK"
    place = place_of(brain, Credentials(keys=there | {"AWS_BEARER_TOKEN_BEDROCK": "k"}))
    assert place.base_url == "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1"
    assert (place.api_key, place.missing) == ("k", "")


# --- lists of models ---

TALKS: dict[str, Any] = {"capabilities": {"completion_chat": True}, "max_context_length": 131_072}
LISTS: dict[str, tuple[list[dict[str, Any]], ListedModel]] = {
    "openai": (
        [{"id": "gpt-5.1"}, {"id": "text-embedding-3-small"}, {"id": "whisper-1"}],
        ListedModel("gpt-5.1"),
    ),
    "gemini": (
        [{"id": "models/gemini-2.5-flash"}, {"id": "models/gemini-embedding-001"}],
        ListedModel("gemini-2.5-flash"),
    ),
    "together": (
        [
            {"id": "meta-llama/Llama-3.3-70B", "type": "chat", "context_length": 131_072},
            {"id": "black-forest/FLUX", "type": "image"},
        ],
        ListedModel("meta-llama/Llama-3.3-70B", 131_072),
    ),
    "mistral": (
        [{"id": "large", **TALKS}, {"id": "other", "capabilities": {"completion_chat": False}}],
        ListedModel("large", 131_072),
    ),
    "groq": ([{"id": "a", "context_window": 8192}], ListedModel("a", 8192)),
    "vllm": ([{"id": "a", "max_model_len": 4096}], ListedModel("a", 4096)),
}


def test_a_list_has_the_models_that_one_can_talk_to() -> None:
    for name, (data, model) in LISTS.items():
        assert read_list({"data": data}, PROVIDERS[name]) == [model]
        assert read_list(data, PROVIDERS[name]) == [model], "bare, as Together sends it"


def test_a_list_of_any_shape_is_read_and_bounded() -> None:
    odd = [{"id": "a"}, {"id": "a"}, {"id": 5}, {"id": ""}, "b", {"id": "x" * 201}]
    for data in (odd, [{"id": "a", "context_length": -1}]):
        assert read_list({"data": data}, NOBODY) == [ListedModel("a")]
    for listing in ({"data": "none"}, None):
        assert read_list(listing, NOBODY) == []
    assert len(read_list([{"id": f"m{n}"} for n in range(9_000)], NOBODY)) == 5_000


async def test_who_has_no_list_is_not_asked_for_one() -> None:
    async with conversation(CHAT, provider="azure") as (server, model):
        with pytest.raises(ModelUnlisted, match="does not list its models"):
            await model.list_models()
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
    async with OpenAIServer(models=[listed]) as server:
        server.documents = SAID
        model = CHAT.at(server.base_url, model="qwen", provider=provider)
        for _ in range(4):
            await model.ready()
        await model.close()
        assert model.window == window
        assert server.listings <= 2


async def test_a_window_that_is_known_or_that_nobody_says_is_not_asked_for() -> None:
    async with conversation(CHAT, model="llama3.1-8b", provider="cerebras") as (server, model):
        await model.ready()
        assert server.listings == 0
    async with conversation(CHAT, model="llama3.1:8b") as (server, model):
        for _ in range(5):
            await model.ready()
        assert (model.window, list(server.requests)) == (0, []), "it is not Ollama"
    model = CHAT.at("http://127.0.0.1:9/v1", model="llama3.1:8b")
    await model.ready()
    await model.close()
    assert model.window == 0, "nobody is there, which is no error"


def test_a_window_that_is_not_there_is_none() -> None:
    answers: tuple[object, ...] = (None, [], {"data": 5}, {"data": [{"id": "b", "n": 5}]}, "text")
    for answer in answers:
        assert find_window(answer, ("data", "n"), "a") == 0


# --- Ollama's own API ---


@each_row(
    ("model", "base_url", "provider", "is_asked"),
    [
        ("llama3.1:8b", "http://127.0.0.1:9/v1", "", True),
        ("hf.co/someone/model-GGUF:Q4_K_M", "https://gpu.example/ollama/v1", "", True),
        ("llama3.1", "http://127.0.0.1:11434/v1", "", True),
        ("llama3.1", "http://127.0.0.1:9/v1", "ollama", True),
        ("llama3.1", "http://127.0.0.1:9/v1", "", False),
        ("meta-llama/llama-3.1-8b-instruct:free", "https://openrouter.ai/api/v1", "", False),
        ("ft:gpt-4o:somebody", "https://api.openai.com/v1", "", False),
        ("llama3.1:8b", "http://127.0.0.1:9/v1", "somebody", False),
        ("llama3.1:8b", "http://[", "", False),
        ("llama3.1:8b", "http://127.0.0.1:99999/v1", "", False),
    ],
)
def test_only_what_may_be_ollama_is_asked(
    model: str, base_url: str, provider: str, is_asked: bool
) -> None:
    assert bool(ollama_inquiries(Endpoint(model, base_url, provider=provider))) is is_asked


def test_a_loaded_model_runs_with_the_window_that_is_reported() -> None:
    loaded = {"models": [{"name": "llama3.1:latest", "context_length": 8_192}, {"model": "b:1"}]}
    windows = {"llama3.1": 8_192, "llama3.1:latest": 8_192, "b:1": 0, "c:1": 0}
    assert {name: window_of_loaded(loaded, Endpoint(name)) for name in windows} == windows
    lengths: tuple[Any, ...] = (True, -5, 10**30)
    odd = [{"models": [{"name": "a:1", "context_length": length}]} for length in lengths]
    answers: tuple[object, ...] = (*odd, {"models": "none"}, [], None)
    for answer in answers:
        assert window_of_loaded(answer, Endpoint("a:1")) == 0


def test_what_a_model_could_take_is_not_what_it_is_run_with() -> None:
    assert (
        window_set({"parameters": 'stop    "<|x|>"\nnum_ctx                        4096'}) == 4_096
    )
    for answer in (
        {"parameters": "num_ctx many"},
        {"model_info": {"llama.context_length": 131_072}},
        {"parameters": None},
        "text",
    ):
        assert window_set(answer) == 0


# --- ids of calls ---


async def test_calls_of_another_model_are_taken_by_one_that_wants_ids_of_nine_letters() -> None:
    said = [
        user("Look."),
        Message("assistant", tool_calls=(ToolCall("call_t1_1", "look", "{}"),)).to_wire(),
        Message("tool", "A moon.", call_id="call_t1_1", tool="look").to_wire(),
        Message("assistant", tool_calls=(ToolCall("abcDEF123", "look", "{}"),)).to_wire(),
        Message("tool", "Two.", call_id="abcDEF123", tool="look").to_wire(),
    ]
    async with conversation(CHAT, *[Say("I see.")] * 2, provider="mistral") as (server, model):
        server.call_ids = 9
        for _ in range(2):
            request = ModelRequest(said, HELLO_WITH_TOOL.tools)
            assert (await ask(model, request)).text == "I see."
        first, second = (one.body for one in server.requests)
    assert first == second
    assert first["messages"][3]["tool_calls"][0]["id"] == "abcDEF123"


def test_ids_of_calls_stay_apart() -> None:
    made = {shorten_id(f"call_{n}", 9) for n in range(5_000)}
    assert len(made) == 5_000
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", one) for one in made)
