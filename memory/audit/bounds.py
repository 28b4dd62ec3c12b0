"""Limits that a summary turns round: "after 5 pm" for "before 5 pm", "at least 3" for "at most 3".
Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from memory.audit.classes import CLASSES, class_of
from memory.audit.exchanged import NO, USER, Clauses
from memory.patterns import lazy

_MOST_FOUND = 4
_BELOW, _ABOVE = -1, 1
_DOWN = (
    r"before|until|till|by|at most|up to|max(?:imum|\.)?|no more than|less than|fewer than"
    r"|below|under"
    r"|vor|bis(?: zu[mr]?)?|höchstens|maximal|weniger als|unter"
)
_UP = (
    r"after|since|from|at least|min(?:imum|\.)?|no less than|more than|over|above"
    r"|nach|ab|seit|mindestens|wenigstens|mehr als|über"
)
_LATIN = lazy(
    rf"\b(?:(?P<down>{_DOWN})|(?P<up>{_UP}))\s(?:(?:the|dem|der|den|about|etwa)\s)?"
    r"(?P<what>\d{1,9}(?:[.,:]\d{1,6}){0,3}|[^\W\d_]{3,10})",
    re.IGNORECASE,
)
_WIDE = lazy(
    r"(?:(?P<down>最多|不超过|低于|少于|至多)|(?P<up>至少|超过|高于|多于|不少于|不低于))"
    r"(?P<what>\d{1,9}(?:[.,:]\d{1,6}){0,3})"
    r"|(?<![\d.,:])(?P<what2>\d{1,9}(?:[.,:]\d{1,6}){0,3})[^\d，。；\s]{0,3}?(?:(?P<down2>之?前|以前|以内|以下)|(?P<up2>之?后|以后|以上))"
)

_IF = lazy(
    r"\b(?:if|when|whenever|wenn|falls|sobald|off|cancel\w{0,6})\b|如果|若|一旦", re.IGNORECASE
)


_Key = tuple[str, bool]


class Bound(NamedTuple):
    """A limit: its number or day, whether its clause denies something, and its side."""

    what: str
    is_denied: bool
    way: int
    words: frozenset[str]
    text: str


def find_turned_bounds(told: Clauses, said: Mapping[_Key, Sequence[Bound]]) -> list[str]:
    """Return the clauses of a text with a limit that the source has as the opposite one."""
    found = dict[str, None]()
    for one in (one for bounds in list_bounds(told).values() for one in bounds):
        known = said.get((one.what, one.is_denied), ())
        like = [x for x in known if len(x.words & one.words) > 1]
        about = [x for x in like if x.way != one.way and (USER in x.words or USER not in one.words)]
        if about and len(about) == len(like):
            found[one.text.strip()] = None
    return [*found][:_MOST_FOUND]


def list_bounds(clauses: Clauses) -> dict[_Key, list[Bound]]:
    """Return the limits in texts by what they limit, and by whether a clause denies something."""
    found = defaultdict[_Key, list[Bound]](list)
    for one in _read_bounds(clauses):
        found[one.what, one.is_denied].append(one)
    return found


def _read_bounds(clauses: Clauses) -> Iterator[Bound]:
    for text, words in zip(clauses.texts, clauses.words, strict=True):
        is_counted = any(one[0].isdigit() or one[:2] in CLASSES for one in words)
        if not is_counted or _IF.search(text):
            continue
        for found in (*_LATIN.finditer(text), *_WIDE.finditer(text)):
            groups = found.groupdict()
            what = groups["what"] or groups["what2"]
            if not what[0].isdigit():
                what = class_of(what.casefold(), what)
            if what:
                is_down = groups["down"] or groups.get("down2")
                is_denied = NO in words and not found[0].casefold().startswith(("no ", "不"))
                yield Bound(what, is_denied, _BELOW if is_down else _ABOVE, words, text)
