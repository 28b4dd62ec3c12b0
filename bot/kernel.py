"""The kernel's parts, as passed to features (`parley_open`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from bot.access import Access
from bot.activity import EventBus
from bot.alerts import Alerts
from bot.clock import ClockWatch
from bot.delivery import Delivery
from bot.links import Links
from bot.ports import Processes
from bot.running import RunningBot
from bot.runtime import RuntimeConfig
from bot.schedule import Schedule
from bot.settings.layers import Layers, Secrets
from bot.signals import Signal
from bot.turns import Turns
from channels.base import Channel
from memory.conversations import Conversations
from memory.record.store import Store


class Kernel(Struct, frozen=True):
    """The parts of the bot that a feature may use. `data` is the data folder; `secrets` are those
    of the environment and `.env`, by name; `layers` are the settings read before the start.
    `reread` reloads `.env` and the configuration, and raises SettingError. `changes` is notified if
    settings, people or limits were changed in this process."""

    data: Path
    secrets: Secrets
    layers: Layers
    reread: Callable[[], None]
    config: RuntimeConfig
    store: Store
    access: Access
    links: Links
    conversations: Conversations
    delivery: Delivery
    turns: Turns
    bot: RunningBot
    bus: EventBus
    alerts: Alerts
    schedule: Schedule
    clock: ClockWatch
    changes: Signal[[]]
    processes: Processes
    channels: Mapping[str, Channel]
