"""The WeCom platform: an AI bot over a long connection, whose answers stream.

The SDK is not used: decision 0017. An answer to a message is a stream, which may be replaced until
it is finished; a message that answers none, or comes after ten minutes, is separate.

WeCom's long connection: JSON in frames, each request answered under its own `req_id`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary

import aiohttp
from msgspec.structs import replace

from channels.kit.messenger import load_frame
from channels.kit.platform import (
    Button,
    Event,
    File,
    IncomingHandler,
    IncomingMessage,
    Location,
    Media,
    Platform,
    PlatformFailure,
    Post,
    Traits,
    is_lasting,
)
from channels.language import _
from channels.limited import LimitedDict
from channels.message import LARGEST_ATTACHMENT
from channels.splitting import Length
from channels.wecom import WeComSettings
from channels.wecom.reading import (
    as_it_stands,
    converted,
    decrypt,
    event_in,
    read_message,
    read_press,
    size,
)

HEARTBEAT = 30.0
"""Seconds between two heartbeats; a client without them is disconnected."""
_ANSWER_TIME = 10.0
_PIECE = 512 * 1024
"""Bytes of a file in one frame."""


class WeComError(Exception):
    """Raised for an unsuccessful response."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code


class WeComWire:
    """An authenticated connection. Raises WeComError, aiohttp.ClientError, ConnectionError and
    TimeoutError."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._answers: dict[str, asyncio.Future[Json]] = {}
        self._lines: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def frames(self) -> AsyncIterator[Json]:
        """Yield WeCom's own frames until the connection ends; pass responses to their waiting
        requests."""
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
        """Return the body of a response. `name` is the `req_id` of the answered message ("": a new
        one); only one request per name runs at a time."""
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
        """Send heartbeats. Raises an error if there is no response."""
        while True:
            await asyncio.sleep(HEARTBEAT)
            await self.request("ping")

    async def upload(self, kind: str, name: str, content: bytes) -> str:
        """Upload a file, in pieces; return its `media_id`, which is valid for three days."""
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


log = logging.getLogger(__name__)

Json = dict[str, Any]

NO_ENTRY = (
    "WeCom does not take the bot's ID or secret; copy both from the settings of the AI bot (API "
    "mode, long connection), into channels.wecom.bot_id and WECOM_SECRET, and restart the bot."
)
ANOTHER = "another program has connected as this bot, and WeCom lets only one be connected"
_LONGEST = 20_480  # bytes of a text
_MOST_KNOWN = 2_000  # messages that can be answered by a stream
_FENCE = 60  # extra bytes of a text as code
_WRONG_SECRET = {853000, 853001, 40001, 40013, 40014}
_LIMITS = {45009, 45033, 846607}
_NO_STREAM = {846605, 846608}  # the message can no longer be answered, or the stream is over
_GONE = {40031, 40003, 86001, 86003, 81013}  # no such person or chat, or not one that it serves
_REFUSED = {40058, 40008, 44004, 40004, 40007, 45002, 40016}


class WeCom(Platform):
    name = "wecom"
    traits = Traits(
        longest=_LONGEST,
        can_edit=True,
        draft=1.5,
        group_draft=3.0,
        longest_button=1_000,
        most_buttons=6,
        per_chat=30,  # in a minute
        per_group=30,
    )

    def __init__(self, settings: WeComSettings, secret: str, pause: float = 60.0) -> None:
        self._settings, self._secret, self._pause = settings, secret, pause
        self._wire: WeComWire | None = None
        self._calls = LimitedDict[str, str](_MOST_KNOWN)  # the req_id of each message
        self._labels = LimitedDict[str, str](_MOST_KNOWN)
        self._lines: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._taking: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60))

    async def close(self) -> None:
        for task in self._taking:
            task.cancel()
        await asyncio.gather(*self._taking, return_exceptions=True)
        await self._session.close()

    # Incoming events.

    async def listen(self, handler: IncomingHandler) -> None:
        async with self._session.ws_connect(self._settings.url, max_msg_size=2**24) as socket:
            wire = WeComWire(socket)
            try:
                async with asyncio.TaskGroup() as work:
                    reading = work.create_task(self._read(wire, handler))
                    body = {"bot_id": self._settings.bot_id, "secret": self._secret}
                    await wire.request("aibot_subscribe", body)
                    self._wire = wire
                    handler.connected()
                    beating = work.create_task(wire.beat())
                    is_replaced = await reading
                    beating.cancel()
            finally:
                self._wire = None
        if is_replaced:
            handler.troubled(ConnectionError(ANOTHER))
            await asyncio.sleep(self._pause)

    async def _read(self, wire: WeComWire, handler: IncomingHandler) -> bool:
        """Read until the connection ends; return whether another one has replaced it. Processing of
        its messages continues afterwards: they are not redelivered, and replies to them may have to
        wait for the next connection."""
        async for frame in wire.frames():
            kind = event_in(frame)
            if kind == "disconnected_event":
                return True
            if frame["cmd"] == "aibot_msg_callback" or kind == "template_card_event":
                task = asyncio.create_task(self._handle_frame(frame, handler))
                self._taking.add(task)
                task.add_done_callback(self._taking.discard)
        return False

    async def _handle_frame(self, frame: Json, handler: IncomingHandler) -> None:
        """Process one message or press. WeCom redelivers none."""
        try:
            body, call = frame["body"], frame["headers"]["req_id"]
            chat = str(body.get("chatid") or body["from"]["userid"])
            async with self._lines.setdefault(chat, asyncio.Lock()):  # in order
                await handler.take([await self._read_event(body, call)])
        except (KeyError, TypeError, ValueError, AttributeError):
            log.exception("a message of WeCom can't be read and is left out")
        except Exception:
            log.exception("a message of WeCom could not be kept, and does not come again")

    async def _read_event(self, body: Json, call: str) -> Event:
        if body.get("msgtype") == "event":
            pressed = read_press(body, call.replace("-", "").replace("_", ""))
            return replace(pressed, label=self._labels.get(pressed.data, pressed.data.lstrip("?")))
        self._calls[str(body["msgid"])] = call
        return await self._with_names(read_message(body))

    async def _with_names(self, message: IncomingMessage) -> IncomingMessage:
        """Fill in the names of documents, which their download addresses provide."""
        files = [
            replace(file, name=await self._find_name(file)) if file.name == "document" else file
            for file in message.files
        ]
        return replace(message, files=tuple(files))

    async def _find_name(self, file: File) -> str:
        try:
            async with self._session.get(file.id.partition(" ")[0]) as answer:
                about = answer.content_disposition
                return (about and about.filename) or file.name
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            log.info("the name of a file is not known: %s", error)
            return file.name

    async def fetch(self, file: File) -> bytes:
        url, _space, key = file.id.partition(" ")
        content = bytearray()
        async with self._session.get(url) as answer:
            answer.raise_for_status()
            async for piece in answer.content.iter_chunked(65_536):
                content += piece
                if len(content) > LARGEST_ATTACHMENT + 32:
                    return bytes(content)  # the bot refuses it, and says so
        return await asyncio.to_thread(decrypt, bytes(content), key) if key else bytes(content)

    # Outgoing messages.

    @property
    def length(self) -> Length:
        return lambda markdown: size(converted(markdown))

    def plain_length(self, text: str) -> int:
        return size(converted(text)) + _FENCE

    async def post(self, place: Location, post: Post) -> str:
        """Send a post; return the name of a stream, which `edit` may still replace, or a unique
        name."""
        text = as_it_stands(post.text) if post.is_plain else converted(post.text)
        sent, call = "", self._calls.get(place.message, "")
        if call:
            sent = f"stream{uuid4().hex}"
            try:
                await self._stream(call, sent, text, is_done=not post.is_draft)
                self._calls[sent] = call  # until it is finished it may be replaced
            except WeComError as error:
                if error.code not in _NO_STREAM or post.is_draft:
                    raise
                call = ""
        if not call:
            sent = await self._push(place, "markdown", {"content": text})
        if post.buttons:
            await self._push(place, "template_card", self._card(post.buttons))
        return sent

    async def edit(self, place: Location, message: str, post: Post) -> None:
        text = as_it_stands(post.text) if post.is_plain else converted(post.text)
        await self._stream(self._calls.get(message, ""), message, text, is_done=not post.is_draft)
        if post.buttons:
            await self._push(place, "template_card", self._card(post.buttons))

    async def delete(self, place: Location, message: str) -> None:
        """End a draft: messages can't be deleted there."""
        await self._stream(self._calls.get(message, ""), message, "…", is_done=True)

    async def upload(self, place: Location, media: Media) -> str:
        kind = "image" if media.kind == "picture" else "file"
        id = await self._connected().upload(kind, media.name, media.content)
        sent = await self._push(place, kind, {"media_id": id})
        if media.caption or media.buttons:
            post = Post(media.caption or _("Choose"), media.buttons)
            await self.post(Location(place.chat, is_group=place.is_group), post)
        return sent

    def _card(self, buttons: tuple[Button, ...]) -> Json:
        for button in buttons:
            self._labels[button.data] = button.label
        return {
            "card_type": "button_interaction",
            "main_title": {"title": _("Choose")},
            "button_list": [{"text": one.label, "key": one.data, "style": 2} for one in buttons],
            "task_id": uuid4().hex,
        }

    async def _stream(self, call: str, name: str, text: str, *, is_done: bool) -> None:
        if not call:
            raise WeComError(846608, "this process did not begin the stream")
        stream = {"id": name, "finish": is_done, "content": text}
        body = {"msgtype": "stream", "stream": stream}
        await self._connected().request("aibot_respond_msg", body, call)

    async def _push(self, place: Location, kind: str, content: Json) -> str:
        body = {"chatid": place.chat, "chat_type": 2 if place.is_group else 1}
        await self._connected().request("aibot_send_msg", {**body, "msgtype": kind, kind: content})
        return uuid4().hex

    def _connected(self) -> WeComWire:
        if self._wire is None:
            raise ConnectionError("the bot is not connected to WeCom")
        return self._wire

    def explain(self, error: BaseException) -> PlatformFailure:
        match error:
            case BaseExceptionGroup():
                return self.explain(error.exceptions[0])
            case WeComError():
                return _explain(error)
            case aiohttp.WSServerHandshakeError():
                return PlatformFailure("passing")
            case aiohttp.ClientResponseError() if is_lasting(error.status):  # a deleted file
                return PlatformFailure("refused")
            case aiohttp.ClientError() | OSError() | TimeoutError():
                return PlatformFailure("passing")
        return PlatformFailure("fatal")


def _explain(error: WeComError) -> PlatformFailure:
    if error.code in _WRONG_SECRET:
        return PlatformFailure("revoked", advice=NO_ENTRY)
    if error.code in _LIMITS:
        return PlatformFailure("wait", 10.0)
    if error.code in _GONE:
        return PlatformFailure("gone")
    if error.code in _REFUSED or error.code in _NO_STREAM:
        return PlatformFailure("refused")
    return PlatformFailure("passing" if error.code in (-1, 6000, 846609) else "fatal")
