"""What Ollama says of a model's window, and whom we ask; whose window and price a name means."""

from __future__ import annotations

import pytest

from agent.models.base import Usage
from agent.models.catalogue import cost_of, window_of
from agent.models.endpoint import Endpoint
from agent.models.ollama import inquiries, window_of_loaded, window_set
from agent.models.openai import OpenAIModel
from tests.fakes.openai_server import OpenAIServer


@pytest.mark.parametrize(
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
    assert bool(inquiries(Endpoint(model, base_url, provider=provider))) is is_asked


LOADED = {"models": [{"name": "llama3.1:latest", "context_length": 8_192}, {"model": "b:1"}]}


@pytest.mark.parametrize(
    ("answer", "model", "window"),
    [
        (LOADED, "llama3.1", 8_192),
        (LOADED, "llama3.1:latest", 8_192),
        (LOADED, "b:1", 0),
        (LOADED, "c:1", 0),
        ({"models": [{"name": "a:1", "context_length": True}]}, "a:1", 0),
        ({"models": [{"name": "a:1", "context_length": -5}]}, "a:1", 0),
        ({"models": [{"name": "a:1", "context_length": 10**30}]}, "a:1", 0),
        ({"models": "none"}, "a:1", 0),
        ([], "a:1", 0),
        (None, "a:1", 0),
    ],
)
def test_a_loaded_model_runs_with_the_window_that_is_reported(
    answer: object, model: str, window: int
) -> None:
    assert window_of_loaded(answer, Endpoint(model)) == window


@pytest.mark.parametrize(
    ("answer", "window"),
    [
        ({"parameters": 'stop    "<|x|>"\nnum_ctx                        4096'}, 4_096),
        ({"parameters": "num_ctx many"}, 0),
        ({"model_info": {"llama.context_length": 131_072}}, 0),
        ({"parameters": None}, 0),
        ("text", 0),
    ],
)
def test_what_a_model_could_take_is_not_what_it_is_run_with(answer: object, window: int) -> None:
    assert window_set(answer) == window


async def test_a_server_that_is_not_ollama_is_left_in_peace_after_two_questions() -> None:
    async with OpenAIServer() as server:
        model = OpenAIModel(Endpoint("llama3.1:8b", server.base_url))
        for _ in range(5):
            await model.ready()
        await model.close()
        assert model.window == 0
        assert not server.requests


async def test_a_server_that_does_not_answer_costs_no_error() -> None:
    model = OpenAIModel(Endpoint("llama3.1:8b", "http://127.0.0.1:9/v1"))
    await model.ready()
    await model.close()
    assert model.window == 0


@pytest.mark.parametrize(
    ("provider", "window"),
    [("cerebras", 32_768), ("https://api.cerebras.ai/v1", 32_768), ("http://127.0.0.1:9/v1", 0)],
)
def test_a_provider_is_known_by_name_and_by_address(provider: str, window: int) -> None:
    assert window_of("llama3.1-8b", provider) == window


def test_a_price_is_that_of_the_provider() -> None:
    used = Usage(1_000_000, 0)
    by_name = cost_of("gpt-oss-120b", used, "cerebras")
    by_address = cost_of("gpt-oss-120b", used, "https://api.cerebras.ai/v1")
    assert by_name is not None
    assert by_name == by_address != cost_of("gpt-oss-120b", used, "groq")
    assert cost_of("gpt-4o", used, "nobody-known") == cost_of("gpt-4o", used)
