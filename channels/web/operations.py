"""The operations over HTTP, as values from which routes and the OpenAPI document are made."""

from __future__ import annotations

import asyncio
import gzip
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import orjson
from msgspec import Struct
from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from channels.language import ENGLISH, asked_in, choose, explain, speaking
from channels.web.shapes import Failure, failure, kind_of

_ALTERNATIVES = re.compile(r"str|int|float|bool|(dict|tuple|list)\[.*|constrained-.*")
"""The names with which pydantic marks, within a place, the alternatives that it tried there."""
_KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}
_WORTH_PACKING = 8_000  # bytes
_FAST = 1  # the level of compression: the context is asked for after each answer
_BOUNDS = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "too_short": "must not be empty",
    "too_long": "has more than {max_length:,} entries",
    "string_too_short": "must not be empty",
    "string_too_long": "may have at most {max_length:,} characters",
    "string_pattern_mismatch": "has characters that it may not have, or too many",
    "literal_error": "must be {expected}",
    "base64_decode": "must be base64",
    "missing": "is missing",
    "extra_forbidden": "is not known here",
}


def explain_validation_error(error: ValidationError) -> str:
    """Return the sentence for a validation error."""
    faults = error.errors(include_url=False, include_input=False)
    if faults[0]["type"] == "json_invalid":
        return f"The body is not valid JSON: {faults[0]['ctx']['error']}."
    first = _place(faults[0]["loc"])
    # Of several alternatives, the one that was validated furthest is assumed.
    inner = [_place(f["loc"]) for f in faults if _place(f["loc"])[: len(first)] == first]
    place = next((one for one in inner if len(one) > len(first)), first)
    there = [fault for fault in faults if _place(fault["loc"]) == place]
    return f"{'.'.join(place) or 'The body'} {_describe_errors(there)}."


def _place(loc: Sequence[int | str]) -> tuple[str, ...]:
    return tuple(str(one) for one in loc if not _ALTERNATIVES.fullmatch(str(one)))


def _describe_errors(faults: Sequence[Mapping[str, Any]]) -> str:
    kinds = dict.fromkeys(_KINDS[f["type"]] for f in faults if f["type"] in _KINDS)
    if too_long := [fault for fault in faults if fault["type"] == "too_long"]:
        faults = too_long  # errors of other alternatives do not help
    elif kinds:
        return f"must be {' or '.join(kinds)}"
    words = _BOUNDS.get(faults[0]["type"], "can't be used as it is")
    return words.format(**faults[0].get("ctx", {}))


log = logging.getLogger(__name__)

EVENT_STREAM = "text/event-stream"
LARGE = 100_000
"""The number of bytes from which on a body is parsed in a thread, so that it does not block
others."""
_Shape = TypeVar("_Shape", bound=BaseModel)


STATUS: Mapping[str, int] = {
    "invalid": 400,
    "too_long": 400,
    "refused": 403,
    "too_fast": 429,
    "spent": 429,
    "busy": 429,
    "failed": 500,
    "full": 507,
    "upstream": 502,
    "unavailable": 503,
    "timeout": 504,
}
"""The status for each reason without an answer; clients decide by it whether to retry."""
_CODES = {"too_long": ("context_length_exceeded", "messages"), "spent": ("insufficient_quota", "")}
FAILED = "This failed inside the bot; the log has the details (`python main.py logs`)."
SOON = 5
"""The seconds after which a retry is reasonable, if nothing else is known."""


class Problem(Exception):
    """The error of a request; the text is a sentence for the client. `param` is the part of the
    request that it is about, `retry_after` in seconds."""

    def __init__(
        self,
        status: int,
        sentence: str,
        code: str | None = None,
        param: str | None = None,
        retry_after: int = 0,
    ) -> None:
        super().__init__(sentence)
        self.status, self.code, self.param = status, code, param
        self.retry_after = retry_after

    @property
    def data(self) -> Mapping[str, Any]:
        """The error in the form of OpenAI's protocol."""
        text = in_their_language(str(self))
        return failure(text, kind_of(self.status), self.code, self.param)

    def response(self) -> Response:
        response = as_json(self.data, self.status)
        if self.status in (429, 503):
            response.headers["Retry-After"] = str(self.retry_after or SOON)
        return response


def make_problem(problem: str, sentence: str, retry_after: int = 0) -> Problem:
    """Return the problem of a request without an answer."""
    code, param = _CODES.get(problem, (None, None))
    return Problem(STATUS.get(problem, 500), sentence, code, param or None, retry_after)


def in_their_language(sentence: str) -> str:
    """Return a sentence in the language of the client's browser; in English for a program, which
    names no language."""
    with speaking(choose(asked_in.get()) or ENGLISH):
        return explain(sentence)


class Parameter(Struct, frozen=True):
    """A parameter of an operation, as OpenAPI describes it; one in the path is required."""

    name: str
    place: Literal["path", "query", "header"]
    meaning: str
    schema: Mapping[str, Any]

    @property
    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "in": self.place,
            "required": self.place == "path",
            "description": self.meaning,
            "schema": dict(self.schema),
        }


class Operation(Struct, frozen=True):
    """An operation. `takes` and `gives` are the shapes of the bodies; `problems` the possible
    statuses of errors; `accepts` is the shape of a 202, for a client that does not wait. `streams`:
    it can respond with an event stream; `is_open`: it needs no token; `takes_anything`: its body
    has no shape."""

    method: Literal["GET", "POST"]
    path: str
    summary: str
    run: Callable[[Request], Awaitable[Response]]
    takes: type[BaseModel] | None = None
    gives: type[BaseModel] | None = None
    accepts: type[BaseModel] | None = None
    parameters: Sequence[Parameter] = ()
    problems: Sequence[int] = ()
    streams: bool = False
    is_open: bool = False
    takes_anything: bool = False

    @property
    def route(self) -> Route:
        return Route(self.path, guard_errors(self._run_packed), methods=[self.method])

    async def _run_packed(self, request: Request) -> Response:
        """Return the response; long JSON is compressed for clients that accept it."""
        response = await self.run(request)
        is_json = response.media_type == "application/json" and self.method == "GET"
        if is_json and len(getattr(response, "body", b"")) >= _WORTH_PACKING:  # a file has none
            response.headers["Vary"] = "Accept-Encoding"
            if "gzip" in request.headers.get("accept-encoding", ""):
                response.body = await asyncio.to_thread(gzip.compress, response.body, _FAST)
                response.headers["Content-Encoding"] = "gzip"
                response.headers["Content-Length"] = str(len(response.body))
        return response


def guard_errors(
    run: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    """Return the handler with an error boundary."""

    async def run_guarded(request: Request) -> Response:
        try:
            return await run(request)
        except Problem as problem:
            return problem.response()
        except ClientDisconnect:
            return Response(status_code=400)  # the client is gone
        except Exception:
            log.exception("%s %s failed", request.method, request.scope["path"])
            return Problem(500, FAILED).response()

    return run_guarded


def as_json(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    content = orjson.dumps(data, default=str)
    return Response(content, status, headers, media_type="application/json")


def stream(events: AsyncIterator[bytes]) -> Response:
    """Return a response of server-sent events."""
    return StreamingResponse(events, media_type=EVENT_STREAM, headers={"X-Accel-Buffering": "no"})


def event(data: Any, kind: str = "", place: str = "") -> bytes:
    """Format a server-sent event; JSON has no line breaks, so it is one line."""
    head = (f"id: {place}\n" if place else "") + (f"event: {kind}\n" if kind else "")
    text = data if isinstance(data, bytes) else orjson.dumps(data, default=str)
    return head.encode() + b"data: " + text + b"\n\n"


async def body(request: Request, shape: type[_Shape], limit: int) -> _Shape:
    """Return the request's body, of at most `limit` bytes, in this shape. Raises Problem."""
    hint = "the setting web.upload_limit says how large files may be"
    content = await read_body(request, limit, hint)
    if len(content) > LARGE:
        return await asyncio.to_thread(parse_body, content, shape)
    return parse_body(content, shape)


async def read_body(request: Request, limit: int, hint: str) -> bytes:
    """Return the request's body, of at most `limit` bytes. Raises Problem, with the hint at its
    end."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > limit:
            raise Problem(
                413, f"This is larger than {limit / 1e6:,.1f} MB, the most that is taken; {hint}."
            )
    return bytes(content)


def parse_body(content: bytes, shape: type[_Shape]) -> _Shape:
    """Return a body in this shape. Raises Problem."""
    try:
        return shape.model_validate_json(content or b"{}")
    except ValidationError as error:
        raise Problem(400, explain_validation_error(error)) from None


def document(operations: Sequence[Operation], version: str) -> dict[str, Any]:
    """Return the OpenAPI document of these operations."""
    shapes = {shape for o in operations for shape in (o.takes, o.gives, o.accepts) if shape} | {
        Failure
    }
    ordered = sorted(shapes, key=lambda shape: shape.__name__)
    _, schemas = models_json_schema(
        [(shape, "validation") for shape in ordered], ref_template="#/components/schemas/{model}"
    )
    paths: dict[str, Any] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Parley", "version": version},
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _describe(operation: Operation) -> dict[str, Any]:
    what: dict[str, Any] = {
        "operationId": operation.run.__name__,
        "summary": operation.summary,
        "responses": _responses(operation),
    }
    if operation.parameters:
        what["parameters"] = [parameter.document for parameter in operation.parameters]
    if operation.takes:
        what["requestBody"] = {
            "content": _content(operation.takes),
            "required": bool(operation.takes.model_json_schema().get("required")),
        }
    if operation.takes_anything:
        what["requestBody"] = {"content": {"application/json": {}, "text/plain": {}}}
    if not operation.is_open:
        what["security"] = [{"token": []}]
    return what


def _responses(operation: Operation) -> dict[str, Any]:
    content = _content(operation.gives) if operation.gives else {}
    if operation.streams:
        content[EVENT_STREAM] = {"schema": {"type": "string"}}
    own = () if operation.is_open else (400, 401, 403, 429)
    problems = sorted({*operation.problems, *own})
    good: dict[str, Any] = {"200": {"description": operation.summary}}
    if content:
        good["200"]["content"] = content
    if operation.accepts:
        good["202"] = {"description": "It is done later.", "content": _content(operation.accepts)}
    bad = {"description": "The reason why it was not done.", "content": _content(Failure)}
    return good | {str(status): bad for status in problems}


def _content(shape: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": _reference(shape)}}


def _reference(shape: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{shape.__name__}"}
