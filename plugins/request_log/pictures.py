"""The pictures of a request as they were sent: noted in its row, and read from there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any

import orjson

from agent.pictures import (
    REFUSED,
    Pictures,
    has_pictures,
    picture_urls,
    placeholder,
    refused_part,
)

_SENT = None  # a picture that was sent as one


def describe_pictures(
    parts: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]
) -> str:
    """Describe how pictures were sent, for `SentRequest.pictures`: as JSON, how many one after the
    other were sent, or for which reason not; and whether words replaced all of them in the end.
    `parts` is what was chosen for each, `messages` what went out."""
    left = {*picture_urls(messages)}
    has_refused = any(REFUSED in str(one.get("content")) for one in messages)
    whys = [_why(part, left if left or has_refused else None) for part in parts]
    runs = [[len([*run]), why] for why, run in groupby(whys)]
    is_blind = _SENT in whys and not has_pictures(messages)
    return orjson.dumps([is_blind, runs]).decode()


def _why(part: Mapping[str, Any], left: Collection[str] | None) -> str | None:
    if part["type"] == "image_url":
        return _SENT if left is None or part["image_url"]["url"] in left else REFUSED
    return str(part["text"]).removesuffix("]").partition("; ")[2]


def read_pictures(described: str, count: int) -> tuple[list[str | None], bool]:
    """Return why each of so many pictures was not sent (None: it was), and whether none was in the
    end. Pictures that are deleted since are among the oldest."""
    is_blind, runs = orjson.loads(described or "[false, []]")
    whys = [why for number, why in runs for _ in range(number)]
    missing = [_SENT] * max(0, count - len(whys))
    return [*missing, *whys[len(whys) - min(count, len(whys)) :]], is_blind


def make_part(pictures: Pictures, name: str, why: str | None) -> dict[str, Any]:
    if why == REFUSED:
        return refused_part()
    return pictures.part(name) if why is _SENT else placeholder(name, why)


def make_label(name: str, why: str | None) -> dict[str, Any]:
    if why == REFUSED:
        return refused_part()
    if why is not _SENT:
        return placeholder(name, why)
    return {"type": "image_url", "image_url": {"url": name}}
