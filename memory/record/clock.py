"""The time of the clock when the bot ran last: one row, used to detect jumps of the clock."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import asdict
from peewee import fn

from memory.record import tables
from memory.record.database import Database

_ONLY = 1


class Clock(Struct, frozen=True):
    """Times in seconds since 1970. `believed` is the last time accepted as correct, plus the time
    that the bot has run since; `seen` is the clock's last reading. While the two are far apart,
    `waited` counts the seconds that the bot has run like this. `is_told` is true once an owner was
    notified."""

    believed: float
    seen: float
    waited: float = 0.0
    is_told: bool = False


def load(database: Database) -> Clock | None:
    """Load the stored time. In a database without such a row, return the time of its newest record;
    None if it has none."""
    row = tables.Clock
    query = row.select(row.believed, row.seen, row.waited, row.is_told)
    for believed, seen, waited, is_told in query.tuples().execute(database):
        return Clock(believed, seen, waited, bool(is_told))
    happened = _newest(database)
    return Clock(happened, happened) if happened else None


def save(database: Database, clock: Clock) -> None:
    """Store this clock, replacing the previous one."""
    tables.put(database, tables.Clock, ("id",), id=_ONLY, **asdict(clock))


def _newest(database: Database) -> float:
    times = {
        tables.Conversation: tables.Conversation.active_at,
        tables.Inbox: tables.Inbox.at,
        tables.Usage: tables.Usage.at,
    }
    newest = [table.select(fn.MAX(at)).scalar(database) for table, at in times.items()]
    return max((float(time) for time in newest if time is not None), default=0.0)
