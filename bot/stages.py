"""The layers of the bot, one function each; `bot/assembly.py` calls them in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agent.models.brain import PROVIDERS
from agent.models.selection import Credentials, ModelChoice, Models
from agent.prompt import Library, Prompt
from agent.summarizer import ModelSummarizer
from agent.tools.toolbox import Toolbox
from bot.access import Access
from bot.activity import ContextFeed, EventBus
from bot.alerts import Alerts, CutNotices
from bot.answers import Answers
from bot.app import VERSION
from bot.choices import choice_of, keep_learnt
from bot.commands import CommandRunner
from bot.completions import Completions
from bot.delivery import Delivery, Languages
from bot.forgetting import Forgetter
from bot.forms import Forms
from bot.intake import Intake
from bot.listing import Branching, Listing
from bot.logs import SecretRedactor
from bot.messengers import ChannelWatch, StoredState
from bot.ports import (
    AccessCommands,
    BotStatus,
    ChosenModels,
    OfferedTools,
    Processes,
    RecentWork,
    StoredSettings,
)
from bot.private import PrivateConversations
from bot.received import Links, Signal
from bot.recent import RecentActivity
from bot.running import RunningBot
from bot.runtime import RuntimeConfig
from bot.sending import Sender
from bot.settings import Layers, SettingsStore
from bot.turn_runner import TurnRunner
from bot.turns import Turns
from bot.workspaces import Workspaces
from channels.base import Channel
from memory.branches import Branches
from memory.context.meter import Meter
from memory.context.summary import Summarizer, SummaryRequest, SummaryResult
from memory.conversations import Conversations, LoadedConversations
from memory.events import Events
from memory.keys import ConversationKey
from memory.ledger import Ledger, Spent
from memory.long_term.prompt import MemoryPrompts
from memory.record.search.likeness import Likeness
from memory.record.store import Store
from memory.services import MemoryServices, Mirror, Redactor, RequestLog
from plugins.api import Ports
from plugins.loader import LoadedPlugins


class Record(Struct, frozen=True):
    """The store and its settings. `left_out` are stored settings that no longer fit; `losses` is
    data that the database may have lost when the previous process ended. `changes` is notified if
    settings, people or limits were changed here, which other processes also keep in memory."""

    book: SettingsStore
    store: Store
    left_out: Sequence[str]
    losses: tuple[str, ...]
    changes: Signal[[]]


class People(Struct, frozen=True):
    """The people who may talk to the bot, and the ways to reach them."""

    links: Links
    bus: EventBus
    loaded: LoadedConversations
    access: Access
    languages: Languages
    delivery: Delivery
    alerts: Alerts
    forms: Forms
    feed: ContextFeed
    processes: Processes


def connect_people(
    record: Record, channels: Mapping[str, Channel], sender: Sender, recent: RecentActivity
) -> People:
    store, book, changes = record.store, record.book, record.changes
    links = Links(store, changes)
    bus, loaded = EventBus(links.followers), LoadedConversations(Branches(store))
    access = Access(store, book.effective, on_change=changes)
    languages = Languages(book, links)
    delivery = Delivery(store, channels, sender, links, languages)
    alerts = Alerts(store, delivery, access)
    recent.alerts.append(alerts)
    return People(
        links,
        bus,
        loaded,
        access,
        languages,
        delivery,
        alerts,
        Forms(store, channels, links),
        ContextFeed(bus, loaded),
        Processes(),
    )


class ModelSetup(Struct, frozen=True):
    """The models, and the settings as conversations need them."""

    models: Models
    meter: Meter
    config: RuntimeConfig
    redactor: Redactor


async def choose_models(
    layers: Layers,
    data: Path,
    record: Record,
    people: People,
    plugins: LoadedPlugins,
    recent: RecentActivity,
) -> ModelSetup:
    book, store, redactor = record.book, record.store, SecretRedactor(layers.secrets)
    models = Models(
        credentials(layers),
        partial(_agents_choice, book),
        recent.model_refused,
        recent.model_called,
    )
    await keep_learnt(models.learnt, store)
    meter = Meter()
    config = RuntimeConfig(
        book,
        models,
        Prompt(plugins.prompt_hooks, plugins.prompt_sections),
        Toolbox(plugins.tools.values(), redactor),
        Library(data),
        data,
        plugins.approvals,
        plugins.offloader,
        MemoryPrompts(data, meter),
        plugins.services,
        plugins.spending,
        plugins.remote_tools,
    )
    return ModelSetup(models, meter, config, redactor)


def _agents_choice(book: SettingsStore, name: str) -> ModelChoice | None:
    """Return the model of an agent; None if there is no such agent."""
    return choice_of(book.with_agent(name)) if name in book.agents else None


class BudgetedSummarizer(Struct, frozen=True):
    """A summarizer that requests summaries as long as the budget allows it, and returns an empty
    one otherwise, so that an extract is used."""

    summarizer: Summarizer
    config: RuntimeConfig

    async def summarize(self, request: SummaryRequest) -> SummaryResult:
        key, config = request.key, self.config
        if config.spending.is_enough(key) and not config.summary_model(key).is_free:
            return SummaryResult("", "", finish="spent")
        return await self.summarizer.summarize(request)


def open_memory(
    store: Store,
    people: People,
    thinking: ModelSetup,
    plugins: LoadedPlugins,
    recent: RecentActivity,
) -> Conversations:
    config = thinking.config
    count = partial(people.loaded.models.tokens, thinking.meter)
    summarizer = ModelSummarizer(config, recent, count)

    def book(key: ConversationKey, person: str, call: Spent) -> None:
        config.spending.book(key, person, call)
        recent.spent(call)

    services = MemoryServices(
        store,
        thinking.meter,
        BudgetedSummarizer(summarizer, config),
        config,
        config.data,
        Events(plugins.listeners),
        thinking.redactor,
        people.feed.show,
        recent.view_changed,
        book,
        CutNotices(store, people.delivery, plugins.in_force).notify,
        feature_rows=plugins.rows,
        ledger=plugins.ledger or Ledger(),
        request_log=plugins.request_log or RequestLog,
        mirror=plugins.mirror or Mirror,
        likeness=(plugins.likeness or Likeness)(),
    )
    return Conversations(services, people.loaded)


def make_turns(
    people: People,
    thinking: ModelSetup,
    conversations: Conversations,
    plugins: LoadedPlugins,
    recent: RecentActivity,
) -> Turns:
    config = thinking.config
    runner = TurnRunner(people.bus, config, recent, conversations.branches)
    answers = Answers(conversations, people.delivery, runner, plugins)
    turns = Turns(answers, people.access, people.links)
    people.links.led.connect(turns.stop_chat)
    return turns


def make_private(
    people: People, thinking: ModelSetup, conversations: Conversations
) -> PrivateConversations:
    return PrivateConversations(
        conversations,
        thinking.config,
        people.delivery,
        people.bus,
        people.access,
        people.links,
        people.processes,
    )


class SettingChange(Struct, frozen=True):
    """The effects of a changed setting."""

    record: Record
    people: People
    plugins: LoadedPlugins

    def __call__(self, key: str) -> None:
        self.record.changes()
        self.plugins.notify_settings_changed()
        if key in ("model", "context.max_tokens"):
            self.people.loaded.models.forget_windows()
        self.people.feed.show_all()


class SettingsReload(Struct, frozen=True):
    """The reloading of `.env` and the configuration, as a restart would: later turns use the new
    model. Raises SettingError, and changes nothing then."""

    layers: Layers
    models: Models
    change: SettingChange

    def __call__(self) -> None:
        assert self.layers.reread is not None
        now = self.layers.reread()
        self.change.record.book.reread(replace(now, secrets=self.layers.secrets))
        self.layers.secrets.take(now.secrets)
        self.models.take(credentials(self.layers))
        self.change("model")


def make_ports(
    record: Record,
    people: People,
    thinking: ModelSetup,
    work: RecentWork,
    forgetting: Forgetter,
    private: PrivateConversations,
    plugins: LoadedPlugins,
) -> Ports:
    config, book, store = thinking.config, record.book, record.store
    conversations, channels, turns = work.conversations, work.channels, work.turns
    return Ports(
        settings=StoredSettings(book, store, SettingChange(record, people, plugins)),
        turns=turns,
        status=BotStatus(record.left_out, plugins, config, turns.queues, tuple(channels)),
        processes=people.processes,
        recent=work,
        models=ChosenModels(config),
        forgetting=forgetting,
        branches=Branching(conversations, turns, book, people.feed),
        private=private,
        access=AccessCommands(people.access, people.delivery, people.links),
        tools=OfferedTools(config),
        forms=people.forms,
        channels=ChannelWatch(StoredState(store), channels),
        commands=plugins.commands,
        services=plugins.services,
        context_parts=plugins.context_parts,
        stops=plugins.stops,
        in_force=plugins.in_force,
        offers=plugins.offers,
        workspace=config.workspace,
        zone=config.zone,
        version=VERSION,
        remembered=config.memory_in_prompt,
        notify=people.bus.notify,
    )


def make_bot(
    record: Record,
    people: People,
    thinking: ModelSetup,
    work: RecentWork,
    ports: Ports,
    private: PrivateConversations,
    plugins: LoadedPlugins,
) -> RunningBot:
    config, access, links = thinking.config, people.access, people.links
    conversations, recent, turns = work.conversations, work.recent, work.turns
    commands = CommandRunner(
        ports,
        conversations,
        people.delivery,
        access,
        people.forms,
        links,
        plugins.runs,
    )
    work.queues["commands"] = commands.queues
    recent.work_begun(work)
    workspaces = Workspaces(config)
    intake = Intake(access, people.delivery, turns, people.forms, workspaces, commands, private)
    return RunningBot(
        intake,
        commands,
        turns,
        people.bus,
        access,
        conversations,
        ports.settings,
        Completions(conversations, config, access, recent),
        workspaces,
        links,
        Listing(conversations, links),
        people.languages,
        plugins,
        StoredState(record.store),
        private,
    )


def credentials(layers: Layers) -> Credentials:
    """Return the address of the model server, and its key."""
    secrets = layers.secrets
    return Credentials(
        secrets.get("OPENAI_API_KEY", ""),
        secrets.get("OPENAI_BASE_URL", ""),
        {
            name: secrets.get(name, "")
            for provider in PROVIDERS.values()
            for name in (provider.key_name, *provider.variables)
        },
    )
