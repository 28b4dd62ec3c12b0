"""`/metrics` for Prometheus: on the web channel's server, or on its own port.

A request needs one of the tokens. If none is set, it must come from this machine, and not through a
proxy. The page's cookies are not accepted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from channels.guess_limit import SHORTEST_TOKEN, Throttle, is_weak
from channels.listening import Caps, ListeningSocket, open_listener
from channels.serving import HttpServer, TimeLimits, refusal
from channels.web.guard import (
    Refused,
    TokenAuth,
    bearer_of,
    is_broken,
    is_loopback,
    is_proxied,
    is_same,
    peer_of,
    refuse_locked_out,
)
from channels.web.operations import in_their_language

PATH = "/metrics"
TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"
NO_TOKEN = Refused(
    401,
    "The metrics need a token: send PARLEY_METRICS_TOKEN, or the page's, as “Authorization: "
    "Bearer …”.",
)
NOT_FROM_HERE = Refused(
    403,
    "Without a token, the metrics are for this machine alone; put PARLEY_METRICS_TOKEN=… (a long "
    "random text) into .env, and restart the bot.",
)
MISSING = Refused(404, f"There is only {PATH} here.")
_MOST_CONNECTIONS = 20


class MetricsPage:
    """The application that serves the result of `read`; `tokens` give access, and must not be
    guessable."""

    def __init__(self, read: Callable[[], bytes], tokens: tuple[str, ...] = ()) -> None:
        self._read, self.tokens = read, tuple(filter(None, tokens))
        self._throttle = Throttle("tokens for the metrics")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refused = self._refusal(scope, Headers(scope=scope))
        answer = _refuse(refused) if refused else Response(self._read(), media_type=TEXT_FORMAT)
        answer.headers["Cache-Control"] = "no-store"
        await answer(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Refused | None:
        if scope["path"] != PATH:
            return MISSING
        if not self.tokens:
            is_here = is_loopback(peer_of(scope)) and not is_proxied(scope, headers)
            if not is_here or is_broken(headers):
                return NOT_FROM_HERE
            return TokenAuth().stranger(headers)
        given = bearer_of(headers)
        if not given:
            return NO_TOKEN
        is_right = any(is_same(given, token) for token in self.tokens)
        seconds = self._throttle.check(peer_of(scope), given, is_right, may_repeat=True)
        return refuse_locked_out(seconds) if seconds else None if is_right else NO_TOKEN


def _refuse(refused: Refused) -> Response:
    text = in_their_language(refused.sentence)
    return JSONResponse(refused.failure(text), refused.status, refused.headers)


def why_closed(page: MetricsPage, host: str = "") -> str:
    """Return the reason why the metrics may not be served at an address ("": the page's), as a
    sentence; "" if they may."""
    if any(map(is_weak, page.tokens)):
        return (
            f"PARLEY_METRICS_TOKEN could be guessed: it needs at least {SHORTEST_TOKEN} "
            "characters, and not just a few of them repeated."
        )
    if not host or page.tokens or is_loopback(host):
        return ""
    return (
        f"metrics.host is {host}, which others can reach, but no token is set; put "
        "PARLEY_METRICS_TOKEN=… into .env, or set metrics.host to 127.0.0.1."
    )


def listen(host: str, port: int) -> ListeningSocket:
    """Return a socket for the metrics only. Raises OSError."""
    full = refusal("Too many programs ask for the metrics at once.")
    return open_listener(host, port, Caps(_MOST_CONNECTIONS, _MOST_CONNECTIONS, (), full))


@asynccontextmanager
async def serving(page: MetricsPage, listener: ListeningSocket) -> AsyncIterator[None]:
    """Serve the metrics while the block runs."""
    server = HttpServer(page, listener, TimeLimits())
    running = asyncio.create_task(server.run_here())
    try:
        yield
    finally:
        server.should_exit = True
        await running
