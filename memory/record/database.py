"""The interface of a database for the record, for any database system.

Callers get a `Database`, which executes peewee's queries and SQL that all systems understand. Each
operation that differs between systems is a method here. `memory/record/engines/` has one module per
system that implements them; no other code knows which system runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import peewee


class StoreError(Exception):
    """An operation of the database failed. The text is a plain sentence that says what to do."""


class Database(peewee.Database, ABC):
    """A connection, used by one thread."""

    numbers: ClassVar[str]
    """SQL to follow IN, for any number of numbers in one parameter: a list as JSON text."""
    names: ClassVar[str]
    """SQL for the distinct values of the column `speaker` in a group, separated by commas."""

    shared_lock: ClassVar[str]
    """SQL to follow the SELECT of a row that must not change until the transaction ends."""

    if TYPE_CHECKING:  # peewee has no type annotations

        def execute_sql(self, sql: str, params: Any = None) -> Any: ...
        def connection(self) -> Any: ...

    @abstractmethod
    def insert_row(self, statement: str, values: Sequence[Any]) -> int:
        """Execute an INSERT into a table whose key is `id`; return the new row's id, or 0 if none
        was added."""

    def read_columns(
        self, query: str, names: Sequence[str], values: Sequence[Any]
    ) -> list[list[Any]]:
        """Return the rows that a query finds, as one list for each of these columns."""
        rows = self.execute_sql(f"SELECT {', '.join(names)} FROM ({query}) AS q", values).fetchall()
        return [*map(list, zip(*rows, strict=True))] or [[] for _ in names]

    # --- in a lane ---------------------------------------------------------------------------

    @abstractmethod
    def commit_together(self, work: Callable[[], None], *, is_synced: bool) -> None:
        """Execute `work` as one transaction, on disk when this returns; without `is_synced`, a
        power cut may undo it. `work` may run more than once, after its effects were rolled back.
        Raises DatabaseError if nothing was committed."""

    @abstractmethod
    def read(self, work: Callable[[], None]) -> None:
        """Execute `work`, which only reads, outside of any transaction."""

    def must_repeat(self, error: BaseException) -> bool:
        """Return whether work that failed with this error must be repeated, together with all other
        work of the same commit. `commit_together` repeats it on this error."""
        return False

    def tolerates(self, error: BaseException) -> bool:
        """Return whether the error was caused by damaged text. From then on such text is read as
        far as possible, so that a retry succeeds."""
        return False

    @abstractmethod
    def scrub(self) -> None:
        """Remove all traces of deleted data. Raises StoreError if that is impossible."""

    # --- the schema --------------------------------------------------------------------------

    @abstractmethod
    def schema_version(self) -> int:
        """Return the number of migrations that were applied; 0 for an empty database."""

    @abstractmethod
    def create(self) -> None:
        """Create all tables of the newest version, in one transaction."""

    @abstractmethod
    def upgrade(self, migration: Migration, version: int) -> None:
        """Apply a migration and store the resulting version, in one transaction."""

    # --- copying from one system to another (`memory/record/transfer.py`) --------------------

    @abstractmethod
    def insert_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Execute an INSERT for each of these rows."""

    @abstractmethod
    def counter(self, table: str) -> int:
        """Return the highest id that was ever used in a table."""

    @abstractmethod
    def set_counter(self, table: str, value: int) -> None:
        """Make the next id in a table higher than `value`."""

    @abstractmethod
    def is_being_filled(self) -> bool:
        """Return whether a copy of a record into this database was begun but not finished."""

    @abstractmethod
    def mark_filling(self, is_begun: bool) -> None:
        """Store that such a copy is begun, or finished."""

    # --- the words of the search index -------------------------------------------------------

    @abstractmethod
    def add_words(self, place: int, words: Sequence[str]) -> None:
        """Index the words of a message at this place."""

    @abstractmethod
    def remove_words(self, place: int, words: Sequence[str]) -> None:
        """Remove a message from the index, by exactly the words that it was indexed with."""

    @abstractmethod
    def find_places(
        self, terms: Sequence[tuple[str, bool]], first: int, last: int, most: int
    ) -> list[list[int]]:
        """Find, for each term, the newest places from `first` to `last` that contain it. A term is
        a word or, if its flag is true, the beginning of words."""


Claim = Literal["", "alone", "shared"]
"""The guarantee, while a connection is open, that no other bot uses the database ("alone"), or only
bots that share it ("shared"); "" for no guarantee."""


Step = str | Callable[[Database], None]
"""A part of a migration: one SQL statement, or a function that carries out several."""


class Migration:
    """A named change of the tables."""

    def __init__(self, name: str, *steps: Step) -> None:
        self.name = name
        self._steps = steps

    def __call__(self, database: Database) -> None:
        for step in self._steps:
            if isinstance(step, str):
                database.execute_sql(step)
            else:
                step(database)


class DatabaseEngine(Protocol):
    """A database system, and the location of the record in it."""

    def prepare(self, is_transfer: bool = False) -> None:
        """Create the database and its tables, or upgrade them. Raises StoreError, also for a
        database that holds an unfinished copy of a record, unless the copy is to be resumed
        (`is_transfer`)."""

    def connect(self, claim: Claim = "") -> Database:
        """Return a new connection, for one thread. If its claim can't be granted, using it raises
        StoreError."""

    def connect_to_loop(self) -> Database | None:
        """Return a connection for small writes in an event loop. It never waits for other
        connections; it waits for the disk only in the rare first write after a checkpoint of the
        log. None if the system is another process, because the loop would have to wait for its
        response."""

    def visit(self, is_frozen: bool = False, claim: Claim = "") -> AbstractContextManager[Database]:
        """Open a connection for a while. With `is_frozen`, all reads see the state of the first
        read. Raises StoreError if the system fails meanwhile, or others use it against the
        claim."""

    def is_pristine(self) -> bool:
        """Return whether the record has never held a message. Raises StoreError."""

    def explain(self, error: BaseException) -> BaseException:
        """Return a StoreError if the system itself failed; else the error unchanged."""

    def list_losses(self) -> list[str]:
        """List the possible losses of the database at the last end of the process, as sentences.
        Called by the one process that uses it, before it is opened."""

    def find_damage(self, patience: float) -> str:
        """Find damage in the database, as a sentence; "" if there is none, or if the check takes
        longer than `patience` seconds. Other connections are not blocked meanwhile."""

    def save_to(self, path: Path) -> None:
        """Copy the current record into a new SQLite file, also while a bot writes to it. Raises
        StoreError."""

    def examine(self) -> str:
        """Return all faults of the database, as a sentence; "" for none, or if it does not exist
        yet. Raises StoreError if they can't be determined."""
