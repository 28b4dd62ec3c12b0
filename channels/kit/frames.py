"""The frames that come over a platform's socket."""

from __future__ import annotations

import json
import logging
from typing import Any

log = logging.getLogger(__name__)


def load_frame(text: str, platform: str) -> dict[str, Any]:
    """Return the object in a frame; an empty one for what is none, which is not worth the
    connection."""
    try:
        frame = json.loads(text)
    except (ValueError, RecursionError):
        frame = None
    if not isinstance(frame, dict):
        log.warning("%s: a frame can't be read and is left out", platform)
        return {}
    return frame


ODD_SHAPE = (
    *(AttributeError, KeyError, IndexError, TypeError, ValueError),
    *(OverflowError, RecursionError),
)
"""Errors of reading something that has not the shape that its platform describes."""


MOST_OBJECTS = 1_000
"""Objects of a list that are looked at: no platform puts more into one call."""


def list_objects(holder: Any, name: str) -> list[dict[str, Any]]:
    """Return the objects in a list that an object should have by this name; all else is left out,
    and what stands behind the first MOST_OBJECTS."""
    found = holder.get(name) if isinstance(holder, dict) else None
    if not isinstance(found, list):
        return []
    if len(found) > MOST_OBJECTS:
        log.warning("a list of %d %s is cut to %d", len(found), name, MOST_OBJECTS)
    return [one for one in found[:MOST_OBJECTS] if isinstance(one, dict)]


def check_parts(body: object, most: int) -> None:
    """Look at JSON before an SDK does, which makes a value of each object in it. Raises ValueError
    where there are more objects and lists in it than so many."""
    waiting, count = [body], 0
    while waiting:
        one = waiting.pop()
        inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        waiting += [value for value in inner if isinstance(value, dict | list)]
        count += 1
        if count + len(waiting) > most:
            raise ValueError(f"it has more than {most} parts")
