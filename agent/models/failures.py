"""The failures of a request, as a `ModelError` whose sentence says what to do. All pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import orjson

from agent.models.base import (
    AccountRefused,
    ContextOverflow,
    ModelAnswerBroken,
    ModelAnswerTooLong,
    ModelError,
    ModelRefused,
    ModelSilent,
    ModelUnlisted,
    ModelUnreachable,
    ResponsesRequired,
    UnexplainedRefusal,
    read_finish,
)
from agent.models.brain import find_provider
from agent.models.endpoint import Endpoint
from agent.models.refusals import find_wait, is_overflow, parse_room, parse_window
from memory.patterns import lazy
from memory.plain_text import decode_letters

# Messages on rate limits and quotas mention token limits too, and are not overflows.
_NO_CREDIT = (
    *("insufficient_quota", "credit balance is too low", "exceeded_current_quota"),
    *("insufficient balance", "insufficient_balance", "balance is insufficient"),
    *("overdue balance", "account is in good standing"),  # Doubao, DashScope
)
_TOO_LARGE = lazy(r"request too large for .{1,300}?: limit (\d{1,12}), requested", re.I | re.S)
"""The message on a key's limit of tokens per minute, for a request that exceeds it by itself."""
_WRONG_KEY = ("api key not valid", "incorrect api key", "invalid api key", "invalid_api_key")
_NO_MODEL = (
    *("model not exist", "invalid model", "is not a valid model id"),
    *("model identifier is invalid", "unknown model", "model does not exist"),
)
_FILTERED = ("content_filter", "content management policy")
_BUSY = frozenset({429, 503, 529})
_NEVER_OVERFLOW = frozenset({401, 402, 403, 404, 429})
_UNEXPLAINED = frozenset({400, 413, 422})
_OF_NO_HISTORY = lazy(
    r"\bapi.?key|authenti|authoriz|credential|permission|billing|\baccount\b|\bregion\b|deprecat"
    r"|temperature|\btop_[pk]\b|penalty|max_\w*tokens|logprobs|\bseed\b|response_format|\bschema"
    r"|\bstream\b|reasoning_effort|\bstop sequences?"
    r"|\bparam(?:eter)?s?\b(?!\W{1,4}(?:null|messages|input|contents|prompt))"
    r"|unrecognized (?:request )?argument|extra (?:inputs|fields)|\bmodel\b.{0,80}"
    r"\b(?:support|exist|found|available|access)"
    r"|策略|敏感|密钥|参数",
    re.IGNORECASE,
)
"""Words of a refusal that shorter messages would not avoid, unless it names a measure."""
_MEASURE = lazy(r"\btokens\b|\blengths?\b|\bcontext\b|\btoo (?:long|many)\b", re.IGNORECASE)
"""Words of sizes: "The model supports 4096 tokens" may refer to the history."""
_IS_REFUSAL = lazy(r"jinja|chat.?template|invalid_request_error|BadRequest", re.IGNORECASE)
"""Words of a failing server that has refused the request: it would fail again."""
_LONGEST_QUOTE = 300
_LONGEST_DETAIL = 4_000
_LONGEST_ERROR = 65_536


def refusal(endpoint: Endpoint, status: int, body: str, wait: float = 0.0) -> ModelError:
    """Return the error for a failed HTTP status after all retries; `body` is unchanged, and `wait`
    is the endpoint's requested wait in seconds (0: none)."""
    body = decode_letters(body)
    if not wait and status in _BUSY:
        wait = find_wait(reason_of(body)) or find_wait(body)
    error = _refusal(endpoint, status, body, wait)
    error.status, error.retry_after = status, math.ceil(wait)
    error.detail = endpoint.without_key(reason_of(body))[:_LONGEST_DETAIL]
    return error


def _describe_wait(url: str, wait: float) -> str:
    """Return a sentence that an endpoint accepts no more requests, and when to retry."""
    days, hours, minutes, seconds = (math.ceil(wait / unit) for unit in (86_400, 3_600, 60, 1))
    if wait >= 2 * 86_400:
        return f"{url} takes no more requests for now (error 429); ask again in {days} days."
    if wait >= 2 * 3_600:
        return f"{url} takes no more requests for now (error 429); ask again in {hours} hours."
    if wait >= 2 * 60:
        return f"{url} takes no more requests for now (error 429); ask again in {minutes} minutes."
    return f"{url} takes no more requests for now (error 429); ask again in {seconds} seconds."


def _refusal(endpoint: Endpoint, status: int, body: str, wait: float = 0.0) -> ModelError:
    if limit := _TOO_LARGE.search(body):
        return _over_limit(endpoint, int(limit[1]))
    wording = f"{body}\n{reason_of(body)}"  # in the body it may be escaped
    if status == 413 or (status not in _NEVER_OVERFLOW and is_overflow(wording)):
        return overflow(endpoint, wording)
    if status == 402 or any(words in body.lower() for words in _NO_CREDIT):
        return AccountRefused(
            f"The account at {endpoint.shown_url} has no credit left; top it up, or choose "
            "another model."
        )
    if status == 429 and wait > 1:
        return ModelUnreachable(_describe_wait(endpoint.shown_url, wait))
    if status == 429:
        return ModelUnreachable(
            f"{endpoint.shown_url} takes no more requests for now (error 429); wait a moment, and "
            "ask again."
        )
    if status == 529:
        return ModelUnreachable(
            f"{endpoint.shown_url} is overloaded (error 529); ask again later, or choose another "
            "model."
        )
    if status >= 500 and not _IS_REFUSAL.search(body):
        return ModelUnreachable(
            f"{endpoint.shown_url} failed with error {status}; ask again later, or choose another "
            f"model.{_quote_reason(endpoint, body)}"
        )
    if status in (400, 404) and "v1/responses" in body and "chat/completions" in body:
        return ResponsesRequired(
            f"{endpoint.shown_url} serves {endpoint.model!r} by the Responses API alone; set the "
            "model's backend to openai_responses."
        )
    if "tool_use_failed" in body:  # Groq's, for the model's output
        return ModelAnswerBroken(
            f"{endpoint.model} called a tool in a way that can't be read; ask again, or choose "
            "another model."
        )
    meant = _status_of(status, body.lower())
    return _kind_of(meant, body)(_refusal_sentence(endpoint, status, meant, body))


def _kind_of(meant: int, body: str) -> type[ModelError]:
    if meant in (401, 403):
        return AccountRefused
    may_be_of_size = _MEASURE.search(body) or not _OF_NO_HISTORY.search(body)
    is_filtered = any(words in body for words in _FILTERED)
    may_help = meant in _UNEXPLAINED and may_be_of_size and not is_filtered
    return UnexplainedRefusal if may_help else ModelRefused


def _status_of(status: int, body: str) -> int:
    """Return the best matching status: some servers answer 400 to every invalid request, some
    500."""
    if status >= 500:
        return 400
    if status == 400 and any(words in body for words in _WRONG_KEY):
        return 401
    return 404 if status == 400 and any(words in body for words in _NO_MODEL) else status


def _over_limit(endpoint: Endpoint, limit: int) -> ContextOverflow:
    return ContextOverflow(
        f"{endpoint.shown_url} takes {limit:,} tokens a minute with this key, and the request has "
        "more; send less at once, or have the limit raised there.",
        limit,
    )


def _refusal_sentence(endpoint: Endpoint, status: int, meant: int, body: str) -> str:
    if meant == 400 and any(words in body for words in _FILTERED):
        return (
            f"The content filter of {_name(endpoint)} blocked the question; try putting it in "
            "other words."
        )
    match meant:
        case 401:
            return f"{_name(endpoint)} refused the API key; check {endpoint.key_name}."
        case 404 if not endpoint.model:
            return (
                f"{endpoint.shown_url} lists no models, or is not the address of "
                f"{endpoint.protocol}; check {_setting(endpoint)}.{_quote_reason(endpoint, body)}"
            )
        case 403:
            what = repr(endpoint.model) if endpoint.model else "its list of models"
            return (
                f"{_name(endpoint)} does not let this API key use {what}; "
                f"check the key's rights or choose another model.{_quote_reason(endpoint, body)}"
            )
        case 404:
            return (
                f"{endpoint.shown_url} has no model {endpoint.model!r}, or is not the address of "
                f"{endpoint.protocol}; check the model's name and {_setting(endpoint)}."
                f"{_quote_reason(endpoint, body)}"
            )
        case _:
            return (
                f"{endpoint.shown_url} refused the request (error {status}): "
                f"{_quote(endpoint, body)} If this happens again, send less (`/context compact`), "
                "start over (`/context clear`), or choose another model."
            )


def _name(endpoint: Endpoint) -> str:
    """Return the provider's name; its address if it is not a known one."""
    return find_provider(endpoint.provider, endpoint.base_url).title or endpoint.shown_url


def _setting(endpoint: Endpoint) -> str:
    """Return the name of the setting with the address, with a hint on what it may lack."""
    has_path = urlsplit(endpoint.base_url).path.strip("/")
    return endpoint.setting if has_path else f"{endpoint.setting} (it often ends in /v1)"


def overflow(endpoint: Endpoint, text: str) -> ContextOverflow:
    window = parse_window(text)
    size = f" of {window:,} tokens" if window else ""
    return ContextOverflow(
        f"The request is longer than the context window{size} of {endpoint.model}; send less at "
        "once, or choose a model with a larger window.",
        window,
        parse_room(text),
    )


def too_large(endpoint: Endpoint, size: int) -> ContextOverflow:
    """Return the error for a request of this many bytes, which the endpoint is known to refuse."""
    error = ContextOverflow(
        f"The request is too large for {endpoint.shown_url}, which takes less than "
        f"{size:,} bytes; send less at once, or choose another model."
    )
    error.status = 413
    return error


def no_model_list_error(endpoint: Endpoint) -> ModelUnlisted:
    """Return the error for an endpoint without a list of models."""
    return ModelUnlisted(f"{endpoint.shown_url} does not list its models; type the name of one.")


def unreachable(endpoint: Endpoint) -> ModelUnreachable:
    if not endpoint.base_url.startswith(("http://", "https://")):
        return ModelUnreachable(
            f"{endpoint.shown_url} is no address of a model: write http:// or https:// before it, "
            f"in {endpoint.setting}."
        )
    return ModelUnreachable(
        f"Can't connect to {endpoint.shown_url}; check {endpoint.setting}, and that the server is "
        "running."
    )


def unsendable(endpoint: Endpoint) -> ModelRefused:
    return ModelRefused(
        f"A request to {endpoint.shown_url} can't be made; check {endpoint.setting} and "
        f"{endpoint.key_name} for characters that don't belong there."
    )


def silent_error(endpoint: Endpoint) -> ModelSilent:
    return ModelSilent(_silence(endpoint))


def answer_stalled_error(endpoint: Endpoint) -> ModelAnswerBroken:
    """Return the error of `silent_error` for an answer that had begun."""
    return ModelAnswerBroken(_silence(endpoint))


def _silence(endpoint: Endpoint) -> str:
    return (
        f"{endpoint.shown_url} sent nothing for {endpoint.timeout:g} s; "
        "ask again, or raise `request_timeout`."
    )


def too_much(endpoint: Endpoint, what: str) -> ModelAnswerTooLong:
    """Return the error for an answer, or a list of models, that exceeds the read limit."""
    return ModelAnswerTooLong(
        f"{endpoint.shown_url} sent {what}, which is not the answer of a model, so the rest was "
        f"not read. Check {endpoint.setting}, and the server there."
    )


def compressed_answer_error(endpoint: Endpoint, how: str) -> ModelAnswerBroken:
    return ModelAnswerBroken(
        f"{endpoint.shown_url} answered with compressed text ({how[:20]!r}), which was not asked "
        "for and can't be read; switch off compression there, or in the proxy in front of it."
    )


def redirect(endpoint: Endpoint, location: str) -> ModelRefused:
    """Return the error for a redirect. Messages and the key are sent to the given address alone."""
    return ModelRefused(
        f"{endpoint.shown_url} redirects requests to {_origin(location)}. Nothing was sent there; "
        f"if that address is right, put it into {endpoint.setting}."
    )


def _origin(location: str) -> str:
    """Return the host of a foreign address, in words."""
    try:
        host = urlsplit(location).netloc.rpartition("@")[2]
    except ValueError:
        host = ""
    plain = "".join(c for c in host if c.isprintable())[:100]
    return plain or "another path"


def no_progress(endpoint: Endpoint, seconds: float) -> ModelAnswerBroken:
    """Return the error for bytes that contained no part of an answer for too long."""
    return ModelAnswerBroken(
        f"{endpoint.shown_url} kept the connection open for {seconds:g} s without an "
        "answer; ask again, or raise `request_timeout`."
    )


def connection_broken_error(endpoint: Endpoint) -> ModelAnswerBroken:
    return ModelAnswerBroken(f"The answer from {endpoint.model} broke off; ask again.")


def wrong_protocol_error(endpoint: Endpoint, content_type: str) -> ModelAnswerBroken:
    what = "a web page" if "html" in content_type else "something else"
    return ModelAnswerBroken(
        f"{endpoint.shown_url} answered with {what} instead of the chat protocol; "
        f"check {endpoint.setting} (it often ends in /v1)."
    )


def find_error(event: Mapping[str, Any]) -> object:
    """Return the error that came in place of a part of an answer; None for a normal part. Each
    shape is sent by some server with status 200 (vLLM, DashScope, MiniMax)."""
    if error := event.get("error"):
        return error if isinstance(error, str | dict | list) else {**event, "error": None}
    if choices := event.get("choices"):
        first = choices[0] if isinstance(choices, list) else None
        return first.get("error") if isinstance(first, dict) else None
    base = event.get("base_resp")
    if isinstance(base, dict) and base.get("status_code") not in (None, 0, "0"):
        return base
    is_error = event.get("object") == "error" or event.get("type") == "error"
    is_failure = event.get("success") is False
    has_words = any(isinstance(event.get(name), str) for name in ("message", "msg", "detail"))
    is_coded = event.get("code") not in (None, 0, "0", 200, "200", "success")
    return event if is_error or is_failure or (has_words and is_coded) else None


def find_words(event: Mapping[str, Any]) -> str:
    """Return a server's message in place of an answer; "" for none."""
    text = orjson.dumps(event, default=str).decode()
    wording = reason_of(text)
    return "" if wording == text else wording


def error_in_answer(endpoint: Endpoint, error: object) -> ModelError:
    """Return the error for an error object that came with status 200, in a stream or instead of
    one."""
    whole = json.dumps(error, ensure_ascii=False)[:_LONGEST_ERROR]
    text = whole.encode(errors="replace").decode()
    if is_overflow(text):
        return overflow(endpoint, text)
    broken = ModelAnswerBroken(
        f"{endpoint.model} broke off with an error: {_quote(endpoint, text)}"
    )
    broken.detail = endpoint.without_key(reason_of(text))[:_LONGEST_DETAIL]
    return broken


def empty_answer_error(endpoint: Endpoint, finish: str) -> ModelAnswerBroken:
    """Return the error for an answer without text and without tool calls."""
    match read_finish(finish):
        case "length":
            return ModelAnswerBroken(
                f"{endpoint.model} reached its length limit before saying anything; ask for less "
                "at once, or choose another model."
            )
        case "refused":
            return ModelAnswerBroken(
                f"{endpoint.model} declined to answer; put the question in other words, or choose "
                "another model."
            )
        case "interrupted":
            return ModelAnswerBroken(
                f"{endpoint.shown_url} reported an error ({finish[:40]}) instead of an answer; ask "
                "again."
            )
        case "filtered":
            return ModelAnswerBroken(
                f"The content filter of {_name(endpoint)} blocked the answer; try putting the "
                "question in other words."
            )
        case _:
            return ModelAnswerBroken(
                f"{endpoint.model} gave an empty answer; ask again, or choose another model."
            )


def _quote(endpoint: Endpoint, body: str) -> str:
    """Return the provider's own message: one line of limited length, without the key, ended like a
    sentence."""
    wording = " ".join(endpoint.without_key(reason_of(body)).split())
    line = wording if len(wording) <= _LONGEST_QUOTE else f"{wording[:_LONGEST_QUOTE]}…"
    return line if line.endswith((".", "!", "?")) else f"{line}."


def _quote_reason(endpoint: Endpoint, body: str) -> str:
    """Return a sentence with the provider's message on a failure; "" if it has none."""
    return f" It said: {_quote(endpoint, body)}" if _is_readable(reason_of(body)) else ""


_NO_REASON = "it gave no reason"
_REASONS = (
    *("error", "errors", "message", "msg", "status_msg", "error_msg", "error_message"),
    *("detail", "Message", "reason", "base_resp", "Error", "fault", "faultstring"),
    *("err", "exception", "Response"),
)
_MARKUP = lazy(r"\s*<[!?a-z]", re.IGNORECASE)


def _is_readable(reason: str) -> bool:
    return reason != _NO_REASON and any(map(str.isspace, reason.strip()))


def reason_of(body: str) -> str:
    """Return the message in an error's body: OpenAI's `error.message`, or another provider's field.
    A gateway (OpenRouter) says only that its provider failed; the reason is in `error.metadata.raw`
    (Roo-Code#10640), or it is JSON in the message itself."""
    value = _read(body)
    while isinstance(value, dict | list):
        if isinstance(value, list):
            value = _first_of(value) or body
            continue
        metadata = value.get("metadata")
        raw = metadata.get("raw") if isinstance(metadata, dict) else None
        if raw and isinstance(raw, str | dict):
            return reason_of(raw if isinstance(raw, str) else orjson.dumps(raw).decode())
        found = next((value[key] for key in _REASONS if value.get(key)), None)
        value = body if found is None else _read(found) if isinstance(found, str) else found
        if value is body or not isinstance(value, str | dict | list):
            break
    text = value if isinstance(value, str) else body
    return _NO_REASON if not text.strip() or _MARKUP.match(text) else text


def _first_of(errors: Sequence[Any]) -> object:
    """Return the first of several errors, as Gemini sends them, or pydantic's messages on
    fields."""
    named = [one for one in errors if isinstance(one, dict)]
    if not named or not isinstance(named[0].get("loc"), list):
        return named[0] if named else None
    return "; ".join(
        f"{'.'.join(map(str, one['loc']))}: {one.get('msg')}" for one in named if "loc" in one
    )


def _read(text: str) -> object:
    """Return the parsed JSON of a text, or the text."""
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return text
    try:
        value: object = orjson.loads(text)
    except ValueError:
        return text
    return value
