"""The ledger, which has a row for every model call, and the notes about limits."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Collection
from typing import Any

from peewee import JOIN, fn

from memory.ledger import Bill, Spent
from memory.record import branches, tables
from memory.record.database import Database

ANSWER = "answer"
"""The purpose of the calls of a conversation's own turns."""
_USAGE = tables.Usage
_SUMS = (  # the columns of a Bill
    fn.COUNT(_USAGE.id),
    fn.COALESCE(fn.SUM(_USAGE.prompt), 0),
    fn.COALESCE(fn.SUM(_USAGE.cached), 0),
    fn.COALESCE(fn.SUM(_USAGE.completion), 0),
    fn.COALESCE(fn.SUM(_USAGE.cost), 0.0),
    fn.COUNT(_USAGE.id) - fn.COUNT(_USAGE.cost),
    fn.COALESCE(fn.SUM(_USAGE.written), 0),
    fn.COALESCE(fn.SUM(_USAGE.reasoning), 0),
)


def insert(
    database: Database,
    conversation: int | None,
    turn: int | None,
    spent: Spent,
    person: str = "",
) -> None:
    """Store one call, booked to `person`, or by default to the last speaker of the conversation."""
    if not person:
        who = database.execute_sql("SELECT person FROM conversation WHERE id = ?", (conversation,))
        person = (who.fetchone() or ("",))[0]
    tables.insert(
        database,
        tables.Usage,
        conversation=conversation,
        turn=turn,
        at=time.time(),
        purpose=spent.purpose,
        model=spent.model,
        prompt=spent.prompt,
        cached=spent.cached,
        written=spent.written,
        reasoning=spent.reasoning,
        completion=spent.completion,
        cost=spent.cost,
        is_reported=spent.is_reported,
        person=person,
    )


def bill(
    database: Database,
    conversation: int | None = None,
    since: float = 0,
    until: float = math.inf,
    purpose: str = "",
) -> Bill:
    """Return the sum of the calls of one conversation (None: of all) in a time span, for a purpose
    ("": any)."""
    columns = tables.Usage
    if conversation is not None and not (since or purpose) and until == math.inf:
        (row,) = _whole.tuples(database, conversation)
        return Bill(*row)
    query = columns.select(*_SUMS).where((columns.at >= since) & (columns.at < until))
    if conversation is not None:
        query = query.where(columns.conversation == conversation)
    if purpose:
        query = query.where(columns.purpose == purpose)
    (row,) = query.tuples().execute(database)
    return Bill(*row)


@tables.Prepared
def _whole(conversation: int) -> Any:
    return tables.Usage.select(*_SUMS).where(tables.Usage.conversation == conversation)


def bills_by_turn(
    database: Database, conversation: int, turns: Collection[int]
) -> dict[int, dict[str, Bill]]:
    """Return the cost of each of these turns of a conversation by model, including turns shared
    with another branch."""
    columns, found = tables.Usage, defaultdict[int, dict[str, Bill]](dict)
    wanted = [turn for turn in turns if turn > 0]
    for link in branches.lineage(database, conversation):
        own = [turn for turn in wanted if link.after_turn < turn <= link.turn]
        what = (columns.turn, columns.model)
        mine = (columns.conversation == link.conversation) & columns.turn.in_(own)
        query = columns.select(*what, *_SUMS).where(mine).group_by(*what).order_by(*what)
        for turn, model, *sums in query.tuples().execute(database):
            found[turn][model] = Bill(*sums)
    return dict(found)


def prompts_by_turn(database: Database, conversation: int) -> dict[int, int]:
    """Return the tokens of the largest prompt of each turn of a conversation, in order, including
    turns shared with another branch."""
    columns, found = tables.Usage, dict[int, int]()
    for link in branches.lineage(database, conversation):
        own = (columns.conversation == link.conversation) & (columns.purpose == ANSWER)
        own &= (columns.turn > link.after_turn) & (columns.turn <= link.turn)
        query = columns.select(columns.turn, fn.MAX(columns.prompt)).where(own)
        found.update(query.group_by(columns.turn).order_by(columns.turn).tuples().execute(database))
    return found


def bills_by_model(database: Database, since: float = 0) -> list[tuple[str, str, Bill]]:
    """Return (model, purpose, bill) for all conversations since a time."""
    columns = tables.Usage
    what = (columns.model, columns.purpose)
    query = columns.select(*what, *_SUMS).where(columns.at >= since).group_by(*what).order_by(*what)
    return [(row[0], row[1], Bill(*row[2:])) for row in query.tuples().execute(database)]


def bills_by_conversation(
    database: Database, since: float = 0, until: float = math.inf
) -> dict[str, Bill]:
    """Return the bill of each conversation in a time span, by its id; calls without a conversation
    are under ""."""
    columns, conversation = tables.Usage, tables.Conversation
    joined = columns.join(
        conversation, JOIN.LEFT_OUTER, on=(conversation.id == columns.conversation)
    )
    query = (
        columns.select(conversation.key, *_SUMS)
        .from_(joined)
        .where((columns.at >= since) & (columns.at < until))
        .group_by(conversation.key)
    )
    return {row[0] or "": Bill(*row[1:]) for row in query.tuples().execute(database)}


def bills_by_person(
    database: Database, since: float = 0, until: float = math.inf
) -> dict[str, Bill]:
    """Return the bill of each person in a time span, by their name."""
    columns = tables.Usage
    within = (columns.at >= since) & (columns.at < until)
    query = columns.select(columns.person, *_SUMS).where(within)
    return {
        row[0]: Bill(*row[1:]) for row in query.group_by(columns.person).tuples().execute(database)
    }


def note(database: Database, month: str, conversation: str, text: str) -> None:
    """Store a note about a limit; "" means all conversations."""
    tables.SpendingNote.insert(
        month=month, conversation=conversation, note=text, at=time.time()
    ).on_conflict_ignore().execute(database)


def notes(database: Database, month: str) -> set[tuple[str, str]]:
    """Return all notes of a month ("2026-11"), as (conversation, text)."""
    columns = tables.SpendingNote
    query = columns.select(columns.conversation, columns.note).where(columns.month == month)
    return set(query.tuples().execute(database))
