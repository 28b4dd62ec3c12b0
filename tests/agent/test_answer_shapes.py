"""Answers in the forms that servers really send."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from agent.models.answer import PLAIN, Answer, PlainChunk, decode_plain
from agent.models.base import ContextOverflow, ModelAnswerBroken, ModelReply, Usage
from agent.models.endpoint import Endpoint
from agent.models.failures import find_error, refusal
from agent.models.refusals import (
    MOST_WAIT,
    find_wait,
    is_overflow,
    parse_room,
    parse_window,
    read_wait,
)
from agent.models.wire import parse_chunk
from tests.agent.endpoints import CHAT, ask, conversation, failure
from tests.fakes.openai_server import Body, Fail, Say
from tests.tables import case, each_row

STREAM = "text/event-stream"


def chunk(text: str, **more: Any) -> str:
    return json.dumps({"choices": [{"delta": {"content": text}, **more}]}, ensure_ascii=False)


HI = (chunk("Good "), chunk("morning.", finish_reason="stop"))
WHOLE: dict[str, Any] = {
    "choices": [{"message": {"content": "Good morning."}, "finish_reason": "stop"}]
}
BODIES = {
    "events": ("".join(f"data: {one}\n\n" for one in HI), STREAM),
    "events behind a mark": ("\ufeff" + "".join(f"data:{one}\r\n\r\n" for one in HI), STREAM),
    "comments and names": (
        ": ping\n\nevent: message\nid: 1\n" + "\n\n".join(f"data: {one}" for one in HI) + "\n\n",
        STREAM,
    ),
    "a line each": ("\n".join(HI), "application/x-ndjson"),
    "a line each, called events": ("\n".join(HI) + "\n[DONE]\n", STREAM),
    "a document": (json.dumps(WHOLE), "application/json"),
    "a document, called events": (json.dumps(WHOLE), STREAM),
    "a document in lines, called events": (json.dumps(WHOLE, indent=2), STREAM),
    "a document, called text": (json.dumps(WHOLE), "text/plain"),
    "lines that end in CR": ("".join(f"data: {one}\r\r" for one in HI), STREAM),
    "no empty lines": ("".join(f"data: {one}\n" for one in HI) + "data: [DONE]\n", STREAM),
    "no empty lines and no end": ("".join(f"data: {one}\n" for one in HI), STREAM),
    "no line end at the end": ("\n\n".join(f"data: {one}" for one in HI), STREAM),
    "a field in capitals": ("".join(f"Data: {one}\n\n" for one in HI), STREAM),
    "blanks in front": ("".join(f" data: {one}\n\n" for one in HI), STREAM),
    "a field twice": ("".join(f"data: data: {one}\n\n" for one in HI), STREAM),
    "empty data": ("data:\n\n" + "data: \n\n".join(f"data: {one}\n\n" for one in HI), STREAM),
    "an end in small letters": ("".join(f"data: {o}\n\n" for o in (*HI, " [done]")), STREAM),
    "an end in quotation marks": ("".join(f"data: {o}\n\n" for o in (*HI, '"[DONE]"')), STREAM),
    "data in lines": (
        'data: {"choices": [{"delta":\ndata: {"content": "Good morning."}, "finish_reason":\n'
        'data: "stop"}]}\n\n',
        STREAM,
    ),
    "nothing chosen at first": (
        "".join(f"data: {one}\n\n" for one in ('{"choices": null}', '{"choices": []}', *HI)),
        STREAM,
    ),
    "events, called a document": ("".join(f"data: {o}\n\n" for o in HI), "application/json"),
    "events, called a page": ("".join(f"data: {one}\n\n" for one in HI), "text/html"),
    "events, called nothing": ("".join(f"data: {one}\n\n" for one in HI), ""),
    "a line each, called a document": ("\n".join(HI), "application/json"),
    "a line each, with CR": ("\r\n".join(HI) + "\r\n", "application/jsonl"),
    "one behind the other": ("".join(HI), "application/json"),
    "a list": (f"[{','.join(HI)}]", "application/json"),
    "a list in lines, called events": ("[\n" + ",\n".join(HI) + "\n]", STREAM),
    "a document in data": (json.dumps({"code": 0, "data": WHOLE}), "application/json"),
    "a document in a result": (
        json.dumps({"result": WHOLE, "success": True, "errors": []}),
        "application/json",
    ),
    "a document behind a mark": ("\ufeff" + json.dumps(WHOLE), "application/json"),
}


async def test_an_answer_is_read_however_it_is_wrapped(subtests: pytest.Subtests) -> None:
    for shape, body in BODIES.items():
        with case(subtests, shape):
            async with conversation(CHAT, Body(*body)) as (_, model):
                reply = await ask(model)
            assert (reply.text, reply.finish) == ("Good morning.", "complete")


def test_a_byte_that_is_no_text_costs_one_character() -> None:
    read = parse_chunk(b'{"choices": "a\xffb"}')
    assert read == {"choices": "a\ufffdb"}
    with pytest.raises(ValueError, match=r"^[a-z]"):
        parse_chunk(b"{half")


ERRORS: dict[str, tuple[str, str]] = {
    "OpenAI's": ('data: {"error": {"message": "GPU on fire"}}\n\n', STREAM),
    "named by its event": ('event: error\ndata: {"message": "GPU on fire"}\n\n', STREAM),
    "words in such an event": ("event: error\ndata: GPU on fire\n\n", STREAM),
    "vLLM's": ('{"object": "error", "message": "GPU on fire", "code": 400}', "application/json"),
    "DashScope's": ('data: {"code": "Internal", "message": "GPU on fire"}\n\n', STREAM),
    "with a msg": ('{"code": 1234, "msg": "GPU on fire", "success": false}', "application/json"),
    "MiniMax's": (
        '{"choices": null, "base_resp": {"status_code": 1002, "status_msg": "GPU on fire"}}',
        "application/json",
    ),
    "a document, called events": ('{"error": "GPU on fire"}', STREAM),
    "in the choice": (
        'data: {"choices": [{"finish_reason": "error", "error": {"message": "GPU on fire"}}]}\n\n',
        STREAM,
    ),
    "a detail alone": ('{"detail": "GPU on fire"}', "application/json"),
    "a message alone": ('data: {"message": "GPU on fire"}\n\n', STREAM),
    "several errors": ('{"errors": [{"code": 7, "message": "GPU on fire"}]}', "application/json"),
    "a list": ('[{"error": {"code": 400, "message": "GPU on fire"}}]', "application/json"),
    "true, and a message": ('{"error": true, "message": "GPU on fire"}', "application/json"),
    "a status": ('{"status": "error", "message": "GPU on fire"}', "application/json"),
    "an error_msg": ('{"error_code": 17, "error_msg": "GPU on fire"}', "application/json"),
    "Tencent's": ('{"Response": {"Error": {"Message": "GPU on fire"}}}', "application/json"),
    "words in data": ("data: GPU on fire\n\n", STREAM),
    "words": ("GPU on fire", "text/plain"),
    "no empty line": ('data: {"error": {"message": "GPU on fire"}}', STREAM),
    "with a detail": ('{"code": 500, "detail": "GPU on fire"}', STREAM),
}


async def test_the_reason_of_an_error_that_is_called_a_success_is_told(
    subtests: pytest.Subtests,
) -> None:
    for dialect, body in ERRORS.items():
        with case(subtests, dialect):
            async with conversation(CHAT, Body(*body)) as (_, model):
                error = await failure(model)
            assert isinstance(error, ModelAnswerBroken)
            assert "broke off with an error: GPU on fire." in str(error)


async def test_what_a_server_says_before_an_answer_is_none_of_it() -> None:
    body = "".join(f"data: {one}\n\n" for one in ('{"message": "queued"}', *HI))
    async with conversation(CHAT, Body(body, STREAM)) as (_, model):
        assert (await ask(model)).text == "Good morning."


@pytest.mark.parametrize("kind", ["text/html", "application/json", STREAM])
async def test_a_web_page_is_told_as_one_whatever_it_is_called(kind: str) -> None:
    async with conversation(CHAT, Body("<html>Bad gateway</html>", kind)) as (_, model):
        assert "a web page instead of the chat protocol" in str(await failure(model))


async def test_an_overflow_that_is_called_a_success_is_one() -> None:
    said = "<400> InternalError: Range of input length should be [1, 30720]"
    body = json.dumps({"code": "InvalidParameter", "message": said})
    async with conversation(CHAT, Body(body, STREAM), Fail(413, "<html>no</html>")) as (_, model):
        errors = [await failure(model) for _ in range(2)]
    windows = [error.window for error in errors if isinstance(error, ContextOverflow)]
    assert windows == [30_720, 0]


@each_row(
    "event",
    [
        WHOLE,
        {**WHOLE, "code": 5, "message": "fine"},
        {**WHOLE, "base_resp": {"status_code": 0, "status_msg": ""}},
        {"choices": [], "usage": {"prompt_tokens": 7}},
        {"code": 0, "message": "success"},
        {"code": 200, "msg": "success"},
        {"message": "queued", "position": 3},  # an answer may follow
        {"detail": "loading"},
        {"type": "ping"},
        {"error": None, "choices": []},
        {},
    ],
)
def test_what_is_no_error_is_none(event: Mapping[str, Any]) -> None:
    assert find_error(event) is None


@each_row(
    ("text", "window"),
    [
        ("Range of input length should be [1, 30720]", 30_720),
        ('{"code": "1261", "message": "Prompt exceeds max length"}', 0),
        ("The input (9 tokens) is longer than the model's context length (8192 tokens).", 8192),
        ("The decoder prompt is longer than the maximum model length of 4,096.", 4096),
        ("length of prompt_tokens (9001) must be less than max_seq_len (8192).", 8192),
        ('{"code": "model_max_prompt_tokens_exceeded"}', 0),
        ("Total tokens of image and text exceed max message tokens", 0),
        ("prompt too long; exceeded max context length by 12 tokens", 0),
        ("Your input exceeds the maximum allowed input length", 0),
        ("The conversation has grown larger than the window of tokens that the model takes", 0),
        ("Input length (265330) exceeds model's maximum context length (262144).", 262_144),
        ("Input length 9 exceeds the maximum allowed input length of 131040 tokens.", 131_040),
        ("Prompt too long: 5152 tokens exceeds max_seq_len 2048 (leave room for output)", 2048),
        ("prompt token count of 130000 exceeds the limit of 128000", 128_000),
        ("invalid params, context window exceeds limit (2013)", 0),  # the code of the error
        ("Prompt has 9,000 tokens, but the configured context size is 8,192 tokens", 8192),
        ("input token count is 1049000 but model only supports up to 1048576. Reduce", 1_048_576),
        ("engine prompt length 9000 exceeds the max_model_len 8192. Please reduce.", 8192),
        ("Total message token length exceed model limit", 0),  # Doubao
        ("`inputs` must have less than 4095 tokens. Given: 5000", 4095),
        ("number of tokens in the prompt cannot exceed 4081 - received 5000.", 4081),
        ("too many tokens: exceeded by 2337 tokens. The limit is 128000 tokens.", 128_000),
        ("The sum of prompt length (9000.0) should not exceed max_num_tokens (8192)", 8192),
        ("prompt tokens (9000) + max_tokens (1000) exceeds context (8192)", 8192),
        ("litellm.ContextWindowExceededError: no", 0),
        ("Context size has been exceeded.", 0),
        ("Conversation is too long, please start a new one", 0),
        ("输入长度超过最大长度", 0),
    ],
)
def test_a_request_that_is_too_long_is_known_in_other_words(text: str, window: int) -> None:
    assert is_overflow(text)
    assert parse_window(text) == window


@each_row(
    "text",
    [
        "max_tokens is too large: 100000. This model supports at most 4096 completion tokens.",
        "Rate limit reached: requests exceed 30000 tokens per minute.",
        "Your request exceeds your quota of tokens.",
        "The image is too large: it exceeds the length of 20 MB.",
        "The request has too many tools; the maximum length is 128.",
        "messages: text content blocks must be non-empty",
        "Input should be a valid string",
        "ThrottlingException: Too many tokens, please wait before trying again.",
        "You exceeded the daily token limit of your plan",
        "Your account has exceeded its budget of tokens",
        "metadata.user_id: string too long",
        "Invalid 'messages[3].tool_calls[0].id': string too long",
        "image exceeds 5 MB maximum",
    ],
)
def test_another_limit_is_no_overflow(text: str) -> None:
    assert not is_overflow(text)


@each_row(
    ("text", "room"),
    [
        ("exceed context limit: 170636 + 34048 > 200000", 29_364),
        (
            "maximum context length is 8192 tokens. However, you requested about 9100 tokens (100 "
            "of text input, 9000 in the output).",
            8092,
        ),
        (
            "maximum context length is 8192 tokens and your request has 1200 input tokens (9000 > "
            "8192 - 1200).",
            6992,
        ),
        ("maximum context length is 8192 tokens (9000 in the messages, 96 in the completion)", 0),
        ("the context window is full", 0),
    ],
)
def test_what_is_left_for_an_answer_is_read(text: str, room: int) -> None:
    assert is_overflow(text)
    assert parse_room(text) == room


async def test_an_answer_that_does_not_fit_is_asked_to_be_shorter() -> None:
    said = "maximum context length is 8192 tokens (100 in the messages, 9000 in the completion)"
    overflow = Fail(400, {"message": said})
    async with conversation(CHAT, overflow, Say("Yes."), max_tokens=9_000) as (server, model):
        assert (await ask(model)).text == "Yes."
    assert [request.body["max_tokens"] for request in server.requests] == [9_000, 8_092]


# --- waiting ---


@each_row(
    ("written",),
    [
        (lambda when: format_datetime(when, usegmt=True),),
        (lambda when: when.strftime("%a, %d %b %Y %H:%M:%S"),),
        (lambda when: when.isoformat(),),
        (lambda when: str(when.timestamp()),),
    ],
)
def test_when_to_ask_again_is_read_as_a_date(written: Callable[[datetime], str]) -> None:
    begun = datetime.now(UTC)
    wait = read_wait({"retry-after": written(begun + timedelta(hours=1))}, 429)
    passed = (datetime.now(UTC) - begun).total_seconds()
    assert 3_600 - passed - 1 <= wait <= 3_600  # a date has whole seconds


@each_row(
    ("headers", "least", "most"),
    [
        ({}, 0, 0),
        ({"retry-after": "7200"}, 7200, 7200),
        ({"retry-after": " 1.5 "}, 1.5, 1.5),
        ({"retry-after": "3s"}, 3, 3),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25, 0.25),
        ({"retry-after": "Mon, 23 Nov 2020 10:00:00 GMT"}, 0, 0),
        ({"retry-after": "-3"}, 0, 0),
        ({"retry-after": "nan"}, 0, 0),
        ({"retry-after-ms": "inf"}, 0, 0),
        ({"retry-after": "9" * 60}, MOST_WAIT, MOST_WAIT),
        ({"retry-after": "soon"}, 0, 0),
        ({"retry-after": "9" * 9_000}, 0, MOST_WAIT),
        ({"retry-after": "1m20s"}, 80, 80),
        ({"retry-after": "30 seconds"}, 30, 30),
        ({"retry-after": "2h"}, 7200, 7200),
        ({"retry-after": "500ms"}, 0.5, 0.5),
        ({"x-ratelimit-reset": "30"}, 30, 30),
        ({"x-ratelimit-reset-requests": "1m20s", "x-ratelimit-remaining-requests": "0"}, 80, 80),
        ({"x-ratelimit-reset-tokens": "9s", "x-ratelimit-remaining-tokens": "4"}, 0, 0),
        ({"x-ratelimit-reset": "30", "retry-after": "2"}, 2, 2),
    ],
)
def test_when_to_ask_again_is_read(headers: Mapping[str, str], least: float, most: float) -> None:
    assert least <= read_wait(headers, 429) <= most
    if not any("retry" in name for name in headers):
        assert read_wait(headers, 500) == 0


@each_row(
    ("text", "wait"),
    [
        ("Rate limit reached. Please try again in 1m20s. Visit our page.", 80),
        ("Please try again in 350ms.", 0.35),
        ("Please try again in 1h2m3.5s", 3723.5),
        ("exceeded token rate limit. Please retry after 26 seconds.", 26),
        ("Please retry in 36.5s.", 36.5),
        ("Try again in 5 minutes", 300),
        ("try again after 1 hour and 30 minutes", 5400),
        ('"retryDelay":"36s"', 36),
        ("Limit reached; resets in 3 hours", 10_800),
        ("retry after 1 second(s)", 1),
        ("请在 30 秒后重试", 30),
        ("Please wait a moment", 0),
        ("It took 3 seconds to fail", 0),
        ("We waited 30 seconds", 0),
        ("Try again with model 4 in another region", 0),
    ],
)
def test_when_to_ask_again_is_read_from_words(text: str, wait: float) -> None:
    assert find_wait(text) == pytest.approx(wait)


def test_a_wait_that_words_tell_is_told() -> None:
    body = '{"error": {"message": "Rate limit reached. Please try again in 7m12s."}}'
    error = refusal(Endpoint("m", "http://127.0.0.1/v1"), 429, body)
    assert "ask again in 8 minutes" in str(error)
    assert error.retry_after == 432


# --- contents and calls ---


def reply_of(*deltas: Mapping[str, Any], finish: str = "stop") -> ModelReply:
    answer = Answer()
    for delta in deltas:
        answer.add({"choices": [{"delta": delta}]})
    answer.add({"choices": [{"delta": {}, "finish_reason": finish}]})
    return answer.reply("m")


def part(name: str = "", arguments: Any = "", **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{**more, "function": {"name": name, "arguments": arguments}}]}


def test_a_content_in_parts_is_text_and_thoughts() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    parts = [thinking, {"type": "text", "text": "Good "}]
    reply = reply_of({"content": parts}, {"content": "morning."}, {"content": [7, None, {}]})
    assert (reply.text, reply.reasoning) == ("Good morning.", "Hm.")


def test_an_answer_that_came_as_a_thought_alone_is_the_answer() -> None:
    assert reply_of({"reasoning_content": "Good morning."}).text == "Good morning."
    cut = reply_of({"reasoning_content": "Hm, let me"}, finish="length")
    assert (cut.text, cut.reasoning) == ("", "Hm, let me")


def test_a_refusal_is_text_and_is_known_as_one() -> None:
    reply = reply_of({"refusal": "I won't."})
    assert (reply.text, reply.finish) == ("I won't.", "refused")


CALLS: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str]]]] = {
    "an object": ([part("look", {"at": 1})], [("look", '{"at":1}')]),
    "one index, no ids": (
        [part("look", '{"at": 1}', index=0), part("act", "{}", index=0)],
        [("look", '{"at": 1}'), ("act", "{}")],
    ),
    "one index, two ids": (
        [part("look", "{}", index=0, id="a"), part("look", "{}", index=0, id="b")],
        [("look", "{}"), ("look", "{}")],
    ),
    "no index, one behind the other": (
        [part("look", "{", id="a"), part("", "}"), part("act", "{}", id="b")],
        [("look", "{}"), ("act", "{}")],
    ),
    "no name": ([part("", "{}", index=0, id="a"), part("act", index=1)], [("act", "{}")]),
    "a name in pieces": (
        [part("lo", index=0, id="a"), part("ok", index=0), part("", "{}", index=0)],
        [("look", "{}")],
    ),
    "the name again": (
        [part("look", '{"at"', index=0, id="a"), part("look", ": 1}", index=0, id="a")],
        [("look", '{"at": 1}')],
    ),
    "an empty object first": (
        [part("look", "{}", index=0, id="a"), part("", '{"at": 1}', index=0)],
        [("look", '{"at":1}')],
    ),
    "nothing": ([part("look", "")], [("look", "{}")]),
    "an index that counts on": (
        [part("look", index=0, id="a"), part("", '{"at"', index=1), part("", ": 1}", index=2)],
        [("look", '{"at": 1}')],
    ),
    "an index that is of the call before": (
        [
            part("look", '{"at": 1}', index=0, id="a"),
            part("act", '{"at"', index=0, id="b"),
            part("", ": 2}", index=1),
        ],
        [("look", '{"at": 1}'), ("act", '{"at": 2}')],
    ),
    "no index, two ids by turns": (
        [
            part("look", '{"at"', id="a"),
            part("act", '{"at"', id="b"),
            part("", ": 1}", id="a"),
            part("", ": 2}", id="b"),
        ],
        [("look", '{"at": 1}'), ("act", '{"at": 2}')],
    ),
    "arguments first": (
        [part("", '{"at": 1}', index=0), part("look", "", index=0, id="a")],
        [("look", '{"at": 1}')],
    ),
    "an index as text": (
        [part("look", '{"at"', index="0", id="a"), part("", ": 1}", index=0)],
        [("look", '{"at": 1}')],
    ),
    "one id for all": (
        [part("look", "{}", index=0, id="a"), part("act", "{}", index=1, id="a")],
        [("look", "{}"), ("act", "{}")],
    ),
    "the whole again": (
        [part("look", '{"at":1}', id="a"), part("look", '{"at":1}', id="a")],
        [("look", '{"at":1}')],
    ),
    "all so far with each part": (
        [part("look", '{"at"', index=0, id="a"), part("look", '{"at": 1}', index=0, id="a")],
        [("look", '{"at": 1}')],
    ),
    "the field of before": (
        [
            {"function_call": {"name": "look", "arguments": '{"at"'}},
            {"function_call": {"arguments": ": 1}"}},
        ],
        [("look", '{"at": 1}')],
    ),
    "no list": ([{"tool_calls": part("look", "{}")["tool_calls"][0]}], [("look", "{}")]),
    "no function": ([{"tool_calls": [{"name": "look", "arguments": "{}"}]}], [("look", "{}")]),
    "parameters": (
        [{"tool_calls": [{"function": {"name": "look", "parameters": {"at": 1}}}]}],
        [("look", '{"at":1}')],
    ),
}


TEXTS: dict[str, tuple[list[dict[str, Any]], str, str]] = {
    "a part": ([{"delta": {"content": {"type": "text", "text": "Hi"}}}], "Hi", ""),
    "texts": ([{"delta": {"content": ["H", "i"]}}], "Hi", ""),
    "a part of thoughts": (
        [{"delta": {"content": [{"type": "reasoning", "text": "Hm."}, {"text": "Hi"}]}}],
        "Hi",
        "Hm.",
    ),
    "thoughts in parts": (
        [{"delta": {"reasoning_content": [{"text": "Hm."}]}}, {"delta": {"content": "Hi"}}],
        "Hi",
        "Hm.",
    ),
    "thoughts in an object": (
        [{"delta": {"reasoning": {"content": "Hm."}, "content": "Hi"}}],
        "Hi",
        "Hm.",
    ),
    "thoughts in details alone": (
        [{"delta": {"reasoning_details": [{"text": "Hm."}], "content": "Hi"}}],
        "Hi",
        "Hm.",
    ),
    "Ollama's thoughts": ([{"delta": {"thinking": "Hm.", "content": "Hi"}}], "Hi", "Hm."),
    "Copilot's thoughts": ([{"delta": {"reasoning_text": "Hm.", "content": "Hi"}}], "Hi", "Hm."),
    "a completion": ([{"text": "H"}, {"text": "i"}], "Hi", ""),
    "a message behind pieces": (
        [{"delta": {"content": "Hi"}}, {"delta": {}, "message": {"content": "Hi"}}],
        "Hi",
        "",
    ),
    "a second choice": (
        [{"index": 0, "delta": {"content": "Hi"}}, {"index": 1, "delta": {"content": "Ho"}}],
        "Hi",
        "",
    ),
    "a choice that is the second": ([{"index": 1, "delta": {"content": "Hi"}}], "Hi", ""),
    "no reason yet": ([{"delta": {"content": "Hi"}, "finish_reason": "null"}], "Hi", ""),
}


@each_row("shape", TEXTS)
def test_text_and_thoughts_are_read_in_any_shape(shape: str) -> None:
    choices, text, thoughts = TEXTS[shape]
    answer = Answer()
    for choice in choices:
        answer.add({"choices": [choice]})
    assert not answer.is_whole
    answer.add({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    reply = answer.reply("m")
    assert (reply.text, reply.reasoning, reply.finish) == (text, thoughts, "complete")


@each_row("shape", CALLS)
def test_calls_are_read_in_any_shape(shape: str) -> None:
    deltas, calls = CALLS[shape]
    reply = reply_of(*deltas)
    assert [(call.name, call.arguments) for call in reply.tool_calls] == calls
    assert all(call.id for call in reply.tool_calls)
    assert reply.finish == "tools"


# --- usage ---


def thinking(tokens: int) -> dict[str, int]:
    return {"reasoning_tokens": tokens}


@each_row(
    "chunk",
    [
        {"choices": [{"usage": {"prompt_tokens": 7}}]},  # Moonshot
        {"choices": [], "x_groq": {"usage": {"prompt_tokens": 7}}},
        {"choices": [], "usage": {"prompt_tokens": 7}},
    ],
)
def test_usage_is_found_wherever_it_is(chunk: Mapping[str, Any]) -> None:
    answer = Answer()
    answer.add(chunk)
    assert answer.reply("m").usage == Usage(7, 0)


@each_row(
    ("reports", "usage"),
    [
        (
            [{"prompt_tokens": 70, "completion_tokens": 3, "total_tokens": 100}],
            Usage(70, 30),  # the total alone includes thoughts
        ),
        (
            [{"prompt_tokens": 70, "completion_tokens": 3, "total_tokens": 73, "cached_tokens": 9}],
            Usage(70, 3, cached=9),
        ),
        (
            [{"prompt_tokens": 6, "completion_tokens": 3, "total_tokens": 73, "cached_tokens": 64}],
            Usage(6, 3, cached=64),  # the total includes cached tokens, which were not written
        ),
        ([{"prompt_tokens": "70", "completion_tokens": 3.0}], Usage(70, 3)),
        ([{"input_tokens": 70, "output_tokens": 3}], Usage(70, 3)),
        ([{"prompt_tokens": 70, "cached_tokens": 64}], Usage(70, 0, cached=64)),
        (
            [{"prompt_tokens": 70, "completion_tokens": 3}, {"prompt_tokens": 0}],
            Usage(70, 3),  # zeros change nothing
        ),
        ([{"prompt_tokens": 70}, {}, {"prompt_tokens": 70, "completion_tokens": 3}], Usage(70, 3)),
        ([{"prompt_tokens": -1, "completion_tokens": True, "total_tokens": 1.5}], Usage(0, 0)),
        (
            [
                {
                    "prompt_tokens": 70,
                    "completion_tokens": 5,
                    "completion_tokens_details": thinking(100),
                }
            ],
            Usage(70, 105, reasoning=100),  # a number of thoughts too large to be a part of it
        ),
        (
            [
                {
                    "prompt_tokens": 70,
                    "completion_tokens": 30,
                    "total_tokens": 110,
                    "completion_tokens_details": thinking(10),
                }
            ],
            Usage(70, 40, reasoning=10),  # xAI
        ),
        (
            [
                {
                    "prompt_tokens": 70,
                    "completion_tokens": 30,
                    "total_tokens": 900,
                    "completion_tokens_details": thinking(10),
                }
            ],
            Usage(70, 30, reasoning=10),  # a total with an unknown part
        ),
        ([{"prompt_tokens": 70, "cache_read_input_tokens": 64}], Usage(70, 0, cached=64)),
        ([{"prompt_tokens": 70, "prompt_cache_hit_tokens": 64}], Usage(70, 0, cached=64)),
        (
            [
                {
                    "prompt_tokens": 70,
                    "completion_tokens": 30,
                    "prompt_tokens_details": {"cached_tokens": 10, "cache_write_tokens": 60},
                    "completion_tokens_details": thinking(20),
                },
                "none",
            ],
            Usage(70, 30, cached=10, written=60, reasoning=20),
        ),
        (
            [{"input_tokens": 70, "input_tokens_details": {"cached_tokens": 64}}],
            Usage(70, 0, cached=64),
        ),
        ([{"prompt_tokens": "70.0", "completion_tokens": "x"}], Usage(70, 0)),
    ],
)
def test_usage_is_read_in_any_shape(reports: list[Any], usage: Usage) -> None:
    answer = Answer()
    for report in reports:
        answer.add({"choices": [], "usage": report})
    assert answer.reply("m").usage == usage


@each_row(
    ("usage", "filled"),
    [
        (Usage(0, 0), Usage(90, 9)),
        (Usage(70, 0), Usage(70, 9)),
        (Usage(0, 5), Usage(90, 5)),
        (Usage(0, 5, cached=64), Usage(0, 5, cached=64)),
        (Usage(70, 5), Usage(70, 5)),
    ],
)
def test_of_zeros_nobody_has_counted_anything(usage: Usage, filled: Usage) -> None:
    reply = ModelReply("So.", (), "complete", "m", usage)
    assert usage.filled(Usage(90, 9)) == filled
    assert reply.is_counted == (usage == filled)


@given(
    st.dictionaries(
        st.sampled_from(
            ["prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens", "input_tokens"]
        ),
        st.one_of(
            st.integers(-(10**12), 10**12),
            st.floats(),
            st.text(max_size=5),
            st.none(),
            st.booleans(),
        ),
    )
)
def test_usage_is_never_negative(report: dict[str, Any]) -> None:
    answer = Answer()
    answer.add({"choices": [], "usage": report})
    usage = answer.reply("m").usage
    assert usage is None or min(astuple(usage)) >= 0


FIELDS = {
    "model": ("m", None),
    "object": ("chat.completion.chunk", None),
    "usage": (None, {"prompt_tokens": 3, "completion_tokens": 4}),
    "error": (None, "no"),
    "x_groq": ({"usage": {"prompt_tokens": 5, "completion_tokens": 1}},),
}
OF_CHOICE = {
    "index": (0, 1, None),
    "finish_reason": (None, "stop"),
    "usage": ({"prompt_tokens": 7, "completion_tokens": 1},),
    "logprobs": (None, {}),
}
OF_DELTA = {
    "content": ("a", "", " \ud83d", "<think>", "</think>b", None, 7),
    "role": ("assistant", None, 7),
    "reasoning_content": (None, "hm"),
    "tool_calls": (None, [{"index": 0, "id": "1", "function": {"name": "n", "arguments": "{}"}}]),
}


def some(fields: Mapping[str, tuple[Any, ...]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {}, optional={name: st.sampled_from(values) for name, values in fields.items()}
    )


CHUNKS = st.builds(
    lambda fields, choice, delta: fields | {"choices": [choice | {"delta": delta}]},
    some(FIELDS),
    some(OF_CHOICE),
    some(OF_DELTA),
)


@given(st.lists(CHUNKS, max_size=6))
def test_a_chunk_of_text_alone_is_read_as_any_other(chunks: list[dict[str, Any]]) -> None:
    answer, other = Answer(), Answer()
    for one in chunks:
        data = json.dumps(one).encode()
        try:
            plain = PLAIN.decode(data)
        except ValueError:
            plain = None
        assert plain is None or find_error(one) is None
        told = answer.add(plain or parse_chunk(data)), answer.thought
        assert told == (other.add(parse_chunk(data)), other.thought)
    assert answer.reply("m") == other.reply("m")


@given(st.lists(CHUNKS, max_size=8))
def test_chunks_that_arrive_together_are_read_as_one_by_one(chunks: list[dict[str, Any]]) -> None:
    events = [json.dumps(one).encode() for one in chunks]
    answer, other = Answer(), Answer()
    together = [*decode_plain(PLAIN, events)]
    parsed = (one if isinstance(one, PlainChunk) else parse_chunk(one) for one in together)
    told = [(answer.add(one), answer.thought) for one in parsed]
    apart = [(other.add(parse_chunk(one)), other.thought) for one in events]
    assert ["".join(part) for part in zip(*told, strict=True)] == [
        "".join(part) for part in zip(*apart, strict=True)
    ]
    assert answer.reply("m") == other.reply("m")
    assert len(together) <= len(events)


def test_texts_that_arrive_together_are_one_chunk() -> None:
    events = [chunk("a").encode(), chunk("b").encode(), b"[DONE]", chunk("c").encode()]
    first, end, last = decode_plain(PLAIN, events)
    assert (Answer().add(first), end, Answer().add(last)) == ("ab", b"[DONE]", "c")


def test_a_chunk_of_text_alone_is_known_as_one() -> None:
    fields = {"id": "1", "object": "chat.completion.chunk", "created": 1, "usage": None}
    choice = {"index": 0, "delta": {"role": "assistant", "content": "a"}, "finish_reason": None}
    plain = PLAIN.decode(json.dumps(fields | {"choices": [choice]}).encode())
    assert isinstance(plain, PlainChunk)
