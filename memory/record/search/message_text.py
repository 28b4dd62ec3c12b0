"""The text of a message, as searches read it, and the places of words in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

import regex
from msgspec.structs import replace

from memory.messages import SEARCHES, Message, ToolCall
from memory.plain_text import unescape
from memory.record.closeness import measure


class Span(NamedTuple):
    """The place of a word in a text: from character `start` up to, but excluding, `end`."""

    start: int
    end: int


def to_search_text(message: Message) -> str:
    """Return a message's text, and its tool calls with their decoded input. (The index holds
    exactly these words, or those of `as_written`; removing a message needs them again.)"""
    calls = (f"{call.name}({unescape(call.arguments)})" for call in message.tool_calls)
    return "\n".join(filter(None, (message.text, *calls)))


def as_written(message: Message) -> str:
    """Return the same with JSON escapes left as they are, as older messages were indexed."""
    calls = (f"{call.name}({call.arguments})" for call in message.tool_calls)
    return "\n".join(filter(None, (message.text, *calls)))


def to_model_text(message: Message) -> str:
    """Return the same as the model reads it, with the speaker or tool (flo.monster)."""
    whose = f"result of {message.tool}" if message.tool else message.speaker
    calls = (f"[tool: {call.name}({_without_escapes(call)})]" for call in message.tool_calls)
    return " ".join(filter(None, (whose and f"{whose}:", message.text.strip(), *calls)))


def _without_escapes(call: ToolCall) -> str:
    """Return a call's arguments with decoded letters in place of escapes such as `\\u00f6`."""
    if "\\u" not in call.arguments:
        return call.arguments
    try:
        value = call.parse()
    except ValueError:
        return call.arguments
    return json.dumps(value, ensure_ascii=False).encode(errors="replace").decode()


def without_searches(message: Message) -> Message:
    """Return a message without search calls and search results."""
    if message.tool in SEARCHES:
        return replace(message, text="")
    calls = tuple(call for call in message.tool_calls if call.name not in SEARCHES)
    return message if calls == message.tool_calls else replace(message, tool_calls=calls)


def spans(text: str, wanted: Sequence[str]) -> tuple[Span, ...]:
    """Return a place of each folded word in a text, in order: in the closest match, or else the
    first. Folding may lengthen a text ("ß" becomes "ss"), so positions are mapped back to the
    original."""
    folded = text.casefold()
    best = measure(folded, wanted)[1]
    starts = [
        place if (place := folded.find(word, best)) >= 0 else folded.find(word) for word in wanted
    ]
    if len(folded) == len(text):
        origin: Sequence[int] = range(len(text))
    else:
        origin = [i for i, letter in enumerate(text) for _ in letter.casefold()]
    found = (
        Span(origin[start], origin[start + len(word) - 1] + 1)
        for start, word in zip(starts, wanted, strict=True)
        if start >= 0
    )
    return tuple(sorted(found, key=itemgetter(0)))


_SPACE = r"(?:[\s\x1c-\x1f]|\\[nrt])+"  # whitespace for `str.split`, and JSON's line breaks


def finder(text: str) -> regex.Pattern[str]:
    """Return a pattern that finds a text in any case, with any spaces and line breaks between its
    words; also in the arguments of a call, which are JSON."""
    plain = text.split()
    written = [json.dumps(word, ensure_ascii=False)[1:-1] for word in plain]
    ways = [plain, written] if written != plain else [plain]
    return regex.compile(
        "|".join(_SPACE.join(map(regex.escape, way)) for way in ways),
        regex.IGNORECASE | regex.FULLCASE,
        cache_pattern=False,
    )
