"""Rows of conversations; and conversations as a list shows them: what they are called, and which
hold some words."""

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
from memory.record.closeness import NOWHERE, Closeness, closeness, split_wanted
from memory.record.database import Database


class ConversationRow(Struct, frozen=True):
    """A conversation as stored: its row id, the numbers last given out, who spoke last, and the
    newest inbox row that a turn was opened for, and what its last request began with."""

    id: int
    last_seq: int
    last_turn: int
    person: str
    fingerprint: PromptFingerprint
    last_inbox: int


def find_or_create(database: Database, key: ConversationKey) -> ConversationRow:
    """Return the row of this conversation, made if it is new."""
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


def affinity_of(database: Database, row: int) -> str:
    """Return the mark that is the same for all requests of the conversation with this row, and of
    branches of it, and says nothing of whose it is: made of when it began."""
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
        (message.conversation == columns.id) & message.inbox.is_null(False)  # as the index has it
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
    """Read the fingerprint of the last request's beginning; unknown where that can't be read."""
    found: Any = next(tables.readable([kept], orjson.loads), {})
    return found if isinstance(found, dict) else {}


def keep_fingerprint(database: Database, conversation: int, fingerprint: PromptFingerprint) -> None:
    """Keep what the next request begins with."""
    kept = orjson.dumps(fingerprint).decode()
    tables.update(database, tables.Conversation, conversation, framing=kept)


def idle_since(database: Database, before: float, only: str = "") -> list[ConversationKey]:
    """Conversations in which nothing was said since, which were not brought in since, of which
    messages are kept, which no branch shares, and which no job has for a branch of its own; with
    `only`, an id, that one if it is so."""
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
    """All conversations of an audience, in a stable order."""
    columns = tables.Conversation
    query = columns.select(columns.key, columns.audience).where(columns.audience == audience)
    return [ConversationKey(*row) for row in query.order_by(columns.id).tuples().execute(database)]


BEGINNING = 200
"""Characters of the first question that stand for a title that was not given."""
Standing = Literal["", "pinned", "archived"]
"""The place of a chat in lists: among the others, before them, or apart from them."""
_MOST_WORDS = 10  # that are looked for
_MOST_READ = 1_000  # messages that hold them, of which the closest are found


class Matched(Struct, frozen=True):
    """The message of a conversation that holds most closely what was looked for."""

    turn: int
    text: str


class Listed(Struct, frozen=True):
    """A conversation in a list: its title, or "" and the beginning of its first question; `at` is
    when something was said last, in seconds since 1970; `near` is how closely its title or the
    message holds what was looked for."""

    key: str
    title: str
    beginning: str
    at: float
    standing: Standing = ""
    matched: Matched | None = None
    near: Closeness = NOWHERE


def rename(database: Database, key: str, title: str) -> None:
    """Give the conversation of this id a title, or its whole chat, where it is the first; "" takes
    it away."""
    columns = tables.Conversation
    columns.update(title=title).where(columns.key == key).execute(database)


def title(database: Database, key: str) -> str:
    """Return the title that the conversation of this id was given; "" without one."""
    columns = tables.Conversation
    query = columns.select(columns.title).where(columns.key == key).tuples()
    return next((str(given) for (given,) in query.execute(database)), "")


def place(database: Database, home: str, standing: Standing) -> None:
    """Say where lists show the chat whose first conversation has this id."""
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


def list_conversations(database: Database, prefix: str, words: str = "") -> list[Listed]:
    """Conversations whose key begins so and in which something was said, the newest first; with
    `words`, those that have all of them in their title, or in one message, as they stand, in any
    case."""
    columns, message = tables.Conversation, tables.Message
    mine = message.select(message.id).where(message.conversation == columns.id)
    first = message.select(fn.SUBSTR(message.text, 1, BEGINNING)).where(
        (message.conversation == columns.id) & (message.role == "user")
    )
    wanted = split_wanted(words)[:_MOST_WORDS]
    said = mine.where(message.role.in_(("user", "assistant")))
    for word in wanted:
        said = said.where(message.text.contains(word))
    matched = fn.COALESCE(said.order_by(message.seq.desc()).limit(1), 0) if wanted else 0
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
        query = query.where(is_called | fn.EXISTS(said))
    found = list(query.order_by(columns.active_at.desc()).tuples().execute(database))
    given = _titles_of_chats(database, [key for key, *_ in found])
    closest = _find_closest(database, found, wanted)
    listed = []
    for key, title, beginning, at, standing, _row in found:
        called = given.get(home_of(key), title)
        in_text, hit = closest.get(key, (NOWHERE, None))
        near = max(in_text, closeness(called.casefold(), [word.casefold() for word in wanted]))
        place = _to_standing(standing)
        listed.append(Listed(key, called, str(beginning), at, place, hit, near))
    return listed


def _titles_of_chats(database: Database, keys: Sequence[str]) -> dict[str, str]:
    """Return the titles of the chats that these are branches of, by the ids of these chats."""
    columns, homes = tables.Conversation, {home_of(key) for key in keys} - {*keys}
    query = columns.select(columns.key, columns.title).where(columns.key.in_(sorted(homes)))
    found = query.tuples().execute(database) if homes else ()
    return {key: title for key, title in found if title}


def _find_closest(
    database: Database, found: Sequence[tuple[Any, ...]], wanted: Sequence[str]
) -> dict[str, tuple[Closeness, Matched]]:
    """Return the message of each of these conversations that holds the words most closely, the
    newest of equals, by the conversation's key. Of very many that hold them the newest are
    measured; a conversation with none of those is behind the others."""
    message, columns = tables.Message, tables.Conversation
    newest = {row: key for key, *_, row in found if row}
    if not newest:
        return {}
    said = message.role.in_(("user", "assistant")) & columns.key.in_(sorted(newest.values()))
    for word in wanted:
        said &= message.text.contains(word)
    fields = (columns.key, message.turn, message.text)
    joined = message.select(*fields).join(columns, on=columns.id == message.conversation)
    queries = (
        joined.where(said).order_by(message.id.desc()).limit(_MOST_READ),
        joined.where(message.id.in_(sorted(newest))).order_by(message.id.desc()),
    )
    best: dict[str, tuple[Closeness, Matched]] = {}
    folded = [word.casefold() for word in wanted]
    unmeasured = Closeness(len(folded))  # it holds all words, and no more is known
    for query in queries:
        for number, (key, turn, text) in enumerate(query.tuples().execute(database)):
            is_read = number < _MOST_READ
            near = closeness(str(text).casefold(), folded) if is_read else unmeasured
            if key not in best or near > best[key][0]:
                best[key] = near, Matched(turn, str(text))
    return best
