"""What is known of a conversation before anything is brought into it."""

from __future__ import annotations

from memory.record import tables
from memory.record.database import Database

Exchange = tuple[str, str]
"""A question, and the text that ended its turn."""


def exchanges_of(database: Database, key: str) -> list[Exchange]:
    """The turns of the conversation of this id, in order, as far as they are kept; it need not be
    there. What it shares with another one is not among them."""
    columns, message = tables.Conversation, tables.Message
    query = (
        message.select(message.turn, message.role, message.text)
        .from_(message.join(columns, on=(message.conversation == columns.id)))
        .where((columns.key == key) & message.role.in_(("user", "assistant")))
        .order_by(message.seq)
    )
    turns: dict[int, list[str]] = {}
    for turn, role, text in query.tuples().execute(database):
        said = turns.setdefault(turn, ["", ""])
        if role == "assistant":
            said[1] = text
        elif not said[0]:
            said[0] = text
    return [(question, reply) for question, reply in turns.values()]
