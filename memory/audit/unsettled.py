"""Things that a summary tells as decided, although the source rejected them, or left them open:
"chose Kingsley" if Hartwell was taken, "decided on the shoes" if the assistant only proposed them.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from itertools import pairwise
from typing import NamedTuple

from memory.audit.conditions import GE
from memory.audit.denied import DENIES
from memory.audit.exchanged import NO, USER, Clauses
from memory.patterns import lazy
from memory.text.wording import is_wide, split_sentences

_LOOKED_AT = 600  # characters of a message, and of a reply
_MOST, _MOST_FOUND = 40, 4
_LEAST = 0.5  # the share of the words of an option
_SHARED = 2  # words of an open matter; pairs of characters count half
_CLAUSES = lazy(r"[;；，。、]|,(?!\d)|\b(?:and|but|und|aber|because|since|weil|denn)\b|而不是|因为")
_CHOOSES = lazy(
    r"\b(?:(?:we|i|user|they)(?: will|['’]ll)? (?:take|keep|use|book)s?|took|choos\w*|chose\w?"
    r"|choice|go(?:ing)? with|went with"
    r"|pick(?:ed|s)?|decided (?:for|on|to)|decision|selected|booked"
    r"|stay(?:s|ed|ing)? (?:with|on|at)|stick with|instead|settled on"
    r"|nehm\w*|nahm\w*|genommen|entsch\w+|wahl|gewählt|wählte?n?|bleib\w+ bei|gebucht)\b"
    r"|[选用住刷买]|决定|还是",
    re.IGNORECASE,
)
_REJECTS = lazy(
    r"\b(?:considered|thought (?:of|about)|dropped|ruled out|against"
    r"|not (?:worth|good)|terrible|awful|too \w+|reject\w*|instead of|rather than|überlegt"
    r"|verworfen|zu \w{3,16}|abgelehnt|schlecht\w*"
    r"|dagegen|schrecklich\w*)\b|太|考虑过?|本来|原来想|不好|差评|放弃",
    re.IGNORECASE,
)
_OPEN = lazy(
    r"\b(?:whether|not (?:yet )?(?:sure|decided|confirmed)|unsure|undecided"
    r"|(?:has|have)n['’]t (?:decided|confirmed|replied)"
    r"|still open|think about it|think it over|up in the air|ob\b(?=[^.]{0,60}\b(?:wissen"
    r"|weiß|offen|unklar))"
    r"|noch (?:nicht|offen|unklar)|weiß (?:ich )?(?:noch )?nicht|unsicher|überleg\w*"
    r"|entscheidet|zweite meinung)\b"
    r"|[还没]没?(?:定|想好|决定|确定)|待定|再想想|再考虑|考虑一下|再说|等您的决定",
    re.IGNORECASE,
)
_IT = lazy(r"\b(?:it|that|this|they|them|das|es|dies\w{0,2})\b|[这那它]", re.IGNORECASE)
_DECIDED = lazy(
    r"\b(?:decided|decision|agreed|confirmed|approved|accepted|bought|chose\w?|booked"
    r"|will (?:be bought|buy|take|come)"
    r"|w(?:ird|erden) (?:[^\s.,;]{1,20} ){0,3}\w{0,8}(?:ge|ver|be|ent)\w{2,12}(?:t|en)"
    r"|entschieden|beschlossen|zugestimmt|zugesagt|bestätigt|gewählt|genehmigt)\b"
    r"|决定|同意|确定|定了|确认",
    re.IGNORECASE,
)
_LEFT_OPEN = lazy(
    rf"{_OPEN.pattern}|\b(?:if|until|once|when|should|suggest\w*|propos\w*|recommend\w*|advis\w*|assistant|consider\w*|open"
    r"|perhaps|maybe|wenn|falls|sobald|bis|vorgeschlagen|vorschl\w*|empf\w+|riet|assistent\w*|offen|vielleicht"
    r"|entscheide[nt])\b|[?？]|助手|建议|可能|如果|是否|[等待没未]",
    re.IGNORECASE,
)


class Rejected(NamedTuple):
    """The words of an option that was rejected, those of the one taken, and the sentence."""

    words: frozenset[str]
    taken: frozenset[str]
    text: str


class Unsettled(NamedTuple):
    """The words of a matter that is open, and the sentence that says so."""

    words: frozenset[str]
    text: str


def find_options(said: Sequence[tuple[str, str]], clauses: Clauses) -> list[Rejected]:
    """Return the options that a person's message rejects for another one, which it names."""
    found = []
    for message, _reply in said:
        looked_at = message[:_LOOKED_AT]
        if not (_CHOOSES.search(looked_at) and _REJECTS.search(looked_at)):
            continue
        parts = [one for whole in split_sentences(looked_at) for one in _CLAUSES.split(whole)]
        taken = [one for one in parts if _CHOOSES.search(one) and not _REJECTS.search(one)]
        words = _words(clauses, _CHOOSES, *taken)
        for before, part in pairwise(["", *parts]):
            if words and _REJECTS.search(part) and not part.endswith(("?", "？")):
                meant = (part, before) if _IT.search(part) else (part,)  # "but I'm against it"
                others = _words(clauses, _REJECTS, *meant) - words
                if others := frozenset(one for one in others if _is_rival(one, words, clauses)):
                    found.append(Rejected(others, words, part.strip()))
    return found[-_MOST:]


def _is_rival(word: str, taken: Set[str], clauses: Clauses) -> bool:
    """Return whether a sentence beside the one that chooses has a word with one of the option
    taken."""
    of = clauses.sentences
    places = {of[at] for at in clauses.places.get(word, ())}
    return any(places & {of[at] for at in clauses.places.get(one, ())} for one in taken)


def _words(clauses: Clauses, without: re.Pattern[str], *parts: str) -> frozenset[str]:
    found = (clauses.key_words(without.sub(" ", one)) for one in parts)
    return frozenset[str]().union(*found) - {NO, USER}


def find_chosen(told: Clauses, rejected: Sequence[Rejected]) -> list[str]:
    """Return the sentences that reject what a text tells as chosen."""
    found = dict[str, None]()
    for at, text in enumerate(told.texts) if rejected else ():
        if DENIES.search(text) or _REJECTS.search(text):
            continue
        words, chooses = told.words[at], _CHOOSES.search(text)
        for one in rejected:
            if not chooses and not told.places.keys().isdisjoint(one.taken):
                continue
            share = len(words & one.words) / len(one.words)
            if share >= _LEAST and share > len(words & one.taken) / len(one.taken):
                found[one.text] = None
    return [*found][:_MOST_FOUND]


def find_unsettled(said: Sequence[tuple[str, str]], clauses: Clauses) -> list[Unsettled]:
    """Return the matters that a person leaves open, and of which no later turn says that they are
    decided. What they are about may be said in the turn before."""
    found = list[Unsettled]()
    for before, (message, reply) in pairwise([("", ""), *said]):
        looked_at = message[:_LOOKED_AT]
        if found and _DECIDED.search(looked_at):
            words = clauses.key_words(looked_at)
            found = [one for one in found if _count_words(words & one.words) < _SHARED]
        if not _OPEN.search(f"{looked_at} {reply[:_LOOKED_AT]}"):
            continue
        for one in split_sentences(looked_at):
            if _OPEN.search(one) and not one.endswith(("?", "？")):
                topic = _words(clauses, _OPEN, one)
                if _count_words(topic) <= _SHARED or _IT.search(one):
                    topic |= _words(
                        clauses, _OPEN, looked_at, *(text[:_LOOKED_AT] for text in before)
                    )
                found.append(Unsettled(topic, one))
    return found[-_MOST:]


def _count_words(words: Set[str]) -> float:
    return sum(0.5 if is_wide(one) else 1 for one in words)


def find_decided(told: Clauses, unsettled: Sequence[Unsettled]) -> list[str]:
    """Return the sentences that leave open what a text tells as decided."""
    found = dict[str, None]()
    for at, text in enumerate(told.texts) if unsettled else ():
        if not _DECIDED.search(text) or DENIES.search(text) or _LEFT_OPEN.search(text):
            continue
        words, own = told.words[at], told.key_words(_DECIDED.sub(" ", text)) - {NO, USER}
        words |= told.key_words(GE.sub(r"\1", text))
        if _count_words(words) <= _SHARED:
            words |= told.words_of_sentence(at)
        for one in unsettled:
            is_all = is_wide(text) and bool(own) and own <= one.words
            if is_all or _count_words(words & one.words) >= _SHARED:
                found[one.text] = None
    return [*found][:_MOST_FOUND]
