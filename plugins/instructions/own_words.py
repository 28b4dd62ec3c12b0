"""The words in a message that are the person's own, without what they quote, forward or paste."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile

from bot.attachments import HEARD
from memory.patterns import lazy
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
