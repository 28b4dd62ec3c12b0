"""WeCom's long connection: JSON in frames, each request answered under its own `req_id`."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary

import aiohttp

from channels.kit.frames import load_frame

Json = dict[str, Any]

HEARTBEAT = 30.0
"""Seconds between two signs of life; who misses them is cut off."""
_ANSWER_TIME = 10.0
_PIECE = 512 * 1024
"""Bytes of a file in one frame."""


class WeComError(Exception):
    """An answer other than success."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code


class WeComWire:
    """A connection that is signed in. Raises WeComError, aiohttp.ClientError, ConnectionError and
    TimeoutError."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._answers: dict[str, asyncio.Future[Json]] = {}
        self._lines: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def frames(self) -> AsyncIterator[Json]:
        """Yield what WeCom sends by itself, until the connection ends; pass answers to the requests
        that wait for them."""
        try:
            async for message in self._socket:
                if message.type != aiohttp.WSMsgType.TEXT:
                    continue
                frame = load_frame(message.data, "wecom")
                if "cmd" in frame:
                    yield frame
                else:
                    self._answer(frame)
        finally:
            for waiting in self._answers.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionError("the connection has ended"))

    def _answer(self, frame: Json) -> None:
        headers = frame.get("headers")
        name = str(headers.get("req_id", "")) if isinstance(headers, dict) else ""
        waiting = self._answers.get(name)
        if waiting and not waiting.done():
            waiting.set_result(frame)

    async def request(self, command: str, body: Json | None = None, name: str = "") -> Json:
        """Return the body of an answer. `name` is the `req_id` of what is answered ("": a new one);
        of one name only one request is under way."""
        name = name or f"{command}_{uuid4().hex}"
        async with self._lines.setdefault(name, asyncio.Lock()):
            answer = self._answers[name] = asyncio.get_running_loop().create_future()
            try:
                frame: Json = {"cmd": command, "headers": {"req_id": name}}
                await self._socket.send_json(frame | ({"body": body} if body else {}))
                async with asyncio.timeout(_ANSWER_TIME):
                    found = await answer
            finally:
                del self._answers[name]
        if code := found.get("errcode"):
            raise WeComError(int(code), str(found.get("errmsg", "")))
        return found.get("body") or {}

    async def beat(self) -> None:
        """Show that we live. Raises where nothing answers."""
        while True:
            await asyncio.sleep(HEARTBEAT)
            await self.request("ping")

    async def upload(self, kind: str, name: str, content: bytes) -> str:
        """Return a file, in pieces; returns its `media_id`, which holds for three days."""
        pieces = [content[at : at + _PIECE] for at in range(0, len(content), _PIECE)]
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
        about = {"type": kind, "filename": name, "total_size": len(content), "md5": digest}
        begun = await self.request(
            "aibot_upload_media_init", {**about, "total_chunks": len(pieces)}
        )
        upload = {"upload_id": begun["upload_id"]}
        for place, piece in enumerate(pieces):
            part = {"chunk_index": place, "base64_data": base64.b64encode(piece).decode()}
            await self.request("aibot_upload_media_chunk", {**upload, **part})
        return str((await self.request("aibot_upload_media_finish", upload))["media_id"])
