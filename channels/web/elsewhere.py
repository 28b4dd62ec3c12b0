"""Unsupported parts of OpenAI's protocol: each response names the alternative.

The status is 404, not 501, which the SDKs would retry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from channels.web.guard import PROTOCOL
from channels.web.operations import Operation, Problem

_SPEECH = "Parley's /v1 takes and makes no speech; ask a server for speech itself."
_CHAT = "Use /v1/chat/completions or /v1/responses."
_KEPT = "Name a conversation that the bot keeps with `parley_conversation` in /v1/chat/completions."
_FILES = "Parley keeps no files here; send text as text, and a picture in its message."
_TRAINING = "Parley trains no models and tests none."
_PICTURES = "Parley makes no pictures or videos here; ask the endpoint of a model that does."
INSTEAD: Mapping[str, str] = {
    "embeddings": "Parley makes no embeddings; ask an embedding model at its own endpoint.",
    "audio": _SPEECH,
    "realtime": f"{_SPEECH} Text streams with `stream: true`.",
    "images": _PICTURES,
    "videos": _PICTURES,
    "moderations": "Parley judges no texts; ask a moderation model at its own endpoint.",
    "completions": f"This is the protocol of before there were chats. {_CHAT}",
    "edits": f"This is the protocol of before there were chats. {_CHAT}",
    "engines": "/v1/models lists the one model that there is.",
    "responses": "Parley keeps no responses; POST /v1/responses takes the whole conversation.",
    "chat": "Parley keeps no completions; POST /v1/chat/completions takes the whole conversation.",
    "conversations": _KEPT,
    "assistants": f"{_CHAT} {_KEPT}",
    "threads": f"{_CHAT} {_KEPT}",
    "chatkit": f"{_CHAT} {_KEPT}",
    "files": _FILES,
    "uploads": _FILES,
    "vector_stores": _FILES,
    "containers": _FILES,
    "batches": "Parley takes no batches; send each request by itself.",
    "fine_tuning": _TRAINING,
    "fine-tunes": _TRAINING,
    "evals": _TRAINING,
    "messages": f"This is Anthropic's protocol; /v1 is OpenAI's. {_CHAT}",
    "v1": "The base URL ends in /v1 already; leave the second one out.",
}
_WITHOUT_BASE = re.compile(
    r"/(openai/)?(chat/completions|responses|models|completions|embeddings)\b"
)


def describe_elsewhere(method: str, path: str) -> str:
    """Return the alternative to this request."""
    if _WITHOUT_BASE.match(path):
        return f"{path} does not exist; OpenAI's protocol is at /v1, so the base URL ends in that."
    name = path.removeprefix(PROTOCOL).partition("/")[0]
    said = INSTEAD.get(name, "") if path.startswith(PROTOCOL) else ""
    return f"{method} {path} does not exist. {said or '/openapi.json lists what does.'}"


def protocol_route(operations: Sequence[Operation]) -> Route:
    """Return the route for all requests of the protocol without an operation."""
    methods: dict[str, set[str]] = {}
    for operation in operations:
        also = {"HEAD"} if operation.method == "GET" else set[str]()
        methods.setdefault(operation.path, {"OPTIONS"}).update({operation.method}, also)

    async def answer(request: Request) -> Response:
        path = request.url.path
        if allowed := methods.get(path):
            headers = {"Allow": ", ".join(sorted(allowed))}
            if request.method == "OPTIONS":
                return Response(status_code=204, headers=headers)
            response = Problem(405, describe_elsewhere(request.method, path)).response()
            response.headers.update(headers)
            return response
        return Problem(404, describe_elsewhere(request.method, path), "unknown_url").response()

    every = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    return Route(f"{PROTOCOL}{{rest:path}}", answer, methods=every)


class PlainPaths:
    """A middleware that removes double and trailing slashes from the protocol's paths, which come
    from base URLs: a redirect would lose the body of some clients' requests."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if path.startswith(PROTOCOL):  # other paths were accepted without a key
            plain = PROTOCOL + re.sub(r"/+", "/", path.removeprefix(PROTOCOL)).strip("/")
            scope = {**scope, "path": plain, "raw_path": plain.encode()}
        await self._app(scope, receive, send)
