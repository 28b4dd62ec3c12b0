"""The bot's sentences to people, recognised whatever values were filled in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache

from msgspec import Struct

from channels.language import list_sentences

LEFT_OUT = "<…>"
LONGEST = 2_000
"""The maximum number of characters of a text in which known sentences are searched."""
_LEAST = 8
"""The minimum number of fixed letters for a sentence to be recognised."""
_DEEPEST = 3
_PLACE = re.compile(r"\{[^{}]*\}")
_NUMBER = re.compile(r"-?\d{1,5}(\.\d{1,6})?")


class Sentence(Struct, frozen=True):
    """The fixed pieces of a sentence, with a filled-in value between each two. `is_number` says at
    which places a number may be shown."""

    pieces: tuple[str, ...]
    is_number: tuple[bool, ...] = ()

    @property
    def letters(self) -> int:
        return sum(c.isalpha() for piece in self.pieces for c in piece)

    def match(self, text: str) -> list[str] | None:
        """Return the values at the places of a text; None if it is another sentence. Runs in time
        linear in the text, for any text."""
        first, *rest = self.pieces
        if not rest:
            return [] if text == first else None
        *middle, last = rest
        end = len(text) - len(last)
        if not text.startswith(first) or not text.endswith(last) or end < len(first):
            return None
        place, found = len(first), []
        for piece in middle:
            here = text.find(piece, place, end)
            if here < 0:
                return None
            found.append(text[place:here])
            place = here + len(piece)
        return [*found, text[place:end]]


@cache
def known_sentences() -> Sequence[Sentence]:
    """Return the bot's sentences to people, the one with the most letters first."""
    found = [Sentence(tuple(_PLACE.split(text))) for text in list_sentences()]
    return sorted((one for one in found if one.letters >= _LEAST), key=lambda one: -one.letters)


def mask_text(
    text: str, sentences: Iterable[Sentence], *, has_numbers: bool = False, depth: int = 0
) -> str:
    """Return a text without its filled-in values; LEFT_OUT for an unknown text."""
    if len(text) > LONGEST or depth > _DEEPEST:
        return LEFT_OUT
    for sentence in sentences:
        if (places := sentence.match(text)) is None:
            continue
        kinds = sentence.is_number or (False,) * len(places)
        shown = (
            place
            if is_number and has_numbers and _NUMBER.fullmatch(place)
            else mask_known(place, depth + 1)
            for place, is_number in zip(places, kinds, strict=True)
        )
        filled = zip(sentence.pieces, [*shown, ""], strict=True)
        return "".join(f"{piece}{place}" for piece, place in filled)
    return LEFT_OUT


@lru_cache(maxsize=4096)
def mask_known(text: str, depth: int = 0) -> str:
    """Return a sentence of the bot without its filled-in values; LEFT_OUT for any other text."""
    return mask_text(text, known_sentences(), depth=depth)
