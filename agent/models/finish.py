"""The ends of an answer: a closed set of meanings for the many words that providers have for
them."""

from __future__ import annotations

import re
from typing import Literal

from memory.patterns import lazy

Finish = Literal["complete", "tools", "length", "filtered", "refused", "interrupted", "unknown"]
"""complete: the model ended by itself; tools: it waits for results; length: a limit cut it off;
filtered: the provider's filter did; refused: the model would not answer; interrupted: its server
failed, or the answer broke off; unknown: a reason that nobody here knows."""

# OpenAI's words first, then Anthropic's, Gemini's, and those of servers that users have met
# (reports of openclaw, litellm and others).
_WORDS: dict[Finish, str] = {
    "complete": "stop end_turn stop_sequence eos eos_token stop_token completed complete "
    "finish finished normal done",
    "tools": "tool_calls tool_call tool_use function_call",
    "length": "length incomplete max_tokens max_output_tokens max_completion_tokens model_length "
    "max_length token_limit context_length model_context_window_exceeded",
    "filtered": "content_filter content_filtered sensitive safety recitation blocklist "
    "prohibited_content spii language image_safety guardrail_intervened",
    "refused": "refusal refused",
    "interrupted": "error network_error insufficient_system_resource abort aborted cancelled "
    "canceled interrupted timeout server_error failed pause_turn malformed_function_call "
    "unexpected_tool_call malformed_response",
}
_LONGEST = 100  # characters of a word
_MEANINGS: dict[str, Finish] = {
    word: meaning for meaning, words in _WORDS.items() for word in words.split()
}


_STEMS: tuple[tuple[Finish, str], ...] = (
    ("interrupted", r"time_?(?:out|limit)|unexpected|malformed|too_many_tool"),
    ("filtered", r"filter|safety|moderat|polic|block|sensitive|flag|toxic|prohibit|inspect|risk"),
    ("refused", r"refus|declin"),
    ("length", r"token|length|limit|truncat|context|too_long|budget"),
    (
        "interrupted",
        "error|fail|abort|cancel|interrupt|overload|disconnect|preempt|shutdown|resource|evict",
    ),
    ("tools", r"tool|function"),
    ("complete", r"stop|\Aeos|\Aend|finish|complet|done"),
)
"""The part that words of other servers have in common with these, the first that fits."""
_PREFIX = lazy(r"finish_?reason[._]")
_HUMP = lazy(r"(?<=[a-z])(?=[A-Z])|[-\s]")


def read_finish(reason: str, *, has_calls: bool = False) -> Finish:
    """Return what a provider's word means; "" is an end of which nothing was said. Where calls
    came, an answer that ended well waits for their results, whatever the word."""
    meaning = _read_word(reason.strip()) if reason.strip() else "complete"
    if has_calls:
        return "tools" if meaning in ("complete", "unknown") else meaning
    return "complete" if meaning == "tools" else meaning


def _read_word(reason: str) -> Finish:
    word = _PREFIX.sub("", _HUMP.sub("_", reason[:_LONGEST]).lower())
    if meaning := _MEANINGS.get(word) or _MEANINGS.get(reason.lower()):
        return meaning
    return next((fits for fits, stems in _STEMS if re.search(stems, word)), "unknown")
