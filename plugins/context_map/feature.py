"""The hook of the picture of the context."""

from __future__ import annotations

from plugins.api import Verb, hookimpl
from plugins.context_map.picture import show


@hookimpl
def parley_verbs() -> list[Verb]:
    return [Verb("context", "map", "a picture of the context", show, after="detail")]
