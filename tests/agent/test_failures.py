"""Which errors say that the context is too long, and what window they name."""

from __future__ import annotations

import pytest

from agent.models.failures import is_overflow, parse_window


@pytest.mark.parametrize(
    "text",
    [
        "This model's maximum context length is 8192 tokens.",
        "code: CONTEXT_LENGTH_EXCEEDED",
        "litellm.ContextWindowExceededError: the context window is full",
        "Please reduce the length of the messages or completion.",
        "xxtoo many tokensxx",
        "Input exceeds the token limit",
        "prompt is too long: 203000 tokens > 200000 maximum",
        "request (6320 tokens) exceeds the available context size (2048 tokens)",
        '{"type":"exceed_context_size_error"}',
    ],
)
def test_an_overflow_is_recognised_in_any_case_and_inside_other_words(text: str) -> None:
    assert is_overflow(text)
    assert is_overflow(f"HTTP 500 {text.upper()}!")


@pytest.mark.parametrize(
    "text",
    ["", "Rate limit reached: 30000 tokens per minute", "Invalid value for max_tokens", "context"],
)
def test_other_errors_are_not_taken_for_an_overflow(text: str) -> None:
    assert not is_overflow(text)


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("maximum context length is 2048 tokens. However, you requested 3015 tokens", 2048),
        ("maximum context length is 128,000 tokens", 128_000),
        ("request (6320 tokens) exceeds the available context size (4096 tokens), try", 4096),
        ('{"n_prompt_tokens":6320,"n_ctx":4096}', 4096),
        ("{'n_ctx': 4096}", 4096),
        ("prompt is too long: 203000 tokens > 200000 maximum", 200_000),
        ("too many tokens", 0),
        ("", 0),
    ],
)
def test_the_window_that_an_overflow_names_is_read(text: str, window: int) -> None:
    assert parse_window(text) == window
