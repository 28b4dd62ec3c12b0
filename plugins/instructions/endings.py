"""Messages that end or change an earlier order: "forget what I said about French", "you may write
to her again", "不用再提醒我了". Found without a model, by a cue and by words in common with the
order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from memory.corrections.corrected import apply_corrections
from memory.corrections.ended_values import EndedValue
from memory.corrections.finder import Correction, CorrectionFinder, may_correct
from memory.corrections.pairs import ParsedMessage
from memory.corrections.sentences import content_words
from memory.patterns import lazy
from plugins.instructions.detect import (
    UserSentence,
    language_of,
    mask_foreign_words,
    read_sentences,
    score,
)

_SCANNED = 4_000  # maximum characters of a message
_UNIQUE = frozenset(("name", "identifier", "address", "url", "path"))
_MOST = 3  # maximum orders that a sentence may end: the newest of those equally similar
_STEM = 4  # letters that inflected forms of a word share
_LIKE = 1 / 2  # minimum share of the words of the shorter text


class Ending(Struct, frozen=True):
    """A message that ends an order: the order's index, the position in the message, whether it is
    unambiguous, and the number of words that both share."""

    at: int
    start: int
    is_sure: bool
    shared: int


def find_endings(text: str, orders: Sequence[str]) -> list[Ending]:
    """Return the orders that a message ends, each once."""
    found: dict[int, Ending] = {}
    if not orders:
        return []
    for sentence in read_sentences(mask_foreign_words(text[:_SCANNED])):
        if sentence.is_question or not _MAY_END.search(sentence.text):
            continue
        endings = [*_find(sentence, orders)]
        most = max((ending.shared for ending in endings), default=0)
        likest = [ending for ending in endings if ending.shared == most]
        for one in likest[-_MOST:]:
            found.setdefault(one.at, replace(one, is_sure=one.is_sure and len(likest) == 1))
    return [*found.values()]


def find_rewordings(text: str, orders: Sequence[str]) -> dict[int, str]:
    """Return the orders of which a message corrects a value, by their indexes, with the corrected
    text."""
    said = mask_foreign_words(text[:_SCANNED])
    if not may_correct(said):
        return {}
    found, parsed = {}, ParsedMessage(said)
    for at, order in enumerate(orders):
        finder = CorrectionFinder()
        finder.note(order)
        if corrections := finder.find_in(parsed):
            parsed = ParsedMessage(said)  # it was changed
        ended = [
            EndedValue(one.old, one.new, 0, 0, one.topic, is_marked=False)
            for one in corrections
            if _is_of_order(one, order, said)
        ]
        if ended and (new := apply_corrections(order, ended)) != order:
            found[at] = new
    return found


def _is_of_order(one: Correction, order: str, said: str) -> bool:
    """Return whether a correction is about an order: they share words, or the correction names a
    value of a kind that is unique."""
    if not one.said.isdisjoint(content_words(order)):
        return one.is_certain or one.old.casefold() in said.casefold()
    return one.kind in _UNIQUE and one.old.casefold() in said.casefold()


def _find(sentence: UserSentence, orders: Sequence[str]) -> Iterator[Ending]:
    said, topic = sentence.text, _topic_of(sentence.text)
    is_order = bool(_ORDERS.search(said)) or score(sentence, language_of(said)) > 0
    is_negative = bool(_NEGATIVE.search(said))
    for at, order in enumerate(orders):
        about = _topic_of(order.casefold().replace("’", "'"))
        both = topic & about
        is_like = len(both) >= max(1, _LIKE * min(len(topic), len(about)))
        denies = bool(_NEGATIVE.search(order.casefold().replace("’", "'")))
        if both and _ENDS.search(said):
            yield Ending(at, sentence.start, is_like, len(both))
        elif not is_like:
            continue
        elif (denies and _LIFTS.search(said)) or (is_order and not denies and _STOPS.search(said)):
            yield Ending(at, sentence.start, True, len(both))
        elif is_order and not is_negative and not denies:
            if _AGAIN.search(said):
                yield Ending(at, sentence.start, True, len(both))
            elif _NOW.search(said) and (len(both) > 1 or both == topic):
                yield Ending(at, sentence.start, False, len(both))


def _topic_of(text: str) -> set[str]:
    """Return the words of a lower-case text that say what it is about; for Chinese, the pairs of
    characters."""
    words = {word[:_STEM] for word in _WORD.findall(text)} - _NO_TOPIC
    for run in _RUN.findall(_NO_TOPIC_SIGNS.sub(" ", text)):
        words |= {run[at : at + 2] for at in range(len(run) - 1)}
    return words


_WORD = lazy(r"[^\W\d_\u3400-\u9fff]{3,}")
_RUN = lazy(r"[\u3400-\u9fff]{2,}")
_NO_TOPIC_SIGNS = lazy(
    "以后|今后|从现在|从今|开始|不要再|不用再|不必再|别再|不要|不用|不必|不再|可以|还是|改回|改成|换成|恢复|取消|作废|忘掉|"
    "忘了|每次|每天|都|再|了|吧|的|我|你|请|给|把|用|在|要|别|不"
)
_WORDS_OF_NO_TOPIC = """
    the and but not for from with that this what when then than said told asked you your mine
    again instead never always please only just now on anymore more longer any every all each
    don doesn can may could should would will have need dont stop forget drop cancel revoke
    ignore rule rules order orders instruction about after before back fine okay allowed them they
    there here into one way are was did does let
    der die das den dem des und aber nicht für von mit vom zum zur was wenn dann als gesagt hab habe
    mir mich dir dich ich wieder statt stattdessen nie niemals immer bitte nur nun jetzt sofort
    mehr kein keine keinen alle jede jeder jedes darfst kannst musst brauchst vergiss streich regel
    regeln anweisung über nach vor doch auch noch soll sollst ein eine einen einem sein sind ist
    ohne ab
"""
_NO_TOPIC = frozenset(word[:_STEM] for word in re.findall(r"\S{3,}", _WORDS_OF_NO_TOPIC))

_NEGATIVE = lazy(
    r"\b(?:never|don't|dont|do not|no|not|avoid|without|nie|niemals|kein|keine|keinen|keinem|nicht|"
    r"ohne)\b|不|别|勿|禁止"
)
_ENDS = lazy(
    r"\b(?:forget|drop|cancel|revoke|scrap|ignore|lift|remove|delete|withdraw)\b.{0,60}\b(?:rules?"
    r"|orders?|instructions?|what i (?:said|told|asked|wanted)|i (?:said|told|asked))\b"
    r"|\bforget about\b|\bno longer (?:applies|apply|holds?|counts?|valid|needed)\b"
    r"|\b(?:rule|order|instruction)\b.{0,80}\b(?:off|over|ends|gone|no longer|any ?more"
    r"|doesn't apply)\b"
    r"|\b(?:vergiss|vergessen sie|streich\w*|lösch\w*|ignorier\w*|heb\w*|nimm)\b.{0,80}\b(?:regeln?"
    r"|anweisung|vorgabe|wunsch|gesagt|sagte|wollte|zurück)\b|\bvergiss das mit\b"
    r"|\b(?:regel|anweisung|vorgabe)\b.{0,80}\b(?:weg|aufgehoben|hinfällig|nicht mehr|vorbei)\b"
    r"|\bgilt nicht mehr\b|取消|作废|忘掉|忘了.{0,20}(?:规则|要求|那条|这条|的话)"
    r"|废除|撤销|收回|不算数|不用管"
)
_LIFTS = lazy(
    r"\b(?:you (?:may|can|could)|you(?:'re| are) allowed to|feel free to|it(?:'s| is) (?:ok|okay|"
    r"fine|alright)(?: now)? to)\b.*\b(?:again|now|after all|any ?way)\b"
    r"|\b(?:is|are) (?:now )?(?:fine|ok|okay|allowed|welcome)\b.*\b(?:again|now|after all)\b"
    r"|\b(?:darfst|kannst|dürft|könnt|dürfen|können)\b.*\b(?:wieder|doch|jetzt|nun|ruhig)\b"
    r"|\b(?:ist|sind)\b.*\b(?:wieder|jetzt|doch|nun)\b.*\b(?:ok|okay|erlaubt|in ordnung)\b"
    r"|可以.*了|又可以|允许.*了"
)
_ORDERS = lazy(
    r"^(?:please |pls |bitte )?(?:stop|quit|no more|don't|you|du|hör|(?:go|switch|change) back)\b"
    r"|\binstead$|\bstattdessen\b|\b(?:brauchst|musst)\b|^(?:请|以后)?(?:不用|不要|别|不必)再"
)
"""Forms of orders without a word of duration."""
_STOPS = lazy(
    r"\b(?:stop|quit)\b|\b(?:no longer|no more|any ?more|any longer)\b|\b(?:needn't|don't (?:have"
    r"|need) to)\b|\bnicht (?:mehr|länger)\b|\bkein\w*\b.*\bmehr\b|\bhör auf\b"
    r"|\b(?:brauchst|musst)\b.*\bnicht\b|不要再|别再|不用再|不必再|不再|停止|(?:别|不用|不要).*了"
)
_AGAIN = lazy(
    r"\b(?:again|instead|back to|after all|rather than)\b|\bwieder\b|\bdoch (?:lieber|auf|in)\b"
    r"|\bstatt(?:dessen)?\b|改回|改成|改用|换成|换回|还是|恢复"
)
_NOW = lazy(
    r"\b(?:from now on|going forward|from today|as of now)\b|\bab (?:jetzt|sofort|heute)\b"
    r"|\bkünftig\b|\bvon jetzt an\b|以后|今后|从现在|从今"
)
_MAY_END = lazy("|".join(f"(?:{one.pattern})" for one in (_ENDS, _LIFTS, _STOPS, _AGAIN, _NOW)))
