"""The word lists per language that a search uses, from `languages.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_SAMPLE = 200  # the number of words from which a text's language is detected


class Language(NamedTuple):
    """A language of `languages.toml`."""

    stop: frozenset[str]
    when: frozenset[str]
    temporal: frozenset[str]
    self: frozenset[str]
    within: frozenset[str]
    months: tuple[str, ...]


def language_of(said: Sequence[str]) -> Language:
    """Return the language with the most distinct stop words in a text."""
    sample = frozenset(said[:_SAMPLE])
    return max(LANGUAGES, key=lambda language: len(language.stop & sample))


def _languages() -> list[Language]:
    data = tomllib.loads(Path(__file__).with_name("languages.toml").read_text("utf-8"))
    return [_language(lists) for lists in data.values()]


def _language(lists: dict[str, str]) -> Language:
    months = tuple(lists.pop("months").split())
    return Language(
        months=months, **{name: frozenset(text.split()) for name, text in lists.items()}
    )


LANGUAGES = _languages()
