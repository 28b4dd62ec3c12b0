"""The web channel: a server on a socket of this machine.

The files of a session: those attached to messages, and those written by tools.

The page's own texts, and their translations into a browser's language.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import cache, partial
from html import unescape
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from msgspec import Struct, field
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from channels.base import KEY_PREFIX, Bot, WebhookCall, WithWebhook
from channels.guess_limit import SHORTEST_TOKEN, GuessQueues, Throttle, is_weak
from channels.language import ENGLISH, choose, words_of
from channels.listening import Caps, ListeningSocket, open_listener, share_of_descriptors
from channels.message import LARGEST_ATTACHMENT, MOST_ATTACHMENTS, Address, Outbound
from channels.serving import HttpServer, TimeLimits, refusal
from channels.web import pages
from channels.web.accounts import Accounts
from channels.web.completions import CompletionOperations
from channels.web.feed import FeedLimits, Feeds
from channels.web.guard import AuthMiddleware, Keys, TokenAuth, is_loopback
from channels.web.operations import (
    Operation,
    Parameter,
    Problem,
    as_json,
    document,
    guard_errors,
    read_body,
)
from channels.web.response_shapes import PlainPaths, describe_elsewhere, protocol_route
from channels.web.responses import ResponseOperations
from channels.web.sessions import CHANNEL_OF, ONE, SESSION, Sessions, address_of, main_of
from channels.web.shapes import FileList, State, address_of_file
from channels.web.streams import render

PAGE = Path(__file__).parent / "page"
_MARKED = re.compile(r"\b(?:t|pieces|brief)\(\s*\"((?:[^\"\\]|\\.)+)\"")
_TEXT = re.compile(r">([^<>]*[A-Za-z]{2}[^<>]*)<")
_ATTRIBUTE = re.compile(r"\b(?:aria-label|placeholder|title|data-away)=\"([^\"]+)\"")
_NAMES = frozenset({"Parley"})


def list_words() -> Iterator[str]:
    """Yield every English text of the page: from its HTML, and from calls of `t` and similar
    functions in its scripts."""
    html = (PAGE / "index.html").read_text("utf-8")
    body = html[html.index("<body") :]
    for found in (*_TEXT.findall(body), *_ATTRIBUTE.findall(body)):
        text = unescape(" ".join(found.split()))
        if text not in _NAMES:
            yield text
    for path in sorted(PAGE.glob("*.js")):
        for found in _MARKED.findall(path.read_text("utf-8")):
            yield found.replace('\\"', '"')


async def get_texts(request: Request) -> Response:
    """Return the texts in the requested language, or in the browser's; none for English. They
    contain no personal data."""
    wanted = request.query_params.get("language") or request.headers.get("accept-language", "")
    language = choose(wanted) or ENGLISH
    response = as_json({"language": language, "words": _translate(language)})
    response.headers.update({"Cache-Control": "no-cache", "Vary": "Accept-Language"})
    return response


@cache
def _translate(language: str) -> dict[str, str]:
    known = words_of(language)
    return {text: known[text] for text in list_words() if text in known}


_PATH = Parameter("path", "query", "As the list of files or a message names it.", {})
_PIECE = 256_000  # bytes that are read at once
INERT = "default-src 'none'; style-src 'none'; sandbox"
"""The policy of a file: whatever its content, it is inert when opened."""


class FileOperations(Struct, frozen=True):
    """The operations on files. `upload` is the maximum number of bytes of one message's files."""

    bot: Bot
    upload: int

    @property
    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                "GET",
                f"{ONE}/files",
                "The files of the workspace, newest first, and how many a message may bring.",
                self.list_files,
                gives=FileList,
                parameters=(SESSION, CHANNEL_OF),
                problems=(404,),
            ),
            Operation(
                "GET",
                f"{ONE}/file",
                "One file: of the workspace, or of a message.",
                self.read_file,
                parameters=(SESSION, CHANNEL_OF, _PATH),
                problems=(404,),
            ),
        )

    async def list_files(self, request: Request) -> Response:
        address = address_of(request, self.bot)
        found = await self.bot.list_files(address)
        files = [
            {
                "name": file.path.partition("/")[2],
                "address": address_of_file(address, file.path),
                "size": file.size,
                "at": file.at.isoformat(),
            }
            for file in found.files
        ]
        limits = {
            "files": MOST_ATTACHMENTS,
            "file_bytes": min(LARGEST_ATTACHMENT, self.upload, found.room),
            "bytes": min(self.upload, found.room),
        }
        return as_json({"files": files, "limits": limits})

    async def read_file(self, request: Request) -> Response:
        path = request.query_params.get("path", "")
        file = await self.bot.open_file(address_of(request, self.bot), path)
        if file is None:
            raise Problem(404, "There is no such file here, or not any more.")
        kept = "inline" if file.picture else "attachment"
        headers = {
            "Content-Disposition": f"{kept}; filename*=UTF-8''{quote(file.name)}",
            "Content-Length": str(file.size),
            "Content-Security-Policy": INERT,
        }
        kind = (
            file.picture or file.sound or "application/octet-stream"
        )  # never one that a browser would execute
        closing = BackgroundTask(file.content.close)
        pieces = _pieces(file.content, file.size)
        return StreamingResponse(pieces, headers=headers, media_type=kind, background=closing)


async def _pieces(content: BinaryIO, size: int) -> AsyncIterator[bytes]:
    """Yield exactly the announced number of bytes, even if the file grows meanwhile."""
    with content:
        while size > 0 and (piece := await asyncio.to_thread(content.read, min(size, _PIECE))):
            size -= len(piece)
            yield piece


MAKE_ONE = """To make a token: python -c "import secrets; print(secrets.token_urlsafe(32))\""""
WEAK_TOKEN = (
    f"PARLEY_WEB_TOKEN could be guessed: it needs at least {SHORTEST_TOKEN} characters, and not "
    f"just a few of them repeated. {MAKE_ONE}"
)
FULL = (
    "The bot has as many connections as it can take; close some pages or programs that use it, "
    "or try again in a moment."
)
LARGEST_CALL = 1_000_000
"""The maximum number of bytes of a call of a messenger's webhook."""


class ListenError(Exception):
    """The error if the web channel can't be opened; the text gives the reason and the remedy."""


class WebConfig(Struct, frozen=True):
    """The configuration of the page: the listening address and the token. `upload` is the maximum
    number of bytes of a message's files; `version` is the bot's. `trusted_proxies` are networks
    whose statements about the client's address are accepted. `of_one` is the maximum number of
    connections of one address, `patience` the timeouts for clients, `bounds` the limits for stored
    events; `pages` are served at these paths."""

    host: str
    port: int
    token: str
    upload: int
    version: str = ""
    trusted_proxies: tuple[str, ...] = ()
    of_one: int = 100
    patience: TimeLimits = field(default_factory=TimeLimits)
    bounds: FeedLimits = field(default_factory=FeedLimits)
    pages: Mapping[str, ASGIApp] = {}


def why_closed(config: WebConfig) -> str:
    """Return the reason why the server may not listen there; "" if it may."""
    if config.token and is_weak(config.token.strip()):
        return WEAK_TOKEN
    if config.token or is_loopback(config.host):
        return ""
    return (
        f"web.host is {config.host}, which others can reach, but no token is set; put "
        f"PARLEY_WEB_TOKEN=… into .env, or set web.host to 127.0.0.1. {MAKE_ONE}"
    )


class Web:
    """A channel over HTTP. It opens its socket at once, so that the caller is notified immediately
    if it can't. Raises ListenError."""

    name = "web"
    sound = "mp3"
    has_fields = True
    is_everywhere = True

    def __init__(self, config: WebConfig) -> None:
        if sentence := why_closed(config):
            raise ListenError(sentence)
        self._config, self._lock = config, TokenAuth(config.token.strip())
        self._throttle = Throttle()
        self._socket = _bind(config)
        self._feeds: Feeds | None = None
        self.webhooks: Mapping[str, WithWebhook] = {}

    @property
    def url(self) -> str:
        """The URL of the page."""
        host, port = self._socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    async def listen(self, bot: Bot) -> None:
        """Serve until this task is cancelled."""
        self._feeds = Feeds(bot, self._config.bounds)
        application = self._application(bot, self._feeds)
        server = HttpServer(application, self._socket, self._config.patience)
        serving = asyncio.create_task(server.run_here())
        try:
            await asyncio.shield(serving)
        finally:
            server.should_exit = True
            await self._feeds.close()
            await serving

    async def send(self, outbound: Outbound) -> None:
        """Notify waiting and following clients; for all others, the reply is in the transcript."""
        if self._feeds is not None:
            await render(outbound.reply.text)  # so that followers do not wait for it
            self._feeds.deliver(outbound)

    async def close_question(self, address: Address, question: str, how: str) -> None:
        """Notify the clients that show its buttons that a question is over."""
        if self._feeds is not None:
            self._feeds.close_question(address, question, how)

    def _application(self, bot: Bot, feeds: Feeds) -> Starlette:
        """Return the application: the page, the operations, and the guard before them."""
        accounts = Accounts(
            bot.logins,
            lambda user: bot.language_of(main_of(user)),
            self._lock,
            self._throttle,
            GuessQueues(self._throttle),
        )
        sessions = Sessions(bot, feeds, self._config.upload, accounts)
        completions = CompletionOperations(bot, feeds, self._config.upload)
        files = FileOperations(bot, self._config.upload)
        operations = (
            *self._own(bot),
            *accounts.operations,
            *sessions.operations,
            *files.operations,
            *completions.operations,
            *ResponseOperations(completions).operations,
            *(one for one in bot.list_routes() if isinstance(one, Operation)),
        )
        described = cache(partial(document, operations, self._config.version))

        async def openapi(request: Request) -> Response:
            del request  # most processes never need it, and it is slow
            return as_json(await asyncio.to_thread(described))

        return Starlette(
            routes=[
                *(operation.route for operation in operations),
                Route("/openapi.json", openapi),
                Route("/words.json", get_texts),
                *(Route(path, page) for path, page in self._config.pages.items()),
                webhook_route(bot, lambda: self.webhooks),
                protocol_route(operations),
                *pages.routes(),
            ],
            middleware=[
                Middleware(
                    AuthMiddleware,
                    lock=self._lock,
                    throttle=self._throttle,
                    keys=Keys(KEY_PREFIX, bot.key_holder),
                    logins=bot.logins,
                ),
                Middleware(PlainPaths),
            ],
            exception_handlers={HTTPException: _as_problem},
        )

    def _own(self, bot: Bot) -> tuple[Operation, ...]:
        async def health(request: Request) -> Response:
            del request
            return as_json({"status": "ok"})

        async def ready(request: Request) -> Response:
            del request
            await bot.sessions("")  # checks that the database answers
            return as_json({"status": "ready"})

        return (
            Operation("GET", "/health", "It runs.", health, gives=State, is_open=True),
            Operation(
                "GET",
                "/ready",
                "It can answer.",
                ready,
                gives=State,
                problems=(500,),
                is_open=True,
            ),
        )


def webhook_route(bot: Bot, channels: Callable[[], Mapping[str, WithWebhook]]) -> Route:
    """Return the route of the webhooks that messengers call; the last part of the path is the name
    of the channel. Each platform authenticates its calls by its own signature; tokens and cookies
    are not accepted."""

    async def call(request: Request) -> Response:
        name = request.path_params["name"]
        channel = channels().get(name)
        if channel is None:
            raise Problem(404, "No channel of this name is called here.")
        headers = {key.lower(): value for key, value in request.headers.items()}
        if not channel.expects(headers):
            return Response(status_code=401)
        body, is_too_large = b"", False
        try:
            body = await read_body(request, LARGEST_CALL, "the platform sends no more than that")
        except Problem:
            is_too_large = True
        came = WebhookCall(request.method, headers, dict(request.query_params), body, is_too_large)
        answer = await channel.call(bot, came)
        return Response(answer.body, answer.status, media_type=answer.media_type)

    return Route("/webhooks/{name}", guard_errors(call), methods=["GET", "POST", "HEAD"])


async def _as_problem(request: Request, error: Exception) -> Response:
    """Return the error for an unknown path or method, in the shape of every other error."""
    assert isinstance(error, HTTPException)
    sentence = describe_elsewhere(request.method, request.url.path)
    response = Problem(error.status_code, sentence).response()
    response.headers.update(error.headers or {})
    return response


def _bind(config: WebConfig) -> ListeningSocket:
    """Return a listening socket; clients that connect before the bot is ready wait until it is."""
    caps = Caps(share_of_descriptors(), config.of_one, config.trusted_proxies, refusal(FULL))
    try:
        return open_listener(config.host, config.port, caps)
    except OSError as error:
        raise ListenError(
            f"The web page can't be served at {config.host}, port {config.port} "
            f"({error.strerror}). Stop the program that is there, or choose another port: write "
            f'"web": {{"port": {config.port + 1}}} into config.json.'
        ) from None
