"""Pairs of values of which a message may replace the first by the second. Pure.

The new one is in the message; the old one is in an earlier message, or is named beside the new one.
Both are values of a kind (`values.py`), or similar words: in Chinese two that end in the same
character (南门, 北门), in other languages two in a sentence that denies one of them ("walnut, not
oak").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, islice

from msgspec import Struct
from msgspec.structs import replace

from memory.corrections.frames import is_framed
from memory.corrections.sentences import content_words, list_cues, split_sentences, without_cues
from memory.patterns import lazy
from memory.text.values import Value, find_values

BACK = 8
"""The number of messages searched for an old value."""
MOST = 60
"""The maximum number of pairs of a message."""
_NEW = 60  # values of a message, and words of it, that may be new
_OLD = 300  # values of earlier messages, and words of them, that may be old
_RANKS = 8  # old values for a new one, besides those that the message names
_NOTED = 4_000  # maximum characters of a message
_SENTENCES = 40  # of a message

_LITTLE = (
    "的了是在叫去到和与跟给住姓用也就还很这那有没不要会能可吗呢吧啊呀哦噢嗯哈唉"
    "我你您他她它们个把被从对改换再请"
)
_OFTEN = lazy(
    "我是说|我[指说]的?是|我的?意思是|原来|明天|今天|昨天|后天|应该|其实|现在|更正|已经|因为|所以|而且|但是|变成|时候|"
    "刚才|什么|怎么|或者|以后|之前|[换改变调移搬][成到为]|还是|可以|[说记打写搞弄看听算]错|不对|抱歉|对不起|不好意思"
)
"""Characters and words of Chinese between the content words."""
_RUN = lazy(rf"(?:(?![{_LITTLE}])[\u3400-\u9fff]){{1,8}}")
_WORD = lazy(r"(?<![\w@./-])[^\W\d_\u3400-\u9fff]{3,24}(?:-[^\W\d_]+)*(?![\w@/-])")
_TOKEN = lazy(r"[^\W\d_\u3400-\u9fff]+(?:'[a-z]+)?|\d+|[\u3400-\u9fff]|[?,:;*!.—–-]")
DENYING = frozenset(
    [
        "not",
        "nicht",
        "sondern",
        "but",
        "instead",
        "rather",
        "statt",
        "anstatt",
        "kein",
        "keine",
        "keinen",
        "never",
        "nie",
        "than",
        "不",
        "非",
        "别",
        "没",
        "而",
        "代",
        "替",
    ]
)
"""Words beside a word that a sentence denies."""


def read_tokens(text: str) -> list[str]:
    """Return the words and punctuation of a text in lower case, with 0 for a number."""
    return ["0" if token.isdigit() else token for token in _TOKEN.findall(text.casefold())]


class ParsedSentence(Struct, frozen=True, dict=True):
    """A sentence, with everything found in it, computed once."""

    text: str

    @cached_property
    def folded(self) -> str:
        return self.text.casefold()

    @cached_property
    def values(self) -> list[Value]:
        return find_values(self.text)

    def replace_by_whole(self, part: Value, whole: Value) -> None:
        """Replace a value by the complete one of which it is a part: 17, by 17 June."""
        self.values[:] = [
            replace(whole, start=one.start, end=one.end) if one is part else one
            for one in self.values
        ]

    @cached_property
    def words(self) -> frozenset[str]:
        return content_words(self.text)

    @cached_property
    def cues(self) -> list[str]:
        return list_cues(self.text)

    @cached_property
    def without_cues(self) -> str:
        return without_cues(self.text)

    @cached_property
    def tokens(self) -> list[str]:
        """The words, with each value replaced by its kind."""
        found, at = [], 0
        for value in self.values:
            found += [*read_tokens(self.text[at : value.start]), f"<{value.kind}>"]
            at = value.end
        return found + read_tokens(self.text[at:])

    @cached_property
    def runs(self) -> list[Value]:
        """Chinese words, as far as the characters beside them delimit them."""
        if self.text.isascii():
            return []
        parted = _OFTEN.sub(lambda found: " " * len(found[0]), self.text)
        return self._unmarked(_RUN, parted)

    @cached_property
    def latin(self) -> list[Value]:
        return self._unmarked(_WORD, self.text)

    def _unmarked(self, pattern: re.Pattern[str], text: str) -> list[Value]:
        taken = [(one.start, one.end) for one in self.values]
        return [
            as_word(self.text, *found.span())
            for found in pattern.finditer(text)
            if not any(start < found.end() and found.start() < end for start, end in taken)
        ]


class ParsedMessage(Struct, frozen=True, dict=True):
    """A message, with everything found in it, computed once; or a reply of the bot."""

    text: str
    is_reply: bool = False

    @cached_property
    def folded(self) -> str:
        return self.text[:_NOTED].casefold()

    @cached_property
    def sentences(self) -> list[ParsedSentence]:
        return [ParsedSentence(one) for one in split_sentences(self.text[:_NOTED])][:_SENTENCES]


class ValuePair(Struct, frozen=True):
    """A new value in a sentence of a message, and an old one in a sentence `back` messages before
    (-1: in none, it is only named beside the new one). `rank` is the number of later old values for
    the same new one."""

    sentence: ParsedSentence
    new: Value
    source: ParsedSentence
    old: Value
    back: int
    rank: int


def is_chinese(text: str) -> bool:
    return "\u3400" <= text[:1] <= "\u9fff"


def as_word(text: str, start: int, end: int) -> Value:
    word = text[start:end]
    return Value("word", word, start, end, frozenset({word.casefold()}))


def find_pairs(said: ParsedMessage, before: Sequence[ParsedMessage]) -> list[ValuePair]:
    """Return the pairs of a message; `before` are the messages before it, newest first."""
    before = before[:BACK]
    values = [*islice(_values(before), _OLD)]
    runs: list[_Said] | None = None
    found: list[ValuePair] = []
    left_values = left_runs = _NEW
    for sentence in said.sentences:
        new_values, new_runs = sentence.values[:left_values], sentence.runs[:left_runs]
        left_values, left_runs = left_values - len(new_values), left_runs - len(new_runs)
        if new_runs and runs is None:
            runs = [*islice(_runs(before), _OLD)]
        words = (_chinese(sentence, new_runs, before, runs or ()), _denied(sentence, before))
        pairs = (_of_values(sentence, new_values, said, values), *_ranked(sentence, *words))
        for pair in chain.from_iterable(pairs):
            found.append(pair)
            if len(found) >= MOST:
                return found
    return found


def find_beside(pair: ValuePair, before: Sequence[ParsedMessage]) -> Iterator[ValuePair]:
    """Yield the pairs beside one whose sentence names all new values and then denies all old ones,
    or the other way round, in the same order: "8:15 from platform 9, not 7:45 from platform 3"."""
    sentence = pair.sentence
    named = [one for one in sentence.values if one.kind == pair.new.kind]
    old = next((one for one in named if one is not pair.new and one.is_same(pair.old)), None)
    if old is None or pair.new not in sentence.values:
        return
    at, there = sentence.values.index(pair.new), sentence.values.index(old)
    size = abs(at - there)
    for start in range(max(0, min(at, there) - size + 1), min(at, there) + 1):
        first = sentence.values[start : start + size]
        second = sentence.values[start + size : start + 2 * size]
        if [one.kind for one in first] != [one.kind for one in second]:
            continue
        between = read_tokens(sentence.text[first[-1].end : second[0].start])
        lead = read_tokens(sentence.text[: first[0].start])[-2:]
        if DENYING.isdisjoint(between if at < there else {*between, *lead}):
            continue
        news, olds = (first, second) if at < there else (second, first)
        for new, ended in zip(news, olds, strict=True):
            if new is not pair.new and not new.is_same(ended):
                said = (one for one in _values(before[:BACK]) if one[2].is_same(ended))
                if place := next(said, None):
                    yield ValuePair(sentence, new, place[1], place[2], place[0], 0)
        return


_Said = tuple[int, ParsedSentence, Value]
"""A value or word of an earlier message: the number of messages back, its sentence, and itself."""


def _values(before: Sequence[ParsedMessage]) -> Iterator[_Said]:
    """Yield the values of earlier messages, the last first."""
    for back, message in enumerate(before):
        for source in reversed(message.sentences):
            yield from ((back, source, old) for old in reversed(source.values))


def _runs(before: Sequence[ParsedMessage]) -> Iterator[_Said]:
    """Yield the Chinese words of earlier messages, the last first."""
    for back, message in enumerate(before):
        for source in reversed(message.sentences):
            yield from ((back, source, old) for old in reversed(source.runs))


def _of_values(
    sentence: ParsedSentence, news: Sequence[Value], said: ParsedMessage, olds: Sequence[_Said]
) -> Iterator[ValuePair]:
    for new in news:
        if new.kind == "name" and sentence.without_cues[new.start : new.end].isspace():
            continue  # "mein Fehler"
        known = set[tuple[str, frozenset[str]]]()
        there = (
            one
            for one in olds
            if _may_be_ended(one[2], new) or _is_named_in_short(one[2], new, sentence)
        )
        for rank, (back, source, old) in enumerate(there):
            if rank < _RANKS or old.text.casefold() in said.folded:
                yield ValuePair(sentence, new, source, old, back, rank if rank < _RANKS else 0)
            known.add((old.kind, old.forms))
        for source in said.sentences:
            for old in source.values:
                if (old.kind, old.forms) in known or not _may_be_named(old, new):
                    continue
                yield ValuePair(sentence, new, source, old, -1, len(known))
                known.add((old.kind, old.forms))


_Words = Iterator[tuple[Value, _Said]]
"""A new word, with an old one of an earlier message."""


def _ranked(sentence: ParsedSentence, *ways: _Words) -> Iterator[Iterator[ValuePair]]:
    """Return the pairs of words, each once, ranked separately for each kind of similarity."""
    known = set[tuple[str, str]]()

    def rank(words: _Words) -> Iterator[ValuePair]:
        count = 0
        for new, (back, source, old) in words:
            if (new.text, old.text) not in known:
                known.add((new.text, old.text))
                yield ValuePair(sentence, new, source, old, back, count)
                count += 1

    return (rank(words) for words in ways)


def _chinese(
    sentence: ParsedSentence,
    news: Sequence[Value],
    before: Sequence[ParsedMessage],
    olds: Sequence[_Said],
) -> _Words:
    for new in news:
        if any(new.text in message.text for message in before):
            continue
        for one in olds:
            if _may_be_for(one[2], one[1].text, new, sentence.text):
                yield new, one


def _may_be_for(old: Value, source: str, new: Value, sentence: str) -> bool:
    """Return whether a Chinese word may replace another: it ends in the same characters, follows
    the same two, or is beside the other one."""
    if len(old.text) > 1 and old.text in sentence:
        return True
    same = count_at_end(new.text, old.text)
    if len(new.text) > 1 and 0 < same < min(len(new.text), len(old.text)):
        return True
    beside = sentence[max(0, new.start - 2) : new.start]
    return len(beside) == 2 and beside == source[max(0, old.start - 2) : old.start]


def _denied(sentence: ParsedSentence, before: Sequence[ParsedMessage]) -> _Words:
    if DENYING.isdisjoint(sentence.tokens):
        return
    words = [one for one in (*sentence.latin, *sentence.runs) if content_words(one.text)]
    said = [(one, _find_word(one, before)) for one in words[:_NEW]]
    news = [one for one, place in said if place is None]
    for old, place in said:
        if place is not None:
            yield from ((new, place) for new in news if _is_denied(sentence.text, old, new))


def _find_word(word: Value, before: Sequence[ParsedMessage]) -> _Said | None:
    """Return the last place where a word was said."""
    wanted = word.text.casefold()
    for back, message in enumerate(before):
        if wanted not in message.folded:
            continue
        for source in reversed(message.sentences):
            at = source.folded.find(wanted)
            if at >= 0 and len(source.folded) == len(source.text):
                return back, source, as_word(source.text, at, at + len(wanted))
    return None


_BETWEEN = 5  # words between two of which one is denied


def _is_denied(text: str, one: Value, other: Value) -> bool:
    first, second = sorted((one, other), key=lambda value: value.start)
    between = read_tokens(text[first.end : second.start])
    beside = {*between, *read_tokens(text[: first.start])[-2:]}
    if len(between) > _BETWEEN or DENYING.isdisjoint(beside):
        return False
    spans = (one.start, one.end), (other.start, other.end)
    return is_chinese(one.text) or is_framed(text, *spans, is_name=True)


def count_at_end(one: str, other: str) -> int:
    """Return the number of equal characters at the end."""
    same = 0
    while same < min(len(one), len(other)) and one[-1 - same] == other[-1 - same]:
        same += 1
    return same


def count_edits(one: str, other: str, most: int = 3) -> int:
    """Return the number of letters to insert, delete or replace; any number above `most` if it is
    more than that."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    above = [*range(len(other) + 1)]
    for row, sign in enumerate(one, 1):
        line = [row]
        for column, there in enumerate(other, 1):
            least = min(above[column] + 1, line[-1] + 1, above[column - 1] + (sign != there))
            line.append(least)
        above = line
    return int(above[-1])


# --- short forms ---------------------------------------------------------------------------------
WHOLE_HOUR = lazy(r"(\d{1,2})(?:[:.]00)?\s?(?:[ap]\.?m\.?|uhr)?|\D{0,2}(\d{1,2})点", re.IGNORECASE)
DATE = lazy(
    r"(?:[^\W\d]+\.?\s(\d{1,2})(?:st|nd|rd|th)?|(\d{1,2})(?:st|nd|rd|th|\.)?\s.+|"
    r"\d+月(\d+)[日号]|(\d{1,2})\.\s?\d{1,2}\.\d{0,4})"
)
_DIGITS = lazy(r"(\d{1,2})(?:st|nd|rd|th|\.|[日号点])?")


def is_short_for(short: Value, whole: Value) -> bool:
    """Return whether a value may be the day of a date or the hour of a time: "not on the 14th"."""
    named = _DIGITS.fullmatch(short.text) if short.kind in ("day", "number") else None
    pattern = {"date": DATE, "time": WHOLE_HOUR}.get(whole.kind) if named else None
    if named is None or pattern is None or (whole.kind == "time" and short.kind == "day"):
        return False
    found = pattern.fullmatch(whole.text)
    return found is not None and int(named[1]) == int(next(filter(None, found.groups())))


def _is_named_in_short(old: Value, new: Value, sentence: ParsedSentence) -> bool:
    """Return whether the sentence names both the old value in short form and the new one."""
    return new.kind in ("day", "number") and any(
        one is not new and one.kind == new.kind and is_short_for(one, old)
        for one in sentence.values
    )


# --- values that may replace each other ----------------------------------------------------------
_SIGN_OF_UNIT = lazy(r"[%$€£¥元]|euro|dollar", re.IGNORECASE)


def _may_be_ended(old: Value, new: Value) -> bool:
    kinds = {old.kind, new.kind}
    is_kind = len(kinds) == 1 or kinds <= {"date", "day"} or _are_house_numbers(old, new)
    if is_short_for(new, old):
        return False
    return is_kind and has_same_unit(old, new) and not old.is_same(new)


def _are_house_numbers(old: Value, new: Value) -> bool:
    """Return whether both may be the number of a house, a platform or a bus, one of which looks
    like a day: 27号, beside the name of a street, and 72号."""
    return old.text[-1:] == new.text[-1:] == "号" and {old.kind, new.kind} == {"day", "number"}


def _may_be_named(old: Value, new: Value) -> bool:
    """Return whether a sentence may name both, by their kinds: "3pm, not 2"."""
    if old is new:
        return False
    if new.kind == "name":
        return False  # not said before: it is one of several
    is_short = {old.kind, new.kind} in ({"number", "time"}, {"number", "day"})
    return _may_be_ended(old, new) or (is_short and has_same_unit(old, new))


def has_same_unit(old: Value, new: Value) -> bool:
    """Return whether both have the same currency, or are in per cent, or one has no unit."""
    signs = (_SIGN_OF_UNIT.search(value.text) for value in (old, new))
    first, second = (sign[0].lower() if sign else "" for sign in signs)
    return not first or not second or first == second
