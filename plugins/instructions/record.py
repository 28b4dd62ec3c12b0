"""The database rows of standing instructions and of their changes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Literal

import orjson
from msgspec import Struct
from msgspec.structs import replace

from bot.turns import ASKED_AGAIN
from memory.keys import ConversationKey
from memory.record import branches
from memory.record.database import Database
from plugins.instructions.detect import normalise, own_sentences

Scope = Literal["conversation", "audience", "everywhere"]
State = Literal["proposed", "active", "dismissed", "revoked"]
Origin = Literal["found", "auto", "model", "person"]
"""The origin of a rule: found and asked about, found and kept at once, proposed by the model, or
given with `/rules add`."""
NEWEST = 500
"""The number of a person's messages in which the words of a proposal are searched."""

TABLES = (
    """CREATE TABLE instructions_rule (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        text TEXT NOT NULL, digest TEXT NOT NULL, state TEXT NOT NULL,
        audience TEXT NOT NULL, home TEXT NOT NULL,
        conversation TEXT NOT NULL, turn INTEGER NOT NULL,
        person TEXT NOT NULL, origin TEXT NOT NULL, at REAL NOT NULL, changed REAL NOT NULL)""",
    "CREATE UNIQUE INDEX instructions_once ON instructions_rule (audience, home, digest)",
    """CREATE TABLE instructions_change (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        batch INTEGER NOT NULL, rule INTEGER NOT NULL, kind TEXT NOT NULL,
        home TEXT NOT NULL, person TEXT NOT NULL, at REAL NOT NULL,
        was TEXT NOT NULL, undone REAL NOT NULL DEFAULT 0)""",
    "CREATE INDEX instructions_of_rule ON instructions_change (rule)",
)


class Instruction(Struct, frozen=True):
    """A standing instruction. `text` is as the person wrote it. It applies to a chat whose first
    conversation is `home`, or with `home` "" to all of `audience`, or with both "" everywhere. The
    conversation, the turn (0: none), the person and the time (in seconds since 1970) are its
    origin."""

    text: str
    state: State
    audience: str
    home: str
    conversation: str = ""
    turn: int = 0
    person: str = ""
    origin: Origin = "person"
    at: float = 0.0
    id: int = 0

    @property
    def scope(self) -> Scope:
        return "conversation" if self.home else "audience" if self.audience else "everywhere"

    @property
    def place(self) -> tuple[str, str]:
        """Return where it applies, for comparisons."""
        return self.audience, self.home

    @property
    def digest(self) -> str:
        """Return a digest that is equal for rules with the same text."""
        return hashlib.sha256(normalise(self.text).encode()).hexdigest()

    def reaches(self, audience: str, home: str) -> bool:
        """Return whether it applies to a chat of this audience."""
        return self.home in ("", home) and self.audience in ("", audience)


def place_at(rule: Instruction, key: ConversationKey, scope: Scope) -> Instruction:
    """Return the rule with this scope, relative to a conversation."""
    audience = "" if scope == "everywhere" else key.audience
    return replace(rule, audience=audience, home=key.home if scope == "conversation" else "")


def in_place_of(known: Instruction | None, new: Instruction) -> Instruction:
    """Return a new rule; with the id of a known one if that has the same place."""
    return replace(new, id=known.id) if known and known.place == new.place else new


class InstructionChange(Struct, frozen=True):
    """A change of a rule, with its person and time. `was` is the rule before (None: it did not
    exist), `undone` the time at which the change was undone (0: it was not). The changes of one
    command share a `batch`."""

    batch: int
    rule: int
    kind: str
    person: str
    at: float
    was: Instruction | None
    undone: float = 0.0
    id: int = 0


_COLUMNS = Instruction.__struct_fields__[:-1]
_STANDING = ("text", "state", "audience", "home")
"""The fields that a change may set."""


def load(database: Database) -> list[Instruction]:
    """Return all rules in the order of their creation; none if the table does not exist."""
    if "instructions_rule" not in database.get_tables():
        return []
    columns = ", ".join((*_COLUMNS, "id"))
    rows = database.execute_sql(f"SELECT {columns} FROM instructions_rule ORDER BY id").fetchall()
    return [Instruction(*row) for row in rows]


def save(
    database: Database,
    kind: str,
    key: ConversationKey,
    person: str,
    wanted: Sequence[tuple[Instruction | None, Instruction]],
) -> list[Instruction]:
    """Store rules (each before and after) and log the change; with kind "" (nobody decided
    anything) without a log entry. Return the rules with their ids."""
    now, batch, saved = time.time(), 0, []
    for before, rule in wanted:
        one = rule if before else replace(rule, id=_insert(database, rule, now))
        if before:
            _update(database, rule, now)
        saved.append(one)
        if kind:
            was = orjson.dumps([getattr(before, name) for name in _STANDING]) if before else b""
            row = database.execute_sql(
                "INSERT INTO instructions_change (batch, rule, kind, home, person, at, was)"
                " VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id",
                (batch, one.id, kind, key.home, person, now, was.decode()),
            ).fetchone()[0]
            if not batch:
                batch = row
                database.execute_sql(
                    "UPDATE instructions_change SET batch = ? WHERE id = ?", (batch, row)
                )
    return saved


def _insert(database: Database, rule: Instruction, now: float) -> int:
    values = [getattr(rule, name) for name in _COLUMNS]
    names = ", ".join((*_COLUMNS, "digest", "changed"))
    marks = ", ".join("?" * (len(values) + 2))
    query = f"INSERT INTO instructions_rule ({names}) VALUES ({marks}) RETURNING id"
    return int(database.execute_sql(query, (*values, rule.digest, now)).fetchone()[0])


def _update(database: Database, rule: Instruction, now: float) -> None:
    values = [getattr(rule, name) for name in _COLUMNS]
    sets = ", ".join(f"{name} = ?" for name in (*_COLUMNS, "digest", "changed"))
    database.execute_sql(
        f"UPDATE instructions_rule SET {sets} WHERE id = ?", (*values, rule.digest, now, rule.id)
    )


def list_changes(database: Database, home: str, most: int) -> list[InstructionChange]:
    """Return the changes in a chat, the newest first."""
    rows = database.execute_sql(
        """SELECT batch, rule, kind, person, at, was, undone, id FROM instructions_change
            WHERE home = ? ORDER BY id DESC LIMIT ?""",
        (home, most),
    ).fetchall()
    return [_to_change(row) for row in rows]


def find_last(database: Database, home: str, rule: int = 0) -> list[InstructionChange]:
    """Return the changes of the last command in a chat that was not undone; only those of this rule
    if one is named."""
    is_of = "rule = ?" if rule else "0 = ?"
    rows = database.execute_sql(
        f"""SELECT batch, rule, kind, person, at, was, undone, id FROM instructions_change
            WHERE undone = 0 AND {is_of} AND batch = (SELECT MAX(batch) FROM instructions_change
                WHERE home = ? AND undone = 0 AND {is_of}) ORDER BY id""",
        (rule, home, rule),
    ).fetchall()
    return [_to_change(row) for row in rows]


def _to_change(row: Sequence[Any]) -> InstructionChange:
    batch, rule, kind, person, at, was, undone, number = row
    before = replace(Instruction(*orjson.loads(was)), id=rule) if was else None
    return InstructionChange(batch, rule, kind, person, at, before, undone, number)


def mark_undone(database: Database, changes: Sequence[InstructionChange]) -> None:
    """Store that changes were undone."""
    for change in changes:
        query = "UPDATE instructions_change SET undone = ? WHERE id = ?"
        database.execute_sql(query, (time.time(), change.id))


def list_words(database: Database, home: str, person: str) -> list[str]:
    """Return the newest messages that a person has written in a chat, without questions that were
    asked again, which may be somebody else's."""
    rows = branches.list_rows(database, home)
    marks = ", ".join("?" * len(rows))
    found = database.execute_sql(
        f"""SELECT m.text FROM message AS m JOIN inbox AS i ON i.id = m.inbox
            WHERE m.conversation IN ({marks}) AND m.role = 'user'
                AND i.run = 0 AND i.is_outside = 0
                AND i.channel || '/' || i.user = ? AND i.platform_id NOT LIKE ?
            ORDER BY m.id DESC LIMIT ?""",
        (*rows, person, f"{ASKED_AGAIN}%", NEWEST),
    ).fetchall()
    return [text for (text,) in found]


def find_words(database: Database, home: str, person: str, text: str) -> str | None:
    """Return the sentence of a person's own messages that a text repeats, as it was written."""
    wanted = [normalise(one) for one in own_sentences(text)]
    own_words = list_words(database, home, person) if len(wanted) == 1 else ()
    sentences = chain.from_iterable(map(own_sentences, own_words))
    return next((one for one in sentences if normalise(one) == wanted[0]), None)


class InstructionRows:
    """Rows of standing instructions for the kernel (`memory.record.forget.FeatureRows`)."""

    noun = "standing instruction"

    def __init__(self, on_deleted: Callable[[], None]) -> None:
        """Call `on_deleted` when rules are deleted, before the transaction is committed."""
        self._on_deleted = on_deleted

    def count(self, database: Database, key: ConversationKey, turns: Sequence[str] | None) -> int:
        return len(self._find(database, key, turns))

    def forget(self, database: Database, key: ConversationKey, turns: Sequence[str] | None) -> None:
        self._delete(database, self._find(database, key, turns))

    def prune(self, database: Database, before: float) -> None:
        rows = database.execute_sql(
            """SELECT id FROM instructions_rule
                WHERE changed < ? AND state != 'active'""",
            (before,),
        ).fetchall()
        self._delete(database, [row for (row,) in rows])

    def _find(
        self, database: Database, key: ConversationKey, turns: Sequence[str] | None
    ) -> list[int]:
        if turns is None:
            query = "SELECT id FROM instructions_rule WHERE conversation = ? OR home = ?"
            rows = database.execute_sql(query, (key.id, key.id)).fetchall()
            return [row for (row,) in rows]
        found = []
        for name in turns:
            conversation, _, turn = name.rpartition(" t")
            query = "SELECT id FROM instructions_rule WHERE conversation = ? AND turn = ?"
            rows = database.execute_sql(query, (conversation, int(turn))).fetchall()
            found += [row for (row,) in rows]
        return found

    def _delete(self, database: Database, rules: Sequence[int]) -> None:
        for rule in rules:
            database.execute_sql("DELETE FROM instructions_change WHERE rule = ?", (rule,))
            database.execute_sql("DELETE FROM instructions_rule WHERE id = ?", (rule,))
        if rules:
            self._on_deleted()
