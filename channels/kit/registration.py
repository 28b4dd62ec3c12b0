"""The registration of a channel: its description in a package or an entry point, without an import
of the platform's SDK."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from pydantic import BaseModel

from channels.base import Channel
from channels.settings import StrictSettings

ENTRY_POINTS = "parley.channels"
"""The group of entry points by which installed packages provide channels."""


class ChannelType(Struct, frozen=True):
    """A kind of channel. It runs if `channels.NAME` is in the configuration, as an object that fits
    `settings`.

    `secrets` are the required names in .env, `may_have` the optional ones; `packages` are the
    required packages, as the registry names them, and `requirements` is a file in the project with
    them, or the arguments for pip. With `is_called` it gets events only through the web channel's
    server. `make(settings, secrets)` makes the channel; it may raise ChannelError with a sentence.
    """

    name: str
    make: Callable[[Any, Mapping[str, str]], Channel]
    settings: type[BaseModel] = StrictSettings
    secrets: tuple[str, ...] = ()
    may_have: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    is_called: bool = False
    requirements: str = ""
