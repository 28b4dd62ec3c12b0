"""Search over the transcript of one conversation, whatever of it is in play."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from peewee import SqliteDatabase

from memory.messages import Message
from memory.record import transcript
from memory.turns import Entry

SEARCHES = frozenset({"memory_search", "context_search"})
"""Tools that return what was said."""


@dataclass(frozen=True, slots=True)
class Span:
    """Where a word stands in a text: from character `start` to before `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Hit:
    """A message with some of the words: what was searched of it, and where they stand, in order."""

    entry: Entry
    text: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The best hits, how many messages hold all of the words, and how many any of them."""

    hits: tuple[Hit, ...]
    whole: int
    partly: int


def search(database: SqliteDatabase, conversation: int, words: Sequence[str], most: int) -> Found:
    """The messages that hold the most of the words, the newest first among equals.

    A word is found anywhere, also within another, and in any case (Unicode's case folding).
    """
    wanted = list(dict.fromkeys(word.casefold() for word in words))
    counts = Counter[int]()

    def scored() -> Iterator[tuple[int, int, Entry]]:
        for entry in transcript.every_entry(database, conversation):
            said = searched(entry.message).casefold()
            if score := sum(word in said for word in wanted):
                counts[score] += 1
                yield score, entry.seq, entry

    best = heapq.nlargest(most, scored())
    hits = tuple(_hit(entry, wanted) for _, _, entry in best)
    return Found(hits, counts[len(wanted)], counts.total())


def searched(message: Message) -> str:
    """All that a message says: its text, and the tools that it calls with their input."""
    calls = (f"{call.name}({call.arguments})" for call in message.tool_calls)
    return "\n".join(filter(None, (message.text, *calls)))


def without_searches(message: Message) -> Message:
    """A message without what searches were asked and found: they repeat what is found anyway."""
    if message.tool in SEARCHES:
        return replace(message, text="")
    calls = tuple(call for call in message.tool_calls if call.name not in SEARCHES)
    return message if calls == message.tool_calls else replace(message, tool_calls=calls)


def _hit(entry: Entry, wanted: Sequence[str]) -> Hit:
    text = searched(entry.message)
    return Hit(entry, text, tuple(spans(text, wanted)))


def spans(text: str, wanted: Sequence[str]) -> list[Span]:
    """Where the first of each folded word stands in a text, in order. Folding may make a text
    longer ("ß" becomes "ss"), so positions are counted back to the characters they came from."""
    folded = text.casefold()
    starts = [folded.find(word) for word in wanted]
    if len(folded) == len(text):
        origin: Sequence[int] = range(len(text))
    else:
        origin = [i for i, letter in enumerate(text) for _ in letter.casefold()]
    found = [
        Span(origin[start], origin[start + len(word) - 1] + 1)
        for start, word in zip(starts, wanted, strict=True)
        if start >= 0
    ]
    return sorted(found, key=lambda span: span.start)
