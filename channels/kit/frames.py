"""The parsing of frames from a platform's socket."""

from __future__ import annotations

import json
import logging
from typing import Any

log = logging.getLogger(__name__)


def load_frame(text: str, platform: str) -> dict[str, Any]:
    """Return the object in a frame; an empty one for an invalid frame, which must not end the
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
"""Errors of reading a value that does not have the platform's documented shape."""


MOST_OBJECTS = 1_000
"""The maximum number of objects read from a list: no platform puts more into one call."""


def list_objects(holder: Any, name: str) -> list[dict[str, Any]]:
    """Return the objects in an object's list of this name; other values are omitted, as are objects
    beyond the first MOST_OBJECTS."""
    found = holder.get(name) if isinstance(holder, dict) else None
    if not isinstance(found, list):
        return []
    if len(found) > MOST_OBJECTS:
        log.warning("a list of %d %s is cut to %d", len(found), name, MOST_OBJECTS)
    return [one for one in found[:MOST_OBJECTS] if isinstance(one, dict)]


def check_parts(body: object, most: int) -> None:
    """Check the size of JSON before an SDK parses it into values. Raises ValueError if it has more
    objects and lists than `most`."""
    waiting, count = [body], 0
    while waiting:
        one = waiting.pop()
        inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        waiting += [value for value in inner if isinstance(value, dict | list)]
        count += 1
        if count + len(waiting) > most:
            raise ValueError(f"it has more than {most} parts")
