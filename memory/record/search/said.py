"""The text of a message, as searches read it, and where words stand in that."""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

import regex
from msgspec.structs import replace

from memory.escapes import unescape
from memory.messages import SEARCHES, Message, ToolCall
from memory.record.closeness import measure


class Span(NamedTuple):
    """The place of a word in a text: from character `start` to before `end`."""

    start: int
    end: int


def to_search_text(message: Message) -> str:
    """Return a message's text, and the tools that it calls with their input, as it is meant. (The
    index holds just these words, or those `as_written`: a message that is deleted must still have
    them.)"""
    calls = (f"{call.name}({unescape(call.arguments)})" for call in message.tool_calls)
    return "\n".join(filter(None, (message.text, *calls)))


def as_written(message: Message) -> str:
    """Return the same with the escapes of JSON as they are, in which it was indexed once."""
    calls = (f"{call.name}({call.arguments})" for call in message.tool_calls)
    return "\n".join(filter(None, (message.text, *calls)))


def to_model_text(message: Message) -> str:
    """Return the same as the model reads it, with whose it is (flo.monster)."""
    whose = f"result of {message.tool}" if message.tool else message.speaker
    calls = (f"[tool: {call.name}({_without_escapes(call)})]" for call in message.tool_calls)
    return " ".join(filter(None, (whose and f"{whose}:", message.text.strip(), *calls)))


def _without_escapes(call: ToolCall) -> str:
    """Return a call's arguments with the letters that the model has written as `\\u00f6`."""
    if "\\u" not in call.arguments:
        return call.arguments
    try:
        value = call.parse()
    except ValueError:
        return call.arguments
    return json.dumps(value, ensure_ascii=False).encode(errors="replace").decode()


def without_searches(message: Message) -> Message:
    """Return a message without the questions and the results of searches."""
    if message.tool in SEARCHES:
        return replace(message, text="")
    calls = tuple(call for call in message.tool_calls if call.name not in SEARCHES)
    return message if calls == message.tool_calls else replace(message, tool_calls=calls)


def spans(text: str, wanted: Sequence[str]) -> tuple[Span, ...]:
    """Return a place of each folded word in a text, in order: where it holds them most closely, or
    else the first. Folding may make a
    text longer ("ß" becomes "ss"), so positions are counted back to the characters they came from.
    """
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


_SPACE = r"(?:[\s\x1c-\x1f]|\\[nrt])+"  # what `str.split` takes for space, and JSON's for lines


def finder(text: str) -> regex.Pattern[str]:
    """Return a pattern that finds a text in any case, whatever spaces and line breaks stand between
    its words; also where it is part of the arguments of a call, which are JSON."""
    plain = text.split()
    written = [json.dumps(word, ensure_ascii=False)[1:-1] for word in plain]
    ways = [plain, written] if written != plain else [plain]
    return regex.compile(
        "|".join(_SPACE.join(map(regex.escape, way)) for way in ways),
        regex.IGNORECASE | regex.FULLCASE,
        cache_pattern=False,
    )
