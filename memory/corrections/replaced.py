"""Sentences that say to which value something changed: "the dose was lowered to 10 mg", "so we're
7", "延到10月17日"; and short messages that say that something changed, and name only the new value:
"Kim can't come, so five", "moved to Thursday", "2 reichen", "推迟到周日了". Pure.

Such a sentence names only the new value. The old one is of the same kind, and of the same thing: a
word, the word behind the number, or the person who speaks is the same.

Such a message has a word of a change, one new value, and nothing about somebody else. The old value
is the only one of its kind in the last exchange, or in the one before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from memory.corrections.bare import BareValue, is_similar
from memory.corrections.frames import BECOMES, CHANGED, ORDERS, SMALL, is_doubtful
from memory.corrections.pairs import ParsedMessage, ParsedSentence, ValuePair
from memory.corrections.sentences import OF_ANYTHING, list_further
from memory.corrections.targets import adjacent_words, part_of
from memory.patterns import lazy
from memory.text.values import Value

_LONGEST, _SENTENCES = 90, 2
_READ = 2_000  # characters of the messages before
_BACK, _EXCHANGE = 4, 2  # messages
_KINDS = frozenset(("number", "time", "date", "day", "weekday", "month", "name", "identifier"))
_CHANGES = lazy(
    r"\b(?:moved|shifted|pushed|postponed|rescheduled|extended|shortened|renamed|changed|switched"
    r"|raised|cut|lowered|upgraded|swapped|bumped|(?:going|gone|went) (?:up|down)"
    r"|on second thoughts?|prefer|instead|since|(?:is|are|it['’]s|we['’]re) now|now (?:at"
    r"|in|on|it['’]s|called)"
    r"|these days|used to|turned|down to|up to|gave us|have until|got until|is enough"
    r"|are enough|(?:will"
    r"|would) do"
    r"|closed|cancelled|can['’]t (?:come|make it)|as i (?:now )?see|after all|in the end"
    r"|(?:the|my|his|her) \w+ (?:says|reads)|(?:tin|box|label|ticket|letter|papers?|invoice"
    r"|mail|email) (?:says?|reads?)"
    r"|i meant|i mean|should be|should have|dropped out|by the way|btw|typo|wrong)\b"
    r"|\b(?:verschoben|verlegt|verlängert|verkürzt|umbenannt|umgezogen|gezogen|gewechselt|geändert"
    r"|gekürzt|erhöht|gesenkt|vorgezogen|also|doch|lieber|inzwischen|mittlerweile|jetzt"
    r"|seit gestern"
    r"|war mal|reich(?:t|en)|genüg(?:t|en)|hat zu|geschlossen|(?:auf|in"
    r"|im) \w+ (?:\w+ )?steh(?:t|en)"
    r"|laut|besser|meinte|(?:haben|habe|hab) bis|geworden|dieses jahr|abgesprungen|abgesagt"
    r"|kommt nicht|übrigens|ab (?:jetzt|nächste\w?|april))\b"
    r"|改[为成到在了名]|变[成为]|换|搬|推迟|提前|延[长期到]|宽限|涨|降|砍|调[到整]|挪|转到|后来|最后[订定选]|现在在|还是"
    r"|够了|就行|就好|算了|应该是|[看查]了|上写|写的?是|说是|我是说|关门|不来了|退了|今年|那是以前",
    re.IGNORECASE,
)
OTHERS = lazy(
    r"^\W{0,3}(?:and|plus|und|auch|dazu|außerdem|另外?|还要|还有|再)\b"
    r"|\b(?:too|also(?! \S{1,12}\W*$)|as well|auch|another|other|next door|nebenan"
    r"|last (?:year|time|week|month)"
    r"|would|could|might|may|maybe|perhaps|if|asks?|asked|their|each|next|back|plus|per|almost|about|like"
    r"|letzte\w? (?:jahr|mal|woche|monat)|damals|vorher|zuvor|davor|wäre?|hätten?|würden?"
    r"|könnten?|(?:he|she|they) meant|vielleicht"
    r"|falls|wenn|fragt|gefragt|andere\w?|nächste\w?|zurück|dazu|noch|davon|of them|minutes"
    r"|minuten)\b"
    r"|[?？\"“”„«»]|另|还要|下一|去年|上次|以前开|隔壁|邻居|同事|如果|要是|吗|大概|可能|其中|再[买订加定]",
    re.IGNORECASE,
)
"""Words of an addition, of another time or thing, or of something unreal."""
_OF_SOMEBODY = lazy(
    r"\b(?:my|his|her|our|their|mein\w{0,2}|sein\w{0,2}|ihr\w{0,2}|unser\w{0,2})\s([^\W\d_]{2,20})"
    r"|^(?:the|die|der|das) (?:[^\W\d_]{2,20} )??([^\W\d_]{2,20}) (?:was|were|is|are"
    r"|has been|wurden?|ist|sind)\b"
    r"|我([爸妈哥姐弟妹老同]\w?)",
    re.IGNORECASE,
)


_BEHIND = lazy(r"[个位条张块]? ?([^\W\d_\u4e00-\u9fff]{2,20}|[\u4e00-\u9fff]{2})")
"""The word behind a number."""
_BEFORE_NAMES = lazy(
    r"\b(?:nach|in|im|zum|zur|de[nmr]|das|die|bei|ins?|to|at|the|on|called|named|is|was|it['’]s|heißt"
    r"|herrn?|frau|mrs?|dr|for|für|mit|with)\.?\s\Z",
    re.IGNORECASE,
)
_SPANS = lazy(r"(?:Wochen?|Jahre?|Tage?|Monate?|Uhr|Stunden?|Minuten?|Mal)", re.IGNORECASE)
"""Words for spans of time, which in German look like names."""


def may_be_replaced(text: str) -> bool:
    """Return whether a message may say that a value changed."""
    return len(text) <= _LONGEST and bool(
        ORDERS.search(text) or (_CHANGES.search(text) and not OTHERS.search(text))
    )


def find_replaced(said: ParsedMessage, before: Sequence[ParsedMessage]) -> Iterator[ValuePair]:
    """Yield the pair of the new value of a message and of the old value that it ends."""
    if not may_be_replaced(said.text) or is_doubtful(said.text):
        return
    near = before[:_BACK]
    if not near or sum(len(one.text) for one in near) > _READ:
        return
    if len(said.sentences) > _SENTENCES or _is_of_somebody(said.text, near):
        return
    known = [one for message in near for part in message.sentences for one in part.values]
    new = [
        (part, one)
        for part in said.sentences
        for one in part.values
        if one.kind in _KINDS
        and (_CHANGES.search(part.text) or ORDERS.search(part.text))
        and _is_of_nothing_new(part.text, one, near)
        and not any(one.is_same(old) for old in known)
    ]
    new = [one for one in new if one[1].kind != "name"] or new
    if len(new) != 1 or _SPANS.fullmatch(new[0][1].text):
        return
    ((sentence, value),) = new
    olds = [*_list_old(sentence, value, near)]
    alike = [one for one in olds if one[1].kind == value.kind]
    about = [one for one in olds if one[0].words & sentence.words]
    for some in (_of_last(olds), _of_last(alike), _echoed(olds), about):
        if some and all(old.is_same(some[0][1]) for _, old, _ in some):
            source, old, back = some[-1]
            yield ValuePair(sentence, value, source, old, back, 0)
            return


_Old = tuple[ParsedSentence, Value, int]


def _list_old(
    sentence: ParsedSentence, new: Value, near: Sequence[ParsedMessage]
) -> Iterator[_Old]:
    one = BareValue(sentence, new, frozenset(), "", True)
    for back, message in enumerate(near):
        for part in message.sentences:
            for old in part.values:
                if old.kind == new.kind == "name":
                    is_like = old.start > 0 or len(part.text) <= old.end + 1
                else:
                    is_like = new.kind != "name" and is_similar(one, old)
                if is_like:
                    yield part, old, back


def _is_of_nothing_new(text: str, new: Value, near: Sequence[ParsedMessage]) -> bool:
    """Return whether a new value is a name within a sentence, or a value that counts nothing which
    the messages before did not mention."""
    if new.kind == "name":
        return bool(_BEFORE_NAMES.search(text[: new.start]) and list_further(new.text))
    behind = _BEHIND.match(text, new.end)
    word = behind[1] if behind else ""
    if not word or not list_further(word):
        return True
    return any(word.casefold() in message.folded for message in near)


def _of_last(olds: Sequence[_Old]) -> Sequence[_Old]:
    """Return the values if all are of the last exchange, or repeated in the one before."""
    backs = {back for *_, back in olds}
    return olds if backs <= {0, 1} or backs == {2, 3} else ()


def _echoed(olds: Sequence[_Old]) -> list[_Old]:
    """Return the values that the last exchange has in both messages."""
    last = [one for one in olds if one[2] == 0]
    return [one for one in olds if one[2] == 1 and any(one[1].is_same(old) for _, old, _ in last)]


def _is_of_somebody(text: str, near: Sequence[ParsedMessage]) -> bool:
    """Return whether a message names somebody or something that no message before it names."""
    return any(
        not any(word.casefold() in message.folded for message in near)
        for found in _OF_SOMEBODY.finditer(text)
        for word in found.groups()
        if word
    )


_BEFORE, _AFTER = 80, 40
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
    before, behind = text[max(0, start - _BEFORE) : start], text[end : end + _AFTER]
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
