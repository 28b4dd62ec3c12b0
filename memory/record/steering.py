"""The changes by people to the context since a turn, which go along into a branch that begins after
it."""

from __future__ import annotations

from memory.context.change import ViewEvent
from memory.context.replay import find_steering
from memory.keys import ConversationKey
from memory.record import branches, summaries, tables, transcript
from memory.record.database import Database


def carry(database: Database, key: ConversationKey, branch: ConversationKey, turn: int) -> None:
    """Let what people did in the conversation of `key` hold in the `branch` that was just made of
    it, as far as it concerns the turns up to `turn`."""
    shared = {event.id for event in transcript.events_of(database, _row(database, branch))}
    seen = transcript.events_of(database, _row(database, key))
    later = [event for event in seen if event.id not in shared]
    found = [
        event
        for event in find_steering(later, shared, turn)
        if all(number <= turn for number in _told(database, event))
    ]
    branches.keep_steering(database, branch.id, [event.id for event in found])


def _row(database: Database, key: ConversationKey) -> int:
    columns = tables.Conversation
    return int(columns.select(columns.id).where(columns.key == key.id).scalar(database))


def _told(database: Database, event: ViewEvent) -> tuple[int, ...]:
    """Return the turns that the summary tells of which an event puts into the context."""
    found = (summaries.summary(database, text) for text in event.change.summaries)
    return tuple(
        turn
        for summary in found
        if summary is not None
        for turn in summaries.list_covered_turns(database, summary)
    )
