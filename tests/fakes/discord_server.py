"""A strict Discord on the loopback interface: REST, gateway, files, and the people who write.

It refuses the same requests as Discord, with Discord's numbers. Each refusal names the page of
Discord's reference with it ("docs.discord.com/developers"); behaviour not written there is marked
as unverified.

async with DiscordServer() as discord:
    ann = discord.person("Ann", 42)
    ann.says("Hello!")
    message = await discord.shown("Hello, Ann!")
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from tests.fakes.discord_gateway import MESSAGE_CONTENT, Gateway, hide
from tests.fakes.discord_people import DiscordPerson
from tests.fakes.discord_rules import (
    EPHEMERAL,
    LARGEST_FILE,
    TO_FOLLOW,
    Pending,
    Refused,
    SentMessage,
    check_commands,
    check_components,
    check_content,
    check_message,
    check_response,
    invalid,
    pings,
)
from tests.fakes.platform import Platform

Json = dict[str, Any]

TOKEN = "MTAwMDAwMDAwMDAwMDAwMDAx.Gtest1.test-test-test-test-test-test-test-test"
APPLICATION = 1000000000000000001
BOT: Json = {"id": str(APPLICATION), "username": "parley", "discriminator": "0000", "bot": True}
BOT |= {"avatar": None, "global_name": None}
GUILD, OWN_ROLE = 2000000000000000001, 2000000000000000009
GENERAL, KITCHEN = 3000000000000000001, 3000000000000000002
"""The channels of the server."""
_EPOCH = 1_420_070_400_000  # "Reference: Snowflakes"

Handler = Callable[..., Any]


class DiscordServer(Platform[SentMessage]):
    """An application, one server with two channels, and direct messages."""

    def __init__(self) -> None:
        super().__init__()
        self.token = TOKEN
        self.has_content = True  # Message Content Intent, in the developer portal
        self.is_out = False
        self.skew = 0.0
        self.bot, self.guild, self.own_role = BOT, GUILD, OWN_ROLE
        self.default_mentions: Json | None = None
        self.clock = time.monotonic
        self.messages: dict[int, SentMessage] = {}
        self.removed: list[int] = []
        self.said: dict[int, Json] = {}  # what people wrote
        self.commands: list[Json] = []
        self.typing: list[int] = []
        self.directs: dict[int, int] = {}  # channels by person
        self.people: dict[int, Json] = {}
        self.threads: dict[int, Json] = {}
        self.blocked: set[int] = set()  # channels in which the bot may not write
        self.interactions: dict[int, Pending] = {}
        self.refusals: deque[Refused] = deque()
        self.limits: deque[tuple[float, bool]] = deque()
        self.edit_limits: deque[float] = deque()  # the same for messages that are edited
        self.requests: list[tuple[str, str]] = []
        self.attachments: dict[str, bytes] = {}
        self.gateway = Gateway(lambda: self.token, self._ready, self._changed)

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=2 * LARGEST_FILE)
        app.router.add_get("/gateway", self.gateway.handle)
        app.router.add_get("/attachments/{name:.*}", self._download)
        app.router.add_route("*", "/api/v10/{path:.*}", self._answer)
        return app

    async def _close(self) -> None:
        self.gateway.cut()

    # What tests do.

    def person(self, name: str, number: int) -> DiscordPerson:
        user: Json = {"id": str(number), "username": name.lower(), "discriminator": "0"}
        self.people[number] = user | {"global_name": name, "avatar": None}
        self.directs[number] = self.snowflake()
        return DiscordPerson(self, number, self.directs[number])

    def thread(self, name: str, parent: int = GENERAL, *, is_told: bool = True) -> int:
        number = self.snowflake()
        self.threads[number] = {
            **{"id": str(number), "type": 11, "name": name, "parent_id": str(parent)},
            **{"guild_id": str(GUILD), "owner_id": str(APPLICATION), "message_count": 0},
            **{"member_count": 1, "rate_limit_per_user": 0, "last_message_id": None, "flags": 0},
            "thread_metadata": {
                **{"archived": False, "auto_archive_duration": 1440, "locked": False},
                "archive_timestamp": self.now(),
            },
        }
        if is_told:
            self.gateway.tell("THREAD_CREATE", self.threads[number] | {"newly_created": True})
        return number

    def outage(self, is_out: bool) -> None:
        """Delay all responses until it is released."""
        self.is_out = self.gateway.is_out = is_out
        if is_out:
            self.gateway.cut()

    def limit(self, seconds: float, *, is_global: bool = False) -> None:
        """Rate-limit the next message, and all that arrive before this time is over."""
        self.limits.append((seconds, is_global))

    async def revoke(self) -> None:
        """Invalidate the token, as if another was made in the portal ("Gateway Close Event Codes":
        4004)."""
        self.token = "another"
        await self.gateway.close(4004)

    def _sent(self, chat: int | None) -> Iterable[SentMessage]:
        return (one for one in reversed(self.messages.values()) if not chat or one.channel == chat)

    async def found(self, wanted: Callable[[SentMessage], bool]) -> SentMessage:
        found = await self.until(lambda: next(filter(wanted, self._sent(None)), None))
        assert isinstance(found, SentMessage)
        return found

    def snowflake(self) -> int:
        milliseconds = int((time.time() + self.skew) * 1000) - _EPOCH
        return (milliseconds << 22) + next(self._numbers) % 4096

    def now(self) -> str:
        return datetime.fromtimestamp(time.time() + self.skew, UTC).isoformat()

    # What a bot is told.

    def _ready(self) -> tuple[Json, list[Json]]:
        ready: Json = {
            **{"v": 10, "user": BOT, "guilds": [{"id": str(GUILD), "unavailable": True}]},
            "application": {"id": str(APPLICATION), "flags": self._flags()},
            "resume_gateway_url": f"{self.base_url.replace('http', 'ws')}/gateway",
        }
        channels = [self.channel(one) for one in (GENERAL, KITCHEN)]
        tags = {"bot_id": str(APPLICATION)}
        role: Json = {"id": str(OWN_ROLE), "name": "Parley", "tags": tags, "permissions": "0"}
        role |= {"color": 0, "hoist": False, "position": 1, "managed": True, "mentionable": False}
        everyone = role | {"id": str(GUILD), "name": "@everyone", "tags": {}, "position": 0}
        guild: Json = {"id": str(GUILD), "name": "Home", "roles": [role, everyone], "emojis": []}
        guild |= {"channels": channels, "threads": list(self.threads.values()), "members": []}
        guild |= {"member_count": 3, "large": False, "unavailable": False, "features": []}
        return ready, [guild | {"joined_at": self.now(), "owner_id": "42"}]

    def _flags(self) -> int:
        return 1 << 19 if self.has_content else 0  # "Application Resource: Application Flags"

    def channel(self, number: int) -> Json:
        if self.is_direct(number):
            person = next(one for one, channel in self.directs.items() if channel == number)
            return {"id": str(number), "type": 1, "recipients": [self.people[person]], "flags": 0}
        if number in self.threads:
            return self.threads[number]
        name = {GENERAL: "general", KITCHEN: "kitchen"}[number]
        place: Json = {"id": str(number), "type": 0, "name": name, "guild_id": str(GUILD)}
        return place | {"position": 0, "permission_overwrites": [], "nsfw": False}

    def is_direct(self, channel: int) -> bool:
        return channel in self.directs.values()

    @property
    def everybody(self) -> list[Json]:
        return [BOT, *self.people.values()]

    def find(self, number: int) -> Json:
        sent = self.messages.get(number)
        return self.as_message(sent) if sent else self.said[number]

    def attach(self, channel: int, name: str, content: bytes, kind: str) -> Json:
        """Return a file in the form of a person's message."""
        number = self.snowflake()
        path = f"{channel}/{number}/{name}"
        self.attachments[path] = content
        url = f"{self.base_url}/attachments/{path}?ex=1&is=1&hm={sign(path)}"
        file: Json = {"id": str(number), "filename": name, "size": len(content), "url": url}
        return file | {"proxy_url": url, "content_type": kind}

    # What the bot asks.

    async def _answer(self, request: web.Request) -> web.Response:
        path = request.match_info["path"]
        self.requests.append((request.method, path))
        if self.is_out:
            return web.Response(status=503)
        self.gateway.portal = (1 << 1) | (1 << 8) | (MESSAGE_CONTENT if self.has_content else 0)
        try:
            self._check_caller(request)
            limited = self._limited(request, path)
            if limited is not None:
                return limited
            body, files = await self._body(request)
            answer = self._route(request, path, body, files)
        except Refused as refusal:
            content: Json = {"message": str(refusal), "code": refusal.code}
            if refusal.errors:
                content["errors"] = refusal.errors
            return _json(content, refusal.status)
        finally:
            self.gateway.notice()
        if answer is None:
            return web.Response(status=204)
        return _json(answer)

    def _check_caller(self, request: web.Request) -> None:
        if re.match(r"(interactions|webhooks)/", request.match_info["path"]):
            return  # who knows the token in the path may; unverified: from any program
        if not request.headers.get("User-Agent", "").startswith("DiscordBot ("):
            raise Refused(403, 0, "access denied")  # "Reference: User Agent"
        if request.headers.get("Authorization") != f"Bot {self.token}":
            raise Refused(401, 0, "401: Unauthorized")  # "Reference: Authentication"

    def _limited(self, request: web.Request, path: str) -> web.Response | None:
        """ "Rate Limits: Exceeding a Rate Limit"; the header Via is unverified, discord.py takes
        an answer without it for one of Cloudflare's."""
        if self.edit_limits and request.method == "PATCH" and "/messages/" in path:
            seconds, is_global = self.edit_limits.popleft(), False
        elif self.limits and request.method == "POST" and path.endswith("/messages"):
            seconds, is_global = self.limits.popleft()
        else:
            return None
        headers = {"Retry-After": str(seconds), "Via": "1.1 google"}
        headers["X-RateLimit-Scope"] = "global" if is_global else "shared"
        body = {"message": "You are being rate limited.", "retry_after": seconds}
        return _json(body | {"global": is_global}, 429, headers)

    async def _body(self, request: web.Request) -> tuple[Any, dict[str, bytes]]:
        """Return JSON, or a form with files ("Reference: Uploading Files")."""
        if request.content_type == "application/json":
            return await request.json(), {}
        if request.content_type != "multipart/form-data":
            return {}, {}
        body: Json = {}
        files: dict[str, bytes] = {}
        async for part in await request.multipart():
            if getattr(part, "name", "") == "payload_json":
                body = await part.json() or {}  # type: ignore[union-attr]
            else:
                content = bytes(await part.read())  # type: ignore[union-attr]
                if len(content) > LARGEST_FILE:
                    raise Refused(413, 40005, "Request entity too large")
                files[part.filename or ""] = content  # type: ignore[union-attr]
        return body, files

    def _route(self, request: web.Request, path: str, body: Any, files: dict[str, bytes]) -> Any:
        for method, pattern, handler in self._routes():
            if request.method == method and (found := re.fullmatch(pattern, path)):
                parts = [int(part) if part.isdecimal() else part for part in found.groups()]
                if "query" in handler.__code__.co_varnames:
                    return handler(*parts, query=request.query)
                if "files" in handler.__code__.co_varnames:
                    return handler(*parts, body=body, files=files)
                return handler(*parts, body=body)
        raise Refused(404, 0, "404: Not Found")

    def _routes(self) -> list[tuple[str, str, Handler]]:
        channel, message = r"channels/(\d+)", r"channels/(\d+)/messages/(\d+)"
        return [
            ("GET", "users/@me", lambda *, body: BOT),
            ("GET", "oauth2/applications/@me", self._application),
            ("POST", "users/@me/channels", self._open_direct),
            ("PUT", r"applications/(\d+)/commands", self._keep_commands),
            ("GET", channel, self._get_channel),
            ("GET", f"{channel}/messages", self._history),
            ("POST", f"{channel}/messages", self._create),
            ("POST", f"{channel}/typing", self._type),
            ("PATCH", message, self._edit),
            ("DELETE", message, self._delete),
            ("POST", r"interactions/(\d+)/(\w+)/callback", self._respond),
            ("PATCH", r"webhooks/(\d+)/(\w+)/messages/@original", self._edit_response),
        ]

    def _application(self, *, body: Json) -> Json:
        application: Json = {"id": str(APPLICATION), "name": "Parley", "icon": None}
        application |= {"description": "", "bot_public": False, "bot_require_code_grant": False}
        return application | {"owner": BOT, "verify_key": "", "flags": self._flags()}

    def _open_direct(self, *, body: Json) -> Json:
        person = int(body["recipient_id"])
        if person not in self.directs:
            raise Refused(400, 50033, "Invalid Recipient(s)")
        return self.channel(self.directs[person])

    def _keep_commands(self, application: int, *, body: Any) -> list[Json]:
        check_commands(body)
        self.commands = body
        return [one | {"id": str(1 + n), "version": "1"} for n, one in enumerate(body)]

    def _get_channel(self, number: int, *, body: Json) -> Json:
        self._check_channel(number)
        return self.channel(number)

    def _history(self, number: int, *, query: Mapping[str, str]) -> list[Json]:
        """ "Message Resource: Get Channel Messages"; newest first, after one the oldest of them."""
        self._check_channel(number)
        limit = int(query.get("limit", 50))
        if not 1 <= limit <= 100:
            raise invalid("limit", "NUMBER_TYPE_MAX", "int value should be between 1 and 100.")
        own = [self.as_message(one) for one in self.messages.values()]
        known = [one for one in (*self.said.values(), *own) if one["channel_id"] == str(number)]
        found = sorted(known, key=lambda one: int(one["id"]))
        after = [one for one in found if int(one["id"]) > int(query.get("after", 0))]
        return [self._hidden(one) for one in reversed(after[:limit])]

    def _hidden(self, message: Json) -> Json:
        """Return a message without the fields of the gateway, and of the intent for content."""
        shown = {key: value for key, value in message.items() if key not in ("guild_id", "member")}
        is_open = self.has_content or "guild_id" not in message or message["author"].get("bot")
        if is_open or any(user["id"] == BOT["id"] for user in message["mentions"]):
            return shown
        return hide(shown)

    def _type(self, number: int, *, body: Json) -> None:
        self._check_channel(number, is_written=True)
        self.typing.append(number)

    def _create(self, number: int, *, body: Json, files: dict[str, bytes]) -> Json:
        self._check_channel(number, is_written=True)
        check_message(body, files)
        self._refuse_next()
        nonce = str(body.get("nonce") or "")
        if nonce and body.get("enforce_nonce"):
            known = [one for one in self.messages.values() if one.nonce == nonce]
            if known:
                return self.as_message(known[-1])
        answers = self._referenced(body)
        sent = self._keep(number, body, files)
        sent.answers, sent.nonce = answers, nonce
        return self.as_message(sent)

    def _referenced(self, body: Json) -> int:
        """ "Message Resource: Message Reference Structure"."""
        reference = body.get("message_reference") or {}
        number = int(reference.get("message_id", 0))
        if not number or number in self.said or number in self.messages:
            return number
        if reference.get("fail_if_not_exists", True):
            raise invalid("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
        return 0

    def _keep(self, channel: int, body: Json, files: dict[str, bytes]) -> SentMessage:
        content = str(body.get("content") or "").strip()
        assert not pings(content, body.get("allowed_mentions", self.default_mentions)), content
        sent = SentMessage(
            self.snowflake(), channel, [content], body.get("components") or [], files
        )
        sent.flags = body.get("flags", 0)
        self.messages[sent.id] = sent
        return sent

    def _edit(self, channel: int, number: int, *, body: Json) -> Json:
        self._check_channel(channel, is_written=True)
        if number in self.said:
            raise Refused(403, 50005, "Cannot edit a message authored by another user")
        if number not in self.messages:
            raise Refused(404, 10008, "Unknown Message")
        self._refuse_next()
        return self._change(self.messages[number], body)

    def _change(self, sent: SentMessage, body: Json) -> Json:
        if "content" in body:
            check_content(body["content"] or "")
            if not (body["content"] or "").strip() and not sent.files:
                raise Refused(400, 50006, "Cannot send an empty message")
            sent.contents.append((body["content"] or "").strip())
        if "components" in body:
            check_components(body["components"] or [])
            sent.components = body["components"] or []
        return self.as_message(sent)

    def _delete(self, channel: int, number: int, *, body: Json) -> None:
        if number not in self.messages:
            raise Refused(404, 10008, "Unknown Message")
        del self.messages[number]
        self.removed.append(number)

    def _respond(self, number: int, token: str, *, body: Json) -> Json | None:
        """ "Interactions: Create Interaction Response"; it answers with what was made of it."""
        pending = check_response(self.interactions.get(number), token, body["type"], self.clock())
        data = body.get("data") or {}
        if body["type"] == 4:
            check_message(data | {"flags": data.get("flags", 0) & ~EPHEMERAL}, {})
            self._refuse_next()
            pending.message = self._show_response(pending, data)
        pending.answered = body["type"]
        interaction = {"id": str(number), "type": pending.kind}
        if not pending.message:
            return {"interaction": interaction, "resource": {"type": body["type"]}}
        sent = self.as_message(self.messages[pending.message])
        interaction["response_message_id"] = str(pending.message)
        return {"interaction": interaction, "resource": {"type": body["type"], "message": sent}}

    def _show_response(self, pending: Pending, data: Json) -> int:
        sent = self._keep(pending.channel, data, {})
        sent.interaction = pending.id
        return sent.id

    def _edit_response(self, application: int, token: str, *, body: Json) -> Json:
        """ "Interactions: Edit Original Interaction Response"."""
        pending = next((one for one in self.interactions.values() if one.token == token), None)
        if pending is None or self.clock() - pending.at > TO_FOLLOW:
            raise Refused(401, 50027, "Invalid Webhook Token")
        if not pending.answered:
            raise Refused(404, 10015, "Unknown Webhook")
        check_message(body, {})
        self._refuse_next()
        if not pending.message:
            pending.message = self._show_response(pending, body)
            return self.as_message(self.messages[pending.message])
        return self._change(self.messages[pending.message], body)

    def _refuse_next(self) -> None:
        if self.refusals:
            raise self.refusals.popleft()

    def _check_channel(self, number: int, *, is_written: bool = False) -> None:
        known = {GENERAL, KITCHEN, *self.threads, *self.directs.values()}
        if number not in known:
            raise Refused(404, 10003, "Unknown Channel")
        if number in self.blocked:
            if self.is_direct(number) and is_written:
                raise Refused(403, 50007, "Cannot send messages to this user")
            raise Refused(403, 50001, "Missing Access")

    def as_message(self, sent: SentMessage) -> Json:
        message: Json = {
            **{"id": str(sent.id), "channel_id": str(sent.channel), "author": BOT},
            **{"content": sent.raw, "timestamp": self.now(), "edited_timestamp": None},
            **{"tts": False, "mention_everyone": False, "mention_roles": [], "mentions": []},
            **{"attachments": [], "embeds": [], "pinned": False, "type": 0, "flags": sent.flags},
        }
        return message | {"components": sent.components}

    async def _download(self, request: web.Request) -> web.Response:
        """Serve a file; addresses are signed and expire ("Reference: Signed Attachment CDN
        URLs")."""
        name = request.match_info["name"]
        if name not in self.attachments or request.query.get("hm") != sign(name):
            return web.Response(status=404)
        return web.Response(body=self.attachments[name])


def _json(
    content: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Return Discord's content type: without a charset."""
    more = {"Content-Type": "application/json", **(headers or {})}
    return web.Response(body=json.dumps(content).encode(), status=status, headers=more)


def sign(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
