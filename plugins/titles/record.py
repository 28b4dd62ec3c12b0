"""Rows of the conversations for which a title was requested."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from memory.keys import ConversationKey, home_of
from memory.record.database import Database

TABLES = (
    """CREATE TABLE titles_asked (
        home TEXT PRIMARY KEY, turn INTEGER NOT NULL, title TEXT NOT NULL)""",
)
_ASKED = "SELECT turn, title FROM titles_asked WHERE home = ?"
_GIVEN = "SELECT title FROM conversation WHERE key = ?"
_HAS_MESSAGE = """SELECT 1 FROM message JOIN conversation ON conversation.id = message.conversation
    WHERE key = ? AND turn = ? LIMIT 1"""
_RENAME = "UPDATE conversation SET title = ? WHERE key = ? AND title = ?"


def begin(database: Database, home: str, turn: int, dropped: Collection[int] = ()) -> bool:
    """Store that a title is requested after a turn. Return False if one was requested or given
    before, or if the turn was deleted. A title made from a turn that a person has `dropped` is
    deleted and requested again."""
    given = database.execute_sql(_GIVEN, (home,)).fetchone()
    if database.execute_sql(_HAS_MESSAGE, (home, turn)).fetchone() is None:
        return False
    known = database.execute_sql(_ASKED, (home,)).fetchone()
    is_dropped = known is not None and known[0] in dropped
    if given is None or (given[0] and not (is_dropped and given[0] == known[1])):
        return False
    if known is None:
        statement = "INSERT INTO titles_asked (turn, title, home) VALUES (?, '', ?)"
    elif is_dropped:
        statement = "UPDATE titles_asked SET turn = ?, title = '' WHERE home = ?"
        database.execute_sql(_RENAME, ("", home, given[0])).close()
    else:
        return False
    database.execute_sql(statement, (turn, home)).close()
    return True


def keep(database: Database, home: str, turn: int, title: str) -> bool:
    """Set the title; return False if a person has given one, or if its source was deleted."""
    asked = database.execute_sql(_ASKED, (home,)).fetchone()
    given = database.execute_sql(_GIVEN, (home,)).fetchone()
    if asked is None or asked[0] != turn or given is None or given[0]:
        return False
    database.execute_sql("UPDATE titles_asked SET title = ? WHERE home = ?", (title, home)).close()
    database.execute_sql(_RENAME, (title, home, "")).close()
    return True


class TitleRows:
    """The rows for `/forget`: a title is deleted with the turn it was made from. The request is
    kept, so that no other title is requested."""

    noun = "title"

    def count(self, database: Database, key: ConversationKey, turns: Sequence[str] | None) -> int:
        """Return 0: titles are not reported, since no person has written them."""
        return 0

    def forget(self, database: Database, key: ConversationKey, turns: Sequence[str] | None) -> None:
        """Delete the titles made from these turns (None: from any)."""
        homes = {home_of(turn.rpartition(" ")[0]) for turn in turns or ()} or {key.home}
        for home in homes:
            for turn, title in database.execute_sql(_ASKED, (home,)).fetchall():
                is_selected = key.id == home if turns is None else f"{home} t{turn}" in turns
                if is_selected:
                    statement = "UPDATE titles_asked SET turn = 0, title = '' WHERE home = ?"
                    database.execute_sql(statement, (home,)).close()
                    if title:
                        database.execute_sql(_RENAME, ("", home, title)).close()

    def prune(self, database: Database, before: float) -> None:
        """Do nothing: titles do not expire."""
