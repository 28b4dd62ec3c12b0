"""The completion of what is typed: commands and what they take, each with its meaning; and the
lines that were typed, for the arrow keys and over restarts."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from prompt_toolkit.history import FileHistory

from channels.language import _, explain

Item = Mapping[str, Any]
Offer = tuple[str, str]
"""The text that may be typed, and what it means."""

_TAKEN: Mapping[tuple[str, ...], str] = {
    ("/context", "drop"): "turns",
    ("/context", "pin"): "turns",
    ("/context", "unpin"): "turns",
    ("/context", "turns"): "turns",
    ("/context", "compact"): "turns",
    ("/context", "free"): "turns",
    ("/context", "expand"): "summaries",
    ("/forget",): "turns",
    ("/fork",): "turns",
    ("/edit",): "turns",
    ("/regenerate",): "turns",
    ("/branches",): "branches",
    ("/agent",): "agents",
    ("/config", "agent"): "agents",
    ("/model",): "models",
    ("/config", "model"): "models",
    ("/memory",): "days",
    ("/resume",): "conversations",
}
"""The arguments of commands that change with time, by what stands before them."""
_MANY = frozenset(("turns", "summaries"))  # of which any number may follow one another


class Vocabulary(Struct, frozen=True):
    """The vocabulary, as the data of `/help` and `/config` have it.

    A command has name, usage, summary and perhaps subcommands (name, summary); a setting has key,
    value, meaning, layer, wants and perhaps choices. `lists` are the things of each kind that
    commands take (`find_kind`).
    """

    commands: Sequence[Item] = ()
    settings: Sequence[Item] = ()
    lists: Mapping[str, Sequence[Offer]] = field(default_factory=dict)


class Suggestion(Struct, frozen=True):
    """`text` takes the place of the last `replaces` characters."""

    text: str
    replaces: int
    meaning: str


def find_kind(line: str) -> str:
    """Find the kind of thing that the command at the beginning of `line` takes next; "" for
    none."""
    *before, _ = line.split(" ")
    for count in (2, 1):
        kind = _TAKEN.get(tuple(before[:count]), "")
        if kind and (len(before) == count or (kind in _MANY and len(before) > count)):
            return kind
    return ""


def choices(line: str, vocabulary: Vocabulary) -> list[Suggestion]:
    """Return the suggestions for the end of `line`; none for a message to the model."""
    if not line.startswith("/") or line.startswith("//") or "\n" in line:
        return []
    *before, word = line.split(" ")
    listed = vocabulary.lists.get(find_kind(line), ())
    offers: Iterator[Offer] = iter(())
    match before:
        case []:
            offers = _commands(vocabulary)
        case ["/config"]:
            offers = _settings(vocabulary)
        case ["/config", key]:
            offers = _values(vocabulary, key)
        case ["/help"]:
            bare = ((name.removeprefix("/"), about) for name, about in _commands(vocabulary))
            offers = iter([*_subcommands(vocabulary, "/help"), *bare])
        case [command]:
            offers = _subcommands(vocabulary, command)
    return _find_matches(word, [*offers, *listed])


def _commands(vocabulary: Vocabulary) -> Iterator[Offer]:
    return ((_add_slash(command["name"]), _(command["summary"])) for command in vocabulary.commands)


def _subcommands(vocabulary: Vocabulary, name: str) -> Iterator[Offer]:
    for command in vocabulary.commands:
        if _add_slash(command["name"]) == name:
            for subcommand in command.get("subcommands") or ():
                yield subcommand["name"], _(subcommand["summary"])


def _settings(vocabulary: Vocabulary) -> Iterator[Offer]:
    for setting in vocabulary.settings:
        now = _("now {value}", value=_format_value(setting["value"]))
        yield setting["key"], f"{_(setting['meaning'])} ({now})"


def _values(vocabulary: Vocabulary, key: str) -> Iterator[Offer]:
    """Yield the present value, to be changed, and what the setting wants; then the other values,
    where they are few."""
    for setting in vocabulary.settings:
        if setting["key"] == key:
            now = _format_value(setting["value"])
            yield now, explain(setting["wants"])
            few = ("true", "false") if isinstance(setting["value"], bool) else ()
            for choice in setting.get("choices") or few:
                if choice != now:
                    yield choice, ""


def _find_matches(word: str, offers: Iterable[Offer]) -> list[Suggestion]:
    """Return the offers that contain `word`, those that begin with it first."""
    found = [Suggestion(text, len(word), meaning) for text, meaning in offers if word in text]
    return sorted(found, key=lambda choice: not choice.text.startswith(word))


def _format_value(value: object) -> str:
    """Return a value as a person would type it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _add_slash(name: str) -> str:
    return "/" + name.removeprefix("/")


# What the data of commands says of the things that others take.

SOURCES: Mapping[str, tuple[str, str]] = {
    "turns": ("/context turns", "turns"),
    "summaries": ("/context summaries", "summaries"),
    "branches": ("/branches", "branches"),
    "agents": ("/agent", "agents"),
    "models": ("/model list", "models"),
    "days": ("/memory", "days"),
}
"""The command whose data lists the things of a kind, and where in it."""


def is_known(line: str, vocabulary: Vocabulary) -> bool:
    """Return whether there is this command, with its subcommand: what is none might change
    something."""
    name, _, rest = line.partition(" ")
    return any(
        _add_slash(command["name"]) == name
        and (not rest or rest in {sub["name"] for sub in command.get("subcommands") or ()})
        for command in vocabulary.commands
    )


def offers_in(kind: str, listed: Iterable[Any]) -> list[Offer]:
    """Return what can be typed for these things; of what grows, the newest first."""
    found = [offer for one in listed if (offer := _offer(kind, one))]
    return found[::-1] if kind in ("turns", "summaries", "days") else found


def _offer(kind: str, one: Any) -> Offer | None:
    match kind, one:
        case "days", str(day):
            return day, _("the entries of that day")
        case "turns", {"turn": turn, "words": words, "state": state}:
            return turn, f"{', '.join(map(_, state))} · {words}"
        case "summaries", {"name": str(name), "turns": turns}:
            return name, ", ".join(turns)
        case "branches", {"number": number, "title": title}:
            return str(number), title
        case "agents", {"id": name, "description": about}:
            return name, about
        case "models", {"name": str(name)}:
            return name, _describe_model(one)
    return None


def _describe_model(model: Mapping[str, Any]) -> str:
    window = model.get("window")
    is_known = isinstance(window, int) and window
    return _("a window of {tokens:,} tokens", tokens=window) if is_known else ""


class Lines(FileHistory):
    """A file of lines that can forget some of them."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path
        self.is_private: Callable[[], bool] = lambda: False
        self._is_begun = False

    @property
    def keeps_nothing(self) -> bool:
        """Return whether what is typed now is off the record."""
        return self._is_begun or self.is_private()

    def append_string(self, string: str) -> None:
        """Add a line; what is off the record is known to the arrow keys, and in no file. What is
        typed behind /private on may come before the bot has heard of it."""
        command = string.lower().split()
        if command in (["/private", "on"], ["/private", "off"]):
            self._is_begun = command[1] == "on"
        if self.keeps_nothing:
            self._loaded_strings.insert(0, string)
        else:
            super().append_string(string)

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
    """Return whether a line is a command, or says one of the texts; "//x" says "/x" to the
    model."""
    text = line.strip()
    is_command = text.startswith("/") and not text.startswith("//")
    return is_command or text in said or (text.startswith("//") and text[1:] in said)
