"""Rows of messages and view events. Messages are inserted, never updated.

The rows that a branch shares are read from its ancestor conversations: `lineage` lists the
conversations that make up a transcript. Functions named `own` read the rows of one conversation
alone.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import reduce
from itertools import zip_longest
from operator import or_
from typing import Any, get_args

import msgspec
import orjson
from peewee import SQL, fn

from memory.context.change import Change, ViewEvent
from memory.context.forms import WHOLE, Snapshot, assign_form
from memory.context.layout import NO_REMOVED_TURNS, RemovedTurns, limit, replay
from memory.messages import Image, Message, Role, ToolCall
from memory.record import tables
from memory.record.branches import Ancestor, any_of, find_sharing_rows, lineage, within
from memory.record.database import Database
from memory.turns import Entry, Turn

log = logging.getLogger(__name__)


DAMAGED = datetime.fromtimestamp(0, UTC)
"""The time of a message of which only the text can be read."""


def insert(
    database: Database,
    conversation: int,
    entries: Sequence[Entry],
    inbox: Sequence[int] = (),
    person: str | None = None,
) -> None:
    """Append entries. `inbox` are the inbox rows of the first of them; `person` is the new last
    speaker (None: unchanged)."""
    for entry, row in zip_longest(entries, inbox):
        tables.insert(database, tables.Message, **_row(conversation, entry), inbox=row)
    last = entries[-1]
    tables.update(
        database,
        tables.Conversation,
        conversation,
        last_seq=last.seq,
        last_turn=last.turn,
        active_at=last.at.timestamp(),
        **({} if person is None else {"person": person}),
    )


def entries_in(
    database: Database,
    conversation: int,
    spans: Sequence[tuple[int, int | None]],
    chars: int = 0,
) -> list[Entry]:
    """Return the entries of the turns in these spans, in order, each with the first `chars`
    characters of its text (0: all); the last span may be open (None)."""
    links = lineage(database, conversation)
    if not chars and len(links) == len(spans) == 1 and spans[0][1] is None:
        return [to_entry(row) for row in _own_from.tuples(database, conversation, spans[0][0])]
    columns, found = tables.Message, list[Entry]()
    text = fn.SUBSTR(columns.text, 1, chars) if chars else columns.text
    for some in range(0, len(spans), _SPANS):
        parts = [
            columns.turn >= first if last is None else columns.turn.between(first, last)
            for first, last in spans[some : some + _SPANS]
        ]
        query = _select(text).where(within(columns, columns.turn, links, "turn") & any_of(parts))
        rows = query.order_by(columns.seq).tuples().execute(database)
        found += [to_entry(row) for row in rows]
    return found


_SPANS = 50  # in one statement


@tables.Prepared
def _own_from(conversation: int, turn: int) -> Any:
    columns = tables.Message
    mine = (columns.conversation == conversation) & (columns.turn >= turn)
    return _select().where(mine).order_by(columns.seq)


def own_entries(
    database: Database, conversation: int, seq: int = 0, most: int | None = None
) -> Iterator[Entry]:
    """Return the entries of a conversation that it does not share with an ancestor, from `seq` on,
    in order, as an iterator; at most `most`."""
    columns = tables.Message
    query = _select().where((columns.conversation == conversation) & (columns.seq >= seq))
    rows = query.order_by(columns.seq).limit(most).tuples().iterator(database)
    return (to_entry(row) for row in rows)


def entries_at(database: Database, conversation: int, seqs: Iterable[int]) -> list[Entry]:
    """Return the entries of a conversation with these seqs, in order."""
    query = _select().where(_at_seqs(database, conversation, [*seqs]))
    rows = query.order_by(tables.Message.seq).tuples().execute(database)
    return [to_entry(row) for row in rows]


def entries_of_turns(database: Database, conversation: int, turns: Iterable[int]) -> list[Entry]:
    """Return the entries of these turns, in order."""
    query = _select().where(_of_turns(database, conversation, [*turns]))
    rows = query.order_by(tables.Message.seq).tuples().execute(database)
    return [to_entry(row) for row in rows]


def own_of_turns(database: Database, conversation: int, turns: Iterable[int]) -> list[Entry]:
    """Return the entries of these turns that a conversation does not share with an ancestor."""
    columns = tables.Message
    mine = (columns.conversation == conversation) & columns.turn.in_(
        _bind_numbers(database, [*turns])
    )
    query = _select().where(mine).order_by(columns.seq)
    return [to_entry(row) for row in query.tuples().execute(database)]


def entries_between(
    database: Database, conversation: int, spans: Sequence[tuple[int, int]], most: int
) -> list[Entry]:
    """Return the entries of at most `most` turns, given by first and last numbers."""
    there = sorted({turn for _, turn in places(database, conversation)})
    wanted = [n for n in there if any(first <= n <= last for first, last in spans)][:most]
    return entries_of_turns(database, conversation, wanted)


def places(database: Database, conversation: int) -> list[tuple[int, int]]:
    """Return (seq, turn) of all entries, in order."""
    columns = tables.Message
    query = columns.select(columns.seq, columns.turn).order_by(columns.seq)
    return list(query.where(_from_seq(lineage(database, conversation))).tuples().execute(database))


def places_of(
    database: Database, conversation: int, spans: Sequence[tuple[int, int]]
) -> list[tuple[int, int, int]]:
    """Return the row of the owner, the first and the last seq of the turns in each span."""
    columns, line = tables.Message, lineage(database, conversation)
    places: dict[tuple[int, int], list[int]] = {}
    for some in range(0, len(spans), _SPANS):
        part = spans[some : some + _SPANS]
        there = any_of([columns.turn.between(first, last) for first, last in part])
        query = columns.select(columns.conversation, columns.turn, columns.seq)
        rows = query.where(within(columns, columns.turn, line, "turn") & there)
        firsts = [first for first, _ in part]
        for owner, turn, seq in rows.tuples().execute(database):
            places.setdefault((owner, some + bisect_right(firsts, turn)), []).append(seq)
    return [(owner, min(seqs), max(seqs)) for (owner, _), seqs in places.items()]


def results_of(database: Database, conversation: int, tools: Collection[str]) -> frozenset[int]:
    """Return the seqs of all results of these tools."""
    columns = tables.Message
    query = columns.select(columns.seq).where(
        _from_seq(lineage(database, conversation))
        & (columns.role == "tool")
        & reduce(or_, (columns.extra.contains(f'"tool":"{tool}"') for tool in tools))
    )
    return frozenset(seq for (seq,) in query.tuples().execute(database))


def _from_seq(line: Sequence[Ancestor], seq: int = 0) -> Any:
    """Return the condition for the messages of the transcript of this lineage, from this seq on."""
    columns = tables.Message
    links = [link for link in line if link.seq >= seq]
    if len(links) == 1:
        return (columns.conversation == links[0].conversation) & (columns.seq >= seq)
    return any_of(
        [
            (columns.conversation == link.conversation) & columns.seq.between(seq, link.seq)
            for link in links
        ]
    )


def _at_seqs(database: Database, conversation: int, seqs: Sequence[int]) -> Any:
    """Return the condition for the messages of a transcript that have these seqs."""
    columns = tables.Message
    parts = (
        (one.conversation, [n for n in seqs if one.after_seq < n <= one.seq])
        for one in lineage(database, conversation)
    )
    return reduce(
        or_,
        (
            (columns.conversation == row) & columns.seq.in_(_bind_numbers(database, mine))
            for row, mine in parts
        ),
    )


def _of_turns(database: Database, conversation: int, turns: Collection[int]) -> Any:
    """Return the condition for the messages in these turns of a transcript."""
    columns = tables.Message
    links = lineage(database, conversation)
    if len(links) == 1:
        return (columns.conversation == conversation) & columns.turn.in_(
            _bind_numbers(database, turns)
        )
    parts = ((one, [n for n in turns if one.after_turn < n <= one.turn]) for one in links)
    return any_of(
        [
            (columns.conversation == link.conversation)
            & columns.turn.in_(_bind_numbers(database, mine))
            for link, mine in parts
            if mine or link is links[-1]
        ]
    )


def newest_turns(database: Database, key: str, most: int) -> tuple[Turn, ...]:
    """Return the last turns of a conversation by its id, in context or not, without restoring it:
    it may belong to another process."""
    columns = tables.Conversation
    found = columns.select(columns.id).where(columns.key == key).tuples().execute(database)
    for (row,) in found:
        numbers = sorted({turn for _, turn in places(database, row)})[-most:]
        return as_turns(entries_of_turns(database, row, numbers))
    return ()


def removed_turns(database: Database, conversation: int) -> RemovedTurns:
    """Return the part of a conversation that a person removed."""
    return replay(events_of(database, conversation), "").layout.removed_turns


def find_removed(database: Database, conversation: int, away: RemovedTurns) -> frozenset[int]:
    """Return the turns that a person removed and that are still stored."""
    if away == NO_REMOVED_TURNS:
        return frozenset()
    return frozenset(turn for _, turn in places(database, conversation) if away.has(turn))


def find_removed_anywhere(
    database: Database, conversation: int, own: RemovedTurns
) -> frozenset[int]:
    """Return the turns of a transcript that a person removed: in this conversation, as `own` says,
    or in a conversation that shares them, whose model may read the files of this one, too."""
    away = set(find_removed(database, conversation, own))
    for other, last in find_sharing_rows(database, conversation).items():
        there = removed_turns(database, other)
        away |= {turn for turn in find_removed(database, other, there) if turn <= last}
    return frozenset(away)


def _bind_numbers(database: Database, numbers: Collection[int]) -> SQL:
    """Return SQL to follow IN for any number of numbers, since the parameters of a statement are
    limited."""
    return SQL(database.numbers, (orjson.dumps(list(numbers)).decode(),))


def every_entry(database: Database, conversation: int) -> Iterator[Entry]:
    """Yield all entries of a conversation in order; there may be very many."""
    query = _select().where(_from_seq(lineage(database, conversation)))
    rows = query.order_by(tables.Message.seq).tuples().iterator(database)
    return (to_entry(row) for row in rows)


def spoken(database: Database, conversation: int, seq: int) -> list[tuple[str, str, int, int]]:
    """Return the messages of people and the model from a seq on: role, beginning of the text, turn
    and seq."""
    columns = tables.Message
    query = columns.select(
        columns.role, fn.SUBSTR(columns.text, 1, _SPOKEN), columns.turn, columns.seq
    ).where(_from_seq(lineage(database, conversation), seq) & columns.role.in_(_SPEAKERS))
    return list(query.order_by(columns.seq).tuples().execute(database))


def count_from(database: Database, conversation: int, seq: int) -> tuple[int, int]:
    """Return the number of messages from a seq on, and the last seq (0 without messages)."""
    links = lineage(database, conversation)
    if not seq and len(links) == 1:
        ((count, last),) = _own_count.tuples(database, conversation)
        return count, last
    query = tables.Message.select(*_COUNT_AND_LAST).where(_from_seq(links, seq))
    ((count, last),) = query.tuples().execute(database)
    return count, last


_COUNT_AND_LAST = (
    fn.COUNT(tables.Message.seq),
    fn.COALESCE(fn.MAX(tables.Message.seq), 0),
)


@tables.Prepared
def _own_count(conversation: int) -> Any:
    columns = tables.Message
    return columns.select(*_COUNT_AND_LAST).where(columns.conversation == conversation)


_SPEAKERS = ("user", "assistant")
_SPOKEN = 4_000  # maximum characters


def turn_of_inbox(database: Database, conversation: int, inbox: int) -> int | None:
    """Return the number of the turn that was opened for this inbox row, if one was."""
    columns = tables.Message
    query = columns.select(columns.turn).where(
        (columns.conversation == conversation) & (columns.inbox == inbox)
    )
    return next((turn for (turn,) in query.tuples().execute(database)), None)


def begin_call(database: Database, conversation: int, turn: int, call: str, is_once: bool) -> None:
    """Store that the tool call of this id has begun, and whether it must not run twice."""
    database.execute_sql(
        """INSERT INTO call_start (conversation, turn, call, is_once) VALUES (?, ?, ?, ?)
            ON CONFLICT (conversation, turn, call) DO UPDATE SET is_once = excluded.is_once
                WHERE excluded.is_once > call_start.is_once""",
        (conversation, turn, call, is_once),
    )


def end_call(database: Database, conversation: int, turn: int, call: str) -> None:
    """Delete the begun call, since its result is recorded."""
    database.execute_sql(
        "DELETE FROM call_start WHERE conversation = ? AND turn = ? AND call = ?",
        (conversation, turn, call),
    )


def list_begun_calls(database: Database, conversation: int, turn: int) -> dict[str, bool]:
    """Return the ids of a turn's tool calls that are stored as begun, and whether each must not run
    twice."""
    columns = tables.CallStart
    query = columns.select(columns.call, columns.is_once).where(
        (columns.conversation == conversation) & (columns.turn == turn)
    )
    return {call: bool(is_once) for call, is_once in query.tuples().execute(database)}


def delete_repeatable_calls(database: Database, conversations: Sequence[str]) -> None:
    """Delete the begun calls of these conversations that may run twice, and will. On a clean end of
    the process, the interrupted calls are not its cause."""
    columns, known = tables.CallStart, tables.Conversation
    here = known.select(known.id).where(known.key.in_([*conversations]))
    columns.delete().where((columns.is_once == 0) & columns.conversation.in_(here)).execute(
        database
    )


def count_messages(database: Database, conversation: int) -> int:
    """Return the number of messages in the transcript of this conversation."""
    return count_from(database, conversation, 0)[0]


def insert_event(database: Database, conversation: int, event: ViewEvent) -> int:
    """Store a view event; return its id."""
    return tables.insert(
        database,
        tables.ViewEvent,
        conversation=conversation,
        at=event.at.timestamp(),
        kind=event.kind,
        actor=event.actor,
        strategy=event.strategy,
        reason=event.reason,
        change=orjson.dumps(event.change.to_json()).decode(),
        turn=event.turn,
        leaving=orjson.dumps(_pairs(event.leaving)).decode(),
        tokens_before=event.tokens_before,
        tokens_after=event.tokens_after,
        broken=event.broken,
        anew=event.anew,
        snapshot=_snapshot(event),
    )


def events_of(database: Database, conversation: int) -> list[ViewEvent]:
    """All view events of a conversation, oldest first. Those that only steer what it shares speak
    of nothing else."""
    columns, line = tables.ViewEvent, lineage(database, conversation)
    if len(line) == 1:
        return [*tables.readable(_own.dicts(database, conversation), _event)]
    mine = within(columns, columns.id, line, "event")
    query = columns.select().where(mine).order_by(columns.id)
    found = tables.readable(query.dicts().execute(database), _event)
    bounds = {event: link for link in line for event in link.steering}
    limited = (
        limit(event, bounds[event.id].turn, bounds[event.id].seq) if event.id in bounds else event
        for event in found
    )
    return [event for event in limited if event is not None]


@tables.Prepared
def _own(conversation: int) -> Any:
    columns = tables.ViewEvent
    return columns.select().where(columns.conversation == conversation).order_by(columns.id)


def own_events(database: Database, conversation: int) -> list[ViewEvent]:
    """Return the events of a conversation that it does not share with an ancestor."""
    columns = tables.ViewEvent
    query = columns.select().where(columns.conversation == conversation).order_by(columns.id)
    return list(tables.readable(query.dicts().execute(database), _event))


def snapshot_of(database: Database, conversation: int, summary: int) -> Snapshot | None:
    """Return the snapshot of the tools and memory that the model had when the turns of this summary
    were removed."""
    event, job = tables.ViewEvent, tables.Job
    query = (
        event.select(event.snapshot)
        .from_(event.join(job, on=(job.event == event.id)))
        .where(within(job, job.event, lineage(database, conversation), "event"))
        .where(job.summary == summary)
        .order_by(job.id.desc())
    )
    rows = query.tuples().execute(database)
    return next((_read_snapshot(kept) for (kept,) in rows if kept), None)


def rewrite_event(database: Database, event: ViewEvent) -> None:
    """Replace an event by its version without forgotten turns."""
    columns = tables.ViewEvent
    columns.update(
        change=orjson.dumps(event.change.to_json()).decode(),
        leaving=orjson.dumps(_pairs(event.leaving)).decode(),
        snapshot=_snapshot(event),
    ).where(columns.id == event.id).execute(database)


def as_turns(entries: Iterable[Entry]) -> tuple[Turn, ...]:
    """Group entries, given in order, into turns."""
    turns: dict[int, list[Entry]] = {}
    for entry in entries:
        turns.setdefault(entry.turn, []).append(entry)
    return tuple(Turn(number, _whole(members)) for number, members in turns.items())


def _whole(members: list[Entry]) -> tuple[Entry, ...]:
    """Return the entries of a turn. If one is damaged, return only the question and the reply,
    since calls could lack their results."""
    if all(entry.at is not DAMAGED for entry in members):
        return tuple(members)
    return tuple(members[:1] + [e for e in members[-1:] if e.message.is_final and members[1:]])


def _select(text: Any = tables.Message.text) -> Any:
    columns = tables.Message
    return columns.select(
        columns.seq,
        columns.turn,
        columns.role,
        text,
        columns.extra,
        columns.tokens,
        columns.at,
    )


def _row(conversation: int, entry: Entry) -> dict[str, Any]:
    message = entry.message
    extra: dict[str, Any] = {
        name: getattr(message, name) for name in _EXTRA if getattr(message, name)
    }  # absent means the default
    if message.tool_calls:
        extra["tool_calls"] = [[c.id, c.name, c.arguments] for c in message.tool_calls]
    if message.images:
        extra["images"] = [[image.sha256, image.media_type] for image in message.images]
    if message.files:
        extra["files"] = message.files
    return {
        "conversation": conversation,
        "seq": entry.seq,
        "turn": entry.turn,
        "role": message.role,
        "text": message.text,
        "extra": orjson.dumps(extra).decode(),
        "tokens": entry.tokens,
        "at": entry.at.timestamp(),
    }


_EXTRA = (
    "call_id",
    "tool",
    "speaker",
    "reasoning",
    "is_error",
    "mark",
    "kept",
    "offloaded",
    "terse",
    "is_untrusted",
    "is_tainted",
    "notice",
    "thoughts",
)


_ROLES = frozenset(get_args(Role))
COLUMNS = "seq, turn, role, text, extra, tokens, at"
"""The columns of a message's row that `to_entry` reads."""


def to_entry(row: tuple[int, int, str, str, str, int, float]) -> Entry:
    """Return the entry stored in a row; of a damaged one, only its text."""
    seq, turn, role, text, extra, tokens, at = row
    try:
        fields = orjson.loads(extra)
        calls = tuple(ToolCall(*call) for call in fields.pop("tool_calls", ()))
        images = tuple(Image(*image) for image in fields.pop("images", ()))
        if role not in _ROLES:
            raise ValueError(f"nobody is called {role!r}")
        files = tuple(fields.pop("files", ()))
        message = Message(role, text, calls, images=images, files=files, **fields)  # type: ignore[arg-type]
        return Entry(seq, turn, message, tokens, datetime.fromtimestamp(at, UTC))
    except tables.UNREADABLE as error:
        log.warning("message %s of t%s is damaged, its text alone is left: %r", seq, turn, error)
        content = text if isinstance(text, str) else str(text)
        # untrusted, since the mark of its origin is lost
        kept = Message(
            "user" if role == "user" else "assistant", content, is_untrusted=role == "tool"
        )
        return Entry(seq, turn, kept, tokens, DAMAGED)


def _pairs(turns: Sequence[int]) -> list[tuple[int, int]]:
    """Return turns as the first and last numbers of consecutive runs."""
    return [(span.first, span.last) for span in assign_form(turns, WHOLE)]


def _snapshot(event: ViewEvent) -> str:
    return msgspec.json.encode(event.snapshot).decode() if event.snapshot else ""


def _read_snapshot(kept: str) -> Snapshot | None:
    """Return the snapshot; an unreadable one only costs the model a note, the event is kept."""
    read = msgspec.json.Decoder(Snapshot).decode
    return next(tables.readable(filter(None, [kept]), read), None)


def _event(row: dict[str, Any]) -> ViewEvent:
    return ViewEvent(
        id=row["id"],
        at=datetime.fromtimestamp(row["at"], UTC),
        kind=row["kind"],
        actor=row["actor"],
        strategy=row["strategy"],
        reason=row["reason"],
        change=Change.from_json(orjson.loads(row["change"])),
        turn=row["turn"],
        leaving=tuple(
            number
            for first, last in orjson.loads(row["leaving"])
            for number in range(first, last + 1)
        ),
        tokens_before=row["tokens_before"],
        tokens_after=row["tokens_after"],
        broken=row["broken"],
        anew=row["anew"],
        snapshot=_read_snapshot(row["snapshot"]),
    )
