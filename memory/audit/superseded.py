"""Values that were replaced in a conversation, and must not be in a summary. Pure.

A correction changes texts, so its detection is strict (`finder.py`). Less is needed to reject
a summary: a turn mentions a change, and has a new value; an earlier message has one of the same
kind, about the same topic; and the summary has the old value, and the new one nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from functools import lru_cache

from msgspec import Struct

from memory.patterns import lazy
from memory.text.names import MONTH_OF
from memory.text.shapes import mentions_past
from memory.text.values import Value, find_values
from memory.text.wording import WordIndex, cue, is_wide, split_sentences, stems

_MOST_CHANGES = 16  # turns that mention a change: the newest
_MOST_ALIKE = 8  # earlier messages that are searched for the replaced value
_LOOKED_AT = 1_000  # characters of a message, and of a reply, that are checked
_FIRST = 160  # characters of a reply that may repeat the current value
_LIKE = 4  # the most by which a number may become larger or smaller, as a factor
_WORD = 5  # letters of a word that may be part of a longer one
_BEGIN = 7  # characters at the beginning that two addresses or identifiers of one kind share
_FEW = 3  # sentences of a message that are about one thing
_KINDS = frozenset(("number", "date", "time", "weekday", "identifier", "day", "url"))
CHANGES = cue(
    "chan move movi upda corr swit rebo resc post inst long more anym scra wron mist mixe misr miss"
    " misc agai than actu turn turns all rais lowe up old geän ände vers verl schi umge umbu beri"
    " korr stat fals vert verw stim nich mehr nach nur erst scho alt erhö gese irrt geir",
    "改 更 错 混 换成 调整 推迟 提前 挪 延 不是 变 涨到 降到 加到 减到 取消",
    lazy(
        r"\b(?:chang\w+|moved?|moving|updat\w+|correct(?:ed|ion)|switch\w*|rebook\w*|resched\w*"
        r"|postpon\w*|instead|no longer|not any ?more|scrap|wrong|mistake\w*|mixed up"
        r"|mis(?:read|sed|remember\w*|counted)|count again|rather than|actually|turns? out"
        r"|after all|raised?|lowered|go up to|old (?:price|number|one|date))\b"
        r"|\b(?:geändert|änder\w*|verschob\w*|verschieb\w*|verleg\w*|schieben|umgebucht"
        r"|umbuch\w*|berichtigt|korrigiert|korrektur|statt(?!\s*[.,;!?]|\s*$)|stattdessen|falsch|vertan|verwechselt"
        r"|verlesen|vertippt|stimmt (?:so )?nicht|nicht mehr|nachgezählt|doch (?:nur|erst"
        r"|schon)|erst (?:am|um|ab|im|nach)"
        r"|angerufen|ach so|called (?:me|us)|oh,? (?:wait|and|it)"
        r"|doch nicht|(?:war|ist) (?:noch )?alt|erhöh\w*|gesenkt|irrtum|geirrt)\b"
        r"|改[为成到在]|已改|更正|记错|记混|搞错|弄错|说错|看错|错了|换成|调整|推迟|提前|挪|延[到后期]"
        r"|不是|变成|变更|涨到|降到|加到|减到|取消",
        re.IGNORECASE,
    ),
)
"""Words of a turn in which a value may have changed."""
SO_NOW = cue(
    "then sind hat ist gilt gelten heißt also",
    "那就 现在是",
    lazy(
        r",? then[.!]|\bthen it['’ ]i?s\b"
        r"|\b(?:dann|jetzt|also) (?:sind|hat|ist|gilt|gelten|heißt)\b|^also \d|^那就|现在是",
        re.IGNORECASE,
    ),
)
"""The same, in the first words of a reply."""
_VALUE = lazy(r"\d|day\b|tag\b|[周期][一二三四五六日天]")
_CLAUSE = lazy(r"[;；，、]|,(?!\d)|\b(?:and|und|but|aber)\b")
_COUNTED = lazy(r"[\u4e00-\u9fff%€$£¥]|Euro|euros?\b|元")
_MONTH_DAY = lazy(r"(?<![\d/])(\d{1,2})/(\d{1,2})(?![\d/])")
_LETTERS = lazy(r"[^\W\d_]{3,9}")
_MEASURED = lazy(r"[\u4e00-\u9fff]")
_MONEY = "€$£¥"


class SupersededValue(Struct, frozen=True):
    """A value that was replaced by another one, and the stems of its topic words."""

    old: Value
    new: Value
    about: frozenset[str]


class _Part(Struct, frozen=True):
    """A sentence of a turn: its values and its topic words."""

    text: str
    values: tuple[Value, ...]
    about: frozenset[str]


def find_superseded(
    said: Sequence[tuple[str, str]], words_of: WordIndex | None = None
) -> list[SupersededValue]:
    """Return the replaced values in turns (a message and its reply each)."""
    words_of = words_of or WordIndex()
    changes = [at for at, turn in enumerate(said) if at and _may_change(*turn, words_of)]
    found = list[SupersededValue]()
    for at in changes[-_MOST_CHANGES:]:
        before = [text for turn in said[:at] for text in turn if text]
        found += _in_turn(*said[at], before, words_of)
    return [
        one
        for at, one in enumerate(found)
        if not any(one.old.is_same(later.new) for later in found[at:])
    ]


def find_stale_values(text: str, found: Sequence[SupersededValue]) -> list[str]:
    """Return the current values for which a text has the replaced ones."""
    if not found:
        return []
    parts = _parts_of(text)
    told = [value for part in parts for value in part.values]
    stale = []
    for one in found:
        if any(not value.forms.isdisjoint(one.new.forms) for value in told):
            continue
        if any(_has_old_value(part, one) for part in parts):
            stale.append(f"{one.new.text} ({one.old.text} was said before)")
    return list(dict.fromkeys(stale))


def keeps_old_value(text: str, old: str, new: str) -> bool:
    """Return whether the reply to an apparent correction keeps the old value: a clause has only the
    old one, or a sentence has both, and neither mentions a change."""
    for part in split_sentences(text[:_LOOKED_AT]):
        if mentions_past(part):
            continue
        if (
            _contains_value(old, part)
            and _contains_value(new, part)
            and not CHANGES.pattern.search(part)
        ):
            return True
        for clause in _CLAUSE.split(part):
            if _contains_value(old, clause) and not (
                _contains_value(new, clause) or CHANGES.pattern.search(clause)
            ):
                return True
    return False


def has_same_measure_word(text: str, value: str, message: str) -> bool:
    """Return whether a text has a number with the same Chinese measure word as the message, if that
    has one."""
    if not value[-1:].isdigit():
        return True
    behind = _MEASURED.search(message, message.find(value) + len(value))
    is_direct = behind is not None and message.find(value + behind[0]) >= 0
    return not is_direct or (behind is not None and value + behind[0] in text.replace(" ", ""))


def _has_old_value(part: _Part, one: SupersededValue) -> bool:
    """Return whether a sentence has the old value as if it were in force, about the same topic."""
    if not any(one.old.is_same(value) for value in part.values) or mentions_past(part.text):
        return False
    begin = one.new.text[:_BEGIN]
    is_alike = len(begin) == _BEGIN and begin == one.old.text[:_BEGIN]
    return is_alike or _count_alike(one.about, part.text, part.about) > 0


def _may_change(asked: str, reply: str, words_of: WordIndex) -> bool:
    """Return whether a turn mentions a change, and a value."""
    if not _VALUE.search(asked) and not _VALUE.search(reply):
        return False
    heads, begun = words_of.heads(reply), reply[:_FIRST]
    return (
        CHANGES.is_in(asked[:_LOOKED_AT], words_of.heads(asked))
        or CHANGES.is_in(begun, heads)
        or SO_NOW.is_in(begun, heads)
    )


def _in_turn(
    asked: str, reply: str, before: Sequence[str], words_of: WordIndex
) -> Iterator[SupersededValue]:
    """Yield the values that were replaced by new values of a turn."""
    person, answer = _parts_of(asked[:_LOOKED_AT]), _parts_of(reply[:_LOOKED_AT])
    whole = "\n".join(before)
    replied = [value for part in answer for value in part.values]
    taken = list[Value]()
    for part in _changed(person, answer):
        for new in part.values:
            if new.kind not in _KINDS or any(new.is_same(one) for one in taken):
                continue
            taken.append(new)
            if _contains_value(new.text, whole):
                continue
            about = frozenset().union(
                *(p.about for p in (*person, *answer) if _has(p, new)),
                person[0].about if 0 < len(person) <= _FEW else frozenset(),
            )
            named = [
                old
                for p in person
                for old in p.values
                if _may_become(old, new, p.text, part.text)
                and not any(old.is_same(one) for one in replied)
                and _contains_value(old.text, whole)
            ]
            if named:
                yield SupersededValue(named[0], new, about)
            else:
                held = [*replied, *(value for p in person for value in p.values)]
                yield from _find_replaced(new, about, held, part.text, before, words_of)


def _changed(person: Sequence[_Part], answer: Sequence[_Part]) -> Iterator[_Part]:
    """Yield the sentences that mention a change, and those beside them."""
    asked, replied = (
        [any(sign.pattern.search(one.text) for sign in signs) for one in parts]
        for parts, signs in ((person, (CHANGES,)), (answer, (CHANGES, SO_NOW)))
    )
    for parts, tells in ((person, asked), (answer, replied)):
        yield from (part for at, part in enumerate(parts) if any(tells[max(0, at - 1) : at + 2]))
    if any(asked):
        yield from answer[:_FEW]
    elif len(person) == 1 and any(replied[:1]):
        yield from person


def _find_replaced(
    new: Value,
    about: frozenset[str],
    held: Sequence[Value],
    sentence: str,
    before: Sequence[str],
    words_of: WordIndex,
) -> Iterator[SupersededValue]:
    """Yield the value of the same kind in an earlier message about the same topic, if there is
    exactly one."""
    best = list[tuple[int, Value, frozenset[str]]]()
    begin = new.text[:_BEGIN] if len(new.text) > _BEGIN else "\0"
    alike = [
        (count, at)
        for at, text in enumerate(before)
        if (count := _count_alike(about, text, words_of.stems((text,))) + (begin in text))
    ]
    for _, at in sorted(alike)[-_MOST_ALIKE:]:
        for part in _parts_of(before[at][:_LOOKED_AT]):
            common = _count_alike(about, part.text, part.about) + (begin in part.text)
            for clause in _CLAUSE.split(part.text) if common else ():
                near = _count_alike(about, clause, stems(clause))
                for old in _values_in(clause.strip()):
                    is_held = any(old.is_same(one) for one in held)
                    if not is_held and _may_become(old, new, clause, sentence):
                        best.append((2 * near + common, old, part.about))
    if best:
        most = max(weight for weight, *_ in best)
        (_, old, words), *others = (one for one in best if one[0] == most)
        if all(old.is_same(other) for _, other, _ in others):
            yield SupersededValue(old, new, frozenset(about | words))


def _may_become(old: Value, new: Value, before: str, now: str) -> bool:
    """Return whether two values are of the same kind, and differ."""
    if old.kind != new.kind or not old.forms.isdisjoint(new.forms):
        return False
    if old.kind == "identifier":
        return old.text[:2].casefold() == new.text[:2].casefold()
    if old.kind != "number":
        return True
    if old.text.count(".") != new.text.count(".") and "." in old.text.strip(".")[2:-2]:
        return False
    units = _counted(old, before), _counted(new, now)
    if units[0] != units[1] and all(units):
        return False
    sizes = [{float(form) for form in one.forms if _is_number(form)} for one in (old, new)]
    return any(a <= _LIKE * b and b <= _LIKE * a for a in sizes[0] for b in sizes[1])


def _is_number(form: str) -> bool:
    return form.replace(".", "", 1).isdigit()


def _count_alike(about: Set[str], text: str, words: Set[str]) -> int:
    """Return how many topic words of a value a text with these words has, also as parts of longer
    words."""
    folded = text.casefold()
    return sum(word in words or (len(word) >= _WORD and word in folded) for word in about)


def _has(part: _Part, value: Value) -> bool:
    return any(value.is_same(one) for one in part.values)


def _contains_value(value: str, text: str) -> bool:
    """Return whether a text has a value, in the same digits."""
    digits = re.findall(r"\d+", value)
    if not digits:
        return value.casefold() in text.casefold()
    sought = r"\D{1,3}".join(rf"(?<!\d)0?{int(one)}(?!\d)" for one in digits)
    month = next((word for word in _LETTERS.findall(value.casefold()) if word in MONTH_OF), "")
    if month:  # "5 March" is not said by "2.5 mg"
        beside = rf"(?:{month[:3]}|{MONTH_OF[month]}(?!\d))"
        sought = rf"{sought}.{{0,6}}{beside}|{beside}.{{0,10}}{sought}"
    return re.search(rf"(?<!\d[.,])(?:{sought})", text.casefold()) is not None


def _counted(value: Value, text: str) -> str:
    """Return the currency or per cent sign of a value, or the Chinese measure word behind it."""
    at = text.find(value.text)
    behind = text[at + len(value.text) :][:1] if at >= 0 else ""
    sign = _COUNTED.search(value.text + behind)
    return (
        ("$" if sign[0] in _MONEY or sign[0].casefold().startswith("euro") else sign[0])
        if sign
        else ""
    )


@lru_cache(maxsize=256)
def _parts_of(text: str) -> tuple[_Part, ...]:
    parts = []
    if is_wide(text):
        text = _MONTH_DAY.sub(r"\1月\2日", text)
    for sentence in split_sentences(text):
        values = _values_in(sentence.rstrip(".。!！"))
        forms = (form for one in values if one.kind in ("date", "identifier") for form in one.forms)
        rest = sentence
        for one in values:
            rest = rest.replace(one.text, " ") if one.kind in _KINDS else rest
        parts.append(_Part(sentence, values, frozenset((*stems(rest), *forms))))
    return tuple(parts)


@lru_cache(maxsize=512)
def _values_in(text: str) -> tuple[Value, ...]:
    return tuple(find_values(text))
