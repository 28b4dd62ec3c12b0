"""The fake of Anthropic's Messages API refuses what the API refuses, and keeps what it keeps."""

from __future__ import annotations

from typing import Any

import aiohttp

from tests.fakes.anthropic_server import LIFETIME, VERSION, AnthropicServer, Think
from tests.fakes.openai_server import Call, Fail, Json, Say

HEADERS = {"Authorization": "Bearer key", "anthropic-version": VERSION}
MARK = {"cache_control": {"type": "ephemeral"}}
USE = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1"}


def text(words: str, **more: Any) -> Json:
    return {"type": "text", "text": words, **more}


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": [*blocks]}


def model(*blocks: Json) -> Json:
    return {"role": "assistant", "content": [*blocks]}


def body(*messages: Json, **more: Any) -> Json:
    return {"model": "claude", "max_tokens": 2_000, "messages": [*messages], **more}


HI = user(text("Hi"))


REFUSED: list[tuple[Json, str]] = [
    ({"model": "claude", "messages": [HI]}, "max_tokens: Field required"),
    (body(), "at least one message"),
    (body(HI, temperature=1), "temperature: Extra inputs"),
    (body(model(text("Hi"))), "first message must use"),
    (body(HI, HI), "roles must alternate"),
    (body(HI, model(USE), HI), "`tool_use` ids were found without"),
    (body(HI, model(USE), user(text("Well"), RESULT)), "`tool_use` ids were found without"),
    (body(HI, model(text("No.")), user(RESULT)), "unexpected `tool_use_id`"),
    (body(HI, model(USE), user(RESULT), model(USE), user(RESULT)), "ids must be unique"),
    (body(user(text(""))), "must be non-empty"),
    (body(user(text(" "))), "non-whitespace"),
    (body(user(*(text("Hi", **MARK) for _ in range(5)))), "A maximum of 4 blocks"),
    (body(HI, tool_choice={"type": "auto"}), "tool_choice"),
    (body(HI, thinking={"type": "enabled", "budget_tokens": 2_000}), "must be greater than"),
    (
        body(HI, model({"type": "thinking", "thinking": "Hm", "signature": "no"}), HI),
        "Invalid `signature`",
    ),
]


def test_what_the_api_refuses_is_refused() -> None:
    for request_body, words in REFUSED:
        refused = AnthropicServer()._refuse(request_body)
        assert isinstance(refused, Fail), words
        assert isinstance(refused.error, dict)
        assert words in refused.error["message"]


async def ask(server: AnthropicServer, sent: Json, **headers: str) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session:
        url = f"{server.base_url}/messages"
        async with session.post(url, json=sent, headers=HEADERS | headers) as response:
            return response.status, await response.json()


async def test_a_wrong_key_or_version_is_refused() -> None:
    async with AnthropicServer(key="key") as server:
        assert (await ask(server, body(HI), Authorization="Bearer other"))[0] == 401
        assert (await ask(server, body(HI), **{"anthropic-version": "2020-01-01"}))[0] == 400


async def test_thoughts_must_stand_before_their_calls_as_they_came() -> None:
    async with AnthropicServer([Think(calls=(Call("look", "{}"),), reasoning="Hm.")]) as server:
        _, answer = await ask(server, body(HI))
        thought, use = answer["content"]
        assert thought["type"] == "thinking"
        result = {"type": "tool_result", "tool_use_id": use["id"]}
        for kept in ([], [{"type": "redacted_thinking", "data": "x"}]):
            status, refused = await ask(server, body(HI, model(*kept, use), user(result)))
            assert status == 400
            assert "thinking" in refused["error"]["message"]


async def test_what_is_kept_is_gone_five_minutes_after_its_last_use() -> None:
    long = body(user(text("It was a dark and stormy night. " * 200, **MARK)))
    async with AnthropicServer([Say("Yes.")] * 4) as server:
        for later in (0, LIFETIME, LIFETIME, LIFETIME + 1):
            server.clock += later
            await ask(server, long)
        assert [bill.read > 0 for bill in server.bills] == [False, True, True, False]
        assert [bill.written > 0 for bill in server.bills] == [True, False, False, True]
