"""The events of Matrix, converted to the kit's values, and Markdown as Matrix shows it: HTML,
beside the original text. Any server may have sent an event, so nothing is taken to have the type
that the specification gives it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from nio import ErrorResponse, MatrixRoom

from channels.kit.markdown import render_html
from channels.kit.platform import Author, Event, File, IncomingMessage, Location, Reaction

Json = Mapping[str, Any]

_NOTHING: Json = {}
_FILES = {
    "m.image": ("picture", "image/jpeg"),
    "m.file": ("document", "application/octet-stream"),
    "m.audio": ("audio", "audio/ogg"),
}
"""Kinds of messages that are files, with a default name and type."""
_NOT_TAKEN = {"m.video": "videos", "m.location": "places"}
_FALLBACK = re.compile(r"\A(?:>[^\n]*+\n)++\n?")
"""The text that older apps put before a reply: the message that it answers. Matched at the
beginning alone: a search would take time quadratic in the text's length."""
_COMMAND = re.compile(r"[/!](\w+)(?!\S)")


class BotUser(Struct, frozen=True):
    """The bot: its id, the name that others see, and the commands it answers to."""

    id: str
    name: str
    commands: frozenset[str]


def part_of(event: Json, *names: str) -> Json:
    """Return an object within an event; an empty one if there is none."""
    for name in names:
        found = event.get(name)
        event = found if isinstance(found, Mapping) else _NOTHING
    return event


def text_of(event: Json, name: str) -> str:
    """Return a text within an event; "" if there is none."""
    found = event.get(name)
    return found if isinstance(found, str) else ""


def thread_of(event: Json) -> str:
    """Return the first message of an event's thread; "" for none."""
    relation = part_of(event, "content", "m.relates_to")
    is_thread = relation.get("rel_type") == "m.thread"
    return text_of(relation, "event_id") if is_thread else ""


def target_of(event: Json) -> str:
    """Return the message that an event edits; "" for none."""
    relation = part_of(event, "content", "m.relates_to")
    return text_of(relation, "event_id") if relation.get("rel_type") == "m.replace" else ""


def answered_by(event: Json) -> str:
    """Return the message that an event replies to; "" for none. In a thread, each message formally
    replies to the one before, for apps without threads: that is not a reply."""
    relation = part_of(event, "content", "m.relates_to")
    if relation.get("is_falling_back") is True:
        return ""
    return text_of(part_of(relation, "m.in_reply_to"), "event_id")


def read(
    event: Json, sender: Author, place: Location, me: BotUser, answered: Json | None = None
) -> Event | None:
    """Return the kit's event; None for an irrelevant one. An edit is returned as the resulting
    message. `answered` is the message that it replies to."""
    content = part_of(event, "content")
    if event.get("type") == "m.reaction":
        emoji = text_of(part_of(content, "m.relates_to"), "key")
        return Reaction(place, sender, emoji) if emoji else None
    if event.get("type") == "m.sticker":
        return IncomingMessage(
            place,
            sender,
            "",
            left_out=("stickers",),
            is_for_bot=not place.is_group,
        )
    kind = text_of(content, "msgtype")
    if kind == "m.notice":  # from another bot: answers between bots would be endless
        return None
    files = _files(content, kind)
    left_out = (_NOT_TAKEN[kind],) if kind in _NOT_TAKEN else ()
    text = text_of(content, "body")
    if files or left_out:
        text = _caption(content)
    elif answered_by(event):
        text = _FALLBACK.sub("", text, 1)
    if kind not in (*_FILES, *_NOT_TAKEN, "m.text", "m.emote"):
        return None
    words, is_named = _address(text, content, me)
    quoted = None
    is_reply = answered is not None and answered.get("sender") == me.id
    if answered is not None and not is_reply and place.is_group:
        quotation = text_of(part_of(answered, "content"), "body")
        quoted = (text_of(answered, "sender"), quotation) if quotation else None
    return IncomingMessage(
        place,
        sender,
        words,
        files,
        is_for_bot=not place.is_group or is_named or is_reply or _is_command(words, me),
        quoted=quoted,
        left_out=left_out,
        at=_time_of(event),
    )


def _address(text: str, content: Json, me: BotUser) -> tuple[str, bool]:
    """Return the text without the bot's name before it, and whether the bot is named. `!help` is
    `/help`: apps process text with a slash themselves."""
    mentioned = part_of(content, "m.mentions").get("user_ids")
    is_named = isinstance(mentioned, list) and me.id in mentioned
    local = me.id[1:].partition(":")[0]
    names = "|".join(
        re.escape(name) for name in (me.id, f"@{me.name}", me.name, f"@{local}") if name
    )
    if found := re.match(rf"\s*(?:{names})(?![\w.-])[:,]?\s*", text, re.IGNORECASE):
        is_named, text = True, text[found.end() :]
    elif "m.mentions" not in content:  # an app that does not list mentions
        is_named = me.id in text or me.id in text_of(content, "formatted_body")
    if text.startswith("!") and _is_command(text, me):
        text = f"/{text[1:]}"
    return text, is_named


def _is_command(text: str, me: BotUser) -> bool:
    found = _COMMAND.match(text)
    return bool(found and found[1].lower() in me.commands)


def _caption(content: Json) -> str:
    """Return a file's caption: the body, if the file has a separate name."""
    name, body = text_of(content, "filename"), text_of(content, "body")
    return body if name and body != name else ""


def _files(content: Json, kind: str) -> tuple[File, ...]:
    name, media_type = _FILES.get(kind, ("", ""))
    info, address = part_of(content, "info"), text_of(content, "url")
    size = info.get("size")
    if not name or not address.startswith("mxc://"):
        return ()
    return (
        File(
            address,
            text_of(content, "filename") or text_of(content, "body") or name,
            text_of(info, "mimetype") or media_type,
            size if isinstance(size, int) and size > 0 else 0,
        ),
    )


def _time_of(event: Json) -> datetime:
    """Return the time of sending by the sender's server: never later than now."""
    now = datetime.now(UTC)
    sent = event.get("origin_server_ts")
    if not isinstance(sent, int) or not 0 < sent < now.timestamp() * 1000:
        return now
    return datetime.fromtimestamp(sent / 1000, UTC)


class MatrixError(Exception):
    """Raised if the server refuses a request: its code ("M_FORBIDDEN"), the HTTP status, and the
    seconds to wait."""

    def __init__(self, answer: ErrorResponse) -> None:
        super().__init__(f"{answer.status_code or 'no code'}: {answer.message}")
        self.code = str(answer.status_code or "")
        self.status = int(getattr(answer.transport_response, "status", 0))
        self.seconds = (answer.retry_after_ms or 0) / 1000


class RoomRefused(Exception):
    """Raised if a message can't be sent to a room, because other people would read it, or it is
    encrypted."""


def checked(answer: Any) -> Any:
    """Return the response of a request. Raises MatrixError."""
    if isinstance(answer, ErrorResponse):
        raise MatrixError(answer)
    return answer


def is_private(room: MatrixRoom) -> bool:
    """Return whether only one person and the bot can read a room, and others can't join it without
    an invitation."""
    is_open = room.join_rule != "invite" or room.history_visibility == "world_readable"
    return bool(room.member_count == 2 and not is_open)


def known_members(room: MatrixRoom) -> set[str]:
    """Return a room's known members."""
    heroes = room.summary.heroes if room.summary else None
    return {*room.users, *(heroes or ())}


LONGEST = 16_000
"""Bytes of a message's text. The specification limits a whole event to 65,536 ("Size limits"), in
which the text occurs twice, and once more in an edit."""

_LARGEST = 56_000  # bytes of an event's content; its signatures and the like are the rest
_LONGEST_FALLBACK = 1_000  # characters of an edit for apps without edits


def make_content(text: str, *, is_plain: bool = False) -> dict[str, object]:
    """Return the content of a message. It mentions no person, even if its text contains names."""
    content: dict[str, object] = {"msgtype": "m.text", "body": text, "m.mentions": {}}
    html = "" if is_plain else render_html(text)
    if html and _size(content) + _size(html) <= _LARGEST:
        content |= {"format": "org.matrix.custom.html", "formatted_body": html}
    return content


def make_edit(message: str, content: dict[str, object]) -> dict[str, object]:
    """Return the content of an edit of a message."""
    text = str(content["body"])
    return {
        "msgtype": content["msgtype"],
        "body": f"* {text[:_LONGEST_FALLBACK]}",
        "m.mentions": {},
        "m.new_content": content,
        "m.relates_to": {"rel_type": "m.replace", "event_id": message},
    }


def _size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
