"""A strict open platform of Feishu on the loopback interface, and the people who write to the bot.

It refuses the same requests as the platform, with its codes; each refusal names the page
(open.feishu.cn) on which it is documented; others are marked `unverified`. Events are sent over a
long connection, and repeated until they are confirmed.

async with FeishuServer() as feishu:
    ann = feishu.person("Ann")
    await ann.says("Hello!")
    message = await feishu.shown("Hello, Ann!")
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from channels.feishu.api import CONTROL, DATA, WireFrame
from tests.fakes.platform import Platform

Json = dict[str, Any]

APP_ID, SECRET, BOT_ID = "cli_a1b2c3d4e5f6", "secret-of-tests", "ou_bot"
LARGEST_CARD, LARGEST_TEXT = 30_000, 150_000  # "Send message", limits: 30 KB, 150 KB
LARGEST_IMAGE, LARGEST_FILE = 10 * 10**6, 30 * 10**6  # "Upload image", "Upload file"
MOST_EDITS = 5  # a second: "Update sent message card", limits
FILE_TYPES = {"opus", "mp4", "pdf", "doc", "xls", "ppt", "stream"}  # "Upload file"
MOST_TABLES = 5  # in a card: unverified, people report 11310 "card table number over limit"


class FeishuRefusal(Exception):
    """A refusal of the open platform, with a code."""

    def __init__(self, code: int, message: str, status: int = 400, seconds: int = 0) -> None:
        super().__init__(message)
        self.code, self.status, self.seconds = code, status, seconds


@dataclass
class FeishuMessage:
    """A message in a chat. `texts` are all its versions."""

    id: str
    chat: str
    kind: str
    content: Json
    sender: str
    texts: list[str] = field(default_factory=list)
    root: str = ""
    parent: str = ""
    thread: str = ""
    file: bytes = b""
    edits: deque[float] = field(default_factory=deque)

    @property
    def text(self) -> str:
        return self.texts[-1]

    @property
    def buttons(self) -> dict[str, Json]:
        """Return the value of each button, by its label."""
        parts = self.content.get("body", {}).get("elements", [])
        return {
            part["text"]["content"]: part["behaviors"][0]["value"]
            for part in parts
            if part["tag"] == "button"
        }

    @property
    def is_plain(self) -> bool:
        return bool(self.content["body"]["elements"][0]["tag"] == "div")


class FeishuServer(Platform[FeishuMessage]):
    """The server, on a free port; an asynchronous context manager. `failures` are the responses to
    the next messages sent, `outage` the response to everything; an event that is not confirmed for
    `patience` seconds is repeated (three, on the real platform)."""

    def __init__(self, patience: float = 3.0) -> None:
        super().__init__()
        self.secret, self.patience = SECRET, patience
        self.messages: dict[str, FeishuMessage] = {}
        self.failures: deque[FeishuRefusal] = deque()
        self.edit_failures: deque[FeishuRefusal] = deque()
        self.outage: FeishuRefusal | None = None
        self.chats: dict[str, str] = {}  # "p2p" or "group", by the chat
        self.names: dict[str, str] = {}
        self.may_read_names = True
        self.calls: list[tuple[str, str]] = []
        self.connections = self.pings = self.pushes = 0
        self.tokens: set[str] = set()
        self.life = 7200  # seconds of a token
        self.skew = 0.0  # seconds by which its clock is ahead of ours
        self.takes_markdown = True
        self._history: dict[str, Json] = {}
        self.parts = 1  # frames in which an event comes
        self._files: dict[str, bytes] = {}
        self._once: dict[str, str] = {}
        self._tickets: set[str] = set()
        self._wires: set[web.WebSocketResponse] = set()
        self._pending: dict[str, Json] = {}
        self._confirmed: list[str] = []

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=60 * 10**6)
        app.router.add_post("/callback/ws/endpoint", self._endpoint)
        app.router.add_get("/ws/v2", self._wire)
        app.router.add_route("*", "/open-apis/{path:.*}", self._answer)
        return app

    # What people do.

    def person(self, name: str, group: str = "") -> FeishuPerson:
        """Return a person in a private chat with the bot, or in a group with the bot."""
        id = f"ou_{next(self._numbers)}{name.lower()}"
        chat = group or f"oc_{id}"
        self.chats[chat] = "group" if group else "p2p"
        self.names[id] = name
        return FeishuPerson(self, name, id, chat)

    async def cut(self) -> None:
        """Cut the connection."""
        for wire in tuple(self._wires):
            await wire.close()

    _close = cut

    def bring(self, kind: str, event: Json, id: str = "") -> str:
        """Send an event repeatedly until it is confirmed; return its id."""
        id = id or f"e{next(self._numbers)}"
        header = {"event_id": id, "event_type": kind, "app_id": APP_ID, "create_time": self.now()}
        self._history[id] = {"schema": "2.0", "header": header, "event": event}
        self._bring(id)
        return id

    async def bring_again(self) -> None:
        """Send all events so far once more, each until it is confirmed."""
        for id in tuple(self._history):
            self._confirmed.remove(id)
            self._bring(id)
            await self.confirmed(id)

    def _bring(self, id: str) -> None:
        self._pending[id] = self._history[id]
        self._start(self._push(id))

    async def confirmed(self, id: str) -> None:
        await self.until(lambda: id in self._confirmed)

    def now(self) -> str:
        return str(int((time.time() + self.skew) * 1000))

    def new_id(self, kind: str) -> str:
        return f"{kind}_{next(self._numbers):08}"

    def keep_file(self, content: bytes) -> str:
        key = self.new_id("file_v3")
        self._files[key] = content
        return key

    # What a test waits for.

    @property
    def sent(self) -> list[FeishuMessage]:
        """Return the messages of the bot, in order."""
        return [message for message in self.messages.values() if message.sender == APP_ID]

    def _sent(self, chat: str | None) -> Iterable[FeishuMessage]:
        return (one for one in reversed(self.sent) if not chat or one.chat == chat)

    # The long connection.

    async def _endpoint(self, request: web.Request) -> web.Response:
        body = await request.json()
        if self.outage:
            return web.json_response({"code": 1, "msg": "system busy"})
        if body != {"AppID": APP_ID, "AppSecret": self.secret}:
            # unverified: which code a wrong secret has; the SDK knows 514 for "auth failed"
            return web.json_response({"code": 514, "msg": "auth failed"})
        ticket = self.new_id("ticket")
        self._tickets.add(ticket)
        address = self.base_url.replace("http", "ws")
        url = f"{address}/ws/v2?device_id={ticket}&service_id=33554678&access_key=k&ticket={ticket}"
        config = {"PingInterval": 1, "ReconnectCount": -1, "ReconnectInterval": 1}
        data = {"URL": url, "ClientConfig": config}
        return web.json_response({"code": 0, "msg": "success", "data": data})

    async def _wire(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("ticket") not in self._tickets:  # it works once: unverified
            headers = {"handshake-status": "403", "handshake-msg": "invalid ticket"}
            return web.Response(status=403, headers=headers)
        self._tickets.discard(request.query["ticket"])
        wire = web.WebSocketResponse()
        await wire.prepare(request)
        self._wires.add(wire)
        self.connections += 1
        await self._look_again()
        try:
            async for message in wire:
                if message.type == WSMsgType.BINARY:
                    await self._read_frame(wire, WireFrame.load(message.data))
        finally:
            self._wires.discard(wire)
        return wire

    async def _read_frame(self, wire: web.WebSocketResponse, frame: WireFrame) -> None:
        if frame.method == CONTROL and frame.headers["type"] == "ping":
            self.pings += 1
            frame.headers["type"] = "pong"
            frame.payload = b'{"PingInterval":1}'
            await wire.send_bytes(frame.dump())
        elif frame.method == DATA and json.loads(frame.payload)["code"] == 200:
            id = frame.headers["message_id"]
            self._pending.pop(id, None)
            self._confirmed.append(id)
        await self._look_again()

    async def _push(self, id: str) -> None:
        """ "Receive events through a long connection": within three seconds, or it comes again."""
        while id in self._pending:
            await self.until(lambda: self._wires or id not in self._pending)
            for wire in tuple(self._wires)[:1]:  # one of the connections
                with suppress(ConnectionError, RuntimeError):
                    for frame in self._frames(id):
                        await wire.send_bytes(frame.dump())
                self.pushes += 1
                await self._look_again()
            with suppress(TimeoutError):
                async with asyncio.timeout(self.patience):
                    await self.until(lambda: id not in self._pending)

    def _frames(self, id: str) -> list[WireFrame]:
        content = json.dumps(self._pending[id]).encode()
        size = -(-len(content) // self.parts)
        headers = {"type": "event", "message_id": id, "trace_id": "t", "sum": str(self.parts)}
        return [
            WireFrame(
                method=DATA,
                service=33554678,
                headers={**headers, "seq": str(n)},
                payload=content[n * size : (n + 1) * size],
            )
            for n in range(self.parts)
        ]

    # HTTP.

    async def _answer(self, request: web.Request) -> web.Response:
        path = request.match_info["path"]
        self.calls.append((request.method, path))
        try:
            if self.outage:
                raise self.outage
            if path == "auth/v3/tenant_access_token/internal":
                return web.json_response(await self._new_token(request))
            given = request.headers.get("Authorization", "").removeprefix("Bearer ")
            if given not in self.tokens:  # "General error codes"
                raise FeishuRefusal(99991663, "Invalid access token for authorization.")
            if path.endswith(tuple(self._files)) and "/resources/" in path:
                return web.Response(body=self._files[path.rpartition("/")[2]])
            data = await self._execute(request, path)
        except FeishuRefusal as error:
            headers = {"x-ogw-ratelimit-reset": str(error.seconds)} if error.seconds else {}
            body = {"code": error.code, "msg": str(error)}
            return web.json_response(body, status=error.status, headers=headers)
        finally:
            await self._look_again()
        flat = data if path == "bot/v3/info" else {"data": data}
        return web.json_response({"code": 0, "msg": "success", **flat})

    async def _new_token(self, request: web.Request) -> Json:
        body = await request.json()
        if body.get("app_id") != APP_ID:  # "Get custom app's tenant_access_token", error codes
            raise FeishuRefusal(10003, "invalid param")
        if body.get("app_secret") != self.secret:
            raise FeishuRefusal(10014, "app secret invalid")
        token = self.new_id("t-token")
        self.tokens.add(token)
        return {"code": 0, "msg": "ok", "tenant_access_token": token, "expire": self.life}

    async def _execute(self, request: web.Request, path: str) -> Json:
        if path.startswith("im/v1/messages"):
            return await self._carry_out_message(request, path)
        match request.method, path.split("/"):
            case "GET", ["bot", "v3", "info"]:
                return {"bot": {"open_id": BOT_ID, "app_name": "Parley", "activate_status": 2}}
            case "GET", ["contact", "v3", "users", id]:
                if not self.may_read_names:  # "General error codes"
                    raise FeishuRefusal(99991672, "Access denied: contact:user.base:readonly")
                return {"user": {"open_id": id, "name": self.names.get(id, "")}}
            case "GET", ["im", "v1", "chats", chat]:
                return {"chat_mode": self.chats[chat], "chat_type": "private"}
            case "POST", ["im", "v1", "images" | "files" as kind]:
                return await self._upload(request, kind)
        raise FeishuRefusal(404, "404 page not found", 404)

    async def _carry_out_message(self, request: web.Request, path: str) -> Json:
        match request.method, path.split("/"):
            case "GET", ["im", "v1", "messages", id]:
                return {"items": [self._as_item(self._find(id))]}
            case "POST", ["im", "v1", "messages"]:
                return await self._create(request)
            case "POST", ["im", "v1", "messages", id, "reply"]:
                return self._send(await request.json(), self._find(id))
            case "PATCH", ["im", "v1", "messages", id]:
                return self._update(self._own(id), await request.json())
            case "DELETE", ["im", "v1", "messages", id]:
                del self.messages[self._own(id).id]
                return {}
        raise FeishuRefusal(404, "404 page not found", 404)

    def _find(self, id: str) -> FeishuMessage:
        if id not in self.messages:  # "Reply to a message", error codes: withdrawn
            raise FeishuRefusal(230011, "The message was withdrawn.")
        return self.messages[id]

    def _own(self, id: str) -> FeishuMessage:
        message = self._find(id)
        if message.sender != APP_ID:  # "Update sent message card": only one's own
            raise FeishuRefusal(230027, "Lack of necessary permissions.")
        return message

    def _as_item(self, message: FeishuMessage) -> Json:
        """ "Get message content"."""
        is_bot = message.sender == APP_ID
        about = {"id": message.sender, "id_type": "app_id" if is_bot else "open_id"}
        item: Json = {"message_id": message.id, "msg_type": message.kind, "chat_id": message.chat}
        item["sender"] = {**about, "sender_type": "app" if is_bot else "user"}
        item["body"] = {"content": json.dumps(message.content)}
        named = {"root_id": message.root, "parent_id": message.parent, "thread_id": message.thread}
        return {**item, **{name: value for name, value in named.items() if value}}

    async def _create(self, request: web.Request) -> Json:
        body = await request.json()
        if request.query.get("receive_id_type") != "chat_id" or "receive_id" not in body:
            raise FeishuRefusal(99992402, "field validation failed")  # "General error codes"
        if body["receive_id"] not in self.chats:  # "Send message", error codes
            raise FeishuRefusal(230002, "Bot/User can NOT be out of the chat.")
        return self._send(body, None)

    def _send(self, body: Json, answered: FeishuMessage | None) -> Json:
        if self.failures:
            raise self.failures.popleft()
        if len(body.get("uuid", "")) > 50:  # "Send message": at most 50 characters
            raise FeishuRefusal(99992402, "field validation failed")
        if known := self._once.get(body.get("uuid", "")):  # and once within an hour
            return {"message_id": known}
        kind, content = body["msg_type"], self._read_content(body)
        id = self.new_id("om")
        chat = answered.chat if answered else body["receive_id"]
        message = FeishuMessage(id, chat, kind, content, APP_ID, [_words(kind, content)])
        message.file = self._file_of(kind, content)
        if answered:
            message.parent, message.root = answered.id, answered.root or answered.id
            if body.get("reply_in_thread") or answered.thread:
                message.thread = answered.thread or self.new_id("omt")
        self.messages[id] = message
        if body.get("uuid"):
            self._once[body["uuid"]] = id
        return self._as_item(message)

    def _file_of(self, kind: str, content: Json) -> bytes:
        if kind not in ("image", "file", "audio"):
            return b""
        key = content.get("image_key" if kind == "image" else "file_key")
        if key not in self._files:  # "Send message", error codes: the key is not known
            raise FeishuRefusal(230001, "Your request contains an invalid request parameter.")
        return self._files[key]

    def _update(self, message: FeishuMessage, body: Json) -> Json:
        if self.edit_failures:
            raise self.edit_failures.popleft()
        now = time.monotonic()
        while message.edits and now - message.edits[0] > 1:
            message.edits.popleft()
        if len(message.edits) >= MOST_EDITS:
            raise FeishuRefusal(230020, "This operation triggers the frequency limit.")
        message.edits.append(now)
        content = self._read_content({"msg_type": "interactive", "content": body["content"]})
        message.content = content
        message.texts.append(_words("interactive", content))
        return {}

    def _read_content(self, body: Json) -> Json:
        content = _read_content(body)
        if not self.takes_markdown and '"markdown"' in body["content"]:
            raise FeishuRefusal(230099, "Failed to create card content")
        return content

    async def _upload(self, request: web.Request, kind: str) -> Json:
        form = await request.post()
        file = form.get("image" if kind == "images" else "file")
        if not isinstance(file, web.FileField):
            raise FeishuRefusal(234001, "Invalid request param.")
        content = file.file.read()
        if not content:  # "Upload file", error codes
            raise FeishuRefusal(234010, "File's size can't be 0.")
        if kind == "images":
            if form.get("image_type") != "message" or len(content) > LARGEST_IMAGE:
                raise FeishuRefusal(234006, "The file size exceed the max value.")
            return {"image_key": self.keep_file(content)}
        if form.get("file_type") not in FILE_TYPES or not form.get("file_name"):
            raise FeishuRefusal(234001, "Invalid request param.")
        if len(content) > LARGEST_FILE:
            raise FeishuRefusal(234006, "The file size exceed the max value.")
        return {"file_key": self.keep_file(content)}


def _read_content(body: Json) -> Json:
    """ "Send message": content is JSON in a text, at most 30 KB of a card."""
    try:
        content: Json = json.loads(body["content"])
    except (ValueError, TypeError):
        raise FeishuRefusal(230001, "invalid message content") from None
    if body["msg_type"] == "interactive":
        if len(body["content"].encode()) > LARGEST_CARD:
            raise FeishuRefusal(230025, "The length of the message content reaches its limit.")
        _check_card(content)
    return content


def _check_card(card: Json) -> None:
    """ "Card JSON 2.0 structure"."""
    if card.get("schema") != "2.0" or card.get("config", {}).get("update_multi") is not True:
        raise FeishuRefusal(230099, "Failed to create card content, ErrCode: 11246")
    for part in card["body"]["elements"]:
        match part.get("tag"):
            case "markdown":
                _check_markdown(part["content"])
            case "div":
                if part["text"]["tag"] not in ("plain_text", "lark_md"):
                    raise FeishuRefusal(230099, "Failed to create card content")
            case "button":
                kinds = [behavior["type"] for behavior in part["behaviors"]]
                if kinds != ["callback"] or not part["text"]["content"]:
                    raise FeishuRefusal(230099, "Failed to create card content")
            case _:
                raise FeishuRefusal(230099, "Failed to create card content, ErrCode: 200621")


def _check_markdown(content: str) -> None:
    """ "Rich text (Markdown)", JSON 2.0."""
    outside = re.sub(r"(?ms)^```.*?(?:^```|\Z)", "", content)
    if re.search(r"!\[[^\]]*\]\((?!img_)", re.sub(r"`[^`\n]*`", "", outside)):
        raise FeishuRefusal(
            230099, "Failed to create card content, ErrCode: 11313; invalid image key"
        )
    if len(re.findall(r"(?m)^\|?[ \t]*:?-{3,}:?[ \t]*\|", outside)) > MOST_TABLES:
        raise FeishuRefusal(230099, "Failed to create card content, ErrCode: 11310")


def _words(kind: str, content: Json) -> str:
    if kind != "interactive":
        return str(content.get("text", ""))
    first = content["body"]["elements"][0]
    shown = first["content"] if first["tag"] == "markdown" else first["text"]["content"]
    return str(shown)


@dataclass
class FeishuPerson:
    """A person who uses Feishu."""

    server: FeishuServer
    name: str
    id: str
    chat: str

    async def sends(self, kind: str, content: Json, **more: Any) -> str:
        """Write a message, and wait until the bot has confirmed it; return its id."""
        id = self.notes(kind, content, **more)
        await self.server.confirmed(self.server.bring("im.message.receive_v1", self.event(id)))
        return id

    def notes(
        self, kind: str, content: Json, answering: FeishuMessage | None = None, thread: str = ""
    ) -> str:
        """Write a message in the chat without an event to the bot."""
        id = self.server.new_id("om")
        message = FeishuMessage(id, self.chat, kind, content, self.id, [content.get("text", "")])
        message.thread = thread or (answering.thread if answering else "")
        if answering:
            message.parent, message.root = answering.id, answering.root or answering.id
        self.server.messages[id] = message
        return id

    def event(self, id: str, mentions: list[Json] | None = None) -> Json:
        """ "Receive message" (im.message.receive_v1)."""
        message = self.server.messages[id]
        item: Json = {
            "message_id": id,
            "chat_id": self.chat,
            "chat_type": self.server.chats[self.chat],
            "message_type": message.kind,
            "content": json.dumps(message.content),
            "create_time": self.server.now(),
        }
        named = {"root_id": message.root, "parent_id": message.parent, "thread_id": message.thread}
        item |= {name: value for name, value in named.items() if value}
        if "@_user_1" in json.dumps(message.content):
            bot = {"key": "@_user_1", "id": {"open_id": BOT_ID}, "name": "Parley"}
            item["mentions"] = [bot, *(mentions or [])]
        sender = {"sender_id": {"open_id": self.id}, "sender_type": "user", "tenant_key": "t"}
        return {"sender": sender, "message": item}

    async def says(self, text: str, **more: Any) -> str:
        return await self.sends("text", {"text": text}, **more)

    async def sends_file(self, name: str, content: bytes, media_type: str) -> str:
        key = self.server.keep_file(content)
        if media_type.startswith("image/"):
            return await self.sends("image", {"image_key": key})
        if media_type.startswith("audio/"):
            return await self.sends("audio", {"file_key": key, "duration": 1000})
        return await self.sends("file", {"file_key": key, "file_name": name})

    async def presses(self, message: FeishuMessage, label: str) -> str:
        """ "Card callback communication" (card.action.trigger)."""
        event = {
            "operator": {"open_id": self.id, "tenant_key": "t"},
            "token": "c-token",
            "action": {"value": message.buttons[label], "tag": "button"},
            "context": {"open_message_id": message.id, "open_chat_id": self.chat},
        }
        id = self.server.bring("card.action.trigger", event)
        await self.server.confirmed(id)
        return id

    async def reacts(self, message: str, emoji: str) -> None:
        """ "Message reaction added" (im.message.reaction.created_v1): it names no chat."""
        event = {
            "message_id": message,
            "reaction_type": {"emoji_type": emoji},
            "operator_type": "user",
            "user_id": {"open_id": self.id},
            "action_time": self.server.now(),
        }
        await self.server.confirmed(self.server.bring("im.message.reaction.created_v1", event))

    def deletes(self, id: str) -> None:
        del self.server.messages[id]
