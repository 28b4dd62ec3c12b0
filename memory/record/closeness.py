"""The text of a message, as searches read it, and the places of words in it; and the closeness of a
text to the words of a search: whole words before parts of words, and consecutive words before
scattered ones.

A word is whole if no letter or digit adjoins it. A number, a date or a code continues across a
joining sign: "12" is a part of "2012", "3.12", "2026-12-01" and "A-12", while "mail" is whole in
"e-mail". Chinese, Japanese, Thai and similar languages do not separate words: there, every match is
whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

import regex
from msgspec.structs import replace

from memory.messages import SEARCHES, Message, ToolCall
from memory.patterns import lazy
from memory.plain_text import UNSPACED, unescape

_JOINS = ".,:/-–'’_"
"""Signs that join the parts of a number."""
_QUOTES = '"“”„«»「」『』'
_WANTED = lazy(rf"(?<!\w)[{_QUOTES}]([^{_QUOTES}]*\w[^{_QUOTES}]*)[{_QUOTES}](?!\w)|\S+")
_UNSPACED = lazy(f"[{UNSPACED}]")
_SPACED = rf"[^\W{UNSPACED}]"
"""A letter or digit of a language that separates words."""
_GAP = 3  # the maximum of signs and blanks between two consecutive words
_MOST = 1_000  # the maximum of matches of a word that are checked in a text
MOST_WORDS = 16
"""The maximum of search words by which a text is measured."""


class MatchScore(NamedTuple):
    """A measure of closeness: greater is closer. `held` counts the distinct words found in a text,
    each once more if it is found whole; `run` is the longest run of words in the order of the
    search."""

    held: int = 0
    run: int = 0
    whole: int = 0


NOWHERE = MatchScore()


def measure(text: str, wanted: Sequence[str]) -> tuple[MatchScore, int]:
    """Return how closely a folded text matches these folded words, and the position of the best
    match (0 without a match)."""
    held = whole = 0
    best, at = 0, 0
    before: dict[int, tuple[int, int]] = {}
    known: dict[str, tuple[list[int], int]] = {}
    for word in wanted:
        if word not in known:
            known[word] = places, first = _find(text, word)
            held += first >= 0
            whole += bool(places)
        places, first = known[word]
        if first >= 0 and not best:
            best, at = (1, places[0]) if places else (0, at or first)
        ends: dict[int, tuple[int, int]] = {}
        for start in places:
            length, begin = _follow(text, start, before)
            ends[start + len(word)] = length + 1, begin
            if length + 1 > best:
                best, at = length + 1, begin
        before = ends
    return MatchScore(held + whole, best, whole), at


def closeness(text: str, wanted: Sequence[str]) -> MatchScore:
    """Return how closely a folded text matches these folded words."""
    return measure(text, wanted)[0]


def split_wanted(text: str) -> list[str]:
    """Split a search into words and quoted phrases. An unpaired quotation mark at the edge of a
    word is not part of it."""
    found = [" ".join((one[1] or one[0]).split()) for one in _WANTED.finditer(text)]
    return [word for one in found if (word := one.strip(_QUOTES))] or found


def fold(words: str) -> list[str]:
    """Return the folded words of a search, at most `MOST_WORDS`."""
    return [word.casefold() for word in split_wanted(words)[:MOST_WORDS]]


def _find(text: str, word: str) -> tuple[list[int], int]:
    """Return the positions where a word is whole, and its first position of any kind (-1: none)."""
    found = (one.start() for one in _whole(word).finditer(text))
    ends = len(word) - 1
    places = [
        start
        for start in islice(found, _MOST)
        if not (_number_continues(text, start, -1) or _number_continues(text, start + ends, 1))
    ]
    return places, text.find(word)


@lru_cache(maxsize=128)
def _whole(word: str) -> re.Pattern[str]:
    """Return a pattern for the occurrences of a word that no letter or digit adjoins."""
    before, after = (
        around if _is_of_word(edge) and not _UNSPACED.match(edge) else ""
        for edge, around in ((word[0], f"(?<!{_SPACED})"), (word[-1], f"(?!{_SPACED})"))
    )
    return re.compile(f"{before}(?={re.escape(word)}{after})")


def _is_of_word(sign: str) -> bool:
    return sign.isalnum() or sign == "_"


def _number_continues(text: str, edge: int, step: int) -> bool:
    """Return whether a number continues across a joining sign, beyond the first or last character
    of a word, which is at `edge`."""
    near, far, last = _at(text, edge + step), _at(text, edge + 2 * step), text[edge]
    is_over = near in _JOINS and far.isalnum() and (last.isdigit() or far.isdigit())
    return is_over and _is_of_word(last) and near != "_"


def _at(text: str, place: int) -> str:
    return text[place] if 0 <= place < len(text) else " "


def _follow(text: str, start: int, ends: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Return the number of consecutive words that end right before this position, with only signs
    and blanks between, and the start of the first."""
    for place in range(start, max(-1, start - _GAP - 1), -1):
        if place in ends:
            return ends[place]
        if place == 0 or text[place - 1].isalnum():
            break
    return 0, start


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
