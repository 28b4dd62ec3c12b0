"""The languages of the bot's messages to people: English in the code, others in `catalogue/*.po`;
and dates and times in the caller's language (`speaking`). Text for the model is always English;
stored text and the names of commands are not translated either."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, date, datetime, tzinfo
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
"""The person's language as reported by a platform or a browser, for the channel's calls to the bot
in this context; "" if unknown."""


def choose(wanted: str) -> str:
    """Return the first supported language among the wanted ones: a tag ("zh-Hans") or a list of
    tags with weights (Accept-Language); "" if none is supported."""
    found = []
    for place, part in enumerate(wanted[:500].split(",")):
        tag = _TAG.fullmatch(part)
        if tag and tag[1].lower() in LANGUAGES:
            found.append((-_score(tag[2]), place, tag[1].lower()))
    return min(found)[2] if found and min(found)[0] < 0 else ""


def _score(text: str | None) -> float:
    try:
        return float(text) if text else 1.0
    except ValueError:
        return 0.0


@contextmanager
def speaking(language: str | Callable[[], str]) -> Iterator[None]:
    """Set the language of messages in this context; a function is called each time, since its
    language may change."""
    token = _spoken.set(language)
    try:
        yield
    finally:
        _spoken.reset(token)


def language_of_asker() -> str:
    """Return the caller's language, one of `LANGUAGES`."""
    spoken = _spoken.get()
    return spoken if isinstance(spoken, str) else spoken()


def _(text: str, /, **values: Any) -> str:
    """Return a sentence in the caller's language, with its values filled in."""
    language = language_of_asker()
    if language == ENGLISH:
        text = as_called(text)
        if any(isinstance(value, float) for value in values.values()):
            return _FORMATTER.vformat(text, (), values)
        return text.format_map(values) if values else text
    text = as_called(words_of(language).get(text, text))
    return _FORMATTER.vformat(text, (), values) if values else text


def number_of(number: int, one: str, many: str, /, **values: Any) -> str:
    """Return a number of things in the caller's language: `number_of(3, "{n} turn", "{n}
    turns")`."""
    return _(one if number == 1 else many, n=figure(f"{number:,}"), **values)


def explain(text: str) -> str:
    """Return the translation of a sentence from a lower layer, which has no translations. The
    sentence is recognised by its catalogue entry; its filled-in values may be such sentences as
    well."""
    return as_called(_explain(text)) if text else ""  # the catalogue has a checkout's wording


def _explain(text: str) -> str:
    language = language_of_asker()
    if language == ENGLISH:
        return text
    known = _lower_texts_of(language)
    if text in known:
        return known[text]
    if _FIGURE.fullmatch(text):
        return figure(text)
    for shape, translated in _shapes_of(language):
        if found := shape.fullmatch(text):
            places = found.groupdict().items()
            return translated.format_map({name: _fill(name, value) for name, value in places})
    return text


_FIGURE = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?|<?\$[\d,]*\d(\.\d+)?")
_AS_IT_IS = frozenset({"lines", "url", "tool", "fact", "value", "name", "path"})
"""Placeholders for text that a person wrote or a tool will use: it is shown unchanged."""


def _fill(place: str, value: str) -> str:
    """Return the text for a placeholder of a sentence, by its name."""
    if place in _AS_IT_IS:
        return value
    if place == "changed":
        return _(", ").join(map(_, value.split(", ")))
    if place == "parts":
        return _(", and ").join(map(explain, value.split(", and ")))
    return explain(value).replace(" to ", _(" to ")) if place == "turns" else explain(value)


FROM_LOWER_LAYER = "from a lower layer"
"""The comment in the catalogue that marks such a sentence."""


def list_sentences() -> Sequence[str]:
    """Return all of the bot's sentences to people, in English, with their placeholders."""
    return [str(one.id) for one in _read(LANGUAGES[1])]


@cache
def _lower_texts_of(language: str) -> Mapping[str, str]:
    texts = (one for one in _read(language) if FROM_LOWER_LAYER in one.auto_comments and one.string)
    return {str(one.id): str(one.string) for one in texts}


@cache
def _shapes_of(language: str) -> Sequence[tuple[re.Pattern[str], str]]:
    """Return the sentences with placeholders, those with the most words first; first patterns
    without empty values, then with them."""
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
    """Return a number in English format ("1,234.5", "<$0.0001") in the format of the language
    ("1.234,5", "<0,0001 $")."""
    if language_of_asker() != "de":
        return text
    sign, dollar, number = text.rpartition("$")
    return f"{sign}{number.translate(_GERMAN)}{dollar and _SPACE + dollar}"


_GERMAN = str.maketrans(",.", ".,")
_SPACE = "\u00a0"
"""The non-breaking space between a number and its unit."""


class _Formatter(Formatter):
    """A formatter that writes grouped and decimal numbers in the format of the language."""

    def format_field(self, value: Any, format_spec: str) -> Any:
        text = super().format_field(value, format_spec)
        if isinstance(value, float) and "e" in text:
            text = f"{Decimal(text):f}"  # never in scientific notation
        is_figure = format_spec and isinstance(value, int | float)
        return figure(text) if is_figure else text


_FORMATTER = _Formatter()


@cache
def words_of(language: str) -> Mapping[str, str]:
    """Return all translations into a language, by their English text."""
    return {str(one.id): str(one.string) for one in _read(language) if one.string}


@cache
def _read(language: str) -> Sequence[Message]:
    if language == ENGLISH or language not in LANGUAGES:
        return ()
    from babel.messages.pofile import read_po  # noqa: PLC0415 - slow, and many speak English

    with (CATALOGUE / f"{language}.po").open("rb") as file:
        return [one for one in read_po(file, locale=language) if one.id]


DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def format_date(day: date) -> str:
    """Return a date: 23 Nov 2026."""
    return _("{day} {month} {year}", day=day.day, month=_(MONTHS[day.month - 1]), year=day.year)


def format_weekday(day: date) -> str:
    """Return a date with its weekday: Mon 23 Nov 2026."""
    return _("{weekday} {date}", weekday=_(DAYS[day.weekday()]), date=format_date(day))


def format_datetime(at: datetime | float, zone: tzinfo) -> str:
    """Return a date and time: 23 Nov 2026, 09:00. A number is seconds since 1970."""
    wall = (at if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)).astimezone(zone)
    return at_clock(format_date(wall), f"{wall:%H:%M}")


def at_clock(day: str, clock: str) -> str:
    """Return a day in words with a time of that day."""
    return _("{date}, {clock}", date=day, clock=clock)


def format_stored_date(day: str, clock: str = "") -> str:
    """Return a day stored as text (2026-11-23) in words; other text is unchanged."""
    try:
        text = format_date(date.fromisoformat(day))
    except ValueError:
        text = day
    return at_clock(text, clock) if text and clock else text or clock
