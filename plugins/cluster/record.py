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
from plugins.cluster.slices import SLICES, name_of_slice
from plugins.health import ClusterInfo, ProcessInfo

NOBODY = ""
SCHEMA = len(MIGRATIONS)
"""The version of the tables that this program works with."""


class FencedError(StoreError):
    """This process was taken for dead, and others own what it owned."""


class ProcessRow(Struct, frozen=True):
    """A process that takes part: `role` is "gateway" or "worker"; `since` in seconds since 1970."""

    id: str
    role: str
    version: str
    since: float
    is_fenced: bool


class OwnerRow(Struct, frozen=True):
    """The owner of something, or `NOBODY`; `epoch` counts its owners."""

    name: str
    process: str
    epoch: int


def join(database: Database, process: str, role: str, version: str) -> None:
    """Let a process take part from now on."""
    tables.Process.insert(
        id=process, role=role, version=version, since=time.time(), is_fenced=False
    ).execute(database)


def leave(database: Database, process: str) -> None:
    """Let a process end: it owns nothing any more."""
    table, owner = tables.Process, tables.Owner
    table.delete().where(table.id == process).execute(database)
    owner.update(process=NOBODY).where(owner.process == process).execute(database)


def check(database: Database, process: str) -> None:
    """Check that this process may write; until this transaction ends, nobody shuts it out. Raises
    FencedError."""
    statement = f'SELECT is_fenced FROM "process" WHERE id = ?{database.shared_lock}'
    found = database.execute_sql(statement, (process,)).fetchone()
    if found is None or found[0]:
        raise FencedError("Another process has taken over what this one was working on.")


def take(database: Database, name: str, process: str) -> OwnerRow:
    """Let a process own something; returns who did before, who is shut out unless it is the same.
    What this process owns already it still does, in the same epoch."""
    table, processes = tables.Owner, tables.Process
    table.insert(name=name, process=NOBODY, epoch=0).on_conflict_ignore().execute(database)
    # Written before it is read, so that two who take it at once come one after the other.
    table.update(epoch=table.epoch + 1).where(
        (table.name == name) & (table.process != process)
    ).execute(database)
    before = _owner(database, name)
    if before.process != process:
        table.update(process=process).where(table.name == name).execute(database)
        processes.update(is_fenced=True).where(processes.id == before.process).execute(database)
    return before


def give(database: Database, names: Iterable[str], process: str) -> None:
    """Let a process own these no more; nothing happens where it does not."""
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
    """All that take part, and those that were shut out, the oldest first."""
    table = tables.Process
    fields = (table.id, table.role, table.version, table.since, table.is_fenced)
    query = table.select(*fields).order_by(table.since, table.id)
    return [
        ProcessRow(identity, role, version, since, bool(is_fenced))
        for identity, role, version, since, is_fenced in query.tuples().execute(database)
    ]


def list_strangers(database: Database, version: str) -> list[ProcessRow]:
    """List the processes that take part, or died and were never missed, and do not go together with
    a process of this version that is about to start: theirs is another, or the tables are not as
    this program has them. It may be asked of any database, also of one that has no tables yet."""
    if "process" not in database.get_tables():
        return []
    is_same = database.schema_version() == SCHEMA
    rows = [row for row in list_processes(database) if not row.is_fenced]
    return [row for row in rows if not is_same or row.version != version]


def shut_out(database: Database, processes: Collection[str]) -> None:
    """Let these write nothing more; what they own goes to whoever takes it."""
    table = tables.Process
    table.update(is_fenced=True).where(table.id.in_([*processes])).execute(database)


def forget_fenced(database: Database) -> None:
    """Delete those that were shut out and own nothing any more; deleted, they stay shut out."""
    table, owner = tables.Process, tables.Owner
    owning = owner.select(owner.process)
    is_over = (table.is_fenced == 1) & table.id.not_in(owning)
    table.delete().where(is_over).execute(database)


def forget(database: Database, processes: Collection[str]) -> None:
    """Delete processes that are gone; they own nothing any more, and may write nothing."""
    for process in processes:
        leave(database, process)


def claim(database: Database, outbox: int, process: str) -> str | None:
    """Let a process send a reply, which no other does then; None where it is sent already. Returns
    who claimed it before and may have sent it, `NOBODY` where nobody did."""
    table = tables.Outbox
    query = table.select(table.claim, table.is_sent).where(table.id == outbox)
    before, is_sent = next(iter(query.tuples().execute(database)), (NOBODY, 1))
    if is_sent:
        return None
    tables.update(database, table, outbox, claim=process)
    return str(before)


SLICE_NAMES = tuple(name_of_slice(number) for number in range(SLICES))


class Recorded(Struct, frozen=True):
    """The rows of a cluster in the record."""

    processes: tuple[ProcessRow, ...]
    owners: tuple[OwnerRow, ...]
    backlog: Backlog


def read_all(database: Database) -> Recorded:
    """All of it, without those who were shut out."""
    living = (row for row in list_processes(database) if not row.is_fenced)
    owners = list_owners(database)
    return Recorded(tuple(living), tuple(owners), mailbox.measure_backlog(database))


def sum_up(
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
