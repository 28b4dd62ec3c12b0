"""Several processes on one database: which there are, who owns what, who sends which reply, and
what waits.

Whoever takes something over from a process that did not hand it over shuts that process out: it may
still run, and believe that it is the owner. Each of its transactions begins with `check`, which
waits for, or is waited for by, the one that shuts it out. So of a process that was stopped for a
while and goes on, nothing is written after its successor has begun.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from memory.record import mailbox, tables
from memory.record.database import Database, StoreError
from memory.record.mailbox import Backlog
from memory.record.migrations import MIGRATIONS
from plugins.cluster.wire import SLICES, name_of_slice
from plugins.health import ClusterInfo, ProcessInfo

NOBODY = ""
SCHEMA = len(MIGRATIONS)
"""The version of the tables that this program uses."""


class FencedError(StoreError):
    """This process was considered dead, and others own its items."""


class ProcessRow(Struct, frozen=True):
    """A process of the cluster: `role` is "gateway" or "worker"; `since` in seconds since 1970."""

    id: str
    role: str
    version: str
    since: float
    is_fenced: bool


class OwnerRow(Struct, frozen=True):
    """The owner of an item, or `NOBODY`; `epoch` counts its owners."""

    name: str
    process: str
    epoch: int


def join(database: Database, process: str, role: str, version: str) -> None:
    """Add a process to the cluster."""
    tables.Process.insert(
        id=process, role=role, version=version, since=time.time(), is_fenced=False
    ).execute(database)


def leave(database: Database, process: str) -> None:
    """Remove a process; it owns nothing afterwards."""
    table, owner = tables.Process, tables.Owner
    table.delete().where(table.id == process).execute(database)
    owner.update(process=NOBODY).where(owner.process == process).execute(database)


def check(database: Database, process: str) -> None:
    """Check that this process may write; no other process can fence it until this transaction ends.
    Raises FencedError."""
    statement = f'SELECT is_fenced FROM "process" WHERE id = ?{database.shared_lock}'
    found = database.execute_sql(statement, (process,)).fetchone()
    if found is None or found[0]:
        raise FencedError("Another process has taken over this work.")


def take(database: Database, name: str, process: str) -> OwnerRow:
    """Make a process the owner of an item; return the previous owner, which is fenced if it is
    another process. An item that the process already owns keeps its epoch."""
    table, processes = tables.Owner, tables.Process
    table.insert(name=name, process=NOBODY, epoch=0).on_conflict_ignore().execute(database)
    # Written before it is read, so that two concurrent takeovers are serialised.
    table.update(epoch=table.epoch + 1).where(
        (table.name == name) & (table.process != process)
    ).execute(database)
    before = _owner(database, name)
    if before.process != process:
        table.update(process=process).where(table.name == name).execute(database)
        processes.update(is_fenced=True).where(processes.id == before.process).execute(database)
    return before


def release_items(database: Database, names: Iterable[str], process: str) -> None:
    """Give up these items of a process; others are ignored."""
    table = tables.Owner
    is_its = table.name.in_([*names]) & (table.process == process)
    table.update(process=NOBODY).where(is_its).execute(database)


def _owner(database: Database, name: str) -> OwnerRow:
    table = tables.Owner
    query = table.select(table.name, table.process, table.epoch).where(table.name == name)
    return OwnerRow(*next(iter(query.tuples().execute(database))))


def list_owners(database: Database) -> list[OwnerRow]:
    """List the owners."""
    table = tables.Owner
    query = table.select(table.name, table.process, table.epoch).order_by(table.name)
    return [OwnerRow(*row) for row in query.tuples().execute(database)]


def list_processes(database: Database) -> list[ProcessRow]:
    """Return all processes, including fenced ones, oldest first."""
    table = tables.Process
    fields = (table.id, table.role, table.version, table.since, table.is_fenced)
    query = table.select(*fields).order_by(table.since, table.id)
    return [
        ProcessRow(identity, role, version, since, bool(is_fenced))
        for identity, role, version, since, is_fenced in query.tuples().execute(database)
    ]


def list_strangers(database: Database, version: str) -> list[ProcessRow]:
    """List the processes that are in the cluster, or died unnoticed, and are incompatible with a
    process of this version that is about to start: their version differs, or the tables differ from
    this program's. Works with any database, also one without tables."""
    if "process" not in database.get_tables():
        return []
    is_same = database.schema_version() == SCHEMA
    rows = [row for row in list_processes(database) if not row.is_fenced]
    return [row for row in rows if not is_same or row.version != version]


def fence(database: Database, processes: Collection[str]) -> None:
    """Fence these processes; their items can be taken by others."""
    table = tables.Process
    table.update(is_fenced=True).where(table.id.in_([*processes])).execute(database)


def forget_fenced(database: Database) -> None:
    """Delete the fenced processes that own nothing; they stay fenced."""
    table, owner = tables.Process, tables.Owner
    owning = owner.select(owner.process)
    is_over = (table.is_fenced == 1) & table.id.not_in(owning)
    table.delete().where(is_over).execute(database)


def forget(database: Database, processes: Collection[str]) -> None:
    """Delete processes that have ended; they own nothing afterwards, and may not write."""
    for process in processes:
        leave(database, process)


def claim(database: Database, outbox: int, process: str) -> str | None:
    """Claim a reply for a process to send; return None if it is sent already. Otherwise return the
    previous claimant, which may have sent it, or `NOBODY`."""
    table = tables.Outbox
    query = table.select(table.claim, table.is_sent).where(table.id == outbox)
    before, is_sent = next(iter(query.tuples().execute(database)), (NOBODY, 1))
    if is_sent:
        return None
    tables.update(database, table, outbox, claim=process)
    return str(before)


SLICE_NAMES = tuple(name_of_slice(number) for number in range(SLICES))


class ClusterRows(Struct, frozen=True):
    """The rows of a cluster in the record."""

    processes: tuple[ProcessRow, ...]
    owners: tuple[OwnerRow, ...]
    backlog: Backlog


def read_all(database: Database) -> ClusterRows:
    """Read the state, without the processes that were fenced."""
    living = (row for row in list_processes(database) if not row.is_fenced)
    owners = list_owners(database)
    return ClusterRows(tuple(living), tuple(owners), mailbox.measure_backlog(database))


def sum_up(
    recorded: ClusterRows, queued: Mapping[str, int] | None, alive: Collection[str], now: float
) -> ClusterInfo:
    """Summarise the state: `queued` are the calls in the broker's queues by name (None: it can't be
    reached), `alive` the processes with a heartbeat, `now` in seconds since 1970."""
    names = set(SLICE_NAMES)
    owned = Counter(row.process for row in recorded.owners if row.name in names)
    processes = tuple(
        ProcessInfo(row.id, row.role, row.version, row.since, owned[row.id], row.id in alive)
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
