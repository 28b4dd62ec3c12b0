"""Reminders and jobs: what is to be told or run at a time, and what came of each run.

A row says when it is due next. Whoever fires it moves that on and puts the reminder into the
outbox, or the prompt into the inbox, in one transaction: no process that dies in between tells or
runs anything twice, or not at all.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal

import orjson
from msgspec import Struct
from msgspec.structs import asdict, replace
from peewee import fn

from memory.keys import ConversationKey
from memory.record import mailbox, tables
from memory.record.database import Database
from memory.record.mailbox import AddressColumns, InboxRow, OutboxRow

Kind = Literal["reminder", "prompt", "command"]
"""The kinds of jobs: one is told, one runs as a turn, and one is carried out without a word."""
State = Literal["active", "paused", "done"]
Outcome = Literal["", "done", "failed", "stopped", "refused", "told"]
"""The outcome of a run; "": it waits, or is under way."""
KEPT_RUNS = 20
"""Runs of a job that are kept, besides those of the last days."""
KEPT_FOR = 2 * 86_400.0
"""Seconds for which all runs of a job are kept: what they cost counts for its day."""


class JobRow(Struct, frozen=True):
    """A reminder, whose `text` is told at its `place`, a prompt, which runs as a turn there, or a
    command ("/memory distill"), whose answer is told to nobody.

    Times are in seconds since 1970. `rule` says when it comes again ("": never; see
    `recurrence.py`), in the time zone `zone`, counted from `anchor`; `next_at` is when it
    is due next (0: not any more), which was worked out at `planned_at`. A run that failed is tried
    again at `retry_at` (0: no), for the `attempts`-th time, and was due at `retry_due`; `failures`
    counts runs in a row that failed for good. `home` is the chat's conversation that it was made
    in, `turn` that of the model's turn which made it ("pipe/main t5"; "": a person made it).
    `grants` are the tools, with spaces between, that need not ask; `run_budget` and `day_budget`
    are in US dollars (0: no limit). `branch` is the number of the chat's branch that it runs in (0:
    whichever the chat leads to). `why` says why it rests.

    A prompt with a `hook` is due when it is called by that name over HTTP, and at no time. Of the
    calls in that name, `forged` had not its secret, the last of them at `forged_at`.

    A prompt with a `condition` ("web_fetch:https://example.org") has that tool called when it is
    due, and runs only where the result is another than before, whose digest is `found` ("": none
    yet). That was done last at `looked_at`.
    """

    home: str
    place: AddressColumns
    kind: Kind
    text: str
    rule: str
    zone: str
    next_at: float
    anchor: float
    planned_at: float
    id: int = 0
    state: State = "active"
    why: str = ""
    turn: str = ""
    grants: str = ""
    max_steps: int = 0
    run_budget: float = 0.0
    day_budget: float = 0.0
    branch: int = 0
    retry_at: float = 0.0
    retry_due: float = 0.0
    attempts: int = 0
    failures: int = 0
    created_at: float = 0.0
    hook: str = ""
    forged: int = 0
    forged_at: float = 0.0
    condition: str = ""
    found: str = ""
    looked_at: float = 0.0

    @property
    def due(self) -> float:
        """Return the time at which it is, or was, to happen next; 0: not any more."""
        return self.retry_due if self.retry_at else self.next_at


class NewJob(Struct, frozen=True):
    """A job that somebody wants: its `rule` counts from `anchor` (seconds since 1970), which for
    what happens once is its time; `budget` is what a run may cost, in US dollars (None: what is
    set), `branch`, `hook` and `condition` as in `JobRow`."""

    kind: Kind
    text: str
    rule: str
    anchor: float
    zone: str
    grants: tuple[str, ...] = ()
    budget: float | None = None
    branch: int = 0
    hook: str = ""
    condition: str = ""


class RunRow(Struct, frozen=True):
    """A run of a job that was `due` and begun at `at`. `inbox` is its message (0: a reminder),
    `outbox` what was said of it, with spaces between; `cost` in US dollars."""

    job: int
    due: float
    at: float
    outcome: Outcome = ""
    why: str = ""
    inbox: int = 0
    outbox: str = ""
    cost: float = 0.0
    ended: float = 0.0
    id: int = 0


class RunDelivery(Struct, frozen=True):
    """The delivery of what a run said: how many parts wait to be sent, how often the first of these
    was tried in vain, and how many were put aside."""

    waiting: int = 0
    tries: int = 0
    aside: int = 0


def insert(database: Database, job: JobRow, most: int) -> int:
    """Store a job; returns its id, or 0 where its chat has so many that are not done."""
    columns = tables.ScheduledJob
    mine = columns.select(columns.id).where((columns.home == job.home) & (columns.state != "done"))
    if mine.count(database) >= most:
        return 0
    values = asdict(job) | asdict(job.place) | {"created_at": time.time()}
    del values["place"], values["id"]
    return tables.insert(database, columns, **values)


def count_of(database: Database, place: AddressColumns) -> int:
    """Return how many jobs the person at this place has in all chats that are not done."""
    columns = tables.ScheduledJob
    is_theirs = (columns.channel == place.channel) & (columns.user == place.user)
    query = columns.select(columns.id).where(is_theirs & (columns.state != "done"))
    return query.count(database)


def find(database: Database, job: int) -> JobRow | None:
    """Return the job of this id."""
    columns = tables.ScheduledJob
    rows = columns.select().where(columns.id == job).dicts().execute(database)
    return next(tables.readable(rows, _job), None)


def find_hook(database: Database, name: str) -> JobRow | None:
    """Return the job that is called by this name."""
    columns = tables.ScheduledJob
    rows = columns.select().where((columns.hook == name) & (columns.hook != ""))
    return next(tables.readable(rows.dicts().execute(database), _job), None)


def list_all(database: Database) -> list[JobRow]:
    """All jobs, the next first; those that are done last."""
    columns = tables.ScheduledJob
    query = columns.select().order_by(columns.next_at == 0, columns.next_at, columns.id)
    return list(tables.readable(query.dicts().execute(database), _job))


def list_due(database: Database, now: float) -> list[JobRow]:
    """Jobs that are due, those that were due first before the others."""
    columns = tables.ScheduledJob
    is_due = (columns.next_at > 0) & (columns.next_at <= now) & (columns.state == "active")
    is_again = (columns.retry_at > 0) & (columns.retry_at <= now) & (columns.state != "paused")
    query = columns.select().where(is_due | is_again).order_by(columns.next_at, columns.id)
    return list(tables.readable(query.dicts().execute(database), _job))


def next_due(database: Database) -> float:
    """Return the time at which the next job is due; 0 where none is."""
    columns = tables.ScheduledJob
    times = [
        columns.select(fn.MIN(column)).where((column > 0) & (columns.state != "paused"))
        for column in (columns.next_at, columns.retry_at)
    ]
    found = [query.scalar(database) for query in times]
    return min((float(one) for one in found if one is not None), default=0.0)


def delete(database: Database, job: int) -> None:
    """Delete a job, and what is kept of its runs."""
    tables.ScheduledJob.delete().where(tables.ScheduledJob.id == job).execute(database)
    tables.JobRun.delete().where(tables.JobRun.job == job).execute(database)


# --- a run ------------------------------------------------------------------------------------


def claim(database: Database, before: JobRow, after: JobRow) -> bool:
    """Move a job on to what comes `after`; False, and nothing done, where it is not any more what
    it was `before`: somebody else has fired, changed or deleted it."""
    columns = tables.ScheduledJob
    is_it = (columns.id == before.id) & (columns.state == before.state)
    is_it &= (columns.next_at == before.next_at) & (columns.retry_at == before.retry_at)
    new = {
        "state": after.state,
        "why": after.why,
        "next_at": after.next_at,
        "planned_at": after.planned_at,
        "retry_at": after.retry_at,
        "retry_due": after.retry_due,
        "attempts": after.attempts,
        "failures": after.failures,
        "found": after.found,
        "looked_at": after.looked_at,
    }
    return bool(columns.update(**new).where(is_it).execute(database))


def is_running(database: Database, job: int) -> bool:
    """Return whether a run of a job waits, or is under way."""
    columns = tables.JobRun
    query = columns.select(columns.id).where((columns.job == job) & (columns.outcome == ""))
    return bool(query.count(database))


def begin_run(database: Database, run: RunRow) -> int:
    """Store a run, and drop the oldest of its job; returns its id."""
    values = asdict(run)
    del values["id"]
    row = tables.insert(database, tables.JobRun, **values)
    columns = tables.JobRun
    kept = columns.select(columns.id).where(columns.job == run.job)
    kept = kept.order_by(columns.id.desc()).limit(KEPT_RUNS)
    oldest = min((number for (number,) in kept.tuples().execute(database)), default=0)
    is_old = (columns.job == run.job) & (columns.id < oldest) & (columns.outcome != "")
    is_old &= columns.at < run.at - KEPT_FOR
    columns.delete().where(is_old).execute(database)
    return row


def put_in(database: Database, run: int, message: InboxRow, digest: str) -> InboxRow:
    """Put the prompt of a run into the inbox."""
    row, _ = mailbox.receive(database, replace(message, run=run), digest)
    tables.update(database, tables.JobRun, run, inbox=row.id)
    return row


def take_call(database: Database, run: RunRow, call: InboxRow) -> InboxRow | None:
    """Put what a hook was called with into the inbox, as a run of its job; None: that was done
    before, by the call's `platform_id`."""
    row, is_new = mailbox.receive(database, call, "")
    if not is_new:
        return None
    number = begin_run(database, replace(run, inbox=row.id))
    tables.update(database, tables.Inbox, row.id, run=number)
    return replace(row, run=number)


def count_runs_since(database: Database, job: int, since: float) -> int:
    """Return how many runs of a job have begun since a time."""
    columns = tables.JobRun
    query = columns.select(columns.id).where((columns.job == job) & (columns.at >= since))
    return query.count(database)


def count_forged(database: Database, hook: str, calls: int, at: float) -> None:
    """So many more calls in the name of a hook had not its secret."""
    columns = tables.ScheduledJob
    columns.update(forged=columns.forged + calls, forged_at=at).where(
        (columns.hook == hook) & (columns.hook != "")
    ).execute(database)


def put_out(database: Database, run: int, parts: Sequence[OutboxRow]) -> list[int]:
    """Put what a reminder says into the outbox; returns the ids."""
    ids = [mailbox.put_out(database, part) for part in parts]
    note_told(database, run, ids)
    return ids


def note_told(database: Database, run: int, outbox: Sequence[int]) -> None:
    """Note the rows of the outbox that hold what was said of a run."""
    tables.update(database, tables.JobRun, run, outbox=" ".join(map(str, outbox)))


def end_run(
    database: Database,
    run: int,
    outcome: Outcome,
    why: str,
    outbox: Sequence[int] = (),
    cost: float = 0.0,
) -> None:
    """Keep what came of a run, with what it has cost: what its turn has, and `cost` besides."""
    tables.update(
        database,
        tables.JobRun,
        run,
        outcome=outcome,
        why=why,
        outbox=" ".join(map(str, outbox)),
        cost=cost_of(database, run) + cost,
        ended=time.time(),
    )


def find_run(database: Database, run: int) -> RunRow | None:
    """Return the run of this id."""
    columns = tables.JobRun
    rows = columns.select().where(columns.id == run).dicts().execute(database)
    return next((RunRow(**row) for row in rows), None)


def list_runs(database: Database, job: int, most: int = KEPT_RUNS) -> list[RunRow]:
    """Return the newest runs of a job, the newest first."""
    columns = tables.JobRun
    query = columns.select().where(columns.job == job).order_by(columns.id.desc()).limit(most)
    return [RunRow(**row) for row in query.dicts().execute(database)]


def cost_of(database: Database, run: int) -> float:
    """Return the cost of a run so far, in US dollars, by the ledger."""
    message, usage, runs = tables.Message, tables.Usage, tables.JobRun
    inbox = runs.select(runs.inbox).where((runs.id == run) & (runs.inbox > 0))
    turns = message.select(message.conversation, message.turn).where(message.inbox.in_(inbox))
    total = 0.0
    for conversation, turn in turns.tuples().execute(database):
        is_of = (usage.conversation == conversation) & (usage.turn == turn)
        total += usage.select(fn.SUM(usage.cost)).where(is_of).scalar(database) or 0.0
    return total


def spent_since(database: Database, job: int, since: float) -> float:
    """Return the cost of a job's runs that ended since a time, in US dollars."""
    columns = tables.JobRun
    query = columns.select(fn.SUM(columns.cost)).where((columns.job == job) & (columns.at >= since))
    return float(query.scalar(database) or 0.0)


def delivery_of(database: Database, run: RunRow) -> RunDelivery:
    """Return how far the delivery of what a run said has come."""
    if not (ids := [int(word) for word in run.outbox.split()]):
        return RunDelivery()
    outbox, aside = tables.Outbox, tables.Aside
    query = outbox.select(outbox.tries).where(outbox.id.in_(ids) & (outbox.is_sent == 0))
    tries = [count for (count,) in query.tuples().execute(database)]
    put_aside = aside.select(aside.content).where(aside.kind == "outbox").tuples().execute(database)
    named = [orjson.loads(content)["id"] for (content,) in put_aside]
    return RunDelivery(len(tries), max(tries, default=0), len({*named} & {*ids}))


# --- what else happens to them ----------------------------------------------------------------


def list_made(
    database: Database, key: ConversationKey, turns: Sequence[str] | None = None
) -> list[int]:
    """Return the ids of the jobs that these of the model's turns made ("pipe/main t5"); without
    turns, those of the whole chat, or where a branch is meant, those that its turns made."""
    columns = tables.ScheduledJob
    if turns is not None:
        is_meant = columns.turn.in_([*turns])
    elif key.is_branch:
        is_meant = columns.turn.startswith(f"{key.id} t")
    else:
        is_meant = columns.home == key.id
    query = columns.select(columns.id).where(is_meant)
    return [row for (row,) in query.tuples().execute(database)]


class JobRows:
    """Rows of jobs for the kernel (`memory.record.forget.FeatureRows`)."""

    noun = "timed job"

    def count(self, database: Database, key: ConversationKey, turns: Sequence[str] | None) -> int:
        return len(list_made(database, key, turns))

    def forget(self, database: Database, key: ConversationKey, turns: Sequence[str] | None) -> None:
        for row in list_made(database, key, turns):
            delete(database, row)

    def prune(self, database: Database, before: float) -> None:
        columns = tables.ScheduledJob
        is_old = (columns.state == "done") & (columns.planned_at < before) & (columns.retry_at == 0)
        for (row,) in columns.select(columns.id).where(is_old).tuples().execute(database):
            delete(database, row)


def _job(row: dict[str, Any]) -> JobRow:
    names = ("channel", "chat", "thread", "user")
    place = AddressColumns(*(row[name] for name in names))
    return JobRow(**{name: row[name] for name in row if name not in names}, place=place)
