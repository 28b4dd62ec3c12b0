"""What can be typed next: commands, subcommands and settings, each with its meaning; and the lines
that were typed, for the arrow keys and over restarts."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prompt_toolkit.history import FileHistory

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
    return _find_matches(word, offers)


def _commands(vocabulary: Vocabulary) -> Iterator[tuple[str, str]]:
    return ((_add_slash(command["name"]), command["summary"]) for command in vocabulary.commands)


def _subcommands(vocabulary: Vocabulary, name: str) -> Iterator[tuple[str, str]]:
    for command in vocabulary.commands:
        if _add_slash(command["name"]) == name:
            for subcommand in command.get("subcommands") or ():
                yield subcommand["name"], subcommand["summary"]


def _settings(vocabulary: Vocabulary) -> Iterator[tuple[str, str]]:
    for setting in vocabulary.settings:
        yield setting["key"], f"{setting['meaning']} (now {_format_value(setting['value'])})"


def _values(vocabulary: Vocabulary, key: str) -> Iterator[tuple[str, str]]:
    """The present value, to be changed, and what the setting wants."""
    for setting in vocabulary.settings:
        if setting["key"] == key:
            yield _format_value(setting["value"]), setting["wants"]


def _find_matches(word: str, offers: Iterable[tuple[str, str]]) -> list[Suggestion]:
    """The offers that contain `word`, those that begin with it first."""
    found = [Suggestion(text, len(word), meaning) for text, meaning in offers if word in text]
    return sorted(found, key=lambda choice: not choice.text.startswith(word))


def _format_value(value: object) -> str:
    """A value as a person would type it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _add_slash(name: str) -> str:
    return "/" + name.removeprefix("/")


class Lines(FileHistory):
    """A file of lines that can forget some of them."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path

    def forget(self, said: Collection[str] | None) -> None:
        """Delete the lines that say one of these texts, and all commands, which may speak of
        anything; None: all lines."""
        rest = [] if said is None else [line for line in self._load_all() if not _says(line, said)]
        self._path.unlink(missing_ok=True)
        self._path.touch(mode=0o600)
        for line in rest:
            self.store_string(line)
        self._loaded = False  # the next line that is typed reads the file again

    def _load_all(self) -> list[str]:
        """All lines, the oldest first."""
        return list(self.load_history_strings())[::-1]


def _says(line: str, said: Collection[str]) -> bool:
    """Whether a line is a command, or says one of the texts; "//x" says "/x" to the model."""
    text = line.strip()
    is_command = text.startswith("/") and not text.startswith("//")
    return is_command or text in said or (text.startswith("//") and text[1:] in said)
