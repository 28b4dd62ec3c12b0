"""A strict loopback server that speaks OpenAI's chat-completions protocol.

It answers from a queue (or asks a function), refuses with a 400 what OpenAI refuses, and reports
usage with cached tokens by OpenAI's rule. An unexpected request and an unused answer both fail the
test that used the server. `python -m tests.fakes.openai_server --text …` runs it as a process of
its own that always gives the same answer at once, for benchmarks.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web
from openai.types.chat.completion_create_params import CompletionCreateParamsBase

from tests.fakes import openai_responses
from tests.fakes.purposes import purpose_of
from tests.fakes.voice_server import VoiceServer

CACHE_FLOOR = 1024
CACHE_STEP = 128
"""OpenAI caches prompts from 1,024 tokens on, in steps of 128."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A tool call to stream. An empty id is left out, as some endpoints do."""

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True)
class Say:
    """A whole answer: text in `pieces` chunks, then tool calls. `finish` "" sends no reason. The
    second half of a stream waits for `gate`."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    finish: str = "stop"
    pieces: int = 4
    gate: asyncio.Event | None = None


@dataclass(frozen=True)
class Fail:
    """An HTTP error. `error` is OpenAI's error object; a str is the body itself."""

    status: int
    error: Json | str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hang:
    """Stream `text` and then nothing; without text not even the headers are sent."""

    text: str = ""


@dataclass(frozen=True)
class Break:
    """Stream `text`, then drop the connection; `is_polite` ends the body as if it were complete."""

    text: str
    is_polite: bool = False


@dataclass(frozen=True)
class StreamError:
    """Stream `text`, then an error object in the stream."""

    error: Json
    text: str = ""


@dataclass(frozen=True)
class Body:
    """A 200 with a body that is no stream: HTML, JSON, or nothing."""

    text: str
    content_type: str = "text/html"


@dataclass(frozen=True)
class Received:
    """A request that reached the server: the parsed body and its bytes."""

    body: Json
    raw: bytes
    headers: Mapping[str, str]

    @property
    def is_turn(self) -> bool:
        return purpose_of(self.body) == "turn"

    @property
    def is_summary(self) -> bool:
        return purpose_of(self.body) == "summary"

    @property
    def is_distilling(self) -> bool:
        return purpose_of(self.body) == "memory"

    @property
    def is_title(self) -> bool:
        return purpose_of(self.body) == "title"


class Endpoint:
    """A fake endpoint on a free port, an asynchronous context manager, with the requests that
    reached it. Background work sends requests at any time: a test selects the ones that it
    checks."""

    base_url: str
    requests: deque[Received]
    answers: deque[Answer]
    reached: asyncio.Semaphore
    hung_up: asyncio.Semaphore
    _unexpected: list[str]
    _runner: web.AppRunner

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close()
        if kind is None:
            self.assert_done()

    async def start(self, port: int = 0) -> None:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        self.base_url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"

    async def close(self) -> None:
        await self._runner.cleanup()

    def assert_done(self) -> None:
        """Fail if a request was not in the script, or an answer was not requested."""
        assert not self._unexpected, f"the server was asked unexpectedly: {self._unexpected}"
        assert not self.answers, f"the server still holds answers: {list(self.answers)}"

    async def _take(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        received = Received(json.loads(raw), raw, dict(request.headers))
        self.requests.append(received)
        self.reached.release()
        try:
            return await self._respond(request, received)
        except asyncio.CancelledError:
            self.hung_up.release()
            raise

    async def _respond(self, request: web.Request, received: Received) -> web.StreamResponse:
        raise NotImplementedError

    @property
    def turns(self) -> list[Received]:
        return [request for request in self.requests if request.is_turn]

    @property
    def summaries(self) -> list[Received]:
        return [request for request in self.requests if request.is_summary]

    @property
    def distillations(self) -> list[Received]:
        return [request for request in self.requests if request.is_distilling]

    @property
    def titles(self) -> list[Received]:
        return [request for request in self.requests if request.is_title]


Answer = Say | Fail | Hang | Break | StreamError | Body
Script = Iterable[Answer] | Callable[[Received], Answer]


def echo(request: Received) -> Say:
    """Answer with the last message."""
    return Say(f"re: {request.body['messages'][-1]['content']}")


def echo_in_bold(request: Received) -> Say:
    return Say(f"**re:** {request.body['messages'][-1]['content']}")


def llama_overflow(tokens: int, window: int) -> Fail:
    """The overflow of llama.cpp's server: `code` is a number and the sizes have fields."""
    return Fail(
        400,
        {
            "code": 400,
            "message": f"request ({tokens} tokens) exceeds the available context size "
            f"({window} tokens), try increasing it",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": tokens,
            "n_ctx": window,
        },
    )


def openai_overflow(tokens: int, window: int) -> Fail:
    """Return the overflow of OpenAI, and of most servers with its protocol."""
    return Fail(
        400,
        {
            "message": f"This model's maximum context length is {window} tokens. However, your "
            f"messages resulted in {tokens} tokens.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        },
    )


_FIELD: web.AppKey[Callable[[], str]] = web.AppKey("thoughts")


class OpenAIServer(Endpoint):
    """The server, on a free port of the loopback interface; an asynchronous context manager.

    `window` is in tokens, as `counts` has it (bytes // 4, unless a test says otherwise); longer
    requests are answered with `overflow`, and `refused` counts them. 0: no limit.
    `cuts_at` is in tokens too: what is longer is cut in silence, as Ollama does, and only the
    reported prompt tells (0: nothing is). `ollama` are the windows of models, by their names, that
    Ollama's own API tells of. `models` are what is listed, by their names or as whole entries
    (None: it has no list), `documents` what else is found there, by its path. `call_ids` is how
    many letters and digits the id of a call must have, as Mistral wants it (0: any will do), and
    `thoughts` is the field in which thoughts must go back with calls, as some want it ("": nobody
    knows one); `only_responses` are models that the Responses API serves, and chat completions do
    not. `key` is demanded when it is set. `reached` counts arrivals and `hung_up` the clients that
    left before their answer was whole: tests wait on them instead of sleeping.
    Titles of conversations are no part of the script: `titler` answers what asks for one.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        window: int = 0,
        overflow: Callable[[int, int], Fail] = openai_overflow,
        models: Sequence[str | Mapping[str, Any]] | None = ("fake-model",),
        key: str = "",
        cuts_at: int = 0,
        ollama: Mapping[str, int] | None = None,
    ) -> None:
        self.requests: deque[Received] = deque(maxlen=1000)
        self.reached = asyncio.Semaphore(0)
        self.hung_up = asyncio.Semaphore(0)
        self.base_url = ""
        self.answers: deque[Answer] = deque(() if callable(script) else script)
        self._decide = script if callable(script) else self._next_answer
        self.titler: Callable[[Received], Answer] = lambda request: Say("")
        self._window = window
        self._overflow = overflow
        self._models = models
        self._key = key
        self._cuts_at = cuts_at
        self._ollama = ollama or {}
        self.documents: Mapping[str, Json] = {}
        self.call_ids = 0
        self.thoughts = ""
        self.known: set[str] = set()  # parameters beyond OpenAI's
        self.only_responses: frozenset[str] = frozenset()
        self.counts: Callable[[bytes], int] = lambda prompt: len(prompt) // 4
        self.refused = 0
        self.listings = 0
        self._unexpected: list[str] = []
        self.voice = VoiceServer(self._unexpected, key)
        self._prompts: deque[bytes] = deque(maxlen=32)
        self._runner = web.AppRunner(self._app(), handler_cancellation=True, shutdown_timeout=0.1)

    def assert_done(self) -> None:
        super().assert_done()
        self.voice.assert_done()

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=64 << 20)
        app[_FIELD] = lambda: self.thoughts
        for root in ("/v1", "/openai/v1"):  # the second is Azure's and Bedrock's
            app.router.add_post(f"{root}/chat/completions", self._take)
        app.router.add_post("/v1/responses", self._take)
        app.router.add_get("/v1/models", self._list)
        self.voice.serve(app)
        app.router.add_post("/api/show", self._show)
        app.router.add_get("/api/ps", self._loaded)
        app.router.add_route("*", "/{place:.*}", self._find)
        return app

    def _next_answer(self, received: Received) -> Answer:
        if self.answers:
            return self.answers.popleft()
        self._unexpected.append(received.raw[-300:].decode(errors="replace"))
        return Fail(400, {"message": "the script of this test server has no answer left"})

    def _is_allowed(self, request: web.Request) -> bool:
        return not self._key or request.headers.get("Authorization") == f"Bearer {self._key}"

    async def _list(self, request: web.Request) -> web.StreamResponse:
        if not self._is_allowed(request):
            return _failure(_WRONG_KEY)
        self.listings += 1
        if self._models is None:
            return _failure(Fail(404, {"message": "Not found"}))
        usual = {"object": "model", "created": 0}
        named = [{"id": one} if isinstance(one, str) else one for one in self._models]
        data = [{**usual, **one} for one in named]
        return web.json_response({"object": "list", "data": data})

    async def _show(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        name = asked.get("model") or asked.get("name")
        if name not in self._ollama:
            return web.json_response({"error": f"model '{name}' not found"}, status=404)
        return web.json_response(_ollama_model(self._ollama[name]))

    async def _loaded(self, request: web.Request) -> web.StreamResponse:
        loaded = [
            {"name": name, "model": name, "context_length": window}
            for name, window in self._ollama.items()
        ]
        return web.json_response({"models": loaded})

    async def _find(self, request: web.Request) -> web.StreamResponse:
        if request.path not in self.documents:
            return _failure(Fail(404, {"message": "Not found"}))
        return web.json_response(self.documents[request.path])

    async def _respond(self, request: web.Request, received: Received) -> web.StreamResponse:
        if not self._is_allowed(request):
            return _failure(_WRONG_KEY)
        by_responses = request.path == "/v1/responses"
        if not by_responses and received.body.get("model") in self.only_responses:
            return _failure(_ONLY_RESPONSES)
        if complaint := self._report_error(received.body, by_responses):
            return _failure(Fail(400, {"message": complaint, "type": "invalid_request_error"}))
        as_prompt = openai_responses.prompt_bytes if by_responses else prompt_bytes
        prompt = as_prompt(received.body)
        tokens = self.counts(prompt)
        if self._window and tokens > self._window:
            self.refused += 1
            return _failure(self._overflow(tokens, self._window))
        counted = min(tokens, self._cuts_at or tokens)
        cached = min(counted, cached_tokens(prompt, self._prompts))
        self._prompts.append(prompt)
        act = _act_by_responses if by_responses else _act
        decide = self.titler if received.is_title else self._decide
        return await act(request, received, decide(received), (counted, cached))

    def _report_error(self, body: Json, by_responses: bool) -> str:
        if by_responses:
            return openai_responses.refusal(body)
        bad = refusal({n: value for n, value in body.items() if n not in self.known})
        bad = bad or _bad_ids(body, self.call_ids)
        return bad or _bad_thoughts(body, self.thoughts)


_ONLY_RESPONSES = Fail(
    404,
    {
        "message": "This model is only supported in v1/responses and not in v1/chat/completions.",
        "type": "invalid_request_error",
        "param": "model",
        "code": None,
    },
)
_WRONG_KEY = Fail(
    401, {"message": "Incorrect API key provided: sk-wrong.", "code": "invalid_api_key"}
)


# --- what the provider counts ---


def prompt_bytes(body: Json) -> bytes:
    """Return the prompt as the provider's cache sees it: the tools, then the messages."""
    return json.dumps([*body.get("tools", ()), *body.get("messages", ())]).encode()


def cached_tokens(prompt: bytes, earlier: Iterable[bytes]) -> int:
    """Return how much of the prompt is byte for byte the beginning of an earlier one, by OpenAI's
    rule."""
    tokens = max((_shared(prompt, other) // 4 for other in earlier), default=0)
    return tokens // CACHE_STEP * CACHE_STEP if tokens >= CACHE_FLOOR else 0


def _shared(one: bytes, other: bytes) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one.startswith(other[:middle]) else (low, middle - 1)
    return low


def _usage(answer: Say, counted: tuple[int, int]) -> Json:
    prompt, cached = counted
    said = answer.text + answer.reasoning + "".join(c.name + c.arguments for c in answer.calls)
    completion = len(said.encode()) // 4 + 1
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": len(answer.reasoning.encode()) // 4},
    }


def _ollama_model(window: int) -> Json:
    """Return the response of Ollama's /api/show for a model: its maximum window, and the one it
    runs with."""
    return {
        "parameters": f"num_ctx                        {window}",
        "model_info": {"general.architecture": "llama", "llama.context_length": 131_072},
        "capabilities": ["completion", "tools"],
    }


# --- what the provider refuses ---


def refusal(body: Json) -> str:
    """Return OpenAI's refusal of a request, or "" if it is accepted."""
    checks = (_bad_frame, _bad_tools, _bad_roles, _bad_calls, _bad_pairs)
    return next((complaint for check in checks if (complaint := check(body))), "")


_KNOWN = {*CompletionCreateParamsBase.__annotations__, "stream"}


def _bad_frame(body: Json) -> str:
    if unknown := body.keys() - _KNOWN:
        return f"Unrecognized request argument supplied: {min(unknown)}"
    if not body.get("model"):
        return "you must provide a model parameter"
    if not body.get("messages"):
        return "Invalid 'messages': empty array. Expected an array with minimum length 1."
    if "stream_options" in body and not body.get("stream"):
        return "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    return ""


def _bad_tools(body: Json) -> str:
    if "tools" not in body:
        return "'tool_choice' is only allowed when 'tools' are specified." * ("tool_choice" in body)
    names = [tool["function"]["name"] for tool in body["tools"]]
    if not names:
        return "Invalid 'tools': empty array. Expected an array with minimum length 1."
    if "" in names:
        return "Invalid 'tools[0].function.name': empty string."
    if len(set(names)) < len(names):
        return "Tool names must be unique."
    return ""


def _bad_roles(body: Json) -> str:
    for message in body["messages"]:
        if message.get("role") not in ("system", "developer", "user", "assistant", "tool"):
            return f"Invalid value: {message.get('role')!r}."
        if message.get("content") is None and not message.get("tool_calls"):
            return "Invalid value for 'content': expected a string, got null."
    return ""


def _bad_calls(body: Json) -> str:
    for call in itertools.chain.from_iterable(map(_calls_of, body["messages"])):
        if not call.get("id") or not call["function"]["name"]:
            return "Invalid 'tool_calls': a call needs an id and a function name."
        try:
            json.loads(call["function"]["arguments"])
        except ValueError:
            return "Invalid 'tool_calls[0].function.arguments': not valid JSON."
    return ""


def _bad_pairs(body: Json) -> str:
    open_calls: set[str] = set()
    for message in body["messages"]:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                return (
                    "messages with role 'tool' must be a response to a preceeding message "
                    "with 'tool_calls'."
                )
            open_calls.remove(message["tool_call_id"])
        elif open_calls:
            break
        open_calls |= {call["id"] for call in _calls_of(message)}
    if not open_calls:
        return ""
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        f"each 'tool_call_id'. Without response: {', '.join(sorted(open_calls))}"
    )


_THOUGHTS = ("reasoning_content", "reasoning_details")


def _bad_thoughts(body: Json, field: str) -> str:
    """Return the refusal of DeepSeek, OpenRouter and Gemini if thoughts are missing, and of others
    if there are any."""
    last = max(n for n, one in enumerate(body["messages"]) if one["role"] in ("user", "system"))
    for number, message in enumerate(body["messages"]):
        calls = _calls_of(message)
        for name in _THOUGHTS:
            if name in message and name != field:
                return f"Unknown parameter: 'messages[{number}].{name}'."
            if calls and name == field == "reasoning_content" and name not in message:
                return (
                    "The `reasoning_content` in the thinking mode must be passed back to the API."
                )
        signed = [bool(call.get("extra_content", {}).get("google")) for call in calls]
        if any(signed) and field != "extra_content":
            return f"Unknown parameter: 'messages[{number}].tool_calls[0].extra_content'."
        if field == "extra_content" and calls and number > last and not signed[0]:
            return "Function call is missing a thought_signature in functionCall parts."
    return ""


def _bad_ids(body: Json, length: int) -> str:
    """Return Mistral's refusal of the id of a call."""
    ids = [call["id"] for message in body["messages"] for call in _calls_of(message)]
    wrong = [one for one in ids if not re.fullmatch(f"[a-zA-Z0-9]{{{length}}}", one)]
    if not length or not wrong:
        return ""
    return f"Tool call id was {wrong[0]} but must be a-z, A-Z, 0-9, with a length of {length}."


def _calls_of(message: Json) -> list[Json]:
    return message.get("tool_calls") or []


# --- answering ---


async def _act(
    request: web.Request, received: Received, answer: Answer, counted: tuple[int, int]
) -> web.StreamResponse:
    match answer:
        case Fail():
            return _failure(answer)
        case Body():
            return web.Response(text=answer.text, content_type=answer.content_type)
        case Hang(text=""):
            return await _forever()
        case Say() if not received.body.get("stream"):
            return web.json_response(_whole(received.body["model"], answer, counted))
        case _:
            return await _stream(request, received.body, answer, counted)


async def _act_by_responses(
    request: web.Request, received: Received, answer: Answer, counted: tuple[int, int]
) -> web.StreamResponse:
    match answer:
        case Fail() | Body() | Hang(text=""):
            return await _act(request, received, answer, counted)
    saying = answer if isinstance(answer, Say) else Say(answer.text, finish="")
    output = openai_responses.output_of(saying.text, saying.reasoning, saying.calls)
    usage = openai_responses.usage_of(output, saying.reasoning, counted)
    model = received.body["model"]
    whole = openai_responses.response_of(model, output, usage, saying.finish)
    if not received.body.get("stream"):
        return web.json_response(whole)
    begun = openai_responses.response_of(model, [], None, "")
    events = list(openai_responses.events_of(output, saying.reasoning, saying.pieces))
    if not isinstance(answer, Say):  # the rest after the beginning is missing
        events = [event for event in events if not event["type"].endswith("item.done")]
    events.insert(0, {"type": "response.created", "response": begun})
    if isinstance(answer, StreamError):
        error = {"code": "server_error", **answer.error}
        events.append({"type": "response.failed", "response": {**begun, "error": error}})
    if isinstance(answer, Say) and saying.finish:
        kind = "incomplete" if whole["incomplete_details"] else "completed"
        events.append({"type": f"response.{kind}", "response": whole})
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    for number, data in enumerate(openai_responses.frame(events)):
        if saying.gate and number == len(events) // 2:
            await saying.gate.wait()
        await response.write(data)
    match answer:
        case Hang():
            return await _forever()
        case Break(is_polite=False) if request.transport is not None:
            request.transport.abort()
    return response


def _failure(answer: Fail) -> web.Response:
    if isinstance(answer.error, str):
        return web.Response(status=answer.status, text=answer.error, headers=answer.headers)
    return web.json_response({"error": answer.error}, status=answer.status, headers=answer.headers)


async def _forever() -> web.Response:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def _stream(
    request: web.Request,
    body: Json,
    answer: Say | Hang | Break | StreamError,
    counted: tuple[int, int],
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    send = _sender(response, body["model"])
    saying = answer if isinstance(answer, Say) else Say(answer.text, finish="")
    chosen = list(choices(saying, request.app[_FIELD]()))
    for number, choice in enumerate(chosen):
        if saying.gate and number == len(chosen) // 2:
            await saying.gate.wait()
        await send({"choices": [choice]})
    match answer:
        case Hang():
            return await _forever()
        case Break(is_polite=False) if request.transport is not None:
            request.transport.abort()
        case StreamError():
            await response.write(_event({"error": answer.error}))
        case Say():
            if body.get("stream_options", {}).get("include_usage"):
                await send({"choices": [], "usage": _usage(answer, counted)})
            await response.write(b"data: [DONE]\n\n")
    return response


def _sender(response: web.StreamResponse, model: str) -> Callable[[Json], Awaitable[None]]:
    frame = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": model}

    async def send(chunk: Json) -> None:
        await response.write(_event(frame | chunk))

    return send


def _event(data: Json) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


def choices(answer: Say, field: str = "") -> Iterator[Json]:
    """Yield the `choices[0]` of each chunk, in order: role, reasoning, text, tool calls, reason.
    `field` has the part that must be sent back."""
    deltas = itertools.chain(
        [{"role": "assistant", "content": ""}],
        (_thought(piece, field) for piece in _pieces(answer.reasoning, 2)),
        ({"content": piece} for piece in _pieces(answer.text, answer.pieces)),
        _call_deltas(answer.calls, field == "extra_content"),
    )
    for delta in deltas:
        yield {"index": 0, "delta": delta, "finish_reason": None}
    if answer.finish:
        yield {"index": 0, "delta": {}, "finish_reason": _finish(answer)}


def _thought(piece: str, field: str) -> Json:
    if field != "reasoning_details":
        return {"reasoning_content": piece}
    detail = {"type": "reasoning.text", "index": 0, "text": piece, "signature": None}
    return {"reasoning": piece, "reasoning_details": [detail]}


def _call_deltas(calls: Sequence[Call], is_signed: bool = False) -> Iterator[Json]:
    for index, call in enumerate(calls):
        opening: Json = {
            "index": index,
            "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }
        if is_signed and index == 0:  # Gemini signs the first of several
            opening["extra_content"] = {"google": {"thought_signature": f"signed-{call.name}"}}
        yield {"tool_calls": [opening | ({"id": call.id} if call.id else {})]}
    # Real endpoints finish one call before the next; interleaving is the harder case.
    cut = [list(_pieces(call.arguments, 3)) for call in calls]
    for row in itertools.zip_longest(*cut):
        for index, piece in enumerate(row):
            if piece is not None:
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _pieces(text: str, count: int) -> Iterator[str]:
    size = max(1, -(-len(text) // count))
    return (text[start : start + size] for start in range(0, len(text), size))


def _finish(answer: Say) -> str:
    return "tool_calls" if answer.calls and answer.finish == "stop" else answer.finish


def _whole(model: str, answer: Say, counted: tuple[int, int]) -> Json:
    message: Json = {"role": "assistant", "content": answer.text or None}
    if answer.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in answer.calls
        ]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": _finish(answer)}],
        "usage": _usage(answer, counted),
    }


# --- a process of its own ---


def main() -> None:
    parser = argparse.ArgumentParser(
        description="An OpenAI-compatible server that answers at once."
    )
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one and prints it")
    parser.add_argument("--text", default="The quick brown fox jumps over the lazy dog. " * 5)
    parser.add_argument(
        "--pieces", type=int, default=20, help="chunks that the text is streamed in"
    )
    arguments = parser.parse_args()
    asyncio.run(_serve(arguments.port, Say(arguments.text, pieces=arguments.pieces)))


DIARY = "=== Diary ==="
"""The line between the two parts of a summary that continues another (decision 12)."""


async def _serve(port: int, answer: Say) -> None:
    def decide(request: Received) -> Say:
        """Return the answer; in two parts if a summary is requested in that form, as models do."""
        is_in_parts = DIARY in str(request.body["messages"][0]["content"])
        return Say(f"{answer.text}\n{DIARY}\n{answer.text}") if is_in_parts else answer

    server = OpenAIServer(decide)
    await server.start(port)
    print(server.base_url, flush=True)  # noqa: T201 - its reader waits for this line
    await asyncio.Event().wait()


if __name__ == "__main__":
    main()
