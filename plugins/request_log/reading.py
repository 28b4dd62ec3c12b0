"""Requests that were sent to a model, read and made again: byte for byte, where nothing of them is
gone since.

Their rows say where their messages stand; here these become what went over the wire.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from agent.models import openai_request, responses_request
from agent.models.endpoint import ANTHROPIC, RESPONSES
from agent.pictures import Pictures, Wire, blind, has_pictures, insert_pictures, names_in
from memory.context.meter import PromptPrefix
from memory.context.view import Scale, View
from memory.messages import RequestExtras
from memory.record import branches
from memory.turn_log import TurnLog
from plugins.request_log import record
from plugins.request_log.log import IN_PLACE, most_kept
from plugins.request_log.pictures import make_label, make_part, read_pictures
from plugins.request_log.record import SentRequest


class KeptRequests:
    """The requests of one conversation that are kept."""

    def __init__(self, turns: TurnLog) -> None:
        self._services, self._state = turns.services, turns.state

    @property
    def keep(self) -> int:
        """Return how many requests are kept."""
        return most_kept(self._state.limits)

    async def numbers(self) -> list[int]:
        """Return the numbers of the requests that are kept, oldest first."""
        row, most = self._state.row, self.keep
        return await self._services.store.read(lambda db: record.numbers(db, row, most))

    async def count_shared(self) -> int:
        """Return how many turns were answered before the conversation branched off: the requests
        for them are those of the branch that it was made from."""
        row = self._state.row
        return await self._services.store.read(lambda db: branches.lineage(db, row)[-1].after_turn)

    async def request(self, number: int) -> SentRequest | None:
        """Return the request of this number; None for one that is not kept."""
        return next(iter(await self.requests([number])), None)

    async def requests(self, numbers: Sequence[int]) -> list[SentRequest]:
        """Return the requests of these numbers, which are in order, as far as they are kept."""
        row = self._state.row
        return await self._services.store.read(lambda db: [*record.requests(db, row, numbers)])

    async def view_of(self, sent: SentRequest) -> tuple[View, PromptPrefix]:
        """Return what the model saw of the conversation in this request, and what stood before it,
        made from what is kept of both now."""
        tools = tuple(orjson.loads(sent.prefix.tools)) if sent.prefix.tools else ()
        prefix = PromptPrefix(sent.prefix.system, tools)
        past = await self._state.under(sent.strategy, sent.event, sent.seq)
        view = past.view(prefix)
        return replace(
            view, merges_system=bool(sent.merges_system), scale=Scale(sent.ratio)
        ), prefix

    async def forgotten_in(self, sent: SentRequest) -> list[int]:
        """Return the turns from its first one on that were in context then, and are deleted
        since."""
        there = {turn.number for turn in await self._state.turns(range(sent.first, sent.turn + 1))}
        return [number for number in range(sent.first, sent.turn + 1) if number not in there]


class Rebuilt(Struct, frozen=True):
    """A request made again. `body` is what was sent, with each picture's bytes in it; `shown` the
    same with the names of their files, and `messages` its messages in OpenAI's shape. `is_same`:
    the bytes are those that were sent. `forgotten` are turns of it that are deleted since."""

    sent: SentRequest
    view: View
    prefix: PromptPrefix
    body: Mapping[str, Any]
    shown: Mapping[str, Any]
    messages: Wire
    is_same: bool
    forgotten: tuple[int, ...] = ()


async def rebuild(log: KeptRequests, sent: SentRequest, pictures: Pictures) -> Rebuilt:
    """Make a request again from what is kept now."""
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
    gone = [] if is_same else await log.forgotten_in(sent)
    return Rebuilt(sent, view, prefix, wire, shown_wire, messages, is_same, tuple(gone))


def in_protocol(body: Mapping[str, Any], beside: RequestExtras) -> Mapping[str, Any]:
    """Return the body as its protocol has it."""
    if body.get("protocol") == RESPONSES:
        return responses_request.to_body(body, beside)
    if body.get("protocol") != ANTHROPIC:
        return openai_request.to_body(body, beside)
    from agent.models.anthropic_request import to_body  # noqa: PLC0415 - for those who use it

    return to_body(body, beside)


def _body(
    parameters: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], prefix: PromptPrefix
) -> dict[str, Any]:
    """Return the body of a request: its parameters, with the messages and the tools in their
    places."""
    places = dict(zip(IN_PLACE, (list(messages), list(prefix.tools)), strict=True))
    if not parameters:
        return {"messages": places["messages"]}
    return {name: places.get(name, value) for name, value in parameters.items()}
