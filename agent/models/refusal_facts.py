"""The lessons of refusals. Pure: from a request and the message of its refusal to a fact about the
model (`learnt.Lesson`), or to parts that are left out of this request alone.

The patterns come from public reports; each group names some. Other wordings of a provider are
matched by the general patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from agent.models.base import ContextOverflow, ModelError, ResponsesRequired, UnexplainedRefusal
from agent.models.chat_thoughts import DETAILS, SIGNATURES, TEXT
from agent.models.endpoint import ANTHROPIC, RESPONSES, Endpoint
from agent.models.history import EVERYWHERE, OWN, THOUGHTS
from agent.models.learnt import Lesson, ModelFacts
from agent.pictures import has_pictures, picture_urls
from memory.patterns import lazy

Body = Mapping[str, Any]

SMALLEST_BODY = 65_536
"""Bytes; a smaller request is not refused for its size."""
_NOT_TAKEN = lazy(
    r"unsupported|not (?:be |currently |yet )?(?:support|available|enabled|allowed|permitted"
    r"|implemented|compatible|recogni[sz]ed)|n['o]t (?:currently )?(?:support|allow|accept|permit)"
    r"|\bno (?:[\w-]+ ){0,3}support|unknown|unrecogni[sz]ed|unexpected|incompatible"
    r"|extra (?:inputs?|fields?|parameters?)|additional (?:propert|field)|disabled"
    r"|unavailable|not a (?:permitted|valid|known|recogni[sz]ed)|can(?:no|')t (?:use|find|be used)",
    re.IGNORECASE,
)
"""Words that reject something altogether, not only in its present form."""
_REFUSED = lazy(
    rf"{_NOT_TAKEN.pattern}|deprecated|invalid|not valid|no longer|can(?:no|')t be|forbidden"
    r"|only .{0,40}allowed|must be|should be|(?:may|can) only|removed",
    re.IGNORECASE,
)
_NO_TOOLS = lazy(
    r"requires? --enable-auto-tool-choice|tool[-_ ](?:call[-_ ])?parser"  # vLLM, SGLang
    r"|does not support tools|do(?:es)? not support function|support tool use"  # Ollama, OpenRouter
    r"|requires? --jinja"  # llama.cpp, as a 500
    r"|(?<!_)(?<!parallel )(?:tool|function)[ _-]?(?:use|calls?|calling)`? (?:is|are) not supported"
    r"|not support parameters: \['tools'",  # LiteLLM
    re.IGNORECASE,
)
_SOME_TOOLS = lazy(
    r"\btools?\b(?![_ ]choice)(?:[ _-]?(?:use|calls?|calling))?"
    r"|\bfunction[ _-]call\w*|\bfunctions\b|support functions?\b",
    re.IGNORECASE,
)
_ABOUT_ONE = lazy(
    r"schema|description|(?<!model )(?<!model_)name|duplicate|\bid\b|result|\brole\b|tool_calls"
    r"|(?:tool|call) arguments|arguments\b(?!.*:)|preceding|must|call validation|parallel"
    r"|\bstrict\b"
    r"|\b(?:tool|user|assistant) messages?\b|messages?\W{1,4}\d|tools\W{1,4}\d",
    re.IGNORECASE,
)
"""Words of a complaint about one tool, or one call."""
_WANTED = lazy(
    r"missing|must (?:be|have|include|contain)|required|requires|expected|needs? to"
    r"|pass(?:ed)? back|cannot be empty|should be (?:passed|provided|included)|without",
    re.IGNORECASE,
)
_SEALED = lazy(
    r"encrypted content|signature|thinking|'reasoning'|reasoning_details|thought", re.IGNORECASE
)
_LENGTHS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_OF_LENGTH = lazy(
    r"max_(?:completion_|output_|new_)?tokens|maxOutputTokens|max(?:imum)? (?:output )?tokens",
    re.IGNORECASE,
)
_TOO_MANY = lazy(
    r"less than|at most|up to|maximum|exceed|too (?:large|big|high|long)|range|limit|\[\d|\(0,|<=|>"
    r"|\ble\b|between",
    re.IGNORECASE,
)
_TOO_FEW = lazy(r"greater than|at least|larger than|more than|budget", re.IGNORECASE)
_NUMBER = lazy(
    r"(?<![\w.-])(?<!code )(?<!error )(?<!status )(\d{1,3}(?:,\d{3})+|\d{2,9})(?![\w-]|\.\d)"
    r"( \(exclusive\))?",
    re.IGNORECASE,
)
_SHORTEST = 256
"""Tokens; a smaller number is not a limit of an answer."""
_PICTURES = lazy(
    r"image|picture|multi-?modal|vision|content\b.*\bstring|string\b.*\bcontent", re.IGNORECASE
)
_NO_PICTURES = lazy(
    r"mmproj|missing data required for image|image input is not supp|support image input"
    r"|unknown variant .{0,10}image_url|image_url is only supp|at most 0 image"
    r"|unsupported (?:message )?content type\W+image|only supports? text",
    re.IGNORECASE,
)
"""Words saying that the model accepts no pictures at all (llama.cpp, Ollama, OpenRouter, DeepSeek,
OpenAI, vLLM); the first of them with a 500."""
_BLIND = lazy(
    r"(?:image|vision|multi-?modal)[^.]{0,60}not (?:be )?(?:supported|available|enabled|allowed)"
    r"|(?:not|n't) (?:currently )?(?:support|accept|have|a)\b[^.]{0,40}"
    r"(?:image|vision|multi-?modal)"
    r"|image input is|text[- ]only|content\b.*\bstring|string\b.*\bcontent\b",
    re.IGNORECASE,
)
_ONE_PICTURE = lazy(
    r"invalid|corrupt|decode|could not process|unable to process|dimension|too large|exceeds|format"
    r"|media.?type|download|truncated|size|base64|safety|moderation|polic",
    re.IGNORECASE,
)
_SYSTEM = r"\b(?:system|developer)\b['\"`]?"
_PROMPT = r"(?:roles?|messages?|prompts?|instructions?)\b"
_NO_SYSTEM = lazy(
    rf"{_SYSTEM} {_PROMPT}[^.]{{0,15}}?(?:\bnot |n't |un)(?:be )?"
    r"(?:support|enabled|allow|permit|avail)"
    rf"|\broles?\b[^.]{{0,40}}?(?:\bnot |n't |un)support\w*\W{{0,4}}{_SYSTEM}"
    rf"|\brole\W{{1,4}}{_SYSTEM}[^.]{{0,15}}?(?:\bnot |n't |un)(?:support|allow|permit)"
    rf"|(?:\bnot |n't |un)support\w*[^.]{{0,20}}?{_SYSTEM} {_PROMPT}"
    rf"|(?:invalid|unknown|unsupported)[^.]{{0,15}}\brole\W{{1,4}}{_SYSTEM}",
    re.IGNORECASE,
)
"""Templates of Gemma, at llama.cpp and vLLM; OpenAI's first o1, Bedrock, Google."""
_ONE_SYSTEM = lazy(
    rf"system {_PROMPT} (?:must|should|can|may|is|are)[^.]{{0,30}}(?:beginning|first|start\b|once)"
    r"|only (?:one|a single|the first)[^.]{0,20}\bsystem|(?:multiple|more than one|several) system",
    re.IGNORECASE,
)
"""Templates of Qwen, at vLLM and llama.cpp, there with a 500 (llama.cpp#20733)."""
_NEEDED = frozenset({"model", "stream", "store", *OWN})
_ENGLISH = frozenset({"include", "text", "reasoning", "stop", "thinking", "user", "metadata"})
"""Parameters whose names are common words, which other complaints may contain."""
_ALIASES = {
    "stream_options": ("include_usage",),
    "response_format": (
        *("json_schema", "json_object", "structured outputs?", "json mode", "response format"),
        *("response mime type", "guided (?:decoding|json)"),
    ),
    "output_config": ("output_format", "structured outputs?"),
    "include": ("'include'", r"include\[0\]", "encrypted content is not supported"),
    "text": (r"text\.format", "'text'", "json_schema"),
    "reasoning": (r"reasoning\.effort", "'reasoning'"),
    "reasoning_effort": (
        "reasoning effort",
        "support thinking",
        "support reasoning",
        "think value",
    ),
    "stop": ("'stop'",),
    "tool_choice": ("tool choice",),
}
"""Other names of parameters; these count only if the text refuses them."""


def find_lesson(
    endpoint: Endpoint, body: Body, error: ModelError, learnt: ModelFacts, given: Sequence[str] = ()
) -> Lesson | None:
    """Return the fact about the model that this refusal teaches; None if there is none to keep.
    `given` are parameters of a client, which must learn of their refusal itself."""
    if isinstance(error, ResponsesRequired):
        is_so = body.get("protocol") == RESPONSES
        return None if is_so else Lesson("protocol", RESPONSES)
    if isinstance(error, ContextOverflow):
        is_size = is_too_large(error) and error.sent >= SMALLEST_BODY
        return _too_large(endpoint, error.sent) if is_size else None
    reason = error.detail or str(error)
    if not _may_teach(error, reason):
        return None
    return next(filter(None, _lessons(endpoint, body, reason, learnt, given)), None)


def _may_teach(error: ModelError, reason: str) -> bool:
    """Return whether it is a refusal of the request. For a server error (llama.cpp without --jinja
    answers 500) only known messages count."""
    if error.status in (401, 402, 403, 429) or not reason:
        return False
    known = (_NO_TOOLS, _NO_SYSTEM, _ONE_SYSTEM, _NO_PICTURES)
    is_known = any(one.search(reason) for one in known)
    return error.status < 500 or isinstance(error, UnexplainedRefusal) or is_known


def _lessons(
    endpoint: Endpoint, body: Body, reason: str, learnt: ModelFacts, given: Sequence[str]
) -> Iterator[Lesson | None]:
    if _NO_TOOLS.search(reason):
        yield _tools(endpoint, body, reason)
    yield _thoughts(body, reason)
    yield _length(body, reason)
    yield _parameter(body, reason, learnt, given)
    yield _tools(endpoint, body, reason)
    yield _learn_vision(endpoint, body, reason)
    if _ONE_SYSTEM.search(reason) and not body.get("one_system"):
        yield Lesson("system", "one")
    elif _NO_SYSTEM.search(reason) and not body.get("no_system"):
        yield Lesson("system", False)


def _messages(body: Body) -> Sequence[Mapping[str, Any]]:
    messages: Sequence[Mapping[str, Any]] = body["messages"]
    return messages


def _tools(endpoint: Endpoint, body: Body, reason: str) -> Lesson | None:
    if "tools" not in body:
        return None
    is_general = bool(_SOME_TOOLS.search(reason) and _NOT_TAKEN.search(reason))
    if not (_NO_TOOLS.search(reason) or (is_general and not _ABOUT_ONE.search(reason))):
        return None
    return Lesson(
        "tools",
        False,
        f"{endpoint.model} accepts no tools at {endpoint.shown_url}, so requests are sent "
        "without them. `/model forget` tries again.",
    )


def _thoughts(body: Body, reason: str) -> Lesson | None:
    """Return the field in which thoughts are sent back, or that they are not (Kimi K2, DeepSeek:
    opencode#10996, deer-flow#3043; Groq and Mistral refuse the field), or that answers need them as
    well as calls (kimi-cli#2141)."""
    if body.get("protocol"):
        return None
    sent = body.get(THOUGHTS, "")
    for field, word in ((TEXT, TEXT), (DETAILS, DETAILS), (SIGNATURES, "thought_signature")):
        if word not in reason and not (field == sent and field in reason):
            continue
        is_refused = bool(_NOT_TAKEN.search(reason) or f"remove the {field}" in reason)
        if field != sent and _WANTED.search(reason) and not is_refused:
            return Lesson("thoughts", field)
        if field == sent and is_refused and field in reason:
            return Lesson("thoughts", "none")
        if field == sent == TEXT and _WANTED.search(reason) and not body.get(EVERYWHERE):
            return Lesson("thoughts_everywhere", True)
    return None


def find_length(body: Body) -> str:
    """Return the parameter for an answer's maximum length; "" if none is sent."""
    return next((name for name in _LENGTHS if name in body), "")


def _length(body: Body, reason: str) -> Lesson | None:
    """Return the maximum length of an answer: the largest number in a complaint about the length
    that is smaller than the requested one."""
    if not (name := find_length(body)) or not _OF_LENGTH.search(reason) or _TOO_FEW.search(reason):
        return None
    named = (int(found[1].replace(",", "")) - bool(found[2]) for found in _NUMBER.finditer(reason))
    longest = max((number for number in named if number < body[name]), default=0)
    is_one = longest >= _SHORTEST and _TOO_MANY.search(reason)
    return Lesson("longest", longest) if is_one else None


def _parameter(body: Body, reason: str, learnt: ModelFacts, given: Sequence[str]) -> Lesson | None:
    """Return a lesson to leave out a parameter that the refusal names. Parameters that Anthropic's
    models want in another form are not refused altogether."""
    if "adaptive" in reason and _type(body, "thinking") == "adaptive":
        return Lesson("budget", True)
    has_effort = "effort" in (body.get("output_config") or {})
    if "effort" in reason and has_effort and learnt.facts.get("effort") is not False:
        return Lesson("effort", False)
    optional = [name for name in body if name not in _NEEDED and name not in given]
    if body.get("protocol") == ANTHROPIC:
        optional = [name for name in optional if name != "max_tokens"]
    for name in sorted(optional, key=len, reverse=True):  # max_tokens is a part of other names
        is_named = name not in _ENGLISH and _has_word(reason, re.escape(name))
        others = _ALIASES.get(name, ())
        if is_named or (_REFUSED.search(reason) and any(_has_word(reason, one) for one in others)):
            return Lesson("without", [name])
    return None


def _has_word(reason: str, word: str) -> bool:
    return re.search(rf"(?<![\w-]){word}(?![\w-])", reason, re.IGNORECASE) is not None


def _type(body: Body, name: str) -> object:
    value = body.get(name)
    return value.get("type") if isinstance(value, dict) else None


def _learn_vision(endpoint: Endpoint, body: Body, reason: str) -> Lesson | None:
    is_blind = _BLIND.search(reason) and not _ONE_PICTURE.search(reason)
    if not has_pictures(_messages(body)) or not (is_blind or _NO_PICTURES.search(reason)):
        return None
    return Lesson(
        "pictures",
        False,
        f"{endpoint.model} accepts no pictures at {endpoint.shown_url}, so it gets their "
        "description in words. `/model forget` tries again.",
    )


def _too_large(endpoint: Endpoint, size: int) -> Lesson:
    return Lesson(
        "bytes",
        size,
        f"{endpoint.shown_url} takes no request of {size // 1000:,} kB, so less is sent from now "
        "on. `/model forget` tries again.",
    )


# --- parts left out of one request ---


def is_about_thoughts(error: ModelError) -> bool:
    """Return whether a refusal may concern thoughts that were sent back: those of another model or
    key can't be read (OpenRouter: oh-my-pi#3399, Roo-Code#10640)."""
    reason = error.detail or str(error)
    return error.status < 500 and _SEALED.search(reason) is not None


def find_bad_picture(body: Body, error: ModelError, accepted: frozenset[str]) -> str:
    """Return the URL of the picture that a refusal may concern: the newest that the model has not
    accepted before; "" if it concerns something else."""
    if error.status >= 500 or not _PICTURES.search(error.detail or str(error)):
        return ""
    urls = [*dict.fromkeys(picture_urls(_messages(body)))]
    return next(
        (url for url in reversed(urls) if digest(url) not in accepted), urls[-1] if urls else ""
    )


def is_too_large(error: ModelError) -> bool:
    """Return whether a request is refused for its size in bytes."""
    return isinstance(error, ContextOverflow) and error.status == 413


def refuse_pictures(urls: Sequence[str]) -> Lesson:
    """Return a lesson not to send these pictures to this model again."""
    return Lesson("refused", [*map(digest, urls)])


def describe_refused(endpoint: Endpoint) -> str:
    """Return the sentence for the person whose request had a refused picture."""
    return f"{endpoint.shown_url} refused a picture, so {endpoint.model} was told of it in words."


def digest(url: str) -> str:
    """Return the identifier of a picture."""
    return sha256(url.encode()).hexdigest()[:16]
