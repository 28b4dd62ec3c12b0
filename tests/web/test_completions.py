"""OpenAI's protocol, with OpenAI's own SDK as the client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, AuthenticationError, BadRequestError

from bot.connecting import find_servers
from tests.fakes.openai_server import Call, Say, echo
from tests.web.site import Site, serving

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather somewhere.",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
    },
}
PIXEL = "data:image/png;base64,iVBORw0KGgo="


@asynccontextmanager
async def client(site: Site, key: str = "none") -> AsyncIterator[Any]:
    async with AsyncOpenAI(base_url=f"{site.url}/v1", api_key=key, max_retries=0) as openai:
        yield openai


def user(text: object) -> dict[str, object]:
    return {"role": "user", "content": text}


def named(conversation: str) -> dict[str, Any]:
    """Return the fields that name a conversation in a request."""
    return {"extra_body": {"parley_conversation": conversation}}


def sent(site: Site) -> list[dict[str, Any]]:
    """Return the last request to the model."""
    return list(site.server.turns[-1].body["messages"])


async def test_a_question_is_answered_with_what_it_took(tmp_path: Path) -> None:
    async with serving(tmp_path, echo) as site, client(site) as openai:
        answer = await openai.chat.completions.create(model="parley", messages=[user("Hi")])
        models = [model.id async for model in openai.models.list()]
    assert answer.choices[0].message.content == "re: Hi"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.prompt_tokens > 0
    assert models == ["parley"]


async def test_a_bot_is_not_taken_for_a_model_server(tmp_path: Path) -> None:
    async with serving(tmp_path, echo) as site:
        assert await find_servers({"llama.cpp": f"{site.url}/v1"}) == []
        assert await find_servers({"llama.cpp": site.server.base_url})


async def test_an_answer_streams_and_its_usage_comes_last(tmp_path: Path) -> None:
    script = [Say("Let me see.", (Call("calculate", '{"expression": "2+2"}', "c"),)), Say("Four.")]
    async with serving(tmp_path, script) as site, client(site) as openai:
        stream = await openai.chat.completions.create(
            model="any",
            messages=[user("2+2?")],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == "Let me see.\n\nFour."
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.prompt_tokens > 0


async def test_a_client_may_name_a_conversation_that_the_bot_remembers(tmp_path: Path) -> None:
    async with serving(tmp_path, echo) as site, client(site) as openai:
        for text in ("I am Ann.", "Who am I?"):
            await openai.chat.completions.create(model="x", messages=[user(text)], **named("ann"))
        assert [m["content"] for m in sent(site)[1:]] == ["I am Ann.", "re: I am Ann.", "Who am I?"]
        header = {"X-Parley-Session": "bob"}
        await openai.chat.completions.create(model="x", messages=[user("Hi")], extra_headers=header)
        _, listed = await site.get("/api/sessions")
        assert [session["id"] for session in listed["sessions"]] == ["bob", "ann"]


async def test_earlier_messages_fill_an_empty_conversation_and_no_other(tmp_path: Path) -> None:
    earlier = [user("One?"), {"role": "assistant", "content": "1."}]
    async with serving(tmp_path, echo) as site, client(site) as openai:
        for text in ("Two?", "Three?"):
            await openai.chat.completions.create(
                model="x", messages=[*earlier, user(text)], **named("ann")
            )
        said = [m["content"] for m in sent(site)[1:]]
    assert said == ["One?", "1.", "Two?", "re: Two?", "Three?"]


async def test_the_clients_system_text_becomes_the_instructions(tmp_path: Path) -> None:
    system = 'Speak\nlike "a pirate". --here'
    messages = [{"role": "system", "content": system}, user("Hi")]
    async with serving(tmp_path, echo) as site, client(site) as openai:
        for _ in range(2):
            await openai.chat.completions.create(model="x", messages=messages, **named("ann"))
        assert sent(site)[0]["content"].startswith(system)
        about = await site.commands("/config system_prompt", "ann")
        other = await site.commands("/config system_prompt", "bob")
    assert (about["data"]["value"], about["data"]["layer"]) == (system, "--here")
    assert other["data"]["layer"] == "default"


NOT_DONE: tuple[tuple[dict[str, Any], str], ...] = (
    ({"n": 2}, "one answer"),
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "king", "content": "Hi"}]}, "role"),
    ({"logprobs": True}, "probabilities"),
    ({"modalities": ["text", "audio"]}, "can't handle audio"),
    ({"temperature": 3}, "temperature"),
    ({"seed": 2**70}, "seed"),
    (named("a b"), "parley_conversation"),
    ({**named("ann"), "tools": [TOOL]}, "takes no tools"),
    ({**named("ann"), "response_format": {"type": "json_object"}}, "takes no response_format"),
    ({**named("ann"), "messages": [{"role": "assistant", "content": "Hi"}]}, "role user"),
    ({"messages": [user([{"type": "input_audio", "input_audio": {"data": ""}}])]}, "input_aud"),
    ({"messages": [user([{"type": "file", "file": {"file_id": "x"}}])]}, "pictures"),
    ({**named("ann"), "messages": [user([{"type": "file", "file": {}}])]}, "pictures"),
    ({**named("ann"), "messages": [user([{"type": "image_url"}])]}, "pictures"),
    ({"tools": [{**TOOL, "function": {"name": "f", "parameters": {"x": 2**70}}}]}, "too large"),
    *(
        ({"messages": [user([{"type": "image_url", "image_url": {"url": url}}])]}, "endpoint")
        for url in (
            "http://localhost/x.png",
            "http://127.0.0.1/x.png",
            "http://169.254.169.254/latest/meta-data",
            "http://[::1]/x.png",
            "http://2130706433/x.png",
            "http://0x7f.1/x.png",
            "http://printer/x.png",
            "http://router.lan/x.png",
            "file:///etc/passwd",
            "http://[",
            "http://127.0.0.1\\@example.com/x.png",
            "http://127.0.0\u30021/x.png",
            "http://\u2460\u2461\u2466.0.0.1/x.png",
            "http://%31%32%37.0.0.1/x.png",
            "http://localhost%2e/x.png",
        )
    ),
)


async def test_what_parley_does_not_do_gets_a_sentence(tmp_path: Path) -> None:
    async with serving(tmp_path) as site, client(site) as openai:
        for more, says in NOT_DONE:
            asked = {"model": "x", "messages": [user("Hi")], **more}
            with pytest.raises(BadRequestError, match=says):
                await openai.chat.completions.create(**asked)


async def test_the_key_is_the_token(tmp_path: Path) -> None:
    async with serving(tmp_path, echo, token="a long random text") as site:
        async with client(site, "wrong") as openai:
            with pytest.raises(AuthenticationError, match="token"):
                await openai.models.list()
        async with client(site, "a long random text") as openai:
            assert [model.id async for model in openai.models.list()] == ["parley"]
