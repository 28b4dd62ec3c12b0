"""Rows of requests that were sent: where the messages of each one stand in the transcript, and what
can't be made again of it.

What is the same in one request after the other (the system prompt, the tools, the parameters) is
one row for all that have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple, replace

from memory.record import tables
from memory.record.database import Database
from memory.record.forget import sweep_prefixes
from memory.request_log import Outcome


class RequestPrefix(Struct, frozen=True):
    """The part of a request around the messages: the system prompt as text, the tools and the
    parameters as JSON. In the parameters the messages and the tools are null, so that they have
    their places. `digest` is of all that, and `parts` has one for each part by its name, as JSON;
    what was deleted since is "". `is_masked`: a secret in it was hidden before it was kept."""

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
        """Its tokens, by the provider where that has counted all of it, else by the meter."""
        return self.prompt if self.is_reported and 2 * self.prompt > self.tokens else self.tokens


_COLUMNS = SentRequest.__struct_fields__
_INSERT = (
    f"INSERT INTO request (conversation, {', '.join(_COLUMNS)}) "
    f"VALUES (?, {', '.join('?' * (len(_COLUMNS) - 1))}, "
    "(SELECT COALESCE(MAX(number), 0) + 1 FROM request WHERE conversation = ?)) RETURNING number"
)


def insert(database: Database, conversation: int, sent: SentRequest, keep: int) -> None:
    """Store a request. Now and then, those before the newest `keep` of its conversation are
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


_AT_ONCE = 4  # requests are deleted


def _trim(database: Database, conversation: int, last: int, used: str) -> None:
    gone = database.execute_sql(
        "DELETE FROM request WHERE conversation = ? AND number <= ? RETURNING prefix",
        (conversation, last),
    ).fetchall()
    for digest in {digest for (digest,) in gone} - {used}:
        database.execute_sql(
            """DELETE FROM request_prefix WHERE digest = ?
                AND NOT EXISTS (SELECT 1 FROM request WHERE prefix = request_prefix.digest)""",
            (digest,),
        )


def numbers(database: Database, conversation: int, most: int) -> list[int]:
    """Return the numbers of the newest `most` requests that are kept, oldest first."""
    columns = tables.Request
    query = columns.select(columns.number).where(columns.conversation == conversation)
    query = query.order_by(columns.number.desc()).limit(most)
    return [number for (number,) in query.tuples().execute(database)][::-1]


def requests(
    database: Database, conversation: int, numbers: Sequence[int]
) -> Iterator[SentRequest]:
    """Yield the requests of these numbers, in order, as far as they are kept and can be read."""
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
    """`prefixes` are those that were read already: one mostly stands around all requests."""
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
