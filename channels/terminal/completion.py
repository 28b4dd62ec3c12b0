"""The completion of typed text: commands and their arguments, each with its meaning; the typed
lines, for the arrow keys, kept across restarts; and the keys, for `/help keys`."""

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
"""A text that may be typed, and its meaning."""

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
"""The arguments of commands that change with time, by the words before them."""
_MANY = frozenset(("turns", "summaries"))  # any number may follow one another


class Vocabulary(Struct, frozen=True):
    """The vocabulary, from the data of `/help` and `/config`.

    A command has name, usage, summary and perhaps subcommands (name, summary); a setting has key,
    value, meaning, layer, wants and perhaps choices. `lists` are the arguments of each kind for
    commands (`find_kind`).
    """

    commands: Sequence[Item] = ()
    settings: Sequence[Item] = ()
    lists: Mapping[str, Sequence[Offer]] = field(default_factory=dict)


def by_use(data: Item) -> Sequence[Item]:
    """Return the commands in the data of `/help`: the most used first, then group by group."""
    grouped = (name for group in data.get("groups") or () for name in group["commands"])
    order = [*dict.fromkeys((*(data.get("first") or ()), *grouped))]
    places = {name: place for place, name in enumerate(order)}
    return sorted(data.get("commands") or (), key=lambda one: places.get(one["name"], len(order)))


class Suggestion(Struct, frozen=True):
    """A suggestion: `text` replaces the last `replaces` characters."""

    text: str
    replaces: int
    meaning: str


def find_kind(line: str) -> str:
    """Return the kind of argument that the command at the beginning of `line` takes next; "" for
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
    for command in vocabulary.commands:
        usage = f" {command['usage']}" if command.get("usage") else ""
        yield _add_slash(command["name"]), f"{_(command['summary'])}{usage}"


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
    """Yield the present value, for changes, with the description of possible values; then the other
    values, if they are few."""
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


# The source of the arguments of commands, in the data of other commands.

SOURCES: Mapping[str, tuple[str, str]] = {
    "turns": ("/context turns", "turns"),
    "summaries": ("/context summaries", "summaries"),
    "branches": ("/branches", "branches"),
    "agents": ("/agent", "agents"),
    "models": ("/model list", "models"),
    "days": ("/memory", "days"),
}
"""The command whose data lists the arguments of a kind, and the key in it."""


def is_known(line: str, vocabulary: Vocabulary) -> bool:
    """Return whether this command exists, with its subcommand: otherwise the text might be an
    argument that changes something."""
    name, _, rest = line.partition(" ")
    return any(
        _add_slash(command["name"]) == name
        and (not rest or rest in {sub["name"] for sub in command.get("subcommands") or ()})
        for command in vocabulary.commands
    )


def offers_in(kind: str, listed: Iterable[Any]) -> list[Offer]:
    """Return the texts that can be typed for these items; for lists that grow, the newest first."""
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
    """A history file from which lines can be deleted."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path
        self.is_private: Callable[[], bool] = lambda: False
        self._is_begun = False

    @property
    def keeps_nothing(self) -> bool:
        """Return whether the lines typed now are off the record."""
        return self._is_begun or self.is_private()

    def append_string(self, string: str) -> None:
        """Add a line. Off the record, it is available to the arrow keys, but not written to the
        file. A line typed behind /private on may arrive before the bot has processed the
        command."""
        command = string.lower().split()
        if command in (["/private", "on"], ["/private", "off"]):
            self._is_begun = command[1] == "on"
        if self.keeps_nothing:
            self._loaded_strings.insert(0, string)
        else:
            super().append_string(string)

    def forget(self, texts: Collection[str] | None) -> None:
        """Delete the lines with one of these texts, and all commands, which may contain anything;
        None: all lines."""
        rest = (
            []
            if texts is None
            else [
                line for line in [*self.load_history_strings()][::-1] if not _is_either(line, texts)
            ]
        )
        self._path.unlink(missing_ok=True)
        self._path.touch(mode=0o600)
        for line in rest:
            self.store_string(line)
        self._loaded = False  # the next typed line reloads the file


def _is_either(line: str, texts: Collection[str]) -> bool:
    """Return whether a line is a command, or one of the texts; "//x" sends "/x" to the model."""
    text = line.strip()
    is_command = text.startswith("/") and not text.startswith("//")
    return is_command or text in texts or (text.startswith("//") and text[1:] in texts)


KEYS: Sequence[tuple[str, str]] = (
    ("Enter", "send; in a form, save"),
    ("Esc Enter", "a new line"),
    ("Tab", "complete: commands, settings and their values, models, turns, days, files"),
    ("↑ in an empty line", "change your last question; ↑ once more: what you typed before it"),
    ("↑ ↓", "move in a text of many lines, or through what you have typed before"),
    ("Ctrl-R", "search what you have typed before"),
    ("Ctrl-X Ctrl-E", "write in your editor ($VISUAL or $EDITOR)"),
    ("Ctrl-V", "put the picture that is in the clipboard in (with wl-paste, xclip or pngpaste)"),
    ("Ctrl-O", "show what the model thinks before it answers, or hide it"),
    ("Esc", "close a list"),
    ("Ctrl-C", "stop the answer; else clear the line, cancel a form, or close a list"),
    ("Ctrl-D", "quit, where the line is empty"),
)
TYPED: Sequence[tuple[str, str]] = (
    ("/resume [WORDS]", "the conversations of this terminal: choose one, or begin another"),
    ("/copy [N]", "copy the last answer, or the Nth last; /copy code [N]: a code block"),
    ("@FILE", 'put a file in: @notes.txt, @"two words.pdf"'),
    ("a picture dropped here", "its path becomes an @FILE"),
    ("!COMMAND", "run a command in the sandbox of the tool `shell`; the model sees its output"),
    ("//TEXT", "send a text that begins with a slash"),
    ("/help keys", "this list"),
    ("/quit", "quit"),
)
COMMANDS: Sequence[tuple[str, str]] = (
    ("resume", "Open another conversation of this terminal, or begin one"),
    ("copy", "Copy an answer or its code to the clipboard"),
    ("quit", "Quit"),
)
"""Commands that the terminal carries out itself."""


HINT = "In the terminal, too: /resume for other conversations, /help keys, @file."
"""The hint below the list of all commands."""


def table() -> str:
    """Return both lists, as Markdown."""
    does = _("description")
    keys = "\n".join(f"| {_(key)} | {_(what)} |" for key, what in KEYS)
    typed = "\n".join(f"| `{_(text)}` | {_(what)} |" for text, what in TYPED)
    return (
        f"| {_('key')} | {does} |\n|---|---|\n{keys}\n\n"
        f"| {_('typed')} | {does} |\n|---|---|\n{typed}"
    )
