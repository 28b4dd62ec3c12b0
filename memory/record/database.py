"""The interface of a database for the record, whichever system keeps it.

Work is handed a `Database`: peewee's queries are executed on it, and plain SQL that all systems
speak. What each of them does in its own way has a name here and stands in `memory/record/engines/`,
in one module for each; nothing else knows which one runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import peewee


class StoreError(Exception):
    """The database can't do what it must. The text is a plain sentence with what to do."""


class Database(peewee.Database, ABC):
    """A connection, in the thread that uses it."""

    numbers: ClassVar[str]
    """SQL to stand after IN, for any number of numbers in one parameter: a list as JSON text."""
    names: ClassVar[str]
    """SQL for the different values of the column `speaker` in a group, with commas between."""

    shared_lock: ClassVar[str]
    """SQL to stand after the SELECT of a row that nobody may change until the transaction ends."""

    if TYPE_CHECKING:  # peewee does not say its types

        def execute_sql(self, sql: str, params: Any = None) -> Any: ...
        def connection(self) -> Any: ...

    @abstractmethod
    def insert_row(self, statement: str, values: Sequence[Any]) -> int:
        """Carry out an INSERT into a table whose key is its `id`; returns that of the new row, 0
        where the statement has added none."""

    def read_columns(
        self, query: str, names: Sequence[str], values: Sequence[Any]
    ) -> list[list[Any]]:
        """Read the rows that a query finds, as one list for each of these columns."""
        rows = self.execute_sql(f"SELECT {', '.join(names)} FROM ({query}) AS q", values).fetchall()
        return [*map(list, zip(*rows, strict=True))] or [[] for _ in names]

    # --- in a lane ---------------------------------------------------------------------------

    @abstractmethod
    def commit_together(self, work: Callable[[], None], *, is_synced: bool) -> None:
        """Carry out `work` as one transaction, on disk when this returns; without `is_synced`, a
        power cut may take it back. It may be carried out more than once, when what it did before
        was taken back. Raises DatabaseError where nothing of it is kept."""

    @abstractmethod
    def read(self, work: Callable[[], None]) -> None:
        """Carry out `work`, which only reads, outside of any transaction."""

    def must_repeat(self, error: BaseException) -> bool:
        """Return whether what failed with this error has to be carried out anew with all that was
        committed together with it, which `commit_together` does when it sees this error."""
        return False

    def tolerates(self, error: BaseException) -> bool:
        """Return whether this was about damaged text, which from now on is shown as far as it goes,
        so that trying again helps."""
        return False

    @abstractmethod
    def scrub(self) -> None:
        """Leave no trace of what was deleted. Raises StoreError where that can't be done."""

    # --- the schema --------------------------------------------------------------------------

    @abstractmethod
    def schema_version(self) -> int:
        """Return how many of the migrations it has seen; 0 for an empty database."""

    @abstractmethod
    def create(self) -> None:
        """Make all tables, as the newest version has them, in one transaction."""

    @abstractmethod
    def upgrade(self, step: Callable[[Database], None], version: int) -> None:
        """Carry out a migration, and keep the version that it leads to, in one transaction."""

    # --- copied from one system to another (`memory/record/transfer.py`) ---------------------

    @abstractmethod
    def insert_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Carry out an INSERT for each of these rows."""

    @abstractmethod
    def counter(self, table: str) -> int:
        """Return the highest id that was ever given out in a table."""

    @abstractmethod
    def set_counter(self, table: str, value: int) -> None:
        """Let the next id in a table be a higher one."""

    @abstractmethod
    def is_being_filled(self) -> bool:
        """Return whether a copy of a record into this database was begun and has not been
        finished."""

    @abstractmethod
    def mark_filling(self, is_begun: bool) -> None:
        """Keep that such a copy is begun, or that it is finished."""

    # --- the words of the search index -------------------------------------------------------

    @abstractmethod
    def add_words(self, place: int, words: Sequence[str]) -> None:
        """Index the words of a message, which stands at this place."""

    @abstractmethod
    def remove_words(self, place: int, words: Sequence[str]) -> None:
        """Take a message out of the index again, by the very words that it was indexed with."""

    @abstractmethod
    def find_places(
        self, terms: Sequence[tuple[str, bool]], first: int, last: int, most: int
    ) -> list[list[int]]:
        """For each term, a word or (if true) a beginning of words: the newest places from `first`
        to `last` where it stands."""


Claim = Literal["", "alone", "shared"]
"""The guarantee that no other bot works on the database while a connection is there, or only such
as share it; "" for what a bot does not mind."""


class DatabaseEngine(Protocol):
    """A database system, and where in it the record is kept."""

    def prepare(self, is_transfer: bool = False) -> None:
        """Make the database and its tables, or bring them up to date. Raises StoreError; also for
        one into which a record was copied only in part, unless that goes on (`is_transfer`)."""

    def connect(self, claim: Claim = "") -> Database:
        """Return a new connection, for one thread. Where it can't have what it claims, its use
        raises StoreError."""

    def connect_to_loop(self) -> Database | None:
        """A connection for small writes in an event loop, which waits for nobody, and for the disk
        only where it is the first after the log was written back, which is seldom.
        None where the system is another process, for whose answer a loop would have to wait."""

    def visit(self, is_frozen: bool = False, claim: Claim = "") -> AbstractContextManager[Database]:
        """Return a connection for a while; `is_frozen`: all that is read is as it was at the first
        look. Raises StoreError where the system fails meanwhile, or others work on it against the
        claim."""

    def is_unborn(self) -> bool:
        """Return whether nothing was ever said there. Raises StoreError."""

    def explain(self, error: BaseException) -> BaseException:
        """Return a StoreError where the system itself failed; else the error as it is."""

    def list_losses(self) -> list[str]:
        """List the losses that the database may have had when the process ended last, as sentences;
        for the one process that uses it, before it is opened."""

    def find_damage(self, patience: float) -> str:
        """Find damage inside of the database, as a sentence; "" where there is none, or where the
        check takes longer than so many seconds. Other connections are not blocked meanwhile."""

    def save_to(self, path: Path) -> None:
        """Copy the record, as it is now, into a new SQLite file, also while a bot writes to it.
        Raises StoreError."""

    def examine(self) -> str:
        """All that is wrong with the database, as a sentence; "" for nothing, or where there is
        none yet. Raises StoreError where nobody can tell."""
