"""Messages that are little more than a new value: "13 June. She'd kill me.", "nope, Priya",
"oh wait it's the 9th", "不对，红茶"; and messages that correct one digit of a number: "the 2nd
digit is 7", "最后一位是9". Pure.

The old value is of the same kind, and the only such value of the last exchange. Without a cue, the
reply must have repeated it, ask nothing, and the message begin with the new value alone. Words that
are values of no kind replace what statement and reply have in common ("Noted, cashews.").

A number of which one digit is corrected is the latest one with enough digits, if no other one is
equally near.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from memory.corrections.bare import FAR as _FAR
from memory.corrections.bare import BareValue, measure
from memory.corrections.classes import as_plain
from memory.corrections.doubts import is_doubted
from memory.corrections.frames import is_doubtful
from memory.corrections.pairs import ParsedMessage, ParsedSentence, ValuePair
from memory.corrections.replaced import OTHERS
from memory.corrections.sentences import has_cue, list_further, list_words, without_cues
from memory.corrections.targets import is_of_another
from memory.patterns import lazy
from memory.text.values import Value
from memory.text.wording import is_wide

_LONGEST, _SENTENCES = 120, 3
_READ = 600  # characters of each message before
_EXCHANGE, _BACK = 2, 4  # messages
_WORDS = 2  # of a value of no kind
_REPLY = 6  # words of a reply that repeats one
_KINDS = frozenset(
    ("number", "time", "date", "day", "weekday", "month", "name", "identifier", "path")
)
_PARTS = lazy(r"[,;:，、；：–—!.。！？?…]\s?|\s-\s")
_ASKS = lazy(r"[?？]|[吗呢]\s*$")
_WORD = lazy(r"[^\W\d_\u3400-\u9fff]{3,24}|[\u3400-\u9fff]{1,6}")
_ACK = lazy(
    r"\b(?:ok(?:ay)?|alles|noted|saved|got it|great|sure|alles klar|notiert|gespeichert|gut"
    r"|all right|right)\b|收到|好的?|"
    r"记[下住]了?|知道了|明白",
    re.IGNORECASE,
)
_AT_END = lazy(
    r"\b(?:is|are|in|at|on|to|with|called|ist|sind|im|am|an|heißt)\s(?:the |an? |de[rnm] "
    r"|die |das |frau |herr )?"
    r"([^\W\d_]{3,24})[.!]?$|[在叫是姓到住喝吃用找选去养]([\u3400-\u9fff]{1,4})[。！]?$",
    re.IGNORECASE,
)
"""The end of a statement that is its value."""


def may_be_elliptic(text: str) -> bool:
    """Return whether a message is short, asks nothing, and adds nothing."""
    return len(text) <= _LONGEST and not _ASKS.search(text) and not OTHERS.search(text)


def find_elliptic(said: ParsedMessage, before: Sequence[ParsedMessage]) -> Iterator[ValuePair]:
    """Yield the pair of the only value of a message and of the old value that it ends; `before` are
    the messages before it, newest first."""
    near = before[:_BACK]
    if not near or not may_be_elliptic(said.text) or is_doubtful(said.text):
        return
    if len(said.sentences) > _SENTENCES or any(len(one.text) > _READ for one in near):
        return
    values = [(part, one) for part in said.sentences for one in part.values if one.kind in _KINDS]
    values = [one for one in values if list_further(one[1].text) or one[1].kind != "name"]
    if not values:
        yield from _find_plain(said, near)
        return
    sentence, new = values[0]
    if any(one.kind == new.kind for _, one in values[1:]) or _is_known(new, near):
        return
    is_cued = has_cue(said.text)
    if not is_cued and (
        sentence is not said.sentences[0] or near[0].text.rstrip().endswith(("?", "？"))
    ):
        return
    start, end = _part_of(sentence.text, new)
    head = sentence.text[:start]
    rest = list_further(sentence.text[start : new.start] + " " + sentence.text[new.end : end])
    if list_further(head) or (not is_cued and (rest or new.kind == "name")):
        return
    if found := _find_old(BareValue(sentence, new, frozenset(), "", True), near, is_cued):
        source, old, back = found
        pair = ValuePair(sentence, new, source, old, back, 0)
        is_of_it = set(rest) <= set(list_words(source.text)) and not is_of_another(pair)
        if is_of_it and not is_doubted(pair, said, before):
            yield pair


def _is_known(new: Value, near: Sequence[ParsedMessage]) -> bool:
    return any(
        one.is_same(new) for message in near for part in message.sentences for one in part.values
    )


def _part_of(text: str, value: Value) -> tuple[int, int]:
    """Return the start and end of the clause of a value."""
    start = max((one.end() for one in _PARTS.finditer(text, 0, value.start)), default=0)
    end = _PARTS.search(text, value.end)
    return start, end.start() if end else len(text)


def _find_old(
    new: BareValue, near: Sequence[ParsedMessage], is_cued: bool
) -> tuple[ParsedSentence, Value, int] | None:
    """Return the only value of the kind in the last exchange that has any: the one in both of its
    messages, if there is one, and no other value before is more alike."""
    olds = [
        [
            (source, old, back)
            for source in message.sentences
            for old in source.values
            if old.kind == new.new.kind and _may_end(new, old)
        ]
        for back, message in enumerate(near)
    ]
    if not is_cued and not (olds[0] and len(olds) > 1 and olds[1]):
        return None
    for at in range(0, len(olds), _EXCHANGE):
        reply, told = ([*olds[at : at + _EXCHANGE], []])[:2]
        both = [one for one in told if any(one[1].is_same(old) for _, old, _ in reply)]
        if some := both or [*reply, *told]:
            likes = [_unlikeness(new, old) for there in olds for _, old, _ in there]
            is_likest = _unlikeness(new, some[0][1]) <= min(likes)
            is_only = all(one[1].is_same(some[0][1]) for one in some)
            return some[-1] if is_only and is_likest else None
    return None


_FREE = frozenset(("name", "path", "identifier"))
"""Kinds of which any value may replace any other."""


def _may_end(new: BareValue, old: Value) -> bool:
    if old.kind == "name":
        return not _ACK.search(old.text) and bool(list_further(old.text))
    return old.kind in _FREE or measure(new, old) is not None


def _unlikeness(new: BareValue, old: Value) -> int:
    unlike = measure(new, old)
    return _FAR if unlike is None else unlike


def _find_plain(said: ParsedMessage, near: Sequence[ParsedMessage]) -> Iterator[ValuePair]:
    """Yield the pair of a word that is a value of no kind, and of what the last statement and its
    reply have in common."""
    if len(near) < _EXCHANGE or not has_cue(said.text):
        return
    sentence = said.sentences[0] if said.sentences else None
    reply, told = near[0], near[1]
    if sentence is None or len(list_words(reply.text)) > _REPLY or _ASKS.search(reply.text):
        return
    known = {*list_words(told.text), *list_words(reply.text)}
    for part in filter(list_further, _PARTS.split(without_cues(said.text))):
        if words := [one for one in list_further(part) if one not in known]:
            break
    else:
        return
    joined = ("" if is_wide(words[0]) else " ").join(words)
    if len(words) > _WORDS * (1 + is_wide(words[0])) or len(list_further(part)) > len(words):
        return
    for there in said.sentences:
        at = there.folded.find(joined)
        if at >= 0 and (old := _find_common(told, reply)):
            source, start, end = old
            new = as_plain(there.text, at, at + len(joined))
            yield ValuePair(there, new, source, as_plain(source.text, start, end), 1, 0)
            return


def _find_common(
    told: ParsedMessage, reply: ParsedMessage
) -> tuple[ParsedSentence, int, int] | None:
    """Return the place of the only words of a statement that its reply repeats."""
    text = _ACK.sub(" ", reply.text)
    words = [one[0] for one in _WORD.finditer(text) if list_further(one[0])]
    if not words and told.sentences:
        found = _AT_END.search(told.sentences[-1].text)
        return (told.sentences[-1], *found.span(found.lastindex or 0)) if found else None
    if not 0 < len(words) <= _WORDS:
        return None
    for source in told.sentences:
        at = source.folded.find(words[0].casefold())
        end = source.folded.find(words[-1].casefold(), max(at, 0)) + len(words[-1])
        if at >= 0 and end - at <= len(" ".join(words)) + 1:
            return source, at, end
    return None


_LEAST, _FROM_END = 3, 3  # digits of a number, and earlier messages that may have it
_ORDINALS = {
    word: place
    for place, words in enumerate(
        (
            "first 1st erste 第一",
            "second 2nd zweite 第二",
            "third 3rd dritte 第三",
            "fourth 4th vierte 第四",
            "fifth 5th fünfte 第五",
            "sixth 6th sechste 第六",
        )
    )
    for word in words.split()
} | dict.fromkeys(("last", "final", "letzte", "最后", "末尾", "最后一"), -1)
_DIGIT = lazy(
    r"\b(first|second|third|fourth|fifth|sixth|last|final|[1-6](?:st|nd|rd|th))\s(?:digit|number|figure)\s"
    r"(?:is|should be|must be|was|has to be)\s(?:an?\s)?(\d)\b(?!\d)"
    r"|\b(erste|zweite|dritte|vierte|fünfte|sechste|letzte)\s(?:ziffer|zahl|stelle)\s"
    r"(?:ist|muss|soll(?:te)?|war)\s(?:eine\s)?(\d)\b"
    r"|(第[一二三四五六]|最后一?|末尾)[位个](?:数字?|号码)?(?:应该?)?是(\d)(?!\d)",
    re.IGNORECASE,
)


def find_digits(said: ParsedMessage, before: Sequence[ParsedMessage]) -> Iterator[ValuePair]:
    """Yield the number that a message corrects by one digit, with the old one; `before` are the
    messages before it, newest first."""
    for sentence in said.sentences:
        found = _DIGIT.search(sentence.text)
        if found is None or is_doubtful(sentence.text):
            continue
        ordinal, digit = (group for group in found.groups() if group)
        place = _ORDINALS[ordinal.casefold()]
        for back, message in enumerate(before[:_FROM_END]):
            olds = [*_list_numbers(message, place)]
            if olds and all(old.is_same(olds[0][1]) for _source, old in olds):
                source, old = olds[0]
                if new := _with_digit(old, place, digit):
                    start, end = found.span()
                    yield ValuePair(
                        sentence, replace(new, start=start, end=end), source, old, back, 0
                    )
            if olds:
                break


def _list_numbers(message: ParsedMessage, place: int) -> Iterator[tuple[ParsedSentence, Value]]:
    for source in message.sentences:
        for value in source.values:
            count = sum(map(str.isdigit, value.text))
            if value.kind in ("number", "identifier") and count >= max(_LEAST, place + 1):
                yield source, value


def _with_digit(old: Value, place: int, digit: str) -> Value | None:
    """Return a value with another digit at a position; None if it is the same."""
    at = [index for index, sign in enumerate(old.text) if sign.isdigit()][place]
    if old.text[at] == digit:
        return None
    text = old.text[:at] + digit + old.text[at + 1 :]
    return replace(old, text=text, forms=frozenset({text.casefold()}))
