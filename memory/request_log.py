"""The log of what was sent to the model: noted with each step, kept for the newest requests, and
made again.

A request is not kept as a copy. The transcript and the view events are all that it was made from,
so its row says where in them it stood; the system prompt, the tools and the parameters, which can't
be made again, are kept once for all requests that have them. A digest of the bytes tells whether
the copy made again equals what was sent.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from memory.context.meter import PromptPrefix
from memory.context.view import Scale, View
from memory.context_state import ContextState
from memory.ledger import Spent
from memory.record import requests
from memory.record.requests import Outcome, RequestPrefix, SentRequest
from memory.services import MemoryServices

IN_PLACE = ("messages", "tools")
"""The parts of a request's body that are kept apart from its parameters."""


class SentBytes(Struct, frozen=True):
    """A request as the model's client sent it: its parts, and the bytes that they became.
    `pictures` says how those that its messages name were sent (`agent.sent`)."""

    body: Mapping[str, Any]
    content: bytes
    pictures: str = ""


class RequestLog:
    """The requests of one conversation's own turns."""

    def __init__(self, services: MemoryServices, state: ContextState) -> None:
        self._services, self._state = services, state
        self._known: tuple[PromptPrefix, str, RequestPrefix] | None = None
        self._is_empty = False  # where none is to be kept

    @property
    def keep(self) -> int:
        """Return how many requests are kept."""
        return self._state.limits_as_set.context.keep_requests

    def make_writer(self, sent: Sequence[SentRequest]) -> Callable[[Any], None]:
        """Make the function that stores these requests in a transaction, or deletes those that are
        kept where none is to be any more."""
        row, keep = self._state.row, self.keep

        def store(db: Any) -> None:
            for request in sent[-keep:] if keep else ():
                requests.insert(db, row, request, keep)
            if not keep and not self._is_empty:
                requests.delete(db, row)
            self._is_empty = not keep

        return store

    def describe(
        self, view: View, event: int, prefix: PromptPrefix, sent: SentBytes
    ) -> SentRequest:
        """Return the row of a request that is sent now: made from `view`, after the view event
        `event`."""
        around = {name: None if name in IN_PLACE else value for name, value in sent.body.items()}
        parameters = orjson.dumps(around, default=dict).decode()  # its bytes would hold 4 kB
        return SentRequest(
            turn=view.current,
            at=time.time(),
            prefix=self._prefix(prefix, parameters),
            strategy=self._state.limits.strategy,
            event=event,
            seq=max(entry.seq for entry in view.whole[-1].entries),  # results stand by their calls
            first=view.whole[0].number,
            messages=len(sent.body["messages"]),
            merges_system=view.merges_system,
            pictures=sent.pictures,
            size=len(sent.content),
            digest=hashlib.sha256(sent.content).hexdigest(),
            tokens=view.tokens,
            ratio=view.scale.ratio,
            model=str(sent.body.get("model", "")),
        )

    def _prefix(self, prefix: PromptPrefix, parameters: str) -> RequestPrefix:
        if self._known is None or self._known[0] is not prefix or self._known[1] != parameters:
            made = self._make_prefix(prefix, parameters)
            self._known = prefix, parameters, made  # the same in nearly every request
        return self._known[2]

    def _make_prefix(self, prefix: PromptPrefix, parameters: str) -> RequestPrefix:
        tools = orjson.dumps(prefix.tools, default=dict).decode()
        whole = (prefix.system, tools, parameters)
        system, tools, around = map(self._services.hide, whole)
        system, tools = _share(system), _share(tools)
        digest = hashlib.sha256("\0".join(whole).encode()).hexdigest()
        return RequestPrefix(digest, system, tools, around, (system, tools, around) != whole)

    async def numbers(self) -> list[int]:
        """Return the numbers of the requests that are kept, oldest first."""
        row, most = self._state.row, self.keep
        return await self._services.store.read(lambda db: requests.numbers(db, row, most))

    async def request(self, number: int) -> SentRequest | None:
        """Return the request of this number; None for one that is not kept."""
        return next(iter(await self.requests([number])), None)

    async def requests(self, numbers: Sequence[int]) -> list[SentRequest]:
        """Return the requests of these numbers, which are in order, as far as they are kept."""
        row = self._state.row
        return await self._services.store.read(lambda db: [*requests.requests(db, row, numbers)])

    async def view_of(self, sent: SentRequest) -> tuple[View, PromptPrefix]:
        """Return what the model saw of the conversation in this request, and what stood before it,
        made from what is kept of both now."""
        tools = tuple(orjson.loads(sent.prefix.tools)) if sent.prefix.tools else ()
        prefix = PromptPrefix(sent.prefix.system, tools)
        view = await self._state.as_of(sent.strategy, sent.event, sent.seq, prefix)
        return replace(
            view, merges_system=bool(sent.merges_system), scale=Scale(sent.ratio)
        ), prefix

    def count_tokens(self, text: str) -> int:
        """Raw tokens of a text."""
        return self._services.meter.count(text) if text else 0

    def hide(self, text: str) -> str:
        """Return a text without secrets."""
        return self._services.hide(text)

    async def forgotten_in(self, sent: SentRequest) -> list[int]:
        """Return the turns from its first one on that were in context then, and are deleted
        since."""
        there = {turn.number for turn in await self._state.turns(range(sent.first, sent.turn + 1))}
        return [number for number in range(sent.first, sent.turn + 1) if number not in there]


@lru_cache(maxsize=32)
def _share(text: str) -> str:
    """Return the same text, once for all conversations that have it; sys.intern may keep it for
    good."""
    return text


def settle(
    pending: Sequence[SentRequest], outcome: Outcome, spent: Spent | None = None
) -> list[SentRequest]:
    """Return these requests, the last of them with its outcome."""
    if not pending:
        return []
    *others, last = pending
    known: dict[str, Any] = {"outcome": outcome, "seconds": max(0.0, time.time() - last.at)}
    if spent is not None:
        known |= {name: getattr(spent, name) for name in _REPORTED}
    return [*others, replace(last, **known)]


_REPORTED = ("model", "prompt", "cached", "completion", "is_reported", "cost")
