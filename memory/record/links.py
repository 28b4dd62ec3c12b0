"""Chats that go on in another chat's conversation: the rows are those of the feature of links.

A link that is over keeps its row: messages that were taken in while it held belong where it led.
"""

from __future__ import annotations

from msgspec import Struct

from memory.record import tables
from memory.record.database import Database


class ChatLink(Struct, frozen=True):
    """The chat whose first conversation is `home` ("telegram/42") goes on in the conversation
    `target` ("terminal/main"), since `at` (seconds since 1970). `person` asked for that by the code
    that `giver` was given."""

    home: str
    target: str
    person: str
    giver: str
    at: float
    is_over: bool = False


def forget_person(database: Database, person: str) -> None:
    """End the links that somebody asked for, or gave the code for, and their codes and requests:
    they are let in no more."""
    link, code, asked = tables.Link, tables.LinkCode, tables.LinkRequest
    is_theirs = (link.person == person) | (link.giver == person)
    link.update(is_over=1).where(is_theirs).execute(database)
    code.delete().where(code.giver == person).execute(database)
    is_theirs = (asked.person == person) | (asked.giver == person)
    asked.delete().where(is_theirs).execute(database)
