"""A title, made of what a model wrote: one line of plain words."""

from __future__ import annotations

import re
import unicodedata

from bot.listing import LONGEST_TITLE
from memory.context.receipt import Receipt
from memory.context.shapes import find_kind
from memory.patterns import lazy

_THOUGHT = lazy(r"<(think|thinking|thought|reasoning)>.*?(</\1>|\Z)", re.IGNORECASE | re.DOTALL)
_TAG = lazy(r"</?[A-Za-z][^<>]*>|<!--.*?-->|^```.*$", re.MULTILINE)
_LINK = lazy(r"!?\[([^\]]*)\]\([^)]*\)")
_START = lazy(r"^(?:#{1,6}(?=\s|$)|[-*+•>–—](?=\s|$)|\d{1,2}[.)](?=\s)|\|)\s*")
_END = lazy(r"\s*(?:\||\s#+|(?<!\.\.)(?<!…)[.。]|[:;,：；，、])$")
_LABEL = lazy(
    r"^\W*(?:(?:chat|conversation|suggested|short)\s+)?"
    r"(?:title|titel|titre|t[ií]tulo|titolo|标题|標題|タイトル|제목|заголовок|название|subject|"
    r"betreff|thema|topic|name)\W*[:：](?:\*+(?=\s))?\s*",
    re.IGNORECASE,
)
_EMPHASIS = (
    re.compile(r"(\*+|~~)(?=\S)(.+?)(?<=\S)\1"),
    re.compile(r"(`+)(.+?)\1"),
    re.compile(r"(?<!\w)(_+)(?=[^\s_])(.+?)(?<=[^\s_])\1(?!\w)"),
)
_CODE_NAME = lazy(r"_+[a-z0-9_]+_+")
_QUOTES = "\"'“”„‟‘’‚‛«»‹›「」『』《》〈〉＂＇`´"
_PAIRED = "()", "[]", "{}", "（）", "【】"
_NO_TITLE = frozenset(("refusal", "call", "loop", "thoughts"))
_JOINERS = "\u200c\u200d"  # by which letters are joined or kept apart: in Persian, in emoji
_MOST_READ = 2_000
"""Characters of an answer, without its thoughts, in which a title is looked for."""
_MOST_OF_LINE = 200
"""Characters of a line, of which a title is at most a third: marks are taken off one by one."""


def clean_title(written: str) -> str:
    """Return the title in what a model wrote, at most LONGEST_TITLE characters; "" where there is
    none."""
    text = _THOUGHT.sub("", written).lstrip()[:_MOST_READ]
    if find_kind(text, "complete", Receipt()) in _NO_TITLE:
        return ""
    for line in _TAG.sub("", text).splitlines():
        plain = _plain(line)
        is_lead_in = line.rstrip().rstrip("*_").endswith((":", "："))
        if any(letter.isalnum() for letter in plain) and not is_lead_in:
            return _shorten(plain)
    return ""


def _plain(line: str) -> str:
    """Return a line without all that is no word of the title."""
    line = " ".join("".join(map(_visible, line)).split())[:_MOST_OF_LINE].rstrip()
    while (less := _peel(line)) != line:
        line = less
    return line


def _visible(sign: str) -> str:
    """Return a sign, a blank for one that breaks the line, "" for one that is not seen, or that
    turns the direction of what follows."""
    kind = unicodedata.category(sign)
    if kind in ("Cc", "Zl", "Zp", "Zs"):
        return " "
    return "" if kind in ("Cf", "Cs", "Co", "Cn") and sign not in _JOINERS else sign


def _peel(line: str) -> str:
    line = _LABEL.sub("", _END.sub("", _START.sub("", line.strip())))
    line = _LINK.sub(r"\1", line)
    for pattern in _EMPHASIS:
        line = pattern.sub(_unmark, line)
    line = _unquote(line)
    if len(line) > 1 and any(line[0] + line[-1] == pair for pair in _PAIRED):
        line = line[1:-1]
    return line.strip()


def _unmark(found: re.Match[str]) -> str:
    """Return emphasised words without their marks; the name of something in a program is none."""
    return found[0] if _CODE_NAME.fullmatch(found[0]) else str(found[2])


def _unquote(line: str) -> str:
    """Return a line without quotation marks; an apostrophe within a word is none."""
    kept = []
    for place, sign in enumerate(line):
        is_between = 0 < place < len(line) - 1 and (
            line[place - 1].isalnum() and line[place + 1].isalnum()
        )
        if sign not in _QUOTES or (is_between and sign in "'’"):
            kept.append(sign)
    return "".join(kept)


def _shorten(words: str) -> str:
    if len(words) <= LONGEST_TITLE:
        return words
    whole = words[:LONGEST_TITLE].rpartition(" ")[0] or words[: LONGEST_TITLE - 1]
    return f"{whole.rstrip(' ,;:-–—')[: LONGEST_TITLE - 1]}…"
