"""The state of a cluster, who is there, who owns what, and what waits: for `/status` and the
doctor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from msgspec import Struct

from memory.record import mailbox
from memory.record.database import Database
from memory.record.mailbox import Backlog
from plugins.cluster import record
from plugins.cluster.record import OwnerRow, ProcessRow
from plugins.cluster.slices import SLICES, name_of_slice
from plugins.health import ClusterInfo, ProcessInfo

SLICE_NAMES = tuple(name_of_slice(number) for number in range(SLICES))


class Recorded(Struct, frozen=True):
    """The rows of a cluster in the record."""

    processes: tuple[ProcessRow, ...]
    owners: tuple[OwnerRow, ...]
    backlog: Backlog


def read(database: Database) -> Recorded:
    """All of it, without those who were shut out."""
    living = (row for row in record.list_processes(database) if not row.is_fenced)
    owners = record.list_owners(database)
    return Recorded(tuple(living), tuple(owners), mailbox.measure_backlog(database))


def count(
    recorded: Recorded, queued: Mapping[str, int] | None, heard: Collection[str], now: float
) -> ClusterInfo:
    """Sum it up: `queued` are the calls in the broker's queues by their names (None: it
    can't be asked), `heard` who gave a sign of life, `now` in seconds since 1970."""
    names = set(SLICE_NAMES)
    owned = Counter(row.process for row in recorded.owners if row.name in names)
    processes = tuple(
        ProcessInfo(row.id, row.role, row.version, row.since, owned[row.id], row.id in heard)
        for row in recorded.processes
    )
    backlog = recorded.backlog
    return ClusterInfo(
        processes=processes,
        unowned=SLICES - sum(one.slices for one in processes),
        queued=None if queued is None else sum(queued.values()),
        longest=None if queued is None else max(queued.values(), default=0),
        unanswered=backlog.unanswered,
        lag=max(0.0, now - backlog.oldest) if backlog.unanswered else 0.0,
        unsent=backlog.unsent,
    )
