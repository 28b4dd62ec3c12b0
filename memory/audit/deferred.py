"""Deeds that a person puts off until something happens, and that a summary tells as done, or as to
be done at once. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import NamedTuple

from memory.patterns import lazy
from memory.text.request_signs import DEED, DONE, asks
from memory.text.wording import is_wide, shared, split_sentences, stems

_LOOKED_AT = 600  # characters of a message, and of a reply
_MOST = 20
_HEAD = 4
_PUTS_OFF = lazy(
    r"\b(?:wait(?:s|ing)? (?:with|until|till|before|for)|hold (?:off|back|it)|not yet"
    r"|(?:don['’]t|do not|not|nothing|nobody)\b[^.;]{0,60}\b(?:yet|before|until|unless)"
    r"|only (?:once|when|after|if)|as soon as|remind me)\b"
    r"|\b(?:warte[nt]?|noch nicht|noch kein\w{0,2}|erst,? (?:wenn|nachdem|sobald|muss|soll|nach)"
    r"|nicht (?:bevor|ehe)|erinner\w{0,3})\b"
    r"|\b(?:still (?:missing|open|to (?:do|come))|fehlt noch|steht noch aus)\b"
    r"|还没|还未|尚未|[明后][天早晚][^，。！？]{0,4}再|先别|先不|暂时?[别不]|等[^，。！？]{1,20}再|[后了完]再|提醒|别急",
    re.IGNORECASE,
)
_TELLS = lazy(
    r"\b(?:was|were|has been|have been|had been|is|are|got|has|have"
    r"|can be|may be|will be|should be)"
    r"(?: (?:now|already|also|been|just))?"
    r"\s(?P<en>\w{2,14}(?:ed|en|wn|ne)|sent|bought|paid|told|made|sold|built|spent|held)\b"
    r"|\b(?:user|i|we|(?-i:[A-Z][a-z]{1,20}))\s(?P<by>\w{2,14}ed|sent|bought|paid|told|made|sold|wrote)\b"
    r"|\b(?:wurden?|ist|sind|worden|hat|habe[nt]?|hast|kann|können|darf|soll)\b"
    r"(?:\s(?:\d{1,2}\.|[^\s.,;]{1,24})){0,6}?\s(?P<de>\w{0,12}ge\w{3,12}(?:t|en))\b"
    r"|(?:已经?|可以)(?:[给把向为][^，。；]{1,6})?(?P<zh>(?-i:[\u4e00-\u9fff]))|(?P<le>(?-i:[\u4e00-\u9fff]))(?:出|好|完)?了(?=$|[，。；])",
    re.IGNORECASE,
)
_CLAUSES = lazy(r"[;；，。]|,(?!\d)|\b(?:and|but|und|aber)\b")
_NO = lazy(
    r"\b(?:not|n['’]t|never|no|nicht|noch|kein\w{0,2}|nie)\b|n['’]t\b|[不没未等待再才]|之后"
    r"|\b(?:to be|zu)\b"
    r"|\b(?:once|until|till|when|after|before|if|unless|only|later|wait\w*"
    r"|sobald|wenn|erst|bis|nach|später|falls|offen|open)\b",
    re.IGNORECASE,
)
_DONE_AFTER = lazy(
    r"(\b(?:was|were|has been|have been) \w+(?: [^\s.,;]+){0,4}?) (?:after|when|once)\b",
    re.IGNORECASE,
)
"""A deed that was done after another one, which is done too."""
_IRREGULAR = """
sent send bought buy paid pay told tell wrote writ written writ made make given give sold sell
chosen choo taken take shown show begun begi built buil spent spen got get held hold hung hang
"""
_FORMS = _IRREGULAR.split()
_PAST = dict(zip(_FORMS[::2], _FORMS[1::2], strict=True))
"""Beginnings of verbs, by past participles."""


_BOUGHT = lazy(r"[\u4e00-\u9fff]了[\d一两三四五六七八九十]")
_ANY_DEED = lazy(r"(?:carried|performed|completed|finished|done|durchgeführt|erledigt|gemacht)\Z")
"""Deeds of any kind,"""
_LEAST_OF_ANY = 2  # words of which a text shares with what was put off
_MOST_PLANNED = 400
_STATES = frozenset(
    ("planned", "geplant", "scheduled", "vereinbart", "written", "needed", "limited")
)
_MODAL = lazy(
    r"\b(?:can|may|will|should|shall|must|needs?|soll\w*|kann|können|darf|dürfen|muss|müssen|wird|werden)\b",
    re.IGNORECASE,
)
_DAY = lazy(r"\b(?:on|by|am|bis|um) (?=\d)|\bnach (?=\w)", re.IGNORECASE)
_PLANS = lazy(
    r"\b(?:will|wants? to|wanted to|plan(?:s|ned)? to|going to|intends?|intend(?:s|ed)? to"
    r"|next (?:week|month|year)"
    r"|tomorrow|moved to|(?:on|by|until) (?:the )?(?:\d|(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
    r"|möchte|plant|planen|vorhaben|nächste[nrs]? (?:woche|monat|jahr)|morgen|bis zum"
    r"|(?:am|bis|ab) (?:\d|(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch))",
    re.IGNORECASE,
)


_OWN = lazy(r"(?:I(?:['’]ll| will|['’]m going to)|ich (?:werde|will))\b", re.IGNORECASE)
"""The beginning of what a person says about their own plan."""


class Planned(NamedTuple):
    """A sentence of the source: the beginnings of its words, its stems, and whether it is a
    plan."""

    words: frozenset[str]
    about: frozenset[str]
    is_plan: bool
    text: str


class PutOff(NamedTuple):
    """A deed: the beginnings of the words of its sentences, those of what it may be about, and the
    sentence."""

    words: frozenset[str]
    about: frozenset[str]
    text: str


def find_put_off(said: Iterable[tuple[str, str]]) -> list[PutOff]:
    """Return the deeds that a person, or a reply, puts off and that no later turn reports."""
    found, before = list[PutOff](), ""
    for message, reply in said:
        asked, answered = message[:_LOOKED_AT], reply[:_LOOKED_AT]
        if found and any(one.pattern.search(answered) for one in (DEED, DONE)):
            told = stems(asked) | stems(answered)
            found = [one for one in found if len(shared(one.about, told)) < 2]
        if _PUTS_OFF.search(asked):
            about = frozenset(stems(f"{asked} {answered}"))
            for sentence in split_sentences(asked):
                if _PUTS_OFF.search(sentence) and not sentence.endswith(("?", "？")):
                    words = _words(f"{sentence} {answered}")
                    did = " ".join(filter(_is_done, _CLAUSES.split(f"{sentence};{answered}")))
                    near = about if len(stems(sentence)) > 3 else about | stems(before)
                    found.append(PutOff(words, frozenset(near - stems(did)), sentence))
        before = f"{asked} {answered}"
    return found[-_MOST:]


def find_told_as_done(text: str, put_off: Sequence[PutOff]) -> list[str]:
    """Return the deeds that were put off and that a text tells as done."""
    found = dict[str, None]()
    for sentence in split_sentences(text) if put_off else ():
        about = stems(sentence)
        for clause in _CLAUSES.split(sentence):
            if _NO.search(_DONE_AFTER.sub(r"\1", clause)):
                continue
            for deed in _deeds_in(clause):
                for one in put_off:
                    told = stems(clause) if is_wide(clause) else stems(clause) or about
                    told = {word for word in told if deed[:5] not in word[: 5 + is_wide(word)]}
                    least = _LEAST_OF_ANY if _ANY_DEED.match(deed) else 1
                    is_of = least > 1 or _is_of(deed, one.words)
                    if is_of and len(shared(one.about, told)) >= least:
                        found[one.text] = None
    return [*found]


def find_planned(said: Iterable[tuple[str, str]]) -> list[Planned]:
    """Return the newest sentences of turns, each with whether it is a plan: it gives a day or an
    intention, asks for nothing, and no reply reports that something was done."""
    found = list[Planned]()
    for message, reply in said:
        is_reported = DEED.pattern.search(reply[:_LOOKED_AT]) is not None
        for text, is_asked in ((message, True), (reply, False)):
            for one in split_sentences(text[:_LOOKED_AT]):
                is_request = asks(one) and not _OWN.match(one)
                plans = (
                    bool(_PLANS.search(one)) and not is_request and not one.endswith(("?", "？"))
                )
                is_plan = plans and not (is_asked and is_reported)
                found.append(Planned(_words(one), frozenset(stems(one)), is_plan, one))
    return found[-_MOST_PLANNED:]


def find_too_early(text: str, planned: Sequence[Planned]) -> list[str]:
    """Return the sentences that plan something which a text tells as done, and that the source
    tells only as a plan."""
    if not any(one.is_plan for one in planned):
        return []
    by_word, found = defaultdict[str, list[Planned]](list), dict[str, None]()
    for one in planned:
        for word in one.words:
            by_word[word].append(one)
    for clause in (part for one in split_sentences(text) for part in _CLAUSES.split(one)):
        if _NO.search(_DAY.sub(" ", clause)) or _MODAL.search(clause):
            continue
        for deed in _deeds_in(clause):
            if deed in _STATES or is_wide(deed):
                continue
            like = [one for word in _heads_of(deed) for one in by_word.get(word, ())][-_MOST:]
            if any(deed in one.text.casefold() for one in like):
                continue
            about = {word for word in stems(clause) if not _is_of(deed, {word[:_HEAD]})}
            of_it = [one for one in like if shared(one.about, about)]
            if of_it and all(one.is_plan for one in of_it):
                found[of_it[0].text] = None
    return [*found]


def _is_done(clause: str) -> bool:
    """Return whether a clause of a person's message tells a deed as done."""
    return bool(_TELLS.search(clause) or _BOUGHT.search(clause)) and not _NO.search(clause)


def _deeds_in(clause: str) -> Iterator[str]:
    for told in _TELLS.finditer(clause):
        yield (told["en"] or told["by"] or told["de"] or told["zh"] or told["le"]).casefold()


def _is_of(deed: str, words: Set[str]) -> bool:
    """Return whether a past participle is of one of these words."""
    if is_wide(deed):
        return deed in words
    return any(head in words for head in _heads_of(deed))


def _heads_of(deed: str) -> Iterator[str]:
    """Yield the beginnings of the verb of a past participle."""
    yield _PAST.get(deed, deed)[:_HEAD]
    _, _, stem = deed.rpartition("ge")
    if len(stem) > _HEAD - 1:
        yield stem[:_HEAD]


def _words(text: str) -> frozenset[str]:
    folded = text.casefold()
    found = {word[:_HEAD] for word in re.findall(r"[^\W\d_]{3,30}", folded)}
    return frozenset(found | {sign for sign in folded if is_wide(sign)})
