"""Standing instructions in a person's messages, found without a model.

A standing instruction is an order that applies from now on: "never write to my boss", "metric units
please", "以后都用中文". The score of a sentence says how surely it is one. Only the person's own
words count, without quotations, code, and forwarded or pasted text.

The score is from a linear model over words: each word, each pair and triple of adjacent words, and
each prefix and suffix of a word has a weight, and the weights of a sentence are added. They are
trained by `python -m benchmarks.instructions` on sentences written for this purpose, and stored in
`weights.bin`. Patterns could not cover the many ways of phrasing an order; the model finds most of
those it has never seen, and takes a tenth of a millisecond per sentence.
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
"""The number added to a sentence's number of features; the sum of weights is divided by the square
root of the total. So a long sentence does not score higher than a short one, and a very short one
not much higher."""

_TOKEN = lazy(r"[^\W\d_\u3400-\u9fff]+(?:'[a-z]+)?|\d+|[\u3400-\u9fff]|[?,:;—-]")
_CJK = ("\u3400", "\u9fff")


def score(sentence: SaidSentence, language: str) -> float:
    """Return the score of a sentence; above 0 is an instruction, above 1 surely one."""
    found = set(features(sentence, language))
    return read_weights(__package__, NAME).total(found) / sqrt(len(found) + LENGTH)


def is_there() -> bool:
    """Return whether the weights could be loaded."""
    return read_weights(__package__, NAME).is_whole


def features(sentence: SaidSentence, language: str) -> Iterator[str]:
    """Yield the features of a sentence, possibly with repetitions."""
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
_QUOTED = lazy(r"[q\W]+")  # the form of a masked quotation
_BREAKS = lazy(r"[\s\u200b\ufeff]+")
_EDGES = " .,;:!?。，；：！？…\"'“”„‘’«»`*_-"


def cut_forwarded(text: str) -> str:
    """Return a message without file names, and without the text after the mark of a forwarded
    message."""
    lines = takewhile(lambda line: not _FORWARDED.fullmatch(line.strip()), text.split("\n"))
    return "\n".join(line.removeprefix(HEARD) for line in lines if not _FILE.fullmatch(line))


def is_forwarded(text: str) -> bool:
    """Return whether a message contains the mark of a forwarded one."""
    return any(_FORWARDED.fullmatch(line.strip()) for line in text.split("\n"))


def own_words(text: str) -> str:
    """Return a message with the words of others masked."""
    return mask_foreign_words(cut_forwarded(text))


def own_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a message that are the person's own, unmasked."""
    text = cut_forwarded(text)
    masked = mask_foreign_words(text)
    for sentence in read_sentences(masked):
        if not _QUOTED.fullmatch(masked, sentence.start, sentence.end):
            yield text[sentence.start : sentence.end]


def normalise(text: str) -> str:
    """Return a text without case, line breaks and surrounding punctuation, to compare two texts."""
    return _BREAKS.sub(" ", text.casefold()).strip(_EDGES)


SCANNED = 20_000
"""The number of characters of a message that are searched."""
MOST = 20
"""The maximum number of instructions found in one message."""
SURE = 1.0
"""The score above which an instruction may be kept without a question."""


class FoundInstruction(Struct, frozen=True):
    """An order that applies from now on: the person's words, and their position in the message."""

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
    """Return the language with the most words in a lower-case sentence: "en", "de" or "zh"."""
    if _CHINESE.search(text):
        return "zh"
    return "de" if len(_GERMAN.findall(text)) > len(_ENGLISH.findall(text)) else "en"
