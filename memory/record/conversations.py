"""Rows of conversations, and conversations as a list shows them, with title and search."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Any, Literal

import orjson
from msgspec import Struct
from peewee import fn

from memory.context.meter import PromptFingerprint
from memory.keys import BRANCH, ConversationKey, home_of
from memory.record import tables
from memory.record.closeness import NOWHERE, MatchScore, closeness, split_wanted
from memory.record.database import Database


class ConversationRow(Struct, frozen=True):
    """A conversation as stored: its row id, the last used numbers, the last speaker, the newest
    inbox row that a turn was opened for, and the fingerprint of its last request's prefix."""

    id: int
    last_seq: int
    last_turn: int
    person: str
    fingerprint: PromptFingerprint
    last_inbox: int


def find_or_create(database: Database, key: ConversationKey) -> ConversationRow:
    """Return the row of this conversation; create it if it is new."""
    if not (found := _find(database, key)):
        now = time.time()
        tables.insert_new(
            database,
            tables.Conversation,
            key=key.id,
            audience=key.audience,
            last_seq=0,
            last_turn=0,
            person="",
            created_at=now,
            active_at=now,
            title="",
            framing="{}",
        )
        found = _find(database, key)
    ((row, last_seq, last_turn, person, framing, last_inbox),) = found
    return ConversationRow(row, last_seq, last_turn, person, _fingerprint(framing), last_inbox)


def find_name(database: Database, row: int) -> str:
    """Return the id of the conversation with this row; "" if there is none."""
    columns = tables.Conversation
    return str(columns.select(columns.key).where(columns.id == row).scalar(database) or "")


def affinity_of(database: Database, row: int) -> str:
    """Return the mark that all requests of the conversation with this row, and of its branches,
    share. It is derived from the creation time, so it does not reveal whose conversation it is."""
    began = [str(at) for (at,) in _begin_of.tuples(database, row)]
    return hashlib.sha256("\0".join(["conversation", *began]).encode()).hexdigest()[:32]


@tables.Prepared
def _begin_of(row: int) -> Any:
    columns = tables.Conversation
    return columns.select(columns.created_at).where(columns.id == row)


def _find(database: Database, key: ConversationKey) -> list[Any]:
    return _by_key.tuples(database, key.id)


@tables.Prepared
def _by_key(key: str) -> Any:
    columns, message = tables.Conversation, tables.Message
    newest = message.select(fn.MAX(message.inbox)).where(
        (message.conversation == columns.id) & message.inbox.is_null(False)
    )
    return columns.select(
        columns.id,
        columns.last_seq,
        columns.last_turn,
        columns.person,
        columns.framing,
        fn.COALESCE(newest, 0),
    ).where(columns.key == key)


def _fingerprint(kept: str) -> PromptFingerprint:
    """Parse the fingerprint of the last request's prefix; empty if it can't be parsed."""
    found: Any = next(tables.readable([kept], orjson.loads), {})
    return found if isinstance(found, dict) else {}


def keep_fingerprint(database: Database, conversation: int, fingerprint: PromptFingerprint) -> None:
    """Store the fingerprint of the next request's prefix."""
    kept = orjson.dumps(fingerprint).decode()
    tables.update(database, tables.Conversation, conversation, framing=kept)


def idle_since(database: Database, before: float, only: str = "") -> list[ConversationKey]:
    """Return the conversations that were neither active nor created since, that have messages or
    are branches, that no branch shares, and that are no job's branch; with `only`, an id, at most
    that one."""
    columns, message, branch = tables.Conversation, tables.Message, tables.Branch
    job = tables.ScheduledJob
    has_messages = fn.EXISTS(message.select().where(message.conversation == columns.id))
    is_branch = fn.EXISTS(branch.select().where(branch.conversation == columns.id))
    is_shared = fn.EXISTS(branch.select().where(branch.parent == columns.id))
    its_branch = job.home.concat(BRANCH).concat(job.branch.cast("TEXT"))
    has_job = fn.EXISTS(job.select().where((job.state != "done") & (its_branch == columns.key)))
    query = columns.select(columns.key, columns.audience).where(
        (columns.active_at < before)
        & (columns.created_at < before)
        & (has_messages | is_branch)
        & ~is_shared
        & ~has_job
    )
    if only:
        query = query.where(columns.key == only)
    return [ConversationKey(*row) for row in query.tuples().execute(database)]


def of_audience(database: Database, audience: str) -> list[ConversationKey]:
    """Return all conversations of an audience, in a stable order."""
    columns = tables.Conversation
    query = columns.select(columns.key, columns.audience).where(columns.audience == audience)
    return [ConversationKey(*row) for row in query.order_by(columns.id).tuples().execute(database)]


BEGINNING = 200
"""The number of characters of the first question that are shown if there is no title."""
Standing = Literal["", "pinned", "archived"]
"""The place of a chat in lists: among the others, before them, or in the archive."""
_MOST_WORDS = 10  # the maximum of search words
_MOST_READ = 1_000  # the maximum of matching messages that are ranked by closeness


class MatchedMessage(Struct, frozen=True):
    """The message of a conversation that matches the search most closely."""

    turn: int
    text: str


class ListedConversation(Struct, frozen=True):
    """A conversation in a list: its title ("" without one), and the beginning of its first
    question. `at` is the time of the last message, in seconds since 1970; `near` is how closely its
    title or the message matches the search."""

    key: str
    title: str
    beginning: str
    at: float
    standing: Standing = ""
    matched: MatchedMessage | None = None
    near: MatchScore = NOWHERE


def rename(database: Database, key: str, title: str) -> None:
    """Set the title of the conversation of this id, or of its whole chat if it is the first; ""
    removes it."""
    columns = tables.Conversation
    columns.update(title=title).where(columns.key == key).execute(database)


def title(database: Database, key: str) -> str:
    """Return the title that was given to the conversation of this id; "" without one."""
    columns = tables.Conversation
    query = columns.select(columns.title).where(columns.key == key).tuples()
    return next((str(given) for (given,) in query.execute(database)), "")


def place(database: Database, home: str, standing: Standing) -> None:
    """Set the place in lists of the chat whose first conversation has this id."""
    columns = tables.Conversation
    columns.update(standing=standing).where(columns.key == home).execute(database)


def standing(database: Database, home: str) -> Standing:
    """Return the place of a chat in lists."""
    columns = tables.Conversation
    query = columns.select(columns.standing).where(columns.key == home).tuples()
    return next((_to_standing(kept) for (kept,) in query.execute(database)), "")


def _to_standing(kept: Any) -> Standing:
    known: dict[Any, Standing] = {"pinned": "pinned", "archived": "archived"}
    return known.get(kept, "")


def list_conversations(
    database: Database, prefix: str, words: str = ""
) -> list[ListedConversation]:
    """List the conversations with messages whose key begins with `prefix`, newest first. With
    `words`, only those that have all of them in their title or in one message, literally, in any
    case."""
    columns, message = tables.Conversation, tables.Message
    mine = message.select(message.id).where(message.conversation == columns.id)
    first = message.select(fn.SUBSTR(message.text, 1, BEGINNING)).where(
        (message.conversation == columns.id) & (message.role == "user")
    )
    wanted = split_wanted(words)[:_MOST_WORDS]
    messages = mine.where(message.role.in_(("user", "assistant")))
    for word in wanted:
        messages = messages.where(message.text.contains(word))
    matched = fn.COALESCE(messages.order_by(message.seq.desc()).limit(1), 0) if wanted else 0
    query = columns.select(
        columns.key,
        columns.title,
        fn.COALESCE(first.order_by(message.seq).limit(1), ""),
        columns.active_at,
        columns.standing,
        matched,
    ).where(columns.key.startswith(prefix) & fn.EXISTS(mine))
    if wanted:
        is_called = reduce(and_, [columns.title.contains(word) for word in wanted])
        query = query.where(is_called | fn.EXISTS(messages))
    found = list(query.order_by(columns.active_at.desc()).tuples().execute(database))
    given = _titles_of_chats(database, [key for key, *_ in found])
    closest = _find_closest(database, found, wanted)
    listed = []
    for key, title, beginning, at, standing, _row in found:
        called = given.get(home_of(key), title)
        in_text, hit = closest.get(key, (NOWHERE, None))
        near = max(in_text, closeness(called.casefold(), [word.casefold() for word in wanted]))
        place = _to_standing(standing)
        listed.append(ListedConversation(key, called, str(beginning), at, place, hit, near))
    return listed


def _titles_of_chats(database: Database, keys: Sequence[str]) -> dict[str, str]:
    """Return the titles of the chats that these branches belong to, by the ids of these chats."""
    columns, homes = tables.Conversation, {home_of(key) for key in keys} - {*keys}
    query = columns.select(columns.key, columns.title).where(columns.key.in_(sorted(homes)))
    found = query.tuples().execute(database) if homes else ()
    return {key: title for key, title in found if title}


def _find_closest(
    database: Database, found: Sequence[tuple[Any, ...]], wanted: Sequence[str]
) -> dict[str, tuple[MatchScore, MatchedMessage]]:
    """Return the message of each of these conversations that matches the words most closely, the
    newest of equals, by the conversation's key. If very many messages match, only the newest are
    measured; a conversation with none of those comes after the others."""
    message, columns = tables.Message, tables.Conversation
    newest = {row: key for key, *_, row in found if row}
    if not newest:
        return {}
    condition = message.role.in_(("user", "assistant")) & columns.key.in_(sorted(newest.values()))
    for word in wanted:
        condition &= message.text.contains(word)
    fields = (columns.key, message.turn, message.text)
    joined = message.select(*fields).join(columns, on=columns.id == message.conversation)
    queries = (
        joined.where(condition).order_by(message.id.desc()).limit(_MOST_READ),
        joined.where(message.id.in_(sorted(newest))).order_by(message.id.desc()),
    )
    best: dict[str, tuple[MatchScore, MatchedMessage]] = {}
    folded = [word.casefold() for word in wanted]
    unmeasured = MatchScore(len(folded))  # it has all words; the rest is unknown
    for query in queries:
        for number, (key, turn, text) in enumerate(query.tuples().execute(database)):
            is_read = number < _MOST_READ
            near = closeness(str(text).casefold(), folded) if is_read else unmeasured
            if key not in best or near > best[key][0]:
                best[key] = near, MatchedMessage(turn, str(text))
    return best
