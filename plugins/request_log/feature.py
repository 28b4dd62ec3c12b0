"""The hooks of the request log."""

from __future__ import annotations

from memory.services import RequestLog
from plugins.api import Verb, hookimpl
from plugins.request_log.commands import show_all, show_one
from plugins.request_log.comparison import show_difference
from plugins.request_log.reading import StoredRequestLog

_VERBS = (
    Verb(
        "context",
        "request",
        "a request exactly as it was sent (request r41; request r41 json)",
        show_one,
        after="preview",
    ),
    Verb(
        "context",
        "requests",
        "all requests that are kept, and what each cost",
        show_all,
        after="request",
        is_bare=True,
    ),
    Verb(
        "context",
        "diff",
        "differences between two requests, and where the cache broke (diff r40 r41)",
        show_difference,
        after="requests",
    ),
)


@hookimpl
def parley_request_log() -> type[RequestLog]:
    return StoredRequestLog


@hookimpl
def parley_verbs() -> list[Verb]:
    return [*_VERBS]
