"""The summary written without a model: sentences of the turns, chosen by their facts. Pure.

A sentence is chosen for names, numbers and dates that no chosen one has yet, for decisions and
requests, and for being the first of its message. All keep their order, each behind the number of
its turn. They are unchanged, except that corrected values are replaced.
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import sqrt

from msgspec import Struct
from msgspec.structs import replace

from memory.audit.represented_requests import list_tasks
from memory.corrections.corrected import CurrentValues, apply_corrections, correct
from memory.patterns import lazy
from memory.plain_text import beginning
from memory.text.receipt import SourceFacts
from memory.text.request_signs import SHOWN
from memory.text.requests import PersonRequest, Requests, make_request
from memory.text.wording import languages_of, split_sentences
from memory.turns import Turn

_LONGEST = 240  # characters of a sentence
_PRIOR_LONGEST = 600  # characters of a line of the summary so far, which may cover many turns
_SCANNED = 6_000  # characters of a message that are searched, from both ends
_MOST = 4_000  # sentences
_SHORT = 12  # tokens: shorter sentences are not preferred
_SPARE = 4  # tokens that a sentence costs in addition to its words
_LABELS = {"en": ("Open", "Done"), "de": ("Offen", "Erledigt"), "zh": ("未完成", "已完成")}
_DONE_SHOWN, _DONE_LONGEST = 6, 80
_OPEN_LONGEST = (SHOWN, 100, 60, 40)  # characters of an open request, the less room the fewer
_BETWEEN = " · "
_OPEN_LINE, _DONE_LINE = (
    re.compile(rf"^(?:{'|'.join(labels)}): (.+)$", re.MULTILINE)
    for labels in zip(*_LABELS.values(), strict=True)
)
_ONE_OPEN = lazy(r"(?:t(\d{1,9}): )?(.+)")
_DECIDES = lazy(
    r"\b(?:decided?|decision|agreed?|we (?:will|['’]ll)|I['’]ll take|let['’]s|instead|because|must"
    r"|never"
    r"|always|deadline|important|prefer|favou?rite|allerg\w+)\b"
    r"|\b(?:entschieden|entscheid\w+|einig|wir nehmen|ich nehme|weil|statt|immer|nie(?:mals)?"
    r"|wichtig"
    r"|Frist|lieber|allergi\w+|verträgt)\b|决定|決定|必须|必須|一定|因为|就订|就选|不能|重要|过敏",
    re.IGNORECASE,
)


_Place = tuple[int, int, int]


class _Sentence(Struct):
    """A sentence and its place: the turn, the side (0: the person, 1: the reply, -1: the summary so
    far), and its number. `worth` is the weight of the sentence itself; `facts` have a weight
    each."""

    place: _Place
    text: str
    worth: float
    facts: Mapping[str, int]
    tokens: int

    @property
    def cost(self) -> int:
        """The tokens of the sentence, with the text around it."""
        return self.tokens + (1 if self.place[0] < 0 else _SPARE)

    def gain(self, covered: set[str]) -> float:
        new = sum(weight for fact, weight in self.facts.items() if fact not in covered)
        return (self.worth + new) / sqrt(max(self.tokens, _SHORT) + _SPARE)


def extract(
    turns: Sequence[Turn],
    prior: str,
    most: int,
    count: Callable[[str], int],
    facts: SourceFacts,
    requests: Requests,
    held: CurrentValues,
) -> str:
    """Return the summary of turns, and of the summary so far, in at most this many tokens. `held`
    are the values in force after corrections."""
    said = [prior, *(turn.question.text for turn in turns[:20])]
    tail = _list_requests(requests, said, most, count)
    room = most - count(tail)
    found = _find(turns, _DONE_LINE.sub("", _OPEN_LINE.sub("", prior)), facts, held, count)
    chosen = _choose(found, room)
    while chosen:
        lines = "\n".join(_lines(chosen, turns))
        text = "\n\n".join(filter(None, (lines, tail)))  # or the last item would contain the tail
        if (over := count(text) - most) <= 0:
            return text
        least = sorted(chosen, key=lambda one: one.gain(set()))
        dropped = 0
        while least and dropped <= over:
            dropped += least.pop(0).tokens
        chosen = least
    return tail


def open_line(found: Sequence[PersonRequest], texts: Sequence[str]) -> str:
    """Return the line of the open requests, in the language of these texts."""
    label, _ = _labels(texts)
    return f"{label}: {_BETWEEN.join(one.line for one in found)}" if found else ""


def read_open(summary: str) -> list[PersonRequest]:
    """Return the open requests in a summary: in such a line, or in a model's words."""
    rest = _DONE_LINE.sub("", _OPEN_LINE.sub("", summary))
    told = [make_request(0, task) for task in list_tasks(rest, only_headed=True)]
    found = (*told, *_read(_OPEN_LINE.findall(summary)))
    return list({one.text.rstrip("."): one for one in found}.values())


def read_finished(summary: str) -> list[PersonRequest]:
    """Return the finished requests in such a line of a summary."""
    return _read(_DONE_LINE.findall(summary))


def _read(lines: Sequence[str]) -> list[PersonRequest]:
    found = (_ONE_OPEN.fullmatch(one) for line in lines for one in line.split(_BETWEEN))
    return [make_request(int(one[1] or 0), one[2]) for one in found if one]


def _labels(texts: Sequence[str]) -> tuple[str, str]:
    there = languages_of(texts)
    return next(
        (_LABELS[one] for one in ("de", "zh") if one in there and "en" not in there), _LABELS["en"]
    )


def _list_requests(
    requests: Requests, texts: Sequence[str], most: int, count: Callable[[str], int]
) -> str:
    """Return a line of the open requests, and one of the newest finished requests that fit in a
    third of the tokens. Open requests may use all tokens, and are shortened before any is left
    out."""
    _, done = _labels(texts)
    is_open, text = list(requests.open), ""
    while is_open:
        told = (_brief_requests(is_open, texts, chars) for chars in _OPEN_LONGEST)
        if text := next((one for one in told if count(one) <= most), ""):
            break
        is_open.pop(0)
    finished = [beginning(one.line, _DONE_LONGEST) for one in requests.finished][-_DONE_SHOWN:]
    while finished:
        both = "\n".join(filter(None, (text, f"{done}: {_BETWEEN.join(finished)}")))
        if count(both) <= most // 3:
            return both
        finished.pop(0)
    return text


def _brief_requests(found: Sequence[PersonRequest], texts: Sequence[str], chars: int) -> str:
    """Return the line of the open requests, each in at most this many characters."""
    return open_line([replace(one, text=beginning(one.text, chars)) for one in found], texts)


def _find(
    turns: Sequence[Turn],
    prior: str,
    facts: SourceFacts,
    held: CurrentValues,
    count: Callable[[str], int],
) -> list[_Sentence]:
    found: list[_Sentence] = []
    for place, text, worth in _candidates(turns, prior):
        right = correct(text, held.plain) or apply_corrections(text, held.ended)
        if right and len(found) < _MOST:
            worth += 2 * bool(_DECIDES.search(right))
            found.append(_Sentence(place, right, worth, facts.weigh_facts(right), count(right)))
    return found


def _candidates(
    turns: Sequence[Turn], prior: str
) -> Iterator[tuple[tuple[int, int, int], str, float]]:
    for number, line in enumerate(filter(str.strip, prior.splitlines())):
        known = len(SourceFacts([line], [], []).facts)
        yield (-1, -1, number), beginning(line, _PRIOR_LONGEST), 6.0 + 3.0 * known
    for number, turn in enumerate(turns):
        reply = turn.reply.text if turn.reply else ""
        for side, text, first in ((0, turn.question.text, 3.0), (1, reply, 1.0)):
            whole = " ".join(text[:_LONGEST].split())
            if len(text) <= _LONGEST and whole:
                yield (number, side, 0), whole, first
                continue
            half = _SCANNED // 2
            looked = text if len(text) <= _SCANNED else f"{text[:half]}\n{text[-half:]}"
            for at, sentence in enumerate(split_sentences(looked)):
                worth = 0.5 if at else first
                yield (number, side, at), beginning(sentence, _LONGEST), worth


def _choose(found: Sequence[_Sentence], room: int) -> list[_Sentence]:
    """Return the sentences with the most information in this many tokens; a repeated fact counts
    once."""
    covered: set[str] = set()
    chosen: list[_Sentence] = []
    heap = [(-one.gain(covered), number) for number, one in enumerate(found)]
    heapq.heapify(heap)
    while heap:
        said, number = heapq.heappop(heap)
        one = found[number]
        if one.cost > room:
            continue
        now = -one.gain(covered)
        if now > said and heap and now > heap[0][0]:
            heapq.heappush(heap, (now, number))
            continue
        chosen.append(one)
        covered.update(one.facts)
        room -= one.cost
    return chosen


def _lines(chosen: Sequence[_Sentence], turns: Sequence[Turn]) -> Iterator[str]:
    """Yield the summary so far, and a line for each turn: "- t5: question → [tools] reply"."""
    placed = sorted(chosen, key=lambda one: one.place)
    yield from (one.text for one in placed if one.place[0] < 0)
    by_part = defaultdict[tuple[int, int], list[_Sentence]](list)
    for one in placed:
        by_part[one.place[:2]].append(one)
    for number, turn in enumerate(turns):
        asked, told = (_together(by_part[number, side]) for side in (0, 1))
        calls = [call.name for entry in turn.entries for call in entry.message.tool_calls]
        used = f"[{', '.join(dict.fromkeys(calls))}]" if calls else ""
        if asked or told:
            yield " ".join(filter(None, (f"- {turn.id}:", asked, "→", used, told))).rstrip(" →")


def _together(some: Sequence[_Sentence]) -> str:
    """Return sentences of a message, with an ellipsis where some are left out."""
    parts: list[str] = []
    for before, one in zip((None, *some), some, strict=False):
        is_next = before is None or one.place[2] == before.place[2] + 1
        parts.append(one.text if is_next else f"… {one.text}")
    return " ".join(parts)
