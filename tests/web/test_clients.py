"""Requests as real clients send them, copied from their source in `clients/`, and the answers.

Their content reaches the model unchanged; the official SDK can read their responses.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.fakes.openai_server import Call, Received, Say
from tests.web.site import Site, events_of, serving

Json = dict[str, Any]
FOLDER = Path(__file__).parent / "clients"
LEFT_ASIDE = {"user", "metadata", "stream", "stream_options", "model", "messages"}
UNKNOWN_IN_A_MESSAGE = {"prefix"}
UNKNOWN_IN_A_PART = {"cache_control"}


def model(request: Received, has_tools: bool) -> Say:
    """A model that calls the first of the client's tools until it has a result."""
    body = request.body
    if has_tools and body["messages"][-1]["role"] != "tool":
        name = body["tools"][0]["function"]["name"]
        return Say("", (Call(name, '{"a": 1}', "call_9"),), finish="tool_calls")
    return Say("Well.")


def expected(message: Json) -> Json:
    """Return a message as the model should get it: with the fields that the protocol has."""
    kept = {name: v for name, v in message.items() if name not in UNKNOWN_IN_A_MESSAGE}
    if isinstance(kept["content"], list):
        kept["content"] = [_part(part) for part in kept["content"]]
    if "tool_calls" in kept:
        kept["tool_calls"] = [
            {name: v for name, v in call.items() if name != "index"} for call in kept["tool_calls"]
        ]
    return kept


def _part(part: Json) -> Json:
    named = {name: v for name, v in part.items() if name not in UNKNOWN_IN_A_PART}
    return named if part["type"] == "text" else {name: v for name, v in named.items() if v != ""}


async def answered(site: Site, body: Json) -> tuple[str, list[str], str, bool]:
    """Return the text of an answer, the names of its calls, its finish reason, and whether it has a
    usage; all parsed by the types of the official SDK."""
    url = f"{site.url}/v1/chat/completions"
    async with site.http.post(url, json=body) as response:
        assert response.status == 200, await response.text()
        if not body["stream"]:
            whole = ChatCompletion.model_validate(await response.json(), strict=False)
            (choice,) = whole.choices
            calls = [
                call.function.name
                for call in choice.message.tool_calls or ()
                if call.type == "function"
            ]
            return choice.message.content or "", calls, choice.finish_reason, bool(whole.usage)
        told = [event.data async for event in events_of(response)]
    assert told.pop() == "[DONE]"
    chunks = [ChatCompletionChunk.model_validate(data) for data in told]
    deltas = [chunk.choices[0] for chunk in chunks if chunk.choices]
    text = "".join(choice.delta.content or "" for choice in deltas)
    handed = [call for choice in deltas for call in choice.delta.tool_calls or ()]
    names = [call.function.name for call in handed if call.function and call.function.name]
    return text, names, str(deltas[-1].finish_reason), bool(chunks[-1].usage)


@pytest.mark.parametrize("name", ["aider", "continue", "langchain", "librechat", "open_webui"])
async def test_what_a_client_sends_is_answered_as_it_expects(tmp_path: Path, name: str) -> None:
    about = json.loads((FOLDER / f"{name}.json").read_text())
    assert about["client"]
    assert about["follows"]
    has_tools = False
    async with serving(tmp_path, lambda request: model(request, has_tools)) as site:
        for request in about["requests"]:
            has_tools = "tools" in request["body"]
            await check(site, request)


async def check(site: Site, request: Json) -> None:
    body: Json = request["body"]
    text, calls, finish, has_usage = await answered(site, body)
    sent = site.server.turns[-1].body
    own = len(sent["messages"]) - len(body["messages"])
    assert sent["messages"][own:] == [expected(message) for message in body["messages"]]
    assert all(message["role"] == "system" for message in sent["messages"][:own])
    named = {name: value for name, value in body.items() if name not in LEFT_ASIDE}
    if (most := named.pop("max_completion_tokens", None)) is not None:
        named["max_tokens"] = most
    assert {name: sent.get(name) for name in named} == named
    assert calls == request.get("calls", []), request["name"]
    assert (text, finish) == (("", "tool_calls") if calls else ("Well.", "stop"))
    assert has_usage == (not body["stream"] or "stream_options" in body)
