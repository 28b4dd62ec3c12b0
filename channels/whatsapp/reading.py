"""The webhooks of WhatsApp, converted from their JSON to the kit's values: pure.

The fields are those of "messages webhook reference" and its pages by type. One call may contain
several changes, and each several messages.
"""

from __future__ import annotations

import logging
import mimetypes
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from msgspec import Struct

from channels.kit.frames import ODD_SHAPE, list_objects
from channels.kit.platform import (
    Author,
    ButtonPress,
    Event,
    File,
    IncomingMessage,
    Location,
    Reaction,
)

T = TypeVar("T")
log = logging.getLogger(__name__)

Json = dict[str, Any]

OPENING = {
    *("text", "image", "audio", "document", "video", "sticker", "location", "contacts"),
    *("interactive", "button", "order"),
}
"""Messages with which a person opens the window in which the bot may write freely."""
_NOT_TAKEN = {
    "video": "videos",
    "sticker": "stickers",
    "location": "places",
    "contacts": "contacts",
    "order": "messages of this kind",
    "unsupported": "messages of this kind",
}
_UNREADABLE = (*ODD_SHAPE, OSError)  # of a time that the system does not support
_NAMES = {"image": "picture", "audio": "voice", "document": "document"}


class WhatsAppArrival(Struct, frozen=True):
    """A person's message: `event` is None if it is irrelevant to the bot."""

    chat: str
    at: datetime
    opens: bool
    event: Event | None


class FailedDelivery(Struct, frozen=True):
    """A message of the bot whose delivery failed."""

    message: str
    code: int
    reason: str


def read(body: Json, phone_id: str, number: str) -> Iterator[WhatsAppArrival | FailedDelivery]:
    """Yield the content of a call for this phone number. `number` is its displayed form, in
    digits."""
    for entry in list_objects(body, "entry"):
        for change in list_objects(entry, "changes"):
            value = change.get("value")
            if not isinstance(value, dict):
                continue
            metadata = value.get("metadata")
            if not isinstance(metadata, dict) or metadata.get("phone_number_id") != phone_id:
                continue  # an app may have several numbers
            yield from _each("messages", value, partial(_arrived, value, number))
            yield from _each("statuses", value, _failure)


def _each(name: str, value: Json, read_one: Callable[[Json], T | None]) -> Iterator[T]:
    """Yield the converted objects of a list; of invalid ones a single traceback is logged."""
    odd = 0
    for one in list_objects(value, name):
        try:
            if (found := read_one(one)) is not None:
                yield found
        except _UNREADABLE:
            odd += 1
            if odd == 1:
                log.exception("something in a call of WhatsApp can't be read and is left out")
    if odd > 1:
        log.error("%d more of these %s of WhatsApp can't be read either", odd - 1, name)


def _failure(status: Json) -> FailedDelivery | None:
    if status.get("status") != "failed":
        return None
    error: Json = next(iter(status.get("errors") or ()), {})
    said = (error.get("error_data") or {}).get("details") or error.get("title", "")
    return FailedDelivery(str(status["id"]), int(error.get("code") or 0), str(said))


def _arrived(value: Json, number: str, message: Json) -> WhatsAppArrival:
    sender = _sender(message, value)
    at = datetime.fromtimestamp(int(message["timestamp"]), UTC)
    chat = message.get("group_id", sender.id)
    event = _event(message, sender, number, at)
    return WhatsAppArrival(chat, at, message["type"] in OPENING, event)


def _sender(message: Json, value: Json) -> Author:
    """Return the author. Their id within this business is stable even with a hidden number; a
    number is not, and may be reassigned to another person."""
    phone, scoped = message.get("from", ""), message.get("from_user_id", "")
    contacts = list_objects(value, "contacts")
    same = (one for one in contacts if scoped and one.get("user_id") == scoped)
    own = (one for one in contacts if phone and one.get("wa_id") == phone)
    hidden = (one for one in contacts if not phone and len(contacts) == 1)
    contact: Json = next(chain(same, own, hidden), {})  # not another person's
    id = scoped or contact.get("user_id", "") or phone or contact.get("wa_id", "")
    if not id:
        raise ValueError("nobody is named who wrote it")
    return Author(id, contact.get("profile", {}).get("name", ""))


def _event(message: Json, sender: Author, number: str, at: datetime) -> Event | None:
    context = message.get("context", {})
    group = message.get("group_id", "")
    place = Location(group or sender.id, message=message["id"], is_group=bool(group))
    below = Location(place.chat, message=context.get("id", ""), is_group=place.is_group)
    kind = message["type"]
    match kind:
        case "interactive":
            reply = message["interactive"].get(message["interactive"]["type"], {})
            return ButtonPress(
                below, sender, message["id"], reply.get("id", ""), reply.get("title", "")
            )
        case "reaction":
            found = message["reaction"]
            on = Location(place.chat, message=found["message_id"], is_group=place.is_group)
            return Reaction(on, sender, found["emoji"]) if found.get("emoji") else None
        case "edit":
            edited = {**message["edit"]["message"], "id": message["edit"]["original_message_id"]}
            return (
                _event({**message, **edited}, sender, number, at)
                if kind != edited["type"]
                else None
            )
        case "revoke" | "system":
            return None
    text, is_for_bot = _text(message, kind), not group
    if group:
        said = re.sub(rf"^\s*@{number}\b[\s,:]*", "", text)
        is_for_bot = said != text or text.startswith("/") or context.get("from") == number
        text = said
    files = _files(message, kind)
    is_forwarded = context.get("forwarded") or context.get("frequently_forwarded")
    if is_forwarded and (text or files):
        text = f"Forwarded:\n{text}".strip()
    return IncomingMessage(
        place,
        sender,
        text,
        files=files,
        is_for_bot=is_for_bot,
        left_out=(_NOT_TAKEN[kind],) if kind in _NOT_TAKEN else (),
        at=at,
    )


def _text(message: Json, kind: str) -> str:
    content = message.get(kind, {})
    if kind == "text":
        return str(content.get("body", ""))
    if kind == "button":
        return str(content.get("text", ""))
    return str(content.get("caption", "")) if isinstance(content, dict) else ""


def _files(message: Json, kind: str) -> tuple[File, ...]:
    if kind not in _NAMES:
        return ()
    content = message[kind]
    media_type = str(content.get("mime_type", "application/octet-stream")).partition(";")[0]
    ending = ".ogg" if media_type == "audio/ogg" else mimetypes.guess_extension(media_type) or ""
    name = content.get("filename") or f"{_NAMES[kind]}{ending}"
    return (File(content["id"], name, media_type),)
