"""The hook of the picture of the context."""

from __future__ import annotations

from plugins.api import Verb, hookimpl
from plugins.context_map.picture import show


@hookimpl
def parley_verbs() -> list[Verb]:
    about = "a picture of the context; map json gives its figures"
    return [Verb("context", "map", about, show, after="detail")]
