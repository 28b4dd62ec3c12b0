"""A request that was sent to a model, made again: byte for byte, where nothing of it is gone since.

`memory/request_log.py` keeps where its messages stand; here they become what went over the wire.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any

import orjson
from msgspec import Struct

from agent.models import openai_request, responses_request
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
from memory.context.meter import PromptPrefix
from memory.context.view import View
from memory.messages import Beside
from memory.record.requests import SentRequest
from memory.request_log import IN_PLACE, RequestLog

_SENT = None  # a picture that was sent as one


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


async def rebuild(log: RequestLog, sent: SentRequest, pictures: Pictures) -> Rebuilt:
    """Make a request again from what is kept now."""
    view, prefix = await log.view_of(sent)
    named = view.to_wire(prefix)
    names = names_in(named)
    whys, is_blind = _read_pictures(sent.pictures, len(names))
    chosen = list(zip(names, whys, strict=True))
    parts = await asyncio.to_thread(lambda: [_part(pictures, *one) for one in chosen])
    filled = insert_pictures(named, parts) if names else named
    parameters = orjson.loads(sent.prefix.parameters or "{}")
    body = _body(parameters, blind(filled) if is_blind else filled, prefix)
    shown = body
    if has_pictures(body["messages"]):
        labels = [_label(*one) for one in chosen]
        shown = _body(parameters, insert_pictures(named, labels), prefix)
    messages = list(shown["messages"])
    wire, shown_wire = (in_protocol(one, view.beside) for one in (body, shown))
    content = orjson.dumps(wire, default=dict)
    is_same = hashlib.sha256(content).hexdigest() == sent.digest
    gone = [] if is_same else await log.forgotten_in(sent)
    return Rebuilt(sent, view, prefix, wire, shown_wire, messages, is_same, tuple(gone))


def in_protocol(body: Mapping[str, Any], beside: Beside) -> Mapping[str, Any]:
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


def describe_pictures(
    parts: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]
) -> str:
    """Describe how pictures were sent, for `SentRequest.pictures`: as JSON, how many one after the
    other were sent, or for which reason not; and whether words replaced all of them in the end.
    `parts` is what was chosen for each, `messages` what went out."""
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


def _read_pictures(described: str, count: int) -> tuple[list[str | None], bool]:
    """Return why each of so many pictures was not sent (None: it was), and whether none was in the
    end. Pictures that are deleted since are among the oldest."""
    is_blind, runs = orjson.loads(described or "[false, []]")
    whys = [why for number, why in runs for _ in range(number)]
    missing = [_SENT] * max(0, count - len(whys))
    return [*missing, *whys[len(whys) - min(count, len(whys)) :]], is_blind


def _part(pictures: Pictures, name: str, why: str | None) -> dict[str, Any]:
    if why == REFUSED:
        return refused_part()
    return pictures.part(name) if why is _SENT else placeholder(name, why)


def _label(name: str, why: str | None) -> dict[str, Any]:
    if why == REFUSED:
        return refused_part()
    if why is not _SENT:
        return placeholder(name, why)
    return {"type": "image_url", "image_url": {"url": name}}
