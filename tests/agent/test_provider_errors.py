"""Tests of providers' refusals: each becomes a sentence with a remedy."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, get_args

import orjson
import pytest

from agent.loop import SHORTFALLS
from agent.models import failures
from agent.models.base import ContextOverflow, Finish, ModelError, read_finish
from agent.models.brain import PROVIDERS
from agent.models.endpoint import Endpoint
from agent.models.refusals import is_overflow, parse_window
from agent.models.selection import connect
from tests.agent.endpoints import CHAT, CLAUDE, HELLO_WITH_TOOL, Protocol, ask
from tests.fakes import openai_server
from tests.fakes.openai_server import Fail, Say
from tests.tables import each_row

RECORDED: dict[str, list[dict[str, Any]]] = tomllib.loads(
    Path(openai_server.__file__).with_name("provider_errors.toml").read_text()
)


@pytest.mark.parametrize("name", PROVIDERS)
async def test_what_a_provider_refuses_is_told_in_plain_sentences(name: str) -> None:
    errors, known = RECORDED[name], PROVIDERS[name]
    script = [*(Fail(error["status"], error["body"]) for error in errors), Say("Fine.")]
    protocol: Protocol[Any] = CLAUDE if known.speaks == "anthropic" else CHAT
    async with protocol.server(script) as server:
        if known.extra:
            server.known |= orjson.loads(known.extra).keys()
        usual: dict[str, Any] = {"max_retries": 0, "provider": name}
        usual["key_name"] = known.key_name or "OPENAI_API_KEY"
        model = connect(Endpoint("fake-model", server.base_url, "key", **usual), known.speaks)
        for error in errors:
            with pytest.raises(ModelError) as caught:
                await ask(model, HELLO_WITH_TOOL)
            assert error["kind"] in [kind.__name__ for kind in type(caught.value).__mro__], error
            assert error["says"] in str(caught.value)
            assert str(caught.value).endswith(".")
            if isinstance(caught.value, ContextOverflow):
                assert caught.value.window == error.get("window", 0)
        assert (await ask(model, HELLO_WITH_TOOL)).text == "Fine."
        await model.close()


CHINESE = {
    "账户欠费，请充值": 400,
    "参数错误：messages 不能为空": 400,
    "输入内容包含敏感信息": 400,
    "密钥无效": 400,
    "输入长度超过模型最大上下文长度 8192 tokens": 400,
}


def test_a_refusal_is_read_alike_whether_its_letters_are_escaped_or_not() -> None:
    said = [(error["status"], error["body"]) for some in RECORDED.values() for error in some]
    said += [(status, {"error": {"message": text}}) for text, status in CHINESE.items()]
    said += [(400, {"error": {"message": f'{text} 🎈 "x\\y"\n'}}) for text in CHINESE]
    for status, body in said:
        errors = [
            failures.refusal(Endpoint("m"), status, json.dumps(body, ensure_ascii=is_ascii))
            for is_ascii in (False, True)
        ]
        raw, escaped = ((type(one), str(one), one.detail, one.retry_after) for one in errors)
        assert escaped == raw


OVERFLOWS = {
    "This model's maximum context length is 8192 tokens, you requested 9001 tokens.": 8192,
    "maximum context length is 128,000 tokens": 128_000,
    "code: CONTEXT_LENGTH_EXCEEDED": 0,
    "litellm.ContextWindowExceededError: the context window is full": 0,
    "Please reduce the length of the messages or completion.": 0,
    "xxtoo many tokensxx": 0,
    "Input exceeds the token limit": 0,
    "prompt is too long: 203000 tokens > 200000 maximum": 200_000,
    "request (6320 tokens) exceeds the available context size (2048 tokens), try": 2048,
    '{"type":"exceed_context_size_error","n_prompt_tokens":6320,"n_ctx":4096}': 4096,
    "too many tokens {'n_ctx': 4096}": 4096,
    "too many tokens, n_ctx: " + "9" * 60_000: 999_999_999_999,  # no more digits are read
}


def test_an_overflow_is_recognised_in_any_case_and_inside_other_words() -> None:
    for text in OVERFLOWS:
        assert is_overflow(text)
        assert is_overflow(f"HTTP 500 {text.upper()}!")
    assert {text: parse_window(text) for text in OVERFLOWS} == OVERFLOWS


def test_other_errors_are_not_taken_for_an_overflow() -> None:
    for text in ("", "Rate limit: 30000 tokens per minute", "Invalid max_tokens", "context"):
        assert not is_overflow(text)
        assert parse_window(text) == 0


def test_where_a_redirect_leads_may_be_anything() -> None:
    for location in ("/v2", "//[", "http://u:p@x.test/", "http://\x00\x07é.test"):
        message = str(failures.redirect(Endpoint("m"), location))
        assert message.isprintable()
        assert "u:p" not in message


WORDS: dict[Finish, tuple[str, ...]] = {
    "complete": ("stop", "STOP", "end_turn", "stop_sequence", "", " ", "tool_calls"),
    "length": ("length", "LENGTH", "max_tokens", "MAX_TOKENS", "model_length"),
    "filtered": ("content_filter", "sensitive", "SAFETY", "RECITATION"),
    "refused": ("refusal",),
    "interrupted": ("error", "network_error", "insufficient_system_resource", "abort"),
    "unknown": ("of_tomorrow", "7"),
}
OTHERS: dict[Finish, str] = {
    "complete": "FINISH_REASON_STOP FinishReason.STOP eos_reached stopped end_of_turn natural_stop",
    "length": "FinishReason.MAX_TOKENS max_new_tokens length_capped truncated ERROR_LIMIT too_long "
    "token_limit_reached context_length_exceeded budget_exceeded",
    "filtered": "content-filter contentFilter moderation ERROR_TOXIC data_inspection_failed "
    "content_policy_violation blocked flagged",
    "refused": "model_refusal declined",
    "interrupted": "preempted shutdown time_limit USER_CANCEL internal_error overloaded disconnect "
    "MALFORMED_FUNCTION_CALL TOO_MANY_TOOL_CALLS",
}


@each_row("meaning", WORDS)
def test_a_word_has_one_meaning(meaning: Finish) -> None:
    assert {read_finish(word) for word in WORDS[meaning]} == {meaning}


def test_words_of_other_servers_are_known_by_what_they_have_in_common() -> None:
    for meaning, words in OTHERS.items():
        assert {word: read_finish(word) for word in words.split()} == dict.fromkeys(
            words.split(), meaning
        )
    assert read_finish("tool-calls", has_calls=True) == read_finish("toolUse", has_calls=True)


def test_calls_are_waited_for_whatever_word_ends_them_well() -> None:
    words = ("stop", "tool_calls", "tool_use", "function_call", "", "of_tomorrow")
    assert {read_finish(word, has_calls=True) for word in words} == {"tools"}
    assert read_finish("length", has_calls=True) == "length"
    assert read_finish("content_filter", has_calls=True) == "filtered"


def test_each_end_that_is_none_has_a_sentence() -> None:
    assert {*SHORTFALLS} == {*get_args(Finish)} - {"complete", "tools"}
