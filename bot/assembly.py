"""The assembly of the bot: the store, the kernel layer by layer, then the features."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from bot.app import App
from bot.data_folder import find_database, plugins_folder
from bot.forgetting import Forgetter
from bot.logs import set_level
from bot.ports import (
    RecentWork,
)
from bot.received import Signal
from bot.recent import RecentActivity
from bot.schedule import ClockWatch, Retention, Schedule
from bot.sending import Sender
from bot.settings import Layers, SettingsStore
from bot.stages import (
    Record,
    SettingChange,
    SettingsReload,
    choose_models,
    connect_people,
    make_bot,
    make_ports,
    make_private,
    make_turns,
    open_memory,
)
from channels.base import Channel
from memory.record import bot_state, engines
from memory.record.database import DatabaseEngine
from memory.record.store import Store
from plugins.api import HookContext
from plugins.loader import load

log = logging.getLogger(__name__)


async def assemble(
    layers: Layers,
    data: Path,
    channels: list[Channel],
    sender_type: type[Sender] = Sender,
    recent: RecentActivity | None = None,
    book: SettingsStore | None = None,
) -> App:
    """Assemble the bot. With another `sender_type` than the one for local channels, other processes
    may work with the same data. `recent` is notified of events; `book` has the settings of the
    layers, and gets the stored changes. Raises StoreError and SettingError with a sentence for the
    person."""
    recent = recent or RecentActivity()
    book = book or SettingsStore(layers)
    record = await _open_record(layers, data, book, shared=sender_type is not Sender)
    store, by_name = record.store, {one.name: one for one in channels}
    sender = sender_type(store, by_name, data, recent)
    people = connect_people(record, by_name, sender, recent)
    context = HookContext(book.hooks, people.bus.notify, people.loaded.find)
    plugins = load(plugins_folder(book.effective(), data), context)
    thinking = await choose_models(layers, data, record, people, plugins, recent)
    config = thinking.config
    clock = ClockWatch(store, people.alerts.clock_jumped, config.zone)
    conversations = open_memory(store, people, thinking, plugins, recent)
    turns = make_turns(people, thinking, conversations, plugins, recent)
    forgetting = Forgetter(conversations, turns, by_name, people.bus, plugins.stops)
    often = (clock.check, conversations.resolve_proposals, conversations.rest)
    schedule = Schedule(config.zone, Retention(forgetting, book, clock), often)
    queues = {"turns": turns.queues, "replies": people.delivery.queues}
    work = RecentWork(recent, turns, queues, conversations, data, by_name)
    private = make_private(people, thinking, conversations)
    ports = make_ports(record, people, thinking, work, forgetting, private, plugins)
    bot = make_bot(record, people, thinking, work, ports, private, plugins)
    app = App(
        data=data,
        secrets=layers.secrets,
        layers=layers,
        reread=SettingsReload(layers, thinking.models, SettingChange(record, people, plugins)),
        config=config,
        store=store,
        access=people.access,
        links=people.links,
        conversations=conversations,
        delivery=people.delivery,
        turns=turns,
        bot=bot,
        bus=people.bus,
        alerts=people.alerts,
        schedule=schedule,
        clock=clock,
        changes=record.changes,
        processes=people.processes,
        channels=by_name,
        sender=sender,
        losses=record.losses,
        features=plugins,
        forms=people.forms,
    )
    await plugins.open(app, store)
    for problem in (*record.left_out, *plugins.problems):
        log.warning("%s", problem)
    return app


async def _open_record(layers: Layers, data: Path, book: SettingsStore, *, shared: bool) -> Record:
    engine = engines.engine_for(find_database(layers, data))
    losses = () if shared else await asyncio.to_thread(_list_losses, engine)
    store = await Store.open(engine, "shared" if shared else "alone")
    left_out = book.adopt(await store.read(bot_state.load_overrides))
    set_level(book.effective().log_level)
    return Record(book, store, left_out, losses, Signal())


def _list_losses(engine: DatabaseEngine) -> tuple[str, ...]:
    losses = engine.list_losses()
    for lost in losses:
        log.warning("%s", lost)
    return tuple(losses)
