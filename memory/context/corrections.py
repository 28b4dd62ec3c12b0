"""Corrections that a person makes in a conversation, found without a model.

"No, it's 4 May, not 3 May" ends a value and names the new one; "I meant Tuesday" names the new one
alone, and ends the value of the same kind that was said last. What is a value, `values.py` knows.
Where the old value is of the sort that several things may have (a small number), only sentences
about the same thing are concerned.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from memory.context.correction_words import (
    BUT,
    CJK_FRAME,
    CJK_NEW_OLD,
    CJK_OLD_NEW,
    CUES,
    DENIED,
    FROM,
    INSTEAD,
    MEANT,
    MOVED,
    NEW_THEN_OLD,
    NO_CORRECTION,
    OLD_THEN_NEW,
    QUOTED,
    SAID,
    SENTENCE,
    SIGN,
    STRONG,
    STRONG_WORDS,
    TO,
    WEAK,
    may_name_both,
)
from memory.context.values import SCANNED, Value, find_values
from memory.context.wording import WordsOf
from memory.patterns import lazy

log = logging.getLogger(__name__)

MOST = 200
"""Corrections of a conversation that are kept: the newest."""
_BACK = 8  # messages in which a value is looked for that is only named by its kind
_HEARD = 600  # messages, and replies, in which the value may have been that is corrected
_NOTED = 4_000  # characters of each
_SENTENCES = 40  # of a message
_MOST = 5  # corrections of a sentence
_SHORT = 90  # characters of a sentence that may name the new value alone
_LONGEST = 400  # characters of a sentence that corrects


class Correction(Struct, frozen=True):
    """A value that a person ended, the one that holds instead, as they were written, and the index
    of the message that says so. `topic` are words of what it is about; where others say the old
    value of something else (`is_shared`), a sentence must hold one of these to be concerned."""

    old: str
    new: str
    at: int
    kind: str = ""
    topic: frozenset[str] = frozenset()
    is_shared: bool = False
    said: frozenset[str] = frozenset()
    """The words of what it is about in the sentence that corrects, alone."""

    @property
    def about(self) -> frozenset[str]:
        """Words of which a sentence must hold one to be concerned; none: any is."""
        return self.topic if self.is_shared else frozenset()


def find_corrections(
    said: Sequence[str], answered: Sequence[str] = (), words_of: WordsOf | None = None
) -> list[Correction]:
    """Return the corrections in a person's messages, oldest first. `answered` has the reply to each
    message, in which the value may have been that is corrected."""
    finder = CorrectionFinder(words_of)
    found: list[Correction] = []
    for at, message in enumerate(said):
        found += [replace(one, at=at) for one in finder.hear(message)]
        for reply in answered[at : at + 1]:
            finder.note(reply)
    return found[-MOST:]


def may_correct(message: str) -> bool:
    """Return whether a message has a word by which people correct."""
    return SIGN.pattern.search(message[:SCANNED]) is not None


class CorrectionFinder:
    """Finds corrections in messages as they come."""

    def __init__(self, words_of: WordsOf | None = None) -> None:
        self._heard = deque[str](maxlen=_HEARD)
        self._words_of = words_of

    def hear(self, message: str) -> list[Correction]:
        """Return the corrections in the next message of a person. None is worth a turn: where
        looking for them fails, there are none."""
        message = message[:SCANNED]
        try:
            return self._find(message) if self._may_correct(message) else []
        except Exception:
            log.exception("the corrections in a message could not be found")
            return []
        finally:
            self.note(message)

    def _may_correct(self, message: str) -> bool:
        if self._words_of is None:
            return may_correct(message)
        return SIGN.is_in(message, self._words_of(message))

    def _find(self, message: str) -> list[Correction]:
        earlier = _Earlier(self._heard)
        is_strong = len(message) < 2 * _SHORT and bool(STRONG.search(message))
        return [
            correction
            for sentence in islice(split_sentences(message), _SENTENCES)
            for correction in _in_sentence(sentence, earlier, is_strong=is_strong)
        ]

    def note(self, reply: str) -> None:
        """Take note of what may be corrected later: a reply."""
        self._heard.appendleft(reply[:_NOTED])


# --- what was said before ------------------------------------------------------------------------
_WORDS_OF_NO_TOPIC = """
    that this with from have will would should please actually sorry correction instead meant
    mean make change wrong right just only what there they them then than rather about your here
    been were when the and not for are was you her his its our has had but now can all one out
    get got yes ugh argh mist ach hmm crap damn dang verdammt right one hold these those always
    richtig seit dieser nicht sondern statt eine einen sind doch jetzt nein wird haben korrektur
    meine meinte mein dass auch bitte noch oder aber unter der die das ist und ich wir ihr sie
    mir mit
    auf für den dem ein vom zum war bin hat nun 不是 而是 现在 其实 更正 改成 我的 应该 抱歉
    一下 那个 刚才 一点 地方 我们 一个 这个 我 的 是 在 不 了 他 她 它 吧 就 也 都 月 日 号 点 元
"""
_COMMON = frozenset(re.findall(r"\S+", _WORDS_OF_NO_TOPIC))


def content_words(text: str) -> frozenset[str]:
    """Return the words of a text that say what it is about; of Chinese, each two signs."""
    words = set[str]()
    for found in re.finditer(r"[\u4e00-\u9fff]+|[^\W\d_\u4e00-\u9fff]{3,}", text.casefold()):
        word = found[0]
        if "\u4e00" <= word[0] <= "\u9fff":
            words.update(word[i : i + 2] for i in range(len(word) - 1) if len(word) > 1)
            words.update(word if len(word) == 1 else "")
        else:
            words.add(word[:6])  # enough of a stem to know "meetings" by
    return frozenset(words) - _COMMON - _COMMON_STEMS


_VERBS_OF_ANYTHING = """
    cost costs takes starts begins ends leaves goes comes works suits called want need needs meet
    kostet kosten dauert beginnt fängt fährt geht kommt passt heißt heißen will wollen brauche
    later earlier later again today später früher wieder heute wrong falsch 改成 改到 改为 说错 错了
    更正 应该
"""
_OF_ANYTHING = frozenset(word[:6] for word in re.findall(r"\S+", _VERBS_OF_ANYTHING))
_COMMON_STEMS = frozenset(word[:6] for word in _COMMON)


class _Earlier:
    """The messages before a correction, the newest first, with the values in them."""

    def __init__(self, newest: Iterable[str]) -> None:
        self.messages = [*newest]

    def last(
        self, new: Value, about: frozenset[str], unit: frozenset[str] = frozenset()
    ) -> Value | None:
        """Return the value of the kind of `new` that was said last of the same thing; where
        `about` has no words to tell it by, the one in the last two messages. `unit` is what the new
        one counts."""
        for message in self.messages[: _BACK if about else 2]:
            for part in reversed([*split_sentences(message)]):
                values = [v for v in find_values(part) if _may_be_ended(v, new)]
                words = content_words(part)
                if not values or not unit <= words:
                    continue
                if not about:
                    return values[-1]
                if shared := (about & words) - content_words(values[-1].text):
                    return _nearest(values, part, shared)
        return None

    def name_like(self, new: Value, sentence: str) -> Value | None:
        """Return the name that was said behind the same two words as a new one."""
        before = sentence[: new.start].casefold().split()[-2:]
        if len(before) < 2:
            return None
        for message in self.messages[:_BACK]:
            for part in split_sentences(message):
                for one in find_values(part):
                    words = part[: one.start].casefold().split()[-2:]
                    if one.kind == "name" and words == before and not one.is_same(new):
                        return one
        return None

    def has(self, words: str) -> bool:
        wanted = words.casefold()
        return any(wanted in message.casefold() for message in self.messages)

    def names(self, old: Value, sentence: str) -> bool:
        """Return whether a name was said, and, where another one is only preferred to it, about the
        same thing."""
        if not INSTEAD.search(sentence):
            return self.has(old.text)
        about = content_words(sentence) - content_words(old.text)
        there = (message for message in self.messages if old.text in message)
        parts = (part for message in there for part in split_sentences(message))
        return any(old.text in part and not about.isdisjoint(content_words(part)) for part in parts)


def says(text: str, value: Value) -> bool:
    """Return whether a text says a value, in any form."""
    return any(other.is_same(value) for other in find_values(text))


def _may_be_short_for(one: Value, other: Value) -> bool:
    """Return whether they are of a kind where a sentence names both: "3pm, not 2"."""
    return _fits(one, other) or {one.kind, other.kind} in ({"number", "time"}, {"number", "day"})


_SIGN_OF_UNIT = lazy(r"[%$€£¥元]|euro|dollar", re.IGNORECASE)


def _fits(old: Value, new: Value) -> bool:
    """Return whether a value may take the place of another one."""
    return old.kind == new.kind or {old.kind, new.kind} <= {"date", "day"}


def _may_be_ended(old: Value, new: Value) -> bool:
    return _fits(old, new) and _has_same_unit(old, new) and not old.is_same(new)


def _has_same_unit(old: Value, new: Value) -> bool:
    signs = (_SIGN_OF_UNIT.search(value.text) for value in (old, new))
    first, second = (sign[0].lower() if sign else "" for sign in signs)
    return not first or not second or first == second


# --- a sentence that corrects --------------------------------------------------------------------


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, of which quotations and code are left out."""
    for found in SENTENCE.finditer(QUOTED.sub(lambda m: " " * len(m[0]), text)):
        if len(found[0].strip()) > 1 and len(found[0]) <= _LONGEST:
            yield found[0]


def _in_sentence(sentence: str, earlier: _Earlier, *, is_strong: bool) -> Iterator[Correction]:
    is_alone = len(sentence) <= _SHORT and (is_strong or WEAK.search(sentence) is not None)
    if not is_alone and not may_name_both(sentence):
        return
    if sentence.rstrip().endswith(("?", "？")) or NO_CORRECTION.search(sentence):
        return
    pairs = [*_pairs(sentence, earlier)]
    if not pairs and not (pairs := [*_cjk_pairs(sentence, earlier)]):
        pairs = [*_new_alone(sentence, earlier, is_strong=is_strong)] if is_alone else []
    for old, new in pairs[:_MOST]:
        old, new = _complete(old, new)
        topic, is_shared = _topic(sentence, old, new, earlier)
        said = content_words(sentence) - content_words(f"{old.text} {new.text}") - _OF_ANYTHING
        yield Correction(old.text, new.text, 0, old.kind, topic, is_shared, said)


def _pairs(sentence: str, earlier: _Earlier) -> Iterator[tuple[Value, Value]]:
    """Old and new value where a sentence names both."""
    values = find_values(sentence)
    is_moved = MOVED.search(sentence)
    for index, first in enumerate(values):
        behind = values[index + 1 :]
        second = next((value for value in behind if _may_be_short_for(first, value)), None)
        if second is None or first.is_same(second):
            continue
        before, between = sentence[: first.start], sentence[first.end : second.start]
        between = _without_repeated(between, before)
        pair: tuple[Value, Value] | None = None
        if DENIED.search(before) and OLD_THEN_NEW.fullmatch(between):
            pair = first, second
        elif NEW_THEN_OLD.fullmatch(between):
            pair = second, first
        elif (is_moved and FROM.search(before) and TO.fullmatch(between)) or (
            SAID.search(before) and BUT.match(between)
        ):
            pair = first, second
        is_thing = pair and pair[0].kind == "name" and _ARTICLE_BEFORE.search(before)
        if pair and not is_thing and (pair[0].kind != "name" or earlier.names(pair[0], sentence)):
            yield pair


_ARTICLE_BEFORE = lazy(r"\b(?:der|die|das|den|dem|ein|eine|einen|einem)\s$", re.IGNORECASE)
"""Before a German noun, which is no name."""


def _without_repeated(between: str, before: str) -> str:
    """Leave out words that name the same again: "Oak Road 42, not Oak Road 24"."""
    said = {word for word in before.split() if word[:1].isupper()}
    return " ".join(word for word in between.split(" ") if word not in said)


def _cjk_pairs(sentence: str, earlier: _Earlier) -> Iterator[tuple[Value, Value]]:
    """Names in Chinese, which nothing marks but the sentence itself."""
    for pattern, old, new in ((CJK_NEW_OLD, 2, 1), (CJK_OLD_NEW, 1, 2)):
        for found in pattern.finditer(sentence):
            if earlier.has(found[old]):
                yield _name(found, old), _name(found, new)
                return
    if framed := CJK_FRAME.search(sentence):
        frame = re.compile(rf"{re.escape(framed[1])}([\u4e00-\u9fff]{{1,8}}?)(?=[，。！,.\s]|$)")
        for message in earlier.messages[:_BACK]:
            if (said := frame.search(message)) and said[1] != framed[2]:
                yield _name(said, 1), _name(framed, 2)
                return


def _name(found: re.Match[str], group: int) -> Value:
    text = found[group]
    return Value("name", text, found.start(group), found.end(group), frozenset({text}))


def _new_alone(
    sentence: str, earlier: _Earlier, *, is_strong: bool
) -> Iterator[tuple[Value, Value]]:
    """Yield the last value of a kind and the new one, where a sentence that corrects names one
    alone."""
    values = [v for v in find_values(sentence) if not _SIGNS_ALONE.fullmatch(v.text)]
    for new in reversed(values):
        if sum(_fits(other, new) for other in values) > 1:
            continue
        rest = f"{sentence[: new.start]} , {sentence[new.end :]}"
        words = content_words(_SIGNS_ALONE.sub(" ", rest))
        about = frozenset(word for word in words if len(word) > 1)
        if new.kind == "name" and (about or not MEANT.search(sentence)):
            if about and STRONG.search(sentence) and (old := earlier.name_like(new, sentence)):
                yield old, new
                return
            continue
        if new.kind in _TELLING and (is_strong or _MINE.search(sentence)):
            old = earlier.last(new, about) or earlier.last(new, frozenset())
        elif about or not _OF_A_PERSON.search(_SIGNS_ALONE.sub(" ", rest)):
            old = earlier.last(new, about, _unit_of(new, sentence))
        else:
            old = None
        if old is not None:
            yield old, new
            return


_TELLING = frozenset(("address", "url", "path", "identifier"))
"""Kinds of which a person says few: what is wrong is the last one."""
_MINE = lazy(
    r"\b(?:my|our|mein\w*|unser\w*|hold on|halt)\b|我的|号码|邮箱|密码|地址|等", re.IGNORECASE
)
_SIGNS_ALONE = lazy(f"(?:{CUES.pattern}|{MEANT.pattern}|{STRONG_WORDS.pattern})", re.IGNORECASE)
_OF_A_PERSON = lazy(r"\b(?:i|i'm|he|she|we|they|ich|er|wir)\b|[我他她]", re.IGNORECASE)


def _unit_of(value: Value, text: str) -> frozenset[str]:
    """Return the word behind a number, of what it counts."""
    found = re.match(r"\s([^\W\d_]{3,30})", text[value.end :]) if value.kind == "number" else None
    return content_words(_SIGNS_ALONE.sub(" ", found[1])) if found else frozenset()


def _nearest(values: Sequence[Value], part: str, words: frozenset[str]) -> Value:
    """Return the value that is nearest to one of these words; of two, the one before it."""
    folded = part.casefold()
    spans = [one.span() for word in words for one in re.finditer(rf"{re.escape(word)}\w*", folded)]
    return min(
        values,
        key=lambda v: min((max(start - v.end, v.start - end) for start, end in spans), default=0),
    )


def _complete(old: Value, new: Value) -> tuple[Value, Value]:
    """Give a day its month, and a bare number the unit of the other one."""
    if {old.kind, new.kind} == {"number", "day"}:
        return _as_number(old), _as_number(new)
    if old.kind == "number" and new.kind == "time":
        return _with_number(new, old), new
    if old.kind == "day" and new.kind == "date":
        return _with_number(new, old), new
    if new.kind == "day" and old.kind == "date":
        return old, _with_number(old, new)
    return old, new


def _as_number(value: Value) -> Value:
    """Return a day as the number that it was: of a platform, or of a house."""
    digits = re.search(r"\d+", value.text)
    return replace(value, kind="number", text=digits[0]) if digits else value


def _with_number(date: Value, day: Value) -> Value:
    """Return a date or a time with another number in the place of its own."""
    number = re.search(r"\d+", day.text)
    places = [*re.finditer(r"\d+|[一二三四五六七八九十两]+", date.text)]
    if number is None or not places:
        return day
    is_iso = re.fullmatch(r"\d{4}-\d{1,2}-\d{1,2}", date.text)
    place = places[-1] if is_iso or "月" in date.text else places[0]
    text = date.text[: place.start()] + number[0] + date.text[place.end() :]
    (made,) = find_values(text)[:1] or (day,)
    return made


def _topic(sentence: str, old: Value, new: Value, earlier: _Earlier) -> tuple[frozenset[str], bool]:
    """Return the words of the sentences that say and end the old value, and whether others say it
    of something else."""
    about = content_words(sentence) - content_words(new.text)
    digits = [re.compile(rf"(?<!\d)0?{one}(?!\d)") for one in re.findall(r"\d+", old.text)]
    parts = [
        (words, part)
        for message in earlier.messages
        if old.text in message or (digits and all(one.search(message) for one in digits))
        for part in split_sentences(message)
        if old.text in part or (digits and says(part, old))
        if (words := content_words(part) - content_words(old.text))
    ]
    first = parts[0] if parts else (frozenset[str](), "")
    own, said = next((one for one in parts if not about.isdisjoint(one[0])), first)
    if not about.isdisjoint(own) and sum(old.is_same(one) for one in find_values(said)) > 1:
        return about - content_words(old.text), True  # "3 kids and 3 dogs": of one of them
    about = (about | own) - content_words(old.text)
    return about, any(about.isdisjoint(words) for words, _part in parts)


# --- what holds ----------------------------------------------------------------------------------


def in_force(corrections: Iterable[Correction]) -> list[Correction]:
    """Return which values ended, each with the one that holds in the end: a new value that was
    corrected again is no more, and one that came back never ended. Corrections of different things
    that have equal values have nothing to do with each other."""
    held: list[Correction] = []
    for late in corrections:
        kept = []
        for one in held:
            is_of_the_same = _is_about_the_same(one, late)
            if is_of_the_same and _is_value(one.new, late.old):
                one = replace(one, new=late.new, at=late.at)
            if not is_of_the_same or not _is_value(one.old, late.new):
                kept.append(one)
        held = [*kept, late]
    return held


def _is_about_the_same(one: Correction, other: Correction) -> bool:
    return not one.said or not other.said or not one.said.isdisjoint(other.said)


def _is_value(one: str, other: str) -> bool:
    return one.casefold() == other.casefold() or any(
        a.is_same(b) for a in _values_in(one) for b in _values_in(other)
    )


@lru_cache(maxsize=1_000)
def _values_in(value: str) -> tuple[Value, ...]:
    return tuple(find_values(value))
