"""The messages of Slack, as events of ours, and the proof that a call came from Slack ("Verifying
requests from Slack" in its documentation). Its people are named by ids; `names` has their names.
"""

from __future__ import annotations

import hmac
import logging
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from html import unescape
from typing import Any

from msgspec import Struct, field
from slack_sdk.signature import SignatureVerifier

from channels.base import WebhookCall
from channels.kit.platform import Author, ButtonPress, File, IncomingMessage, Location, Reaction

Json = Mapping[str, Any]

MESSAGE_ID = re.compile(r"\d+\.\d+(?:\.\w+)*")
"""The id of a message; with more parts, that of a slash command's trigger, which is not a
message."""
_SUBTYPES = (None, "file_share", "thread_broadcast", "me_message")
"""Subtypes of messages that people write; the others report joins, and come from bots."""
_MARK = re.compile(r"<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>")
_EMOJI = {
    **dict.fromkeys(("+1", "thumbsup"), "👍"),
    **dict.fromkeys(("-1", "thumbsdown"), "👎"),
    **dict.fromkeys(("hand", "raised_hand"), "✋"),
    "white_check_mark": "✅",
    "ok_hand": "👌",
    "x": "❌",
    "octagonal_sign": "🛑",
    "black_square_for_stop": "⏹",
    "no_entry": "⛔",
}


class EventContext(Struct, frozen=True):
    """The known facts around an event: the bot's id, each person's name and language, and the
    thread's first message, if relevant. `opens`: an answer to a message outside of threads opens
    one."""

    bot: str
    senders: Mapping[str, Author] = field(default_factory=dict)
    parent: Json | None = None
    opens: bool = False

    def sender(self, user: str) -> Author:
        return self.senders.get(user, Author(user))


def message_in(event: Json) -> Json | None:
    """Return the message that a person wrote or changed; None for any other event."""
    if event.get("subtype") == "message_changed":
        message, before = event["message"], event.get("previous_message", {})
        if "edited" not in message or message.get("text") == before.get("text"):
            return None  # a preview was added, or its language detected
        event = {**message, "channel": event["channel"]}
    user = event.get("user", "USLACKBOT")
    if event.get("subtype") not in _SUBTYPES or event.get("bot_id") or user == "USLACKBOT":
        return None
    return event


def is_group(channel: str) -> bool:
    """Return whether others read the chat: ids of private chats begin with a D."""
    return not channel.startswith("D")


def thread_of(message: Json) -> str:
    """Return the thread of a message; "" if it is in none, or begins one."""
    thread = str(message.get("thread_ts", ""))
    return "" if thread == message["ts"] else thread


def people_in(message: Json) -> set[str]:
    """Return the people who wrote a message, or are mentioned in it."""
    found = _MARK.findall(str(message.get("text", "")))
    return {message.get("user", ""), *(name for sign, name, _ in found if sign == "@")} - {""}


def mentions(message: Json, bot: str) -> bool:
    return bot in people_in({**message, "user": ""})


def person(user: str, info: Json) -> Author:
    """Return the person in `info`, the result of `users.info`, which may be empty."""
    profile = info.get("profile", {})
    name = profile.get("display_name") or profile.get("real_name") or info.get("name", "")
    return Author(user, name, info.get("locale", ""))


def is_for_bot(message: Json, known: EventContext) -> bool:
    """Return whether the bot is addressed: in private, by a mention, or in a thread that it began,
    or whose first message mentions it."""
    is_private = not is_group(message["channel"])
    is_mentioned = message.get("type") == "app_mention" or mentions(message, known.bot)
    return is_private or is_mentioned or _is_own_thread(known)


def _is_own_thread(known: EventContext) -> bool:
    return known.parent is not None and known.bot in people_in(known.parent)


def _is_thread_known(parent: Json, message: Json, known: EventContext) -> bool:
    """Return whether the beginning of a thread is in its conversation: a person sent it to the bot,
    and was answered in that thread."""
    is_to_bot = mentions(parent, known.bot) or not is_group(message["channel"])
    is_of_person = parent.get("subtype") in _SUBTYPES and not parent.get("bot_id")
    return known.opens and is_to_bot and is_of_person and parent.get("user") != known.bot


def read_message(message: Json, known: EventContext) -> IncomingMessage:
    thread = thread_of(message) or (message["ts"] if known.opens else "")
    parent = (
        None if known.parent and _is_thread_known(known.parent, message, known) else known.parent
    )
    files = [file for file in message.get("files", ()) if file.get("mode") in _FETCHED]
    left_out = {"links to shared files"} if len(files) < len(message.get("files", ())) else set()
    return IncomingMessage(
        Location(message["channel"], thread, message["ts"], is_group(message["channel"])),
        known.sender(message["user"]),
        readable(message.get("text", ""), known),
        tuple(map(_file, files)),
        is_for_bot=is_for_bot(message, known),
        quoted=_quotation(message, known) or (_quote(parent, known) if parent else None),
        left_out=tuple(left_out),
        at=datetime.fromtimestamp(float(message["ts"]), UTC),
    )


_FETCHED = (None, "hosted", "snippet", "email", "quip", "canvas")
"""Modes of files that Slack stores; others are elsewhere, or deleted."""


def _file(file: Json) -> File:
    media_type = file.get("mimetype") or "application/octet-stream"
    return File(file["id"], file.get("name") or file["id"], media_type, file.get("size") or 0)


def _quotation(message: Json, known: EventContext) -> tuple[str, str] | None:
    """Return a message that was shared with this one."""
    for shared in message.get("attachments", ()):
        if shared.get("is_share") and shared.get("text"):
            return shared.get("author_name") or "Somebody", readable(shared["text"], known)
    return None


def _quote(parent: Json, known: EventContext) -> tuple[str, str] | None:
    """Return the beginning of a thread in which the bot is addressed later."""
    words = readable(parent.get("text", ""), known)
    if parent.get("subtype") == "assistant_app_thread" or is_tombstone(parent):  # without an author
        return None
    if parent.get("user") == known.bot:
        return ("You", words) if words else None
    name = known.sender(parent.get("user", "")).name
    return (name or parent.get("username") or "Somebody", words) if words else None


def is_tombstone(message: Json) -> bool:
    """Return whether this replaces a deleted message."""
    return message.get("subtype") == "tombstone"


def press(body: Json, sender: Author) -> ButtonPress:
    action, message = body["actions"][0], body["message"]
    channel = body["channel"]["id"]
    place = Location(channel, thread_of(message), message["ts"], is_group(channel))
    label = action.get("text", {}).get("text", "")
    return ButtonPress(place, sender, action["action_ts"], action.get("value", ""), unescape(label))


def react(event: Json, message: Json, sender: Author) -> Reaction | None:
    """Return the reaction; None if the emoji has no meaning."""
    emoji = _EMOJI.get(event["reaction"].partition("::")[0])  # after it: the colour of a skin
    channel = event["item"]["channel"]
    place = Location(channel, thread_of(message), message["ts"], is_group(channel))
    return Reaction(place, sender, emoji) if emoji else None


def command(body: Json, text: str, sender: Author) -> IncomingMessage:
    """Return a slash command, which Slack accepts only outside of threads."""
    channel = body["channel_id"]
    return IncomingMessage(
        Location(channel, "", body["trigger_id"], is_group(channel)), sender, text
    )


def readable(text: str, known: EventContext) -> str:
    """Return text as a person reads it: mentions by name, links in Markdown."""

    def show(found: re.Match[str]) -> str:
        sign, target, label = found[1], found[2], found[3] or ""
        if sign == "@":
            if target == known.bot:
                return ""
            return f"@{known.sender(target).name or label or target}"
        if sign == "#":
            return f"#{label or target}"
        if sign == "!":
            return label or f"@{target.partition('^')[0]}"
        plain = target.removeprefix("mailto:")
        is_bare = (
            not label or plain.partition("://")[2].rstrip("/") == label or label in (plain, target)
        )
        return plain if is_bare else f"[{label}]({target})"

    return unescape(_MARK.sub(show, text)).strip()


log = logging.getLogger(__name__)

_SKEW = 300.0  # seconds that a signed call may be old, or from the future


def is_signed(secret: str, call: WebhookCall) -> bool:
    """Return whether Slack made a call, a short while ago."""
    at = call.headers.get("x-slack-request-timestamp", "")
    signature = call.headers.get("x-slack-signature", "")
    if not (at.isascii() and at.isdecimal() and len(at) < 20):
        return False
    try:
        expected = SignatureVerifier(secret).generate_signature(timestamp=at, body=call.body)
    except UnicodeDecodeError:
        return False
    if not hmac.compare_digest(str(expected).encode(), signature.encode()):
        return False
    if late := abs(time.time() - int(at)) > _SKEW:
        log.warning(
            "a call of Slack's is minutes old or early: is the clock of this machine right?"
        )
    return not late
