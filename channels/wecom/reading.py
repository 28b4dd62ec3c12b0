"""The callbacks of WeCom, and Markdown as it shows it: pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from channels.kit.platform import Author, ButtonPress, File, IncomingMessage, Location

Json = dict[str, Any]

_CALLING = re.compile(r"^\s*@\S+\s*")
_TAG = re.compile(r"<(?=@|/?think\b)", re.IGNORECASE)
_TICKS = re.compile("`{3,}")


def converted(markdown: str) -> str:
    """Return Markdown for WeCom, without its own tags: an answer must not mention people, nor
    imitate the model's thoughts."""
    return _TAG.sub("<\u200b", markdown)


def as_it_stands(text: str) -> str:
    """Return a text as code, without parsed markup."""
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{fence}\n{converted(text)}\n{fence}"


def size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def event_in(frame: Json) -> str:
    """Return the kind of a frame's event; "" for none."""
    body = frame.get("body")
    event = body.get("event") if isinstance(body, dict) else None
    return str(event.get("eventtype", "")) if isinstance(event, dict) else ""


def place_of(body: Json) -> Location:
    """Return the place of a message. A private chat is named by its person. In a group the bot
    receives only messages that mention it."""
    is_group = body.get("chattype") == "group"
    user = str(body["from"]["userid"])
    if not user:
        raise ValueError("nobody is named who wrote it")
    chat = str(body["chatid"]) if is_group else user
    return Location(chat, message=str(body.get("msgid", "")), is_group=is_group)


def read_message(body: Json) -> IncomingMessage:
    place, parts = place_of(body), list(_parts(body))
    text = "\n".join(filter(None, (_text(part) for part in parts)))
    if place.is_group:
        text = _CALLING.sub("", text, count=1)
    quote = body.get("quote") or {}
    words = "\n".join(filter(None, (_text(part) for part in _parts(quote)))) if quote else ""
    left_out = ("videos",) if body["msgtype"] == "video" else ("messages of this kind",)
    is_known = body["msgtype"] in ("text", "mixed", "image", "file", "voice")
    return IncomingMessage(
        place,
        Author(str(body["from"]["userid"])),
        text.strip(),
        files=tuple(file for part in parts if (file := _file(part))),
        quoted=("Somebody", words) if words else None,
        left_out=() if is_known else left_out,
    )


def read_press(body: Json, press: str) -> ButtonPress:
    """Return a pressed button of a card: its command is its key."""
    event = body["event"]["template_card_event"]
    author = Author(str(body["from"]["userid"]))
    return ButtonPress(place_of(body), author, press, str(event.get("event_key", "")))


def decrypt(content: bytes, key: str) -> bytes:
    """Return a file's bytes: AES-256-CBC with the key from the message, padded to blocks of 32
    bytes. Raises ValueError."""
    secret = base64.b64decode(key + "=" * (-len(key) % 4))
    reader = Cipher(algorithms.AES256(secret), modes.CBC(secret[:16])).decryptor()
    found = reader.update(content) + reader.finalize()
    fill = found[-1] if found else 0
    if not 1 <= fill <= 32 or found[-fill:] != bytes([fill]) * fill:
        raise ValueError("the file can't be decrypted")
    return found[:-fill]


def _parts(body: Json) -> Iterator[Json]:
    if body.get("msgtype") == "mixed":
        yield from body["mixed"]["msg_item"]
    else:
        yield body


def _text(part: Json) -> str:
    """Return the text of a part; a voice message contains its transcription."""
    kind = part.get("msgtype")
    return str(part[kind].get("content", "")) if kind in ("text", "voice") else ""


def _file(part: Json) -> File | None:
    kind = part.get("msgtype")
    if kind not in ("image", "file"):
        return None
    content = part[kind]
    name, media_type = ("picture.jpg", "image/jpeg") if kind == "image" else ("document", "")
    id = f"{content['url']} {content.get('aeskey', '')}"
    return File(id, name, media_type or "application/octet-stream")
