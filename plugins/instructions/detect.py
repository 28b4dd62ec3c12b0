"""Standing instructions in what a person says, found without a model.

A standing instruction is an order that holds from now on. It has the shape of an order (a verb in
front, "you must", "I want you to"), and something that makes it last: a word of time or number
("always", "nie wieder", "每次"), or a matter that has no end (how answers are written, whom to ask
first). Each language has a module of its own for these shapes. The words of others are left out:
quotations, code, pasted text.
"""

from __future__ import annotations

from msgspec import Struct

from memory.patterns import lazy
from plugins.instructions.detect_chinese import is_chinese_order
from plugins.instructions.detect_english import is_english_order
from plugins.instructions.detect_german import is_german_order
from plugins.instructions.detect_shapes import SaidSentence, mask_foreign_words, read_sentences
from plugins.instructions.matters import has_endless_matter

SCANNED = 20_000
"""Characters of a message that are looked through."""
MOST = 20
"""Instructions of one message."""


class FoundInstruction(Struct, frozen=True):
    """An order that holds from now on: the person's words, where they are in the message, and their
    language ("en", "de" or "zh")."""

    text: str
    start: int
    end: int
    language: str


def find_instructions(text: str) -> list[FoundInstruction]:
    """Return the standing instructions of a message, in order."""
    found: list[FoundInstruction] = []
    text = text[:SCANNED]
    for sentence in read_sentences(mask_foreign_words(text)):
        if language := _language_of_order(sentence):
            words = text[sentence.start : sentence.end]
            found.append(FoundInstruction(words, sentence.start, sentence.end, language))
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

_IS_ORDER = {"de": is_german_order, "en": is_english_order}


def _language_of_order(sentence: SaidSentence) -> str:
    """Return the language in which a sentence is a standing instruction; "" where it is none."""
    if _CHINESE.search(sentence.text):
        is_order = is_chinese_order(sentence) or has_endless_matter(sentence, "zh")
        return "zh" if is_order else ""
    is_german = len(_GERMAN.findall(sentence.text)) > len(_ENGLISH.findall(sentence.text))
    for language in ("de", "en") if is_german else ("en", "de"):
        if _IS_ORDER[language](sentence) or has_endless_matter(sentence, language):
            return language
    return ""
