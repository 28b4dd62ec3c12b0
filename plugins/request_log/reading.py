"""The log of what was sent to the model: noted with each step, kept for the newest requests, and
made again from what is kept.

A request is not kept as a copy. The transcript and the view events are all that it was made from,
so its row says where in them it stood; the system prompt, the tools and the parameters, which can't
be made again, are kept once for all requests that have them. A picture that is sent as a file may
be gone since. A digest of the bytes tells whether the copy made again equals what was sent.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from agent.models import openai_request, responses
from agent.models.endpoint import ANTHROPIC, RESPONSES
from agent.pictures import (
    REFUSED,
    Pictures,
    Wire,
    blind,
    has_pictures,
    insert_pictures,
    names_in,
    picture_urls,
    placeholder,
    refused_part,
)
from memory.context.meter import PromptPrefix, digest_of, fingerprint
from memory.context.settings import Limits
from memory.context.view import Scale, View
from memory.ledger import Spent
from memory.messages import RequestExtras
from memory.record import branches
from memory.record.database import Database
from memory.services import Outcome, OutgoingRequest, Redactor, RequestLog
from memory.turn_log import TurnLog
from plugins.request_log import record
from plugins.request_log.record import RequestPrefix, SentRequest
from plugins.request_log.settings import RequestLogSettings

IN_PLACE = ("messages", "tools")
"""The parts of a request's body that are stored apart from its parameters."""


class StoredRequestLog(RequestLog):
    """The log whose rows `/context request` reads."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__(redactor)
        self._known: tuple[PromptPrefix, str, RequestPrefix] | None = None

    def most_kept(self, limits: Limits) -> int:
        section = limits.context
        return section.keep_requests if isinstance(section, RequestLogSettings) else 0

    def insert(
        self, database: Database, conversation: int, rows: Sequence[SentRequest], limits: Limits
    ) -> None:
        """Store these requests, or delete the stored ones if none are to be kept."""
        keep = self.most_kept(limits)
        for request in rows[-keep:] if keep else ():
            record.insert(database, conversation, request, keep)
        if not keep:  # every time, since a transaction may be repeated
            record.delete(database, conversation)

    def describe(self, request: OutgoingRequest, limits: Limits) -> SentRequest:
        """Return the row of a request that is being sent."""
        view, body = request.view, request.body
        around = {name: None if name in IN_PLACE else value for name, value in body.items()}
        parameters = orjson.dumps(around, default=dict).decode()  # as bytes this would take 4 kB
        shown = request.pictures
        return SentRequest(
            turn=view.current,
            at=time.time(),
            prefix=self._prefix(request.prefix, parameters),
            strategy=limits.strategy,
            event=request.event,
            seq=max(entry.seq for entry in view.whole[-1].entries),
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

    def finish(
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
        system, tools, around = map(self.redactor.hide, whole)
        system, tools = _share(system), _share(tools)
        digest = hashlib.sha256("\0".join(whole).encode()).hexdigest()
        model = str(orjson.loads(parameters).get("model", ""))
        parts = {**fingerprint(prefix, model), "parameters": digest_of(parameters)}
        is_masked = (system, tools, around) != whole
        return RequestPrefix(digest, system, tools, around, is_masked, orjson.dumps(parts).decode())


@lru_cache(maxsize=32)
def _share(text: str) -> str:
    """Return the text, shared by all conversations that have it; sys.intern might keep it
    forever."""
    return text


_REPORTED = ("model", "prompt", "cached", "completion", "is_reported", "cost")


_SENT = None  # a picture that was sent as one


def describe_pictures(
    parts: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]
) -> str:
    """Describe how pictures were sent, as JSON for `SentRequest.pictures`: runs of pictures that
    were sent, or not sent for the same reason, and whether text replaced all of them in the end.
    `parts` has the chosen form of each, `messages` is the sent result."""
    left = {*picture_urls(messages)}
    has_refused = any(REFUSED in str(one.get("content")) for one in messages)
    whys = [_why(part, left if left or has_refused else None) for part in parts]
    runs = [[len([*run]), why] for why, run in groupby(whys)]
    is_blind = _SENT in whys and not has_pictures(messages)
    return orjson.dumps([is_blind, runs]).decode()


def _why(part: Mapping[str, Any], left: Collection[str] | None) -> str | None:
    if part["type"] == "image_url":
        return _SENT if left is None or part["image_url"]["url"] in left else REFUSED
    return str(part["text"]).removesuffix("]").partition("; ")[2]


def read_pictures(described: str, count: int) -> tuple[list[str | None], bool]:
    """Return for each of `count` pictures why it was not sent (None: it was), and whether none was
    sent in the end. Pictures deleted since then are assumed to be the oldest."""
    is_blind, runs = orjson.loads(described or "[false, []]")
    whys = [why for number, why in runs for _ in range(number)]
    missing = [_SENT] * max(0, count - len(whys))
    return [*missing, *whys[len(whys) - min(count, len(whys)) :]], is_blind


def make_part(pictures: Pictures, name: str, why: str | None) -> dict[str, Any]:
    if why == REFUSED:
        return refused_part()
    return pictures.part(name) if why is _SENT else placeholder(name, why)


def make_label(name: str, why: str | None) -> dict[str, Any]:
    if why == REFUSED:
        return refused_part()
    if why is not _SENT:
        return placeholder(name, why)
    return {"type": "image_url", "image_url": {"url": name}}


class StoredRequests:
    """The stored requests of one conversation."""

    def __init__(self, turns: TurnLog) -> None:
        self._services, self._state, self._log = turns.services, turns.state, turns.requests

    @property
    def keep(self) -> int:
        """Return the number of requests to keep."""
        return self._log.most_kept(self._state.limits)

    async def numbers(self) -> list[int]:
        """Return the numbers of the stored requests, oldest first."""
        row, most = self._state.row, self.keep
        return await self._services.store.read(lambda db: record.numbers(db, row, most))

    async def count_shared(self) -> int:
        """Return the number of turns that were answered before the conversation branched off; their
        requests are stored with its parent."""
        row = self._state.row
        return await self._services.store.read(lambda db: branches.lineage(db, row)[-1].after_turn)

    async def request(self, number: int) -> SentRequest | None:
        """Return the request of this number; None if it is not stored."""
        return next(iter(await self.requests([number])), None)

    async def requests(self, numbers: Sequence[int]) -> list[SentRequest]:
        """Return the stored requests among these numbers, which are in order."""
        row = self._state.row
        return await self._services.store.read(lambda db: [*record.requests(db, row, numbers)])

    async def view_of(self, sent: SentRequest) -> tuple[View, PromptPrefix]:
        """Return the model's view of the conversation in this request, and its prefix, built from
        the data that is still stored."""
        tools = tuple(orjson.loads(sent.prefix.tools)) if sent.prefix.tools else ()
        system, now = sent.prefix.system, self._state.prefix.sections
        prefix = PromptPrefix(system, tools, _find_sections(system, now))
        past = await self._state.under(sent.strategy, sent.event, sent.seq)
        view = past.view(prefix)
        return replace(
            view, merges_system=bool(sent.merges_system), scale=Scale(sent.ratio)
        ), prefix

    async def find_forgotten_turns(self, sent: SentRequest) -> list[int]:
        """Return the turns that the request could contain, from its first one on, and that were
        deleted since."""
        there = {turn.number for turn in await self._state.turns(range(sent.first, sent.turn + 1))}
        return [number for number in range(sent.first, sent.turn + 1) if number not in there]


def _find_sections(system: str, now: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the sections of a stored system prompt: those in force `now` begin with the same
    line."""
    found = []
    for name, text in reversed(now):
        first = text.partition("\n")[0]
        ahead, heading, rest = system.rpartition(f"\n\n{first}\n")
        if text and heading:
            system = ahead
            found.append((name, f"{heading.lstrip()}{rest}"))
    return tuple(reversed(found))


class RebuiltRequest(Struct, frozen=True):
    """A rebuilt request. `body` is the request with each picture's bytes; `shown` is the same with
    the names of their files; `messages` are its messages in OpenAI's format. `is_same`: the bytes
    equal those sent. `forgotten` are turns of it that were deleted since."""

    sent: SentRequest
    view: View
    prefix: PromptPrefix
    body: Mapping[str, Any]
    shown: Mapping[str, Any]
    messages: Wire
    is_same: bool
    forgotten: tuple[int, ...] = ()


async def rebuild(log: StoredRequests, sent: SentRequest, pictures: Pictures) -> RebuiltRequest:
    """Rebuild a request from the data that is still stored."""
    view, prefix = await log.view_of(sent)
    named = view.to_wire(prefix)
    names = names_in(named)
    whys, is_blind = read_pictures(sent.pictures, len(names))
    chosen = list(zip(names, whys, strict=True))
    parts = await asyncio.to_thread(lambda: [make_part(pictures, *one) for one in chosen])
    filled = insert_pictures(named, parts) if names else named
    parameters = orjson.loads(sent.prefix.parameters or "{}")
    body = _body(parameters, blind(filled) if is_blind else filled, prefix)
    shown = body
    if has_pictures(body["messages"]):
        labels = [make_label(*one) for one in chosen]
        shown = _body(parameters, insert_pictures(named, labels), prefix)
    messages = list(shown["messages"])
    wire, shown_wire = (in_protocol(one, view.beside) for one in (body, shown))
    content = orjson.dumps(wire, default=dict)
    is_same = hashlib.sha256(content).hexdigest() == sent.digest
    forgotten = [] if is_same else await log.find_forgotten_turns(sent)
    return RebuiltRequest(sent, view, prefix, wire, shown_wire, messages, is_same, tuple(forgotten))


def in_protocol(body: Mapping[str, Any], beside: RequestExtras) -> Mapping[str, Any]:
    """Return the body in its protocol's format."""
    if body.get("protocol") == RESPONSES:
        return responses.to_body(body, beside)
    if body.get("protocol") != ANTHROPIC:
        return openai_request.to_body(body, beside)
    from agent.models.anthropic_request import to_body  # noqa: PLC0415 - only if it is used

    return to_body(body, beside)


def _body(
    parameters: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], prefix: PromptPrefix
) -> dict[str, Any]:
    """Return the body of a request: its parameters, with the messages and the tools inserted."""
    places = dict(zip(IN_PLACE, (list(messages), list(prefix.tools)), strict=True))
    if not parameters:
        return {"messages": places["messages"]}
    return {name: places.get(name, value) for name, value in parameters.items()}
