"""Sentences that repeat an earlier statement about a thing with another word: "the rehearsal is in
the scout hut", where it was in the church hall. Pure.

Such words are not values of any kind. They replace each other if the topic of the clause and the
word that introduces them are the same. A clause with any further word is about something else ("her
friend's rehearsal is in the scout hut"). Chinese has no spaces between words: there, a few verbs
mark where the statement begins (老袁叫小曹).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from memory.corrections.frames import is_doubtful
from memory.corrections.pairs import (
    BACK,
    ParsedMessage,
    ParsedSentence,
    ValuePair,
    as_word,
    count_at_end,
)
from memory.corrections.sentences import OF_ANYTHING, has_cue, without_cues
from memory.corrections.targets import CLAUSE
from memory.patterns import lazy

_LONGEST = 300  # maximum characters of a message
_SENTENCES, _PARTS = 4, 60  # of a message, and clauses before it
_WORDS = 3  # of a statement about a thing
_FEW = 8  # words of a sentence that makes no other statement
_TOKEN = lazy(r"[^\W\d_]+(?:-[^\W\d_]+)*|\d+")
_SAME_END = 5  # letters of a compound's last word
_STEM = 4  # letters of a verb or noun without its ending


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_IS = _set("is are was were be s re ist sind war waren heißt hieß heisst heißen called")
_ARTICLES = _set("the a an der die das den dem des ein eine einen einem einer eines it es")
_ADVERBS = _set(
    "now actually still really just only please already since today officially definitely jetzt "
    "nun doch eigentlich inzwischen mittlerweile wirklich nur bitte schon lieber übrigens btw"
)
_PLACES = _set(
    "in at on to from with by for near im am auf an bei mit von vom zum zur nach aus für"
)
_OTHERS = _set("his her their sein seine seinen ihr ihre ihren")
_SPEAKERS = _set("i we ich wir i'm we're")
_PRONOUNS = _set("she he they er sie")
_INFLECTED = _set("e en st t n s")
_OWN = _OTHERS | _set("my your our mein meine meinen meiner unser unsere")
_LEADS = _PLACES | _OWN
_ENDS = _set(
    "after because since which who that and or but not no nicht kein keine statt weil da und oder "
    "aber sondern instead now jetzt please bitte then dann again wieder there dort "
    "every each jeden jede"
)
_STOPS, _LITTLE = _ENDS | _LEADS | _IS, _ENDS | _ADVERBS | _ARTICLES
_ANOTHER = lazy(
    r"\b(?:also|too|another|other|second|as well|sometimes|both|or|either|next|then|auch|noch|"
    r"andere\w?|zweite\w?|manchmal|beide|oder|danach|dann|nächste\w?|not only|if|wenn)\b",
    re.IGNORECASE,
)


_REPORTED = lazy(
    r"\b(?:you|i) (?:said|told (?:me|you)|mentioned)(?: that)?\b|"
    r"\b(?:du|sie|ich) (?:sagte\w{0,2}|ha(?:st|ben|be) (?:mir |dir )?gesagt),?(?: dass)?(?!\w)",
    re.IGNORECASE,
)
_SPEAKER = "i"
"""The representative of the words for the person who speaks."""
_NO_VERBS = _ARTICLES | _PLACES | _OWN | _PRONOUNS | _ENDS
_Scanned = tuple[list[str], str, int, list[re.Match[str]]]


class _Statement(Struct, frozen=True):
    """A statement about a thing: the words for the thing, the word that introduces the statement,
    and its position in the sentence."""

    about: tuple[str, ...]
    lead: str
    start: int
    end: int
    is_of_pronoun: bool = False


def find_aligned(said: ParsedMessage, before: Sequence[ParsedMessage]) -> Iterator[ValuePair]:
    """Yield the pairs of new words in a message and the earlier words that they replace; `before`
    are the messages before it, newest first."""
    if len(said.text) > _LONGEST:
        return
    if not said.text.isascii():
        yield from _find_chinese(said, before)
    texts = [message.folded for message in before[:BACK]]
    for sentence in said.sentences[:_SENTENCES]:
        if is_doubtful(sentence.text):
            continue
        is_cued = has_cue(sentence.text)
        for new in _read(sentence):
            word = sentence.text[new.start : new.end]
            is_alone = not new.about and is_cued and len(sentence.tokens) <= _FEW
            is_answer = new.is_of_pronoun and sentence is said.sentences[0]
            is_answer = is_answer and bool(before) and before[0].is_reply
            if (not is_alone and not is_answer and not _has_topic(new)) or any(
                word.casefold() in text for text in texts
            ):
                continue
            heard = before if new.about or is_alone else before[:1]
            if found := _find_old(new, frozenset(word.casefold().split()), heard):
                back, source, old = found
                value = as_word(source.text, old.start, old.end)
                yield ValuePair(
                    sentence, as_word(sentence.text, new.start, new.end), source, value, back, 0
                )


def _has_topic(said: _Statement) -> bool:
    return any(len(word) > 2 and word[:6] not in OF_ANYTHING for word in said.about)


def _find_old(
    new: _Statement, said: frozenset[str], before: Sequence[ParsedMessage]
) -> tuple[int, ParsedSentence, _Statement] | None:
    looks = 0
    for back, message in enumerate(before[:BACK]):
        found = []
        for source in reversed(message.sentences):
            for old in _read(source):
                if (looks := looks + 1) > _PARTS:
                    return None
                words = frozenset(source.text[old.start : old.end].casefold().split())
                is_same = said <= words or words <= said
                if not new.about and not source.text[old.start : old.end].istitle():
                    continue
                if old.lead == new.lead and not is_same and _is_about(new.about, old.about):
                    found.append((back, source, old))
        if found:
            return found[0] if new.about or len(found) == 1 else None
    return None


def _is_about(new: Sequence[str], old: Sequence[str]) -> bool:
    """Return whether all words for the thing are among those for the other, or are the end of one
    of them."""
    return all(any(_is_same(word, other) for other in old) for word in new)


def _is_same(word: str, other: str) -> bool:
    """Return whether two words are forms of one, or the first is the end of the other: wohne and
    wohnen, Bügeleisen and Dampfbügeleisen."""
    if word == other or (len(word) >= _SAME_END and other.endswith(word)):
        return True
    same = count_at_end(word[::-1], other[::-1])
    return same >= _STEM and {word[same:], other[same:]} <= _INFLECTED | {""}


@lru_cache(maxsize=256)  # each sentence is read for all later messages
def _read(sentence: ParsedSentence) -> tuple[_Statement, ...]:
    """Return the statements in the clauses of a sentence, except those that are values of a
    kind."""
    ends = [one.span() for one in CLAUSE.finditer(sentence.text)]
    starts = (0, *(end for _start, end in ends))
    stops = (*(start for start, _end in ends), len(sentence.text))
    found = []
    speaker = ""  # "we have moved and live in York": of both clauses
    for part in zip(starts, stops, strict=True):
        statement, speaker = _read_part(sentence, *part, speaker)
        found.append(statement)
    return tuple(one for one in found if one is not None)


def _read_part(
    sentence: ParsedSentence, start: int, end: int, speaker: str
) -> tuple[_Statement | None, str]:
    """Return the statement of a clause, and the word for the speaker if that is its subject; or
    `speaker` is, if the clause begins with a verb."""
    if _ANOTHER.search(sentence.text, start, end):
        return None, ""
    text = _REPORTED.sub(lambda found: " " * len(found[0]), without_cues(sentence.text))
    first = _TOKEN.search(text, start, end)
    is_led = first is not None and not first[0].istitle() and first[0].casefold() not in _NO_VERBS
    scanned = _scan(text, start, end, speaker if is_led else "")
    own = next((_SPEAKER for word in scanned[0] if word == _SPEAKER), "")
    return _make(sentence, scanned), own


def _make(sentence: ParsedSentence, scanned: _Scanned) -> _Statement | None:
    about, lead, led, said = scanned
    if not said or (lead in _OWN and len(said) > 1):  # "my sister likes Queen"
        return None
    first, last = said[0].start(), said[-1].end()
    text = sentence.text[first:last]
    is_of_pronoun = bool(about) and _PRONOUNS.issuperset(about)
    if is_of_pronoun:
        about = []
    is_named = text.istitle() if lead == "to" or not about else text[0].isupper() or lead != "="
    values = (one for one in sentence.values if one.kind != "name")
    if not is_named or any(one.start < last and led <= one.end for one in values):
        return None
    return _Statement(tuple(about), lead, first, last, is_of_pronoun)


def _scan(text: str, start: int, end: int, speaker: str) -> _Scanned:
    """Return the words for the topic of a clause, the word that introduces the statement, the end
    of that word, and the words of the statement."""
    about: list[str] = [speaker] if speaker else []
    said: list[re.Match[str]] = []
    lead, led = "", start
    for token in _TOKEN.finditer(text, start, end):
        word = token[0].casefold()
        if said and (word in _STOPS or len(said) == _WORDS):
            break
        if word in _OTHERS and not about:
            break  # "her rehearsal"
        if word in _IS or word in _LEADS:
            lead, led = "=" if word in _IS else word, token.end()
        elif word in _LITTLE:
            continue
        elif lead and (about or lead in _PLACES):
            said.append(token)
        else:
            about.append(_SPEAKER if word in _SPEAKERS else word)
            lead = ""
    return about, lead, led, said


# --- Chinese -------------------------------------------------------------------------------------
_SAYS = lazy(
    r"(?<![^，,。；;！!？?、：:])(?![其他她它])([^，,。；;！!？?、：:]{1,10}?)"
    r"(姓|叫做?|名叫|住在?|搬到|借给|坐到|考上|过敏原是|是|[换改变]成了?)"
    r"(?!不|没|在|从|我|你|他|她|什么|谁|哪|去年|今年|要|有|因为)([\u3400-\u9fff]{1,8}?)"
    r"[了吧啊呢的哈啦呀嘛哦]{0,2}(?=[，,。；;！!？?、]|$)"
)
"""A clause: its topic, a verb, and the statement."""
_NOW = lazy(r"现在|如今|已|改|目前")
_OF_PERSON = lazy(r"住|叫|姓|搬")
_BESIDE = lazy(
    r"其实|现在|应该|已经|原来|那位|那个|这个|一直|刚才|不对|抱歉|改|也|都|不|就|我们?|你们?|今年|去年|已"
)


def _find_chinese(said: ParsedMessage, before: Sequence[ParsedMessage]) -> Iterator[ValuePair]:
    texts = [message.text for message in before[:BACK]]
    for sentence in said.sentences[:_SENTENCES]:
        if sentence.text.isascii() or is_doubtful(sentence.text):
            continue
        for new in _SAYS.finditer(sentence.text):
            about = _BESIDE.sub("", new[1])
            is_speaker = not about and bool(_NOW.search(new[1]) and _OF_PERSON.match(new[2]))
            if (not about and not is_speaker) or any(new[3] in one for one in texts):
                continue
            if "也" in new[1] or "不" in new[1]:
                continue
            if found := _find_chinese_old(about, new, before):
                back, source, old = found
                word = as_word(sentence.text, *new.span(3))
                yield ValuePair(sentence, word, source, as_word(source.text, *old.span(3)), back, 0)


def _verb(found: re.Match[str]) -> str:
    """Return the verb of a statement; "changed to" is as good as "is"."""
    return "是" if found[2].endswith(("成", "成了")) else found[2][0]


def _find_chinese_old(
    about: str, new: re.Match[str], before: Sequence[ParsedMessage]
) -> tuple[int, ParsedSentence, re.Match[str]] | None:
    found = []
    for back, message in enumerate(before[:BACK]):
        for source in message.sentences:
            for old in _SAYS.finditer(source.text):
                there = _BESIDE.sub("", old[1])
                is_about = about[:2] in there if len(about) > 1 else there.endswith(about)
                if not about:  # the speaker, who need not be named
                    is_about = old[1].startswith("我") and "的" not in old[1]
                if is_about and _verb(old) == _verb(new) and old[3] != new[3]:
                    found.append((len(there), back, source, old))
    if not about and len({one[3][3] for one in found}) > 1:
        return None
    nearest = min(found, key=lambda one: one[:2], default=None)
    return nearest and nearest[1:]
