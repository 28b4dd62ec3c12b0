"""Values of what is read of another program."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from math import inf
from typing import Any, Literal, TypeVar

from msgspec import Struct, field

from agent.models.shapes import as_list
from bot.command_line import CommandRefused
from memory.messages import ToolCall

Found = TypeVar("Found")
ForeignRole = Literal["user", "assistant", "tool"]
Standing = Literal["", "pinned", "archived"]
_EARLIEST = datetime(1990, 1, 1, tzinfo=UTC).timestamp()
_MILLISECONDS, _MICROSECONDS, _NANOSECONDS = 1e11, 1e14, 1e17
"""Numbers from which a time in seconds would be in a far future."""
_LONGEST_KIND, _LONGEST_TIME = 40, 40  # characters
_NUMBER = re.compile(r"\d{9,20}(?:\.\d{1,20})?", re.ASCII)
_MOST_NAMED = 10  # files
_MOST_GAPS = 100  # in a tree: each costs as much time as there are nodes


class MovingError(CommandRefused):
    """Nothing can be imported or exported. The text is a sentence, and says what to do."""


class UnreadableFile(MovingError):
    """The fault of one file of several; `why` says in some words what is wrong with it."""

    def __init__(self, text: str, why: str) -> None:
        super().__init__(text)
        self.why = why


class UnreadableChat(Exception):
    """A conversation can't be read; the others can. The text says why, in some words."""


TOO_LARGE = "larger than anything that a program would have written"
"""The reason for a conversation that can't be read, of which one value, or all together, is too
large."""


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
    standing: Standing = ""
    prompt: str = ""
    at: datetime | None = None


class Persona(Struct, frozen=True):
    """A role that a model was given: it becomes an agent of this name."""

    name: str
    description: str
    prompt: str


class ForeignSetting(Struct, frozen=True):
    """A setting that has a counterpart here: what it was called there, `key` and `value` here."""

    was: str
    key: str
    value: Any


class ForeignSchedule(Struct, frozen=True):
    """A task of another program that came at times: its `rule` is one of a job here ("": once, at
    `anchor`, in seconds since 1970)."""

    name: str
    text: str
    rule: str = ""
    anchor: float = 0.0
    zone: str = ""


class SkippedItems(Struct):
    """Items that had no counterpart: how many of each kind, which has a name for one of them and
    one for several, and sentences about single things."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)

    def add(self, number: int, one: str, many: str = "") -> None:
        """So many more of a kind, called as `wording.count` takes it."""
        if number:
            self.counts[one, many] += number

    def add_some(self, number: int, noun: str, rest: str) -> None:
        """So many more of a kind that has a plural in s, and the same words behind it."""
        self.add(number, f"{noun} {rest}", f"{noun}s {rest}")

    def add_unread(self, what: str, kind: str) -> None:
        """Count a content or message of a kind that nobody here can read, by its name there."""
        name = kind[:_LONGEST_KIND] or "without a name"
        self.add_some(1, what, f"of a kind that is not read ({name})")

    def add_too_large(self, one: str, many: str) -> None:
        """Count one of a kind that is too large to be read."""
        self.add(1, f"{one} that is {TOO_LARGE}", f"{many} that are {TOO_LARGE}")

    def add_other_version(self, number: int) -> None:
        """Count messages on branches that were not taken."""
        self.add_some(number, "message", "not on the newest branch (edits, retries)")

    def add_damaged_lines(self, number: int) -> None:
        """Count lines of a file that are no objects of JSON."""
        self.add(number, "line of a session that is damaged", "lines of sessions that are damaged")

    def add_files(self, names: Sequence[str], why: str) -> None:
        """Tell of files that are left out on purpose."""
        if names:
            self.remarks.append(f"{name_some(names)}: {why}.")

    def add_unread_file(self) -> None:
        """Count a file of which text was wanted, that is none or too large."""
        what = "no text, or too large"
        self.add(1, f"file that is {what}", f"files that are {what}")

    def __bool__(self) -> bool:
        return bool(self.counts or self.remarks)


def name_some(names: Sequence[str]) -> str:
    """Return the first of these names, and how many more there are."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


class ImportedProfile(Struct):
    """All that there is besides conversations: lines for `MEMORY.md`, notes for days, personas,
    settings, and tasks that came at times."""

    memory: list[str] = field(default_factory=list)
    days: Mapping[date, str] = field(default_factory=dict)
    personas: list[Persona] = field(default_factory=list)
    settings: list[ForeignSetting] = field(default_factory=list)
    schedules: list[ForeignSchedule] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any((self.memory, self.days, self.personas, self.settings, self.schedules))


def as_time(value: object) -> datetime | None:
    """Return a time in seconds since 1970, or in thousandths, millionths or billionths of one, as
    a number or a text, or as ISO 8601 writes it (of UTC, where it names no zone); None for what
    can't be one."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return as_time(float(value))
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value[:_LONGEST_TIME])
            value = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
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
    time_of: Callable[[Mapping[str, Any]], datetime | None],
) -> list[Mapping[str, Any]]:
    """Return the nodes of a tree from the first to the `last`, each of which names its parent so;
    where there is no such one, to the newest of those at an end. Where a parent is missing, the
    path goes on with the newest of what is left that is no newer, and hangs on none of those after
    it."""
    left = {name: node for name, node in nodes.items() if isinstance(node, dict)}
    listed = {
        child: name
        for name, node in left.items()
        for field in ("children", "childrenIds")
        for child in as_list(node.get(field))
        if isinstance(child, str)
    }
    times = {name: at.timestamp() if (at := time_of(node)) else 0.0 for name, node in left.items()}
    path: list[Mapping[str, Any]] = []
    seen, gaps = set[str](), 0
    first = inf
    name = last if last in left else _newest_end(left, parent, times)
    while name in left and name not in seen:
        seen.add(name)
        path.append(left[name])
        first = min(first, times[name] or inf)
        above = as_text(path[-1].get(parent))
        if above and above not in left and gaps < _MOST_GAPS:
            gaps += 1
            above = listed.get(above) or _find_before(left, first, name, parent, times)
        name = above
    return path[::-1]


def _find_before(
    nodes: Mapping[str, Mapping[str, Any]],
    first: float,
    top: str,
    parent: str,
    times: Mapping[str, float],
) -> str:
    """Return the newest end of what is no newer than a path that begins then, and hangs not on its
    top."""
    below = _find_below(nodes, top, parent)
    others = {
        name: node for name, node in nodes.items() if name not in below and times[name] <= first
    }
    return _newest_end(others, parent, times)


def _newest_end(
    nodes: Mapping[str, Mapping[str, Any]],
    parent: str,
    times: Mapping[str, float],
) -> str:
    """Return the newest node that is the parent of none; "" where there is no node."""
    inner = {as_text(node.get(parent)) for node in nodes.values()}
    ends = [name for name in nodes if name not in inner] or [*nodes]
    return max(reversed(ends), key=times.__getitem__, default="")


def _find_below(nodes: Mapping[str, Mapping[str, Any]], top: str, parent: str) -> set[str]:
    """Return this node, and those that hang on it, at any depth."""
    children: dict[str, list[str]] = {}
    for name, node in nodes.items():
        children.setdefault(as_text(node.get(parent)), []).append(name)
    found = {top}
    waiting = [top]
    while waiting:
        for name in children.get(waiting.pop(), ()):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found


def read_each(
    names: Sequence[str], read: Callable[[str], Iterator[Found]], skipped: SkippedItems
) -> Iterator[Found]:
    """Yield what is in several files. Where one can't be read to its end, the others are, and it is
    told; where none can, or there is but one, its error is raised: MovingError."""
    failed = 0
    for name in names:
        try:
            yield from read(name)
        except UnreadableFile as error:
            failed += 1
            if failed == len(names):
                raise
            skipped.remarks.append(str(error))


def name_by_beginning(first: str, title: str, messages: Sequence[ForeignMessage]) -> str:
    """Return what a conversation without an id is known by: the name of its first node, which may
    be the same in each ("0", or none), its title, and its first words."""
    return "\0".join((first, title, messages[0].text if messages else ""))


def standing_of(*, is_archived: object, is_pinned: object) -> Standing:
    """Return where lists show a conversation that was archived or pinned, or neither."""
    return "archived" if is_archived else "pinned" if is_pinned else ""


def as_text(value: object) -> str:
    """Return a text, or "" for what is none."""
    return value if isinstance(value, str) else ""
