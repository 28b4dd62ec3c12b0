"""The languages in which the bot speaks to people: English in the code, others in a catalogue.

`_("{n} left", n=3)` is the sentence in the language of whoever asked (`speaking`); one that is not
in the catalogue (`catalogue/*.po`) is English. What the model reads is English always: its rooms
can't import this. Neither is anything translated that is stored, nor the name of a command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

ENGLISH = "en"
LANGUAGES = (ENGLISH, "de", "zh")
CATALOGUE = Path(__file__).parent / "catalogue"
_TAG = re.compile(r"\s*([A-Za-z]{2,3})(?:[-_][\w-]*)?\s*(?:;\s*q\s*=\s*([\d.]+))?\s*")

_spoken: ContextVar[str] = ContextVar("spoken", default=ENGLISH)
asked_in: ContextVar[str] = ContextVar("asked_in", default="")
"""The language that a platform or a browser says a person has, for what its channel asks of the bot
in this context; "" where it says nothing."""


def choose(wanted: str) -> str:
    """The first of our languages among those that somebody wants, by a tag ("zh-Hans") or a list of
    tags with weights (Accept-Language); "" where we speak none of them."""
    found = []
    for place, part in enumerate(wanted[:500].split(",")):
        tag = _TAG.fullmatch(part)
        if tag and tag[1].lower() in LANGUAGES:
            found.append((-_weigh(tag[2]), place, tag[1].lower()))
    return min(found)[2] if found and min(found)[0] < 0 else ""


def _weigh(text: str | None) -> float:
    try:
        return float(text) if text else 1.0
    except ValueError:
        return 0.0


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """What is said in here is said in this language."""
    token = _spoken.set(language)
    try:
        yield
    finally:
        _spoken.reset(token)


def _(text: str, **values: Any) -> str:
    """A sentence in the language of whoever asked, with what stands in its places."""
    language = _spoken.get()
    if language != ENGLISH:
        text = words_of(language).get(text, text)
    return text.format_map(values) if values else text


def number_of(number: int, one: str, many: str) -> str:
    """So many of something in that language: `number_of(3, "{n} turn", "{n} turns")`."""
    text = one if number == 1 else many
    language = _spoken.get()
    if language != ENGLISH:
        text = words_of(language).get(text, text)
    return text.format(n=f"{number:,}")


@cache
def words_of(language: str) -> Mapping[str, str]:
    """All that is translated into a language, by its English."""
    if language == ENGLISH or language not in LANGUAGES:
        return {}
    from babel.messages.pofile import read_po  # noqa: PLC0415 - slow, and many speak English

    with (CATALOGUE / f"{language}.po").open("rb") as file:
        found = read_po(file, locale=language)
    return {str(one.id): str(one.string) for one in found if one.id and one.string}
