"""What providers answer when they refuse, replayed: each becomes a sentence with what to do."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from agent.models.base import ContextOverflow, ModelError, ModelRequest
from agent.models.endpoint import Endpoint
from agent.models.providers import PROVIDERS
from agent.models.selection import connect
from tests.fakes import openai_server
from tests.fakes.anthropic_server import AnthropicServer
from tests.fakes.openai_server import Fail, OpenAIServer, Say

RECORDED = tomllib.loads(Path(openai_server.__file__).with_name("provider_errors.toml").read_text())
CASES = [(name, number) for name, errors in RECORDED.items() for number in range(len(errors))]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
HELLO = ModelRequest([{"role": "user", "content": "Hello?"}], [TOOL])


@pytest.mark.parametrize(("name", "number"), CASES)
async def test_what_a_provider_refuses_is_told_in_a_plain_sentence(name: str, number: int) -> None:
    error, known = RECORDED[name][number], PROVIDERS[name]
    answer = Fail(error["status"], error["body"])
    server: Any = AnthropicServer if known.speaks == "anthropic" else OpenAIServer
    async with server([answer, Say("Fine.")]) as endpoint:
        model = connect(
            Endpoint(
                "fake-model",
                endpoint.base_url,
                "key",
                max_retries=0,
                provider=name,
                key_name=known.key_name or "OPENAI_API_KEY",
            ),
            known.speaks,
        )
        with pytest.raises(ModelError) as caught:
            await model.reply(HELLO, lambda _: None)
        after = await model.reply(HELLO, lambda _: None)
        await model.close()
    assert type(caught.value).__name__ == error["kind"]
    assert error["says"] in str(caught.value)
    assert str(caught.value).endswith(".")
    if isinstance(caught.value, ContextOverflow):
        assert caught.value.window == error.get("window", 0)
    assert after.text == "Fine."


def test_each_provider_has_some() -> None:
    assert list(PROVIDERS) == sorted(RECORDED, key=list(PROVIDERS).index)
