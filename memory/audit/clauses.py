"""Clauses of a source that share words with a clause of a text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Set

from memory.audit.exchanged import NO, USER, Clauses

_RARE = 12  # maximum of clauses of a source with a word that is looked up
_LEAST = 2


def find_alike(
    words: Set[str], said: Clauses, least: int = _LEAST
) -> Iterator[tuple[int, frozenset[str]]]:
    """Yield the places of the clauses that share at least so many of these words, besides a
    denial, each with the shared ones."""
    own = frozenset(words) - {NO, USER}
    places = {place for word in own for place in _rare_places(word, said)}
    for place in sorted(places):
        shared = own & said.words[place]
        if len(shared) >= least:
            yield place, shared


def _rare_places(word: str, said: Clauses) -> list[int]:
    places = said.places.get(word, [])
    return places if len(places) <= _RARE else []
