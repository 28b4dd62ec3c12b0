"""Parley's own REST: sessions, their messages, context, commands and events."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from channels.base import Bot, KeyHolder
from channels.message import Address, Inbound, Reply
from channels.web.accounts import Accounts
from channels.web.feed import Feed, FeedEvent, Feeds
from channels.web.guard import HOLDER
from channels.web.lists import cut_page, page_name
from channels.web.markup import picture
from channels.web.operations import (
    EVENT_STREAM,
    Operation,
    Parameter,
    Problem,
    as_json,
    body,
    make_problem,
    stream,
)
from channels.web.shapes import (
    NAME,
    CommandReply,
    CommandText,
    ContextOverview,
    Freed,
    MessageAccepted,
    MessageReply,
    NewMessage,
    Nothing,
    SessionList,
    Transcript,
    command_reply,
    session_item,
    transcript_item,
)
from channels.web.streams import follow, follow_answer, raw, render

CHANNEL = "web"
MOST = 200
"""The maximum number of turns of a transcript per request."""
MOST_SESSIONS = 10_000
"""The maximum number of conversations of a list per request."""
WORDS = 2_000_000
"""The maximum number of bytes of a body besides its files."""
ASYNC = "respond-async"
"""The preference (RFC 7240) of a client that reads the answer from the session's events."""
STOPPING = "The bot is shutting down; your message is kept, and will be answered at the next start."
ON_RECORD = "The private conversation has ended, so this message, written for it, was not accepted."
KNOWN = "This message has already been taken; its answer is among the session's messages."

_ROOT = "/api/sessions"
ONE = f"{_ROOT}/{{id}}"
SESSION = Parameter("id", "path", "The session's name, yours to choose.", {"pattern": NAME})
_COMMAND = Parameter(
    "name", "path", "The command, without its slash.", {"pattern": r"^[A-Za-z_]\w*$"}
)
_PICTURE = Parameter("name", "path", "As the reply names it.", {})
_WORDS = Parameter("q", "query", "Only those that contain these words.", {})
_ALL = Parameter(
    "all",
    "query",
    "true: those of the terminal too, and the private chats of the bot's owners elsewhere.",
    {"enum": ["true"]},
)
_MANY = Parameter(
    "limit",
    "query",
    "At most so many; without it, all, the newest first.",
    {"type": "integer", "minimum": 1, "maximum": MOST_SESSIONS},
)
_BEHIND = Parameter(
    "after", "query", "Only those behind this place, as `next` of the list before names it.", {}
)
_OPEN = Parameter(
    "open", "query", "One that is wanted in any case: main, or telegram/42 elsewhere.", {}
)
CHANNEL_OF = Parameter(
    "channel", "query", "The channel where it was begun, if not here: terminal, telegram, …", {}
)
_BEFORE = Parameter(
    "before", "query", "Only turns before this one, such as 40.", {"type": "integer", "minimum": 1}
)
_LIMIT = Parameter(
    "limit",
    "query",
    "The most turns to return.",
    {"type": "integer", "minimum": 1, "maximum": MOST},
)
_AFTER = Parameter(
    "after", "query", "The last event you have seen; without it, events begin now.", {}
)
_LAST = Parameter("Last-Event-ID", "header", "The same, as browsers send it.", {})
_PREFER = Parameter(
    "Prefer",
    "header",
    f"{ASYNC}: answered once the message is on disk; the answer is among the events.",
    {"enum": [ASYNC]},
)
_AS = Parameter(
    "as", "query", "html: the answer so far as HTML, not its pieces.", {"enum": ["html"]}
)


class Sessions(Struct, frozen=True):
    """The operations on sessions. `upload` is the maximum number of bytes of one message's
    files."""

    bot: Bot
    feeds: Feeds
    upload: int
    accounts: Accounts

    @property
    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                "GET",
                _ROOT,
                "All sessions in which something was said, newest first.",
                self.list_sessions,
                gives=SessionList,
                parameters=(_WORDS, _ALL, _MANY, _BEHIND, _OPEN),
            ),
            Operation(
                "GET",
                f"{ONE}/messages",
                "The messages, in order.",
                self.read_messages,
                gives=Transcript,
                parameters=(SESSION, CHANNEL_OF, _BEFORE, _LIMIT),
                problems=(400, 404),
            ),
            Operation(
                "POST",
                f"{ONE}/messages",
                "Say something and get the answer: as a whole, or as it is written.",
                self.say,
                takes=NewMessage,
                gives=MessageReply,
                accepts=MessageAccepted,
                parameters=(SESSION, _PREFER),
                problems=(400, 403, 404, 409, 413, 429, 500, 503),
                streams=True,
            ),
            Operation(
                "GET",
                f"{ONE}/events",
                "All that happens, as it happens.",
                self.follow_events,
                parameters=(SESSION, CHANNEL_OF, _AFTER, _LAST, _AS),
                problems=(404,),
                streams=True,
            ),
            Operation(
                "GET",
                f"{ONE}/context",
                "The context, its changes, and the settings in force.",
                self.read_context,
                gives=ContextOverview,
                parameters=(SESSION, CHANNEL_OF),
                problems=(404,),
            ),
            Operation(
                "POST",
                f"{ONE}/compact",
                "Removes all but the newest messages from the context at once.",
                self.compact,
                takes=Nothing,
                gives=Freed,
                parameters=(SESSION,),
                problems=(400, 404, 409, 413),
            ),
            Operation(
                "POST",
                f"{ONE}/commands/{{name}}",
                "Run a command, as if /name and the text had been typed.",
                self.carry_out,
                takes=CommandText,
                gives=CommandReply,
                parameters=(SESSION, CHANNEL_OF, _COMMAND),
                problems=(400, 404, 413),
            ),
            Operation(
                "GET",
                "/api/pictures/{name}",
                "A picture that a reply refers to.",
                self.show_picture,
                parameters=(_PICTURE,),
                problems=(404,),
            ),
        )

    async def list_sessions(self, request: Request) -> Response:
        words = request.query_params.get("q", "").strip()
        user = _user(request)
        if request.query_params.get("all") == "true" and not user:
            found = await self.bot.own_sessions(words)
        else:
            found = await self.bot.sessions(CHANNEL, words)
        start = f"{user}/" if user else ""
        theirs = [
            replace(session, chat=session.chat.removeprefix(start))
            for session in found
            if session.chat.startswith(start)  # each user sees only their own
            and re.fullmatch(NAME, session.chat.removeprefix(start))
        ]
        shown, following = cut_page(
            theirs,
            min(_number(request, "limit", 0), MOST_SESSIONS),
            request.query_params.get("after", ""),
            is_search=bool(words),
        )
        name = request.query_params.get("open", "")
        wanted = next((one for one in theirs if name and name == page_name(one)), None)
        return as_json(
            {
                "sessions": [*map(session_item, shown)],
                "next": following,
                "open": session_item(wanted) if wanted and wanted not in shown else None,
            }
        )

    async def read_messages(self, request: Request) -> Response:
        address = address_of(request, self.bot)
        before, most = _number(request, "before", 0), _number(request, "limit", 50)
        feed = self.feeds.of(address)
        place = feed.place(feed.end)  # before the read: a repeat is better than a gap
        messages = await self.bot.transcript(address, before, min(most, MOST))
        items = await asyncio.to_thread(lambda: [transcript_item(address, one) for one in messages])
        is_private = self.bot.is_private(address)
        return as_json({"messages": items, "event": place, "private": is_private})

    async def say(self, request: Request) -> Response:
        address = address_of(request, self.bot)
        if address.channel != CHANNEL:
            raise Problem(403, f"This conversation takes place in {address.channel}; write there.")
        message = await body(request, NewMessage, self.upload * 4 // 3 + WORDS)
        if message.private and not self.bot.is_private(address):
            raise Problem(403, ON_RECORD)
        attachments = tuple(upload.attachment() for upload in message.attachments)
        if sum(len(attachment.data) for attachment in attachments) > self.upload:
            raise Problem(413, f"The files together are larger than {self.upload / 1e6:.0f} MB.")
        inbound = Inbound(message.id or uuid4().hex, address, message.text, attachments=attachments)
        feed = self.feeds.of(address)
        start = feed.end
        waiting = await submit_awaiting(self.bot, feed, inbound)
        if ASYNC in request.headers.get("prefer", ""):
            return as_json({"id": inbound.id, "is_answered": waiting.done()}, 202)
        if EVENT_STREAM not in request.headers.get("accept", ""):
            return as_json((await await_answer(waiting)).data)
        events = _raw(follow_answer(feed, inbound.id, waiting, start))
        return stream(self.accounts.while_signed_in(request, events))

    async def follow_events(self, request: Request) -> Response:
        if request.method == "HEAD":  # events have no end that it could wait for
            return Response(media_type=EVENT_STREAM)
        query = request.query_params
        place = request.headers.get("last-event-id") or query.get("after", "")
        feed = self.feeds.of(address_of(request, self.bot))
        events = follow(feed, place, is_page=query.get("as") == "html")
        return stream(self.accounts.while_signed_in(request, events))

    async def read_context(self, request: Request) -> Response:
        address = address_of(request, self.bot)
        overview = await self._data_of(address, "/context json")
        turns = await self._data_of(address, "/context turns")
        history = await self._data_of(address, "/context history")
        sent: Reply = await self.bot.command(address, "/context requests")  # a feature's
        requests = sent.data or {"requests": []}
        drawn: Reply = await self.bot.command(address, "/context map json")  # another feature's
        settings = await self._data_of(address, "/config")
        summary = await render(overview["preface"])
        shown = {"overview": {**overview, "preface_html": summary}, "map": drawn.data or {}}
        return as_json({**shown, **turns, **history, **requests, **settings})

    async def compact(self, request: Request) -> Response:
        address = address_of(request, self.bot)
        await body(request, Nothing, WORDS)
        reply = await self.bot.command(address, "/context free")
        if not reply.data or not reply.data["turns"]:
            raise Problem(409, reply.text)
        return as_json({"text": reply.text, **reply.data})

    async def carry_out(self, request: Request) -> Response:
        address, name = address_of(request, self.bot), request.path_params["name"]
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise Problem(404, "A command's name has letters only; commands/help lists them all.")
        text = (await body(request, CommandText, WORDS)).text
        reply = await self.bot.command(address, f"/{name} {text}")
        return as_json(command_reply(reply, _user(request)))

    async def show_picture(self, request: Request) -> Response:
        path = picture(request.path_params["name"], _user(request))
        if path is None:
            raise Problem(404, "This picture is no longer here; ask for it again.")
        return FileResponse(path)

    async def _data_of(self, address: Address, line: str) -> Mapping[str, Any]:
        """Return the data of a command's reply."""
        reply: Reply = await self.bot.command(address, line)
        if reply.data is None:
            raise Problem(503, reply.text)
        return reply.data


def address_of(request: Request, bot: Bot) -> Address:
    """Return the address of the conversation of a request: one that was begun here, or one of the
    person at this machine on another channel. Raises Problem."""
    name = request.path_params["id"]
    if not re.fullmatch(NAME, name):
        raise Problem(404, "A session's name has up to 100 letters, digits and . @ : + ~ -")
    channel, user = request.query_params.get("channel", CHANNEL), _user(request)
    if channel == CHANNEL:
        return Address(CHANNEL, f"{user}/{name}" if user else name, user=user)
    address = None if user else bot.own_address(channel, name)
    if address is None:
        raise Problem(404, "There is no such conversation of yours on that channel.")
    return address


def main_of(user: str) -> Address:
    """Return the first conversation of a user of the page ("": the owner)."""
    return Address(CHANNEL, f"{user}/main" if user else "main", user=user)


def _user(request: Request) -> str:
    """Return the user whose conversations are selected; "": the owner."""
    holder: KeyHolder = getattr(request.state, HOLDER)
    return holder.user


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise Problem(400, f"{name} must be a whole number of at least 1.")
    return int(text)


async def _raw(events: AsyncIterator[FeedEvent]) -> AsyncIterator[bytes]:
    async for one in events:
        yield raw([one])


# --- a message and its answer --------------------------------------------------------------


async def submit_awaiting(bot: Bot, feed: Feed, inbound: Inbound) -> asyncio.Future[FeedEvent]:
    """Put a message on disk; return the future of its answer. Raises Problem."""
    async with feed.lock_of(inbound.id):
        return await _submit_alone(bot, feed, inbound)


async def _submit_alone(bot: Bot, feed: Feed, inbound: Inbound) -> asyncio.Future[FeedEvent]:
    """Do the same, while no other submission of this message runs."""
    is_known = feed.is_expected(inbound.id)
    waiting = feed.expect(inbound.id)
    try:
        accepted = await bot.submit(inbound)
    except BaseException:
        feed.stop_expecting(inbound.id)
        raise
    if accepted is None:
        refused = (await await_answer(waiting)).data
        raise make_problem(refused["problem"], refused["text"])
    if not (accepted.is_new or is_known or waiting.done()):
        feed.stop_expecting(inbound.id)
        waiting.set_result(_earlier(feed, inbound.id))
    return waiting


def _earlier(feed: Feed, message: str) -> FeedEvent:
    """Return the earlier answer to this message."""
    if (answer := feed.answer_to(message)) is None:
        raise Problem(409, KNOWN)
    return answer


async def await_answer(waiting: asyncio.Future[FeedEvent]) -> FeedEvent:
    """Wait for the answer and return it. Others may wait for it too, so it is not cancelled when
    one caller is. Raises Problem if the bot stops first."""
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        if waiting.cancelled():
            raise Problem(503, STOPPING) from None
        raise
