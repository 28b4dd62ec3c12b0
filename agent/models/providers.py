"""The providers that are known by name, from `providers.toml`: address, key, and differences."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
from msgspec import Struct
from msgspec.structs import replace

from agent.models.endpoint import COMPATIBLE, Protocol, Quirks
from memory.patterns import lazy

_FILE = Path(__file__).with_suffix(".toml")
_NAME = lazy(r"\{(\w+)\}")


class Provider(Struct, frozen=True):
    """A provider. `key_name` is the name of its key in the environment, "" if it must have none;
    `base_url` may contain such names too, in braces; `title` is its display name. `speaks` is the
    protocol to use if it is installed. `providers.toml` explains the rest."""

    base_url: str
    key_name: str
    is_free: bool = False
    speaks: Protocol = COMPATIBLE
    host: str = ""
    lists: bool = True
    prefix: str = ""
    hides: str = ""
    window: tuple[str, ...] = ()
    cache_key: str = ""
    call_ids: int = 0
    thoughts: str = ""
    responses: str = ""
    without: tuple[str, ...] = ()
    extra: str = ""
    empty_content: bool = False
    max_tokens: str = ""
    largest_body: int = 0
    takes_tools: bool = True
    sees: bool = True
    title: str = ""

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the names of the environment variables that its address needs."""
        return tuple(_NAME.findall(self.base_url))

    def address(self, given: Mapping[str, str]) -> str:
        """Return its address, with the environment's values filled in."""
        return _NAME.sub(lambda name: given.get(name[1], "").rstrip("/"), self.base_url)

    def is_at(self, host: str) -> bool:
        """Return whether this host is the provider's; a local server has none."""
        return not self.is_free and any(fnmatchcase(host, one) for one in self.host.split())

    def may_chat(self, name: str) -> bool:
        """Return whether a model in its list may be a chat model."""
        return not (self.hides and re.search(self.hides, name, re.IGNORECASE))

    def wants_responses(self, name: str) -> bool:
        """Return whether it serves a model by the Responses API alone."""
        return bool(self.responses) and re.fullmatch(self.responses, name) is not None

    def trim(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a request's body without parameters that this provider refuses, with those that
        each request needs, and with the maximum length under the required name."""
        extra: dict[str, Any] = orjson.loads(self.extra) if self.extra else {}
        kept = {name: value for name, value in body.items() if name not in self.without}
        kept = {**extra, **kept} if extra else kept
        if self.max_tokens and "max_tokens" in kept:
            kept[self.max_tokens] = kept.pop("max_tokens")
        return kept


NOBODY = Provider("", "")
"""The unknown provider, without any differences."""


def _read(entry: Mapping[str, Any]) -> Provider:
    return Provider(
        entry["base_url"],
        entry["key"],
        is_free=entry.get("local", False),
        speaks=entry.get("speaks", COMPATIBLE),
        host=entry.get("host") or urlsplit(entry["base_url"]).hostname or "",
        lists=entry.get("lists", True),
        prefix=entry.get("prefix", ""),
        hides=entry.get("hides", ""),
        window=tuple(entry.get("window", ())),
        cache_key=entry.get("cache_key", ""),
        call_ids=entry.get("call_ids", 0),
        thoughts=entry.get("thoughts", ""),
        responses=entry.get("responses", ""),
        without=tuple(entry.get("without", ())),
        extra=entry.get("extra", ""),
        empty_content=entry.get("empty_content", False),
        max_tokens=entry.get("max_tokens", ""),
        largest_body=entry.get("largest_body", 0),
        takes_tools=entry.get("takes_tools", True),
        sees=entry.get("sees", True),
        title=entry["title"],
    )


PROVIDERS: Mapping[str, Provider] = {
    name: _read(entry) for name, entry in tomllib.loads(_FILE.read_text("utf-8")).items()
}


@lru_cache(maxsize=256)
def find_provider(name: str, base_url: str, quirks: Quirks = ()) -> Provider:
    """Return the provider with this name in the settings, or, without a name, at this address, with
    the configured `quirks` applied."""
    known = _find(name, base_url)
    return replace(known, **_by_field(quirks)) if quirks else known


def _find(name: str, base_url: str) -> Provider:
    if name:
        return PROVIDERS.get(name, NOBODY)
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        host = ""
    return next((known for known in PROVIDERS.values() if known.is_at(host)), NOBODY)


def _by_field(quirks: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {_FIELDS.get(name, name): value for name, value in quirks}


_FIELDS = {"local": "is_free"}
"""Fields of `Provider` that have another name in `providers.toml` and in the settings."""
