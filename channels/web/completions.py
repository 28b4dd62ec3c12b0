"""OpenAI's protocol. By default each request is complete in itself, as its clients expect: they
send the whole conversation each time.

If a request names a conversation (`parley_conversation`, or the header X-Parley-Session), the bot
stores that one: the last user message is answered, the messages before it fill the conversation
while it is empty, and the client's system text becomes its instructions. Each key has conversations
of its own.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, Literal
from uuid import uuid4

from msgspec import Struct, field
from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from channels.base import Bot, Delta, KeyHolder
from channels.message import Address, Completed, Inbound, NotCompleted, clean_text
from channels.web.chat_shapes import (
    MODEL,
    ChatMessage,
    ChatRequest,
    completion_request,
    list_attachments,
    question_of,
)
from channels.web.feed import FeedEvent, Feeds
from channels.web.guard import HOLDER
from channels.web.operations import (
    FAILED,
    Operation,
    Parameter,
    Problem,
    as_json,
    body,
    event,
    make_problem,
    stream,
)
from channels.web.sessions import CHANNEL, STOPPING, WORDS, submit_awaiting
from channels.web.shapes import NAME
from channels.web.streams import follow_answer

log = logging.getLogger(__name__)

HEADER = "X-Parley-Session"
SESSION = Parameter(
    HEADER, "header", "The conversation, where `parley_conversation` names none.", {"pattern": NAME}
)
_ID = Parameter("id", "path", "The model's name.", {"type": "string"})

_ENDING: set[asyncio.Task[None]] = set()
"""Tasks that are referenced until they are done."""
Happening = AsyncGenerator[Delta | Completed, None]


class Completion(BaseModel):
    """An answer, as OpenAI has it."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: dict[str, Any]


class ModelItem(BaseModel):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(BaseModel):
    object: Literal["list"]
    data: list[ModelItem]


class CompletionOperations(Struct, frozen=True):
    """The operations of OpenAI's protocol. `upload` is the maximum number of bytes of a request's
    pictures."""

    bot: Bot
    feeds: Feeds
    upload: int

    @property
    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                "POST",
                "/v1/chat/completions",
                "Answer what the messages say, as OpenAI's API does.",
                self.complete,
                takes=ChatRequest,
                gives=Completion,
                parameters=(SESSION,),
                problems=(400, 413, 429, 500, 502, 503, 504),
                streams=True,
            ),
            Operation(
                "GET",
                "/v1/models",
                "The one model there is: the bot.",
                self.list_models,
                gives=ModelList,
            ),
            Operation(
                "GET",
                "/v1/models/{id}",
                "The one model there is.",
                self.show_model,
                gives=ModelItem,
                parameters=(_ID,),
                problems=(404,),
            ),
        )

    async def list_models(self, request: Request) -> Response:
        del request
        return as_json({"object": "list", "data": [_MODEL]})

    async def show_model(self, request: Request) -> Response:
        if request.path_params["id"] != MODEL:
            sentence = (
                f"There is one model here, {MODEL}; the bot's settings say which model answers."
            )
            raise Problem(404, sentence, "model_not_found", "model")
        return as_json(_MODEL)

    async def complete(self, request: Request) -> Response:
        wanted = await body(request, ChatRequest, self.most_bytes)
        happening = await self.begin(request, wanted)
        answer = _Answer(wanted.reports_usage, wanted.is_of_functions)
        events = while_connected(request, happening)
        try:
            if not wanted.stream:
                return as_json(answer.whole([one async for one in events][-1]))
            first = await anext(events)  # an error before it has a status
        except NotCompleted as error:
            raise make_problem(error.problem, str(error), error.retry_after) from None
        return stream(answer.chunks(first, events))

    @property
    def most_bytes(self) -> int:
        """The maximum number of bytes of a request: pictures in base64, and text."""
        return self.upload * 4 // 3 + WORDS

    async def begin(self, request: Request, wanted: ChatRequest) -> Happening:
        """Return the events of this request, in any shape. Raises Problem."""
        holder = holder_of(request)
        if name := _conversation(request, wanted):
            return self._answer_in_conversation(holder, name, wanted)
        asked = await asyncio.to_thread(completion_request, wanted)  # it may have pictures
        return self.bot.complete(holder, asked)

    async def _answer_in_conversation(
        self, holder: KeyHolder, name: str, wanted: ChatRequest
    ) -> Happening:
        """Yield the answer of a conversation that the bot stores. It continues if the client
        disconnects."""
        question = question_of(wanted)
        address = _address(holder, name)
        feed = self.feeds.of(address)
        text = question.text if holder.may_command else as_text(question.text)
        inbound = Inbound(uuid4().hex, address, text, attachments=list_attachments(question))
        async with feed.turn_taking:
            words = wanted.instructions
            if words and (complaint := await self.bot.instruct(address, words)):
                raise Problem(400, complaint, param="messages")
            await self.bot.begin_with(address, exchanges(wanted.messages))
            start = feed.end
            waiting = await submit_awaiting(self.bot, feed, inbound)
        written = SentText()
        async for one in follow_answer(feed, inbound.id, waiting, start):
            if one.kind == "done" and one.data["problem"] not in ("", _REFUSED):
                raise NotCompleted(one.data["problem"], one.data["text"])
            if more := written.more(one):
                yield Delta(more)
            if one.kind == "done":
                yield Completed(one.data["text"], "stop", **one.data["usage"])
                return
        raise NotCompleted("unavailable", STOPPING)


_REFUSED = "command_refused"
"""A problem that is reported as text: a holder who may use commands reads the remedy in it."""
_MODEL = {"id": MODEL, "object": "model", "created": 0, "owned_by": "parley"}


def holder_of(request: Request) -> KeyHolder:
    """Return the authenticated user, as found by the guard."""
    holder: KeyHolder = getattr(request.state, HOLDER)
    return holder


def _conversation(request: Request, wanted: ChatRequest) -> str:
    """Return the conversation that a client names; "": none."""
    name = wanted.parley_conversation or request.headers.get(HEADER, "")
    if name and not re.fullmatch(NAME, name):
        raise Problem(400, f"{HEADER} may have up to 100 letters, digits and . @ : + ~ -")
    return name


def _address(holder: KeyHolder, name: str) -> Address:
    """Return the address of a conversation: the owner's are those of the page."""
    chat = f"{holder.user}/{name}" if holder.user else name
    return Address(CHANNEL, chat, user=holder.user)


def as_text(text: str) -> str:
    """Return a text that is not a command, even if it begins with a slash: two slashes escape
    one."""
    stripped = clean_text(text).lstrip()
    return f"/{stripped}" if stripped.startswith("/") else text


def exchanges(messages: Sequence[ChatMessage]) -> list[tuple[str, str]]:
    """Return the messages before the last user message, as questions and answers; consecutive
    questions are merged, and so are answers."""
    last = max(index for index, message in enumerate(messages) if message.role == "user")
    pairs: list[tuple[list[str], list[str]]] = []
    for message in messages[:last]:
        if message.role == "user" and (not pairs or pairs[-1][1]):
            pairs.append(([], []))
        if message.role in ("user", "assistant") and pairs and message.text:
            pairs[-1][message.role == "assistant"].append(message.text)
    return [
        ("\n\n".join(asked), "\n\n".join(answered))
        for asked, answered in pairs
        if asked and answered
    ]


async def while_connected(request: Request, happening: Happening) -> Happening:
    """Yield the events while the client is connected; close them when it disconnects. Raises
    ClientDisconnect then, or NotCompleted."""
    queue: asyncio.Queue[Delta | Completed | Exception | None] = asyncio.Queue()

    async def pump() -> None:
        try:
            async with aclosing(happening):
                async for one in happening:
                    queue.put_nowait(one)
            queue.put_nowait(None)
        except Exception as error:  # noqa: BLE001 - it is raised where the answer is read
            queue.put_nowait(error)

    async def watch() -> None:
        await _wait_for_disconnect(request)
        pumping.cancel()
        queue.put_nowait(ClientDisconnect())

    # Separate tasks: the server cancels a response again at each await, and the costs of the
    # request must be booked without interruption.
    pumping, watching = asyncio.create_task(pump()), asyncio.create_task(watch())
    _ENDING.update((pumping, watching))
    try:
        while (one := await queue.get()) is not None:
            if isinstance(one, Exception):
                raise one
            yield one
    finally:
        for task in (pumping, watching):
            task.add_done_callback(_ENDING.discard)
            task.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    """Wait until the client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class _Answer(Struct, frozen=True):
    """An answer in the shape of the protocol. `is_of_functions`: in the shape from before there
    were tools."""

    reports_usage: bool
    is_of_functions: bool
    frame: dict[str, Any] = field(
        default_factory=lambda: {
            "id": f"chatcmpl-{uuid4().hex}",
            "created": int(time.time()),
            "model": MODEL,
        }
    )

    def whole(self, done: Delta | Completed) -> dict[str, Any]:
        """Return the complete answer."""
        assert isinstance(done, Completed), "the whole comes last"
        message: dict[str, Any] = {"role": "assistant", "content": done.text, "refusal": None}
        if done.reasoning:
            message["reasoning_content"] = done.reasoning
        if done.calls:
            message |= {"content": done.text or None, **self._calls(done)}
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": self._reason(done),
        }
        return {
            **self.frame,
            "object": "chat.completion",
            "choices": [choice],
            "usage": usage(done),
        }

    async def chunks(self, first: Delta | Completed, rest: Happening) -> AsyncIterator[bytes]:
        """Yield the answer in pieces. An error on the way is sent as an error event, without an
        end."""
        yield self._chunk({"role": "assistant", "content": ""})
        try:
            async with aclosing(rest):
                for piece in self._pieces(first):
                    yield piece
                async for one in rest:
                    for piece in self._pieces(one):
                        yield piece
        except ClientDisconnect:
            return
        except NotCompleted as error:
            yield event(make_problem(error.problem, str(error)).data)
            return
        except Exception:
            log.exception("an answer failed while it was sent")
            yield event(Problem(500, FAILED).data)
            return
        yield event(b"[DONE]")

    def _pieces(self, one: Delta | Completed) -> list[bytes]:
        if isinstance(one, Delta):
            return [self._chunk({"content": one.text})]
        deltas: list[dict[str, Any]] = []
        if one.reasoning:
            deltas.append({"reasoning_content": one.reasoning})
        if one.calls and self.is_of_functions:
            deltas.append(self._calls(one))
        else:
            deltas += [_call_delta(index, call) for index, call in enumerate(_calls(one))]
        pieces = [self._chunk(delta) for delta in deltas]
        pieces.append(self._chunk({}, self._reason(one)))
        if self.reports_usage:
            whole = {"object": "chat.completion.chunk", "choices": [], "usage": usage(one)}
            pieces.append(event({**self.frame, **whole}))
        return pieces

    def _calls(self, done: Completed) -> dict[str, Any]:
        if self.is_of_functions:
            return {"function_call": _calls(done)[0]["function"]}
        return {"tool_calls": _calls(done)}

    def _reason(self, done: Completed) -> str:
        is_call = bool(done.calls) and self.is_of_functions
        return "function_call" if is_call else done.finish

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        usage: dict[str, Any] = {"usage": None} if self.reports_usage else {}
        whole = {**self.frame, "object": "chat.completion.chunk", "choices": [choice], **usage}
        return event(whole)


def _calls(done: Completed) -> list[dict[str, Any]]:
    return [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in done.calls
    ]


def _call_delta(index: int, call: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, **call}]}


def usage(done: Completed) -> dict[str, Any]:
    """Return the tokens of an answer, as OpenAI reports them."""
    return {
        "prompt_tokens": done.prompt,
        "completion_tokens": done.completion,
        "total_tokens": done.prompt + done.completion,
        "prompt_tokens_details": {"cached_tokens": done.cached},
    }


class SentText(Struct):
    """The text sent to a client; `step` is that of the current step. Streamed text can't be
    withdrawn here, so if the final answer differs (it was stopped or restarted), it follows as a
    whole."""

    step: str = ""
    is_empty: bool = True

    def more(self, one: FeedEvent) -> str:
        """Return the text that an event adds."""
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
