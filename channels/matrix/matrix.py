"""The Matrix platform: rooms and threads, by its client-server API. In encrypted rooms the bot only
says that it can't read them."""

from __future__ import annotations

import asyncio
import hashlib
import io
import logging
import re
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from aiohttp import ClientError, ClientResponseError
from nio import (
    AsyncClient,
    AsyncClientConfig,
    DiscoveryInfoResponse,
    MatrixRoom,
    RoomPreset,
)

from channels.base import Bot, ChannelError
from channels.kit.platform import (
    Author,
    Event,
    File,
    IncomingHandler,
    Location,
    Media,
    Platform,
    PlatformFailure,
    Post,
    Traits,
    is_lasting,
)
from channels.language import _, speaking
from channels.matrix.reading import (
    LONGEST,
    BotUser,
    Json,
    MatrixError,
    RoomRefused,
    answered_by,
    checked,
    is_private,
    known_members,
    make_content,
    make_edit,
    part_of,
    read,
    target_of,
    text_of,
    thread_of,
)
from channels.message import LARGEST_ATTACHMENT, Address
from channels.splitting import Length

log = logging.getLogger(__name__)

WRONG_TOKEN = (
    "The Matrix server does not know this access token; make a new one, put it into .env as "
    "MATRIX_TOKEN, and restart the bot."
)
ENCRYPTED = (
    "This room is encrypted, and I can't read what is encrypted. Invite me to a room without "
    "encryption."
)
ENCRYPTED_PRIVATE = (
    "This room is encrypted, and I can't read what is encrypted. Write to me in our room without "
    "encryption; you are invited to it."
)

_WAIT = _TYPING = 30_000  # milliseconds
_MOST_MISSED = 1_000  # messages of one room that are fetched after an outage
_ATTEMPTS = 6  # to answer an invitation, over half a minute
_MOST_STRANGERS = 10  # that are invited to a room, until the next start
_NO = {"not_types": ["*"]}
_OTHERS = {"presence": _NO, "account_data": _NO}
_MEMBERS = {"lazy_load_members": True}
_STATE = {"room": {"timeline": {"limit": 1}, "state": _MEMBERS, "ephemeral": _NO}, **_OTHERS}
_NEWS = {
    "room": {"timeline": {"limit": 50, **_MEMBERS}, "state": _MEMBERS, "ephemeral": _NO},
    **_OTHERS,
}
_REVOKED = ("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED", "M_USER_LOCKED")
_GONE = ("M_FORBIDDEN", "M_NOT_FOUND", "M_UNKNOWN_ROOM")


class Matrix(Platform):
    """A bot's account on a Matrix server."""

    name = "matrix"
    traits = Traits(
        longest=LONGEST,
        can_edit=True,
        draft=4.0,  # Synapse lets an account send a message in 5 seconds, and 10 at once
        group_draft=8.0,
        typing=20.0,
        sound="opus",
        message_id=re.compile(r"\$.+", re.DOTALL),
    )

    def __init__(self, homeserver: str, token: str) -> None:
        quick = AsyncClientConfig(encryption_enabled=False, max_limit_exceeded=0, max_timeouts=0)
        self._make_client: Any = partial(AsyncClient, homeserver.rstrip("/"), config=quick)
        self._token = token
        self._client: Any = None
        self._begin = ""  # the position from which news are read at first
        self._invited: dict[str, Any] = {}
        self._direct: dict[str, str] = {}
        self._typing: set[str] = set()
        self._strangers = 0

    async def open(self) -> None:
        await self.close()
        self._client = self._make_client()
        self._client.access_token = self._token
        try:
            await self._sign_in()
            news = checked(await self._client.sync(0, _STATE, full_state=True))
        except BaseException as error:
            await self.close()
            if isinstance(error, MatrixError) and error.code in _REVOKED:
                raise ChannelError(WRONG_TOKEN) from error
            raise
        self._begin, self._invited = news.next_batch, dict(news.rooms.invite)

    async def _sign_in(self) -> None:
        """Find out whose token it is. The API may be at another address than the given one, which
        then names it ("Well-known URI")."""
        try:
            mine = checked(await self._client.whoami())
        except MatrixError as error:
            if error.code in _REVOKED or not 400 <= error.status < 500:
                raise
            found = await self._client.discovery_info()
            if not isinstance(found, DiscoveryInfoResponse):
                raise
            self._client.homeserver = found.homeserver_url.rstrip("/")
            mine = checked(await self._client.whoami())
        self._client.restore_login(mine.user_id, mine.device_id or "", self._token)

    async def listen(self, handler: IncomingHandler) -> None:
        client, state = self._client, handler.bot.state
        mark = f"since {client.user_id}"
        profile = await client.get_displayname(client.user_id)
        commands = frozenset(one.name for one in handler.bot.list_commands())
        me = BotUser(client.user_id, getattr(profile, "displayname", None) or "", commands)
        since = await state.get(self.name, mark) or self._begin
        joining: set[asyncio.Task[None]] = set()
        try:
            while True:
                wait = 0 if self._invited else _WAIT
                news = checked(await client.sync(wait, _NEWS, since=since))
                handler.connected()
                self._invited |= news.rooms.invite
                while self._invited:
                    room, invited = self._invited.popitem()
                    task = asyncio.create_task(self._join(handler.bot, room, invited.invite_state))
                    joining.add(task)
                    task.add_done_callback(joining.discard)
                events: list[Event] = []
                for name, info in news.rooms.join.items():
                    room = client.rooms[name]
                    for event in await self._catch_up(name, info.timeline, since):
                        if found := await self._read_event(event.source, room, me, handler.bot):
                            events.append(found)
                await handler.take(events)
                since = news.next_batch
                await state.set(self.name, mark, since)
        finally:
            for task in joining:
                task.cancel()
            await asyncio.gather(*joining, return_exceptions=True)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _join(self, bot: Bot, room: str, state: list[Any]) -> None:
        """Accept an invitation to a direct chat, or from a person with access; reject others."""
        invitation = next(
            (event for event in state if getattr(event, "state_key", "") == self._client.user_id),
            None,
        )
        inviter = invitation.sender if invitation else ""
        is_direct = invitation and invitation.content.get("is_direct")
        is_welcome = is_direct or bot.admits(Address(self.name, inviter, user=inviter))
        answer = self._client.join if is_welcome else self._client.room_leave
        for attempt in range(_ATTEMPTS):
            try:
                checked(await answer(room))
            except (MatrixError, ClientError, TimeoutError) as error:
                log.warning("an invitation to %s was not answered: %s", room, error)
                if self.explain(error).kind not in ("passing", "wait"):
                    return
                await asyncio.sleep(self.explain(error).seconds or 2**attempt)
            else:
                return

    async def _catch_up(self, room: str, timeline: Any, since: str) -> list[Any]:
        """Return the messages in a room since then, including those that a limited sync omitted; in
        a room to which the bot was invited meanwhile, those after the invitation."""
        events, start = list(timeline.events), timeline.prev_batch
        while timeline.limited and start and self._invitation(events) < 0:
            try:
                page = checked(await self._client.room_messages(room, start, since, limit=100))
            except MatrixError as error:
                if not self._is_lasting(error):
                    raise
                log.warning("what was missed in %s can't be read: %s", room, error)
                break
            events[:0] = reversed(page.chunk)
            start = page.end if page.chunk and len(events) < _MOST_MISSED else None
        return events[self._invitation(events) + 1 :]

    def _invitation(self, events: list[Any]) -> int:
        """Return the index of the bot's last invitation among events; -1 if there is none."""
        return max(
            (
                place
                for place, event in enumerate(events)
                if event.source.get("state_key") == self._client.user_id
                and part_of(event.source, "content").get("membership") == "invite"
            ),
            default=-1,
        )

    async def _read_event(
        self, event: Json, room: MatrixRoom, me: BotUser, bot: Bot
    ) -> Event | None:
        """Read an event by `_read`. Anybody may have sent it: an event for which the server refuses
        a request is dropped, because it would be redelivered for ever and block all later ones."""
        try:
            return await self._read(event, room, me, bot)
        except Exception as error:
            if not self._is_lasting(error):
                raise
            log.warning("an event of %s is left out: %s", room.room_id, error)
            return None

    def _is_lasting(self, error: BaseException) -> bool:
        return self.explain(error).kind not in ("passing", "wait", "revoked")

    async def _read(self, event: Json, room: MatrixRoom, me: BotUser, bot: Bot) -> Event | None:
        kind, user = text_of(event, "type"), text_of(event, "sender")
        if user == me.id:
            return None
        if kind in ("m.room.encrypted", "m.room.encryption"):
            await self._notify_encrypted(room, user, bot)
        if kind not in ("m.room.message", "m.reaction", "m.sticker"):
            return None
        message, answered = text_of(event, "event_id"), None
        if target := target_of(event):
            first = await self._find(room.room_id, target)
            if first is None or first.get("sender") != user:
                return None
            changed = dict(part_of(event, "content", "m.new_content"))
            changed["m.relates_to"] = part_of(first, "content", "m.relates_to")
            message, event = target, {**event, "content": changed}
        thread = thread_of(event)
        if kind == "m.reaction":
            message = text_of(part_of(event, "content", "m.relates_to"), "event_id")
            first = await self._find(room.room_id, message)
            if first is None or first.get("sender") != me.id:
                return None  # on another person's message
            thread = thread_of(first)
        elif not is_private(room) and (replied := answered_by(event)):
            answered = await self._find(room.room_id, replied)
        place = Location(room.room_id, thread, message, is_group=not is_private(room))
        return read(event, Author(user, room.user_name(user) or ""), place, me, answered)

    async def _find(self, room: str, event: str) -> Json | None:
        """Return an event of a room; None if it can't be read."""
        answer = await self._client.room_get_event(room, event)
        try:
            source: Json = checked(answer).event.source
        except MatrixError as error:
            if self._is_lasting(error) or error.status == 200:  # it exists, but can't be read
                return None
            raise
        return source

    async def _notify_encrypted(self, room: MatrixRoom, user: str, bot: Bot) -> None:
        """Say once in a room that it can't be read, and invite its person to one that can."""
        if await bot.state.get(self.name, f"told {room.room_id}"):
            return
        address = Address(self.name, user, user=user)
        self._strangers += not bot.admits(address)
        is_invited = is_private(room) and self._strangers <= _MOST_STRANGERS
        if is_invited:
            await self._direct_room(user)
        with speaking(bot.language_of(address)):
            text = _(ENCRYPTED_PRIVATE) if is_invited else _(ENCRYPTED)
        content = {**make_content(text, is_plain=True), "msgtype": "m.notice"}
        checked(await self._client.room_send(room.room_id, "m.room.message", content))
        await bot.state.set(self.name, f"told {room.room_id}", "yes")

    async def _direct_room(self, user: str) -> str:
        """Return a room with this person alone; create one if needed. Raises NobodyThere."""
        rooms = self._client.rooms.values()
        for room in rooms:
            if is_private(room) and not room.encrypted and user in known_members(room):
                return str(room.room_id)
        if user in self._direct:
            if self._direct[user] in self._client.rooms:
                raise RoomRefused(f"{user} has left")
            return self._direct[user]
        made = await self._client.room_create(
            is_direct=True, preset=RoomPreset.trusted_private_chat, invite=[user]
        )
        self._direct[user] = str(checked(made).room_id)
        return self._direct[user]

    async def _room_of(self, place: Location) -> str:
        """Return the room that a message goes to. Raises NobodyThere."""
        if place.chat.startswith("@"):
            return await self._direct_room(place.chat)
        room = self._client.rooms.get(place.chat)
        if room is None:
            raise RoomRefused(f"the bot is not in {place.chat}")
        if room.encrypted:
            raise RoomRefused(f"{place.chat} is encrypted")
        if not place.is_group and not is_private(room):
            raise RoomRefused(f"others read {place.chat} now")
        return place.chat

    def explain(self, error: BaseException) -> PlatformFailure:
        match error:
            case MatrixError(code="M_LIMIT_EXCEEDED"):
                return PlatformFailure("wait", error.seconds or 5)
            case MatrixError() if error.code in _REVOKED:
                return PlatformFailure("revoked", advice=WRONG_TOKEN)
            case MatrixError() if error.code in _GONE:
                return PlatformFailure("gone")
            case MatrixError() if 400 <= error.status < 500 and error.status != 408:
                return PlatformFailure("refused")
            case ClientResponseError() if is_lasting(error.status):  # a deleted file
                return PlatformFailure("refused")
            case MatrixError() | ClientError() | TimeoutError() | OSError():
                return PlatformFailure("passing")
            case RoomRefused():
                return PlatformFailure("gone")
        return PlatformFailure("fatal")

    @property
    def length(self) -> Length:
        return self.plain_length

    def plain_length(self, text: str) -> int:
        return len(text.encode("utf-8", "replace"))

    async def post(self, place: Location, post: Post) -> str:
        content = make_content(post.text, is_plain=post.is_plain)
        return await self._send(place, content, post)

    async def edit(self, place: Location, message: str, post: Post) -> None:
        content = make_edit(message, make_content(post.text, is_plain=post.is_plain))
        await self._send(place, content, post)

    async def delete(self, place: Location, message: str) -> None:
        room = await self._room_of(place)
        checked(await self._client.room_redact(room, message))

    async def upload(self, place: Location, media: Media) -> str:
        await self._room_of(place)
        kept, _keys = await self._client.upload(
            io.BytesIO(media.content), media.media_type, media.name, filesize=len(media.content)
        )
        kinds = {"picture": "m.image", "voice": "m.audio", "document": "m.file"}
        content: dict[str, object] = {
            "msgtype": kinds[media.kind],
            "body": media.caption or media.name,
            "filename": media.name,
            "url": checked(kept).content_uri,
            "info": {"mimetype": media.media_type, "size": len(media.content)},
            "m.mentions": {},
        }
        if media.kind == "voice":
            content["org.matrix.msc3245.voice"] = {}
        return await self._send(place, content)

    async def _send(
        self, place: Location, content: dict[str, Any], post: Post | None = None
    ) -> str:
        """Send a message. A resend has the same transaction id: the server keeps one ("Transaction
        identifiers")."""
        room = await self._room_of(place)
        once = f"{post.once} {'m.new_content' in content}" if post and post.once else uuid4().hex
        if "m.relates_to" not in content and (relation := _relation(place)):
            content = {**content, "m.relates_to": relation}
        transaction = hashlib.sha256(once.encode()).hexdigest()
        sent = await self._client.room_send(room, "m.room.message", content, transaction)
        if room in self._typing and not (post and post.is_draft):
            self._typing.discard(room)
            await self._client.room_typing(room, False)
        return str(checked(sent).event_id)

    async def fetch(self, file: File) -> bytes:
        server, _slash, media = file.id.removeprefix("mxc://").partition("/")
        path = f"/_matrix/client/v1/media/download/{quote(server, '')}/{quote(media, '')}"
        headers = {"Authorization": f"Bearer {self._token}"}
        answer = await self._client.send("GET", path, headers=headers)
        content = bytearray()
        async with answer:
            answer.raise_for_status()
            async for piece in answer.content.iter_chunked(65_536):
                content += piece
                if len(content) > LARGEST_ATTACHMENT:
                    break  # enough to see that it is too large
        return bytes(content)

    async def show_typing(self, place: Location) -> None:
        room = await self._room_of(place)
        self._typing.add(room)
        checked(await self._client.room_typing(room, True, _TYPING))


def _relation(place: Location) -> Mapping[str, object]:
    """Return the message's reply or thread; apps without threads show it as a reply."""
    if place.thread:
        return {
            "rel_type": "m.thread",
            "event_id": place.thread,
            "is_falling_back": True,
            "m.in_reply_to": {"event_id": place.message or place.thread},
        }
    is_reply = place.message and place.is_group
    return {"m.in_reply_to": {"event_id": place.message}} if is_reply else {}
