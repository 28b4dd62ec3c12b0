"""The delivery of events to the bot: over Socket Mode's websocket, or as signed calls of the Events
API."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import aiohttp
from aiohttp import web

from tests.fakes.slack_people import APP

Json = dict[str, Any]


class SlackDelivery:
    """The delivery of events, which stay in `waiting` until the bot has acknowledged them; an event
    that failed is repeated. They go to `webhook` if there is one, otherwise over the newest of
    `connections`. `skew` is the number of seconds by which Slack's clock is ahead."""

    def __init__(self, secret: str, notice: Callable[[], None]) -> None:
        self.secret, self._notice = secret, notice
        self.webhook = ""
        self.answers: list[int] = []  # the statuses of the webhook
        self.connections: dict[web.WebSocketResponse, web.Request] = {}
        self.waiting: list[Json] = []
        self.acknowledged: list[Json] = []
        self.complaints: list[str] = []
        self.is_out = False
        self.refuses_tickets = 0  # of the next connections
        self.skew = 0.0
        self._sent: list[Json] = []
        self._leaving: set[web.WebSocketResponse] = set()
        self._tickets: set[str] = set()
        self._line = asyncio.Lock()  # later events wait behind repeated ones
        self._numbers = itertools.count(1)
        self._calls: asyncio.Queue[Json] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self._start(self._call_webhook())

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await self.cut()

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def send(self, kind: str, payload: Json, *, accepts: bool = False) -> None:
        """`accepts`: it may be acknowledged with a payload."""
        number = f"e{next(self._numbers)}"
        envelope: Json = {"envelope_id": number, "type": kind, "payload": payload}
        if kind == "events_api":
            envelope |= {"retry_attempt": 0, "retry_reason": ""}
        envelope["accepts_response_payload"] = accepts
        self._sent.append(envelope)
        self._transmit(envelope)

    def redeliver(self) -> None:
        """Repeat all events sent so far, as Slack does for those not confirmed in time ("Events
        API: Retries")."""
        for envelope in tuple(self._sent):
            again = {"retry_attempt": 1, "retry_reason": "timeout"}
            self._transmit({**envelope, **again, "envelope_id": f"e{next(self._numbers)}"})

    def _transmit(self, envelope: Json) -> None:
        if self.webhook:
            self._calls.put_nowait(envelope)
            return
        self.waiting.append(envelope)
        if self.connections:
            self._start(self._push_newest(envelope))

    async def _push_newest(self, envelope: Json) -> None:
        async with self._line:
            if self.connections:
                await _push([*self.connections][-1], envelope)

    # Socket Mode ("Using Socket Mode" in docs.slack.dev/apis/events-api).

    def issue_ticket(self) -> str:
        ticket = f"t{next(self._numbers)}"
        self._tickets.add(ticket)
        return ticket

    async def link(self, request: web.Request) -> web.StreamResponse:
        """Open a websocket; a ticket is valid for one."""
        if self.refuses_tickets:
            self.refuses_tickets -= 1
            self._tickets.discard(request.query.get("ticket", ""))
        if self.is_out or request.query.get("ticket") not in self._tickets:
            return web.Response(status=503 if self.is_out else 404)
        self._tickets.remove(request.query["ticket"])
        connection = web.WebSocketResponse()
        await connection.prepare(request)
        if len(self.connections) >= 10:  # "up to 10 WebSocket connections"
            await connection.send_json({"type": "disconnect", "reason": "too_many_websockets"})
            return connection
        async with self._line:
            self.connections[connection] = request
            count = len(self.connections)
            info = {"num_connections": count, "connection_info": {"app_id": APP}}
            await connection.send_json({"type": "hello", **info})
            for envelope in tuple(self.waiting):
                again = {"retry_attempt": envelope.get("retry_attempt", 0) + 1}
                await _push(connection, {**envelope, **again, "retry_reason": "timeout"})
        for one in tuple(self._leaving):
            await one.close()
        self._notice()
        async for frame in connection:
            self._take_acknowledgement(frame.json())
        self.connections.pop(connection, None)
        self._leaving.discard(connection)
        self._notice()
        return connection

    def _take_acknowledgement(self, answer: Json) -> None:
        """("Acknowledging events")"""
        number = answer.get("envelope_id", "")
        envelope = next((one for one in self.waiting if one["envelope_id"] == number), None)
        if unknown := set(answer) - {"envelope_id", "payload"}:
            self.complaints.append(f"an acknowledgement has {unknown}")
        if "payload" in answer and envelope and not envelope["accepts_response_payload"]:
            self.complaints.append("an event was answered")
        if envelope:
            self.waiting.remove(envelope)
            self.acknowledged.append(envelope["payload"])
        self._notice()

    async def cut(self) -> None:
        """Break all websockets."""
        for request in self.connections.values():
            if request.transport is not None:
                request.transport.abort()
        self.connections.clear()
        self._notice()

    async def refresh(self, reason: str = "refresh_requested") -> None:
        """Ask for other connections; these end once there is one ("Disconnecting")."""
        for connection in tuple(self.connections):
            self._leaving.add(connection)
            await connection.send_json({"type": "disconnect", "reason": reason, "debug_info": {}})

    # The Events API.

    async def _call_webhook(self) -> None:
        """Call the webhook; a failed call is repeated up to three times ("Events API: Retries"),
        here at once."""
        async with aiohttp.ClientSession() as session:
            while True:
                envelope = await self._calls.get()
                for attempt in range(4):
                    headers = {"X-Slack-Retry-Num": str(attempt)} if attempt else {}
                    if await self.call(session, envelope, headers) == 200:
                        self.acknowledged.append(envelope["payload"])
                        break
                self._notice()

    async def call(
        self, session: aiohttp.ClientSession, envelope: Json, more: Mapping[str, str]
    ) -> int:
        """Call the webhook; return its status, 0 if it can't be reached."""
        body, kind = _encoded(envelope)
        headers = {**self.sign(body), "Content-Type": kind, **more}
        try:
            async with session.post(self.webhook, data=body, headers=headers) as response:
                status = response.status
        except aiohttp.ClientError:
            status = 0
        self.answers.append(status)
        self._notice()
        return status

    def sign(self, body: bytes, *, late: float = 0.0) -> dict[str, str]:
        """Return the headers of a call ("Verifying requests from Slack")."""
        at = str(int(time.time() + self.skew - late))
        known = hmac.new(self.secret.encode(), f"v0:{at}:".encode() + body, hashlib.sha256)
        signature = f"v0={known.hexdigest()}"
        return {"X-Slack-Request-Timestamp": at, "X-Slack-Signature": signature}


async def _push(connection: web.WebSocketResponse, envelope: Json) -> None:
    with suppress(ConnectionError):
        await connection.send_json(envelope)


def _encoded(envelope: Json) -> tuple[bytes, str]:
    """Events are JSON, interactions a form with JSON in it, commands a form ("Interactivity")."""
    form = "application/x-www-form-urlencoded"
    match envelope["type"]:
        case "events_api":
            return json.dumps(envelope["payload"]).encode(), "application/json"
        case "interactive":
            return urlencode({"payload": json.dumps(envelope["payload"])}).encode(), form
        case _:
            return urlencode(envelope["payload"]).encode(), form
