"""The interface of a broker, whichever it is; `rabbit.py` implements it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Protocol

from msgspec import Struct


class BrokerError(Exception):
    """The broker, or whoever should answer, can't be reached. The text is a plain sentence."""


class GiveBack(Exception):
    """A call can't be answered here, or something not be owned: it goes back where it was."""


class OwnerCall(Struct, frozen=True):
    """A request as its owner gets it. `id` is the same however often it is delivered; `is_again`:
    somebody may have begun with it, and died."""

    id: str
    body: bytes
    is_again: bool
    answer: Callable[[bytes, bool], Awaitable[None]]
    """Sends a piece of the answer to the caller; the flag says whether it is the last."""


class Delivered(Protocol):
    """A message that lay in a queue, and is in hand until it is settled. Both do nothing once the
    connection over which it came is gone: then it is in the queue again anyhow."""

    @property
    def call(self) -> OwnerCall | None:
        """None: it is the token, which makes its holder the owner."""
        ...

    async def done(self) -> None:
        """Confirm it: it need not be delivered again."""
        ...

    async def give_back(self) -> None:
        """Put it back at the head of its queue."""
        ...


Take = Callable[[str, Delivered], None]
"""Hears what came out of the queue of this name, in order."""


class Broker(Protocol):
    """Queues that one process at a time takes from, calls with their answers, and what is told to
    all. Names of queues are those of what is owned: "slice.7"."""

    me: str
    """This process, as others know it: no two that ever ran have the same."""

    async def declare(self, names: Sequence[str]) -> None:
        """Let there be these queues."""
        ...

    async def consume(self, name: str, take: Take) -> None:
        """Stand in line for a queue: whoever stood there first has it alone. Raises BrokerError, at
        once where there is no connection."""
        ...

    async def leave(self, name: str) -> None:
        """Take nothing more from a queue; what is in hand stays in hand until it is settled."""
        ...

    async def put_token(self, name: str) -> None:
        """Put one more token into a queue."""
        ...

    def call(
        self, name: str, body: bytes, patience: float, is_repeatable: bool = True
    ) -> AsyncGenerator[bytes, None]:
        """Ask the owner of this; the pieces of the answer. What `is_repeatable` may reach it twice.
        Raises BrokerError after `patience` seconds without a piece."""
        ...

    async def tell(self, topic: str, body: bytes) -> None:
        """Tell those who listen to a topic now; confirmed by the broker. Raises BrokerError."""
        ...

    def tell_soon(self, to: str, body: bytes) -> None:
        """Tell one process something that may get lost."""
        ...
