"""The database rows of reminders and jobs, and of their runs.

A row has the job's next due time. Firing a job changes that time and puts the reminder into the
outbox, or the prompt into the inbox, in one transaction. So a crash never sends or runs anything
twice, or skips it.
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
"""The kinds of jobs: a reminder is sent, a prompt runs as a turn, and a command runs without a
message."""
State = Literal["active", "paused", "done"]
Outcome = Literal["", "done", "failed", "stopped", "refused", "told"]
"""The outcome of a run; "": it waits or is running."""
KEPT_RUNS = 20
"""The number of runs kept for each job, besides those of the last days."""
KEPT_FOR = 2 * 86_400.0
"""The number of seconds for which all runs of a job are kept, since their cost counts for the day's
budget."""


class JobRow(Struct, frozen=True):
    """A reminder, whose `text` is sent to its `place`; a prompt, which runs as a turn there; or a
    command ("/memory distill"), whose answer is sent to nobody.

    Times are in seconds since 1970. `rule` defines the recurrence ("": none; see `recurrence.py`)
    in the time zone `zone`, counted from `anchor`. `next_at` is the next due time (0: none),
    calculated at `planned_at`. A failed run is retried at `retry_at` (0: no retry), for the
    `attempts`-th time; it was due at `retry_due`. `failures` counts consecutive runs that failed
    for good. `home` is the chat's conversation in which the job was created, `turn` the model's
    turn that created it ("pipe/main t5"; "": a person created it). `grants` are the tools that need
    no permission, separated by spaces. `run_budget` and `day_budget` are in US dollars (0: no
    limit). `branch` is the number of the chat's branch that it runs in (0: the current one). `why`
    is the reason why it is paused.

    A prompt with a `hook` runs when it is called by that name over HTTP, and at no set time.
    `forged` counts the calls of that name without its secret, the last of them at `forged_at`.

    A prompt with a `condition` ("web_fetch:https://example.org") calls that tool when it is due. It
    runs only if the result has changed; the digest of the last result is `found` ("": none yet),
    from `looked_at`.
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
        """Return the time of the next, or the last, run or retry; 0: none."""
        return self.retry_due if self.retry_at else self.next_at


class NewJob(Struct, frozen=True):
    """A job to be created. Its `rule` counts from `anchor` (seconds since 1970), which for a
    one-off job is its time. `budget` is the maximum cost of a run in US dollars (None: the
    setting). `branch`, `hook` and `condition` are as in `JobRow`."""

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
    """A run of a job that was `due` and began at `at`. `inbox` is the id of its message (0: a
    reminder), `outbox` has the ids of its messages to the chat, separated by spaces; `cost` is in
    US dollars."""

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
    """The delivery of a run's messages: the number of parts that wait to be sent, the number of
    failed attempts for the first of these, and the number of parts set aside."""

    waiting: int = 0
    tries: int = 0
    aside: int = 0


def insert(database: Database, job: JobRow, most: int) -> int:
    """Store a job and return its id; 0 if its chat has reached the maximum of unfinished jobs."""
    columns = tables.ScheduledJob
    mine = columns.select(columns.id).where((columns.home == job.home) & (columns.state != "done"))
    if mine.count(database) >= most:
        return 0
    values = asdict(job) | asdict(job.place) | {"created_at": time.time()}
    del values["place"], values["id"]
    return tables.insert(database, columns, **values)


def count_of(database: Database, place: AddressColumns) -> int:
    """Return the number of unfinished jobs of the person at this place, in all chats."""
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
    """Return the job of the hook of this name."""
    columns = tables.ScheduledJob
    rows = columns.select().where((columns.hook == name) & (columns.hook != ""))
    return next(tables.readable(rows.dicts().execute(database), _job), None)


def list_all(database: Database) -> list[JobRow]:
    """Return all jobs, the next due first, finished ones last."""
    columns = tables.ScheduledJob
    query = columns.select().order_by(columns.next_at == 0, columns.next_at, columns.id)
    return list(tables.readable(query.dicts().execute(database), _job))


def list_due(database: Database, now: float) -> list[JobRow]:
    """Return the due jobs, the earliest first."""
    columns = tables.ScheduledJob
    is_due = (columns.next_at > 0) & (columns.next_at <= now) & (columns.state == "active")
    is_again = (columns.retry_at > 0) & (columns.retry_at <= now) & (columns.state != "paused")
    query = columns.select().where(is_due | is_again).order_by(columns.next_at, columns.id)
    return list(tables.readable(query.dicts().execute(database), _job))


def next_due(database: Database) -> float:
    """Return the time at which the next job is due; 0 if none is."""
    columns = tables.ScheduledJob
    times = [
        columns.select(fn.MIN(column)).where((column > 0) & (columns.state != "paused"))
        for column in (columns.next_at, columns.retry_at)
    ]
    found = [query.scalar(database) for query in times]
    return min((float(one) for one in found if one is not None), default=0.0)


def delete(database: Database, job: int) -> None:
    """Delete a job and its runs."""
    tables.ScheduledJob.delete().where(tables.ScheduledJob.id == job).execute(database)
    tables.JobRun.delete().where(tables.JobRun.job == job).execute(database)


# --- a run ------------------------------------------------------------------------------------


def claim(database: Database, before: JobRow, after: JobRow) -> bool:
    """Change a job from `before` to `after`; return False, without a change, if it is no longer in
    the state `before`, because another process or a person has fired, changed or deleted it."""
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
    """Return whether a run of a job waits or is running."""
    columns = tables.JobRun
    query = columns.select(columns.id).where((columns.job == job) & (columns.outcome == ""))
    return bool(query.count(database))


def begin_run(database: Database, run: RunRow) -> int:
    """Store a run, delete the oldest runs of its job, and return the new id."""
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


def enqueue_prompt(database: Database, run: int, message: InboxRow, digest: str) -> InboxRow:
    """Put the prompt of a run into the inbox."""
    row, _ = mailbox.receive(database, replace(message, run=run), digest)
    tables.update(database, tables.JobRun, run, inbox=row.id)
    return row


def enqueue_call(database: Database, run: RunRow, call: InboxRow) -> InboxRow | None:
    """Put the content of a hook's call into the inbox, as a run of its job; None if that was done
    before, for the same `platform_id`."""
    row, is_new = mailbox.receive(database, call, "")
    if not is_new:
        return None
    number = begin_run(database, replace(run, inbox=row.id))
    tables.update(database, tables.Inbox, row.id, run=number)
    return replace(row, run=number)


def count_runs_since(database: Database, job: int, since: float) -> int:
    """Return the number of runs of a job since a time."""
    columns = tables.JobRun
    query = columns.select(columns.id).where((columns.job == job) & (columns.at >= since))
    return query.count(database)


def count_forged(database: Database, hook: str, calls: int, at: float) -> None:
    """Add to the number of calls of a hook without its secret."""
    columns = tables.ScheduledJob
    columns.update(forged=columns.forged + calls, forged_at=at).where(
        (columns.hook == hook) & (columns.hook != "")
    ).execute(database)


def enqueue_reply(database: Database, run: int, parts: Sequence[OutboxRow]) -> list[int]:
    """Put a reminder's messages into the outbox and return their ids."""
    ids = [mailbox.enqueue_reply(database, part) for part in parts]
    set_outbox_ids(database, run, ids)
    return ids


def set_outbox_ids(database: Database, run: int, outbox: Sequence[int]) -> None:
    """Store the outbox ids of a run's messages."""
    tables.update(database, tables.JobRun, run, outbox=" ".join(map(str, outbox)))


def end_run(
    database: Database,
    run: int,
    outcome: Outcome,
    why: str,
    outbox: Sequence[int] = (),
    cost: float = 0.0,
) -> None:
    """Store the outcome of a run with its cost: that of its turn plus `cost`."""
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
    """Return the cost of a run so far in US dollars, from the ledger."""
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
    """Return the state of the delivery of a run's messages."""
    if not (ids := [int(word) for word in run.outbox.split()]):
        return RunDelivery()
    outbox, aside = tables.Outbox, tables.Aside
    query = outbox.select(outbox.tries).where(outbox.id.in_(ids) & (outbox.is_sent == 0))
    tries = [count for (count,) in query.tuples().execute(database)]
    stored = aside.select(aside.content).where(aside.kind == "outbox").tuples().execute(database)
    named = [orjson.loads(content)["id"] for (content,) in stored]
    return RunDelivery(len(tries), max(tries, default=0), len({*named} & {*ids}))


# --- deletion and pruning ---------------------------------------------------------------------


def list_made(
    database: Database, key: ConversationKey, turns: Sequence[str] | None = None
) -> list[int]:
    """Return the ids of the jobs that these turns of the model created ("pipe/main t5"). Without
    turns, return those of the whole chat, or for a branch those that its turns created."""
    columns = tables.ScheduledJob
    if turns is not None:
        is_selected = columns.turn.in_([*turns])
    elif key.is_branch:
        is_selected = columns.turn.startswith(f"{key.id} t")
    else:
        is_selected = columns.home == key.id
    query = columns.select(columns.id).where(is_selected)
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
