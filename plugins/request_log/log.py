"""The log of what was sent to the model: noted with each step, and kept for the newest requests.

A request is not kept as a copy. The transcript and the view events are all that it was made from,
so its row says where in them it stood; the system prompt, the tools and the parameters, which can't
be made again, are kept once for all requests that have them. A digest of the bytes tells whether
the copy made again (`reading`) equals what was sent.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import orjson
from msgspec.structs import replace

from memory.context.limits import Limits
from memory.context.meter import PromptPrefix, digest_of, fingerprint
from memory.ledger import Spent
from memory.record.database import Database
from memory.request_log import Outcome, OutgoingRequest, RequestLog
from plugins.request_log import record
from plugins.request_log.pictures import describe_pictures
from plugins.request_log.record import RequestPrefix, SentRequest
from plugins.request_log.settings import RequestLogSettings

IN_PLACE = ("messages", "tools")
"""The parts of a request's body that are kept apart from its parameters."""


def most_kept(limits: Limits) -> int:
    """Return how many requests are kept."""
    section = limits.context
    return section.keep_requests if isinstance(section, RequestLogSettings) else 0


class StoredRequestLog(RequestLog):
    """The log whose rows `/context request` reads."""

    def __init__(self, hide: Callable[[str], str]) -> None:
        super().__init__(hide)
        self._known: tuple[PromptPrefix, str, RequestPrefix] | None = None

    def is_on(self, limits: Limits) -> bool:
        """Return whether any are kept."""
        return most_kept(limits) > 0

    def insert(
        self, database: Database, conversation: int, rows: Sequence[SentRequest], limits: Limits
    ) -> None:
        """Store these requests, or delete those that are kept where none is to be any more."""
        keep = most_kept(limits)
        for request in rows[-keep:] if keep else ():
            record.insert(database, conversation, request, keep)
        if not keep:  # every time, since a transaction may be carried out again
            record.delete(database, conversation)

    def describe(self, request: OutgoingRequest, limits: Limits) -> SentRequest:
        """Return the row of a request that is sent now."""
        view, body = request.view, request.body
        around = {name: None if name in IN_PLACE else value for name, value in body.items()}
        parameters = orjson.dumps(around, default=dict).decode()  # its bytes would hold 4 kB
        shown = request.pictures
        return SentRequest(
            turn=view.current,
            at=time.time(),
            prefix=self._prefix(request.prefix, parameters),
            strategy=limits.strategy,
            event=request.event,
            seq=max(entry.seq for entry in view.whole[-1].entries),  # results stand by their calls
            first=view.whole[0].number,
            messages=len(body["messages"]),
            merges_system=view.merges_system,
            pictures=describe_pictures(shown, body["messages"]) if shown else "",
            size=len(request.content),
            digest=hashlib.sha256(request.content).hexdigest(),
            tokens=view.tokens,
            ratio=view.scale.ratio,
            model=str(body.get("model", "")),
        )

    def settle(
        self, rows: Sequence[SentRequest], outcome: Outcome, spent: Spent | None = None
    ) -> list[SentRequest]:
        """Return these requests, the last of them with its outcome."""
        if not rows:
            return []
        *others, last = rows
        known: dict[str, Any] = {"outcome": outcome, "seconds": max(0.0, time.time() - last.at)}
        if spent is not None:
            known |= {name: getattr(spent, name) for name in _REPORTED}
        return [*others, replace(last, **known)]

    def _prefix(self, prefix: PromptPrefix, parameters: str) -> RequestPrefix:
        if self._known is None or self._known[0] is not prefix or self._known[1] != parameters:
            made = self._make_prefix(prefix, parameters)
            self._known = prefix, parameters, made  # the same in nearly every request
        return self._known[2]

    def _make_prefix(self, prefix: PromptPrefix, parameters: str) -> RequestPrefix:
        tools = orjson.dumps(prefix.tools, default=dict).decode()
        whole = (prefix.system, tools, parameters)
        system, tools, around = map(self.hide, whole)
        system, tools = _share(system), _share(tools)
        digest = hashlib.sha256("\0".join(whole).encode()).hexdigest()
        model = str(orjson.loads(parameters).get("model", ""))
        parts = {**fingerprint(prefix, model), "parameters": digest_of(parameters)}
        is_masked = (system, tools, around) != whole
        return RequestPrefix(digest, system, tools, around, is_masked, orjson.dumps(parts).decode())


@lru_cache(maxsize=32)
def _share(text: str) -> str:
    """Return the same text, once for all conversations that have it; sys.intern may keep it for
    good."""
    return text


_REPORTED = ("model", "prompt", "cached", "completion", "is_reported", "cost")
