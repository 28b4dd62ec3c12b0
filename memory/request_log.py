"""The interface of the log of requests that a conversation's own turns send to the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from memory.context.limits import Limits
from memory.context.meter import PromptPrefix
from memory.context.view import View
from memory.ledger import Spent
from memory.record.database import Database

Outcome = Literal["", "answered", "too long"]
"""The outcome of a request: an answer, or a refusal because it was longer than the window; "": it
failed, its answer broke off, or the turn was stopped meanwhile."""


class OutgoingRequest(Struct, frozen=True):
    """A request as it goes out: made from `view` after the view event `event`, with `prefix` before
    it. `pictures` are the parts that were chosen for the pictures that its messages name, `body` is
    what the model's client sends, and `content` the bytes that this became."""

    view: View
    event: int
    prefix: PromptPrefix
    pictures: Sequence[Mapping[str, Any]]
    body: Mapping[str, Any]
    content: bytes


class RequestLog:
    """The log of one conversation, made when it is opened; `hide` takes secrets out of a text. Its
    rows are those of whoever keeps it. This one keeps nothing; a feature brings one that does (hook
    `parley_request_log`)."""

    def __init__(self, hide: Callable[[str], str]) -> None:
        self.hide = hide

    def is_on(self, limits: Limits) -> bool:
        """Return whether what is sent within these limits is kept."""
        return False

    def describe(self, request: OutgoingRequest, limits: Limits) -> Any:
        """Return the row of a request that is being sent."""

    def finish(
        self, rows: Sequence[Any], outcome: Outcome, spent: Spent | None = None
    ) -> list[Any]:
        """Return these rows of a turn, the last of them with its outcome."""
        return [*rows]

    def insert(
        self, database: Database, conversation: int, rows: Sequence[Any], limits: Limits
    ) -> None:
        """Store these rows, in the transaction of what came of the requests."""
