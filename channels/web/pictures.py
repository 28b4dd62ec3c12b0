"""Pictures that the bot has shown, under names that tell nothing of this machine."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from pathlib import Path

PREFIX = "/api/pictures/"
MOST = 1_000

_shown: OrderedDict[str, Path] = OrderedDict()


def published(path: str) -> str:
    """The address of a picture file that a reply names. Only such a file can be fetched."""
    name = hashlib.sha256(path.encode()).hexdigest()[:32]
    _shown[name] = Path(path)
    if len(_shown) > MOST:
        _shown.popitem(last=False)
    return PREFIX + name


def picture(name: str) -> Path | None:
    """The file behind a name, if it was shown lately and is still there."""
    path = _shown.get(name)
    return path if path is not None and path.is_file() else None
