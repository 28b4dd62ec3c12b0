"""OpenAI's protocol: any client of it talks to the bot, which keeps the context itself.

The last user message is taken. What stands before it fills an empty conversation and is left aside
otherwise, since the bot remembers; the client's system text becomes the instructions there.
`parley_conversation`, or the header X-Parley-Session, names the conversation; without either it is
a new one. A key has conversations of its own.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from channels.base import Bot, KeyHolder
from channels.message import Address, Attachment, Inbound
from channels.web.feed import Event, Feeds
from channels.web.guard import HOLDER
from channels.web.operations import (
    Operation,
    Parameter,
    Problem,
    as_json,
    body,
    event,
    stream,
)
from channels.web.sessions import CHANNEL, WORDS, arrived, submitted
from channels.web.shapes import NAME
from channels.web.streams import told

MODEL = "parley"
HEADER = "X-Parley-Session"
ONE_OFF = "one-off"
"""The chat of conversations without a name; each is a thread of it, and no list shows them."""
TOOLS = "Parley uses its own tools and can't call the client's; leave `tools` and `functions` out."
CHOICES = "Parley gives one answer; leave `n` out, or let it be 1."
NO_QUESTION = "There is no message with the role user, so there is nothing to answer."
_SESSION = Parameter(
    HEADER, "header", "The conversation, where `parley_conversation` names none.", {"pattern": NAME}
)


class Lenient(BaseModel):
    """What clients of OpenAI send: fields that are not known here are left aside."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class ImageUrl(Lenient):
    url: str


class Part(Lenient):
    """A piece of a message: text, or a picture as a data: URL."""

    type: str
    text: str = ""
    image_url: ImageUrl | None = None


class ChatMessage(Lenient):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | tuple[Part, ...] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content or () if part.text)

    @property
    def pictures(self) -> tuple[Attachment, ...]:
        parts = self.content if isinstance(self.content, tuple) else ()
        return tuple(_picture(part.image_url.url) for part in parts if part.image_url)


class StreamOptions(Lenient):
    include_usage: bool = False


class ChatRequest(Lenient):
    """A request for an answer, as OpenAI has it, as far as Parley minds it."""

    messages: tuple[ChatMessage, ...] = Field(min_length=1)
    model: str = MODEL
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: Any = None
    parley_conversation: str | None = Field(default=None, pattern=NAME)
    n: int | None = None
    tools: tuple[Any, ...] | None = None
    functions: tuple[Any, ...] | None = None

    @property
    def instructions(self) -> str:
        said = (m.text for m in self.messages if m.role in ("system", "developer"))
        return "\n\n".join(filter(None, said))

    @property
    def reports_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)


class Completion(BaseModel):
    """An answer, as OpenAI has it."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: dict[str, Any]


class ModelList(BaseModel):
    object: Literal["list"]
    data: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Completions:
    """The operations of OpenAI's protocol. `upload` is the most bytes of a request's pictures."""

    bot: Bot
    feeds: Feeds
    upload: int

    @property
    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                "POST",
                "/v1/chat/completions",
                "Answer the last user message, as OpenAI's API does.",
                self.complete,
                takes=ChatRequest,
                gives=Completion,
                parameters=(_SESSION,),
                problems=(400, 413, 503),
                streams=True,
            ),
            Operation(
                "GET",
                "/v1/models",
                "The one model there is: the bot.",
                self.list_models,
                gives=ModelList,
            ),
        )

    async def list_models(self, request: Request) -> Response:
        del request
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "parley"}
        return as_json({"object": "list", "data": [model]})

    async def complete(self, request: Request) -> Response:
        wanted = await body(request, ChatRequest, self.upload * 4 // 3 + WORDS)
        question = _question(wanted)
        address = _address(request, wanted)
        feed = self.feeds.of(address)
        text = question.text if holder_of(request).may_command else as_text(question.text)
        inbound = Inbound(uuid4().hex, address, text, attachments=question.pictures)
        async with feed.turn_taking:
            await self._instruct(address, wanted.instructions)
            await self.bot.begin_with(address, exchanges(wanted.messages))
            start = feed.end
            waiting = await submitted(self.bot, feed, inbound)
        frame = {"id": f"chatcmpl-{inbound.id}", "created": int(time.time()), "model": MODEL}
        if wanted.stream:
            events = told(feed, inbound.id, waiting, start)
            return stream(chunks(events, frame, wanted.reports_usage))
        done = (await arrived(waiting)).data
        message = {"role": "assistant", "content": done["text"]}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        whole = {**frame, "object": "chat.completion", "choices": [choice], "usage": usage(done)}
        return as_json(whole)

    async def _instruct(self, address: Address, text: str) -> None:
        """Let the client's system text be the conversation's instructions, if it is not yet."""
        if not text:
            return
        now = await self.bot.command(address, "/config system_prompt")
        if now.data and (now.data["value"], now.data["layer"]) == (text, "--here"):
            return
        reply = await self.bot.command(address, f"/config system_prompt {json.dumps(text)} --here")
        if not reply.data:
            raise Problem(400, reply.text)


def _question(wanted: ChatRequest) -> ChatMessage:
    """The message that is to be answered. Raises Problem for what Parley does not do."""
    if wanted.tools or wanted.functions:
        raise Problem(400, TOOLS, "unsupported_parameter")
    if wanted.n not in (None, 1):
        raise Problem(400, CHOICES, "unsupported_value")
    asked = [message for message in wanted.messages if message.role == "user"]
    if not asked:
        raise Problem(400, NO_QUESTION)
    return asked[-1]


def _address(request: Request, wanted: ChatRequest) -> Address:
    name = wanted.parley_conversation or request.headers.get(HEADER, "")
    user = holder_of(request).user
    chat = f"{user}/" if user else ""
    if not name:
        return Address(CHANNEL, f"{chat}{ONE_OFF}", uuid4().hex, user)
    if not re.fullmatch(NAME, name):
        raise Problem(400, f"{HEADER} wants up to 100 letters, digits and the signs . @ : + ~ -")
    return Address(CHANNEL, f"{chat}{name}", user=user)


def holder_of(request: Request) -> KeyHolder:
    """Who speaks, as the guard has found out."""
    holder: KeyHolder = getattr(request.state, HOLDER)
    return holder


def as_text(text: str) -> str:
    """Text that is no command, also where it begins with a slash: two stand for one."""
    stripped = text.lstrip()
    return f"/{stripped}" if stripped.startswith("/") else text


def exchanges(messages: Sequence[ChatMessage]) -> list[tuple[str, str]]:
    """What stands before the last user message, as questions and answers; questions in a row are
    one question, and so are answers."""
    last = max(index for index, message in enumerate(messages) if message.role == "user")
    pairs: list[tuple[list[str], list[str]]] = []
    for message in messages[:last]:
        if message.role == "user" and (not pairs or pairs[-1][1]):
            pairs.append(([], []))
        if message.role in ("user", "assistant") and pairs and message.text:
            pairs[-1][message.role == "assistant"].append(message.text)
    return [("\n\n".join(asked), "\n\n".join(said)) for asked, said in pairs if asked and said]


def usage(done: Any) -> dict[str, Any]:
    """What an answer took, as OpenAI reports it."""
    tokens = done["usage"]
    return {
        "prompt_tokens": tokens["prompt"],
        "completion_tokens": tokens["completion"],
        "total_tokens": tokens["prompt"] + tokens["completion"],
        "prompt_tokens_details": {"cached_tokens": tokens["cached"]},
    }


async def chunks(
    events: AsyncIterator[Event], frame: dict[str, Any], reports_usage: bool
) -> AsyncIterator[bytes]:
    """An answer in pieces. What has streamed can't be taken back here, so that where the answer
    turns out otherwise (it was stopped, or begun anew) the whole of it follows."""
    frame = {**frame, "object": "chat.completion.chunk"}
    yield _chunk(frame, {"role": "assistant", "content": ""})
    written = Written()
    async for one in events:
        if text := written.more(one):
            yield _chunk(frame, {"content": text})
        if one.kind == "done":
            yield _chunk(frame, {}, "stop")
            if reports_usage:
                yield event({**frame, "choices": [], "usage": usage(one.data)})
            yield event(b"[DONE]")


@dataclass(slots=True)
class Written:
    """What a client has been sent: `step` of the step under way."""

    step: str = ""
    is_empty: bool = True

    def more(self, one: Event) -> str:
        """What an event adds to it."""
        text = str(one.data["text"]) if one.kind in ("delta", "done") else ""
        if one.kind in ("restart", "tool"):
            self.step = ""
        elif one.kind == "done" and text.startswith(self.step):
            text = text.removeprefix(self.step)
        elif one.kind == "done":
            self.step = ""
        gap = "\n\n" if text and not self.step and not self.is_empty else ""
        self.step += text
        self.is_empty = self.is_empty and not text
        return gap + text


def _chunk(frame: dict[str, Any], delta: dict[str, str], reason: str | None = None) -> bytes:
    return event({**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})


def _picture(url: str) -> Attachment:
    """The picture in a data: URL; none is fetched from anywhere. Raises Problem."""
    found = re.fullmatch(r"data:(image/[\w.+-]+);base64,(.*)", url, re.DOTALL)
    try:
        data = base64.b64decode(found[2], validate=True) if found else b""
    except binascii.Error:
        data = b""
    if not found or not data:
        raise Problem(400, "A picture must come in the request, as a data: URL in base64.")
    return Attachment(f"picture.{found[1].partition('/')[2]}", found[1], data)
