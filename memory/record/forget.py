"""Really deletes what was said: the one place where rows of the transcript go.

What stays of a conversation is its row, so that turn ids are never given out twice, and the ledger,
which holds no word of it. A summary is cumulative, so that one that goes takes those with it that
continue it; their jobs are opened again, and bring to the daily memory what is left of their turns.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from pathlib import Path, PurePosixPath

import orjson
from peewee import SqliteDatabase

from memory.context.change import Change, ViewEvent
from memory.keys import ConversationKey
from memory.record import mailbox, summaries, tables, transcript
from memory.record.search import index
from memory.record.summaries import Job
from memory.turns import Entry

_NAMED = ("keep", "drop", "squeeze", "pin", "unpin", "fold")  # the turns that a change speaks of


@dataclass(frozen=True, slots=True)
class StoredCounts:
    """What is kept of some turns: their numbers, their messages, what they were asked with, the
    jobs by which summaries of them come into the daily memory, and the sections there; the lines of
    `MEMORY.md` that come from them; `is_left`
    says that a plugin's offloader may still have some of it."""

    turns: tuple[int, ...] = ()
    messages: int = 0
    questions: tuple[str, ...] = ()
    jobs: tuple[int, ...] = ()
    sections: int = 0
    lines: int = 0
    is_left: bool = False


@dataclass(frozen=True, slots=True)
class _Gone:
    """What goes: turns by number, messages by seq, summaries by id."""

    turns: frozenset[int]
    seqs: frozenset[int]
    summaries: frozenset[int]


def count_stored(
    database: SqliteDatabase, conversation: int, turns: Collection[int] | None = None
) -> StoredCounts:
    """What is kept of these turns of a conversation (None: of all of it)."""
    columns = tables.Message
    query = columns.select(columns.turn).where(columns.conversation == conversation)
    mine = [turn for (turn,) in query.tuples().execute(database) if turns is None or turn in turns]
    numbers = frozenset(mine)
    jobs = summaries.jobs_of(database, conversation)
    if turns is not None:
        gone = _find_gone(database, conversation, numbers)
        jobs = [job for job in jobs if _is_hit(job, gone)]
    questions = _questions(database, conversation, numbers)
    return StoredCounts(tuple(sorted(numbers)), len(mine), questions, tuple(job.id for job in jobs))


def _questions(
    database: SqliteDatabase, conversation: int, turns: Collection[int]
) -> tuple[str, ...]:
    columns = tables.Message
    query = columns.select(columns.turn, columns.text).where(
        (columns.conversation == conversation) & (columns.role == "user")
    )
    return tuple(text for turn, text in query.tuples().execute(database) if turn in turns)


def delete(
    database: SqliteDatabase,
    key: ConversationKey,
    conversation: int,
    turns: Collection[int] | None = None,
) -> None:
    """Delete these turns and all that was made from them (None: all of a conversation but its row
    and its bill)."""
    index.forget(database, conversation, turns)  # while the words are there that are to go
    if turns is None:
        everything = (tables.Message, tables.ViewEvent, tables.Summary, tables.Job)
        for table in (*everything, tables.CallStart):
            table.delete().where(table.conversation == conversation).execute(database)
        tables.update(database, tables.Conversation, conversation, title="")
    else:
        _delete_turns(database, conversation, _find_gone(database, conversation, frozenset(turns)))
    mailbox.forget(database, key.id, conversation)


def _delete_turns(database: SqliteDatabase, conversation: int, gone: _Gone) -> None:
    _scrub_events(database, conversation, gone)
    _open_jobs_again(database, conversation, gone)
    summary, message, start = tables.Summary, tables.Message, tables.CallStart
    start.delete().where(
        (start.conversation == conversation) & start.turn.in_(list(gone.turns))
    ).execute(database)
    summary.delete().where(summary.id.in_(list(gone.summaries))).execute(database)
    message.delete().where(
        (message.conversation == conversation) & message.turn.in_(list(gone.turns))
    ).execute(database)


@dataclass(frozen=True, slots=True)
class Attached:
    """Files that messages point to: `lone` are those of `data/` that only the messages have which
    go, `gone` the offloaded tool results of these, `staying` of those that stay, by the names of
    their files; `references` are to those that go."""

    lone: tuple[str, ...]
    gone: frozenset[str]
    staying: frozenset[str]
    references: frozenset[str]


def list_attached(
    database: SqliteDatabase,
    key: ConversationKey,
    conversation: int,
    turns: Collection[int] | None = None,
) -> Attached:
    """The files of these turns (None: of all of a conversation), and of what stays beside them.
    What another conversation of the audience has, or one not answered yet, is not lone.
    """
    gone: set[str] = set()
    stay: set[str] = set()
    files: dict[bool, set[str]] = {True: set(), False: set()}
    for place, entry in _with_files(database, key.audience):
        is_gone = place == conversation and (turns is None or entry.turn in turns)
        named = (*(image.file for image in entry.message.images), *entry.message.files)
        (gone if is_gone else stay).update(named)
        if entry.message.offloaded:
            files[is_gone].add(entry.message.offloaded)
    waiting = mailbox.list_waiting_files(database)
    lone = tuple(sorted(gone - stay - waiting))
    names = {side: frozenset(PurePosixPath(one).name for one in files[side]) for side in files}
    return Attached(lone, names[True], names[False], frozenset(files[True] - files[False]))


def _with_files(database: SqliteDatabase, audience: str) -> Iterator[tuple[int, Entry]]:
    """(conversation, entry) for the messages of an audience that may have files."""
    message, conversation = tables.Message, tables.Conversation
    mine = conversation.select(conversation.id).where(conversation.audience == audience)
    names = [message.extra.contains(f'"{name}":') for name in ("images", "files", "offloaded")]
    query = message.select(message.conversation, message.turn).where(
        message.conversation.in_(mine) & reduce(or_, names)
    )
    places: dict[int, set[int]] = {}
    for place, turn in query.tuples().execute(database):
        places.setdefault(place, set()).add(turn)
    for place, numbers in places.items():
        for entry in transcript.entries_of_turns(database, place, numbers):
            yield place, entry


def delete_data(folder: Path, files: Iterable[str]) -> None:
    """Delete files of `data/` from an audience's folder, and what a crash left of others."""
    for file in files:
        (folder / file).unlink(missing_ok=True)
    for unfinished in (folder / "data").glob(".*.draft"):
        unfinished.unlink(missing_ok=True)


def delete_folder(folder: Path) -> None:
    """Delete a folder with all that is in it, if it is there."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)


def _find_gone(database: SqliteDatabase, conversation: int, turns: frozenset[int]) -> _Gone:
    message, summary = tables.Message, tables.Summary
    seqs = message.select(message.seq).where(
        (message.conversation == conversation) & message.turn.in_(list(turns))
    )
    made = summary.select(summary.id, summary.turns, summary.prior).where(
        summary.conversation == conversation
    )
    found = made.order_by(summary.id).tuples().execute(database)
    return _Gone(
        turns,
        frozenset(seq for (seq,) in seqs.tuples().execute(database)),
        find_tainted(((row, orjson.loads(covers), prior) for row, covers, prior in found), turns),
    )


def find_tainted(
    made: Iterable[tuple[int, Sequence[int], int]], turns: frozenset[int]
) -> frozenset[int]:
    """Which summaries, of (id, turns, prior id) in the order in which they were made, were made
    from these turns, or from a summary that was."""
    found: set[int] = set()
    for summary, covers, prior in made:
        if prior in found or not turns.isdisjoint(covers):
            found.add(summary)
    return frozenset(found)


def _is_hit(job: Job, gone: _Gone) -> bool:
    return job.summary in gone.summaries or not gone.turns.isdisjoint(job.turns)


def _open_jobs_again(database: SqliteDatabase, conversation: int, gone: _Gone) -> None:
    """What a job has left to tell is told anew; one that has nothing left goes, and what continued
    it continues the one before."""
    priors: dict[int, int] = {}
    for job in summaries.jobs_of(database, conversation):
        rest = tuple(turn for turn in job.turns if turn not in gone.turns)
        prior = priors.get(job.prior, job.prior)
        if not rest:
            priors[job.event] = prior
            summaries.delete(database, job.id)
        elif _is_hit(job, gone) or prior != job.prior:
            summaries.open_again(database, replace(job, turns=rest, prior=prior))


def _scrub_events(database: SqliteDatabase, conversation: int, gone: _Gone) -> None:
    dropped: set[int] = set()
    columns = tables.ViewEvent
    for event in transcript.events_of(database, conversation):
        rest = None if event.change.target in dropped else without(event, gone)
        if rest is None:
            dropped.add(event.id)
            columns.delete().where(columns.id == event.id).execute(database)
        elif rest != event:
            transcript.rewrite_event(database, rest)


def without(event: ViewEvent, gone: _Gone) -> ViewEvent | None:
    """The event without what is gone; None where it spoke of nothing else."""
    change = event.change
    named = {name: getattr(change, name) - gone.turns for name in _NAMED}
    clip = {seq: clip for seq, clip in change.clip.items() if seq not in gone.seqs}
    folded = change.folded and replace(change.folded, keep=change.folded.keep - gone.turns)
    preface = 0 if change.preface in gone.summaries else change.preface
    rest = replace(
        event,
        change=replace(change, clip=clip, preface=preface, folded=folded, **named),
        leaving=tuple(turn for turn in event.leaving if turn not in gone.turns),
        snapshot=event.snapshot
        and replace(event.snapshot, examples=()),  # whose they are is unknown
    )
    boundaries = Change(
        change.cut, rest.change.keep, roll=change.roll, folded=folded, rolled=change.rolled
    )
    says_more = rest.leaving or replace(rest.change, target=0) != boundaries
    return rest if says_more or rest == event else None
