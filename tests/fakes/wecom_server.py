"""A strict gateway of WeCom's AI bots on the loopback interface, and the people who write to them.

It refuses what the gateway refuses. Each refusal names the section of "智能机器人长连接"
(developer.work.weixin.qq.com/document/path/101463) that documents it; refusals without a source are
marked `unverified`. One bot has one connection; a message is sent to it once.

async with WeComServer() as wecom:
    ann = wecom.person("ann")
    await ann.says("Hello!")
    message = await wecom.shown("Hello, ann!")
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tests.fakes.platform import Platform

Json = dict[str, Any]

BOT_ID, SECRET = "aibtest", "secret-of-tests"
LONGEST_TEXT = 20_480  # bytes: 回复普通消息, 主动推送消息
MOST_BUTTONS = 6  # 模板卡片类型, 按钮交互型
PIECE, MOST_PIECES = 512 * 1024, 100  # 上传临时素材, 注意事项
LARGEST = {"image": 10 * 2**20, "voice": 2 * 2**20, "video": 10 * 2**20, "file": 20 * 2**20}
STREAM_TIME = 600.0  # seconds: 流式消息回复机制
MOST_A_MINUTE = 30  # messages to one chat: 主动推送消息


class WeComRefusal(Exception):
    """A refusal of the gateway, with a code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class WeComMessage:
    """A message of the bot. `texts` are all texts that a stream ever showed."""

    chat: str
    kind: str
    texts: list[str]
    answers: str = ""
    is_done: bool = True
    begun: float = field(default_factory=time.monotonic)
    buttons: dict[str, str] = field(default_factory=dict)
    task: str = ""
    file: bytes = b""
    name: str = ""

    @property
    def text(self) -> str:
        return self.texts[-1]


class WeComServer(Platform[WeComMessage]):
    """The server, on a free port; an asynchronous context manager. `failures` are the responses to
    the next messages; `drops` is the number of requests that get no response."""

    def __init__(self) -> None:
        super().__init__()
        self.secret, self.drops, self.connections, self.beats = SECRET, 0, 0, 0
        self.messages: list[WeComMessage] = []
        self.failures: deque[WeComRefusal] = deque()
        self.is_out = False
        self.known: set[str] = set()
        self.counts: Counter[str] = Counter()
        self._calls: dict[str, tuple[str, str]] = {}
        self._streams: dict[str, WeComMessage] = {}
        self._uploads: dict[str, tuple[Json, dict[int, bytes]]] = {}
        self._media: dict[str, tuple[str, bytes]] = {}
        self._files: dict[str, tuple[str, bytes]] = {}
        self._wire: web.WebSocketResponse | None = None

    def _app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/", self._serve)
        app.router.add_get("/file/{id}", self._download)
        return app

    @property
    def url(self) -> str:
        return self.base_url.replace("http", "ws")

    # Actions of people.

    def person(self, id: str, group: str = "") -> WeComPerson:
        """Return a person in a private chat with the bot or in a group."""
        self.known.add(group or id)
        return WeComPerson(self, id, group)

    async def cut(self) -> None:
        """Cut the connection."""
        if self._wire is not None:
            await self._wire.close()

    _close = cut

    async def push(self, command: str, body: Json, call: str = "") -> str:
        """Send an event over the current connection; return its `req_id`."""
        call = call or f"call-{next(self._numbers)}"
        await self.until(lambda: self._wire is not None)
        assert self._wire is not None
        frame = {"cmd": command, "headers": {"req_id": call}, "body": body}
        await self._wire.send_str(json.dumps(frame))
        return call

    def keep_file(self, name: str, content: bytes) -> Json:
        """多媒体资源解密: AES-256-CBC, filled up to blocks of 32 bytes, a key for each."""
        key, id = os.urandom(32), f"f{next(self._numbers)}"
        fill = 32 - len(content) % 32
        writer = Cipher(algorithms.AES256(key), modes.CBC(key[:16])).encryptor()
        self._files[id] = (name, writer.update(content + bytes([fill]) * fill) + writer.finalize())
        secret = base64.b64encode(key).decode().rstrip("=")
        return {"url": f"{self.base_url}/file/{id}", "aeskey": secret}

    def note(self, call: str, message: str, chat: str) -> None:
        self._calls[call] = (message, chat)

    def new_id(self) -> str:
        return f"CAIQ16HMjQYY/NGagIOAgAMgq4KM{next(self._numbers):04}="

    # Waits for tests.

    def _sent(self, chat: str | None) -> Iterable[WeComMessage]:
        """Return the finished messages."""
        sent = (one for one in reversed(self.messages) if one.is_done)
        return (one for one in sent if chat in (None, one.chat))

    # The gateway.

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if self.is_out:
            raise web.HTTPServiceUnavailable
        wire = web.WebSocketResponse()
        await wire.prepare(request)
        try:
            async for message in wire:
                if message.type == WSMsgType.TEXT:
                    await self._answer(wire, json.loads(message.data))
        finally:
            if self._wire is wire:
                self._wire = None
        return wire

    async def _answer(self, wire: web.WebSocketResponse, frame: Json) -> None:
        answer: Json = {"headers": {"req_id": frame["headers"]["req_id"]}}
        try:
            body = await self._execute(wire, frame)
            answer |= {"errcode": 0, "errmsg": "ok"} | ({"body": body} if body else {})
        except WeComRefusal as error:
            answer |= {"errcode": error.code, "errmsg": str(error)}
        if self.drops:
            self.drops -= 1
        else:
            await wire.send_str(json.dumps(answer))
        await self._look_again()

    async def _execute(self, wire: web.WebSocketResponse, frame: Json) -> Json:
        command, body = frame["cmd"], frame.get("body", {})
        if command == "aibot_subscribe":
            return await self._subscribe(wire, body)
        if self._wire is not wire:  # unverified: requests before the subscription
            raise WeComRefusal(846609, "aibot websocket not subscribed")
        match command:
            case "ping":
                self.beats += 1
                return {}
            case "aibot_respond_msg":
                return self._respond(frame["headers"]["req_id"], body)
            case "aibot_send_msg":
                return self._send(body)
            case "aibot_upload_media_init":
                return self._begin(body)
            case "aibot_upload_media_chunk":
                return self._add(body)
            case "aibot_upload_media_finish":
                return self._finish(body)
        raise WeComRefusal(40058, f"invalid cmd {command}")

    async def _subscribe(self, wire: web.WebSocketResponse, body: Json) -> Json:
        if body != {"bot_id": BOT_ID, "secret": self.secret}:  # the code is unverified
            raise WeComRefusal(853000, "invalid bot_id or secret")
        before, self._wire = self._wire, wire
        self.connections += 1
        if before is not None:  # 连接数量限制: the new one replaces the old
            event = {"msgtype": "event", "event": {"eventtype": "disconnected_event"}}
            frame = {"cmd": "aibot_event_callback", "headers": {"req_id": "gone"}, "body": event}
            await before.send_str(json.dumps(frame))
            await before.close()
        return {}

    def _count(self, chat: str) -> None:
        if self.failures:
            raise self.failures.popleft()
        self.counts[chat] += 1
        if self.counts[chat] > MOST_A_MINUTE:
            raise WeComRefusal(45009, "api freq out of limit")

    def _respond(self, call: str, body: Json) -> Json:
        """回复普通消息."""
        if call not in self._calls:
            raise WeComRefusal(846605, "invalid req_id")
        message, chat = self._calls[call]
        if body.get("msgtype") != "stream":
            raise WeComRefusal(40008, "invalid message type")
        stream = body["stream"]
        _check_text(stream["content"])
        shown = self._streams.get(stream["id"])
        if shown is None:
            self._count(chat)
            shown = WeComMessage(chat, "stream", [], message)
            self._streams[stream["id"]] = shown
            self.messages.append(shown)
        elif shown.is_done or time.monotonic() - shown.begun > STREAM_TIME:
            raise WeComRefusal(846608, "stream message update expired")
        shown.texts.append(stream["content"])
        shown.is_done = bool(stream["finish"])
        return {}

    def _send(self, body: Json) -> Json:
        """主动推送消息."""
        chat, kind = body.get("chatid", ""), body.get("msgtype", "")
        if chat not in self.known or body.get("chat_type") not in (0, 1, 2):
            raise WeComRefusal(86003, "invalid chatid")  # unverified: the code
        self._count(chat)
        content = body.get(kind)
        if not isinstance(content, dict):
            raise WeComRefusal(40058, f"missing {kind}")
        message = WeComMessage(chat, kind, [""])
        if kind == "markdown":
            _check_text(content["content"])
            message.texts = [content["content"]]
        elif kind == "template_card":
            _read_card(content, message)
        elif kind in ("image", "file"):
            if content["media_id"] not in self._media:
                raise WeComRefusal(40007, "invalid media_id")
            message.name, message.file = self._media[content["media_id"]]
        else:
            raise WeComRefusal(40008, "invalid message type")
        self.messages.append(message)
        return {}

    def _begin(self, body: Json) -> Json:
        """上传初始化."""
        kind, size, pieces = body["type"], body["total_size"], body["total_chunks"]
        if kind not in LARGEST or not 5 <= size <= LARGEST[kind]:
            raise WeComRefusal(40058, "invalid total_size")
        if not 1 <= pieces <= MOST_PIECES or len(body["filename"].encode()) > 256:
            raise WeComRefusal(40058, "invalid total_chunks or filename")
        upload = f"u{next(self._numbers)}"
        self._uploads[upload] = (body, {})
        return {"upload_id": upload}

    def _add(self, body: Json) -> Json:
        """上传分片."""
        content = base64.b64decode(body["base64_data"], validate=True)
        if body["upload_id"] not in self._uploads or len(content) > PIECE:
            raise WeComRefusal(40058, "invalid upload_id or chunk")
        self._uploads[body["upload_id"]][1][body["chunk_index"]] = content
        return {}

    def _finish(self, body: Json) -> Json:
        """上传结束."""
        about, pieces = self._uploads.pop(body["upload_id"])
        content = b"".join(pieces[place] for place in sorted(pieces))
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if len(pieces) != about["total_chunks"] or digest != about["md5"]:
            raise WeComRefusal(40058, "md5 does not match")
        media = f"m{next(self._numbers)}"
        self._media[media] = (about["filename"], content)
        return {"type": about["type"], "media_id": media, "created_at": int(time.time())}

    async def _download(self, request: web.Request) -> web.Response:
        name, content = self._files[request.match_info["id"]]
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return web.Response(body=content, headers=headers)


def _check_text(text: str) -> None:
    if len(text.encode()) > LONGEST_TEXT:
        raise WeComRefusal(45002, "content size out of limit")
    if not text.strip():
        raise WeComRefusal(44004, "empty content")


def _read_card(card: Json, message: WeComMessage) -> None:
    """模板卡片类型, 按钮交互型."""
    buttons = card.get("button_list", [])
    if card.get("card_type") != "button_interaction" or not 1 <= len(buttons) <= MOST_BUTTONS:
        raise WeComRefusal(40016, "invalid button size")
    if not card.get("task_id") or not card.get("main_title", {}).get("title"):
        raise WeComRefusal(40058, "missing task_id or main_title")
    for button in buttons:
        if not button["text"] or not 1 <= len(button["key"].encode()) <= 1024:
            raise WeComRefusal(40058, "invalid button")
    message.texts = [card["main_title"]["title"]]
    message.buttons = {button["text"]: button["key"] for button in buttons}
    message.task = card["task_id"]


@dataclass
class WeComPerson:
    """A person who uses WeCom."""

    server: WeComServer
    id: str
    group: str = ""

    def body(self, kind: str, content: Any) -> Json:
        """接收消息回调. A private chat has no name."""
        body: Json = {"msgid": self.server.new_id(), "aibotid": BOT_ID, "msgtype": kind}
        body |= {"from": {"userid": self.id}, "chattype": "group" if self.group else "single"}
        return body | ({"chatid": self.group} if self.group else {}) | {kind: content}

    async def sends(self, body: Json) -> str:
        """Send a message; return its id. The bot does not confirm it."""
        call = f"call-{body['msgid']}"
        self.server.note(call, body["msgid"], self.group or self.id)
        await self.server.push("aibot_msg_callback", body, call)
        return str(body["msgid"])

    async def says(self, text: str, quoting: str = "") -> str:
        body = self.body("text", {"content": text})
        if quoting:
            body["quote"] = {"msgtype": "text", "text": {"content": quoting}}
        return await self.sends(body)

    async def sends_file(self, name: str, content: bytes, media_type: str, text: str = "") -> str:
        kind = "image" if media_type.startswith("image/") else "file"
        part = {"msgtype": kind, kind: self.server.keep_file(name, content)}
        if not text or kind == "file":  # 接收消息, 图文混排: texts and pictures
            return await self.sends(self.body(kind, part[kind]))
        words = {"msgtype": "text", "text": {"content": text}}
        return await self.sends(self.body("mixed", {"msg_item": [words, part]}))

    async def presses(self, message: WeComMessage, label: str) -> None:
        """接收事件回调, 模板卡片事件."""
        card = {"event_key": message.buttons[label], "task_id": message.task}
        card["card_type"] = "button_interaction"
        event = {"eventtype": "template_card_event", "template_card_event": card}
        await self.server.push("aibot_event_callback", self.body("event", event))
