"""Socket Mode, in which Slack's events arrive over a websocket that the bot opens, and the meaning
of Slack's errors. The SDK's own client reconnects for ever, also with a revoked token; here a lost
connection is an error, which the kit handles."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import aiohttp
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType
from slack_sdk.errors import SlackApiError

from channels.base import ChannelError
from channels.kit.messenger import load_frame
from channels.kit.platform import PlatformFailure

REVOKED = (
    "Slack does not know this bot any more ({code}); install the app again at api.slack.com/apps, "
    "copy its tokens into .env, and restart the bot."
)
MISSING = (
    "The Slack app lacks the permission {scope}; add it at api.slack.com/apps under OAuth & "
    "Permissions, install the app again, and restart the bot."
)
_REVOKED = {
    *("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"),
    *("not_allowed_token_type", "team_access_not_granted", "no_permission"),
}
_GONE = {
    *("channel_not_found", "not_in_channel", "is_archived", "user_disabled", "user_not_found"),
    *("cannot_dm_bot", "messages_tab_disabled", "thread_not_found", "restricted_action"),
    *("restricted_action_thread_locked", "restricted_action_read_only_channel"),
}
_REFUSED = {
    *("invalid_blocks", "invalid_blocks_format", "msg_too_long", "msg_blocks_too_long", "no_text"),
    *("message_not_found", "cant_update_message", "cant_delete_message", "edit_window_closed"),
    *("invalid_attachments", "block_mismatch", "update_failed", "invalid_thread_ts"),
}
_PASSING = {
    *(
        "internal_error",
        "fatal_error",
        "service_unavailable",
        "request_timeout",
        "team_added_to_org",
    ),
}
_WAIT = 30.0  # seconds, if Slack does not say how many


def explain(error: BaseException) -> PlatformFailure:
    match error:
        case SlackApiError():
            return _explain(error.response)
        case aiohttp.WSServerHandshakeError():  # its ticket is used up
            return PlatformFailure("passing")
        case aiohttp.ClientResponseError() if error.status < 500 and error.status != 429:
            return PlatformFailure("fatal")
        case aiohttp.ClientError() | OSError() | TimeoutError():
            return PlatformFailure("passing")
    return PlatformFailure("fatal")


def code_of(response: Any) -> str:
    """Return Slack's name of an error; "" if it did not answer as an API does."""
    return str(_data(response).get("error", ""))


def _data(response: Any) -> dict[str, Any]:
    data = getattr(response, "data", None)
    return data if isinstance(data, dict) else {}


def _explain(response: Any) -> PlatformFailure:
    """Return the failure in a response, which is the SDK's, or aiohttp's if it contained no
    JSON."""
    status = int(getattr(response, "status_code", 0) or getattr(response, "status", 200))
    code = code_of(response)
    if status == 429 or code in ("ratelimited", "rate_limited"):
        after = str(response.headers.get("Retry-After", ""))
        return PlatformFailure("wait", float(after) if after.isdecimal() else _WAIT)
    if code in _REVOKED:
        return PlatformFailure("revoked", advice=REVOKED.format(code=code))
    if code == "missing_scope":
        return PlatformFailure(
            "fatal", advice=MISSING.format(scope=_data(response).get("needed", "?"))
        )
    if code in _GONE or code in _REFUSED:
        return PlatformFailure("gone" if code in _GONE else "refused")
    return PlatformFailure("passing" if code in _PASSING or not code or status >= 500 else "fatal")


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
