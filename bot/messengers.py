"""The messengers in the configuration: found, checked, and made, with their health and the values
that they keep over restarts. One that can't be made is replaced by a sentence, and does not affect
the others."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct, field
from pydantic import ValidationError

from channels.base import HEALTH, Bot, Channel, ChannelError, ChannelHealth, WithHealth
from channels.kit.registration import ENTRY_POINTS, ChannelType
from channels.message import Outbound
from memory.plain_text import nearest
from memory.record import bot_state
from memory.record.database import DatabaseEngine
from memory.record.store import Store
from memory.record.tables import UNREADABLE
from plugins.loader import load_file, name_module


class StoredState(Struct, frozen=True):
    """The `ChannelState` of `channels/base`."""

    store: Store

    async def get(self, channel: str, name: str) -> str:
        return await self.store.read(lambda db: bot_state.find_text(db, channel, name))

    async def set(self, channel: str, name: str, text: str) -> None:
        await self.store.write(lambda db: bot_state.put_text(db, channel, name, text))


class ChannelWatch(Struct, frozen=True):
    """The channels as commands see them. For channels of another process the stored health is
    used."""

    state: StoredState
    channels: Mapping[str, Channel]

    async def status(self) -> dict[str, ChannelHealth]:
        found = {}
        for name, channel in self.channels.items():
            if isinstance(channel, WithHealth):
                health = channel.health
                if health.state == "starting":
                    health = load_health(await self.state.get(name, HEALTH)) or health
                found[name] = health
        return found


def read_health(engine: DatabaseEngine) -> dict[str, ChannelHealth]:
    """Return the last stored health of the channels; the bot may be running."""
    with engine.visit() as database:
        if "channel_state" not in database.get_tables():
            return {}
        kept = bot_state.list_named(database, HEALTH)
    return {name: health for name, text in kept if (health := load_health(text))}


def load_health(text: str) -> ChannelHealth | None:
    """Return a health as `channels/kit/messenger.py` has stored it."""
    try:
        whole = orjson.loads(text)
        since = datetime.fromisoformat(whole["since"])
        return ChannelHealth(whole["state"], since, str(whole["reason"]), int(whole["forged"]))
    except UNREADABLE:
        return None


log = logging.getLogger(__name__)

BUILT_IN = ("discord", "feishu", "mail", "matrix", "slack", "wecom", "whatsapp")
"""Packages of this project that have a `CHANNEL`."""
TELEGRAM = "telegram"
"""The messenger that is enabled by its token alone."""


class UnavailableMessenger(Struct):
    """A messenger that can't run, for this reason. It reports the reason; its outgoing messages
    wait for the next start."""

    name: str
    reason: str
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def health(self) -> ChannelHealth:
        return ChannelHealth("down", self.at, self.reason)

    async def listen(self, bot: Bot) -> None:
        raise ChannelError(self.reason)

    async def send(self, outbound: Outbound) -> None:
        raise ChannelError(self.reason)


def make_messengers(
    named: Sequence[Mapping[str, Any]],
    secrets: Mapping[str, str],
    plugins: Path,
    *,
    has_server: bool,
) -> list[Channel]:
    """Return all messengers of the configuration, in its order; `plugins` is the folder of the
    user's own. `has_server` says whether the web channel's server runs, which some are called
    through."""
    return [
        _make(entry["name"], entry["settings"], secrets, plugins, has_server) for entry in named
    ]


def _make(
    name: str,
    settings: Mapping[str, Any],
    secrets: Mapping[str, str],
    plugins: Path,
    has_server: bool,
) -> Channel:
    try:
        kind = find_type(name, plugins)
        if kind.is_called and not has_server:
            raise ChannelError(
                f"The channel {name} is called by its platform, at the web channel's server, which "
                'does not run: set "web": true under channels.'
            )
        if missing := describe_missing(kind, secrets):
            raise ChannelError(missing)
        given = {key: secrets[key] for key in (*kind.secrets, *kind.may_have) if secrets.get(key)}
        channel = kind.make(_read(kind, settings), given)
    except ChannelError as error:
        return UnavailableMessenger(name, str(error))
    except Exception as error:  # a package may raise any error
        log.exception("the channel %s can't be made", name)
        reason = f"The channel {name} can't be started ({error}); the log has the details."
        return UnavailableMessenger(name, reason)
    return channel


def find_type(name: str, plugins: Path) -> ChannelType:
    """Return the type of the channel with this name. Raises ChannelError if there is none."""
    if name in BUILT_IN:
        found: Any = importlib.import_module(f"channels.{name}").CHANNEL
    elif (file := plugins / f"{name}.py").is_file():
        found = getattr(sys.modules.get(name_module(file)) or load_file(file), "CHANNEL", None)
    else:
        points = metadata.entry_points(group=ENTRY_POINTS, name=name)
        found = next((point.load() for point in points), None)
    if not isinstance(found, ChannelType):
        if name == TELEGRAM:
            raise ChannelError(
                "Telegram is not named under channels: it runs where TELEGRAM_BOT_TOKEN stands in "
                '.env. Its settings stand beside channels: "telegram": {…}.'
            )
        near = nearest(name, (*BUILT_IN, TELEGRAM, "web"))
        hint = f" Did you mean {near}?" if near else ""
        raise ChannelError(
            f"There is no channel {name}: neither one of the bot's own, nor {plugins / name}.py "
            f"with a CHANNEL in it, nor a package that brings it.{hint}"
        )
    return found


def describe_missing(kind: ChannelType, secrets: Mapping[str, str]) -> str:
    """Return what a channel lacks to run, and what to do; "" for nothing."""
    packages = [name for name in kind.packages if not _is_installed(name)]
    if packages:
        is_ours = kind.name in BUILT_IN
        how = f"python main.py add {kind.name}" if is_ours else f"pip install {' '.join(packages)}"
        return f"The channel {kind.name} needs packages that are not installed: {how}"
    if missing := [name for name in kind.secrets if not secrets.get(name)]:
        return f"The channel {kind.name} needs {' and '.join(missing)} in .env."
    return ""


def _is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _read(kind: ChannelType, settings: Mapping[str, Any]) -> Any:
    try:
        return kind.settings.model_validate(dict(settings))
    except ValidationError as error:
        faults = [_describe(kind, fault) for fault in error.errors(include_url=False)]
        raise ChannelError(" ".join(faults)) from None


def _describe(kind: ChannelType, fault: Any) -> str:
    key = ".".join(map(str, fault["loc"]))
    where = f"channels.{kind.name}.{key}" if key else f"channels.{kind.name}"
    known = kind.settings.model_fields
    if fault["type"] == "extra_forbidden":
        near = nearest(key, known)
        return f"{where} is no setting{f'; did you mean {near}?' if near else '.'}"
    if fault["type"] == "missing":
        return f"{where} is missing: {known[key].description or 'it must be set'}"
    return f"{where} does not fit: {fault['msg']}."
