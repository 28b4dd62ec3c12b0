"""Turns as a person names them: "t3-t5 t9"."""

from __future__ import annotations

import re

from memory.turns import named, turn_number
from plugins.api import CommandError

_LONGEST = 20  # characters of a turn's name


def turns_of(text: str, newest: int) -> tuple[int, ...]:
    """ "t3-t5, t9" -> (3, 4, 5, 9); "newest" is the number of the newest turn there is.

    Raises CommandError with a sentence for what is no turn, or none that there is.
    """
    words = re.sub(r"\s*[-–]\s*", "-", text).replace(",", " ").split()
    numbers = {number for word in words for number in _range(word, newest)}
    return tuple(sorted(numbers))


def _range(word: str, newest: int) -> range:
    first, is_range, last = word.partition("-")
    start = _turn(first, newest)
    end = _turn(last, newest) if is_range else start
    if end < start:
        raise CommandError(f"{word} runs backwards; write t{end}-t{start}.")
    return range(start, end + 1)


def _turn(word: str, newest: int) -> int:
    try:
        number = turn_number(word if len(word) <= _LONGEST else f"{word[:_LONGEST]}…")
    except ValueError as error:
        raise CommandError(f"Nothing was done: {error}") from None
    if number > newest:
        there_are = f"the newest is t{newest}" if newest else "nothing has been said yet"
        raise CommandError(f"There is no turn t{number}; {there_are}.")
    return number


def ids(numbers: tuple[int, ...]) -> list[str]:
    """Turns as data names them."""
    return [f"t{number}" for number in numbers]


def be(numbers: tuple[int, ...], is_or_are: tuple[str, str] = ("is", "are")) -> str:
    """ "t3 is", "t3 to t5 are"."""
    return f"{named(numbers)} {is_or_are[len(numbers) != 1]}"
