"""Passages of a transcript: messages side by side, found by words, by place or by turn.

What flo.monster's `context_search` gives its model. Messages are numbered from 1 over all that may
be found, so that a passage can say where it stands: "messages 14-18 of 42". What searches have
found is not among them: it would be found again, each time with all that was found before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import regex
from peewee import SqliteDatabase

from memory.context.change import NOTHING_AWAY, TakenAway
from memory.messages import Message
from memory.record import transcript
from memory.record.search import SEARCHES, without_searches
from memory.turns import Entry

MOST = 100
"""Messages that are found at most."""


@dataclass(frozen=True, slots=True)
class Words:
    """The messages that hold this text in any case, each with its neighbours."""

    text: str
    before: int = 2
    after: int = 2


@dataclass(frozen=True, slots=True)
class Tail:
    """The newest messages."""

    last: int = 10


@dataclass(frozen=True, slots=True)
class Head:
    """The first messages."""

    first: int = 10


@dataclass(frozen=True, slots=True)
class Around:
    """All messages of a turn, and of so many turns before and after it."""

    turn: int
    before: int = 0
    after: int = 0


Wanted = Words | Tail | Head | Around


@dataclass(frozen=True, slots=True)
class Scope:
    """What may not be found: the running turn (0: none), and what a person took away."""

    running: int = 0
    away: TakenAway = NOTHING_AWAY


@dataclass(frozen=True, slots=True)
class Passage:
    """Entries that follow one another; `first` is the number of the first of them."""

    first: int
    entries: tuple[Entry, ...]

    @property
    def last(self) -> int:
        return self.first + len(self.entries) - 1


@dataclass(frozen=True, slots=True)
class Passages:
    """What was found, oldest first, of `total` messages; `left_out` counts those that were wanted
    too, and would have been too many."""

    parts: tuple[Passage, ...]
    total: int
    left_out: int = 0


def find(database: SqliteDatabase, conversation: int, scope: Scope, wanted: Wanted) -> Passages:
    """What is wanted of a conversation, within what may be found."""
    places = _open_to(scope, transcript.places(database, conversation))
    found_before = transcript.results_of(database, conversation, SEARCHES)
    places = [place for place in places if place[0] not in found_before]
    if isinstance(wanted, Words):
        seqs = _seqs_with(database, conversation, wanted.text)
        hits = [number for number, (seq, _) in enumerate(places, 1) if seq in seqs]
        numbers = spread(hits[-MOST:], wanted.before, wanted.after, len(places))[-MOST:]
        left_out = sum(number < numbers[0] for number in hits) if hits else 0
    else:
        chosen = _chosen(wanted, [turn for _, turn in places])
        numbers, left_out = chosen[:MOST], len(chosen[MOST:])
    entries = transcript.entries_at(database, conversation, (places[n - 1][0] for n in numbers))
    return Passages(_side_by_side(numbers, entries), len(places), left_out)


def _chosen(wanted: Tail | Head | Around, turns: Sequence[int]) -> list[int]:
    """The numbers of the messages wanted; `turns` has each message's turn."""
    total = len(turns)
    match wanted:
        case Tail():
            return list(range(max(1, total - wanted.last + 1), total + 1))
        case Head():
            return list(range(1, min(total, wanted.first) + 1))
        case Around():
            near = range(wanted.turn - wanted.before, wanted.turn + wanted.after + 1)
            return [number for number, turn in enumerate(turns, 1) if turn in near]


def _open_to(scope: Scope, places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """(seq, turn) of what may be found, in order."""
    away = scope.away
    return [one for one in places if not away.has(*one) and one[1] != scope.running]


def _seqs_with(database: SqliteDatabase, conversation: int, text: str) -> frozenset[int]:
    wanted = finder(text)
    entries = transcript.every_entry(database, conversation)
    said = ((entry.seq, told(without_searches(entry.message))) for entry in entries)
    return frozenset(seq for seq, text in said if wanted.search(text))


def finder(text: str) -> regex.Pattern[str]:
    """Finds a text in any case, whatever spaces and line breaks stand between its words."""
    words = filter(None, regex.split(r"\s+", text))
    text = r"\s+".join(map(regex.escape, words))
    return regex.compile(text, regex.IGNORECASE | regex.FULLCASE, cache_pattern=False)


def told(message: Message) -> str:
    """All that a message says: whose it is, its text, and the tools that it calls."""
    whose = f"result of {message.tool}" if message.tool else message.speaker
    calls = (f"[tool: {call.name}({call.arguments})]" for call in message.tool_calls)
    return " ".join(filter(None, (whose and f"{whose}:", message.text.strip(), *calls)))


def spread(numbers: Iterable[int], before: int, after: int, total: int) -> list[int]:
    """These numbers and their neighbours within 1 to `total`, each once, in order."""
    windows = (range(max(1, n - before), min(total, n + after) + 1) for n in numbers)
    return sorted({number for window in windows for number in window})


def _side_by_side(numbers: Sequence[int], entries: Sequence[Entry]) -> tuple[Passage, ...]:
    """Numbered entries, in order, as passages; those that follow one another make one."""
    passages: list[Passage] = []
    for number, entry in zip(numbers, entries, strict=True):
        if passages and passages[-1].last + 1 == number:
            joined = passages.pop()
            passages.append(Passage(joined.first, (*joined.entries, entry)))
        else:
            passages.append(Passage(number, (entry,)))
    return tuple(passages)
