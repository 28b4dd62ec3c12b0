"""The content of a refusal: a request that is too long, the limit, and the time to wait. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite

from memory.patterns import lazy

# Digitorn's phrases, then those of Anthropic, llama.cpp, Gemini, xAI, OpenAI's newer models,
# Bedrock, LM Studio and Together. tests/fakes/provider_errors.toml has whole messages.
_KNOWN = (
    "maximum context length",
    "context_length_exceeded",
    "context window",
    "contextwindowexceeded",  # LiteLLM
    "reduce the length of the messages",
    "too many tokens",
    "token limit",
    "prompt is too long",
    "exceeds the available context size",
    "exceed_context_size_error",
    "request_too_large",
    "exceeds the maximum number of tokens",
    "maximum prompt length",
    "input tokens exceed",
    "exceed context limit",
    "input is too long",
    "tokens to keep from the initial prompt",
    "context length of only",
    "`inputs` tokens + `max_new_tokens`",
    "range of input length should be",  # DashScope
    "prompt exceeds max length",  # GLM, code 1261
    "longer than the model's context length",  # SGLang
    "longer than the maximum model length",  # vLLM
    "max_seq_len",  # SiliconFlow
    "model_max_prompt_tokens_exceeded",  # Copilot
    "max message tokens",  # Doubao
    "exceeded max context length",  # Ollama
    "exceeds the maximum allowed input length",  # Poolside
    "超长",  # GLM
    "超过最大长度",
    "上下文长度",
)
_LIMITED = r"(?:prompt|inputs?|context|conversation|messages?|request(?:ed)?|tokens?)"
_LONG = (
    r"(?:too (?:long|large|many|big)|exceed\w*|(?:longer|larger|greater|less) than|beyond"
    r"|only supports?|over the (?:limit|maximum)|but the (?:configured|maximum))"
)
_MEASURE = r"(?:context|window|tokens?|length|sequence|max_\w+)"
_NEAR = r"(?:[^.{}]|\.(?=\d)){0,80}?"
_TOO_LONG = lazy(
    rf"\b{_LIMITED}\b{_NEAR}\b{_LONG}\b{_NEAR}\b{_MEASURE}\b"
    rf"|\b{_LIMITED}\b[^.{{}}]{{0,20}}?\b{_MEASURE}\b{_NEAR}\b{_LONG}\b"
    rf"|\b{_MEASURE}\b[^.{{}}]{{0,20}}?\b{_LIMITED}\b{_NEAR}\b{_LONG}\b"
    r"|\bcontext (?:size|length|limit)\b[^.{}]{0,20}exceeded"
    r"|(?<!system )\b(?:prompt|conversation|context|input|request)(?: text)? (?:is |was )?"
    r"too long\b"
)
"""The same in unlisted words: a text, an excess, a measure."""
_WITH_ANSWER = lazy(
    r"\b(?:prompt|inputs?)\b[^.{}+]{0,30}\+ ?\W?max_(?:new_|completion_|output_)?tokens"
)
_RATE = lazy(
    r"per (?:minute|hour|day)|rate.?limit|quota|\b[rt]pm\b|throttl|please wait|\bdaily\b"
    r"|\b(?:your|the) (?:plan|account|budget|subscription|organi[sz]ation)\b"
)
_OTHER_LIMIT = lazy(
    r"max_(?:completion_|output_|new_)?tokens|completion tokens|output tokens"
    r"|\b(?:image|picture|file|tool|function|parameter)s?\b|string_above_max"
)
"""The words for other excesses: the answer's length, a picture."""
_WINDOW = lazy(
    r"n_ctx\W{1,4}(\d{1,12})"
    r"|maximum context length (?:is|of) (\d[\d,]{0,14})"
    r"|available context size \((\d{1,12})"
    r"|tokens > (\d{1,12}) maximum"
    r"|maximum number of tokens allowed \((\d{1,12})"
    r"|maximum prompt length (?:is|of) (\d[\d,]{0,14})"
    r"|input tokens exceed the configured limit of (\d[\d,]{0,14})"
    r"|exceed context limit: \d{1,12} \+ \d{1,12} > (\d{1,12})"
    r"|with (\d{1,12}) maximum context length"
    r"|current length is \d{1,12} while limit is (\d{1,12})"
    r"|context length of only (\d{1,12})"
    r"|`?max_new_tokens`? must be <= (\d{1,12})"
    r"|input length should be \[\d{1,4}, ?(\d{1,12})\]"
    r"|maximum model length of (\d[\d,]{0,14})"
    r"|model's context length \((\d[\d,]{0,14})"
    r"|max_seq_len \((\d{1,12})"
    r"|exceeded model token limit: (\d{1,12})",
    re.IGNORECASE,
)
_LIMIT = lazy(
    r"(?:limit|\bmax\w*|\bonly supports?|\bwindow|context size|less than|not exceed"
    r"|exceeds (?:the )?context|exceeds the(?= \d))\b"
    r"(?:(?! by )[^\d.{}\"]){1,60}?(\d{1,3}(?:,\d{3})+|\d{4,12})(?!\d|\.\d)",
    re.IGNORECASE,
)
"""A number after a word for a limit."""
_SMALLEST_NAMED = 2_048
"""Tokens; a smaller number in an unlisted wording is an error code, or a part."""
_ROOM = (
    re.compile(r"exceed context limit: (\d{1,12}) \+ \d{1,12} > (\d{1,12})"),  # Anthropic
    re.compile(  # vLLM, OpenRouter, DeepSeek
        r"maximum context length is (?P<window>\d{1,12})\b.{0,200}?\((?P<sent>\d{1,12}) "
        r"(?:of text input|in (?:the )?(?:messages|prompt|input))",
        re.DOTALL,
    ),
    re.compile(r"\(\d{1,12} > (?P<window>\d{1,12}) - (?P<sent>\d{1,12})\)"),  # vLLM
)


def is_overflow(text: str) -> bool:
    """Return whether an error's text says that the context is too long; phrases in any case,
    anywhere."""
    lowered = text.lower()
    if _RATE.search(lowered):
        return False
    if any(phrase in lowered for phrase in _KNOWN) or _WITH_ANSWER.search(lowered):
        return True
    return bool(_TOO_LONG.search(lowered)) and not _OTHER_LIMIT.search(lowered)


def parse_window(text: str) -> int:
    """Return the context window in tokens that an overflow's text names; 0 if it names none."""
    if found := _WINDOW.search(text):
        return _number(next(filter(None, found.groups())))
    named = (_number(found[1]) for found in _LIMIT.finditer(text)) if is_overflow(text) else ()
    return next((number for number in named if number >= _SMALLEST_NAMED), 0)


def _number(digits: str) -> int:
    return int(digits.replace(",", ""))


def parse_room(text: str) -> int:
    """Return the tokens left for an answer to a request that is too long with it; 0 if the text
    does not say."""
    for pattern in _ROOM:
        if found := pattern.search(text):
            named = found.groupdict()
            sent, window = named.get("sent") or found[1], named.get("window") or found[2]
            return max(0, int(window) - int(sent))
    return 0


MOST_WAIT = 7 * 86_400.0
"""The maximum seconds of an accepted wait."""
_LONGEST = 64  # characters of a header
_UNITS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("", "s", "sec", "secs", "second", "seconds", "second(s)", "秒"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes", "minute(s)", "分钟"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours", "hour(s)", "小时"), 3_600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
}
_UNIT = "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True) if unit)
_PART = lazy(rf"(\d{{1,15}}(?:\.\d{{1,9}})?|\.\d{{1,9}}) ?({_UNIT})?(?![a-z])", re.IGNORECASE)
_SPAN = rf"(?:\d{{1,15}}(?:\.\d{{1,9}})? ?(?:{_UNIT})(?:,? (?:and )?)?)+"
_WAIT_IN_TEXT = lazy(
    rf"(?:\bagain|\bretry|\bwait|\bresets?|\breset|retryDelay)\b[^.\d]{{0,20}}?(?P<span>{_SPAN})"
    r"|\bretry after (?P<number>\d{1,7})\b"
    rf"|(?P<late>{_SPAN})后",
    re.IGNORECASE,
)
_LIMITS = ("", "-requests", "-tokens")


def read_wait(headers: Mapping[str, str], status: int = 0) -> float:
    """Return the wait in seconds that an endpoint requests: in whole seconds, with fractions, in
    milliseconds, with units, or as a date; 0 if there is none. With 429, the reset time of the
    used-up limit counts, too."""
    written = headers.get("retry-after", "").strip()[:_LONGEST]
    milliseconds = headers.get("retry-after-ms", "").strip()[:16]
    wait = parse_span(f"{milliseconds}ms") if milliseconds else parse_span(written)
    if not wait and not written and status == 429:
        wait = max(_until_reset(headers, kind) for kind in _LIMITS)
    return min(max(wait, 0.0), MOST_WAIT)


def _until_reset(headers: Mapping[str, str], kind: str) -> float:
    for name in ("x-ratelimit", "ratelimit"):
        is_used_up = headers.get(f"{name}-remaining{kind}", "0") == "0"
        if is_used_up and (written := headers.get(f"{name}-reset{kind}", "").strip()[:_LONGEST]):
            return parse_span(written)
    return 0.0


def find_wait(text: str) -> float:
    """Return the seconds after which a message permits a retry; 0 if it does not say."""
    found = _WAIT_IN_TEXT.search(text)
    written = found and next(filter(None, found.groups()))
    return min(parse_span(written.strip(" ,").removesuffix(" and")), MOST_WAIT) if written else 0.0


def parse_span(text: str) -> float:
    """Return the seconds of a time span, or until a date; 0 for other text."""
    parts = [*_PART.finditer(text)]
    rest = _PART.sub("", text).replace("and", "").strip(" ,")
    if parts and not rest:
        seconds = sum(float(part[1]) * _UNITS[(part[2] or "").lower()] for part in parts)
        if seconds > 1e11:
            seconds /= 1_000  # a time in milliseconds
        return seconds if seconds < 1e9 else max(0.0, seconds - datetime.now(UTC).timestamp())
    return _until(text) if text[:1].isalnum() else 0.0


def _until(text: str) -> float:
    try:
        when = datetime.fromisoformat(text) if text[:1].isdigit() else parsedate_to_datetime(text)
        wait = (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return max(wait, 0.0) if isfinite(wait) else 0.0
