"""The values that are read from another program's data."""

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
"""The thresholds above which a number of seconds would be a time in the far future."""
_LONGEST_KIND, _LONGEST_TIME = 40, 40  # maximum characters
_NUMBER = re.compile(r"\d{9,20}(?:\.\d{1,20})?", re.ASCII)
_MOST_NAMED = 10  # maximum names of files
_MOST_GAPS = 100  # in a tree: each takes time proportional to the number of nodes


class MovingError(CommandRefused):
    """An import or export that is not possible. The text is a sentence with advice."""


class UnreadableFile(MovingError):
    """An error of one file of several; `why` is the reason in a few words."""

    def __init__(self, text: str, why: str) -> None:
        super().__init__(text)
        self.why = why


class UnreadableChat(Exception):
    """A conversation that can't be read, while others can. The text is the reason in a few
    words."""


TOO_LARGE = "larger than anything that a program would have written"
"""The reason for an unreadable conversation with one value, or a total, that is too large."""


class ForeignMessage(Struct, frozen=True):
    """A message of another program. `call_id` and `tool` are set for tool results, `pictures` are
    names for `ForeignSource.picture`, `at` is None if unknown."""

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
    """A conversation, identified by `identity`. `standing` is its place in lists, and `prompt` its
    own system prompt."""

    identity: str
    title: str
    messages: tuple[ForeignMessage, ...]
    standing: Standing = ""
    prompt: str = ""
    at: datetime | None = None


class Persona(Struct, frozen=True):
    """A role that was given to a model; it becomes an agent of this name."""

    name: str
    description: str
    prompt: str


class ForeignSetting(Struct, frozen=True):
    """A setting with a counterpart here: its name there, and `key` and `value` here."""

    was: str
    key: str
    value: Any


class ForeignSchedule(Struct, frozen=True):
    """A scheduled task of another program. Its `rule` is in the form of a job's rule ("": once, at
    `anchor`, in seconds since 1970)."""

    name: str
    text: str
    rule: str = ""
    anchor: float = 0.0
    zone: str = ""


class SkippedItems(Struct):
    """The items without a counterpart: their number by kind, which has a singular and a plural
    name, and sentences about single items."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)

    def add(self, number: int, one: str, many: str = "") -> None:
        """Count items of a kind; the names are as in `wording.count`."""
        if number:
            self.counts[one, many] += number

    def add_some(self, number: int, noun: str, rest: str) -> None:
        """So many more of a kind that has a plural in s, and the same words behind it."""
        self.add(number, f"{noun} {rest}", f"{noun}s {rest}")

    def add_unread(self, what: str, kind: str) -> None:
        """Count content or a message of an unknown kind, which is named."""
        name = kind[:_LONGEST_KIND] or "without a name"
        self.add_some(1, what, f"of a kind that is not read ({name})")

    def add_too_large(self, one: str, many: str) -> None:
        """Count an item of a kind that is too large to be read."""
        self.add(1, f"{one} that is {TOO_LARGE}", f"{many} that are {TOO_LARGE}")

    def add_other_version(self, number: int) -> None:
        """Count messages on branches that are not imported."""
        self.add_some(number, "message", "not on the newest branch (edits, retries)")

    def add_damaged_lines(self, number: int) -> None:
        """Count lines of a file that are not JSON objects."""
        self.add(number, "line of a session that is damaged", "lines of sessions that are damaged")

    def add_files(self, names: Sequence[str], why: str) -> None:
        """Report files that are skipped on purpose."""
        if names:
            self.remarks.append(f"{name_some(names)}: {why}.")

    def add_unread_file(self) -> None:
        """Count a file that should be text, but is not, or is too large."""
        what = "no text, or too large"
        self.add(1, f"file that is {what}", f"files that are {what}")

    def __bool__(self) -> bool:
        return bool(self.counts or self.remarks)


def name_some(names: Sequence[str]) -> str:
    """Return the first of these names, and the number of further ones."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


class ImportedProfile(Struct):
    """The data other than conversations: lines for `MEMORY.md`, notes for days, personas, settings,
    and scheduled tasks."""

    memory: list[str] = field(default_factory=list)
    days: Mapping[date, str] = field(default_factory=dict)
    personas: list[Persona] = field(default_factory=list)
    settings: list[ForeignSetting] = field(default_factory=list)
    schedules: list[ForeignSchedule] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any((self.memory, self.days, self.personas, self.settings, self.schedules))


def as_time(value: object) -> datetime | None:
    """Return a time given in seconds since 1970, or in thousandths, millionths or billionths of a
    second, as a number or a text, or in ISO 8601 (UTC if it names no zone); None if it is not a
    time."""
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
    """Return the nodes of a tree from the root to `last`; `parent` is the field that names the
    parent. If `last` does not exist, the path ends at the newest leaf. If a parent is missing, the
    path continues with the newest remaining leaf that is not newer, and not a descendant of the
    path's top."""
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
    """Return the newest leaf that is not newer than a path which begins at this time, and not a
    descendant of its top."""
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
    """Return the newest node without children; "" if there is no node."""
    inner = {as_text(node.get(parent)) for node in nodes.values()}
    ends = [name for name in nodes if name not in inner] or [*nodes]
    return max(reversed(ends), key=times.__getitem__, default="")


def _find_below(nodes: Mapping[str, Mapping[str, Any]], top: str, parent: str) -> set[str]:
    """Return this node and its descendants."""
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
    """Yield the items of several files. If a file can't be read to its end, it is reported, and the
    others are read. If none can be read, or there is only one, its error is raised: MovingError."""
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
    """Return the identity of a conversation without an id: the name of its first node, which may be
    the same in each ("0", or none), its title, and its first words."""
    return "\0".join((first, title, messages[0].text if messages else ""))


def standing_of(*, is_archived: object, is_pinned: object) -> Standing:
    """Return where lists show a conversation that was archived or pinned, or neither."""
    return "archived" if is_archived else "pinned" if is_pinned else ""


def as_text(value: object) -> str:
    """Return a text; "" for any other value."""
    return value if isinstance(value, str) else ""
