"""Pure functions over the log of file changes: the changes after the end of a turn.

The log has one order for all conversations of a chat. A file's state at the end of a turn is the
state before the first change after it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from memory.keys import home_of

Kind = Literal["tool", "restore", "here", "lost"]


class ChangeRow(Struct, frozen=True):
    """A change of a file: its versions before and after, as hashes ("": it did not exist). Rows of
    one `batch` belong together. A `tool` ran in this turn; a `restore` came after it, or the chat
    switched to this conversation then (`here`, without a file). `lost` marks, for all chats,
    changes that are no longer readable. `cut` is the last earlier change of this file that is no
    longer in the log."""

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
        """Return whether this was before the end of a turn of its conversation."""
        return self.turn <= turn if self.kind == "tool" else self.turn < turn


class FileStep(Struct, frozen=True):
    """A file to be restored to a version ("": it did not exist). `is_foreign`: somebody else has
    changed it since; `is_kept`: a turn that is still in the conversation has changed it; `is_lost`:
    the version is no longer stored."""

    path: str
    wanted: str
    is_foreign: bool = False
    is_kept: bool = False
    is_lost: bool = False

    @property
    def needs_yes(self) -> bool:
        return self.is_foreign or self.is_kept


def without(rows: Sequence[ChangeRow], going: Collection[ChangeRow]) -> list[ChangeRow]:
    """Return the rows without the deleted ones. The next row of the same file in the same chat is
    marked, since the state before it is no longer known."""
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
"""A conversation and its ancestors, each with the last turn of it that belongs to the line."""


def find_end(rows: Sequence[ChangeRow], line: Line) -> int:
    """Return the last row before the end of the last turn of this line."""
    last = dict(line)
    return max(
        (row.seq for row in rows if row.is_within(last.get(row.conversation, -1))), default=0
    )


def find_leaving(rows: Sequence[ChangeRow], conversation: str, line: Line) -> int:
    """Return the last row before the chat left this conversation, to which it has returned; if it
    was never there, the last row before the end of this line."""
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
