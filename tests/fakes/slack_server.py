"""A strict Slack on the loopback interface: its Web API, Socket Mode's websocket and signed calls
of the Events API, for the app of the manifest in docs/slack.md; and people who write to it.

It refuses what Slack refuses, with Slack's error names ("Errors" on each method's page of
docs.slack.dev/reference/methods). Rules that are documented elsewhere name their page, and rules
without a source are marked as unverified.

async with SlackServer() as slack:
    ann = slack.person("Ann")
    ann.says("Hello!")
    message = await slack.shown("Hello, Ann!")
"""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from aiohttp import web

from tests.fakes.platform import Platform
from tests.fakes.slack_blocks import check_blocks, visible
from tests.fakes.slack_delivery import SlackDelivery
from tests.fakes.slack_methods import METHODS, SlackRefusal
from tests.fakes.slack_people import APP, BOT_ID, BOT_USER, TEAM, SlackMessage, SlackPerson

Json = dict[str, Any]

BOT_TOKEN = "xoxb-" + "1-2-test"
APP_TOKEN = "xapp-" + "1-A0-test"
SIGNING_SECRET = "8f742231b10e8888" + "abcd99yyyzzz85a5"
_SUBSCRIPTIONS = {"im": "message.im", "channel": "message.channels", "group": "message.groups"}


class SlackServer(Platform[SlackMessage]):
    """The server, on a free port; an asynchronous context manager. `calls` are all requests to
    methods; `failures` are the responses to the next requests of a method. `manifest` defines the
    app's permissions and events (default: docs/slack.md). `delivery` passes the events to the
    app."""

    def __init__(self, manifest: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        manifest = manifest or documented_manifest()
        self.scopes = set(manifest["oauth_config"]["scopes"]["bot"])
        self.events = set(manifest["settings"]["event_subscriptions"]["bot_events"])
        self.slash_commands = {c["command"] for c in manifest["features"]["slash_commands"]}
        self.bot_token, self.app_token = BOT_TOKEN, APP_TOKEN
        self.calls: list[tuple[str, Json]] = []
        self.messages: dict[tuple[str, str], SlackMessage] = {}
        self.deleted: list[SlackMessage] = []
        self.failures: dict[str, deque[SlackRefusal]] = {}
        self.people: dict[str, SlackPerson] = {}
        self.channels: dict[str, str] = {}  # kind by id
        self.joined: set[str] = set()
        self.files: dict[str, Json] = {}
        self.contents: dict[str, bytes] = {}
        self.statuses: list[Json] = []
        self.prompts: list[Json] = []
        self.whispers: list[str] = []  # texts that only one person sees
        self.whispered_to: list[str] = []  # the person who sees each
        self.revoked = ""
        self.takes_rich_text = True
        self.age = 0.0  # seconds by which people's messages are backdated
        self.is_out = False
        self.delivery = SlackDelivery(SIGNING_SECRET, self._notice)

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=10**8)
        app.router.add_route("*", "/api/{method}", self._answer)
        app.router.add_get("/link", self.delivery.link)
        app.router.add_post("/upload/{file}", self._upload)
        app.router.add_get("/files/{file}", self._download)
        app.router.add_post("/respond", self._respond)
        return app

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.delivery.start()
        return self

    async def _close(self) -> None:
        await self.delivery.stop()

    async def __aexit__(self, *error: object) -> None:
        await super().__aexit__(*error)
        assert error[0] or not self.delivery.complaints, self.delivery.complaints

    # Actions of people, and changes of the workspace.

    def person(self, name: str, locale: str = "en-US") -> SlackPerson:
        person = SlackPerson(self, f"U{len(self.people) + 1}{name.upper()}", name, locale)
        self.people[person.id] = person
        self.channels[person.dm] = "im"
        self.joined.add(person.dm)
        return person

    def channel(self, id: str = "C1GENERAL", kind: str = "channel", *, joined: bool = True) -> str:
        self.channels[id] = kind
        if joined:
            self.joined.add(id)
        return id

    def now(self) -> str:
        """Return an id: the time, and a number that no other message has."""
        return f"{int(time.time() - self.age)}.{next(self._numbers):06}"

    def keep(self, channel: str, user: str, text: str, thread: str = "") -> SlackMessage:
        message = SlackMessage(self.now(), channel, user, thread, [text])
        self.messages[channel, message.ts] = message
        self._notice()
        return message

    def say(self, message: SlackMessage, event: Json) -> None:
        """Emit the event of a message: in a channel that the bot is in, and twice if the bot is
        mentioned and receives all messages ("app_mention event")."""
        self.emit_message(message.channel, {**event, "channel": message.channel})
        is_mentioned = f"<@{BOT_USER}>" in message.text and not message.channel.startswith("D")
        if is_mentioned and event.get("subtype") in (None, "file_share"):
            mention = {k: v for k, v in event.items() if k not in ("subtype", "parent_user_id")}
            self.emit({**mention, "type": "app_mention", "channel": message.channel})

    def change(self, message: SlackMessage, before: Json) -> None:
        """Emit the change of a message ("message_changed event")."""
        changed = {"type": "message", "subtype": "message_changed", "hidden": True}
        said = {"message": message.as_json(), "previous_message": before, "ts": self.now()}
        self.emit_message(message.channel, {**changed, **said, "channel": message.channel})

    def emit_message(self, channel: str, event: Json) -> None:
        kind = self.channels[channel]
        if channel in self.joined and _SUBSCRIPTIONS[kind] in self.events:
            self.emit({**event, "channel_type": kind, "event_ts": event["ts"]}, is_checked=True)

    def emit(self, event: Json, *, is_checked: bool = False) -> None:
        """Emit an event of the Events API, if the app has subscribed to it."""
        if not is_checked and event["type"] not in self.events:
            return
        number = next(self._numbers)
        wrapped = {
            **{"type": "event_callback", "team_id": TEAM, "api_app_id": APP, "event": event},
            **{"event_id": f"Ev{number}", "event_time": int(time.time()), "token": "verification"},
        }
        self.delivery.send("events_api", wrapped)

    def interact(self, payload: Json) -> None:
        self.delivery.send("interactive", payload, accepts=True)

    def slash(self, payload: Json) -> None:
        assert payload["command"] in self.slash_commands, "Slack's app refuses unknown commands"
        self.delivery.send("slash_commands", payload, accepts=True)

    def store(self, name: str, content: bytes, kind: str, user: str = BOT_USER) -> Json:
        number = f"F{next(self._numbers)}"
        url = f"{self.base_url}/files/{number}"
        self.contents[number] = content
        self.files[number] = {
            **{"id": number, "name": name, "title": name, "mimetype": kind, "user": user},
            **{"size": len(content), "mode": "hosted", "url_private": url},
            "url_private_download": url,
        }
        return self.files[number]

    async def revoke(self, code: str = "token_revoked", *, tells: bool = False) -> None:
        self.revoked = code
        if tells:
            self.emit({"type": "app_uninstalled"})
        else:
            await self.delivery.cut()

    async def outage(self, is_out: bool) -> None:
        self.is_out = self.delivery.is_out = is_out
        if is_out:
            await self.delivery.cut()

    def limit(self, seconds: int, *methods: str) -> None:
        """Refuse the next request of these methods with a rate limit ("Rate limits")."""
        for method in methods or ("chat.postMessage",):
            self.fail(method, SlackRefusal("ratelimited", 429, retry_after=seconds))

    def fail(self, method: str, *refusals: SlackRefusal) -> None:
        self.failures.setdefault(method, deque()).extend(refusals)

    # Waits for tests.

    def _sent(self, chat: str | None) -> Iterable[SlackMessage]:
        return (one for one in reversed(self.said) if not chat or one.channel == chat)

    async def called(self, method: str, times: int = 1) -> list[Json]:
        """Return the parameters of all requests of a method, once there are that many."""
        await self.until(lambda: len(self.made(method)) >= times)
        return self.made(method)

    def made(self, method: str) -> list[Json]:
        return [parameters for name, parameters in self.calls if name == method]

    @property
    def said(self) -> list[SlackMessage]:
        """Return the bot's messages without deleted ones."""
        return [message for message in self.messages.values() if message.user == BOT_USER]

    # The API methods.

    async def _answer(self, request: web.Request) -> web.Response:
        if self.is_out:
            self._notice()
            return web.Response(status=503, text="Slack is down")
        method = request.match_info["method"]
        try:
            parameters, token = await _read(request)
            self.calls.append((method, parameters))
            self._check_token(method, token)
            if failures := self.failures.get(method):
                raise failures.popleft()
            if method == "apps.connections.open":
                ticket = self.delivery.issue_ticket()
                url = f"{self.base_url.replace('http', 'ws', 1)}/link?ticket={ticket}"
                return web.json_response({"ok": True, "url": url})
            if method == "auth.test":
                who = {"user_id": BOT_USER, "bot_id": BOT_ID, "team_id": TEAM, "user": "parley"}
                return web.json_response({"ok": True, "team": "House", "url": self.base_url, **who})
            if method not in METHODS:
                raise SlackRefusal("unknown_method")
            needed, execute = METHODS[method]
            if needed and not set(needed) & self.scopes:
                raise SlackRefusal("missing_scope", needed=needed[0])
            result = execute(self, parameters)
        except SlackRefusal as refusal:
            return refusal.as_response()
        finally:
            self._notice()
        return web.json_response({"ok": True, **result})

    def _check_token(self, method: str, token: str) -> None:
        wanted = self.app_token if method == "apps.connections.open" else self.bot_token
        if not token:
            raise SlackRefusal("not_authed")
        if self.revoked:
            raise SlackRefusal(self.revoked)
        if token != wanted:
            is_other = token in (self.app_token, self.bot_token)
            raise SlackRefusal("not_allowed_token_type" if is_other else "invalid_auth")

    async def _upload(self, request: web.Request) -> web.Response:
        number, content = request.match_info["file"], await request.read()
        if number not in self.files or self.files[number]["size"] != len(content):
            return web.Response(status=400, text="the size is another than was said")  # unverified
        self.contents[number] = content
        return web.Response(text=f"OK - {len(content)}")

    async def _download(self, request: web.Request) -> web.Response:
        """Answer a download; without a token with Slack's sign-in page, which is not an error
        ("File object")."""
        number = request.match_info["file"]
        is_known = request.headers.get("Authorization") == f"Bearer {self.bot_token}"
        if not is_known or "files:read" not in self.scopes:
            return web.Response(text="<html>Sign in</html>", content_type="text/html")
        return web.Response(body=self.contents[number])

    async def _respond(self, request: web.Request) -> web.Response:
        """Accept a response to a command, up to five in half an hour ("Handling user
        interaction")."""
        if len(self.whispers) >= 5:
            return web.Response(status=404, text="used_url")
        given = await request.json()
        check_blocks(given.get("blocks", []))
        self.whispers.append(visible(given["blocks"]))
        self.whispered_to.append(request.query["to"])
        self._notice()
        return web.Response(text="ok")


async def _read(request: web.Request) -> tuple[Json, str]:
    """Return the parameters of a request, and its token; JSON in a form is parsed."""
    if request.content_type == "application/json":
        parameters = await request.json()
    else:
        form = {**request.query, **await request.post()}
        parameters = {name: _parsed(str(value)) for name, value in form.items()}
    header = request.headers.get("Authorization", "").removeprefix("Bearer ")
    return parameters, str(parameters.pop("token", "")) or header


def documented_manifest() -> Json:
    """Return the app's manifest, as docs/slack.md shows it for pasting."""
    page = (Path(__file__).parents[2] / "docs" / "slack.md").read_text()
    found = re.search(r"```json\n(.*?\"display_information\".*?)```", page, re.DOTALL)
    assert found, "docs/slack.md has a manifest"
    manifest: Json = json.loads(found[1])
    return manifest


def _parsed(text: str) -> Any:
    return json.loads(text) if text[:1] in ("{", "[") else text
