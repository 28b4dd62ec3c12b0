"""Calls to models and their costs, and the interface of the ledger that stores them."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from memory.record.database import Database


class Spent(Struct, frozen=True):
    """A call to a model. Tokens as reported by the provider, or as counted by the meter
    (`is_reported` False). Of the prompt, `cached` were read from a cache, and `written` to a cache
    that has a price for writing; of the completion, `reasoning` are hidden reasoning tokens. `cost`
    is in US dollars, None if the price is unknown."""

    purpose: str
    model: str
    prompt: int
    cached: int
    completion: int
    cost: float | None
    is_reported: bool = True
    written: int = 0
    reasoning: int = 0


class Bill(Struct, frozen=True):
    """A sum of calls. `unknown` counts those with an unknown price; `cost` leaves them out."""

    calls: int = 0
    prompt: int = 0
    cached: int = 0
    completion: int = 0
    cost: float = 0.0
    unknown: int = 0
    written: int = 0
    reasoning: int = 0

    def __add__(self, other: Bill) -> Bill:
        return Bill(
            self.calls + other.calls,
            self.prompt + other.prompt,
            self.cached + other.cached,
            self.completion + other.completion,
            self.cost + other.cost,
            self.unknown + other.unknown,
            self.written + other.written,
            self.reasoning + other.reasoning,
        )

    def plus(self, spent: Spent) -> Bill:
        return Bill(
            self.calls + 1,
            self.prompt + spent.prompt,
            self.cached + spent.cached,
            self.completion + spent.completion,
            self.cost + (spent.cost or 0.0),
            self.unknown + (spent.cost is None),
            self.written + spent.written,
            self.reasoning + spent.reasoning,
        )


class ChatBills:
    """The bills of chats, each with all its branches, so that the cost of a chat does not decrease
    after a retry."""

    def __init__(self) -> None:
        self._by_home: dict[str, Bill] = {}

    def of(self, home: str) -> Bill:
        """Return the bill of the chat with this id."""
        return self._by_home.get(home, Bill())

    def load(self, home: str, bill: Bill) -> None:
        """Set the bill of a chat from the stored calls."""
        self._by_home[home] = bill

    def add(self, home: str, spent: Spent) -> None:
        """Add a call to the bill."""
        self._by_home[home] = self._by_home.get(home, Bill()).plus(spent)


class Ledger:
    """The functions of a ledger, called in the transaction of the paid work. This one stores
    nothing; a feature provides one that does (hook `parley_ledger`)."""

    def insert(
        self,
        database: Database,
        conversation: int | None,
        turn: int | None,
        spent: Spent,
        person: str = "",
    ) -> None:
        """Store one call, booked to `person`, or if none is named, to the person who spoke last in
        the conversation."""

    def bill(self, database: Database, conversation: int, *, purpose: str = "") -> Bill:
        """Add up the calls of a conversation for a purpose ("": any)."""
        return Bill()

    def bills_by_turn(
        self, database: Database, conversation: int, turns: Collection[int]
    ) -> dict[int, dict[str, Bill]]:
        """Return the cost of each of these turns so far, by model; also of turns that are shared
        with another conversation."""
        return {}

    def prompts_by_turn(self, database: Database, conversation: int) -> dict[int, int]:
        """Return the tokens of the largest prompt of each turn so far, in order of the turns; also
        of turns that are shared with another conversation."""
        return {}
