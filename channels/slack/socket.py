"""Socket Mode: Slack's events arrive over a websocket that the bot opens.

The SDK has a client for this, but it reconnects by itself: it reuses a ticket that is valid for one
connection, and retries every few seconds for ever, also with a revoked token, without a report.
Here a lost connection is an error, which the kit handles.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType

from channels.base import ChannelError
from channels.kit.frames import load_frame

log = logging.getLogger(__name__)

Json = dict[str, Any]
Open = Callable[[], Awaitable[str]]
Take = Callable[[Json], Awaitable[Json | None]]

SWITCHED_OFF = (
    "Socket Mode is switched off for this Slack app; switch it on again at api.slack.com/apps, "
    "under Socket Mode."
)
_HEARTBEAT = 10.0  # seconds between two pings
_LARGEST = 4_000_000  # bytes of a frame


class Socket:
    """Connections to Slack, one after the other: it names a time after which each ends. The next
    one is open before that, so that nothing is missed between.

    `open_url` asks for the address of a connection; `take` takes what an envelope brings, and
    returns the payload of its acknowledgement; None: it can't be acknowledged, so that it comes
    again. `connected` hears of each connection that Slack has greeted.
    """

    def __init__(
        self, session: ClientSession, open_url: Open, take: Take, connected: Callable[[], None]
    ) -> None:
        self._session, self._connected = session, connected
        self._open_url, self._take = open_url, take
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Listen until cancelled. Raises an error that ends a connection early."""
        try:
            while True:
                url = await self._open_url()
                socket = await self._session.ws_connect(
                    url, heartbeat=_HEARTBEAT, max_msg_size=_LARGEST
                )
                ending: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._start(self._read(socket, ending))
                await ending
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="slack socket")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read(self, socket: ClientWebSocketResponse, ending: asyncio.Future[None]) -> None:
        """Read to the end; `ending` is done when another connection is needed."""
        error: Exception = ConnectionError("Slack has closed the connection.")
        try:
            async for frame in socket:
                if frame.type is not WSMsgType.TEXT:
                    continue
                message = load_frame(frame.data, "slack")
                match message.get("type"):
                    case "hello":
                        self._connected()
                    case "disconnect" if message.get("reason") == "link_disabled":
                        error = ChannelError(SWITCHED_OFF)
                        break
                    case "disconnect" if message.get("reason") != "too_many_websockets":
                        if not ending.done():
                            ending.set_result(None)
                    case _ if "envelope_id" in message:
                        self._start(self._handle(socket, message))
        except Exception as broken:  # noqa: BLE001 - aiohttp may raise anything
            error = broken
        finally:
            await socket.close()
            if not ending.done():
                ending.set_exception(error)

    async def _handle(self, socket: ClientWebSocketResponse, envelope: Json) -> None:
        try:
            payload = await self._take(envelope["payload"])
        except Exception:
            log.exception("what Slack sent was not taken; it sends it again")
            return
        answer: Json = {"envelope_id": envelope["envelope_id"]}
        if payload and envelope.get("accepts_response_payload"):
            answer["payload"] = payload
        if payload is not None:
            with suppress(ConnectionError):  # then it is redelivered over the next
                await socket.send_json(answer)
