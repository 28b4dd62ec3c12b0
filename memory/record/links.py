"""Chats that are linked to another chat's conversation: the rows of the feature of links.

A link that has ended keeps its row: messages that were received while it was active belong to its
target.
"""

from __future__ import annotations

from msgspec import Struct

from memory.record import tables
from memory.record.database import Database


class ChatLink(Struct, frozen=True):
    """A link from the chat whose first conversation is `home` ("telegram/42") to the conversation
    `target` ("terminal/main"), since `at` (seconds since 1970). `person` requested it with the code
    that was issued to `giver`."""

    home: str
    target: str
    person: str
    giver: str
    at: float
    is_over: bool = False


def forget_person(database: Database, person: str) -> None:
    """End the links that somebody requested or gave the code for, and delete their codes and
    requests, because the person has lost access."""
    link, code, asked = tables.Link, tables.LinkCode, tables.LinkRequest
    is_theirs = (link.person == person) | (link.giver == person)
    link.update(is_over=1).where(is_theirs).execute(database)
    code.delete().where(code.giver == person).execute(database)
    is_theirs = (asked.person == person) | (asked.giver == person)
    asked.delete().where(is_theirs).execute(database)
