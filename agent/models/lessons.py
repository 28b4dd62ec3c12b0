"""What a refusal teaches. Pure: from a request and the words of its refusal to a fact about the
model (`learnt.Lesson`), or to what is left out of this request alone.

The words are those of public reports; each group names some. A provider that says the same in other
words is understood by the general pattern behind them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from agent.models.base import ContextOverflow, ModelError, WantsResponses
from agent.models.chat_thoughts import DETAILS, SIGNATURES, TEXT
from agent.models.endpoint import RESPONSES, Endpoint
from agent.models.learnt import Learnt, Lesson
from agent.models.neutral import EVERYWHERE, OWN, THOUGHTS
from agent.pictures import has_pictures, picture_urls

Body = Mapping[str, Any]

SMALLEST_BODY = 65_536
"""Bytes; an endpoint that refuses a smaller request for its size means something else."""
_REFUSED = re.compile(
    r"unsupported|not (?:be )?(?:supported|available|enabled|allowed|permitted|implemented|valid)"
    r"|n[o']t (?:currently )?(?:support|allow|accept|permit)|unknown|unrecogni[sz]ed|unexpected"
    r"|extra (?:inputs?|fields?|parameters?)|additional (?:propert|field)|deprecated|invalid"
    r"|no longer|can(?:no|')t be (?:used|set)|forbidden|disabled|only .{0,40}allowed"
    r"|incompatible|must be|should be|(?:may|can) only|unavailable|removed|not compatible"
    r"|not a (?:permitted|valid|known|recogni[sz]ed)|not recogni[sz]ed",
    re.IGNORECASE,
)
_NOT_TAKEN = re.compile(
    r"unsupported|not (?:be )?(?:supported|available|enabled|allowed|permitted|implemented)"
    r"|(?:not|n't) (?:currently )?(?:support|allow|accept|permit)|unknown|unrecogni[sz]ed"
    r"|unexpected|extra (?:inputs?|fields?|parameters?)|additional (?:propert|field)|disabled"
    r"|unavailable|not a (?:permitted|valid|known|recogni[sz]ed)",
    re.IGNORECASE,
)
"""What says that something is not taken at all, and not that it is taken otherwise."""
_NO_TOOLS = re.compile(
    r"requires? --enable-auto-tool-choice|tool[- ](?:call[- ])?parser"  # vLLM, SGLang
    r"|does not support tools|do(?:es)? not support function|support tool use"  # Ollama, OpenRouter
    r"|requires? --jinja"  # llama.cpp, as a 500
    r"|(?<!_)(?:tool|function)[ _-]?(?:use|calls?|calling)`? (?:is|are) not supported",  # Groq
    re.IGNORECASE,
)
_SOME_TOOLS = re.compile(
    r"\btools?\b(?![_ ]choice)(?:[ _-]?(?:use|calls?|calling))?"
    r"|\bfunction[ _-]call\w*|\bfunctions\b",
    re.IGNORECASE,
)
_ABOUT_ONE = re.compile(
    r"schema|description|name|duplicate|\bid\b|result|\brole\b|tool_calls|arguments\b(?!.*:)"
    r"|preceding|must|call validation|parallel_",
    re.IGNORECASE,
)
"""What a complaint speaks of that is about one tool, or one call."""
_WANTED = re.compile(
    r"missing|must (?:be|have|include|contain)|required|requires|expected|needs? to"
    r"|pass(?:ed)? back|should be (?:passed|provided|included)|without",
    re.IGNORECASE,
)
_SEALED = re.compile(
    r"encrypted content|signature|thinking|'reasoning'|reasoning_details|thought", re.IGNORECASE
)
_LONGEST = re.compile(
    r"max_tokens: \d+ > (\d{1,9})"  # Anthropic
    r"|max_(?:completion_|output_)?tokens\b.{0,80}?(?:<=|less than or equal to|at most|up to"
    r"|maximum(?: value)?(?: of| is)?|exceeds?|\[1, ?)\D{0,12}(\d{1,9})",
    re.IGNORECASE | re.DOTALL,
)
_PICTURES = re.compile(r"image|picture|multi-?modal|vision|content\b.*\bstring", re.IGNORECASE)
_BLIND = re.compile(
    r"(?:image|vision|multi-?modal)[^.]{0,60}not (?:be )?(?:supported|available|enabled|allowed)"
    r"|(?:not|n't) (?:currently )?(?:support|accept|have|a)\b[^.]{0,40}"
    r"(?:image|vision|multi-?modal)"
    r"|support image input|image input is|text[- ]only|content\b.*\bstring|mmproj|unknown variant"
    r".{0,10}image_url",
    re.IGNORECASE,
)
"""What says that the model sees no picture at all (OpenRouter, llama.cpp, DeepSeek)."""
_ONE_PICTURE = re.compile(
    r"invalid|corrupt|decode|could not process|unable to process|dimension|too large|exceeds|format"
    r"|media.?type|download|truncated|size",
    re.IGNORECASE,
)
_NO_SYSTEM = re.compile(r"system (?:role|messages?|prompts?|instructions?) (?:is |are )?not ", re.I)
"""Templates of Gemma, at llama.cpp and vLLM."""
_ONE_SYSTEM = re.compile(
    r"system (?:message|prompt)s? must be (?:at )?the (?:beginning|first)", re.I
)
"""Templates of Qwen, at vLLM and llama.cpp, there with a 500 (llama.cpp#20733)."""
_NEEDED = frozenset({"model", "stream", "store", *OWN})
_ALIASES = {
    "stream_options": ("stream_options", "include_usage"),
    "response_format": ("response_format", "json_schema", "structured output"),
    "output_config": ("output_config", "output_format", "structured output"),
    "include": ("'include'", "include[0]", "encrypted content is not supported"),
    "text": ("text.format", "'text'", "json_schema"),
    "reasoning": ("reasoning.effort", "'reasoning'"),
    "stop": ("'stop'",),
    "thinking": (),
}
"""By which words a parameter is named, where its name may be an English word."""


def find_lesson(
    endpoint: Endpoint, body: Body, error: ModelError, learnt: Learnt, given: Sequence[str] = ()
) -> Lesson | None:
    """Return what a refusal of this request teaches about the model; None: nothing that is kept.
    `given` are parameters that a client asked for, whom it concerns that they are refused."""
    if isinstance(error, WantsResponses):
        is_so = body.get("protocol") == RESPONSES
        return None if is_so else Lesson("protocol", RESPONSES)
    if isinstance(error, ContextOverflow):
        is_size = is_too_large(error) and error.sent >= SMALLEST_BODY
        return _too_large(endpoint, error.sent) if is_size else None
    said = error.detail or str(error)
    if not _may_teach(error, said):
        return None
    return next(filter(None, _lessons(endpoint, body, said, learnt, given)), None)


def _may_teach(error: ModelError, said: str) -> bool:
    """Return whether it is a refusal of the request. A server that fails (llama.cpp without --jinja
    does, with 500) is believed what is said in known words alone."""
    if error.status in (401, 402, 403, 429) or not said:
        return False
    is_known = any(one.search(said) for one in (_NO_TOOLS, _NO_SYSTEM, _ONE_SYSTEM))
    return error.status < 500 or is_known


def _lessons(
    endpoint: Endpoint, body: Body, said: str, learnt: Learnt, given: Sequence[str]
) -> Iterator[Lesson | None]:
    if _NO_TOOLS.search(said):
        yield _tools(endpoint, body, said)
    yield _thoughts(body, said)
    yield _length(body, said)
    yield _parameter(body, said, learnt, given)
    yield _tools(endpoint, body, said)
    yield _sight(endpoint, body, said)
    if _NO_SYSTEM.search(said) and not body.get("no_system"):
        yield Lesson("system", False)
    if _ONE_SYSTEM.search(said) and not body.get("one_system"):
        yield Lesson("system", "one")


def _said(body: Body) -> Sequence[Mapping[str, Any]]:
    messages: Sequence[Mapping[str, Any]] = body["messages"]
    return messages


def _tools(endpoint: Endpoint, body: Body, said: str) -> Lesson | None:
    if "tools" not in body:
        return None
    is_general = bool(_SOME_TOOLS.search(said) and _NOT_TAKEN.search(said))
    if not (_NO_TOOLS.search(said) or (is_general and not _ABOUT_ONE.search(said))):
        return None
    return Lesson(
        "tools",
        False,
        f"{endpoint.model} takes no tools at {endpoint.shown_url}, so it is asked without them. "
        "`/model forget` has that tried again.",
    )


def _thoughts(body: Body, said: str) -> Lesson | None:
    """Return in which field thoughts go back, or that they don't (Kimi K2, DeepSeek:
    opencode#10996, deer-flow#3043; Groq and Mistral refuse the field), or that answers need them as
    well as calls (kimi-cli#2141)."""
    if body.get("protocol"):
        return None
    sent = body.get(THOUGHTS, "")
    for field, word in ((TEXT, TEXT), (DETAILS, DETAILS), (SIGNATURES, "thought_signature")):
        if word not in said:
            continue
        is_refused = _NOT_TAKEN.search(said) is not None
        if field != sent and _WANTED.search(said) and not is_refused:
            return Lesson("thoughts", field)
        if field == sent and is_refused and word != "thought_signature":
            return Lesson("thoughts", "none")
        if field == sent == TEXT and _WANTED.search(said) and not body.get(EVERYWHERE):
            return Lesson("thoughts_everywhere", True)
    return None


_LENGTHS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def _length(body: Body, said: str) -> Lesson | None:
    name = next((name for name in _LENGTHS if name in body), "")
    found = _LONGEST.search(said) if name else None
    longest = int(next(filter(None, found.groups()))) if found else 0
    return Lesson("longest", longest) if 0 < longest < body[name] else None


def _parameter(body: Body, said: str, learnt: Learnt, given: Sequence[str]) -> Lesson | None:
    """Return that a parameter is left out which the refusal names. Those that Anthropic's models
    want otherwise are no refusals of the whole parameter."""
    if "adaptive" in said and _type(body, "thinking") == "adaptive":
        return Lesson("budget", True)
    has_effort = "effort" in (body.get("output_config") or {})
    if "effort" in said and has_effort and learnt.facts.get("effort") is not False:
        return Lesson("effort", False)
    if not _REFUSED.search(said):
        return None
    optional = [name for name in body if name not in _NEEDED and name not in given]
    for name in sorted(optional, key=len, reverse=True):  # max_tokens is a part of other names
        words = _ALIASES.get(name, (name,))
        if any(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", said, re.I) for word in words):
            return Lesson("without", [name])
    return None


def _type(body: Body, name: str) -> object:
    value = body.get(name)
    return value.get("type") if isinstance(value, dict) else None


def _sight(endpoint: Endpoint, body: Body, said: str) -> Lesson | None:
    if not has_pictures(_said(body)) or not _BLIND.search(said) or _ONE_PICTURE.search(said):
        return None
    return Lesson(
        "pictures",
        False,
        f"{endpoint.model} takes no pictures at {endpoint.shown_url}, so it is told of them in "
        "words. `/model forget` has that tried again.",
    )


def _too_large(endpoint: Endpoint, size: int) -> Lesson:
    return Lesson(
        "bytes",
        size,
        f"{endpoint.shown_url} takes no request of {size // 1000:,} kB, so less is sent from now "
        "on. `/model forget` has that tried again.",
    )


# --- what is left out of one request ---


def is_about_thoughts(error: ModelError) -> bool:
    """Return whether a refusal may be about thoughts that went back: those of another model or of
    another key can't be read (OpenRouter: oh-my-pi#3399, Roo-Code#10640)."""
    said = error.detail or str(error)
    return error.status < 500 and _SEALED.search(said) is not None


def find_bad_picture(body: Body, error: ModelError, accepted: frozenset[str]) -> str:
    """Return the address of the picture that a refusal may be about: the newest that the model has
    not taken before; "" where it is about something else."""
    if error.status >= 500 or not _PICTURES.search(error.detail or str(error)):
        return ""
    urls = [*dict.fromkeys(picture_urls(_said(body)))]
    return next(
        (url for url in reversed(urls) if digest(url) not in accepted), urls[-1] if urls else ""
    )


def is_too_large(error: ModelError) -> bool:
    """Return whether a request is refused for its size in bytes."""
    return isinstance(error, ContextOverflow) and error.status == 413


def refuse_pictures(urls: Sequence[str]) -> Lesson:
    """Return that these pictures are not sent again to this model."""
    return Lesson("refused", [*map(digest, urls)])


def say_refused(endpoint: Endpoint) -> str:
    """Return the sentence for the person whose request had a refused picture."""
    return f"{endpoint.shown_url} refused a picture, so {endpoint.model} was told of it in words."


def digest(url: str) -> str:
    """Return what a picture is known by."""
    return sha256(url.encode()).hexdigest()[:16]
