"""OpenAI's Responses API: requests and answers of chat completions, in its shape.

An answer is a list of items, sent as events as it grows. No response is stored. Its items are, for
an hour and in memory, unless the client sends `store: false`: the AI SDK refers to earlier items by
id, and only sends them again if configured to.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, Literal
from uuid import uuid4

import orjson
from msgspec import Struct, field
from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from channels.base import Delta
from channels.message import ClientToolCall, Completed, NotCompleted
from channels.web.chat_shapes import MODEL
from channels.web.completions import (
    SESSION,
    CompletionOperations,
    Happening,
    holder_of,
    while_connected,
)
from channels.web.operations import (
    FAILED,
    Operation,
    Problem,
    as_json,
    body,
    event,
    make_problem,
    stream,
)
from channels.web.response_shapes import ResponseRequest, chat_request

log = logging.getLogger(__name__)

Json = dict[str, Any]
KEPT_FOR = 3_600.0
"""The seconds for which items are kept."""
MOST_KEPT = 32_000_000
"""The maximum bytes of all kept items; the oldest are evicted."""


class ResponseShape(BaseModel):
    """An answer, as the Responses API has it."""

    id: str
    object: Literal["response"]
    created_at: float
    status: str
    model: str
    output: list[dict[str, Any]]
    usage: dict[str, Any] | None


class StoredItems:
    """Items of answers, each for the holder of the key that requested it."""

    def __init__(self) -> None:
        self._items: OrderedDict[tuple[str, str], tuple[float, bytes]] = OrderedDict()
        self._bytes = 0

    def keep(self, user: str, items: list[Json]) -> None:
        for item in items:
            content = orjson.dumps(item)
            self._items[user, item["id"]] = (time.monotonic(), content)
            self._bytes += len(content)
        while self._items and (self._bytes > MOST_KEPT or self._is_old()):
            _, (_, content) = self._items.popitem(last=False)
            self._bytes -= len(content)

    def find(self, user: str, name: str) -> Json | None:
        """Return the item with this id; None if it does not exist, or has expired."""
        since, content = self._items.get((user, name), (0.0, b""))
        if not content or time.monotonic() - since > KEPT_FOR:
            return None
        found: Json = orjson.loads(content)
        return found

    def _is_old(self) -> bool:
        since, _ = next(iter(self._items.values()))
        return time.monotonic() - since > KEPT_FOR


class ResponseOperations(Struct, frozen=True):
    """The operations of the Responses API."""

    completions: CompletionOperations
    items: StoredItems = field(default_factory=StoredItems)

    @property
    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                "POST",
                "/v1/responses",
                "Answer the input, as OpenAI's Responses API does.",
                self.respond,
                takes=ResponseRequest,
                gives=ResponseShape,
                parameters=(SESSION,),
                problems=(400, 404, 413, 429, 500, 502, 503, 504),
                streams=True,
            ),
        )

    async def respond(self, request: Request) -> Response:
        wanted = await body(request, ResponseRequest, self.completions.most_bytes)
        user = holder_of(request).user
        try:
            asked = chat_request(wanted, partial(self.items.find, user))
            happening = await self.completions.begin(request, asked)
        except Problem as problem:
            raise _about_input(problem) from None
        answer = _GrowingResponse(wanted)
        events = while_connected(request, happening)
        try:
            if not wanted.stream:
                answer.add([one async for one in events][-1])
                self._keep(user, answer)
                return as_json(answer.response)
            first = await anext(events)  # an error before it has a status
        except NotCompleted as error:
            found = make_problem(error.problem, str(error), error.retry_after)
            raise _about_input(found) from None
        return stream(self._events(answer, first, events, user))

    def _keep(self, user: str, answer: _GrowingResponse) -> None:
        if answer.wanted.keeps_items:
            self.items.keep(user, answer.output)

    async def _events(
        self, answer: _GrowingResponse, first: Delta | Completed, rest: Happening, user: str
    ) -> AsyncIterator[bytes]:
        """Yield the answer as it grows. An error on the way is sent as a failed response."""
        pieces = answer.begin()
        try:
            async with aclosing(_with_first(first, rest)) as events:
                async for one in events:
                    pieces += answer.add(one)
                    if isinstance(one, Completed):
                        self._keep(user, answer)  # before the client can refer to its items
                    for piece in pieces:
                        yield piece
                    pieces = []
        except ClientDisconnect:
            return
        except NotCompleted as error:
            pieces = answer.fail(make_problem(error.problem, str(error)))
        except Exception:
            log.exception("a response failed while it was sent")
            pieces = answer.fail(Problem(500, FAILED))
        for piece in pieces:
            yield piece


async def _with_first(first: Delta | Completed, rest: Happening) -> Happening:
    async with aclosing(rest):
        yield first
        async for one in rest:
            yield one


def _about_input(problem: Problem) -> Problem:
    """Return the same problem for a request with `input` instead of messages."""
    if problem.param == "messages":
        problem.param = "input"
    return problem


class _GrowingResponse:
    """An answer in the shape of the API, and its events."""

    def __init__(self, wanted: ResponseRequest) -> None:
        self.wanted, self.output = wanted, list[Json]()
        self._number = 0
        self._message: Json | None = None
        self._text: list[str] = []
        self.response = _frame(wanted)

    def begin(self) -> list[bytes]:
        return [
            self._event(f"response.{state}", response=self.response)
            for state in ("created", "in_progress")
        ]

    def add(self, one: Delta | Completed) -> list[bytes]:
        if isinstance(one, Completed):
            return self.end(one)
        return [*self._open_message(), self._text_events(one.text)]

    def end(self, done: Completed) -> list[bytes]:
        """Return the remaining events: text that has not streamed, the reasoning, the calls, and
        the end."""
        events = list[bytes]()
        if self.wanted.wants_thoughts and done.reasoning and self._message is None:
            events += self._thoughts(done.reasoning)
        if not self._text and (done.text or not done.calls):
            events += [*self._open_message(), self._text_events(done.text)]
        is_whole = done.finish in ("stop", "tool_calls")
        status = "completed" if is_whole else "incomplete"
        if self._message is not None:
            events += self._close_message(status)
        if self.wanted.wants_thoughts and done.reasoning and not self._has("reasoning"):
            events += self._thoughts(done.reasoning)
        for call in done.calls:
            events += self._call(call)
        self.response |= {
            "status": status,
            "output": self.output,
            "usage": _usage(done),
            "completed_at": int(time.time()) if is_whole else None,
        }
        if not is_whole:
            reason = "max_output_tokens" if done.finish == "length" else "content_filter"
            self.response["incomplete_details"] = {"reason": reason}
        return [*events, self._event(f"response.{status}", response=self.response)]

    def fail(self, problem: Problem) -> list[bytes]:
        error: Mapping[str, Any] = problem.data["error"]
        code, sentence = error["code"] or "server_error", error["message"]
        if self._message is not None:
            self.output.append({**self._message, "status": "incomplete"})
        self.response |= {
            "status": "failed",
            "output": self.output,
            "error": {"code": code, "message": sentence},
        }
        return [
            self._event("error", code=code, message=sentence, param=error["param"]),
            self._event("response.failed", response=self.response),
        ]

    def _has(self, kind: str) -> bool:
        return any(item["type"] == kind for item in self.output)

    def _open_message(self) -> Iterator[bytes]:
        if self._message is not None:
            return
        self._message = {
            "id": f"msg_{uuid4().hex}",
            "type": "message",
            "role": "assistant",
            "status": "in_progress",
            "content": [],
        }
        yield self._added(self._message)
        yield self._piece_event("response.content_part.added", self._message, part=_text_part(""))

    def _text_events(self, text: str) -> bytes:
        assert self._message is not None
        self._text.append(text)
        return self._piece_event(
            "response.output_text.delta", self._message, delta=text, logprobs=[]
        )

    def _close_message(self, status: str) -> list[bytes]:
        assert self._message is not None
        message, text = self._message, "".join(self._text)
        part = _text_part(text)
        events = [
            self._piece_event("response.output_text.done", message, text=text, logprobs=[]),
            self._piece_event("response.content_part.done", message, part=part),
        ]
        return [*events, self._done({**message, "status": status, "content": [part]})]

    def _thoughts(self, text: str) -> list[bytes]:
        item = {"id": f"rs_{uuid4().hex}", "type": "reasoning", "summary": []}
        part = {"type": "summary_text", "text": text}
        kind, place = "response.reasoning_summary", {"summary_index": 0}
        events = [
            self._added(item),
            self._of(f"{kind}_part.added", item, **place, part={**part, "text": ""}),
            self._of(f"{kind}_text.delta", item, **place, delta=text),
            self._of(f"{kind}_text.done", item, **place, text=text),
            self._of(f"{kind}_part.done", item, **place, part=part),
        ]
        return [*events, self._done({**item, "summary": [part]})]

    def _call(self, call: ClientToolCall) -> list[bytes]:
        item = {
            "id": f"fc_{uuid4().hex}",
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": "",
            "status": "in_progress",
        }
        whole, kind = call.arguments, "response.function_call_arguments"
        events = [self._added(item)]
        if whole:
            events.append(self._of(f"{kind}.delta", item, delta=whole))
        events.append(self._of(f"{kind}.done", item, name=call.name, arguments=whole))
        return [*events, self._done({**item, "arguments": whole, "status": "completed"})]

    def _added(self, item: Json) -> bytes:
        return self._event(
            "response.output_item.added", output_index=len(self.output), item=dict(item)
        )

    def _done(self, item: Json) -> bytes:
        event = self._event("response.output_item.done", output_index=len(self.output), item=item)
        self.output.append(item)
        return event

    def _piece_event(self, kind: str, item: Json, **data: Any) -> bytes:
        """Return an event about the only piece of an item."""
        return self._of(kind, item, content_index=0, **data)

    def _of(self, kind: str, item: Json, **data: Any) -> bytes:
        """Return an event about the current item."""
        return self._event(kind, item_id=item["id"], output_index=len(self.output), **data)

    def _event(self, kind: str, **data: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        return event({"type": kind, "sequence_number": number, **data}, kind)


def _text_part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(done: Completed) -> Json:
    """Return the usage of an answer, as this API reports it. Unknown parts are 0."""
    return {
        "input_tokens": done.prompt,
        "input_tokens_details": {"cached_tokens": done.cached, "cache_write_tokens": 0},
        "output_tokens": done.completion,
        "output_tokens_details": {"reasoning_tokens": done.thought},
        "total_tokens": done.prompt + done.completion,
    }


def _frame(wanted: ResponseRequest) -> Json:
    """Return a response that has just begun; it repeats the request, as the API does."""
    data = wanted.model_dump(by_alias=True)
    text, reasoning = data["text"] or {}, data["reasoning"] or {}
    tools = [{"parameters": None, "strict": None, **one} for one in data["tools"] or ()]
    form = {name: value for name, value in (text.get("format") or {}).items() if value is not None}
    return {
        "id": f"resp_{uuid4().hex}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "completed_at": None,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": wanted.instructions,
        "max_output_tokens": wanted.max_output_tokens,
        "metadata": wanted.metadata if isinstance(wanted.metadata, dict) else {},
        "model": MODEL,
        "output": [],
        "parallel_tool_calls": wanted.parallel_tool_calls is not False,
        "previous_response_id": None,
        "reasoning": {"effort": reasoning.get("effort"), "summary": reasoning.get("summary")},
        "store": False,
        "temperature": 1.0 if wanted.temperature is None else wanted.temperature,
        "text": {"format": form or {"type": "text"}, "verbosity": text.get("verbosity")},
        "tool_choice": wanted.tool_choice or "auto",
        "tools": tools,
        "top_p": 1.0 if wanted.top_p is None else wanted.top_p,
        "truncation": "disabled",
        "usage": None,
        "user": wanted.user if isinstance(wanted.user, str) else None,
    }
