"""The words in a message that are the person's own, without what they quote, forward or paste."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bot.attachments import HEARD

_QUOTE = re.compile(r"\s{0,3}>")
_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_FILE = re.compile(r"\[file: [^\n]*\]")
_FORWARDED = re.compile(
    r"Forwarded(?: from .{0,200})?:|Begin forwarded message:|Anfang der weitergeleiteten Nachricht:"
    r"|-{2,}\s?(?:Forwarded message|Original Message|Weitergeleitete Nachricht"
    r"|Ursprüngliche Nachricht|原始邮件|转发的?邮件|转发的消息)\s?-{2,}",
    re.IGNORECASE,
)
_HEAD = re.compile(r"\**(?:From|Von|发件人)\s?[:：]", re.IGNORECASE)
_HEAD_GOES_ON = re.compile(
    r"\**(?:Sent|Date|To|Subject|Gesendet|Datum|An|Betreff|发送时间|日期|收件人|主题)\s?[:：]",
    re.IGNORECASE,
)
_BREAKS = re.compile(r"[\s\u200b\ufeff]+")
_EDGES = " .,;:!?。，；：！？…\"'“”„‘’«»`*_-"


def own_words(text: str) -> str:
    """Return a message without quoted lines and the line that says whose words they are, without
    code blocks, names of files, and all that follows the mark of a forwarded message."""
    return "\n".join(_own_lines(text.split("\n")))


def _own_lines(lines: list[str]) -> Iterator[str]:
    fence = ""
    for number, line in enumerate(lines):
        mark, after = _FENCE.match(line), lines[number + 1 : number + 5]
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
            continue
        if _FORWARDED.fullmatch(line.strip()) or _is_head(line.strip(), after):
            return
        if mark:
            fence = mark[1]
        elif _QUOTE.match(line) or _FILE.fullmatch(line):
            yield ""
        elif after and _QUOTE.match(after[0]) and line.rstrip().endswith(":"):
            yield ""  # it says whose words these are
        else:
            yield line.removeprefix(HEARD)


def _is_head(line: str, after: list[str]) -> bool:
    """Return whether another message follows, with its sender and subject above it."""
    return bool(_HEAD.match(line)) and any(_HEAD_GOES_ON.match(one.strip()) for one in after)


def normalise(text: str) -> str:
    """Return a text in the form in which two that say the same are equal: without case, line breaks
    and the signs around it."""
    return _BREAKS.sub(" ", text.casefold()).strip(_EDGES)
