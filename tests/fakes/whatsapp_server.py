"""A strict Cloud API on the loopback interface, and the people who write to the bot over WhatsApp.

It refuses what the Cloud API refuses, with the codes of "Error codes" (developers.facebook.com,
WhatsApp Business Platform > Support). Each refusal names the page that documents it; refusals
without a source are marked `unverified`. It calls the bot's webhook as Meta does: with
X-Hub-Signature-256 over the body, and again until the response is 200.

async with WhatsAppServer() as meta:
    ann = meta.person("Ann")
    await ann.says("Hello!")
    message = await meta.shown("Hello, Ann!")
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import json
import re
import time
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, Self

import aiohttp
from aiohttp import web

from tests.fakes.platform import Platform

Json = dict[str, Any]

TOKEN, APP_SECRET, VERIFY_TOKEN = "EAAtest-token", "app-secret-of-tests", "verify-me"
PHONE_ID, NUMBER, ACCOUNT = "106540352242922", "15550783881", "102290129340398"
VERSION = "v26.0"
LONGEST_TEXT = 4096  # "Text messages", text.body
LONGEST_CAPTION = 1024  # "Image messages", "Document messages": caption
LARGEST = {"image": 5 * 10**6, "audio": 16 * 10**6, "document": 100 * 10**6}  # "Media", limits
TYPES = {  # "Media", supported media types
    *("audio/aac", "audio/amr", "audio/mpeg", "audio/mp4", "audio/ogg", "image/jpeg", "image/png"),
    *("text/plain", "application/pdf", "application/msword", "application/vnd.ms-excel"),
    *("application/vnd.ms-powerpoint", "image/webp", "video/mp4", "video/3gp"),
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}
FIELDS = {  # "Messages" reference: the fields of a request
    *("messaging_product", "recipient_type", "to", "recipient", "type", "context", "status"),
    *("message_id", "typing_indicator", "text", "image", "audio", "document", "interactive"),
    *("template", "biz_opaque_callback_data", "reaction", "recipient_identity_key_hash"),
}
DAY = 24 * 3600.0


class Rejected(Exception):
    """An error response of the Graph API."""

    def __init__(self, code: int, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.status = code, status


@dataclass
class Delivered:
    """A message of the bot. `buttons` has the data of each button or row by its full label."""

    id: str
    chat: str
    text: str
    kind: str
    buttons: dict[str, str] = field(default_factory=dict)
    answers: str = ""
    file: bytes = b""
    name: str = ""


class WhatsAppServer(Platform[Delivered]):
    """The server, on a free port; an asynchronous context manager. `calls` are all requests to send
    a message; `failures` are the responses to the next of them, `outage` is the response to all
    requests."""

    def __init__(self) -> None:
        super().__init__()
        self.token = TOKEN
        self.webhook_url = ""
        self.calls: list[Json] = []
        self.messages: list[Delivered] = []
        self.failures: deque[Rejected] = deque()
        self.outage: Rejected | None = None
        self.templates = {"news"}
        self.typing: list[str] = []
        self.answered: list[int] = []
        self.history: list[Json] = []
        self.skew = 0.0
        """Seconds by which Meta's clock is ahead of ours."""
        self._windows: dict[str, float] = {}
        self._media: dict[str, tuple[str, bytes, str]] = {}
        self._received: dict[str, Json] = {}

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=110 * 10**6)
        app.router.add_post(f"/{VERSION}/{{phone}}/messages", self._answer)
        app.router.add_post(f"/{VERSION}/{{phone}}/media", self._answer)
        app.router.add_get(f"/{VERSION}/{{node}}", self._answer)
        app.router.add_get("/files/{media}", self._answer)
        app.on_response_prepare.append(self._set_date)
        return app

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.url, self.base_url = self.base_url, f"{self.base_url}/{VERSION}"
        self._session = aiohttp.ClientSession()
        return self

    async def _close(self) -> None:
        await self._session.close()

    # Actions of people.

    def person(self, name: str, phone: str = "", group: str = "") -> Person:
        """Return a person in a private chat with the bot or in a group."""
        phone = phone or f"4917000000{next(self._numbers):02}"
        return Person(self, name, phone, f"DE.{phone}0", group)

    async def prove(self, token: str = VERIFY_TOKEN) -> tuple[int, str]:
        """ "Create a webhook endpoint" > Verification requests."""
        query = {"hub.mode": "subscribe", "hub.verify_token": token, "hub.challenge": "1158201444"}
        async with self._session.get(self.webhook_url, params=query) as response:
            return response.status, await response.text()

    async def call(self, body: Json, secret: str = APP_SECRET, signature: str | None = None) -> int:
        """Call the webhook once, signed as in "Validating payloads"; return the status."""
        raw = json.dumps(body).encode()
        digest = hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest()
        signed = f"sha256={digest}" if signature is None else signature
        headers = {"Content-Type": "application/json"}
        if signed:
            headers["X-Hub-Signature-256"] = signed
        async with self._session.post(self.webhook_url, data=raw, headers=headers) as response:
            self.answered.append(response.status)
        await self._look_again()
        return response.status

    async def bring(self, *messages: Json, contacts: list[Json]) -> None:
        """Call the webhook until the response is 200: "If we send a webhook request to your
        endpoint and it responds with any status other than 200, we retry"."""
        body = self.payload({"messages": [*messages], "contacts": contacts})
        self.history.append(body)
        for wait in itertools.chain((0.05, 0.1, 0.2), itertools.repeat(0.3)):
            with suppress(aiohttp.ClientError):
                if await self.call(body) == 200:
                    return
            await asyncio.sleep(wait)

    async def bring_again(self) -> None:
        """Send all earlier webhook calls once more: "we retry … duplicates"."""
        for body in tuple(self.history):
            await self.call(body)

    def payload(self, value: Json, phone_id: str = PHONE_ID) -> Json:
        metadata = {"display_phone_number": NUMBER, "phone_number_id": phone_id}
        whole = {"messaging_product": "whatsapp", "metadata": metadata, **value}
        changes = [{"value": whole, "field": "messages"}]
        return {
            "object": "whatsapp_business_account",
            "entry": [{"id": ACCOUNT, "changes": changes}],
        }

    def new_id(self) -> str:
        return f"wamid.HBgLMTY1MDM4Nzk0MzkVAgAR{next(self._numbers):06}A="

    def note(self, message: Json, chat: str, *, opens: bool) -> None:
        self._received[message["id"]] = message
        if opens:  # "Send messages" > Customer service windows
            self._windows[chat] = time.time()

    def let_pass(self, seconds: float) -> None:
        """Age the service windows of all people by that many seconds."""
        self._windows = {chat: at - seconds for chat, at in self._windows.items()}

    def keep(self, media_type: str, content: bytes, name: str = "") -> str:
        """Store a file at Meta, and return its id."""
        id = str(next(self._numbers) + 10**14)
        self._media[id] = (media_type, content, name)
        return id

    # Waits for tests.

    def _sent(self, chat: str | None) -> Iterable[Delivered]:
        return (one for one in reversed(self.messages) if not chat or one.chat == chat)

    # The Graph API.

    async def _answer(self, request: web.Request) -> web.Response:
        try:
            if self.outage:
                raise self.outage
            if request.headers.get("Authorization") != f"Bearer {self.token}":
                raise Rejected(190, "Invalid OAuth access token.", 401)  # "Error codes"
            if "media" in request.match_info:
                return self._download(request.match_info["media"])
            if request.method == "GET":
                return web.json_response(self._node(request.match_info["node"]))
            if request.match_info["phone"] != PHONE_ID:
                raise _unknown(request.match_info["phone"])
            if request.path.endswith("/media"):
                return web.json_response(await self._upload(request))
            return web.json_response(self._send(await request.json()))
        except Rejected as error:
            said = {"message": f"(#{error.code}) {error}", "type": "OAuthException"}
            body = {"error": {**said, "code": error.code, "fbtrace_id": "AbC"}}
            return web.json_response(body, status=error.status)
        finally:
            await self._look_again()

    async def _set_date(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers["Date"] = format_datetime(
            datetime.fromtimestamp(time.time() + self.skew, UTC), usegmt=True
        )

    def _node(self, node: str) -> Json:
        if node == PHONE_ID:
            return {"id": PHONE_ID, "display_phone_number": "+1 555-078-3881"}
        if node not in self._media:
            raise _unknown(node)
        media_type, content, _name = self._media[node]
        digest = hashlib.sha256(content).hexdigest()
        about = {"mime_type": media_type, "sha256": digest, "file_size": len(content), "id": node}
        return {"messaging_product": "whatsapp", "url": f"{self.url}/files/{node}", **about}

    def _download(self, media: str) -> web.Response:
        if media not in self._media:
            raise web.HTTPNotFound
        return web.Response(body=self._media[media][1])

    async def _upload(self, request: web.Request) -> Json:
        form = await request.post()
        file = form.get("file")
        if form.get("messaging_product") != "whatsapp" or not isinstance(file, web.FileField):
            raise Rejected(100, "Invalid parameter")  # "Media" > Upload media: required fields
        content, media_type = file.file.read(), file.content_type
        if media_type not in TYPES:  # "Media", supported media types
            raise Rejected(100, "Param file must be a file with one of the following types: …")
        family = media_type.partition("/")[0]
        if len(content) > LARGEST.get(family, LARGEST["document"]):  # "Media", limits
            raise Rejected(131053, "Media upload error")
        return {"id": self.keep(media_type, content, file.filename)}

    def _send(self, body: Json) -> Json:
        if unknown := set(body) - FIELDS:  # unverified: Graph says "Unexpected key" for some
            raise Rejected(100, f'Unexpected key "{unknown.pop()}" on param')
        if body.get("messaging_product") != "whatsapp":  # "Messages" reference: required
            raise Rejected(100, "The parameter messaging_product is required.")
        if "status" in body:
            return self._read(body)
        if self.failures:
            raise self.failures.popleft()
        self.calls.append(body)
        message = self._message(body)
        message_id, chat = message.id, message.chat
        if not self._is_open(chat) and body["type"] != "template":
            # "Error codes", 131047: the response is 200, and the webhook reports the failure.
            self._start(self._tell_failed(message_id, chat))
        else:
            self.messages.append(message)
        contacts = [{"input": chat, "wa_id": chat}]
        return {
            "messaging_product": "whatsapp",
            "contacts": contacts,
            "messages": [{"id": message_id}],
        }

    def _is_open(self, chat: str) -> bool:
        return time.time() - self._windows.get(chat, 0) < DAY

    async def _tell_failed(self, message: str, chat: str) -> None:
        """ "Status messages webhook reference": a failed one has `errors`."""
        error = {
            "code": 131047,
            "title": "Re-engagement message",
            "message": "Re-engagement message",
        }
        status = {"id": message, "status": "failed", "timestamp": self.now(), "recipient_id": chat}
        await self.call(self.payload({"statuses": [{**status, "errors": [error]}]}))

    def now(self) -> str:
        return str(int(time.time() + self.skew))

    def _read(self, body: Json) -> Json:
        """ "Mark messages as read", "Typing indicators"."""
        found = self._received.get(body.get("message_id", ""))
        if found is None:
            raise Rejected(100, "Invalid parameter: message_id")
        if "group_id" in found:  # "Groups API" > Limits: marking as read is not supported
            raise Rejected(100, "Invalid parameter: message_id")
        if body.get("typing_indicator") == {"type": "text"}:
            self.typing.append(body["message_id"])
        return {"success": True}

    def _message(self, body: Json) -> Delivered:
        is_group = body.get("recipient_type") == "group"
        chat = str(body.get("to") or body.get("recipient") or "")
        if not re.fullmatch(r"[\w=+/-]{20,}" if is_group else r"\d{5,15}|[A-Z]{2}\.\w+", chat):
            raise Rejected(131009, "Parameter value is not valid")  # "Messages" reference: to
        if ("." in chat) != ("recipient" in body):  # "Business-scoped user IDs": recipient
            raise Rejected(131009, "Parameter value is not valid")
        kind = body.get("type", "text")
        if not isinstance(body.get(kind), dict):
            raise Rejected(131008, f"Required parameter is missing: {kind}")
        if kind == "interactive" and is_group:  # "Groups API" > Limits
            raise Rejected(131051, "Message type unknown")
        message = Delivered(self.new_id(), chat, "", kind)
        message.answers = body.get("context", {}).get("message_id", "")
        reader = {"text": _read_text, "interactive": _read_interactive}.get(kind)
        if reader:
            reader(body[kind], message)
        elif kind == "template":
            self._read_template(body[kind], message)
        elif kind in ("image", "audio", "document"):
            self._read_media(body[kind], message)
        else:  # "Error codes", 131051
            raise Rejected(131051, "Message type unknown")
        return message

    def _read_template(self, content: Json, message: Delivered) -> None:
        if content.get("name") not in self.templates:  # "Error codes", 132001
            raise Rejected(132001, "Template name does not exist in the translation")
        message.text = f"template {content['name']} in {content['language']['code']}"

    def _read_media(self, content: Json, message: Delivered) -> None:
        if content.get("id") not in self._media:  # "Media": an id of this phone number's
            raise Rejected(131009, "Parameter value is not valid: id")
        if len(content.get("caption", "")) > LONGEST_CAPTION:
            raise Rejected(131009, "Parameter value is not valid: caption")
        media_type, message.file, name = self._media[content["id"]]
        if message.kind == "image" and media_type not in ("image/jpeg", "image/png"):
            raise Rejected(131053, "Media upload error")  # "Image messages", supported formats
        message.text, message.name = content.get("caption", ""), content.get("filename", name)


def _unknown(node: str) -> Rejected:
    """Graph API > Error handling: code 100, subcode 33."""
    return Rejected(100, f"Unsupported get request. Object with ID '{node}' does not exist")


def _read_text(content: Json, message: Delivered) -> None:
    message.text = content.get("body", "")
    _check(message.text, LONGEST_TEXT, "text.body")  # "Text messages"


def _read_interactive(content: Json, message: Delivered) -> None:
    """ "Interactive reply buttons messages", "Interactive list messages"."""
    message.text = content.get("body", {}).get("text", "")
    if content.get("type") == "button":
        _check(message.text, 1024, "interactive.body")
        replies = [button["reply"] for button in content["action"]["buttons"]]
        if not 1 <= len(replies) <= 3:
            raise Rejected(131009, "Invalid buttons count. Min allowed buttons: 1, Max: 3")
        _check_choices(replies, 20, 256)
        message.buttons = {reply["title"]: reply["id"] for reply in replies}
    elif content.get("type") == "list":
        _check(message.text, 4096, "interactive.body")
        _check(content["action"].get("button", ""), 20, "action.button")
        rows = [row for section in content["action"]["sections"] for row in section["rows"]]
        if not 1 <= len(rows) <= 10:
            raise Rejected(131009, "Total row count exceed max allowed count: 10")
        _check_choices(rows, 24, 200)
        for row in rows:
            _check(row.get("description", "-"), 72, "row.description")
        message.buttons = {row.get("description", row["title"]): row["id"] for row in rows}
    else:
        raise Rejected(131009, "Parameter value is not valid: interactive.type")


def _check(text: str, most: int, name: str) -> None:
    """Check that a text is neither empty nor too long. In UTF-16 units: unverified; the pages say
    "characters"."""
    if not text.strip() or len(text.encode("utf-16-le")) // 2 > most:
        raise Rejected(100, f"Param {name} must be between 1 and {most} characters long.")


def _check_choices(choices: list[Json], title: int, id: int) -> None:
    for choice in choices:
        _check(choice["title"], title, "title")
        if not choice["id"] or len(choice["id"]) > id or choice["id"] != choice["id"].strip():
            raise Rejected(131009, "Parameter value is not valid: id")
    ids, titles = {one["id"] for one in choices}, {one["title"] for one in choices}
    is_double = len(ids) < len(choices) or (title == 20 and len(titles) < len(choices))
    if is_double:  # "Interactive reply buttons messages": ids and titles are unique
        raise Rejected(131009, "Duplicated button")


@dataclass
class Person:
    """A person who uses WhatsApp. `id` is the person's id within the business."""

    server: WhatsAppServer
    name: str
    phone: str
    id: str
    group: str = ""

    @property
    def chat(self) -> str:
        return self.group or self.id

    def message(self, kind: str, content: Any, context: Mapping[str, str] | None = None) -> Json:
        """Return a message in the webhook's format, with both ids of the sender."""
        made: Json = {
            "from": self.phone,
            "from_user_id": self.id,
            "id": self.server.new_id(),
            "timestamp": self.server.now(),
            "type": kind,
            kind: content,
        }
        if context:
            made["context"] = dict(context)
        return {**made, "group_id": self.group} if self.group else made

    @property
    def contact(self) -> Json:
        return {"profile": {"name": self.name}, "wa_id": self.phone, "user_id": self.id}

    async def sends(self, message: Json, *, opens: bool = True) -> str:
        self.server.note(message, self.chat, opens=opens)
        await self.server.bring(message, contacts=[self.contact])
        return str(message["id"])

    async def says(self, text: str, answering: Delivered | None = None) -> str:
        context = {"from": NUMBER, "id": answering.id} if answering else None
        return await self.sends(self.message("text", {"body": text}, context))

    async def sends_file(self, name: str, content: bytes, media_type: str, text: str = "") -> str:
        kind = {"image": "image", "audio": "audio", "video": "video"}.get(
            media_type.partition("/")[0], "document"
        )
        id = self.server.keep(media_type, content, name)
        said: Json = {"id": id, "mime_type": media_type, "sha256": "…"}
        said |= {"caption": text} if text else {}
        said |= {"filename": name} if kind == "document" else {}
        return await self.sends(self.message(kind, said))

    async def edits(self, id: str, text: str) -> None:
        """ "Edit messages webhook reference"."""
        content = {"id": id, "type": "text", "text": {"body": text}}
        edit = {"original_message_id": id, "message": content}
        await self.sends(self.message("edit", edit), opens=False)

    async def deletes(self, id: str) -> None:
        """ "Revoke messages webhook reference"."""
        await self.sends(self.message("revoke", {"original_message_id": id}), opens=False)

    async def presses(self, message: Delivered, label: str) -> str:
        kind = "button_reply" if len(message.buttons) <= 3 else "list_reply"
        reply = {"type": kind, kind: {"id": message.buttons[label], "title": label[:20]}}
        context = {"from": NUMBER, "id": message.id}
        return await self.sends(self.message("interactive", reply, context))

    async def reacts(self, message: str, emoji: str) -> None:
        """ "Reaction messages webhook reference"; one that is taken back has no emoji."""
        content = {"message_id": message, **({"emoji": emoji} if emoji else {})}
        await self.sends(self.message("reaction", content), opens=False)
