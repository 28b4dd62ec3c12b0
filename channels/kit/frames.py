"""What comes over a platform's socket, frame by frame."""

from __future__ import annotations

import json
import logging
from typing import Any

log = logging.getLogger(__name__)


def load_frame(text: str, platform: str) -> dict[str, Any]:
    """The object in a frame; an empty one for what is none, which is not worth the connection."""
    try:
        frame = json.loads(text)
    except (ValueError, RecursionError):
        frame = None
    if not isinstance(frame, dict):
        log.warning("%s: a frame can't be read and is left out", platform)
        return {}
    return frame
