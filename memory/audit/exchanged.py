"""Roles and values that a summary exchanges, such as the prices of two things or the tasks of two
people. Pure.

No meaning is needed: four words of two neighbouring clauses of the source are compared, two of each
("Ann pays, Ben books"). A text that combines them crosswise ("Ben pays, Ann books"), and never as
the source does, has exchanged them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import groupby, islice, product, takewhile
from operator import add

from memory.audit.classes import TITLES, WIDE_SIGNS, class_of
from memory.patterns import lazy
from memory.text.numbers import NUMBER_WORDS
from memory.text.wording import IGNORED, is_wide, split_sentences

_HEAD = 5
_NEAR = 6  # the maximum distance of two clauses, in clauses
_RARE, _RARE_TOLD = 8, 4  # maximum of clauses of a source, and of a text, with a distinctive word
_LONGEST = 40  # the maximum length of a clause in words
_READ = 2_000  # the maximum length of a clause in characters
_MOST_FOUND = 4
_MOST = 4_000  # the maximum of clauses that are compared
_PARTS = lazy(
    r"[;；，、)）—–|→]|,(?!\d)|\s[-/]\s"
    r"|\b(?:and|but|while|whereas|because|und|sowie|während|weil)\b"
    r"|\s(?=(?:instead of|rather than|(?:an)?statt|anstelle)\b)"
    r"|(?<=[\u4e00-\u9fff])(?:[和与及但]|(?=而不是|而非))",
    re.IGNORECASE,
)
_JOINS = lazy(r"(?:and|und|sowie|[和与及、]|\s[/]\s)\Z", re.IGNORECASE)
_LABEL = lazy(r"([^(（:：]{1,40})(?:[(（]|[:：](?!\d))")
_END_OF_HEAD = frozenset(")）;；")
_CLOSES = frozenset(")）")
_IN_ORDER = lazy(
    r"\b(?:respectively|both|beziehungsweise|bzw|jeweils|beide\w?)\b|分别|各", re.IGNORECASE
)
"""Words of a sentence whose clauses refer to each other."""
_TURNED_ROUND = lazy(
    r"\b(?:other way a?round|vice versa|swap\w*|switch(?:ed)? (?:them|the two|places|roles)"
    r"|umgekehrt|anders(?:he)?rum|(?:ver)?tausch\w*)\b|反过来|对调|互换|交换|换过来",
    re.IGNORECASE,
)
"""Words of a person who wants an exchange ("No, the other way round.")."""
_WORD = lazy(
    r"\d+(?:[.,:]\d+)*|\b(?:I|me|my)\b|[^\W\d_\u4e00-\u9fff]{1,40}n['’]t\b|[^\W\d_\u4e00-\u9fff]{3,40}|\bno\b"
    r"|[\u4e00-\u9fff]{1,60}"
)
_DENIES = lazy(
    r"(?:not|no|never|without|instead|rather|none|neither|nor|dropped|cancell?ed|skipped|against"
    r"|nicht|kein\w{0,2}|ohne|statt|nie|niemals|\w+n['’]t)\Z"
)
_ELSEWHERE = {"instead": "of", "rather": "than"}
"""Words that deny only what follows another word: "instead of tea"."""
_DENIES_WIDE = lazy(r"[不没无未]")
_IN_FIRST = "i me my mine ich mich mir mein meine meinem meinen meiner meines"
_IN_SECOND = "you your yours sie ihnen ihr ihre ihrem ihren ihrer ihres dich dir dein deine deinen"
_IN_THIRD = "user users nutzer nutzerin nutzers"
_BY_NAME, _FIRST = frozenset(_IN_THIRD.split()), frozenset(_IN_FIRST.split())
_SECOND = _BY_NAME | frozenset(_IN_SECOND.split())
_USER_WIDE = {
    _FIRST: lazy(r"用户|我(?![们爸妈哥姐弟妹老家店])"),
    _SECOND: lazy(r"用户|[您你](?!们)"),
    _BY_NAME: lazy(r"用户"),
}
USER = "@user"
"""The key of the words for the person."""
_GROUPS = lazy(r"[.,](?=\d{3}(?!\d))")
NO = "¬"
_BEFORE_NOUNS = """
the a an my your our his her its their this that der die das den dem des ein eine einen einem einer
mein meine meinen unser unsere im am zum zur vom beim ins kein keine keinen
"""
DETERMINERS = frozenset(_BEFORE_NOUNS.split())
_WIDE_SIGN = lazy("|".join(WIDE_SIGNS))
_LIGHT = lazy(
    r"(?:can|may|one|per|any|all|its|our|out|get|got|has|who|how|why|yes|due|via|ihr|uns|sen[dt]|went"
    r"|uhr|bis|leute|people|go(?:es|ne|ing)|takes?|took|make|made|gets|comes?|used?)\Z"
)
"""Words without information of their own, besides the stop words of the language."""


class Clauses:
    """The clauses of texts, with the places of their words and the sentences they belong to.
    `is_turned_round` says that one of the texts wants an exchange. Of the `names`, those `within`
    sentences are no mere beginnings, and the `proper` ones never follow an article. `own` are the
    words of a clause without those of its label, `whole` the sentences by their first clause."""

    def __init__(self, texts: Sequence[str], by_user: int = 0) -> None:
        self.texts: list[str] = []
        self.words: list[frozenset[str]] = []
        self.own: list[frozenset[str]] = []
        self.whole: dict[int, str] = {}
        self._of_sentence: dict[int, frozenset[str]] = {}
        self._found: dict[tuple[re.Pattern[str], int], bool] = {}
        self.sentences: list[int] = []
        self.is_joined: list[bool] = []
        self.places = defaultdict[str, list[int]](list)
        self.names, lower = set[str](), set[str]()
        self._determined, self._inside = set[str](), set[str]()
        self.is_turned_round = any(map(_TURNED_ROUND.search, texts))
        for number, text in enumerate(texts):
            self._user = _FIRST if number < by_user else _SECOND if by_user else _BY_NAME
            self._add_gap()
            for sentence in split_sentences(text):
                if len(self.words) > _MOST:
                    break
                self.whole[len(self.words)] = sentence
                self._read(sentence, lower)
        self.names -= lower
        self.proper = self._inside & self.names - self._determined
        self.within = self.names & (self._inside | self._determined)

    def _add_gap(self) -> None:
        """Separate two messages, so that no clauses of both are neighbours."""
        self.texts += [""] * _NEAR
        self.words += [frozenset[str]()] * _NEAR
        self.own += [frozenset[str]()] * _NEAR
        self.sentences += [-1] * _NEAR
        self.is_joined += [False] * _NEAR

    def _read(self, sentence: str, lower: set[str]) -> None:
        """Add the clauses of a sentence. A clause in brackets or after a label also has the words
        before it."""
        first, head, start, sign = len(self.words), frozenset[str](), 0, ""
        behind = frozenset[str]()
        ends = [] if _IN_ORDER.search(sentence) else [*islice(_PARTS.finditer(sentence), _MOST)]
        for end in (*ends, None):
            part = sentence[start : end.start() if end else None]
            is_read = len(part) <= _READ
            words = frozenset(self._words_in(part if is_read else "", lower, "," if start else ""))
            self.own.append(words)
            if is_read and (labels := _LABEL.findall(part)):
                head = frozenset(self._words_in(labels[-1], lower, "," if start else ""))
            else:
                words |= head
            words |= behind if words and NO not in words else frozenset()
            self._add(part, words, first)
            self.is_joined.append(bool(sign and _JOINS.match(sign)))
            sign = end[0] if end else ""
            if end:
                start = end.end()
                behind = head if sign in _CLOSES else frozenset()  # "Ann (my boss) pays"
                head = frozenset() if end[0] in _END_OF_HEAD else head

    def _add(self, part: str, words: frozenset[str], sentence: int) -> None:
        if len(words) > _LONGEST:
            words = frozenset()
        for one in words:
            self.places[one].append(len(self.words))
        self.texts.append(part)
        self.words.append(words)
        self.sentences.append(sentence)

    def by_sentence(self) -> Iterator[list[int]]:
        """Yield the places of the clauses of each sentence with several, without empty ones."""
        full = (at for at, first in enumerate(self.sentences) if first >= 0)
        for _, places in groupby(full, self.sentences.__getitem__):
            if len(found := [at for at in places if self.words[at]]) > 1:
                yield found

    def sentences_with(self, pattern: re.Pattern[str]) -> list[str]:
        """Return the sentences that have a pattern."""
        return [one for one in self.whole.values() if pattern.search(one)]

    def key_words(self, text: str) -> frozenset[str]:
        """Return the words of a text, each as a key of all its forms."""
        return frozenset(self.list_keys(text))

    def list_keys(self, text: str) -> list[str]:
        """Return the keys of the words of a text, in its order."""
        return [*self._words_in(text, set(), ",")]

    def words_of_sentence(self, at: int) -> frozenset[str]:
        """Return the words of the sentence of a clause."""
        first = self.sentences[at]
        if first not in self._of_sentence:
            places = takewhile(lambda one: self.sentences[one] == first, range(at, len(self.words)))
            before = takewhile(lambda one: self.sentences[one] == first, range(at, -1, -1))
            found = (self.words[one] for one in (*before, *places))
            self._of_sentence[first] = frozenset[str]().union(*found)
        return self._of_sentence[first]

    def has(self, pattern: re.Pattern[str], at: int) -> bool:
        """Return whether the sentence of a clause has a pattern."""
        key = pattern, self.sentences[at]
        if key not in self._found:
            self._found[key] = pattern.search(self.whole[self.sentences[at]]) is not None
        return self._found[key]

    def _words_in(self, part: str, lower: set[str], before: str) -> Iterator[str]:
        """Yield the content words of a part of a sentence, each as a key of all its forms."""
        for word in _WORD.findall(part):
            told = word.casefold()
            if told in self._user:
                yield USER
            elif told[0].isdigit():
                yield _GROUPS.sub("", told).replace(",", ".")
            elif is_wide(told):
                yield from self._wide_words(told)
            elif _DENIES.match(told):
                if told not in _ELSEWHERE or f"{told} {_ELSEWHERE[told]}" in part.casefold():
                    yield NO
            elif key := class_of(told, word) or _number_of(told):
                yield key
            elif _is_content_word(told):
                yield (head := told.removesuffix("s")[:_HEAD])
                (lower if word[0].islower() else self.names).add(head)
                self._note_place(head, word, before)
            before = told

    def _note_place(self, head: str, word: str, before: str) -> None:
        """Note whether a word follows an article, or is a name within a sentence."""
        if before in DETERMINERS:
            self._determined.add(head)
        elif before and word[0].isupper():
            self._inside.add(head)

    def _wide_words(self, run: str) -> Iterator[str]:
        """Yield the pairs of characters in a run of Chinese, and what they stand for."""
        for part in _WIDE_SIGN.split(run):
            yield from map(add, part, part[1:])
        if _USER_WIDE[self._user].search(run):
            yield USER
        yield from (WIDE_SIGNS[one] for one in _WIDE_SIGN.findall(run))
        if _DENIES_WIDE.search(run):
            yield NO


def _number_of(word: str) -> str:
    return str(NUMBER_WORDS[word]) if word in NUMBER_WORDS else ""


def _is_content_word(word: str) -> bool:
    is_light = word in TITLES or word in IGNORED or _LIGHT.match(word)
    return len(word) > 2 and not is_light


class _Neighbours:
    """The words that share a clause with a word, of those that two texts have in common."""

    def __init__(self, clauses: Clauses, common: Set[str]) -> None:
        self.clauses = clauses
        self.common, self._of = common, dict[str, dict[str, list[int]]]()

    def of(self, word: str) -> Mapping[str, list[int]]:
        """Return the neighbours of a word, each with the places of the shared clauses."""
        if word not in self._of:
            found = self._of[word] = {}
            for place in self.clauses.places[word]:
                for other in self.clauses.words[place] & self.common:
                    found.setdefault(other, []).append(place)
        return self._of[word]

    def have_one_with(self, both: tuple[str, str], of: tuple[str, str]) -> bool:
        """Return whether a clause has two words; if they have numbers, together with one of
        these."""
        places = self.of(both[0]).get(both[1], ())
        if not (of[0][0].isdigit() and of[1][0].isdigit()):
            return bool(places)
        return any(not self.clauses.words[at].isdisjoint(of) for at in places)

    def are_in_one_without(self, word: str, other: str, third: str) -> bool:
        """Return whether a sentence has the first two words and not the third."""
        of = self.clauses.sentences
        some, others, thirds = (
            {of[at] for at in self.clauses.places[one]} for one in (word, other, third)
        )
        return bool((some & others) - thirds)


def find_exchanged(told: Clauses, said: Clauses) -> list[str]:
    """Return the clauses of the source whose words a text has exchanged."""
    if said.is_turned_round:
        return []
    common = said.places.keys() & told.places.keys()
    here, there = _Neighbours(said, common), _Neighbours(told, common)
    moved, names, found = _find_moved(here, there), said.names | told.names, dict[str, None]()
    for (a, b), first in moved.items():
        if a > b or not (second := moved.get((b, a))):
            continue
        for x, y, at in _near(first, second):
            if len(found) >= _MOST_FOUND:
                return list(found)
            if not _are_alike((a, b), (x, y), names) or any(
                of.have_one_with((x, y), (a, b)) for of in (here, there)
            ):
                continue
            if not (here.are_in_one_without(x, b, a) or here.are_in_one_without(y, a, b)):
                found[said.texts[at].strip()] = None
    return list(found)


def _find_moved(
    here: _Neighbours, there: _Neighbours
) -> Mapping[tuple[str, str], Mapping[str, Sequence[int]]]:
    """Return for pairs of words the neighbours of the first in the source alone, and of the second
    in the text alone, each with its places in the source."""
    moved = defaultdict[tuple[str, str], dict[str, Sequence[int]]](dict)
    for word in here.common:
        is_rare = len(here.clauses.places[word]) <= _RARE
        if word != USER and not (is_rare and len(there.clauses.places[word]) <= _RARE_TOLD):
            continue
        given = [one for one in there.of(word) if one not in here.of(word)]
        taken = [one for one in here.of(word) if one not in there.of(word)] if given else []
        for of, to in product(taken, given):
            if not (to in here.of(of) or to in there.of(of)):
                moved[of, to][word] = here.of(word)[of]
    return moved


def _near(
    first: Mapping[str, Sequence[int]], second: Mapping[str, Sequence[int]]
) -> Iterator[tuple[str, str, int]]:
    """Yield pairs of words of both in neighbouring clauses, with the place of the first word."""
    at = defaultdict[int, list[str]](list)
    for word, places in second.items():
        for place in places:
            at[place].append(word)
    for word, places in first.items():
        near = ((p, other) for p in places for q in range(p - _NEAR, p + _NEAR) for other in at[q])
        for other, place in {other: place for place, other in near if other != word}.items():
            yield word, other, place


def _are_alike(these: tuple[str, str], those: tuple[str, str], names: Set[str]) -> bool:
    """Return whether two pairs may be exchanged: one of numbers or names, or both of words."""
    kinds = [{_kind_of(one, names) for one in pair} for pair in (these, those)]
    if any("user" in kind for kind in kinds):
        return {"user", "name"} in kinds
    return any(kind in ({"number"}, {"name"}) for kind in kinds)


def _kind_of(word: str, names: Set[str]) -> str:
    if word in (NO, USER):
        return "no" if word == NO else "user"
    if word[0].isdigit():
        return "number"
    return "name" if word in names or is_wide(word) else "word"


_RARE_WORD = 12  # maximum of clauses of a source with a word that is looked up
_LEAST = 2


def find_alike(
    words: Set[str], said: Clauses, least: int = _LEAST
) -> Iterator[tuple[int, frozenset[str]]]:
    """Yield the places of the clauses that share at least so many of these words, besides a
    denial, each with the shared ones."""
    own = frozenset(words) - {NO, USER}
    places = {place for word in own for place in _rare_places(word, said)}
    for place in sorted(places):
        shared = own & said.words[place]
        if len(shared) >= least:
            yield place, shared


def _rare_places(word: str, said: Clauses) -> list[int]:
    places = said.places.get(word, [])
    return places if len(places) <= _RARE_WORD else []
