"""The Feishu platform: events arrive over a long connection, replies are cards.

The open platform's SDK is not used: decision 0017.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import NAMESPACE_URL, uuid5
from weakref import WeakValueDictionary

import aiohttp
import orjson
from msgspec.structs import replace

from channels.base import ChannelError
from channels.feishu import FeishuSettings
from channels.feishu.api import CONTROL, DATA, FeishuApi, FeishuError, WireFrame
from channels.feishu.reading import (
    EMOJI,
    LONGEST,
    FeishuBot,
    author,
    card,
    place_of,
    plain_size,
    read_message,
    read_press,
    size,
    text_in,
)
from channels.kit.platform import (
    Event,
    File,
    IncomingHandler,
    IncomingMessage,
    Location,
    Media,
    Platform,
    PlatformFailure,
    Post,
    Reaction,
    Traits,
    is_lasting,
)
from channels.splitting import Length

log = logging.getLogger(__name__)

Json = dict[str, Any]

NO_ENTRY = (
    "Feishu does not take the app's ID or secret; copy both from Credentials & Basic Info, into "
    "channels.feishu.app_id and FEISHU_APP_SECRET, and restart the bot."
)
NO_RIGHT = (
    "The app may not do this at Feishu ({}); switch on its bot and its permissions, publish a "
    "version of it, and restart the bot."
)
_UNKNOWN_APP = {10003, 10014, 10015, 20001, 99991543, 1000040344, 514}
_NO_RIGHT = {99991672, 99991679, 230006, 11205, 403}
_GONE = {230002, 230013, 230018, 230029, 230034, 232009}  # not in this chat, no such person, closed
_REFUSED = {230001, 230025, 230028, 230099, 230110, 230111, 230054, 230031, 234006, 234010, 234001}
_LIMITS = {99991400, 230020, 11232, 11233, 230049}
_UNKNOWN_MESSAGE = {230011, 230110, 230111}  # the message to reply to was deleted
_MOST_PARTS = 100  # frames of split events
_MOST_NAMES = 10_000


class Feishu(Platform):
    name = "feishu"
    traits = Traits(
        longest=LONGEST,
        can_edit=True,
        draft=0.7,  # a message may be edited five times a second
        group_draft=1.5,  # the bots of a group share this rate
        longest_button=2_000,
        overall=50.0,
        sound="opus",
        message_id=re.compile(r"om_\w+"),
    )

    def __init__(self, settings: FeishuSettings, secret: str) -> None:
        self._settings, self._secret = settings, secret
        self._names: dict[str, str] = {}
        self._groups: dict[str, bool] = {}
        self._parts: dict[str, dict[int, bytes]] = {}
        self._lines: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def open(self) -> None:
        self._api = FeishuApi(self._settings.base_url, self._settings.app_id, self._secret)
        try:
            bot = (await self._api.request("GET", "bot/v3/info"))["bot"]
        except BaseException as error:
            await self._api.close()
            if (failure := self.explain(error)).kind == "revoked":
                raise ChannelError(failure.advice) from error
            raise
        self._me = FeishuBot(bot["open_id"], bot.get("app_name", ""))

    async def close(self) -> None:
        await self._api.close()

    # Incoming events.

    async def listen(self, handler: IncomingHandler) -> None:
        url, pause = await self._api.find_connection()
        service = int(parse_qs(urlsplit(url).query)["service_id"][0])
        async with self._api.session.ws_connect(url, max_msg_size=2**24) as wire:
            handler.connected()
            async with asyncio.TaskGroup() as work:
                pinging = work.create_task(_ping(wire, service, pause))
                async for message in wire:
                    if message.type == aiohttp.WSMsgType.BINARY:
                        work.create_task(self._handle(wire, message.data, handler))
                pinging.cancel()

    async def _handle(
        self, wire: aiohttp.ClientWebSocketResponse, content: bytes, handler: IncomingHandler
    ) -> None:
        """Process one frame: its event is confirmed once it is on disk. An unconfirmed one is
        redelivered."""
        try:
            frame = WireFrame.load(content)
            if frame.method != DATA or (payload := self._whole(frame)) is None:
                return
            try:
                await self._handle_body(orjson.loads(payload), handler)
                code = 200
            except Exception as error:
                log.exception("an event of Feishu could not be taken in")
                code = 500 if _may_pass(error) else 200
            frame.payload = orjson.dumps({"code": code})
            await wire.send_bytes(frame.dump())
        except (ValueError, KeyError):
            log.exception("a frame of Feishu can't be read")
        except (ConnectionError, aiohttp.ClientError):
            log.debug("an event of Feishu was not confirmed, so it comes again")

    def _whole(self, frame: WireFrame) -> bytes | None:
        """Return the payload, once all of its parts have arrived."""
        total, number = int(frame.headers.get("sum", "1")), int(frame.headers.get("seq", "0"))
        if total <= 1:
            return frame.payload
        name = frame.headers["message_id"]
        parts = self._parts.setdefault(name, {})
        parts[number] = frame.payload
        if len(parts) < total:
            if len(self._parts) > _MOST_PARTS:
                del self._parts[next(iter(self._parts))]
            return None
        del self._parts[name]
        return b"".join(parts[one] for one in sorted(parts))

    async def _handle_body(self, body: Json, handler: IncomingHandler) -> None:
        header, event = body["header"], body["event"]
        match header["event_type"]:
            case "im.message.receive_v1":
                chat = event["message"]["chat_id"]
                async with self._lines.setdefault(chat, asyncio.Lock()):  # in order
                    found = await self._handle_event(event)
                    await handler.take([found] if found else [])
            case "card.action.trigger":
                context = event["context"]
                chat, message = context["open_chat_id"], context["open_message_id"]
                place = await self._find_place(chat, message)
                await handler.take([read_press(event, header["event_id"], place)])
            case "im.message.reaction.created_v1":
                if found := await self._read_reaction(event):
                    await handler.take([found])

    async def _handle_event(self, event: Json) -> Event | None:
        message = event["message"]
        is_group = message.get("chat_type") != "p2p"
        self._groups[message["chat_id"]] = is_group
        id = event["sender"]["sender_id"]["open_id"]
        incoming = read_message(event, self._me, await self._name(id) if is_group else "")
        if incoming and is_group and message.get("parent_id"):
            return await self._with_parent(incoming, message["parent_id"])
        return incoming

    async def _with_parent(self, message: IncomingMessage, parent: str) -> IncomingMessage:
        """Complete a group message: a reply to the bot addresses it, and other people's text is
        quoted."""
        try:
            shown = await self._show(parent)
        except (FeishuError, aiohttp.ClientError, TimeoutError) as error:
            log.info("the message that was replied to is not known: %s", error)
            return message
        author = shown.get("sender", {})
        if author.get("id") == self._settings.app_id:
            return replace(message, is_for_bot=True)
        words = text_in(shown, self._me)
        name = await self._name(str(author.get("id", "")))
        return replace(message, quoted=(name or "Somebody", words)) if words else message

    async def _show(self, message: str) -> Json:
        found = await self._api.request("GET", f"im/v1/messages/{message}")
        shown: Json = found["items"][0]
        return shown

    async def _name(self, id: str) -> str:
        """Return the name of a person; "" if the app has no permission."""
        if id not in self._names:
            if len(self._names) >= _MOST_NAMES:
                self._names.clear()
            try:
                found = await self._api.request("GET", f"contact/v3/users/{id}")
                self._names[id] = str(found.get("user", {}).get("name") or "")
            except (FeishuError, aiohttp.ClientError, TimeoutError) as error:
                log.info("the name of %s is not known: %s", id, error)
                self._names[id] = ""
        return self._names[id]

    async def _find_place(self, chat: str, message: str) -> Location:
        """Return the place of one of the bot's messages, by its chat and id."""
        if chat not in self._groups:
            found = await self._api.request("GET", f"im/v1/chats/{chat}")
            self._groups[chat] = found.get("chat_mode") != "p2p"
        try:
            shown = await self._show(message)
        except FeishuError as error:
            if error.code not in _UNKNOWN_MESSAGE:
                raise
            shown = {"message_id": message}  # deleted since; its thread is unknown
        kind = "group" if self._groups[chat] else "p2p"
        return place_of({**shown, "chat_id": chat, "chat_type": kind})

    async def _read_reaction(self, event: Json) -> Event | None:
        emoji = EMOJI.get(event["reaction_type"]["emoji_type"])
        if not emoji or event.get("operator_type") != "user":
            return None
        message = event["message_id"]
        try:
            shown = await self._show(message)
        except FeishuError as error:
            if error.code in _UNKNOWN_MESSAGE:
                return None
            raise
        place = await self._find_place(shown["chat_id"], message)
        return Reaction(place, author(event["user_id"]["open_id"]), emoji)

    async def fetch(self, file: File) -> bytes:
        message, key, kind = file.id.split(" ")
        return await self._api.download(f"im/v1/messages/{message}/resources/{key}?type={kind}")

    # Outgoing messages.

    @property
    def length(self) -> Length:
        return size

    def plain_length(self, text: str) -> int:
        return plain_size(text)

    async def post(self, place: Location, post: Post) -> str:
        return await self._send(place, "interactive", card(post), post.once)

    async def edit(self, place: Location, message: str, post: Post) -> None:
        await self._api.request("PATCH", f"im/v1/messages/{message}", json={"content": card(post)})

    async def delete(self, place: Location, message: str) -> None:
        await self._api.request("DELETE", f"im/v1/messages/{message}")

    async def upload(self, place: Location, media: Media) -> str:
        """Upload a file; its caption comes in a card below it."""
        if media.kind == "picture":
            form = {"image_type": "message"}
            key = await self._api.upload("im/v1/images", form, media.name, media.content)
            sent = await self._send(place, "image", _json(image_key=key["image_key"]))
        else:
            form = {"file_type": "opus" if media.kind == "voice" else "stream"}
            form["file_name"] = media.name
            key = await self._api.upload("im/v1/files", form, media.name, media.content)
            kind = "audio" if media.kind == "voice" else "file"
            sent = await self._send(place, kind, _json(file_key=key["file_key"]))
        if media.caption or media.buttons:
            post = Post(media.caption, media.buttons, is_plain=True)
            sent = await self.post(
                Location(place.chat, place.thread, is_group=place.is_group), post
            )
        return sent

    async def _send(self, place: Location, kind: str, content: str, once: str = "") -> str:
        """Send a message, as a reply if it answers one, or in a thread; return its id. A deleted
        message can't be answered, so the reply is then sent by itself. The same `uuid` is sent once
        within an hour."""
        body = {"msg_type": kind, "content": content}
        if once:
            named = f"{self._settings.app_id} {place.chat} {once}"
            body["uuid"] = str(uuid5(NAMESPACE_URL, named))
        if answered := place.message or place.thread:
            thread = {"reply_in_thread": True} if place.thread else {}
            path = f"im/v1/messages/{answered}/reply"
            try:
                sent = await self._api.request("POST", path, json=body | thread)
                return str(sent["message_id"])
            except FeishuError as error:
                if error.code not in _UNKNOWN_MESSAGE:
                    raise
        path = "im/v1/messages?receive_id_type=chat_id"
        sent = await self._api.request("POST", path, json={"receive_id": place.chat, **body})
        return str(sent["message_id"])

    def explain(self, error: BaseException) -> PlatformFailure:
        match error:
            case BaseExceptionGroup():
                return self.explain(error.exceptions[0])
            case FeishuError():
                return _explain(error)
            case aiohttp.WSServerHandshakeError():
                if error.headers and error.headers.get("handshake-status") == "403":
                    return PlatformFailure("revoked", advice=NO_ENTRY)
                return PlatformFailure("passing")
            case aiohttp.ClientResponseError() if is_lasting(error.status):  # a deleted file
                return PlatformFailure("refused")
            case aiohttp.ClientError() | OSError() | TimeoutError():
                return PlatformFailure("passing")
        return PlatformFailure("fatal")


def _may_pass(error: Exception) -> bool:
    """Return whether redelivery of a failed event may help."""
    if isinstance(error, FeishuError):
        return _explain(error).kind in ("passing", "wait")
    return not isinstance(error, KeyError | TypeError | ValueError | AttributeError)  # unreadable


def _explain(error: FeishuError) -> PlatformFailure:
    if error.code in _LIMITS or error.status == 429:
        return PlatformFailure("wait", error.seconds or 1.0)
    if error.code in _UNKNOWN_APP:
        return PlatformFailure("revoked", advice=NO_ENTRY)
    if error.code in _NO_RIGHT:
        return PlatformFailure("revoked", advice=NO_RIGHT.format(error))
    if error.code in _GONE:
        return PlatformFailure("gone")
    if error.code in _REFUSED:
        return PlatformFailure("refused")
    is_theirs = error.status >= 500 or error.code in (1, 2200, 90225, 1000040343, 1000040350)
    return PlatformFailure("passing" if is_theirs else "fatal")


async def _ping(wire: aiohttp.ClientWebSocketResponse, service: int, pause: float) -> None:
    frame = WireFrame(service=service, method=CONTROL, headers={"type": "ping"}).dump()
    while True:
        await wire.send_bytes(frame)
        await asyncio.sleep(pause)


def _json(**content: str) -> str:
    return orjson.dumps(content).decode()
