"""Turns in a person's notation: "t3-t5 t9"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from channels.language import _, explain
from memory.conversation import Conversation
from memory.turns import runs, turn_number
from plugins.api import refusal

_LONGEST = 20  # characters of a turn's name
_RANGE = r"t\d+(?:[-–]t?\d+|\s+[-–]\s+t\d+|[-–])?"
_RANGES = re.compile(rf"{_RANGE}(?:[\s,]+{_RANGE})*(?=[\s,:]|$)", re.IGNORECASE)


def turns_of(text: str, newest: int) -> tuple[int, ...]:
    """Parse turns: "t3-t5, t9" -> (3, 4, 5, 9), and "t9-" up to the newest; `newest` is the number
    of the newest turn.

    Raises CommandError with a sentence for a text that is not a turn, or a turn that does not
    exist.
    """
    words = re.sub(r"\s*[-–]\s*", "-", text).replace(",", " ").split()
    numbers = {number for word in words for number in _range(word, newest)}
    return tuple(sorted(numbers))


def spell(numbers: Sequence[int]) -> str:
    """Return turns in the notation of commands: "t3-t5 t9"."""
    return " ".join(
        f"t{first}" if first == last else f"t{first}-t{last}" for first, last in runs(numbers)
    )


def split_turns(text: str, newest: int) -> tuple[tuple[int, ...], str]:
    """Return the turns at the beginning of a text, each written with its t, and the rest of the
    text.

    Raises CommandError as `turns_of` does.
    """
    found = _RANGES.match(text.strip())
    if found is None:
        return (), text.strip()
    return turns_of(found[0], newest), text.strip()[found.end() :].strip(" \t\n,:")


def _range(word: str, newest: int) -> range:
    first, is_range, last = word.partition("-")
    start = _turn(first, newest)
    end = _turn(last, newest) if last else newest if is_range else start
    if end < start:
        raise refusal(
            "{word} is backwards; write t{end}-t{start}.", word=word, end=end, start=start
        )
    return range(start, end + 1)


def _turn(word: str, newest: int) -> int:
    try:
        number = turn_number(word if len(word) <= _LONGEST else f"{word[:_LONGEST]}…")
    except ValueError as error:
        raise refusal("Nothing was done: {error}", error=explain(str(error))) from None
    if number > newest:
        there_are = (
            _("the newest is t{newest}", newest=newest)
            if newest
            else _("nothing has been said yet")
        )
        raise refusal(
            "There is no turn t{number}; {there_are}.", number=number, there_are=there_are
        )
    return number


def ids(numbers: tuple[int, ...]) -> list[str]:
    """Return turns in the notation of data."""
    return [f"t{number}" for number in numbers]


def numbers_in_context(conversation: Conversation) -> list[int]:
    """Return the turns in context, and those that a range summary covers."""
    view = conversation.context.view()
    numbers = [turn.number for turn in view.whole]
    return [*numbers, *(turn for one in view.layout.ranges for turn in one.turns)]
