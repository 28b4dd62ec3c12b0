"""Standing instructions in what a person says, found without a model.

A standing instruction is an order that holds from now on: "never write to my boss", "metric units
please", "以后都用中文". The score of a sentence tells whether it is one. The words of
others are left out: quotations, code, pasted text.

The words in a message that are the person's own, without what they quote, forward or paste.

The score of a sentence: how surely it is a standing instruction.

A linear model over words: each word, pair and triple of neighbours, and each beginning and end of a
word has a weight, and the weights of a sentence are added. They are learnt from sentences that were
written for this, by `python -m benchmarks.instructions`, and are in `weights.bin`. Patterns could
not foresee in how many ways people say what they want; the model finds most of what it has never
seen, and takes a tenth of a millisecond for a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from math import sqrt

from msgspec import Struct

from bot.attachments import HEARD
from memory.linear import read_weights
from memory.patterns import lazy
from plugins.instructions.sentences import SaidSentence, mask_foreign_words, read_sentences

NAME = "weights.bin"
LENGTH = 20
"""Features that are added to a sentence's own before the sum is divided by their root: a long
sentence does not count for more than a short one, and a very short one not for much more."""

_TOKEN = lazy(r"[^\W\d_\u3400-\u9fff]+(?:'[a-z]+)?|\d+|[\u3400-\u9fff]|[?,:;—-]")
_CJK = ("\u3400", "\u9fff")


def score(sentence: SaidSentence, language: str) -> float:
    """Return the score of a sentence; more than 0 is an instruction, more than 1 surely one."""
    found = set(features(sentence, language))
    return read_weights(__package__, NAME).total(found) / sqrt(len(found) + LENGTH)


def is_there() -> bool:
    """Return whether the weights could be read."""
    return read_weights(__package__, NAME).is_whole


def features(sentence: SaidSentence, language: str) -> Iterator[str]:
    """Yield the features of a sentence, some of them more than once."""
    found = _TOKEN.findall(sentence.text)
    tokens = ["0" if token.isdigit() else token for token in found]
    yield f"@{language}"
    yield f"#{min(len(tokens) // 4, 8)}"
    if sentence.is_question:
        yield "#?"
    for token in tokens[:3]:
        yield f"# {token}"
    row = ["^", *tokens, "$", "", ""]
    for at in range(len(tokens) + 1):
        one, two, three = row[at : at + 3]
        yield one
        yield f"{one} {two}"
        if three:
            yield f"{one} {two} {three}"
            yield f"{one} _ {three}"
        if len(one) > 4:
            yield f"{one[:4]}-"
            yield f"-{one[-3:]}"
        elif three and _CJK[0] <= one <= _CJK[1] and row[at + 3]:
            yield one + two + three + row[at + 3]


_FILE = lazy(r"\[file: [^\n]*\]")
_FORWARDED = lazy(
    r"Forwarded(?: from .{0,200})?:|Begin forwarded message:|Anfang der weitergeleiteten Nachricht:"
    r"|-{2,}\s?(?:转发的?邮件|转发的消息|原始邮件)\s?-{2,}",
    re.IGNORECASE,
)
_QUOTED = lazy(r"[q\W]+")  # as a quotation is masked
_BREAKS = lazy(r"[\s\u200b\ufeff]+")
_EDGES = " .,;:!?。，；：！？…\"'“”„‘’«»`*_-"


def cut_forwarded(text: str) -> str:
    """Return a message without names of files, and without all that follows the mark of a forwarded
    message."""
    lines = takewhile(lambda line: not _FORWARDED.fullmatch(line.strip()), text.split("\n"))
    return "\n".join(line.removeprefix(HEARD) for line in lines if not _FILE.fullmatch(line))


def is_forwarded(text: str) -> bool:
    """Return whether a message has the mark of a forwarded one."""
    return any(_FORWARDED.fullmatch(line.strip()) for line in text.split("\n"))


def own_words(text: str) -> str:
    """Return a message in which the words of others say nothing."""
    return mask_foreign_words(cut_forwarded(text))


def own_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a message that are not the words of others, as they were said."""
    text = cut_forwarded(text)
    masked = mask_foreign_words(text)
    for sentence in read_sentences(masked):
        if not _QUOTED.fullmatch(masked, sentence.start, sentence.end):
            yield text[sentence.start : sentence.end]


def normalise(text: str) -> str:
    """Return a text in the form in which two that say the same are equal: without case, line breaks
    and the signs around it."""
    return _BREAKS.sub(" ", text.casefold()).strip(_EDGES)


SCANNED = 20_000
"""Characters of a message that are looked through."""
MOST = 20
"""Instructions of one message."""
SURE = 1.0
"""A score above which an instruction may be kept without a question."""


class FoundInstruction(Struct, frozen=True):
    """An order that holds from now on: the person's words, and where they are in the message."""

    text: str
    start: int
    end: int
    is_sure: bool


def find_instructions(text: str) -> list[FoundInstruction]:
    """Return the standing instructions of a message, in order."""
    found: list[FoundInstruction] = []
    text = text[:SCANNED]
    for sentence in read_sentences(mask_foreign_words(text)):
        if (certainty := score(sentence, language_of(sentence.text))) > 0:
            words = text[sentence.start : sentence.end]
            found.append(FoundInstruction(words, sentence.start, sentence.end, certainty > SURE))
            if len(found) == MOST:
                break
    return found


_CHINESE = lazy(r"[\u4e00-\u9fff]")
_GERMAN = lazy(
    r"[äöüß]|\b(?:der|die|das|und|ist|nicht|ich|du|ein|eine|mit|auf|für|dem|den|mir|mich|dir|dich|"
    r"immer|nie|"
    r"niemals|wieder|bitte|kein|keine|keinen|ab|jetzt|nur|noch|von|zu|wenn|dass|mein|meine|meinen|"
    r"dein|deine|alle|"
    r"jede|jeder|jedes|erst|nichts|niemand|auch|vor|nach|bei|ohne|bis|sag|frag|antworte|antworten|"
    r"schreib)\b"
)
_ENGLISH = lazy(
    r"\b(?:the|and|is|not|i|you|a|an|with|on|for|to|me|my|your|always|never|please|pls|don't|dont|"
    r"do|no|from|now|only|"
    r"all|every|when|if|any|of|it|in|use|call|before|after|this|that|be|everything)\b"
)


def language_of(text: str) -> str:
    """Return the language whose words a sentence in lower case has most: "en", "de" or "zh"."""
    if _CHINESE.search(text):
        return "zh"
    return "de" if len(_GERMAN.findall(text)) > len(_ENGLISH.findall(text)) else "en"
