"""A strict loopback server that speaks Anthropic's Messages API, version 2026-10-21.

It answers from a queue (or asks a function), with the same answers as the fake of OpenAI's
protocol; it refuses what the API refuses, in its words, and keeps a cache by the API's rules: up to
four marks, prefixes of 1,024 tokens and more, found at a mark or up to 20 blocks before it, for
five minutes after each use. `clock` is that cache's, in seconds; tests move it. An unexpected
request and an unused answer both fail the test that used the server.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from anthropic.types import MessageCountTokensParams

from tests.fakes.openai_server import (
    Answer,
    Body,
    Break,
    Endpoint,
    Fail,
    Hang,
    Json,
    Received,
    Say,
    Script,
    StreamError,
    _forever,
    _pieces,
)

VERSION = "2026-10-21"
LIFETIME = 300.0
LEAST = 1024
LOOKBACK = 20
MOST_MARKS = 4
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True)
class Think(Say):
    """An answer with thoughts: `reasoning` is the first, `redacted` one that can't be read, and
    `again` one between the text and the calls."""

    redacted: str = ""
    again: str = ""


@dataclass(frozen=True)
class Counted:
    """The billed tokens of one request."""

    fresh: int
    read: int
    written: int
    said: int = 0

    @property
    def prompt(self) -> int:
        return self.fresh + self.read + self.written


def overflow(tokens: int, window: int) -> Fail:
    """Return the API's own words for a prompt that is too long."""
    return _invalid(f"prompt is too long: {tokens} tokens > {window} maximum")


@dataclass
class AnthropicServer(Endpoint):
    """The server, on a free port of the loopback interface; an asynchronous context manager.

    `window` is in tokens (bytes // 4; 0: no limit), `longest` the most that `max_tokens` may be,
    `key` is demanded when it is set. `reached` counts arrivals and `hung_up` the clients that left
    before their answer was whole. `bills` has what each request was counted at, `counted` what was
    to be counted alone.
    """

    script: Script = ()
    window: int = 0
    longest: int = 64_000
    models: Sequence[str] = ("claude-fake",)
    key: str = ""
    clock: float = 0.0
    base_url: str = ""
    requests: deque[Received] = field(default_factory=lambda: deque(maxlen=1000))
    bills: list[Counted] = field(default_factory=list)
    counted: list[Json] = field(default_factory=list)
    can_count: bool = True
    reached: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    hung_up: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    answers: deque[Answer] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._decide = self.script if callable(self.script) else self._next_answer
        if not callable(self.script):
            self.answers.extend(self.script)
        self._unexpected: list[str] = []
        self._cache: dict[str, float] = {}
        self._said: dict[str, list[Json]] = {}
        self._calls = itertools.count(1)
        self._runner = web.AppRunner(self._app(), handler_cancellation=True, shutdown_timeout=0.1)

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/messages", self._take)
        app.router.add_post("/v1/messages/count_tokens", self._count_tokens)
        app.router.add_get("/v1/models", self._list)
        return app

    def _next_answer(self, received: Received) -> Answer:
        if self.answers:
            return self.answers.popleft()
        self._unexpected.append(received.raw[-300:].decode(errors="replace"))
        return _invalid("the script of this test server has no answer left")

    async def _list(self, request: web.Request) -> web.StreamResponse:
        if refused := self._refuse_headers(request):
            return _failure(refused)
        data = [{"type": "model", "id": name, "display_name": name} for name in self.models]
        return web.json_response({"data": data, "has_more": False})

    async def _count_tokens(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.counted.append(body)
        if not self.can_count:
            return _failure(_error(404, "not_found_error", "Not found"))
        if extra := body.keys() - {*MessageCountTokensParams.__annotations__}:
            return _failure(_invalid(f"{min(extra)}: Extra inputs are not permitted"))
        if refused := self._refuse_headers(request) or self._refuse_messages(body):
            return _failure(refused)
        return web.json_response({"input_tokens": sum(size for _, size, _ in _prefixes(body))})

    async def _respond(self, request: web.Request, received: Received) -> web.StreamResponse:
        body = received.body
        if refused := self._refuse_headers(request) or self._refuse(body):
            return _failure(refused)
        tokens = sum(size for _, size, _ in _prefixes(body))
        if self.window and tokens > self.window:
            return _failure(overflow(tokens, self.window))
        if self.window and tokens + body["max_tokens"] > self.window:
            return _failure(
                _invalid(
                    f"input length and `max_tokens` exceed context limit: {tokens} + "
                    f"{body['max_tokens']} > {self.window}, decrease input length or `max_tokens` "
                    "and try again"
                )
            )
        answer = self._decide(received)
        match answer:
            case Fail():
                return _failure(answer)
            case Body():
                return web.Response(text=answer.text, content_type=answer.content_type)
            case Hang(text=""):
                return await _forever()
        counted = self._charge(body)
        content = self._content(answer if isinstance(answer, Say) else Say(answer.text, finish=""))
        for block in content:
            if block["type"] == "tool_use":
                self._said[block["id"]] = content
        return await self._send(request, body, answer, content, counted)

    # --- what the API counts and keeps ---

    def _charge(self, body: Json) -> Counted:
        """Charge a prompt: the cached part, and the part that is cached from now on."""
        alive = {name for name, until in self._cache.items() if until >= self.clock}
        total, places = 0, []
        for name, size, is_marked in _prefixes(body):
            total += size
            places.append((name, total, is_marked))
        marks = [n for n, (_, size, marked) in enumerate(places) if marked and size >= LEAST]
        read = 0
        for mark in marks:
            near = places[max(0, mark - LOOKBACK) : mark + 1]
            read = max([read, *(size for name, size, _ in near if name in alive)])
        end = max([read, *(places[mark][1] for mark in marks)])
        used = [places[mark][0] for mark in marks]
        used += [name for name, size, _ in places if size == read]
        self._cache |= dict.fromkeys(used, self.clock + LIFETIME)
        counted = Counted(total - end, read, end - read)
        self.bills.append(counted)
        return counted

    def _content(self, answer: Say) -> list[Json]:
        """Return the blocks of an answer, as they are without streaming."""
        made: list[Json] = []
        if answer.reasoning:
            made.append(_thought(answer.reasoning))
        if isinstance(answer, Think) and answer.redacted:
            made.append({"type": "redacted_thinking", "data": answer.redacted})
        if answer.text:
            made.append({"type": "text", "text": answer.text})
        if isinstance(answer, Think) and answer.again:
            made.append(_thought(answer.again))
        for call in answer.calls:
            own_id = call.id or f"toolu_{next(self._calls):04}"
            made.append(
                {
                    "type": "tool_use",
                    "id": own_id,
                    "name": call.name,
                    "input": _parsed(call.arguments or "{}"),
                }
            )
        return made

    # --- what the API refuses ---

    def _refuse_headers(self, request: web.Request) -> Fail | None:
        key = request.headers.get("Authorization", "").removeprefix("Bearer ")
        key = request.headers.get("x-api-key", key)
        if not key:
            return _error(401, "authentication_error", "Authorization header is required")
        if self.key and key != self.key:
            return _error(401, "authentication_error", "invalid API key")
        if request.headers.get("anthropic-version") != VERSION:
            return _invalid("anthropic-version: header is required")
        if request.method == "POST" and request.content_type != "application/json":
            return _invalid("content-type: must be application/json")
        return None

    def _refuse(self, body: Json) -> Fail | None:
        checks = (_bad_frame, _bad_thinking, _bad_tools)
        if complaint := next((said for check in checks if (said := check(body))), ""):
            return _invalid(complaint)
        if body["max_tokens"] > self.longest:
            return _invalid(
                f"max_tokens: {body['max_tokens']} > {self.longest}, which is the maximum allowed "
                f"number of output tokens for {body['model']}"
            )
        return self._refuse_messages(body)

    def _refuse_messages(self, body: Json) -> Fail | None:
        checks = (_bad_roles, _bad_blocks, _bad_ids, _bad_pairs, _bad_marks)
        if complaint := next((said for check in checks if (said := check(body))), ""):
            return _invalid(complaint)
        complaint = self._bad_thoughts(body)
        return _invalid(complaint) if complaint else None

    def _bad_thoughts(self, body: Json) -> str:
        """In a loop of tools, the model's thoughts must precede its calls unchanged."""
        messages = body["messages"]
        if _kinds(messages[-1]).isdisjoint({"tool_result"}) or len(messages) < 2:
            return ""
        place, said = len(messages) - 2, messages[-2]["content"]
        uses = [block["id"] for block in said if block["type"] == "tool_use"]
        known = next((self._said[use] for use in uses if use in self._said), None)
        if known is None:
            return ""
        thoughts = [(n, b) for n, b in enumerate(_bare(known)) if b["type"] in _THOUGHTS]
        given = [(n, b) for n, b in enumerate(_bare(said)) if b["type"] in _THOUGHTS]
        if given == thoughts:
            return ""
        is_off = body.get("thinking", {}).get("type") == "disabled"
        if given:
            return (
                f"messages.{place}.content.{given[0][0]}: `thinking` or `redacted_thinking` blocks "
                "in the latest assistant message cannot be modified. These blocks must remain as "
                "they were in the original response."
            )
        if is_off:
            return ""
        return (
            f"messages.{place}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
            f"found `{said[0]['type']}`. When `thinking` is enabled, a final `assistant` message "
            "must start with a thinking block."
        )

    # --- answering ---

    async def _send(
        self,
        request: web.Request,
        body: Json,
        answer: Say | Hang | Break | StreamError,
        content: list[Json],
        counted: Counted,
    ) -> web.StreamResponse:
        said = len(json.dumps(content)) // 4 + 1
        usage = {
            "input_tokens": counted.fresh,
            "cache_creation_input_tokens": counted.written,
            "cache_read_input_tokens": counted.read,
            "output_tokens": said,
        }
        finish = answer.finish if isinstance(answer, Say) else ""
        reason = _reason(finish, content)
        frame = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": usage,
        }
        if not body.get("stream"):
            return web.json_response(frame)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        send = _sender(response)
        begun: Json = {"content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}}
        await send({"type": "message_start", "message": frame | begun})
        await send({"type": "ping"})
        pieces = answer.pieces if isinstance(answer, Say) else 4
        events = list(_events(content, pieces))
        for number, event in enumerate(events):
            if isinstance(answer, Say) and answer.gate and number == len(events) // 2:
                await answer.gate.wait()
            await send(event)
        match answer:
            case Hang():
                return await _forever()
            case Break(is_polite=False) if request.transport is not None:
                request.transport.abort()
            case StreamError():
                await send({"type": "error", "error": answer.error})
            case Say() if reason:
                delta = {"stop_reason": reason, "stop_sequence": None}
                counts = {"output_tokens": said}
                await send({"type": "message_delta", "delta": delta, "usage": counts})
                await send({"type": "message_stop"})
        return response


_THOUGHTS = ("thinking", "redacted_thinking")
_REASONS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


def _reason(finish: str, content: Sequence[Json]) -> str:
    if finish == "stop" and any(block["type"] == "tool_use" for block in content):
        return "tool_use"
    return _REASONS.get(finish, finish)


def _thought(words: str) -> Json:
    signature = hashlib.sha256(words.encode()).hexdigest()
    return {"type": "thinking", "thinking": words, "signature": signature}


def _events(content: Sequence[Json], pieces: int) -> Iterator[Json]:
    for index, block in enumerate(content):
        opened = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}}
        start: Json = block | opened.get(block["type"], {"input": {}} if "input" in block else {})
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in _deltas(block, pieces):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}


def _parsed(arguments: str) -> Any:
    """Return the input of a tool; as its text if it is no JSON object. A model writes it piece by
    piece, and may be cut off or wrong (anthropic-sdk-python, issue 1265; vLLM, pull request
    34887)."""
    with suppress(ValueError):
        if isinstance(parsed := json.loads(arguments), dict):
            return parsed
    return arguments


def _deltas(block: Json, pieces: int) -> Iterator[Json]:
    match block["type"]:
        case "text":
            for piece in _pieces(block["text"], pieces):
                yield {"type": "text_delta", "text": piece}
        case "thinking":
            for piece in _pieces(block["thinking"], 2):
                yield {"type": "thinking_delta", "thinking": piece}
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "tool_use":
            yield {"type": "input_json_delta", "partial_json": ""}
            given = block["input"]
            text = given if isinstance(given, str) else json.dumps(given) if given else ""
            for piece in _pieces(text, 3):
                yield {"type": "input_json_delta", "partial_json": piece}


def _sender(response: web.StreamResponse) -> Callable[[Json], Awaitable[None]]:
    async def send(event: Json) -> None:
        data = json.dumps(event, ensure_ascii=False)
        await response.write(f"event: {event['type']}\ndata: {data}\n\n".encode())

    return send


def _error(status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> Fail:
    return Fail(status, {"type": kind, "message": message}, headers or {})


def _invalid(message: str) -> Fail:
    return _error(400, "invalid_request_error", message)


def _failure(answer: Fail) -> web.Response:
    if isinstance(answer.error, str):
        return web.Response(status=answer.status, text=answer.error, headers=answer.headers)
    whole = {"type": "error", "error": answer.error, "request_id": "req_1"}
    return web.json_response(whole, status=answer.status, headers=answer.headers)


# --- what the API caches ---


def _prefixes(body: Json) -> Iterator[tuple[str, int, bool]]:
    """Return (name of the prompt up to here, tokens of this block, whether it is marked) for each
    block: the tools, the system prompt, the messages. A change of thinking or of the choice of
    tools makes the messages another prompt."""
    so_far = hashlib.sha256(body["model"].encode())
    system = body.get("system", [])
    system = [{"type": "text", "text": system}] if isinstance(system, str) else system
    for block in (*body.get("tools", ()), *system):
        yield _prefix(so_far, "", block)
    rest = [body.get("tool_choice", {"type": "auto"}), body.get("thinking")]
    so_far.update(json.dumps(rest).encode())
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            yield _prefix(so_far, message["role"], block)


def _prefix(so_far: Any, role: str, block: Json) -> tuple[str, int, bool]:
    bare = {name: value for name, value in block.items() if name != "cache_control"}
    data = json.dumps([role, bare]).encode()
    so_far.update(data)
    return so_far.hexdigest(), len(data) // 4, "cache_control" in block


# --- what the API refuses ---

_KNOWN = frozenset(
    {
        "model",
        "max_tokens",
        "messages",
        "system",
        "tools",
        "tool_choice",
        "stream",
        "stop_sequences",
        "thinking",
        "output_config",
        "metadata",
        "service_tier",
        "cache_control",
    }
)
_FIELDS = {
    "text": {"text"},
    "image": {"source"},
    "document": {"source", "title", "context", "citations"},
    "tool_use": {"id", "name", "input"},
    "tool_result": {"tool_use_id", "content", "is_error"},
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
}
_BY = {"user": {"text", "image", "document", "tool_result"}}
_BY["assistant"] = {"text", "tool_use", "thinking", "redacted_thinking"}


def _bad_frame(body: Json) -> str:
    for name in ("model", "max_tokens", "messages"):
        if name not in body:
            return f"{name}: Field required"
    if extra := body.keys() - _KNOWN:
        return f"{min(extra)}: Extra inputs are not permitted"
    is_none = body["max_tokens"] < 1
    return "max_tokens: Input should be greater than or equal to 1" if is_none else ""


def _bad_thinking(body: Json) -> str:
    thinking = body.get("thinking", {})
    if thinking.get("type") != "enabled":
        return ""
    if thinking["budget_tokens"] < 1024:
        return "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
    if thinking["budget_tokens"] >= body["max_tokens"]:
        return "`max_tokens` must be greater than `thinking.budget_tokens`."
    return ""


def _bad_tools(body: Json) -> str:
    tools = body.get("tools", [])
    names = [tool.get("name", "") for tool in tools]
    if "tools" not in body and "tool_choice" in body:
        return "tool_choice: tool_choice may only be specified while providing tools."
    for number, tool in enumerate(tools):
        if not _ID.fullmatch(names[number]):
            return f"tools.{number}.custom.name: String should match pattern"
        if tool.get("input_schema", {}).get("type") != "object":
            return f"tools.{number}.custom.input_schema.type: Field required"
        if extra := tool.keys() - {"name", "description", "input_schema", "cache_control"}:
            return f"tools.{number}.custom.{min(extra)}: Extra inputs are not permitted"
    return "tools: Tool names must be unique." * (len({*names}) < len(names))


def _bad_roles(body: Json) -> str:
    messages = body["messages"]
    if not messages:
        return "messages: at least one message is required"
    roles = [message.get("role") for message in messages]
    if {*roles} - {"user", "assistant"}:
        return 'messages: Unexpected role. Allowed roles are "user" or "assistant".'
    if roles[0] != "user":
        return 'messages: first message must use the "user" role'
    if any(one == two for one, two in itertools.pairwise(roles)):
        return 'messages: roles must alternate between "user" and "assistant"'
    if roles[-1] == "assistant":
        last = messages[-1]["content"][-1]
        if last["type"] == "text" and last["text"] != last["text"].rstrip():
            return "messages: final assistant content cannot end with trailing whitespace"
    return ""


def _bad_blocks(body: Json) -> str:
    for number, message in enumerate(body["messages"]):
        if not message["content"]:
            return f"messages.{number}: all messages must have non-empty content"
        for place, block in enumerate(message["content"]):
            where = f"messages.{number}.content.{place}"
            kind = block.get("type")
            if kind not in _BY[message["role"]]:
                return f"{where}: unexpected block type {kind!r}"
            unmarked = {"cache_control"} if kind in _THOUGHTS else set()
            if (
                extra := block.keys() - {"type", *_FIELDS[kind], "cache_control"}
                | unmarked & block.keys()
            ):
                return f"{where}.{kind}.{min(extra)}: Extra inputs are not permitted"
            if kind == "text" and not block["text"]:
                return f"{where}.text: text content blocks must be non-empty"
            if kind == "text" and not block["text"].strip():
                return "messages: text content blocks must contain non-whitespace text"
            if kind == "thinking" and block != _thought(block["thinking"]):
                return f"{where}: Invalid `signature` in `thinking` block"
    return ""


def _bad_ids(body: Json) -> str:
    uses = [b for m in body["messages"] for b in m["content"] if b["type"] == "tool_use"]
    for use in uses:
        if not _ID.fullmatch(use["id"]) or not _ID.fullmatch(use["name"]):
            return "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        if not isinstance(use["input"], dict):
            return "tool_use.input: Input should be a valid dictionary"
    ids = [use["id"] for use in uses]
    return "messages: `tool_use` ids must be unique" * (len({*ids}) < len(ids))


def _bad_pairs(body: Json) -> str:
    before: set[str] = set()
    for number, message in enumerate(body["messages"]):
        blocks = message["content"]
        is_result = [block["type"] == "tool_result" for block in blocks]
        answered = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        if answered - before:
            return (
                f"messages.{number}.content.0: unexpected `tool_use_id` found in `tool_result` "
                f"blocks: {min(answered - before)}. Each `tool_result` block must have a "
                "corresponding `tool_use` block in the previous message."
            )
        if before - answered or (before and is_result != sorted(is_result, reverse=True)):
            return (
                f"messages.{number - 1}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {', '.join(sorted(before))}. Each `tool_use` block must have a"
                " corresponding `tool_result` block in the next message."
            )
        before = {block["id"] for block in blocks if block["type"] == "tool_use"}
    return f"messages: `tool_use` ids without results: {', '.join(sorted(before))}" * bool(before)


def _bad_marks(body: Json) -> str:
    marks = sum(is_marked for _, _, is_marked in _prefixes(body))
    if marks > MOST_MARKS:
        return (
            f"A maximum of {MOST_MARKS} blocks with cache_control may be provided. Found {marks}."
        )
    return ""


def _kinds(message: Json) -> set[str]:
    return {block["type"] for block in message["content"]}


def _bare(blocks: Sequence[Json]) -> list[Json]:
    return [{k: v for k, v in block.items() if k != "cache_control"} for block in blocks]
