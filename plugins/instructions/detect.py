"""Standing instructions in what a person says, found without a model.

A standing instruction is an order that holds from now on: "never write to my boss", "metric units
please", "以后都用中文". The score of a sentence tells whether it is one (`scorer.py`). The words of
others are left out: quotations, code, pasted text.

The words in a message that are the person's own, without what they quote, forward or paste.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile

from msgspec import Struct

from bot.attachments import HEARD
from memory.patterns import lazy
from plugins.instructions.scorer import score
from plugins.instructions.sentences import mask_foreign_words, read_sentences

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
