"""The clock's time when the bot ran last: one row, so that a clock that jumps is noticed."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import asdict
from peewee import fn

from memory.record import tables
from memory.record.database import Database

_ONLY = 1


class Clock(Struct, frozen=True):
    """Times in seconds since 1970. `believed` is the last that was believed, moved on by the time
    that the bot has run since; `seen` what the clock said last. While the two are far apart,
    `waited` counts the seconds for which the bot has run so, and `is_told` says whether an owner
    knows."""

    believed: float
    seen: float
    waited: float = 0.0
    is_told: bool = False


def load(database: Database) -> Clock | None:
    """Load the time that is kept; in a database of before there was such a row, the newest thing
    that happened; None where nothing did."""
    row = tables.Clock
    query = row.select(row.believed, row.seen, row.waited, row.is_told)
    for believed, seen, waited, is_told in query.tuples().execute(database):
        return Clock(believed, seen, waited, bool(is_told))
    happened = _newest(database)
    return Clock(happened, happened) if happened else None


def save(database: Database, clock: Clock) -> None:
    """Keep this in place of what was kept."""
    tables.put(database, tables.Clock, ("id",), id=_ONLY, **asdict(clock))


def _newest(database: Database) -> float:
    times = {
        tables.Conversation: tables.Conversation.active_at,
        tables.Inbox: tables.Inbox.at,
        tables.Usage: tables.Usage.at,
    }
    newest = [table.select(fn.MAX(at)).scalar(database) for table, at in times.items()]
    return max((float(time) for time in newest if time is not None), default=0.0)
