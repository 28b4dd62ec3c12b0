"""The Slack platform: an app in a workspace, over Socket Mode or the Events API."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from weakref import WeakValueDictionary

import aiohttp
from slack_bolt.async_app import AsyncAck, AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from channels.base import ChannelError, WebhookAnswer, WebhookCall
from channels.kit.messenger import ODD_SHAPE
from channels.kit.platform import (
    Author,
    File,
    IncomingHandler,
    Location,
    Media,
    Platform,
    PlatformFailure,
    Post,
    Traits,
)
from channels.language import _, asked_in, speaking
from channels.message import Address
from channels.slack import SlackSettings, incoming, socket
from channels.slack.incoming import EventContext, is_signed
from channels.slack.rendering import LONGEST, content, length, plain_blocks
from channels.slack.socket import Socket

log = logging.getLogger(__name__)
_bolt_log = logging.getLogger(f"{__name__}.bolt")
_bolt_log.setLevel(logging.ERROR)  # it warns of the token in the environment

Json = dict[str, Any]

UNINSTALLED = "The app was removed from the Slack workspace; install it again, and restart the bot."
NOT_GIVEN = "Slack did not give the file; does the app have the permission files:read?"
THINKS = "is thinking…"
_CHECKED = 60.0  # seconds between two checks that Slack still knows the bot
_MOST_KNOWN = 5_000  # people, and beginnings of threads, that are remembered
_LOOKED_THROUGH = 15  # messages checked in a thread whose first one was deleted
_ANY = re.compile("")


class Slack(Platform):
    """An app in one workspace. `secrets` has SLACK_BOT_TOKEN, and SLACK_APP_TOKEN for Socket Mode
    or SLACK_SIGNING_SECRET for the Events API."""

    name = "slack"
    traits = Traits(
        longest=LONGEST,
        can_edit=True,
        draft=1.5,  # chat.update may be called some 50 times a minute, in all chats together
        group_draft=3.0,
        typing=60.0,  # a status vanishes after two minutes
        longest_button=2_000,
        overall=10.0,
        sound="mp3",
        message_id=incoming.MESSAGE_ID,
    )
    _session: aiohttp.ClientSession
    _client: AsyncWebClient
    _app: AsyncApp

    def __init__(self, settings: SlackSettings, secrets: Mapping[str, str]) -> None:
        self._settings, self._secrets = settings, secrets
        self._bot = AuthorizeResult(enterprise_id=None, team_id=None)
        self._people: dict[str, Author] = {}
        self._beginnings: dict[tuple[str, str], Json | None] = {}
        self._lines: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._asides: dict[str, str] = {}  # response URLs of commands, by their trigger
        self._answering: dict[str, str] = {}  # the last of these in each channel
        self._removed = asyncio.Event()

    # Connecting.

    async def open(self) -> None:
        token = self._secrets["SLACK_BOT_TOKEN"]
        session = aiohttp.ClientSession(trust_env=True)
        client = AsyncWebClient(token, self._settings.base_url, session=session, retry_handlers=[])
        try:
            answer = await client.auth_test()
        except BaseException:
            await session.close()
            raise
        self._session, self._client = session, client
        self._bot = AuthorizeResult.from_auth_test_response(
            auth_test_response=answer, bot_token=token
        )
        self._app = self._route()

    async def listen(self, handler: IncomingHandler) -> None:
        is_called = "SLACK_APP_TOKEN" not in self._secrets
        listening = self._wait_for_calls(handler) if is_called else self._listen_to_socket(handler)
        tasks = [asyncio.create_task(listening), asyncio.create_task(self._removed.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if self._removed.is_set():
                raise ChannelError(UNINSTALLED)
            await tasks[0]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen_to_socket(self, handler: IncomingHandler) -> None:
        async def open_url() -> str:
            await self._client.auth_test()
            opened = await self._client.apps_connections_open(
                app_token=self._secrets["SLACK_APP_TOKEN"]
            )
            return str(opened["url"])

        async def take(body: Json) -> Json | None:
            try:
                request = AsyncBoltRequest(
                    body=body, context={"handler": handler}, mode="socket_mode"
                )
                answer = await self._dispatch(request)
            except ODD_SHAPE:
                log.exception("what Slack sent can't be read and is left out")
                return {}  # otherwise it would be redelivered
            return {} if answer.status == 200 else None

        await Socket(self._session, open_url, take, handler.connected).run()

    async def _wait_for_calls(self, handler: IncomingHandler) -> None:
        while True:
            await self._client.auth_test()
            handler.connected()
            await asyncio.sleep(_CHECKED)

    async def call(self, handler: IncomingHandler, call: WebhookCall) -> WebhookAnswer:
        secret = self._secrets.get("SLACK_SIGNING_SECRET", "")
        if not secret or call.is_too_large:
            return WebhookAnswer(413 if secret else 404)
        if not is_signed(secret, call):
            return WebhookAnswer(401)
        kind = call.headers.get("content-type", "")
        request = AsyncBoltRequest(
            body=call.body.decode(), headers={"content-type": kind}, context={"handler": handler}
        )
        return await self._dispatch(request)

    async def close(self) -> None:
        await self._session.close()

    def explain(self, error: BaseException) -> PlatformFailure:
        return socket.explain(error)

    # Incoming events. Bolt acknowledges events that its listeners accepted; failed ones are
    # redelivered.

    def _route(self) -> AsyncApp:
        async def authorize() -> AuthorizeResult:
            return self._bot

        app = AsyncApp(
            name=self.name,
            signing_secret="-",
            authorize=authorize,
            logger=_bolt_log,
            request_verification_enabled=False,  # `call` has done it
            process_before_response=True,
        )
        app.error(_raise)
        app.event("message")(self._on_message)
        app.event("app_mention")(self._on_message)
        app.event("reaction_added")(self._on_reaction)
        app.event("assistant_thread_started")(self._on_assistant)
        app.event(re.compile("app_uninstalled|tokens_revoked"))(self._on_removal)
        app.event(_ANY)(_on_anything_else)
        app.action(_ANY)(self._on_press)
        app.command(_ANY)(self._on_command)
        return app

    async def _dispatch(self, request: AsyncBoltRequest) -> WebhookAnswer:
        answer = await self._app.async_dispatch(request)
        kind = answer.first_headers().get("content-type", "text/plain").partition(";")[0]
        return WebhookAnswer(answer.status, answer.body.encode(), kind)

    async def _on_message(self, event: Json, context: Json) -> None:
        handler: IncomingHandler = context["handler"]
        message = incoming.message_in(event)
        if message is None:
            return
        line = self._lines.setdefault(message["channel"], asyncio.Lock())
        async with line:  # a lookup must not let a later message overtake
            beginning = await self._beginning(handler, message)
            known = EventContext(str(self._bot.bot_user_id), parent=beginning)
            if not incoming.is_for_bot(message, known):
                return
            people = incoming.people_in(message) | incoming.people_in(beginning or {})
            senders = {one: await self._person(handler, one) for one in people - {known.bot}}
            opens = self._settings.threads == "everywhere" or (
                self._settings.threads == "channels" and incoming.is_group(message["channel"])
            )
            known = EventContext(known.bot, senders, beginning, opens)
            await handler.take([incoming.read_message(message, known)])

    async def _on_reaction(self, event: Json, context: Json) -> None:
        handler: IncomingHandler = context["handler"]
        item = event["item"]
        if item.get("type") != "message" or event.get("item_user") != self._bot.bot_user_id:
            return
        found = await self._look_up(
            handler,
            lambda: self._client.reactions_get(channel=item["channel"], timestamp=item["ts"]),
        )
        if found:
            sender = await self._person(handler, event["user"])
            if reacted := incoming.react(event, found["message"], sender):
                await handler.take([reacted])

    async def _on_press(self, body: Json, ack: AsyncAck, context: Json) -> None:
        handler: IncomingHandler = context["handler"]
        if "message" in body:
            sender = await self._person(handler, body["user"]["id"])
            await handler.take([incoming.press(body, sender)])
        await ack()

    async def _on_command(self, body: Json, ack: AsyncAck, context: Json) -> None:
        """Process a slash command: `/parley context` is the command /context, `/parley Hello!` a
        message."""
        handler: IncomingHandler = context["handler"]
        words = incoming.readable(body.get("text", ""), EventContext("")) or "help"
        name = words.split()[0].lower()
        if name in {one.name for one in handler.bot.list_commands()}:
            words = f"/{words}"
        sender = await self._person(handler, body["user_id"])
        _remember(self._asides, body["trigger_id"], body.get("response_url", ""))
        await handler.take([incoming.command(body, words, sender)])
        await ack()

    async def _on_assistant(self, event: Json, context: Json) -> None:
        """Offer suggestions to a person who opened the Assistant view."""
        handler: IncomingHandler = context["handler"]
        thread = event["assistant_thread"]
        user, chat = thread["user_id"], thread["channel_id"]
        asked_in.set((await self._person(handler, user)).language)
        address = Address(self.name, f"{user}/{chat}", thread["thread_ts"], user)
        with speaking(handler.bot.language_of(address)):
            prompts = [
                {"title": _("What can you do?"), "message": "/help"},
                {"title": _("What do you see of our conversation?"), "message": "/context"},
            ]
        await self._look_up(
            handler,
            lambda: self._client.assistant_threads_setSuggestedPrompts(
                channel_id=chat, thread_ts=thread["thread_ts"], prompts=prompts
            ),
        )

    async def _on_removal(self, event: Json) -> None:
        """Note that the app was removed, or its token revoked; people's own tokens are
        irrelevant."""
        if event["type"] == "app_uninstalled" or event.get("tokens", {}).get("bot"):
            self._removed.set()

    async def _beginning(self, handler: IncomingHandler, message: Mapping[str, Any]) -> Json | None:
        """Return the first message of this message's thread."""
        channel, thread = message["channel"], incoming.thread_of(message)
        if not thread:
            return None
        if (channel, thread) not in self._beginnings:
            first = next(iter(await self._replies(handler, channel, thread, 1)), None)
            if first and incoming.is_tombstone(first):  # the bot was addressed if it has answered
                replies = await self._replies(handler, channel, thread, _LOOKED_THROUGH)
                if any(one.get("user") == self._bot.bot_user_id for one in replies):
                    first = {**first, "user": self._bot.bot_user_id}
            _remember(self._beginnings, (channel, thread), first)
        return self._beginnings[channel, thread]

    async def _replies(
        self, handler: IncomingHandler, channel: str, thread: str, most: int
    ) -> list[Json]:
        """Return at most this many messages of a thread, the first one first."""
        found = await self._look_up(
            handler,
            lambda: self._client.conversations_replies(channel=channel, ts=thread, limit=most),
        )
        return list(found["messages"]) if found else []

    async def _person(self, handler: IncomingHandler, user: str) -> Author:
        if user not in self._people:
            found = await self._look_up(
                handler, lambda: self._client.users_info(user=user, include_locale=True)
            )
            _remember(self._people, user, incoming.person(user, found["user"] if found else {}))
        return self._people[user]

    async def _look_up(
        self, handler: IncomingHandler, request: Callable[[], Awaitable[AsyncSlackResponse]]
    ) -> AsyncSlackResponse | None:
        """Return Slack's response; None if it is an error."""
        try:
            return await handler.patiently(request)
        except SlackApiError as error:
            log.info("Slack does not answer a question: %s", socket.code_of(error.response))
            return None

    # Outgoing messages.

    def length(self, text: str) -> int:
        return length(text)

    async def post(self, place: Location, post: Post) -> str:
        made = content(post)
        try:
            posted = await self._client.chat_postMessage(
                channel=place.chat,
                thread_ts=place.thread or None,
                unfurl_links=False,
                unfurl_media=False,
                **made,
            )
        except SlackApiError as error:
            address = self._find_response_url(place)
            is_outside = socket.code_of(error.response) in ("not_in_channel", "channel_not_found")
            if not (is_outside and address) or post.is_draft:
                raise
            async with self._session.post(address, json=made) as answer:
                if answer.status != 200:
                    raise
            return ""  # shown to the command's sender, where the bot is not a member
        return str(posted["ts"])

    def _find_response_url(self, place: Location) -> str:
        """Return the response URL of a command in a channel without the bot, whose answer only the
        sender sees; "" if unknown. Messages after the first one of an answer name no command, and
        directly follow it."""
        if place.message:
            _remember(self._answering, place.chat, place.message)
        return self._asides.get(self._answering.get(place.chat, ""), "")

    async def edit(self, place: Location, message: str, post: Post) -> None:
        await self._client.chat_update(channel=place.chat, ts=message, **content(post))

    async def delete(self, place: Location, message: str) -> None:
        await self._client.chat_delete(channel=place.chat, ts=message)

    async def upload(self, place: Location, media: Media) -> str:
        """Return the file's id: Slack shows it in a message whose id it does not return. Files have
        no buttons, so these are in a message before it, with the caption."""
        caption, message = media.caption, ""
        if media.buttons:
            words = Post(caption or media.name, media.buttons, is_plain=True)
            caption, message = "", await self.post(place, words)
        size = len(media.content)
        slot = await self._client.files_getUploadURLExternal(filename=media.name, length=size)
        async with self._session.post(slot["upload_url"], data=media.content) as answer:
            answer.raise_for_status()
        await self._client.files_completeUploadExternal(
            files=[{"id": slot["file_id"], "title": media.name}],
            channel_id=place.chat,
            thread_ts=place.thread or None,
            blocks=json.dumps(plain_blocks(caption)) if caption else None,
        )
        return message or str(slot["file_id"])

    async def fetch(self, file: File) -> bytes:
        info = (await self._client.files_info(file=file.id))["file"]
        url = info.get("url_private_download") or info["url_private"]
        headers = {"Authorization": f"Bearer {self._client.token}"}
        async with self._session.get(url, headers=headers) as answer:
            answer.raise_for_status()
            if answer.content_type == "text/html" != file.media_type:  # its sign-in page
                raise PermissionError(NOT_GIVEN)
            return await answer.read()

    async def show_typing(self, place: Location) -> None:
        if place.thread:
            await self._client.assistant_threads_setStatus(
                channel_id=place.chat, thread_ts=place.thread, status=_(THINKS)
            )


async def _on_anything_else() -> None:
    """Do nothing: the event is acknowledged, so that it is not redelivered."""


def _remember(known: dict[Any, Any], name: Any, value: Any) -> None:
    if len(known) >= _MOST_KNOWN:
        del known[next(iter(known))]
    known[name] = value


async def _raise(error: Exception) -> None:
    """Raise the error to the caller of Bolt."""
    raise error
