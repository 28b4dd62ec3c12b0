"""Sentences that say to which value something changed: "the dose was lowered to 10 mg", "so we're
7", "延到10月17日". Pure.

They name only the new value. The old one is of the same kind, and of the same thing: a word, the
word behind the number, or the person who speaks is the same.
"""

from __future__ import annotations

import re
from functools import lru_cache

from memory.corrections.frames import BECOMES, CHANGED, SMALL, is_doubtful
from memory.corrections.pairs import ValuePair
from memory.corrections.sentences import OF_ANYTHING
from memory.corrections.subjects import part_of
from memory.corrections.targets import adjacent_words
from memory.patterns import lazy
from memory.text.values import Value

_BEFORE, _BEHIND = 80, 40
"""The numbers of characters that are checked."""
_TO = r"(?:to|into|till|until|up to|down to|auf|zum?|zur|nach|bis)"
_WORDS = r"(?:[^\s,.;:!?，。；：！？]{1,20}\s)"
_CHANGED_TO = lazy(
    rf"{CHANGED}\s{_WORDS}{{0,4}}?{_TO}\s{SMALL}$"
    rf"|{BECOMES}$"
    r"|\b(?:so|now|that (?:makes|leaves)|which (?:makes|leaves)|also|jetzt|nun|somit|damit|macht)\s"
    r"(?:(?:it['’]s|it is|we['’]re|we are|i['’]m|there are|us|that['’]s|sind|"
    r"ist|bin|es|wir|ich|das)\s){0,2}(?:(?:only|just|down to|up to|nur|noch|schon|erst)\s){0,2}$"
    r"|\b(?:nur noch|only|just)\s$"
    r"|(?:只剩|还剩|就剩|剩下|变成|一共|总共)[了下有是]?$",
    re.IGNORECASE,
)
_TO_BEFORE_VERB = lazy(rf"\b(?:auf|zum?|zur|nach|bis|in)\s{SMALL}$", re.IGNORECASE)
_VERB_BEHIND = lazy(rf"(?:\s?[^\s\d,.;:!?]{{1,16}})?\s{_WORDS}{{0,2}}?{CHANGED}", re.IGNORECASE)
_SPEAKER = lazy(r"\b(?:i|we|ich|wir)\b", re.IGNORECASE)
_LONG = 7
"""The digits from which on a number is one of a phone or an account."""
_NEW_ONE = lazy(
    r"\b(?:old|previous|former|alten?|bisherigen?)\s(?:one|number|phone|e?-?mail|address|account|"
    r"nummer|handynummer|adresse|mail\w*|konto)\b"
    r"|\b(?:ha(?:ve|s|ben?|t)|got)\s(?:an?\s|eine?\s)?(?:new|neue[sn]?)\s[^\W\d_]{3,16}\b"
    r"|[旧老](?:的|号码?|地址|邮箱|电话)|换了?(?:新)?(?:号码?|邮箱|电话)",
    re.IGNORECASE,
)
"""Words that say that a thing is in place of an older one."""
_UNIT = lazy(r"\s?(?!(?:and|und|but|aber|or|oder|nicht|not)\b)([^\W\d_]{1,12})", re.IGNORECASE)
_COUNTED = lazy(r"[\u4e00-\u9fff]{1,2}")


def is_changed_to(pair: ValuePair) -> bool:
    """Return whether the sentence of a pair says that its thing changed to the new value."""
    new, sentence = pair.new, pair.sentence
    if pair.back < 0:
        return False
    if not _is_stated(sentence.text, new.start, new.end):
        return _is_of_one_holder(pair) and bool(_NEW_ONE.search(sentence.text))
    start, end = part_of(sentence.text, new)
    values = (one for one in sentence.values if one is not new and one.kind == new.kind)
    if any(start <= one.start < end and not one.is_same(pair.old) for one in values):
        return False
    if new.kind in ("name", "word"):
        return bool(_shared(pair) & adjacent_words(sentence.text, new))
    return _has_same_unit(pair) or bool(_shared(pair)) or _has_same_speaker(pair)


def _is_of_one_holder(pair: ValuePair) -> bool:
    """Return whether a value is one of which a person mostly has one: an address, a phone
    number."""
    if pair.new.kind == pair.old.kind == "number":
        return all(sum(map(str.isdigit, one.text)) >= _LONG for one in (pair.old, pair.new))
    return pair.new.kind == pair.old.kind and pair.new.kind in ("address", "identifier")


@lru_cache(maxsize=256)  # a value is checked with each of its old ones
def _is_stated(text: str, start: int, end: int) -> bool:
    before, behind = text[max(0, start - _BEFORE) : start], text[end : end + _BEHIND]
    is_told = _CHANGED_TO.search(before) or (
        _TO_BEFORE_VERB.search(before) and _VERB_BEHIND.match(behind)
    )
    return bool(is_told) and not is_doubtful(text)


def _shared(pair: ValuePair) -> frozenset[str]:
    own = adjacent_words(pair.source.text, pair.old)
    return (own & pair.sentence.words) - OF_ANYTHING


def _has_same_unit(pair: ValuePair) -> bool:
    """Return whether the same word is behind both numbers: 20 mg, and 10 mg."""
    if pair.new.kind != "number":
        return False
    one, other = _unit(pair.sentence.text, pair.new), _unit(pair.source.text, pair.old)
    return bool(one) and one == other


def _unit(text: str, value: Value) -> str:
    if value.text[-1:] > "\u3400":
        return value.text.lstrip("0123456789.,一二三四五六七八九十百千万两零 ")
    found = _COUNTED.match(text, value.end) or _UNIT.match(text, value.end)
    return found[found.lastindex or 0].casefold() if found else ""


def _has_same_speaker(pair: ValuePair) -> bool:
    """Return whether both sentences say a bare number of the person who speaks."""
    if _unit(pair.sentence.text, pair.new):
        return False
    texts = (pair.sentence.text, pair.source.text)
    return all(_SPEAKER.search(text) for text in texts)
