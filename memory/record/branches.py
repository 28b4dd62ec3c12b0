"""Rows of branches: conversations that share the beginning of another one.

Messages are not copied. A branch's row names its parent and the last message, turn and view event
that they share. The branch's own messages and turns are numbered from there, so a number means the
same message in all conversations that share it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from peewee import fn

from memory.keys import BRANCH, ConversationKey, home_of
from memory.record import tables
from memory.record.conversations import BEGINNING
from memory.record.database import Database

END = (1 << 62) - 1
"""A number above any seq, turn or event."""
DEEPEST = 50
"""The maximum depth of nested branches. In a damaged database the parent links may form a cycle."""


class Ancestor(Struct, frozen=True):
    """The rows that one conversation contributes to a transcript: those up to a seq, a turn and an
    event, after the rows of the previous link. `steering` are later events, of any conversation,
    that apply to these turns."""

    conversation: int
    seq: int = END
    turn: int = END
    event: int = END
    after_seq: int = 0
    after_turn: int = 0
    steering: frozenset[int] = frozenset()


def lineage(database: Database, conversation: int) -> list[Ancestor]:
    """Return the conversations that make up a transcript, oldest first; its own is the last."""
    found = database.execute_sql(
        """WITH RECURSIVE line(conversation, parent, seq, turn, event, depth) AS (
            SELECT conversation, parent, seq, turn, event, 1 FROM branch WHERE conversation = ?
            UNION ALL
            SELECT b.conversation, b.parent, b.seq, b.turn, b.event, depth + 1
                FROM branch AS b JOIN line ON b.conversation = line.parent WHERE depth < ?)
        SELECT conversation, parent, seq, turn, event FROM line ORDER BY depth DESC""",
        (conversation, DEEPEST),
    ).fetchall()
    steering = _list_steering(database, [branch for branch, *_ in found]) if found else {}
    links: list[Ancestor] = []
    seq = turn = 0
    for branch, parent, last_seq, last_turn, event in found:
        held = frozenset(steering.get(branch, ()))
        links.append(Ancestor(parent, last_seq, last_turn, event, seq, turn, held))
        seq, turn = last_seq, last_turn
    return [*links, Ancestor(conversation, after_seq=seq, after_turn=turn)]


def _list_steering(database: Database, branches: Sequence[int]) -> dict[int, list[int]]:
    columns = tables.Steering
    query = columns.select(columns.branch, columns.event).where(columns.branch.in_(branches))
    found: dict[int, list[int]] = {}
    for branch, event in query.tuples().execute(database):
        found.setdefault(branch, []).append(event)
    return found


def keep_steering(database: Database, key: str, events: Sequence[int]) -> None:
    """Apply these events of its ancestor conversations to the branch with this id."""
    for event in events:
        database.execute_sql(
            """INSERT INTO steering (branch, event, conversation) SELECT c.id, e.id, e.conversation
                FROM conversation AS c CROSS JOIN view_event AS e WHERE c.key = ? AND e.id = ?""",
            (key, event),
        )


def find_sharing_rows(database: Database, conversation: int) -> dict[int, int]:
    """Return the rows of the other conversations that share turns with this one, each with the last
    shared turn."""
    own = lineage(database, conversation)
    rows = database.execute_sql(
        """WITH RECURSIVE family(conversation) AS (
            SELECT id FROM conversation WHERE id = ? UNION SELECT b.conversation
                FROM branch AS b JOIN family ON b.parent = family.conversation)
        SELECT conversation FROM family""",
        (own[0].conversation,),
    )
    others = [row for (row,) in rows if row != conversation]
    shared = {row: _common(own, lineage(database, row)) for row in others}
    return {row: turn for row, turn in shared.items() if turn}


def find_sharing(database: Database, key: str) -> dict[str, int]:
    """Return the ids of the other conversations that share turns with the one of this id, each with
    the last shared turn."""
    columns = tables.Conversation
    row = columns.select(columns.id).where(columns.key == key).scalar(database)
    others = find_sharing_rows(database, row) if row else {}
    query = columns.select(columns.key, columns.id).where(columns.id.in_(list(others)))
    rows = query.order_by(columns.id).tuples().execute(database)
    return {name: others[other] for name, other in rows}


def _common(one: Sequence[Ancestor], other: Sequence[Ancestor]) -> int:
    """Return the last turn that two transcripts share."""
    last = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine.conversation != theirs.conversation:
            break
        last = min(mine.turn, theirs.turn)
        if mine.turn != theirs.turn:
            break
    return last


def children(database: Database, conversation: int) -> dict[int, int]:
    """Return the rows of the conversations that were branched off this one, each with the last
    shared turn (0: only steering events for the shared turns)."""
    columns, steering = tables.Branch, tables.Steering
    steered = steering.select(steering.branch).where(steering.conversation == conversation)
    found = {branch: 0 for (branch,) in steered.tuples().execute(database)}
    query = columns.select(columns.conversation, columns.turn)
    return found | dict(query.where(columns.parent == conversation).tuples().execute(database))


def within(table: Any, number: Any, links: Sequence[Ancestor], last: str) -> Any:
    """Return the condition for the rows of a table that belong to a transcript: up to each link's
    `last`. The table has a column `conversation` and this `number`."""
    if len(links) == 1:
        return table.conversation == links[0].conversation
    parts = [
        (table.conversation == link.conversation) & (number <= getattr(link, last))
        for link in links
    ]
    held = frozenset[int]().union(*(link.steering for link in links)) if last == "event" else ()
    return any_of([*parts, number.in_(sorted(held))] if held else parts)


def any_of(conditions: Sequence[Any]) -> Any:
    """Join conditions by OR, in pairs of pairs, because SQLite limits the depth of nested
    brackets."""
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    return any_of(conditions[:half]) | any_of(conditions[half:])


# --- making and listing branches ----------------------------------------------------------


def insert(
    database: Database, key: ConversationKey, turn: int, title: str, scopes: Sequence[str]
) -> ConversationKey:
    """Create a branch of the conversation of this key after a turn; return the branch's key. The
    conversation's settings are copied: their scopes are its id after each of `scopes`. `title` may
    be ""; it belongs to the branch alone, since the chat's title is stored with its first
    conversation. Raises ValueError with a sentence."""
    columns = tables.Conversation
    (before,) = columns.select().where(columns.key == key.id).dicts().execute(database)
    row = before["id"]
    seq, line = _last_seq(database, row, turn), lineage(database, row)
    parent = _find_parent(database, line, turn)
    if line.index(parent) + 1 >= DEEPEST:
        raise ValueError(f"{DEEPEST} branches, each of the one before, are the most")
    branch, now = key.branch(_next_number(database, key.home)), time.time()
    made = tables.insert(
        database,
        columns,
        key=branch.id,
        audience=key.audience,
        last_seq=seq,
        last_turn=turn,
        person=before["person"],
        created_at=now,
        active_at=now,
        title=title,
        framing=before["framing"],
        last_summary=before["last_summary"] + _count_pending(database, row),
    )
    event = min(parent.event, _last_event(database, parent.conversation, turn))
    shared = {"seq": seq, "turn": turn, "event": event}
    tables.Branch.insert(conversation=made, parent=parent.conversation, at=now, **shared).execute(
        database
    )
    for scope in scopes:
        database.execute_sql(
            """INSERT INTO override (scope, key, value, at)
                SELECT ?, key, value, at FROM override WHERE scope = ?""",
            (scope + branch.id, scope + key.id),
        )
    return branch


def _find_parent(database: Database, line: Sequence[Ancestor], turn: int) -> Ancestor:
    """Return the ancestor that has this turn as its own, or that has changed the view of the turns
    that it shares. So repeated branches from one place become siblings."""
    return next(
        (
            one
            for one in reversed(line)
            if turn > one.after_turn
            or (turn == one.after_turn and _last_event(database, one.conversation, turn))
        ),
        line[0],
    )


def _last_seq(database: Database, conversation: int, turn: int) -> int:
    """Return the last seq before the turns after this one. Even after deletions, no shared event
    refers to a later seq."""
    message = tables.Message
    for link in lineage(database, conversation):
        later = (message.conversation == link.conversation) & (message.turn > turn)
        here = message.select(message.turn).where(later & (message.turn <= link.turn))
        for (first,) in here.order_by(message.turn).limit(1).tuples().execute(database):
            of_turn = (message.conversation == link.conversation) & (message.turn == first)
            seqs = message.select(fn.MIN(message.seq)).where(of_turn)
            return int(seqs.scalar(database)) - 1
    columns = tables.Conversation
    return int(columns.select(columns.last_seq).where(columns.id == conversation).scalar(database))


def _last_event(database: Database, conversation: int, turn: int) -> int:
    columns = tables.ViewEvent
    until = (columns.conversation == conversation) & (columns.turn <= turn)
    return int(columns.select(fn.COALESCE(fn.MAX(columns.id), 0)).where(until).scalar(database))


def _count_pending(database: Database, conversation: int) -> int:
    """Return the number of summaries that are still to be numbered in the shared part."""
    job = tables.Job
    pending = (job.conversation == conversation) & (job.is_done == 0)
    return int(job.select().where(pending).count(database))


def _next_number(database: Database, home: str) -> int:
    """Return an unused number. Numbers are never reused, since the rows of conversations are
    kept."""
    keys = (ConversationKey(key, "") for key, *_ in _of_chat(database, home))
    return max((key.number for key in keys), default=1) + 1


class BranchRow(Struct, frozen=True):
    """A branch of a chat, or its first conversation. `turn` is the last turn that it shares with
    the conversation of the id `parent` (0 and "": it has no parent); `newest` is its last turn.
    `title` is the given title, or the beginning of its own part. `at` is the time of its last
    message, in seconds since 1970. `answer` is the beginning of its own part's first answer."""

    key: str
    title: str
    parent: str
    turn: int
    newest: int
    at: float
    answer: str


def of_chat(database: Database, home: str) -> list[BranchRow]:
    """Return the branches of a chat in order of creation, after its first conversation."""
    found = []
    for key, row, title, newest, at in _of_chat(database, home):
        shared = _parent(database, row)
        is_listed = ConversationKey(key, "").number > 0
        if key == home or (shared and is_listed):
            parent, turn = shared or ("", 0)
            called = title or _read_beginning(database, row, turn)
            answer = _read_first_answer(database, row)
            found.append(BranchRow(key, called, parent, turn, newest, at, answer))
    return sorted(found, key=lambda one: ConversationKey(one.key, "").number)


def list_rows(database: Database, home: str) -> list[int]:
    """Return the rows of a chat's first conversation and of all its branches."""
    return [row for _, row, *_ in _of_chat(database, home)]


def _of_chat(database: Database, home: str) -> list[tuple[str, int, str, int, float]]:
    columns = tables.Conversation
    first, last = home + BRANCH, home + BRANCH[:-1] + chr(ord(BRANCH[-1]) + 1)
    query = columns.select(
        columns.key, columns.id, columns.title, columns.last_turn, columns.active_at
    ).where((columns.key == home) | ((columns.key > first) & (columns.key < last)))
    rows = query.tuples().execute(database)
    return [row for row in rows if home_of(row[0]) == home]


def is_branch(database: Database, key: str) -> bool:
    """Return whether the conversation of this id is a branch that shares turns with its parent."""
    query = (
        "SELECT 1 FROM branch JOIN conversation AS c ON c.id = branch.conversation WHERE key = ?"
    )
    return database.execute_sql(query, (key,)).fetchone() is not None


def _parent(database: Database, conversation: int) -> tuple[str, int] | None:
    query = """SELECT key, turn FROM branch JOIN conversation ON id = parent
        WHERE branch.conversation = ?"""
    found = database.execute_sql(query, (conversation,)).fetchone()
    return (found[0], found[1]) if found else None


def _read_beginning(database: Database, conversation: int, turn: int) -> str:
    """Return the beginning of a branch's first own question, or else of the last shared one."""
    message = tables.Message
    for link in reversed(lineage(database, conversation)):
        mine = (message.conversation == link.conversation) & (message.role == "user")
        asked = message.select(fn.SUBSTR(message.text, 1, BEGINNING)).where(
            mine & (message.turn <= link.turn)
        )
        order = message.seq if link.turn == END else message.seq.desc()
        for (text,) in asked.order_by(order).limit(1).tuples().execute(database):
            return str(text)
    return ""


def _read_first_answer(database: Database, conversation: int) -> str:
    message = tables.Message
    mine = (message.conversation == conversation) & (message.role == "assistant")
    texts = message.select(fn.SUBSTR(message.text, 1, BEGINNING)).where(mine & (message.text != ""))
    return str(texts.order_by(message.seq).limit(1).scalar(database) or "")


# --- deleting branches --------------------------------------------------------------------


def delete_branch(database: Database, conversation: int) -> None:
    """Delete the branch of a conversation whose messages are all deleted: it no longer shares
    turns, and is no chat's current conversation."""
    branch, current, steering = tables.Branch, tables.CurrentBranch, tables.Steering
    branch.delete().where(branch.conversation == conversation).execute(database)
    steering.delete().where(steering.branch == conversation).execute(database)
    current.delete().where(current.conversation == conversation).execute(database)


def detach_shared_rows(database: Database, key: ConversationKey, conversation: int) -> None:
    """Keep the shared rows of a conversation for its branches only. Its key, with its usage, moves
    to a new row without messages."""
    columns, usage = tables.Conversation, tables.Usage
    (kept,) = columns.select().where(columns.id == conversation).dicts().execute(database)
    stays = f"{key.home}{BRANCH}{-conversation}"
    columns.update(key=stays, title="").where(columns.id == conversation).execute(database)
    del kept["id"]
    row = tables.insert(database, columns, **{**kept, "key": key.id, "title": ""})
    usage.update(conversation=row).where(usage.conversation == conversation).execute(database)
    for table in (tables.CurrentBranch, tables.Request, tables.SideQuestion):
        table.delete().where(table.conversation == conversation).execute(database)


# --- the current conversation of a chat ---------------------------------------------------


def make_current(database: Database, key: ConversationKey) -> None:
    """Make this conversation the current one of its chat, which receives the chat's new
    messages."""
    if not key.is_branch:
        columns = tables.CurrentBranch
        columns.delete().where(columns.chat == key.home).execute(database)
        return
    database.execute_sql(
        """INSERT INTO current_branch (chat, conversation) SELECT ?, id FROM conversation
            WHERE key = ? ON CONFLICT (chat) DO UPDATE SET conversation = excluded.conversation""",
        (key.home, key.id),
    )


def list_current(database: Database) -> dict[str, str]:
    """Return the id of each chat's current branch, by the id of the chat's first conversation. The
    current conversation of all other chats is their first."""
    query = "SELECT chat, key FROM current_branch JOIN conversation ON id = conversation"
    return dict(database.execute_sql(query).fetchall())
