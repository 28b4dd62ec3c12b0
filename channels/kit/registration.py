"""The registration of a channel: what a package of a channel, or an entry point, says of itself
without importing the platform's SDK."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from pydantic import BaseModel

from channels.base import Channel
from channels.settings import StrictSettings

ENTRY_POINTS = "parley.channels"
"""The group of entry points by which installed packages bring channels."""


class ChannelType(Struct, frozen=True):
    """A kind of channel. It runs where `channels.NAME` stands in the configuration, as an object
    that fits `settings`.

    `secrets` are the names of those that must stand in .env, `may_have` of those that may;
    `packages` what must be installed, as the registry names it, by `requirements`: a file
    in the project, or the words for pip. It `is_called` where it hears nothing but by the web
    channel's server. `make(settings, secrets)` makes the channel; it may raise ChannelError with a
    sentence.
    """

    name: str
    make: Callable[[Any, Mapping[str, str]], Channel]
    settings: type[BaseModel] = StrictSettings
    secrets: tuple[str, ...] = ()
    may_have: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    is_called: bool = False
    requirements: str = ""
