"""What can be typed next: commands, subcommands and settings, each with its meaning."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What there is, as the data of `/help` and `/config` have it.

    A command has name, usage, summary and perhaps subcommands (name, summary); a setting has key,
    value, meaning, layer and wants.
    """

    commands: Sequence[Item] = ()
    settings: Sequence[Item] = ()


@dataclass(frozen=True, slots=True)
class Suggestion:
    """`text` takes the place of the last `replaces` characters."""

    text: str
    replaces: int
    meaning: str


def choices(line: str, vocabulary: Vocabulary) -> list[Suggestion]:
    """What may stand at the end of `line`; nothing for a message to the model."""
    if not line.startswith("/") or line.startswith("//") or "\n" in line:
        return []
    *before, word = line.split(" ")
    match before:
        case []:
            offers = _commands(vocabulary)
        case ["/config"]:
            offers = _settings(vocabulary)
        case ["/config", key]:
            offers = _values(vocabulary, key)
        case [command]:
            offers = _subcommands(vocabulary, command)
        case _:
            offers = iter(())
    return _fitting(word, offers)


def _commands(vocabulary: Vocabulary) -> Iterator[tuple[str, str]]:
    return ((_slashed(command["name"]), command["summary"]) for command in vocabulary.commands)


def _subcommands(vocabulary: Vocabulary, name: str) -> Iterator[tuple[str, str]]:
    for command in vocabulary.commands:
        if _slashed(command["name"]) == name:
            for subcommand in command.get("subcommands") or ():
                yield subcommand["name"], subcommand["summary"]


def _settings(vocabulary: Vocabulary) -> Iterator[tuple[str, str]]:
    for setting in vocabulary.settings:
        yield setting["key"], f"{setting['meaning']} (now {_typed(setting['value'])})"


def _values(vocabulary: Vocabulary, key: str) -> Iterator[tuple[str, str]]:
    """The present value, to be changed, and what the setting wants."""
    for setting in vocabulary.settings:
        if setting["key"] == key:
            yield _typed(setting["value"]), setting["wants"]


def _fitting(word: str, offers: Iterable[tuple[str, str]]) -> list[Suggestion]:
    """The offers that contain `word`, those that begin with it first."""
    found = [Suggestion(text, len(word), meaning) for text, meaning in offers if word in text]
    return sorted(found, key=lambda choice: not choice.text.startswith(word))


def _typed(value: object) -> str:
    """A value as a person would type it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _slashed(name: str) -> str:
    return "/" + name.removeprefix("/")
