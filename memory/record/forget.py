"""Deletion of messages: the only module that deletes rows of the transcript.

The row of a conversation is kept, so that turn ids are never reused, and so is the ledger, which
contains no text of it. Summaries are cumulative, so deleting one also deletes those that continue
it. Their jobs are reopened, and write the remaining turns to the daily memory. Turns that branches
share are stored once, so they are deleted from all of them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from operator import or_
from pathlib import Path, PurePosixPath
from typing import Protocol

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from memory.context.change import ViewEvent
from memory.keys import ConversationKey
from memory.record import branches, folders, mailbox, proposals, summaries, tables, transcript
from memory.record.database import Database
from memory.record.summaries import Job
from memory.turns import Entry

Unindex = Callable[[Database, int, Collection[int] | None], None]
"""A function that removes turns of a conversation from the index of a search (None: all of it)."""


class FeatureRows(Protocol):
    """Rows that a feature keeps for turns, named like "pipe/main t5", or, if no turns are named,
    for all of a conversation. `noun` is the user's name for one of them ("timed job")."""

    @property
    def noun(self) -> str: ...

    def count(
        self, database: Database, key: ConversationKey, turns: Sequence[str] | None
    ) -> int: ...

    def forget(
        self, database: Database, key: ConversationKey, turns: Sequence[str] | None
    ) -> None: ...

    def prune(self, database: Database, before: float) -> None:
        """Delete rows that were finished before a time (seconds since 1970)."""
        ...


class StoredCounts(Struct, frozen=True):
    """The data that is stored for some turns: their numbers, the count of their messages, their
    questions, the jobs that bring their summaries to the daily memory, the count of sections there,
    and the count of lines of `MEMORY.md` that come from them. `is_left`: some of it may remain,
    with a plugin's offloader or in a file of corrections. `shared` are the rows of the other
    conversations that share turns with theirs, each with the last shared turn; `has_children`: some
    of these were branched off. `asides` counts the deleted side questions. `staying` are the turns
    that others keep when a whole conversation is selected. `made` counts the deleted rows of
    features, by noun."""

    turns: tuple[int, ...] = ()
    messages: int = 0
    questions: tuple[str, ...] = ()
    jobs: tuple[int, ...] = ()
    sections: int = 0
    lines: int = 0
    is_left: bool = False
    shared: Mapping[int, int] = field(default_factory=dict)
    has_children: bool = False
    asides: int = 0
    staying: tuple[int, ...] = ()
    made: Mapping[str, int] = field(default_factory=dict)


class _DeletedData(Struct, frozen=True):
    """The data to delete: turns by number, for each conversation that shares them; messages by seq;
    summaries by id."""

    turns: dict[int, frozenset[int]]
    seqs: frozenset[int]
    summaries: frozenset[int]


def count_stored(
    database: Database,
    conversation: int,
    turns: Collection[int] | None = None,
    *,
    is_shared_too: bool = False,
    features: Sequence[FeatureRows] = (),
) -> StoredCounts:
    """Count the stored data of these turns of a conversation (None: of all turns that it does not
    share). With `is_shared_too`, its branches are deleted before, so that it shares none."""
    places = transcript.places(database, conversation)
    shared = branches.find_sharing_rows(database, conversation)
    has_children = bool(branches.children(database, conversation)) and not is_shared_too
    if is_shared_too:
        last = branches.lineage(database, conversation)[-1].after_turn
    else:
        last = max(shared.values(), default=0)
    if turns is None:
        mine = [turn for _, turn in places if turn > last]
    else:
        wanted = frozenset(turns)
        mine = [turn for _, turn in places if turn in wanted]
    numbers = frozenset(mine)
    if turns is None and not has_children:
        jobs = summaries.jobs_of(database, conversation)
        asides = _count_asides(database, conversation)
    else:
        deleted = _find_deleted(database, conversation, numbers)
        jobs = [
            job
            for row, lost in deleted.turns.items()
            for job in summaries.jobs_of(database, row)
            if _is_hit(job, deleted, lost)
        ]
        asides = sum(_count_asides(database, *lost) for lost in deleted.turns.items())
    questions = _questions(database, conversation, numbers)
    return StoredCounts(
        tuple(sorted(numbers)),
        len(mine),
        questions,
        tuple(job.id for job in jobs),
        shared=shared,
        has_children=has_children,
        asides=asides,
        made=_count_made(database, conversation, turns, features),
        staying=() if turns is not None else tuple(sorted({n for _, n in places if n <= last})),
    )


def _count_asides(
    database: Database, conversation: int, turns: Collection[int] | None = None
) -> int:
    """Return the number of side questions after these turns of a conversation (None: in all of
    it)."""
    columns = tables.SideQuestion
    query = columns.select().where(columns.conversation == conversation)
    if turns is not None:
        query = query.where(columns.turn.in_(list(turns)))
    return int(query.count(database))


def _count_made(
    database: Database,
    conversation: int,
    turns: Collection[int] | None,
    features: Sequence[FeatureRows],
) -> dict[str, int]:
    columns = tables.Conversation
    query = columns.select(columns.key, columns.audience).where(columns.id == conversation)
    for key, audience in query.tuples().execute(database):
        made = _list_made(database, conversation, turns)
        where = ConversationKey(key, audience)
        return {feature.noun: feature.count(database, where, made) for feature in features}
    return {}


def _questions(database: Database, conversation: int, turns: Collection[int]) -> tuple[str, ...]:
    entries = transcript.entries_of_turns(database, conversation, turns)
    return tuple(entry.message.text for entry in entries if entry.message.role == "user")


def delete(
    database: Database,
    key: ConversationKey,
    conversation: int,
    turns: Collection[int] | None,
    unindex: Unindex,
    *,
    is_told: bool = False,
    features: Sequence[FeatureRows] = (),
) -> None:
    """Delete these turns and all data derived from them, in all conversations that share them
    (None: all of this conversation except its row and its usage; shared turns are kept for the
    others). `unindex` removes them from the search before their text is deleted. With `is_told`,
    its sections stay in the daily memory, and stay known in the conversations that share their
    turns."""
    if is_told:
        summaries.hand_jobs_to_parent(database, conversation)
    is_parent = turns is None and branches.children(database, conversation)
    if turns is not None or is_parent:
        own = count_stored(database, conversation).turns if turns is None else turns
        _delete_turns(database, conversation, frozenset(own), unindex)
    else:
        _delete_rows(database, conversation, unindex)
    if is_parent:
        branches.detach_shared_rows(database, key, conversation)
    elif turns is None:
        branches.delete_branch(database, conversation)
    _forget_prefixes(database, key.audience)
    mailbox.forget(database, key.id)
    if not is_told:
        made = _list_made(database, conversation, turns)
        for feature in features:
            feature.forget(database, key, made)


def _forget_prefixes(database: Database, audience: str) -> None:
    """Clear the stored prefixes of all remaining requests of an audience, since they may contain a
    memory of the forgotten turns. The next request stores its prefix again. Prefixes without a
    request are deleted as well."""
    database.execute_sql(
        """UPDATE request_prefix SET system = '', tools = '', parameters = '' WHERE digest IN (
            SELECT prefix FROM request JOIN conversation ON conversation.id = conversation
                WHERE audience = ?)""",
        (audience,),
    )
    sweep_prefixes(database)


def sweep_prefixes(database: Database) -> None:
    """Delete the stored prefixes that no request refers to."""
    database.execute_sql(
        "DELETE FROM request_prefix WHERE digest NOT IN (SELECT prefix FROM request)"
    )


def _list_made(
    database: Database, conversation: int, turns: Collection[int] | None
) -> list[str] | None:
    """Return the names of these turns in each conversation that shares them."""
    if turns is None:
        return None
    sharing = branches.find_sharing_rows(database, conversation)
    rows = {conversation: max(turns, default=0), **sharing}
    columns = tables.Conversation
    query = columns.select(columns.key, columns.id).where(columns.id.in_([*rows]))
    names = query.tuples().execute(database)
    return [f"{key} t{turn}" for key, row in names for turn in turns if turn <= rows[row]]


def _delete_rows(database: Database, conversation: int, unindex: Unindex) -> None:
    """Delete all rows of a conversation's own."""
    unindex(database, conversation, None)  # while the text to remove from the index is there
    everything = (tables.Message, tables.ViewEvent, tables.Summary, tables.Job)
    own = (tables.CallStart, tables.Request, tables.SideQuestion, tables.Proposal)
    for table in (*everything, *own):
        table.delete().where(table.conversation == conversation).execute(database)
    tables.update(database, tables.Conversation, conversation, title="", standing="")


def _delete_turns(
    database: Database, conversation: int, turns: frozenset[int], unindex: Unindex
) -> None:
    deleted = _find_deleted(database, conversation, turns)
    dropped: set[int] = set()
    unmade: dict[int, int] = {}
    priors: dict[int, int] = {}
    for row, lost in sorted(deleted.turns.items()):  # a branch comes after its parent
        unindex(database, row, lost)  # while the text to remove from the index is there
        _scrub_events(database, row, deleted, dropped, unmade)
        _open_jobs_again(database, row, deleted, priors)
        proposals.delete(database, row)  # it is made again if it is still needed
        for table in (tables.CallStart, tables.Message, tables.Request, tables.SideQuestion):
            mine = table.conversation == row
            table.delete().where(mine & table.turn.in_(list(lost))).execute(database)
    summary = tables.Summary
    summary.delete().where(summary.id.in_(list(deleted.summaries))).execute(database)


class AttachedFiles(Struct, frozen=True):
    """Files that messages refer to. `lone` are the files of `data/` that only the deleted messages
    have; `gone` are the names of the deleted messages' offloaded tool results, `staying` those of
    the kept messages. `references` refer to the deleted files."""

    lone: tuple[str, ...]
    gone: frozenset[str]
    staying: frozenset[str]
    references: frozenset[str]


def list_attached(
    database: Database,
    key: ConversationKey,
    conversation: int,
    turns: Collection[int] | None = None,
) -> AttachedFiles:
    """Return the files of these turns (None: of all of a conversation's own turns) and of the
    remaining ones. A file that another conversation of the audience has, or an unanswered message,
    is not lone."""
    if turns is None:
        turns = count_stored(database, conversation).turns
    line = {link.conversation: link for link in branches.lineage(database, conversation)}
    attached: set[str] = set()
    stay: set[str] = set()
    files: dict[bool, set[str]] = {True: set(), False: set()}
    for place, entry in _with_files(database, key.audience):
        is_deleted = place in line and entry.turn <= line[place].turn and entry.turn in turns
        named = (*(image.file for image in entry.message.images), *entry.message.files)
        (attached if is_deleted else stay).update(named)
        if entry.message.offloaded:
            files[is_deleted].add(entry.message.offloaded)
    waiting = mailbox.list_waiting_files(database)
    lone = tuple(sorted(attached - stay - waiting))
    names = {side: frozenset(PurePosixPath(one).name for one in files[side]) for side in files}
    return AttachedFiles(lone, names[True], names[False], frozenset(files[True] - files[False]))


def _with_files(database: Database, audience: str) -> Iterator[tuple[int, Entry]]:
    """Yield (conversation, entry) for the messages of an audience that may have files."""
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
        for entry in transcript.own_of_turns(database, place, numbers):
            yield place, entry


def delete_data(folder: Path, files: Iterable[str]) -> None:
    """Delete files of `data/` from an audience's folder, and drafts that a crash left."""
    folders.check_may_write()
    for file in files:
        (folder / file).unlink(missing_ok=True)
    for unfinished in (folder / "data").glob(".*.draft"):
        unfinished.unlink(missing_ok=True)


def delete_folder(folder: Path) -> None:
    """Delete a folder and its content, if it exists."""
    folders.check_may_write()
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)


def _find_deleted(database: Database, conversation: int, turns: frozenset[int]) -> _DeletedData:
    sharing = branches.find_sharing_rows(database, conversation)
    lost = {row: frozenset(n for n in turns if n <= last) for row, last in sharing.items()}
    lost = {conversation: turns, **{row: some for row, some in lost.items() if some}}
    entries = transcript.entries_of_turns(database, conversation, turns)
    summary = tables.Summary
    made = summary.select(summary.id, summary.turns, summary.prior, summary.conversation).where(
        summary.conversation.in_(list(lost))
    )
    found = made.order_by(summary.id).tuples().execute(database)
    covered = (
        (row, lost[place].intersection(orjson.loads(covers)), prior)
        for row, covers, prior, place in found
    )
    return _DeletedData(
        lost, frozenset(entry.seq for entry in entries), find_tainted(covered, turns)
    )


def find_tainted(
    made: Iterable[tuple[int, Collection[int], int]], turns: frozenset[int]
) -> frozenset[int]:
    """Return the summaries that were made from these turns, or from such a summary. `made` has (id,
    turns, prior id) in order of creation."""
    found: set[int] = set()
    for summary, covers, prior in made:
        if prior in found or not turns.isdisjoint(covers):
            found.add(summary)
    return frozenset(found)


def _is_hit(job: Job, deleted: _DeletedData, lost: frozenset[int]) -> bool:
    return job.summary in deleted.summaries or not lost.isdisjoint(job.turns)


def _open_jobs_again(
    database: Database, conversation: int, deleted: _DeletedData, priors: dict[int, int]
) -> None:
    """Reopen each job that has turns left to summarise, and delete those without. A job that
    continued a deleted one then continues the one before, which `priors` records by event."""
    lost = deleted.turns[conversation]
    for job in summaries.jobs_of(database, conversation):
        rest = tuple(turn for turn in job.turns if turn not in lost)
        prior = priors.get(job.spec.after, job.spec.after)
        if not rest:
            priors[job.event] = prior
            summaries.delete(database, job.id)
        elif _is_hit(job, deleted, lost) or prior != job.spec.after:
            spec = replace(job.spec, turns=rest, after=prior)
            summaries.open_again(database, replace(job, spec=spec))


def _scrub_events(
    database: Database,
    conversation: int,
    deleted: _DeletedData,
    dropped: set[int],
    unmade: dict[int, int],
) -> None:
    """Remove the deleted data from the events. `dropped` collects the deleted events. `unmade`
    collects the events that no longer have a summary, each with the event whose summary it
    continued."""
    columns = tables.ViewEvent
    for event in transcript.own_events(database, conversation):
        rest = event.target not in dropped and without(event, deleted, conversation, unmade)
        if not rest or (event.change.makes("summary") and not rest.change.makes("summary")):
            unmade[event.id] = unmade.get(event.continued, event.continued)
        if not rest:
            dropped.add(event.id)
            columns.delete().where(columns.id == event.id).execute(database)
        elif rest != event:
            transcript.rewrite_event(database, rest)


def without(
    event: ViewEvent, deleted: _DeletedData, conversation: int, unmade: Mapping[int, int]
) -> ViewEvent | None:
    """Return the event of a conversation without the deleted data; None if it referred to nothing
    else. If all of a summary's own turns are deleted, the summary is removed as well, and its other
    turns return to their previous form."""
    change, lost = event.change, deleted.turns[conversation]
    leaving = tuple(turn for turn in event.leaving if turn not in lost)
    change = change.without(lost, deleted.seqs, deleted.summaries, unmade)
    if event.leaving and not leaving:
        change = change.without_own_summary()
    rest = replace(
        event,
        change=change,
        leaving=leaving,
        snapshot=event.snapshot
        and replace(event.snapshot, examples=()),  # it is unknown whose they are
    )
    return None if change.has_no_effect and rest != event else rest
