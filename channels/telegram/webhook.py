"""The small HTTP server that Telegram calls. Who does not know the secret is refused by the header
alone; of who does, so much is read as an update may have."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from telegram import Update
from telegram.ext import ExtBot
from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.web import Application, RequestHandler, stream_request_body

from channels.listening import Caps, open_listener
from channels.settings import TelegramSettings
from channels.telegram.reading import number_of, readable

log = logging.getLogger(__name__)

LARGEST = 1_000_000
"""Bytes of an update; Telegram's have a few thousand."""
_MOST_CONNECTIONS = 100  # Telegram opens 40; a proxy stands for all who call
_LARGEST_HEADER = 16_000  # bytes
_HEADER_TIME, _BODY_TIME = 60.0, 10.0  # seconds: for the next request to begin, and to arrive
_DRAINED = 64_000  # bytes that are read for nothing, so that who sent them reads the answer
_SECRET = "X-Telegram-Bot-Api-Secret-Token"

Put = Callable[[Update], Awaitable[None]]


class Webhook:
    """Listens from the beginning until it is closed. Raises OSError where it can't."""

    def __init__(
        self, bot: ExtBot[str], put: Put, settings: TelegramSettings, path: str, secret: str
    ) -> None:
        handed = {"bot": bot, "put": put, "path": path, "secret": secret}
        application = Application(
            default_handler_class=_Call, default_handler_args=handed, log_function=_unlogged
        )
        self._server = HTTPServer(
            application,
            max_body_size=LARGEST,
            max_buffer_size=2 * LARGEST,
            max_header_size=_LARGEST_HEADER,
            idle_connection_timeout=_HEADER_TIME,
            body_timeout=_BODY_TIME,
        )
        caps = Caps(_MOST_CONNECTIONS, _MOST_CONNECTIONS)
        listener = open_listener(settings.webhook_host, settings.webhook_port, caps)
        listener.setblocking(False)
        self._server.add_sockets([listener])

    async def close(self) -> None:
        self._server.stop()
        await self._server.close_all_connections()


@stream_request_body
class _Call(RequestHandler):
    """One request. Its body arrives in pieces, after `prepare` has looked at its header."""

    def initialize(self, bot: ExtBot[str], put: Put, path: str, secret: str) -> None:
        self._bot, self._put, self._path, self._secret = bot, put, path, secret
        self._pieces: list[bytes] = []

    async def prepare(self) -> None:
        given = self.request.headers.get(_SECRET, "")
        if not hmac.compare_digest(given.encode(), self._secret.encode()):
            await self._leave(403)
        elif self.request.path.rstrip("/") != self._path.rstrip("/"):
            await self._leave(404)
        elif self.request.method != "POST":
            await self._leave(405)
        elif self._length > LARGEST:
            log.error("an update of %s bytes from Telegram is left out", self._length)
            await self._leave(200)  # confirmed, or it would come again for ever

    @property
    def _length(self) -> int:
        length = self.request.headers.get("Content-Length", "0")
        return int(length) if length.isdecimal() else 0

    async def _leave(self, status: int) -> None:
        """Answer before the body is there."""
        stream = self.request.connection.stream  # type: ignore[union-attr]  # HTTP/1 has one
        self.set_status(status)
        self.set_header("Connection", "close")
        await self.finish()
        if self._length > _DRAINED or "Transfer-Encoding" in self.request.headers:
            stream.close()

    def data_received(self, chunk: bytes) -> None:
        self._pieces.append(chunk)

    async def post(self) -> None:
        """Answered when the update was taken. One that can't be read is logged, and confirmed."""
        update = self._read(b"".join(self._pieces))
        if update is not None:
            await self._put(update)

    def _read(self, body: bytes) -> Update | None:
        try:
            update = json.loads(body)
            if number_of(update) is None:
                raise ValueError("it has no number")
            return Update.de_json(readable(update), self._bot)
        except Exception:
            log.exception("an update from Telegram can't be read and is left out")
            return None

    def log_exception(self, *about: Any) -> None:
        """To our log; who hangs up is no news."""
        if about[0] is not StreamClosedError:
            log.error("an update could not be taken; Telegram brings it again", exc_info=about)


def _unlogged(handler: RequestHandler) -> None:
    """Requests are not logged one by one: anybody can make them."""
