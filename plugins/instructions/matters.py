"""Orders that have no word which makes them last: their matter has no end.

"Answer me in German", "prices in francs", "no reminders on Sundays", "my address is nobody's
business": how answers are written, how a person is called and addressed, what is kept from whom,
what is asked first, when it is quiet. These are the matters, with the shapes in which people say
what is to be with them, in English, German and Chinese.
"""

from __future__ import annotations

from memory.patterns import PatternList, lazy
from plugins.instructions import matters_chinese, matters_english, matters_german
from plugins.instructions.detect_shapes import SaidSentence

_HEAD_END = lazy(r"[,;–—:]\s|\s-\s")
_ONCE = lazy(
    r"\b(?:today|tonight|tomorrow|yesterday|this (?:time|once|one|week|weekend|text|draft|mail|"
    r"email|"
    r"letter|paragraph|sentence|file|list|meeting|trip|evening|morning)|for now|just once|heute|"
    r"morgen(?! in)|gestern|diesmal|dieses mal|nur einmal|diese[nmrs]? (?:text|mail|brief|absatz|"
    r"satz|"
    r"datei|liste|entwurf|woche|wochenende|treffen|abend)|fürs erste)\b|今天|今晚|明天|昨天|这次|"
    r"这一次|这段|这篇|这封|这张|刚才"
)
"""Words with which an order ends by itself,"""
_FROM = lazy(
    r"\b(?:from|as of|starting|since) (?:today|tonight|tomorrow|this)|\b(?:ab|von|seit) (?:heute|"
    r"morgen)\b|从(?:今天|今晚|明天)"
)
"""unless it begins with them."""
_ASKS_TO = PatternList(r"(?:can|could|would|will) you (?!help|explain|give|tell|show|list|write)")


def has_endless_matter(sentence: SaidSentence, language: str) -> bool:
    """Return whether a sentence orders something that has no end by its matter."""
    text = sentence.text
    if _ONCE.search(text) and not _FROM.search(text):
        return False
    if language == "zh":
        return not matters_chinese.REPORTS.match(text) and matters_chinese.MATTERS.match(text)
    if sentence.is_question:
        if language == "de":
            return matters_german.ASKS.match(text)
        return _ASKS_TO.match(text) and matters_english.MATTERS.match(text)
    known = matters_german if language == "de" else matters_english
    if known.REPORTS.match(text):
        return False
    if known.MATTERS.match(text):
        return True
    head = _HEAD_END.split(text, maxsplit=1)[0]  # "write back in German, I'm practising"
    return head != text and len(head.split()) > 2 and known.MATTERS.match(head)
