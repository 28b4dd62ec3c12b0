"""What is read of another program, as values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from memory.messages import ToolCall

ForeignRole = Literal["user", "assistant", "tool"]
_EARLIEST = datetime(1990, 1, 1, tzinfo=UTC).timestamp()
_MILLISECONDS, _MICROSECONDS, _NANOSECONDS = 1e11, 1e14, 1e17
"""Numbers from which a time in seconds would be in a far future."""


class MovingError(Exception):
    """Nothing can be imported or exported. The text is a sentence, and says what to do."""


class UnreadableChat(Exception):
    """One conversation can't be read; the others can. The text says why, in some words."""


class ForeignMessage(Struct, frozen=True):
    """A message as another program kept it. `call_id` and `tool` are set on results of tools,
    `pictures` are names that `ForeignSource.picture` knows, `at` is None where nobody knows."""

    role: ForeignRole
    text: str = ""
    at: datetime | None = None
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    tool: str = ""
    is_error: bool = False
    pictures: tuple[str, ...] = ()


class ForeignChat(Struct, frozen=True):
    """A conversation: by `identity` it is known again. `standing` is where lists show it, and
    `prompt` the system prompt that it had for itself."""

    identity: str
    title: str
    messages: tuple[ForeignMessage, ...]
    standing: Literal["", "pinned", "archived"] = ""
    prompt: str = ""
    at: datetime | None = None


class Persona(Struct, frozen=True):
    """Who a model was told to be: it becomes an agent of this name."""

    name: str
    description: str
    prompt: str


class ForeignSetting(Struct, frozen=True):
    """A setting that has a counterpart here: what it was called there, `key` and `value` here."""

    was: str
    key: str
    value: Any


class Remains(Struct):
    """What had no counterpart: how many of each kind, which has a name for one of them and one for
    several, and sentences about single things."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)

    def add(self, number: int, one: str, many: str = "") -> None:
        """So many more of a kind, called as `wording.count` takes it."""
        if number:
            self.counts[one, many] += number

    def __bool__(self) -> bool:
        return bool(self.counts or self.remarks)


class Belongings(Struct):
    """What there is besides conversations: lines for `MEMORY.md`, notes for days, personas and
    settings."""

    memory: list[str] = field(default_factory=list)
    days: Mapping[date, str] = field(default_factory=dict)
    personas: list[Persona] = field(default_factory=list)
    settings: list[ForeignSetting] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.memory or self.days or self.personas or self.settings)


class ForeignSource(Protocol):
    """What another program kept. All of it may raise MovingError."""

    name: str
    """As people call the program."""
    remains: Remains
    """It fills up as things are read."""

    def count(self) -> int:
        """How many conversations there are, as far as that is quickly known; 0 where it is not."""
        ...

    def chats(self) -> Iterator[ForeignChat | UnreadableChat]:
        """The conversations, one after the other."""
        ...

    def belongings(self) -> Belongings:
        """What there is besides; asked for after the conversations, in which some of it stands."""
        ...

    def picture(self, name: str) -> bytes | None:
        """The bytes of a picture; None where it is not there, or too large."""
        ...


def as_time(value: object) -> datetime | None:
    """A time in seconds since 1970, or in thousandths, millionths or billionths of one; None for
    what can't be one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e20:
        return None
    seconds = float(value)
    for first, unit in ((_NANOSECONDS, 1e9), (_MICROSECONDS, 1e6), (_MILLISECONDS, 1e3)):
        if seconds >= first:
            seconds /= unit
            break
    return datetime.fromtimestamp(seconds, UTC) if _EARLIEST < seconds < _MILLISECONDS else None


def find_path(
    nodes: Mapping[str, Any],
    last: str,
    parent: str,
    time_of: Callable[[Mapping[str, Any]], float],
) -> list[Mapping[str, Any]]:
    """The nodes of a tree from the first to the `last`, each of which names its parent so; where
    there is no such one, to the newest of those at an end."""
    if last not in nodes:
        inner = {as_text(as_object(node).get(parent)) for node in nodes.values()}
        ends = [name for name in nodes if name not in inner] or list(nodes)
        last = max(reversed(ends), key=lambda name: time_of(as_object(nodes[name])))
    path: list[Mapping[str, Any]] = []
    seen: set[str] = set()
    while last in nodes and last not in seen:
        seen.add(last)
        path.append(as_object(nodes[last]))
        last = as_text(path[-1].get(parent))
    return path[::-1]


def name_by_beginning(first: str, title: str, messages: Sequence[ForeignMessage]) -> str:
    """What a conversation without an id is known by: the name of its first node, which may be the
    same in each ("0", or none), its title, and its first words."""
    return "\0".join((first, title, messages[0].text if messages else ""))


def as_text(value: object) -> str:
    """A text, or "" for what is none."""
    return value if isinstance(value, str) else ""


def as_object(value: object) -> Mapping[str, Any]:
    """An object of JSON, or an empty one for what is none."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """A list of JSON, or an empty one for what is none."""
    return value if isinstance(value, list) else []
