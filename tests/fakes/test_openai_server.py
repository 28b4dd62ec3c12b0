"""The test server refuses what OpenAI refuses, and counts as OpenAI counts."""

from __future__ import annotations

from typing import Any

from tests.fakes.openai_server import cached_tokens, prompt_bytes, refusal

USER = {"role": "user", "content": "Hello?"}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "42"}
TOOL = {"type": "function", "function": {"name": "look"}}


def calling(name: str = "look", arguments: str = "{}") -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def body(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages)} | fields


def test_what_openai_refuses_is_refused_and_nothing_else() -> None:
    for accepted in (
        body(USER),
        body(USER, calling(), RESULT, tools=[TOOL], tool_choice="none"),
        body(USER, calling(), RESULT, calling(), RESULT, USER),
    ):
        assert refusal(accepted) == ""
    for refused, complaint in (
        (body(), "empty array"),
        (body(USER, model=""), "model parameter"),
        (body({"role": "robot", "content": "Hi"}), "'robot'"),
        (body({"role": "user", "content": None}), "got null"),
        (body(USER, RESULT), "must be a response"),
        (body(USER, calling(), USER), "must be followed by"),
        (body(USER, calling()), "must be followed by"),
        (body(USER, calling(), RESULT, RESULT), "must be a response"),
        (body(USER, calling(name=""), RESULT), "function name"),
        (body(USER, calling(arguments="{half"), RESULT), "not valid JSON"),
        (body(USER, tool_choice="auto"), "only allowed when 'tools'"),
        (body(USER, tools=[]), "empty array"),
        (body(USER, tools=[TOOL, TOOL]), "unique"),
        (body(USER, tools=[{"type": "function", "function": {"name": ""}}]), "empty string"),
        (body(USER, stream_options={"include_usage": True}), "'stream' is enabled"),
    ):
        assert complaint in refusal(refused)


def test_a_prompt_is_cached_as_far_as_it_is_the_same_in_steps_of_128_from_1024_on() -> None:
    long = {"role": "user", "content": "x" * 6000}
    prompt = prompt_bytes(body(long, USER))
    assert cached_tokens(prompt, []) == 0
    assert cached_tokens(prompt, [prompt_bytes(body(long))]) == 1408
    assert cached_tokens(prompt, [prompt_bytes(body(USER, long))]) == 0
    assert cached_tokens(prompt_bytes(body(USER)), [prompt_bytes(body(USER))]) == 0
    earlier = prompt_bytes(body(long, tools=[TOOL]))
    assert cached_tokens(prompt_bytes(body(long)), [earlier]) == 0, "a changed tool breaks it"
