"""Rejected things that a summary presents as agreed, and lasting orders that it omits. Pure.

A thing is rejected if a message and its reply both deny it: "no hike, my knee hurts", "All right,
no hike".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice, product

from memory.audit.made_up_orders import Ban, list_stems
from memory.patterns import lazy
from memory.text.wording import is_wide, shared, split_sentences, stems

_LOOKED_AT = 1_000  # characters of a message, and of a reply, that are checked
_REPLY = 160  # characters of a reply that repeats an order
_MOST = 20
_CLAUSES = lazy(r"[;；，。:：]|,(?!\d)|\b(?:but|just|because|since|aber|weil|denn|sondern)\b|因为")
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
        looked_at = message[:_LOOKED_AT]
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
            found = dict.fromkeys([*found][-_MOST:])
    return [*found]


def find_affirmed(text: str, rejected: Sequence[frozenset[str]]) -> list[str]:
    """Return the sentences of a text that have the words of a rejected thing and deny nothing."""
    sentences = split_sentences(text) if rejected else []
    return [one for one in sentences if any(_is_affirmed(words, [one]) for words in rejected)]


def find_orders(said: Iterable[tuple[str, str]], bans: Sequence[Ban]) -> list[Order]:
    """Return the lasting orders of a person, each with the stems of its topic."""
    forbidden, found = {one.text for one in bans}, list[Order]()
    for message, reply in said:
        looked_at = message[:_LOOKED_AT]
        if not (forbidden or _HOLDS.search(looked_at)):
            continue
        for one in split_sentences(looked_at):
            if (one in forbidden or _HOLDS.search(one)) and not one.endswith(("?", "？")):
                found.append((one, list_stems(f"{one} {reply[:_REPLY]}")))
    return [one for one in found if one[1]][-_MOST:]


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
        for sentence in split_sentences(text[:_LOOKED_AT])
        if not sentence.endswith(("?", "？"))
        for clause in _CLAUSES.split(sentence)
        if _TURNS_DOWN.search(clause) and not UNLESS.search(clause)
    )
    return [stems(_TURNS_DOWN.sub(" ", clause)) for clause in islice(clauses, _MOST)]


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
