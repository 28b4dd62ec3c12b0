"""Standing instructions in what a person says, found without a model.

A standing instruction is an order that holds from now on: "never write to my boss", "metric units
please", "以后都用中文". The score of a sentence tells whether it is one (`scorer.py`). The words of
others are left out: quotations, code, pasted text.
"""

from __future__ import annotations

from msgspec import Struct

from memory.patterns import lazy
from plugins.instructions.scorer import score
from plugins.instructions.sentences import mask_foreign_words, read_sentences

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
