"""Things that a summary tells as decided, although the source rejected them, or left them open;
rejected things that it presents as agreed, and lasting orders that it omits. Pure.

A thing is rejected if a message and its reply both deny it: "no hike, my knee hurts", "All right,
no hike".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from itertools import islice, pairwise, product
from typing import NamedTuple

from memory.audit.conditions import GE
from memory.audit.exchanged import NO, USER, Clauses
from memory.audit.made_up_orders import Ban, list_stems
from memory.patterns import lazy
from memory.text.wording import is_wide, shared, split_sentences, stems

_MOST_READ = 1_000  # characters of a message, and of a reply, that are checked
_REPLY = 160  # characters of a reply that repeats an order
_MOST_ORDERS = 20
_PARTS = lazy(r"[;；，。:：]|,(?!\d)|\b(?:but|just|because|since|aber|weil|denn|sondern)\b|因为")
Order = tuple[str, set[str]]
_TURNS_DOWN = lazy(
    r"\b(?:not?|never|without|against|skip|drop|cancel|nicht|keine?[nmrs]?|nie|ohne|gegen"
    r"|considered|thought (?:of|about)|überlegt)\b"
    r"|n['’]t\b|[不没别无]|取消|放弃",
    re.IGNORECASE,
)
UNLESS = lazy(
    r"\b(?:unless|before|until|during|between|without (?:my|me|your|asking|approval)|except"
    r"|während|zwischen"
    r"|ohne (?:mich|mein\w*|dein\w*|ihre?\w*|dass)|ausser|bevor|bis|wenn)\b|除非|未经|之前|先|只",
    re.IGNORECASE,
)
"""Words of a clause that denies something only under a condition."""
DENIES = lazy(
    r"\b(?:not?|never|none|nothing|nobody|nor|neither|without|against|instead|rather|only|except|unless"
    r"|avoid\w*|skip\w*|drop\w*|cancel\w*|reject\w*|refus\w*|exclud\w*|declin\w*|scrap\w*|abandon\w*"
    r"|omit\w*|miss(?:es|ed|ing)?|absent|forgo\w*|ban\w*|forbid\w*|forbade|prohibit\w*|off|out|free|secret|confidential|too"
    r"|allerg\w*|vegetarian|vegan|intoleran\w*|clos\w*|wrong|mistak\w*|former\w*|originally|initially"
    r"|nicht|keine?[nmrs]?|nie|niemals|niemand\w*|nichts|ohne|gegen|statt(?!\s*(?:[.,;!?]|$))|nur|ausser|weg|aus|tabu"
    r"|abgesagt|fehlt|fehlen|gestrichen|entfäll\w*|entfallen|fällt|geschlossen|verzicht\w*|verworfen|abgelehnt|verbot\w*|untersagt"
    r"|vermeid\w*|vermieden|geheim\w*|unverträglich\w*|vegetar\w*|zunächst|zuerst|ursprünglich)\b"
    r"|n['’]t\b|frei\b|freie|allergi|[不没别无未免勿忌]|取消|放弃|排除|拒|过敏|禁|原|只|关",
    re.IGNORECASE,
)
_HOLDS = lazy(
    r"\b(?:always|from now on|at all times|every time|in future)\b"
    r"|\b(?:immer|stets|ab (?:jetzt|sofort)|künftig|grundsätzlich)\b"
    r"|以后都|以后每|永远|一律|总是|必须|务必",
    re.IGNORECASE,
)


_TELLING = 2  # words of an order in a sentence that tells it
_HEDGES = lazy(
    r"\b(?:usually|generally|normally|mostly|often|sometimes|ideally|preferabl[ey]|occasionally"
    r"|(?:if|where|when(?:ever)?) (?:possible|convenient|needed|necessary|appropriate)"
    r"|try to|tries to"
    r"|rarely|seldom|typically|optional(?:ly)?|as a rule|tends? to|in most cases)\b"
    r"|\b(?:in der regel|normalerweise|meist(?:ens)?|möglichst|wenn möglich"
    r"|nach möglichkeit|üblicherweise"
    r"|gelegentlich|manchmal|selten|gegebenenfalls|idealerweise|bei bedarf|eher|oft|häufig"
    r"|im allgemeinen)\b"
    r"|尽量|最好|一般(?!性)|通常|尽可能|有时|可能的话|偶尔|大多|多数|原则上|必要时|酌情",
    re.IGNORECASE,
)
"""Words that make an order hold only at times."""


def find_rejected(said: Iterable[tuple[str, str]]) -> list[frozenset[str]]:
    """Return the words of the things that turns (a message and its reply each) have rejected, and
    that no later message accepts."""
    found = dict[frozenset[str], None]()
    for message, reply in said:
        looked_at = message[:_MOST_READ]
        if found:
            words = stems(looked_at)
            if about := [one for one in found if one <= words]:
                sentences = split_sentences(looked_at)
                for one in about:
                    if _is_affirmed(one, sentences):
                        del found[one]
        if _TURNS_DOWN.search(looked_at) and (replied := _list_denied(reply)):
            both = (_in_both(*pair) for pair in product(_list_denied(looked_at), replied))
            found |= dict.fromkeys(filter(None, both))
            found = dict.fromkeys([*found][-_MOST_ORDERS:])
    return [*found]


def find_affirmed(text: str, rejected: Sequence[frozenset[str]]) -> list[str]:
    """Return the sentences of a text that have the words of a rejected thing and deny nothing."""
    sentences = split_sentences(text) if rejected else []
    return [one for one in sentences if any(_is_affirmed(words, [one]) for words in rejected)]


def find_orders(said: Iterable[tuple[str, str]], bans: Sequence[Ban]) -> list[Order]:
    """Return the lasting orders of a person, each with the stems of its topic."""
    forbidden, found = {one.text for one in bans}, list[Order]()
    for message, reply in said:
        looked_at = message[:_MOST_READ]
        if not (forbidden or _HOLDS.search(looked_at)):
            continue
        for one in split_sentences(looked_at):
            if (one in forbidden or _HOLDS.search(one)) and not one.endswith(("?", "？")):
                found.append((one, list_stems(f"{one} {reply[:_REPLY]}")))
    return [one for one in found if one[1]][-_MOST_ORDERS:]


def find_left_out(text: str, orders: Sequence[Order]) -> list[str]:
    """Return the orders that a text omits: no sentence has two of their words, or one together with
    a word that denies something or makes it last."""
    told = [
        (said | {word[:4] for word in said}, 2 - bool(DENIES.search(one) or _HOLDS.search(one)))
        for one in (split_sentences(text) if orders else ())
        for said in (stems(one),)
    ]
    return [
        order
        for order, about in orders
        if not any(len(shared(about, said)) >= least for said, least in told)
    ]


def find_weakened(text: str, orders: Sequence[Order]) -> list[str]:
    """Return the orders of which a text says only that they hold usually, or if possible."""
    told = [(one, stems(one)) for one in (split_sentences(text) if orders else ())]
    found = []
    for order, about in orders:
        least = _TELLING * (1 + is_wide(order))
        of_it = [one for one, said in told if len(shared(about, said)) >= least]
        if of_it and not _HEDGES.search(order) and all(map(_HEDGES.search, of_it)):
            found.append(order)
    return found


def _list_denied(text: str) -> list[set[str]]:
    """Return the stems of each clause that denies something."""
    clauses = (
        clause
        for sentence in split_sentences(text[:_MOST_READ])
        if not sentence.endswith(("?", "？"))
        for clause in _PARTS.split(sentence)
        if _TURNS_DOWN.search(clause) and not UNLESS.search(clause)
    )
    return [stems(_TURNS_DOWN.sub(" ", clause)) for clause in islice(clauses, _MOST_ORDERS)]


def _in_both(words: set[str], replied: set[str]) -> frozenset[str]:
    """Return the words that a message and its reply both deny: at least two, or the only word of
    the reply."""
    both = frozenset(shared(replied, words))
    return both if len(both) > 1 or (both and both == replied) else frozenset()


def _is_affirmed(words: frozenset[str], sentences: Sequence[str]) -> bool:
    return any(
        words <= said
        for sentence in sentences
        if not DENIES.search(sentence) and not sentence.endswith(("?", "？"))
        for said in (stems(sentence),)
    )


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
