"""Rows of sent requests: the places of their messages in the transcript, and the parts that can't
be rebuilt.

Parts that are the same in consecutive requests (the system prompt, the tools, the parameters) are
one row for all requests that have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple, replace

from memory.record import tables
from memory.record.database import Database
from memory.record.forget import sweep_prefixes
from memory.services import Outcome


class RequestPrefix(Struct, frozen=True):
    """The part of a request around the messages: the system prompt as text, the tools and the
    parameters as JSON. The messages and the tools are null in the parameters, which keeps their
    positions. `digest` covers all of it, and `parts` has one digest for each part by name, as JSON;
    deleted parts are "". `is_masked`: a secret in it was masked before it was stored."""

    digest: str
    system: str = ""
    tools: str = ""
    parameters: str = ""
    is_masked: bool = False
    parts: str = "{}"


class SentRequest(Struct, frozen=True):
    """A request that one of a conversation's own turns sent to a model.

    Its messages are those that `strategy` shows of the entries up to `seq`, after the view events
    up to `event`, the first one of turn `first`, `messages` of them on the wire; `merges_system`
    and `pictures` (`plugins.request_log.reading`) say how they were sent. `digest` is the SHA-256
    of the `size` bytes that were sent. `tokens` is the meter's figure, `ratio` the model's ratio
    then; `prompt`, `cached` and `completion` are what the provider reported (or the meter, where
    not `is_reported`), `cost` is in US dollars (None: unknown). `at` is in seconds since 1970,
    `seconds` the time until the answer was there. `number` counts the requests of a conversation.
    """

    turn: int
    at: float
    prefix: RequestPrefix
    strategy: str
    event: int
    seq: int
    first: int
    messages: int
    merges_system: bool
    pictures: str
    size: int
    digest: str
    tokens: int
    ratio: float
    model: str
    outcome: Outcome = ""
    seconds: float = 0.0
    prompt: int = 0
    cached: int = 0
    completion: int = 0
    is_reported: bool = False
    cost: float | None = None
    number: int = 0

    @property
    def name(self) -> str:
        return f"r{self.number}"

    @property
    def total(self) -> int:
        """Its tokens, by the provider if that has counted all of it, otherwise by the meter."""
        return self.prompt if self.is_reported and 2 * self.prompt > self.tokens else self.tokens


_COLUMNS = SentRequest.__struct_fields__
_INSERT = (
    f"INSERT INTO request (conversation, {', '.join(_COLUMNS)}) "
    f"VALUES (?, {', '.join('?' * (len(_COLUMNS) - 1))}, "
    "(SELECT COALESCE(MAX(number), 0) + 1 FROM request WHERE conversation = ?)) RETURNING number"
)


def insert(database: Database, conversation: int, sent: SentRequest, keep: int) -> None:
    """Store a request. At intervals, the requests before the newest `keep` of its conversation are
    deleted."""
    prefix = sent.prefix
    database.execute_sql(
        """INSERT INTO request_prefix (digest, system, tools, parameters, is_masked, parts)
            VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (digest) DO UPDATE SET
                system = excluded.system, tools = excluded.tools, parameters = excluded.parameters
                WHERE request_prefix.parameters = ''""",
        (*astuple(prefix),),
    )
    values = [getattr(sent, name) for name in _COLUMNS[:-1]]
    values[_COLUMNS.index("prefix")] = prefix.digest
    row = database.execute_sql(_INSERT, (conversation, *values, conversation)).fetchone()
    if row[0] % _AT_ONCE == 0:
        _trim(database, conversation, row[0] - keep, prefix.digest)


_AT_ONCE = 4  # the number of requests that are deleted together


def _trim(database: Database, conversation: int, last: int, used: str) -> None:
    deleted = database.execute_sql(
        "DELETE FROM request WHERE conversation = ? AND number <= ? RETURNING prefix",
        (conversation, last),
    ).fetchall()
    for digest in {digest for (digest,) in deleted} - {used}:
        database.execute_sql(
            """DELETE FROM request_prefix WHERE digest = ?
                AND NOT EXISTS (SELECT 1 FROM request WHERE prefix = request_prefix.digest)""",
            (digest,),
        )


def numbers(database: Database, conversation: int, most: int) -> list[int]:
    """Return the numbers of the newest `most` stored requests, oldest first."""
    columns = tables.Request
    query = columns.select(columns.number).where(columns.conversation == conversation)
    query = query.order_by(columns.number.desc()).limit(most)
    return [number for (number,) in query.tuples().execute(database)][::-1]


def requests(
    database: Database, conversation: int, numbers: Sequence[int]
) -> Iterator[SentRequest]:
    """Yield the stored, readable requests among these numbers, in order."""
    if not numbers:
        return
    columns = tables.Request
    query = columns.select(*(getattr(columns, name) for name in _COLUMNS)).where(
        (columns.conversation == conversation) & columns.number.between(numbers[0], numbers[-1])
    )
    wanted, prefixes = frozenset(numbers), dict[str, RequestPrefix]()
    found = query.order_by(columns.number).dicts().execute(database)
    for sent in tables.readable(found, lambda row: _request(database, row, prefixes)):
        if sent.number in wanted:
            yield sent


def _request(
    database: Database, row: dict[str, Any], prefixes: dict[str, RequestPrefix]
) -> SentRequest:
    """Build a request from its row; `prefixes` caches prefixes, since requests mostly share one."""
    digest = row["prefix"]
    if digest not in prefixes:
        prefixes[digest] = _prefix(database, digest)
    return SentRequest(**{**row, "prefix": prefixes[digest]})


def _prefix(database: Database, digest: str) -> RequestPrefix:
    columns = tables.RequestPrefix
    kept = RequestPrefix.__struct_fields__
    query = columns.select(*(getattr(columns, name) for name in kept)).where(
        columns.digest == digest
    )
    found = next(iter(query.tuples().execute(database)), None)
    prefix = RequestPrefix(*found) if found else RequestPrefix(digest)
    return replace(prefix, is_masked=bool(prefix.is_masked))


def delete(database: Database, conversation: int) -> None:
    """Delete all requests of a conversation."""
    columns = tables.Request
    columns.delete().where(columns.conversation == conversation).execute(database)
    sweep_prefixes(database)
