"""Discord's gateway: the WebSocket over which a bot gets events.

It closes a connection as Discord's reference "Opcodes and Status Codes: Gateway Close Event Codes"
states, keeps events while a session is disconnected, and delivers them when the session is resumed
("Gateway: Resuming"). A bot gets only the events of its intents ("Gateway: List of Intents");
without the one for content it can read only messages addressed to it ("Message Content Intent").
"""

from __future__ import annotations

import asyncio
import itertools
import json
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMessage, web

from tests.waiting import PATIENCE

Json = dict[str, Any]

GUILDS, GUILD_MESSAGES, GUILD_REACTIONS = 1 << 0, 1 << 9, 1 << 10
DIRECT_MESSAGES, DIRECT_REACTIONS, MESSAGE_CONTENT = 1 << 12, 1 << 13, 1 << 15
PRIVILEGED = (1 << 1) | (1 << 8) | MESSAGE_CONTENT
"""Members, presences, content: to be turned on in the developer portal ("Privileged Intents")."""
ALL_INTENTS = (1 << 25) - 1
_NEEDED = {
    "MESSAGE_CREATE": (GUILD_MESSAGES, DIRECT_MESSAGES),
    "MESSAGE_UPDATE": (GUILD_MESSAGES, DIRECT_MESSAGES),
    "MESSAGE_DELETE": (GUILD_MESSAGES, DIRECT_MESSAGES),
    "MESSAGE_REACTION_ADD": (GUILD_REACTIONS, DIRECT_REACTIONS),
    "GUILD_CREATE": (GUILDS, GUILDS),
    "THREAD_CREATE": (GUILDS, GUILDS),
}
"""The intent that an event requires in a guild, and in a direct message."""
MOST_COMMANDS, COMMAND_TIME = 120, 60.0
"""The maximum commands of a bot in this many seconds ("Gateway: Rate Limiting")."""
HEARTBEAT = 41_250
"""Milliseconds between two heartbeats."""


@dataclass
class Session:
    """An identified session of a bot; `events` are those since then, each with its number."""

    id: str
    intents: int
    events: list[Json] = field(default_factory=list)
    socket: Socket | None = None

    def hears(self, kind: str, data: Json) -> Json | None:
        """Return an event as this session gets it; None if it does not get it."""
        in_guild, direct = _NEEDED.get(kind, (0, 0))
        needed = in_guild if "guild_id" in data or kind in ("GUILD_CREATE",) else direct
        if needed and not self.intents & needed:
            return None
        if first := data.get("referenced_message"):
            data = data | {"referenced_message": first if self._reads(first) else hide(first)}
        if kind.startswith("MESSAGE_") and "content" in data and not self._reads(data):
            return hide(data)
        return data

    def _reads(self, message: Json) -> bool:
        is_for_it = any(user.get("bot") for user in message.get("mentions", ()))
        is_own = bool(message.get("author", {}).get("bot"))
        return (
            bool(self.intents & MESSAGE_CONTENT) or "guild_id" not in message or is_for_it or is_own
        )

    def add(self, kind: str, data: Json) -> None:
        if (heard := self.hears(kind, data)) is not None:
            self.bring(kind, heard)

    def bring(self, kind: str, data: Any) -> None:
        event = {"op": 0, "t": kind, "s": len(self.events) + 1, "d": data}
        self.events.append(event)
        if self.socket is not None:
            self.socket.send(event)


def hide(message: Json) -> Json:
    """Return a message without the parts that require the intent for content."""
    hidden: Json = {"content": "", "embeds": [], "attachments": [], "components": []}
    return message | hidden


class Socket:
    """A connection. Messages are compressed as one stream ("Transport Compression")."""

    def __init__(self, ws: web.WebSocketResponse) -> None:
        self.ws = ws
        self._packer = zlib.compressobj()
        self._waiting: asyncio.Queue[Json] = asyncio.Queue()
        self.is_silent = False  # takes heartbeats, and confirms none

    def send(self, payload: Json) -> None:
        self._waiting.put_nowait(payload)

    async def write(self) -> None:
        """Send queued data until cancelled."""
        while True:
            text = json.dumps(await self._waiting.get()).encode()
            packed = self._packer.compress(text) + self._packer.flush(zlib.Z_SYNC_FLUSH)
            with suppress(ConnectionError):
                await self.ws.send_bytes(packed)


class Gateway:
    """All sessions of the bot. `connections` counts the connections, `closed` has the codes with
    which they were closed."""

    def __init__(
        self,
        token: Callable[[], str],
        ready: Callable[[], tuple[Json, list[Json]]],
        changed: asyncio.Condition,
    ) -> None:
        self._token, self._ready, self._changed = token, ready, changed
        self.portal = PRIVILEGED
        self.is_out = False
        self.sessions: dict[str, Session] = {}
        self.connections = 0
        self.closed: list[int] = []
        self.identified: list[Json] = []
        self.resumed = 0
        self.told: list[tuple[str, Json]] = []
        self._names = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()

    # What tests do.

    def tell(self, kind: str, data: Json) -> None:
        """Dispatch an event."""
        self.told.append((kind, data))
        for session in self.sessions.values():
            session.add(kind, data)

    def tell_as_it_is(self, kind: str, data: Any) -> None:
        """Send data of any shape to all sessions."""
        for session in self.sessions.values():
            session.bring(kind, data)

    def tell_all_again(self) -> None:
        """Redeliver all events to the connected sessions."""
        for kind, data in tuple(self.told):
            self.tell(kind, data)

    def cut(self) -> None:
        """Cut all connections."""
        for socket in self._sockets():
            if socket.ws._req is not None and socket.ws._req.transport is not None:
                socket.ws._req.transport.abort()

    def forget_sessions(self) -> None:
        """Make all sessions impossible to resume, as after hours."""
        self.sessions.clear()

    async def close(self, code: int) -> None:
        for socket in self._sockets():
            await socket.ws.close(code=code)

    async def is_connected(self, running: asyncio.Task[Any] | None = None) -> None:
        """Wait for a connected session, or for the end of the bot."""
        if running is not None:
            running.add_done_callback(lambda _: self.notice())
        async with self._changed, asyncio.timeout(PATIENCE):
            await self._changed.wait_for(lambda: self._sockets() or (running and running.done()))

    async def is_known(self) -> None:
        """Wait for a session: later events are delivered, whether it is cut or not."""
        async with self._changed, asyncio.timeout(PATIENCE):
            await self._changed.wait_for(lambda: self.sessions)

    def notice(self) -> None:
        """Wake the waiting tasks."""

        async def notify() -> None:
            async with self._changed:
                self._changed.notify_all()

        task = asyncio.ensure_future(notify())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _sockets(self) -> list[Socket]:
        return [session.socket for session in self.sessions.values() if session.socket]

    # What the bot does.

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.connections += 1
        self.notice()
        if self.is_out:
            return web.Response(status=503)
        ws = web.WebSocketResponse(autoping=True)
        await ws.prepare(request)
        if request.query.get("v") != "10" or request.query.get("encoding") != "json":
            return await self._leave(ws, 4012)
        socket = Socket(ws)
        writing = asyncio.create_task(socket.write())
        socket.send({"op": 10, "d": {"heartbeat_interval": HEARTBEAT}})
        try:
            code = await self._stream_conversation(socket)
            if code:
                await self._leave(ws, code)
        finally:
            writing.cancel()
            for session in self.sessions.values():
                if session.socket is socket:
                    session.socket = None
        return ws

    async def _leave(self, ws: web.WebSocketResponse, code: int) -> web.WebSocketResponse:
        self.closed.append(code)
        await ws.close(code=code)
        return ws

    async def _stream_conversation(self, socket: Socket) -> int:
        """Read a connection to its end; return the code that closes it (0: the bot closed it)."""
        session: Session | None = None
        times: deque[float] = deque(maxlen=MOST_COMMANDS)
        async for message in socket.ws:
            times.append(asyncio.get_running_loop().time())
            if len(times) == MOST_COMMANDS and times[-1] - times[0] < COMMAND_TIME:
                return 4008
            answer = self._answer(socket, session, message)
            if isinstance(answer, int):
                return answer
            session = answer
            self.notice()
        if session is not None and socket.ws.close_code in (1000, 1001):
            self.sessions.pop(session.id, None)  # "Gateway: Disconnecting"
        return 0

    def _answer(
        self, socket: Socket, session: Session | None, message: WSMessage
    ) -> Session | int | None:
        """Return the session that a message begins, or the code that closes ("Opcodes and Status
        Codes")."""
        try:
            payload = json.loads(message.data)
            op, data = payload["op"], payload.get("d")
        except (ValueError, KeyError, TypeError):
            return 4002
        if op == 1:
            if not socket.is_silent:
                socket.send({"op": 11})
            return session
        if op not in (2, 3, 4, 6, 8):
            return 4001
        if op in (2, 6):
            return 4005 if session else self._begin(socket, op, data)
        return session or 4003

    def _begin(self, socket: Socket, op: int, data: Mapping[str, Any]) -> Session | int | None:
        """Identify or resume; return the session, the code that closes, or None if there is no
        session to resume."""
        if data.get("token") != self._token():
            return 4004
        return self._identify(socket, data) if op == 2 else self._resume(socket, data)

    def _identify(self, socket: Socket, data: Mapping[str, Any]) -> Session | int:
        intents = data.get("intents")
        if not isinstance(intents, int) or intents & ~ALL_INTENTS:
            return 4013
        if intents & PRIVILEGED & ~self.portal:
            return 4014
        if set(data.get("properties", ())) < {"os", "browser", "device"}:
            return 4002
        self.identified.append(dict(data))
        session = Session(f"session{next(self._names)}", intents, socket=socket)
        self.sessions = {session.id: session}
        ready, guilds = self._ready()
        session.add("READY", ready | {"session_id": session.id})
        for guild in guilds:
            session.add("GUILD_CREATE", guild)
        return session

    def _resume(self, socket: Socket, data: Mapping[str, Any]) -> Session | int | None:
        session = self.sessions.get(str(data.get("session_id")))
        if session is None:
            socket.send({"op": 9, "d": False})
            return None
        number = data.get("seq")
        if not isinstance(number, int) or number > len(session.events):
            return 4007
        session.socket = socket
        self.resumed += 1
        for event in session.events[number:]:
            socket.send(event)
        session.add("RESUMED", {"_trace": []})
        return session
