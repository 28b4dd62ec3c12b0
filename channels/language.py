"""The languages in which the bot speaks to people: English in the code, others in a catalogue.

`_("{n} left", n=3)` is the sentence in the language of whoever asked (`speaking`); one that is not
in the catalogue (`catalogue/*.po`) is English. What the model reads is English always: its layers
can't import this. Neither is anything translated that is stored, nor the name of a command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from functools import cache
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any

from channels.program import as_called

if TYPE_CHECKING:
    from babel.messages.catalog import Message

ENGLISH = "en"
LANGUAGES = (ENGLISH, "de", "zh")
CATALOGUE = Path(__file__).parent / "catalogue"
_TAG = re.compile(r"\s*([A-Za-z]{2,3})(?:[-_][\w-]*)?\s*(?:;\s*q\s*=\s*([\d.]+))?\s*")

_spoken: ContextVar[str | Callable[[], str]] = ContextVar("spoken", default=ENGLISH)
asked_in: ContextVar[str] = ContextVar("asked_in", default="")
"""The language that a platform or a browser says a person has, for what its channel asks of the bot
in this context; "" where it says nothing."""


def choose(wanted: str) -> str:
    """Return the first of our languages among those that somebody wants, by a tag ("zh-Hans") or a
    list of tags with weights (Accept-Language); "" where we speak none of them."""
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
def speaking(language: str | Callable[[], str]) -> Iterator[None]:
    """Say what is said in here in this language; a language that may change is asked for each
    time."""
    token = _spoken.set(language)
    try:
        yield
    finally:
        _spoken.reset(token)


def language_of_asker() -> str:
    """Return the language of whoever asked, of `LANGUAGES`."""
    spoken = _spoken.get()
    return spoken if isinstance(spoken, str) else spoken()


def _(text: str, /, **values: Any) -> str:
    """Return a sentence in the language of whoever asked, with what stands in its places."""
    language = language_of_asker()
    if language == ENGLISH:
        text = as_called(text)
        if any(isinstance(value, float) for value in values.values()):
            return _FORMATTER.vformat(text, (), values)
        return text.format_map(values) if values else text
    text = as_called(words_of(language).get(text, text))
    return _FORMATTER.vformat(text, (), values) if values else text


def number_of(number: int, one: str, many: str, /, **values: Any) -> str:
    """So many of something in that language: `number_of(3, "{n} turn", "{n} turns")`."""
    return _(one if number == 1 else many, n=figure(f"{number:,}"), **values)


def explain(said: str) -> str:
    """Return a sentence of a layer below, which knows no language: recognised by its shape in the
    catalogue, and said with what stands in its places, which may be such sentences again."""
    return as_called(_explain(said))  # looked up as it is written for a checkout


def _explain(said: str) -> str:
    language = language_of_asker()
    if language == ENGLISH or not said:
        return said
    known = _lower_texts_of(language)
    if said in known:
        return known[said]
    if _FIGURE.fullmatch(said):
        return figure(said)
    for shape, translated in _shapes_of(language):
        if found := shape.fullmatch(said):
            places = found.groupdict().items()
            return translated.format_map({name: _fill(name, value) for name, value in places})
    return said


_FIGURE = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?|<?\$[\d,]*\d(\.\d+)?")
_AS_IT_IS = frozenset({"lines", "url", "tool", "fact", "value", "name", "path"})
"""Places of what somebody wrote, or what a tool will do with it: it is shown as it is."""


def _fill(place: str, value: str) -> str:
    """Return the text in a place of a sentence, by the place's name."""
    if place in _AS_IT_IS:
        return value
    if place == "changed":
        return _(", ").join(map(_, value.split(", ")))
    if place == "parts":
        return _(", and ").join(map(explain, value.split(", and ")))
    return explain(value).replace(" to ", _(" to ")) if place == "turns" else explain(value)


FROM_LOWER_LAYER = "from a lower layer"
"""The comment in the catalogue at such a sentence."""


def list_sentences() -> Sequence[str]:
    """All that the bot says to people, in English, with the names of what is filled in."""
    return [str(one.id) for one in _read(LANGUAGES[1])]


@cache
def _lower_texts_of(language: str) -> Mapping[str, str]:
    texts = (one for one in _read(language) if FROM_LOWER_LAYER in one.auto_comments and one.string)
    return {str(one.id): str(one.string) for one in texts}


@cache
def _shapes_of(language: str) -> Sequence[tuple[re.Pattern[str], str]]:
    """Return the sentences with places, the most words first; with something in each place, and
    then without."""
    found = [
        (text, translated) for text, translated in _lower_texts_of(language).items() if "{" in text
    ]
    found.sort(key=lambda pair: -len(_PLACE.sub("", pair[0])))
    filled = [(_to_shape(text, "+?"), translated) for text, translated in found]
    return [*filled, *((_to_shape(text, "*?"), translated) for text, translated in found)]


_PLACE = re.compile(r"\{(\w+)\}")


def _to_shape(text: str, often: str) -> re.Pattern[str]:
    pieces = _PLACE.split(text)
    known: set[str] = set()
    shape = ""
    for place, piece in enumerate(pieces):
        if place % 2 == 0:
            shape += re.escape(piece)
        else:
            shape += f"(?P={piece})" if piece in known else f"(?P<{piece}>.{often})"
            known.add(piece)
    return re.compile(shape, re.DOTALL)


def figure(text: str) -> str:
    """Return a number that is written as in English ("1,234.5", "<$0.0001"), as that language has
    it ("1.234,5", "<0,0001 $")."""
    if language_of_asker() != "de":
        return text
    sign, dollar, number = text.rpartition("$")
    return f"{sign}{number.translate(_GERMAN)}{dollar and _SPACE + dollar}"


_GERMAN = str.maketrans(",.", ".,")
_SPACE = "\u00a0"
"""The space between a number and its unit, where no line is broken."""


class _Formatter(Formatter):
    """Fills places in; numbers with digits grouped or after a point stand as the language has
    them."""

    def format_field(self, value: Any, format_spec: str) -> Any:
        text = super().format_field(value, format_spec)
        if isinstance(value, float) and "e" in text:
            text = f"{Decimal(text):f}"  # never in scientific notation
        is_figure = format_spec and isinstance(value, int | float)
        return figure(text) if is_figure else text


_FORMATTER = _Formatter()


@cache
def words_of(language: str) -> Mapping[str, str]:
    """All that is translated into a language, by its English."""
    return {str(one.id): str(one.string) for one in _read(language) if one.string}


@cache
def _read(language: str) -> Sequence[Message]:
    if language == ENGLISH or language not in LANGUAGES:
        return ()
    from babel.messages.pofile import read_po  # noqa: PLC0415 - slow, and many speak English

    with (CATALOGUE / f"{language}.po").open("rb") as file:
        return [one for one in read_po(file, locale=language) if one.id]
