"""Exceptions that a summary drops or turns round, and refusals that it tells as consent. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memory.patterns import lazy
from memory.text.request_signs import asks
from memory.text.wording import is_wide, shared, split_sentences, stems

_LOOKED_AT = 1_000
_MOST = 20
_ALIKE = 0.5
_EXCEPT = lazy(
    r"\b(?:unless|except(?: (?:for|on|in|if|when))?|apart from|ausser|außer|es sei denn"
    r"|abgesehen von|only (?:if|when|once|after)|nur,? (?:wenn|falls|nachdem))\b|除非|除了",
    re.IGNORECASE,
)
_ONLY_IF = lazy(
    r"\b(?:only|if|when|once|until|as long as|provided|excepted|exceptions?|exclud\w{1,3}|without"
    r"|ohne|otherwise|but"
    r"|other than|with the exception|others?|bis auf(?! weiteres)|lediglich|andere\w?|übrige\w?"
    r"|must|first|before(?:hand)?|after|following|depends"
    r"|muss|müssen|vorher|zuvor|erst|nach|bevor|braucht|nur|wenn|falls|sofern|solange|ausnahmen?|ausschließlich|ausgenommen|sonst)\b"
    r"|如果|若|只|先|必须|须|得|前|不[^，。]{0,4}的话|否则|例外|其他|其余",
    re.IGNORECASE,
)
_NO = lazy(
    r"\b(?:not?|never|nobody|nothing|none|cannot|nicht|nie|niemals|niemand|kein\w{0,2}|nichts)\b|n['’]t\b|[不没别无]",
    re.IGNORECASE,
)
_REFUSES = lazy(
    r"\b(?:sa(?:id|ys) no|refus\w{1,4}|declin\w{1,4}|reject\w{0,3}|turned (?:\w+ ){0,2}down"
    r"|(?:did|do|does|would|has|have)(?: not|n['’]t)"
    r" (?:agree\w?|accept\w{0,2}|approve\w?|grant\w{0,2})"
    r"|abgelehnt|lehnt\w{0,2}|verweiger\w{1,2}|abgesagt"
    r"|nicht (?:zu(?:ge)?stimm\w{1,2}|zugesagt|genehmigt|bewilligt|angenommen|einverstanden))\b"
    r"|拒绝|没有?(?:答应|同意|批准|接受)|不(?:答应|同意|批准|接受)",
    re.IGNORECASE,
)
_AGREES = lazy(
    r"\b(?:agree[sd]?|accept(?:s|ed)?|approve[sd]?|sa(?:id|ys) yes|grant(?:s|ed)?|confirm(?:s|ed)?"
    r"|zugestimmt|zugesagt|stimmte? zu|genehmigt|bewilligt|angenommen|einverstanden)\b"
    r"|答应|同意|批准|接受",
    re.IGNORECASE,
)


_IF = lazy(
    r"\bif\b(?! (?:you|possible|needed|necessary|not|so|that|at all|any)\b)|\bin case\b(?! of)"
    r"|\b(?:falls|wenn|sofern)\b(?! (?:sie|du|möglich|nötig|es geht)\b)"
    r"|如果|要是|假如|万一|若(?!干)",
    re.IGNORECASE,
)
_NO_CAUSE = lazy(
    r"\b(?:no|not|nothing|without|nicht|kein\w{0,2}|nichts|ohne)\b[^.;]{0,60}[,:：→]|[不没未无][^。；]{0,20}[，,:：]",
    re.IGNORECASE,
)
_END_OF_IF = lazy(r"[,，;；:]|\b(?:then|dann)\b|[就则]")
_DEPENDS = lazy(
    r"\b(?:if|when|once|as soon as|unless|until|only|except|else|otherwise|whether|subject to"
    r"|depend\w*|in case|in the event|plan b|possibly|perhaps|may|might|could|would|provided"
    r"|as long as|condition\w*|solange|vorausgesetzt|bedingung|unter der|bis auf"
    r"|falls|wenn|sofern|sobald|erst|nur|sonst|ansonsten|ob|hängt|abhängig|bei|eventuell"
    r"|vielleicht|würde|außer|es sei denn)\b|->|→"
    r"|如果|要是|假如|若|一旦|否则|取决|看|则|可能|视|是否|只|才|就|的话|[有没]问题",
    re.IGNORECASE,
)
_CLAUSE = lazy(r"[;；，。]|,(?!\d)|\b(?:and|und)\b")
_ORDERS = lazy(r"\b\w{2,20}e?n Sie\b|\b(?:please|bitte)\b|[请帮]", re.IGNORECASE)
_TWO = 2  # words of a clause
_OF_EFFECT = 0.6
GE = lazy(
    r"\b(ab|an|auf|aus|bei|ein|mit|nach|vor|weg|zu|zurück|)ge(?=\w{3,12}(?:t|en)\b)", re.IGNORECASE
)


class Condition(NamedTuple):
    """A statement that holds on a condition: the words of both, and its sentence."""

    cause: frozenset[str]
    effect: frozenset[str]
    text: str


class StatedException(NamedTuple):
    about: frozenset[str]
    unless: frozenset[str]
    is_denied: bool
    text: str


class Refusal(NamedTuple):
    about: frozenset[str]
    text: str


def find_exceptions(said: Sequence[str]) -> list[StatedException]:
    """Return the statements with an exception in a person's messages."""
    found = list[StatedException]()
    for message in said:
        looked_at = message[:_LOOKED_AT]
        for one in split_sentences(looked_at) if _EXCEPT.search(looked_at) else ():
            sign = _EXCEPT.search(one)
            if sign and not one.endswith(("?", "？")):
                what, but = one[: sign.start()], one[sign.end() :]
                about, unless = frozenset(stems(what)), frozenset(stems(but))
                if about - unless and unless - about:
                    is_denied = bool(_NO.search(what))
                    found.append(StatedException(about - unless, unless - about, is_denied, one))
    return found[-_MOST:]


def find_unconditional(text: str, exceptions: Sequence[StatedException]) -> list[str]:
    """Return the statements whose exception a text drops or turns round."""
    sentences = [(one, stems(one)) for one in (split_sentences(text) if exceptions else ())]
    everything = frozenset[str]().union(*(words for _, words in sentences))
    found = []
    for known in exceptions:
        least = max(min(2, len(known.about)), _ALIKE * len(known.about))
        for one, words in sentences:
            if len(shared(known.about, words)) < least:
                continue
            sign = _EXCEPT.search(one)
            if sign is None:
                is_told = shared(known.unless, words) or not shared(known.unless, everything)
                is_wrong = bool(is_told) and not (_ONLY_IF.search(one) or _mentions(known, text))
            else:
                but = shared(known.unless, stems(one[sign.end() :]))
                is_wrong = (
                    bool(but) and bool(_NO.search(one[: sign.start()])) is not known.is_denied
                )
            if is_wrong:
                found.append(known.text)
                break
    return found


def find_conditions(said: Sequence[str]) -> list[Condition]:
    """Return the conditional statements in a person's messages whose condition no later message
    states."""
    found = list[Condition]()
    for message in said:
        looked_at = message[:_LOOKED_AT]
        if not (found or _IF.search(looked_at)):
            continue
        for one in split_sentences(looked_at):
            sign = _IF.search(one)
            if sign is None:
                words = _stems(one)
                found = [known for known in found if not _is_stated(known.cause, words)]
            elif not (one.endswith(("?", "？")) or _is_order(one) or _EXCEPT.search(one)):
                end = _END_OF_IF.search(one, sign.end())
                cause = _stems(one[sign.end() : end.start() if end else len(one)])
                effect = _stems(one[: sign.start()] + (one[end.end() :] if end else ""))
                if cause and len(effect) >= _TWO:
                    found.append(Condition(frozenset(cause), frozenset(effect - cause), one))
                    found = found[-_MOST:]
    return found


def find_unconditioned(text: str, conditions: Sequence[Condition]) -> list[str]:
    """Return the conditional statements of which a text tells the condition as a fact, or the rest
    without the condition."""
    sentences = split_sentences(text) if conditions else ()
    depends = [(one, _stems(one), bool(_DEPENDS.search(one))) for one in sentences]
    denied = [words for one, words, _ in depends if _NO_CAUSE.search(one)]
    flat = [
        (part, _stems(part))
        for one, _, is_open in depends
        if not is_open
        for part in _CLAUSE.split(one)
    ]
    found = []
    for known in conditions:
        if any(is_open and _is_near(known, words) for _, words, is_open in depends):
            continue
        if any(shared(known.cause, words) and shared(known.effect, words) for words in denied):
            continue  # "no reply by Friday: we ask Tom"
        both = (words for part, words in flat if is_wide(part) and known.effect & words)
        if any(_is_stated(known.cause, words) for words in both):
            continue  # in Chinese, a condition needs no word for it
        if any(_is_stated(known.cause, words) or _is_of(words, known.effect) for _, words in flat):
            found.append(known.text)
    return found


def _is_order(sentence: str) -> bool:
    """Return whether a sentence asks the bot for something: its condition is a time."""
    return asks(sentence) or _ORDERS.search(sentence) is not None


def _is_near(known: Condition, words: set[str]) -> bool:
    """Return whether a sentence that states some condition may be about this one."""
    return bool(shared(known.cause, words)) or len(shared(known.effect, words)) >= _TWO


def _stems(text: str) -> set[str]:
    return stems(GE.sub(r"\1", text))


def _is_stated(cause: frozenset[str], words: set[str]) -> bool:
    """Return whether a text states a condition."""
    return len(cause) >= _TWO and len(shared(cause, words)) >= max(_TWO, _ALIKE * len(cause))


def _is_of(words: set[str], effect: frozenset[str]) -> bool:
    """Return whether most words of a clause are of what depends on a condition."""
    least = _TWO * (1 + any(map(is_wide, words)))
    both = shared(words, set(effect) | {one[:4] for one in effect})
    is_all = len(both) == len(effect) > _TWO
    return is_all or len(both) >= max(least, _OF_EFFECT * len(words))


def find_refusals(said: Sequence[str]) -> list[Refusal]:
    """Return the sentences in which somebody refuses something that nobody agrees to."""
    refused, agreed = list[Refusal](), set[str]()
    for message in said:
        for one in split_sentences(message[:_LOOKED_AT]):
            if _REFUSES.search(one):
                refused.append(Refusal(frozenset(stems(_REFUSES.sub(" ", one))), one))
            elif _AGREES.search(one):
                agreed |= stems(one)
    return [one for one in refused if not one.about & agreed][-_MOST:]


def find_consent(text: str, refusals: Sequence[Refusal]) -> list[str]:
    """Return the refusals that a text tells as consent."""
    return [*_consents(text, refusals)] if refusals else []


def _consents(text: str, refusals: Sequence[Refusal]) -> Iterator[str]:
    sentences = (one for one in split_sentences(text) if _AGREES.search(one))
    agreeing = [one for one in sentences if not _REFUSES.search(one)]
    for known in refusals:
        for one in agreeing:
            both = shared(known.about, stems(_AGREES.sub(" ", one)))
            if len(both) >= max(1, min(2, len(known.about) - 1)):
                yield known.text
                break


def _mentions(known: StatedException, text: str) -> bool:
    """Return whether another sentence of a text has the condition, as one."""
    return any(
        shared(known.unless, stems(one)) and (_ONLY_IF.search(one) or _EXCEPT.search(one))
        for one in split_sentences(text)
    )
