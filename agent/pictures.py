"""Pictures of a request: named in the messages, and sent as data URLs.

The newest `most` are sent, up to `MOST_BYTES` together. Older ones become a text that names the
file ("[image: data/….png]"), half of `most` at a time. The choice depends on the pictures of the
request alone, so its beginning changes, and breaks the provider's cache, only once in many
pictures.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct

from memory.messages import PICTURE

log = logging.getLogger(__name__)

Wire = list[dict[str, Any]]

MOST_BYTES = 15_000_000
"""The maximum size of all pictures of a request, as files; in base64 they are a third larger.
Providers accept requests of 20 MB and more."""
UNSEEN = "this model can't see it"
REFUSED = "the model could not read it"
LOST = "its file is gone"
TOO_LARGE = f"its file is larger than {MOST_BYTES // 1_000_000} MB, so it can't be sent"
UNSEEN_TOKENS = 50
"""The tokens of a picture that a model can't see: mostly the name of its file."""
_TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}


class Pictures(Struct, frozen=True):
    """The pictures of a request; `folder` is the audience's, which messages name them in."""

    folder: Path

    async def parts(self, messages: Wire, sees: bool, most: int) -> list[dict[str, Any]]:
        """Return the parts that are sent for the pictures named in these messages, in order; at
        most `most` of them are pictures."""
        names = names_in(messages)
        if not names:
            return []
        if not sees:
            return [placeholder(name, UNSEEN) for name in names]
        return await asyncio.to_thread(lambda: self._parts(names, most))

    def part(self, name: str) -> dict[str, Any]:
        """Return a picture in the form that is sent, or words if its file is missing."""
        return self._part(name, self._size(name))

    def _parts(self, names: Sequence[str], most: int) -> list[dict[str, Any]]:
        past = count_dropped(len(names), most)
        sizes = [self._size(name) for name in names[past:]]
        small = past + too_many(sizes, most)
        shown = zip(names[small:], sizes[small - past :], strict=True)
        return [*map(placeholder, names[:small]), *(self._part(*one) for one in shown)]

    def _size(self, name: str) -> int:
        """Return the bytes of a picture; 0 for one that is not sent."""
        try:
            size = (self.folder / name).stat().st_size
        except OSError:
            return 0
        return size if size <= MOST_BYTES else 0

    def _part(self, name: str, size: int) -> dict[str, Any]:
        try:
            with (self.folder / name).open("rb") as file:
                content = file.read(size)
                is_whole = not file.read(1)
        except OSError as error:
            log.warning("the picture %s can't be sent: %s", name, error)
            return placeholder(name, LOST)
        if not is_whole:
            return placeholder(name, TOO_LARGE)
        kind = _TYPES.get(PurePosixPath(name).suffix, "application/octet-stream")
        url = f"data:{kind};base64,{base64.b64encode(content).decode()}"
        return {"type": "image_url", "image_url": {"url": url}}


_BEGINNINGS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def find_picture_type(content: bytes) -> str:
    """Return the type of a picture that models accept, "" for anything else. The sender's own
    statement is ignored: a request with another type would be refused again and again."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _BEGINNINGS.items() if content.startswith(start)), "")


def count_dropped(count: int, most: int) -> int:
    """Return how many of the oldest pictures are not sent."""
    if count <= most:
        return 0
    batch = max(1, most // 2)
    return min(count, -(-(count - most) // batch) * batch)


def too_many(sizes: Sequence[int], most: int) -> int:
    """Return how many of the oldest pictures with these sizes in bytes are not sent because all of
    them would be too large: also in steps of half of `most`, unless that would leave none."""
    fitting = [past for past in range(len(sizes)) if sum(sizes[past:]) <= MOST_BYTES]
    batch = max(1, most // 2)
    return next((past for past in fitting if past % batch == 0), min(fitting, default=0))


def names_in(messages: Wire) -> list[str]:
    """Return the files of all pictures that messages name, in order."""
    return [name for message in messages for name in message.get("images", ())]


def attach_pictures(messages: Wire, parts: Sequence[dict[str, Any]], sees: bool) -> Wire:
    """Return the messages with the parts for their pictures; a client's messages may have other
    pictures as well."""
    if parts:
        return insert_pictures(messages, parts)
    return messages if sees else [dict(message) for message in blind(messages)]


def insert_pictures(messages: Wire, parts: Sequence[dict[str, Any]]) -> Wire:
    """Return the messages with these parts in place of the pictures that they name, in order."""
    left = iter(parts)
    return [
        _with_parts(message, [next(left) for _ in message["images"]])
        if "images" in message
        else message
        for message in messages
    ]


def _with_parts(message: Mapping[str, Any], parts: list[dict[str, Any]]) -> dict[str, Any]:
    words = [] if message["content"] == PICTURE else [_text(message["content"])]
    whole = {"role": message["role"], "content": [*words, *parts]}
    return whole if has_pictures([whole]) else dict(blind([whole])[0])


def picture_urls(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the URLs of the pictures in these wire messages, oldest first."""
    lists = [m["content"] for m in messages if isinstance(m.get("content"), list)]
    parts = (part for parts in lists for part in parts if part["type"] == "image_url")
    return [part["image_url"]["url"] for part in parts]


def without_pictures(
    messages: Sequence[Mapping[str, Any]], urls: Collection[str]
) -> list[Mapping[str, Any]]:
    """Return the messages with words in place of the pictures at these URLs."""

    def in_words(message: Mapping[str, Any]) -> Mapping[str, Any]:
        content = message.get("content")
        if not isinstance(content, list) or not {*picture_urls([message])}.intersection(urls):
            return message
        parts = [
            refused_part()
            if part["type"] == "image_url" and part["image_url"]["url"] in urls
            else part
            for part in content
        ]
        made = {**message, "content": parts}
        return made if has_pictures([made]) else blind([made])[0]

    return [in_words(message) for message in messages]


def refused_part() -> dict[str, Any]:
    """Return the part in place of a picture that the model's endpoint has refused."""
    return _text(f"[image: {REFUSED}]")


def has_pictures(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether any of these wire messages has a picture."""
    lists = [m["content"] for m in messages if isinstance(m.get("content"), list)]
    return any(part["type"] == "image_url" for parts in lists for part in parts)


def blind(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the messages for a model without vision: with words in place of pictures."""
    return [
        {**message, "content": "\n".join(map(_words, message["content"]))}
        if isinstance(message.get("content"), list)
        else message
        for message in messages
    ]


def _words(part: Mapping[str, Any]) -> str:
    return str(part["text"]) if part["type"] == "text" else f"[image: {UNSEEN}]"


def placeholder(name: str, why: str = "") -> dict[str, Any]:
    """Return the part in place of a picture that is not sent: its file, and the reason."""
    return _text(f"[image: {name}{why and f'; {why}'}]")


def _text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}
