"""Pure functions of the log of changes of files: those that came after the end of a turn.

The log has one order for all conversations of a chat. A file's state at the end of a turn is what
the first change after it found.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from memory.keys import home_of

Kind = Literal["tool", "restore", "here", "lost"]


class ChangeRow(Struct, frozen=True):
    """A change of a file: what it held before and after, by hash ("": it was not there). Rows of
    one `batch` belong together. A `tool` ran in this turn; a `restore` came after it, or the chat
    was led to this conversation then (`here`, without a file). `lost` stands, for all chats, in the
    place of changes that can't be read any more. `cut`: the last change of this file before this
    one that is not in the log any more."""

    seq: int
    batch: int
    at: float
    conversation: str
    turn: int
    kind: Kind
    path: str = ""
    before: str = ""
    after: str = ""
    cut: int = 0

    @property
    def versions(self) -> tuple[str, str]:
        return self.before, self.after

    def is_within(self, turn: int) -> bool:
        """Return whether this had happened when a turn of its conversation ended."""
        return self.turn <= turn if self.kind == "tool" else self.turn < turn


class FileStep(Struct, frozen=True):
    """A file that is to be set back to a version ("": it was not there). `is_foreign`: somebody
    else has changed it meanwhile; `is_kept`: so has a turn that the conversation still has;
    `is_lost`: the version is not kept any more."""

    path: str
    wanted: str
    is_foreign: bool = False
    is_kept: bool = False
    is_lost: bool = False

    @property
    def needs_yes(self) -> bool:
        return self.is_foreign or self.is_kept


def without(rows: Sequence[ChangeRow], going: Collection[ChangeRow]) -> list[ChangeRow]:
    """Return the rows but those that go. The next one of the same file in the same chat says so:
    what the file held before these is not known any more."""
    rest, gone = list[ChangeRow](), dict[tuple[str, str], int]()
    for row in rows:
        key = (home_of(row.conversation), row.path)
        if row in going:
            gone[key] = row.seq
        elif cut := gone.pop(key, 0):
            rest.append(replace(row, cut=cut))
        else:
            rest.append(row)
    return rest


Line = Sequence[tuple[str, int]]
"""A conversation and those that it was branched off, each with the last turn that it has of it."""


def find_end(rows: Sequence[ChangeRow], line: Line) -> int:
    """Return the last row from before the end of the last turn of this line."""
    last = dict(line)
    return max(
        (row.seq for row in rows if row.is_within(last.get(row.conversation, -1))), default=0
    )


def find_leaving(rows: Sequence[ChangeRow], conversation: str, line: Line) -> int:
    """Return the last row from before the chat left this conversation, to which it came back; where
    it was never there, from before the end of this line."""
    own = [row for row in rows if row.conversation == conversation]
    came = max((row.seq for row in own if row.kind == "here"), default=0)
    before = [row.seq for row in own if row.seq < came]
    return before[-1] if before else find_end(rows, line)


def plan(
    rows: Sequence[ChangeRow],
    since: int,
    now: Mapping[str, str],
    versions: Collection[str],
    kept: Collection[ChangeRow],
) -> list[FileStep]:
    """Return what sets these files back that rows have changed after the row `since`; `now` is what
    they hold. `versions` are there, and the `kept` changes are of turns that the conversation still
    has."""
    changes: dict[str, list[ChangeRow]] = {}
    for row in rows:
        if row.path in now and row.seq > since:
            changes.setdefault(row.path, []).append(row)
    lost = min((row.seq for row in rows if row.kind == "lost" and row.seq > since), default=0)
    steps = [
        _plan_one(found, 0 < lost < found[0].seq, since, now[path], versions, kept)
        for path, found in sorted(changes.items())
    ]
    return [step for step in steps if step is not None]


def _plan_one(
    changes: Sequence[ChangeRow],
    is_unknown: bool,
    since: int,
    now: str,
    versions: Collection[str],
    kept: Collection[ChangeRow],
) -> FileStep | None:
    first, *others = changes
    is_unknown = is_unknown or first.cut > since
    if now == first.before and not is_unknown:
        return None
    found = [*(row.before for row in others), now]
    return FileStep(
        first.path,
        first.before,
        is_foreign=any(row.after != next_ for row, next_ in zip(changes, found, strict=True)),
        is_kept=any(row.kind == "tool" and row in kept for row in changes),
        is_lost=is_unknown or (bool(first.before) and first.before not in versions),
    )
