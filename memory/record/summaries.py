"""Rows of summaries, and of the jobs that bring removed turns to the daily memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace
from peewee import Select

from memory.context.plan import SummarySpec
from memory.keys import ConversationKey
from memory.record import tables, transcript
from memory.record.branches import END, find_sharing_rows, lineage, within
from memory.record.database import Database
from memory.record.search import index
from memory.record.tables import readable
from memory.text.receipt import Receipt


class Summary(Struct, frozen=True):
    """A summary of `turns` and, cumulatively, of the content of the summary `prior` (0: none).

    `number` is its number in its conversation, 0 for one that is for the daily memory alone.
    `ranges` are the ids of the range summaries of some of `turns` when it was written. If this is a
    person's edit, `edits` is the id of the original summary. `receipt` says which facts it kept;
    None if unknown. `section` is its part for the daily memory: that on `turns` alone, "" if only
    excerpts contain them. `model` is its author, "" for a plain extract; `tokens` is the raw count;
    `is_untrusted` says whether it was made from results from outside that no person has reviewed.
    """

    turns: tuple[int, ...]
    prior: int
    focus: str
    text: str
    tokens: int
    model: str
    id: int = 0
    is_untrusted: bool = False
    section: str = ""
    number: int = 0
    ranges: tuple[int, ...] = ()
    edits: int = 0
    receipt: Receipt | None = None

    @property
    def origin(self) -> int:
        """The id of the original summary, also for a person's edit of it."""
        return self.edits or self.id

    @property
    def name(self) -> str:
        """ "s3", as a person names it."""
        return f"s{self.number}"


class Job(Struct, frozen=True):
    """Turns that an event removed and that are to be written to the daily memory, with the
    specification of their summary. `summary` is the existing one, or 0."""

    event: int
    spec: SummarySpec
    summary: int = 0
    is_done: bool = False
    id: int = 0

    @property
    def turns(self) -> tuple[int, ...]:
        return self.spec.turns


def insert_summary(
    database: Database, conversation: int, summary: Summary, is_numbered: bool = True
) -> Summary:
    """Store a summary; return it with its id and, if `is_numbered`, its number, which is never
    reused."""
    number = _next_number(database, conversation) if is_numbered else 0
    row = tables.insert(
        database,
        tables.Summary,
        conversation=conversation,
        turns=orjson.dumps(summary.turns).decode(),
        prior=summary.prior,
        focus=summary.focus,
        text=summary.text,
        section=summary.section,
        tokens=summary.tokens,
        model=summary.model,
        is_untrusted=summary.is_untrusted,
        number=number,
        ranges=orjson.dumps(summary.ranges).decode(),
        edits=summary.edits,
        receipt=_dump_receipt(summary.receipt),
        at=time.time(),
    )
    return replace(summary, id=row, number=number)


def _next_number(database: Database, conversation: int) -> int:
    columns = tables.Conversation
    mine = columns.id == conversation
    columns.update(last_summary=columns.last_summary + 1).where(mine).execute(database)
    query = columns.select(columns.last_summary).where(mine).tuples()
    return next((int(number) for (number,) in query.execute(database)), 0)


def summary(database: Database, summary_id: int) -> Summary | None:
    """Return the summary with this id."""
    columns = tables.Summary
    rows = columns.select().where(columns.id == summary_id).dicts().execute(database)
    return next(readable(rows, _summary), None)


def list_numbered(database: Database, conversation: int) -> list[Summary]:
    """Return the summaries of a conversation that may be in its context, oldest first. Of those
    that a branch shares, only the ones of shared events."""
    columns, job = tables.Summary, tables.Job
    line = lineage(database, conversation)
    mine = columns.conversation == conversation
    if len(line) > 1:
        shared = within(job, job.event, line, "event")
        made = job.select(job.summary).where(shared & (job.event > 0))
        mine |= columns.id.in_(made) | columns.edits.in_(made)
    query = columns.select().where(mine & (columns.number > 0)).order_by(columns.id)
    return list(readable(query.dicts().execute(database), _summary))


def list_covered_turns(database: Database, summary: Summary) -> tuple[int, ...]:
    """Return all turns that a summary covers: its own, and those of the summaries that it
    continues."""
    columns, found, prior = tables.Summary, set(summary.turns), summary.prior
    while prior:
        query = columns.select(columns.turns, columns.prior).where(columns.id == prior)
        turns, prior = next(iter(query.tuples().execute(database)), ("[]", 0))
        found.update(orjson.loads(turns))
    return tuple(sorted(found))


def insert_job(database: Database, conversation: int, job: Job) -> int:
    """Store a job; return its id."""
    spec = job.spec
    return tables.insert(
        database,
        tables.Job,
        conversation=conversation,
        event=job.event,
        turns=orjson.dumps(spec.turns).decode(),
        prior=spec.after,
        focus=spec.focus,
        style=spec.style,
        summary=job.summary,
        ranges=orjson.dumps(spec.ranges).decode(),
        edited=spec.edited,
        at=time.time(),
        is_done=False,
    )


def insert_excerpt(
    database: Database, conversation: int, summary: Summary, event: int
) -> tuple[Job, Summary]:
    """Store an excerpt with the job that brings it to the daily memory; return both."""
    made = insert_summary(database, conversation, summary, is_numbered=False)
    job = Job(event, SummarySpec(summary.turns, style="excerpt"), made.id)
    return replace(job, id=insert_job(database, conversation, job)), made


def mark_reviewed(database: Database, job: int) -> None:
    """Mark the section of this job as reviewed: a summary that continues its summary is no longer
    untrusted because of it. This also applies to the plain extract of the same event, once all its
    content from outside was reviewed in excerpts."""
    columns, made = tables.Job, tables.Summary
    wanted = columns.select().where(columns.id == job).dicts().execute(database)
    for row in wanted:
        seen = summary(database, row["summary"])
        origin = seen.origin if seen else -1
        is_it = (made.id == origin) | (made.edits == origin)
        made.update(is_untrusted=False).where(is_it).execute(database)
        doubted = made.select().where(
            (made.is_untrusted == 1)
            & (made.conversation == row["conversation"])
            & (made.edits == 0)  # an edit has the state of its original
        )
        left = list(readable(doubted.dicts().execute(database), _summary))
        of_event = columns.select(columns.summary).where(columns.event == (row["event"] or -1))
        siblings = {summary for (summary,) in of_event.tuples().execute(database)}
        if 0 in siblings:  # an excerpt is still to be written
            continue
        for one in left:
            others = [other for other in left if other is not one]
            turns = {turn for other in others for turn in other.turns}
            is_seen = turns.isdisjoint(one.turns) and one.prior not in {o.id for o in others}
            if one.id in siblings and not one.model and is_seen:
                is_it = (made.id == one.id) | (made.edits == one.id)
                made.update(is_untrusted=False).where(is_it).execute(database)


def newest_reference(database: Database, conversation: int) -> str:
    """Return the newest reference to offloaded turns; "" if no offloader gave one."""
    columns = tables.Job
    mine = within(columns, columns.event, lineage(database, conversation), "event")
    references = columns.select(columns.reference).where(mine & (columns.reference != ""))
    rows = references.order_by(columns.id.desc()).limit(1)
    return next((str(reference) for (reference,) in rows.tuples().execute(database)), "")


def update_job(database: Database, job: int, **fields: Any) -> None:
    """Set the `summary` of a job, the `reference` to its offloaded turns, or `is_done`: its text is
    in the daily memory file."""
    tables.update(database, tables.Job, job, **fields)


def list_unfinished(database: Database) -> list[tuple[ConversationKey, int]]:
    """Return the ids of all unfinished jobs, oldest first, with their conversations."""
    job, home = tables.Job, tables.Conversation
    found = (
        job.select(job.id, home.key, home.audience)
        .from_(job.join(home, on=(home.id == job.conversation)))
        .where(job.is_done == 0)
        .order_by(job.id)
        .tuples()
        .execute(database)
    )
    return [(ConversationKey(key, audience), row) for row, key, audience in found]


def count_attempt(database: Database, job: int) -> int:
    """Count an attempt at a job that an earlier process left unfinished; return the number of
    attempts."""
    columns = tables.Job
    columns.update(attempts=columns.attempts + 1).where(columns.id == job).execute(database)
    query = columns.select(columns.attempts).where(columns.id == job)
    return next((int(count) for (count,) in query.tuples().execute(database)), 0)


def mark_clean_stop(database: Database, conversations: Sequence[str]) -> None:
    """Reset the attempts of the unfinished jobs of these conversations before a clean stop, since
    the interruption is not their fault."""
    job, known = tables.Job, tables.Conversation
    here = known.select(known.id).where(known.key.in_([*conversations]))
    job.update(attempts=0).where((job.is_done == 0) & job.conversation.in_(here)).execute(database)


def jobs_of(database: Database, conversation: int) -> list[Job]:
    """Return all jobs of a conversation, done or not, oldest first."""
    columns = tables.Job
    query = columns.select().where(columns.conversation == conversation).order_by(columns.id)
    return list(readable(query.dicts().execute(database), _job))


def list_open_jobs(database: Database, conversation: int) -> list[Job]:
    """Return the jobs of a conversation that are not done, oldest first."""
    return list(readable(_open_jobs.dicts(database, conversation), _job))


@tables.Prepared
def _open_jobs(conversation: int) -> Any:
    columns = tables.Job
    mine = (columns.conversation == conversation) & (columns.is_done == 0)
    return columns.select().where(mine).order_by(columns.id)


def find_recorded_turns(database: Database, conversation: int) -> frozenset[int]:
    """Return the turns whose content is in the daily memory: in a model's summary, or in an
    excerpt, which may still be on its way. A shared turn counts if any conversation that shares it
    has written it."""
    return _find_distilled(database, conversation, END) | find_recorded_by_others(
        database, conversation
    )


def find_recorded_by_others(database: Database, conversation: int) -> frozenset[int]:
    """Return the turns that a conversation shares or has shared, and that another one has written
    to the daily memory."""
    others = find_sharing_rows(database, conversation)
    parts = [_find_distilled(database, other, last) for other, last in others.items()]
    job = tables.Job
    left = job.select(job.turns).where(  # by deleted branches
        (job.conversation == conversation)
        & (job.style == "excerpt")
        & (job.is_done == 1)
        & (job.summary == 0)
    )
    parts += [frozenset(orjson.loads(turns)) for (turns,) in left.tuples().execute(database)]
    return frozenset(turn for part in parts for turn in part)


def hand_jobs_to_parent(database: Database, conversation: int) -> None:
    """Move the finished jobs of a branch that is about to be deleted to its parent conversation. So
    the parent still knows which shared turns have sections in the daily memory."""
    line = lineage(database, conversation)
    if len(line) == 1:
        return
    parent, shared = line[-2].conversation, line[-1].after_turn
    sections = _sections_by_model(conversation, tables.Job.id).tuples().execute(database)
    known = {job for job, _ in sections}
    for job in jobs_of(database, conversation):
        turns = [turn for turn in job.turns if turn <= shared]
        if turns and job.is_done and (job.spec.style == "excerpt" or job.id in known):
            tables.update(
                database,
                tables.Job,
                job.id,
                conversation=parent,
                event=0,
                turns=orjson.dumps(turns).decode(),
                prior=0,
                focus="",
                style="excerpt",
                summary=0,
                ranges="[]",
                edited=0,
                reference="",
            )


def _find_distilled(database: Database, conversation: int, last: int) -> frozenset[int]:
    job = tables.Job
    by_model = _sections_by_model(conversation)
    excerpts = job.select(job.turns).where(
        (job.conversation == conversation) & (job.style == "excerpt")
    )
    rows = [*by_model.tuples().execute(database), *excerpts.tuples().execute(database)]
    return frozenset(turn for (turns,) in rows for turn in orjson.loads(turns) if turn <= last)


def list_superseded(database: Database, conversation: int, is_untrusted: bool) -> list[int]:
    """Return the jobs whose excerpts in the daily memory (or, if untrusted, in the quarantine) are
    superseded by summaries there."""
    job, made = tables.Job, tables.Summary
    by_model = _sections_by_model(conversation).where(made.is_untrusted == is_untrusted)
    superseded = {
        n for (turns,) in by_model.tuples().execute(database) for n in orjson.loads(turns)
    }
    excerpts = (
        job.select(job.id, job.turns)
        .from_(job.join(made, on=(job.summary == made.id)))
        .where((job.conversation == conversation) & (job.is_done == 1) & (job.style == "excerpt"))
        .where(made.is_untrusted == is_untrusted)
    )
    found = excerpts.tuples().execute(database)
    return [one for one, turns in found if superseded.issuperset(orjson.loads(turns))]


def _sections_by_model(conversation: int, *more: Any) -> Select:
    """Return the turns of each model summary that has a section."""
    job, made = tables.Job, tables.Summary
    return (
        made.select(*more, made.turns)
        .from_(made.join(job, on=(job.summary == made.id)))
        .where((job.conversation == conversation) & (job.is_done == 1) & (made.model != ""))
        .where(made.section != "")
    )


def summary_of(database: Database, conversation: int, event: int) -> int:
    """Return the id of the summary of the turns that an event removed; 0 while there is none."""
    columns = tables.Job
    line = lineage(database, conversation)  # a branch shares events, and so their summaries
    mine = within(columns, columns.event, line, "event") & (columns.event == event)
    rows = columns.select(columns.summary).where(mine).order_by(columns.id).tuples()
    return next((made for (made,) in rows.execute(database)), 0)


def event_of(database: Database, conversation: int, summary_id: int) -> int:
    """Return the event that removed the turns of a summary; 0 if there is none."""
    columns = tables.Job
    mine = within(columns, columns.event, lineage(database, conversation), "event")
    mine &= columns.summary == summary_id
    rows = columns.select(columns.event).where(mine).order_by(columns.id).tuples()
    return next((int(event) for (event,) in rows.execute(database)), 0)


def removed_jobs(database: Database, audience: str) -> frozenset[int]:
    """Return the jobs whose sections cover turns that a person removed."""
    found: set[int] = set()
    for one in index.conversations(database, audience):
        if one.lacks_some:
            away = transcript.removed_turns(database, one.row)
            turns = transcript.find_removed(database, one.row, away)
            jobs = jobs_of(database, one.row)
            found |= {job.id for job in jobs if not turns.isdisjoint(job.turns)}
    return frozenset(found)


def count_pending(database: Database, audience: str) -> int:
    """Return the number of unfinished jobs of an audience's conversations."""
    return sum(key.audience == audience for key, _ in list_unfinished(database))


def open_again(database: Database, job: Job) -> None:
    """Reopen a job, with its current turns."""
    columns = tables.Job
    columns.update(
        turns=orjson.dumps(job.turns).decode(), prior=job.spec.after, summary=0, is_done=False
    ).where(columns.id == job.id).execute(database)


def delete(database: Database, *jobs: int) -> None:
    """Delete jobs, done or not."""
    tables.Job.delete().where(tables.Job.id.in_(jobs)).execute(database)


def cancel(database: Database, conversation: int) -> None:
    """Delete the unfinished jobs of a conversation that have no summary yet."""
    columns = tables.Job
    columns.delete().where(
        (columns.conversation == conversation) & (columns.is_done == 0) & (columns.summary == 0)
    ).execute(database)


def receipts_of_events(database: Database, conversation: int) -> dict[int, Receipt]:
    """Return the receipts of the summaries of the turns that events removed, by event id."""
    job, made = tables.Job, tables.Summary
    query = job.select(job.event, made.receipt).from_(job.join(made, on=(job.summary == made.id)))
    found = query.where((job.conversation == conversation) & (made.receipt != ""))
    kept = ((event, _read_receipt(text)) for event, text in found.tuples().execute(database))
    return {event: receipt for event, receipt in kept if receipt is not None}


def receipts_of_edits(database: Database, conversation: int) -> dict[int, Receipt]:
    """Return the receipts of summaries that are a person's edits, by summary id."""
    made = tables.Summary
    query = made.select(made.id, made.receipt).where(
        (made.conversation == conversation) & (made.edits > 0)
    )
    kept = ((one, _read_receipt(text)) for one, text in query.tuples().execute(database))
    return {one: receipt for one, receipt in kept if receipt is not None}


def _dump_receipt(receipt: Receipt | None) -> str:
    if receipt is None:
        return ""
    how = [receipt.taken, receipt.findings] if receipt.taken else []
    return orjson.dumps([receipt.kept, receipt.missing, *how]).decode()


def _read_receipt(text: str) -> Receipt | None:
    if not text:
        return None
    kept, missing, *how = orjson.loads(text)
    receipt = Receipt(kept, tuple(missing))
    return replace(receipt, taken=how[0], findings=tuple(how[1])) if how else receipt


def _summary(row: dict[str, Any]) -> Summary:
    return Summary(
        tuple(orjson.loads(row["turns"])),
        row["prior"],
        row["focus"],
        row["text"],
        row["tokens"],
        row["model"],
        row["id"],
        bool(row["is_untrusted"]),
        row["section"],
        row["number"],
        tuple(orjson.loads(row["ranges"])),
        row["edits"],
        _read_receipt(row["receipt"]),
    )


def _job(row: dict[str, Any]) -> Job:
    spec = SummarySpec(
        tuple(orjson.loads(row["turns"])),
        row["prior"],
        row["focus"],
        style=row["style"],
        ranges=tuple((event, made) for event, made in orjson.loads(row["ranges"])),
        edited=row["edited"],
    )
    return Job(row["event"], spec, row["summary"], bool(row["is_done"]), row["id"])
