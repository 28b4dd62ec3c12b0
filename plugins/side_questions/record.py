"""Rows of side questions (`/btw`): asked with a conversation's context, and not part of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any, Literal

from msgspec import Struct

from memory.record import tables
from memory.record.database import Database

State = Literal["", "answered", "failed", "stopped"]
"""The outcome of a question; "": none yet, or none at all if an earlier process asked it."""


class SideQuestion(Struct, frozen=True):
    """A side question. `turn` is the number of the last turn before it, `speaker` the person in a
    chat with several people, `answer` the text shown to the person, `at` the time in seconds since
    1970."""

    question: str
    turn: int = 0
    speaker: str = ""
    answer: str = ""
    state: State = ""
    at: float = 0.0
    id: int = 0


def insert(database: Database, conversation: int, asked: SideQuestion) -> int:
    """Store a question that is being asked; return its id."""
    return tables.insert(
        database,
        tables.SideQuestion,
        conversation=conversation,
        turn=asked.turn,
        speaker=asked.speaker,
        question=asked.question,
        answer="",
        state="",
        at=time.time(),
    )


def finish(database: Database, row: int, answer: str, state: State) -> None:
    """Store the outcome of a question."""
    tables.update(database, tables.SideQuestion, row, answer=answer, state=state)


def newest(
    database: Database, conversation: int, most: int, words: Sequence[str] = ()
) -> list[SideQuestion]:
    """Return the newest questions of a conversation, oldest first; with `words`, those that contain
    any of them."""
    columns = tables.SideQuestion
    query = columns.select().where(columns.conversation == conversation)
    if words:
        holds = (columns.question.contains(w) | columns.answer.contains(w) for w in words)
        query = query.where(reduce(or_, holds))
    rows = query.order_by(columns.id.desc()).limit(most).dicts().execute(database)
    return [_question(row) for row in rows][::-1]


def _question(row: dict[str, Any]) -> SideQuestion:
    names = ("question", "turn", "speaker", "answer", "state", "at", "id")
    return SideQuestion(**{name: row[name] for name in names})
