"""The pipeline, drawn once: who is made of what, and who tells whom."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from agent.distiller import ModelDistiller
from agent.models.providers import PROVIDERS
from agent.models.selection import Credentials, Models
from agent.prompt import Prompt
from agent.skills import Library
from agent.summarizer import ModelSummarizer
from agent.tools.toolbox import Toolbox
from bot.access import Access
from bot.activity import EventBus
from bot.alerts import Alerts
from bot.answers import Answers
from bot.app import VERSION, App, SharedChanges
from bot.approvals import Approvals
from bot.branching import Branching
from bot.channel_state import ChannelWatch, StoredState
from bot.clock import ClockWatch
from bot.commands import CommandRunner
from bot.completions import Completions
from bot.cut_notices import CutNotices
from bot.data_folder import find_database, plugins_folder
from bot.delivery import Delivery
from bot.forgetting import Forgetting
from bot.forms import Forms
from bot.hearing import Hearing
from bot.intake import Intake
from bot.kernel import Kernel
from bot.keys import ApiKeys
from bot.languages import Languages
from bot.learnt_models import keep_learnt
from bot.links import Links
from bot.listing import Listing
from bot.logins import Logins
from bot.logs import make_hider, set_level
from bot.ports import (
    ChosenModels,
    ConfiguredAgents,
    LetIn,
    LinkedChats,
    OfferedTools,
    PageVisitors,
    Processes,
    RecentWork,
    RunningTurns,
    StoredLedger,
    StoredSettings,
    choice_of,
)
from bot.recent import RecentActivity
from bot.running import RunningBot
from bot.runs import Runs
from bot.runtime import RuntimeConfig
from bot.saving import Saving
from bot.schedule import Retention, Schedule
from bot.sending import Sender
from bot.settings import Layers, SettingsStore
from bot.speaking import Speaking
from bot.spending import Spending, ThriftyDistiller, ThriftySummarizer
from bot.turn_runner import TurnRunner
from bot.turns import Turns
from bot.workspaces import Workspaces
from channels.base import (
    BranchChanged,
    Channel,
    ContextChanged,
    Notice,
    TurnsDeleted,
    WithPage,
    WithSound,
)
from memory.context.meter import Meter
from memory.conversation import Conversation
from memory.conversations import Conversations
from memory.events import Events
from memory.keys import ConversationKey
from memory.long_term.prompt import MemoryPrompts
from memory.record import engines, overrides
from memory.record.database import DatabaseEngine
from memory.record.ledger import Spent
from memory.record.store import Store
from memory.services import MemoryServices
from plugins.api import HookContext, Ports
from plugins.context_usage import usage_of
from plugins.loader import load

log = logging.getLogger(__name__)


async def assemble(
    layers: Layers,
    data: Path,
    channels: list[Channel],
    sender_type: type[Sender] = Sender,
    recent: RecentActivity | None = None,
) -> App:
    """Draw the pipeline. Where another `sender_type` sends than into the channels that are here,
    other processes may work with the same data. `recent` hears what happens. Raises StoreError and
    SettingError with a sentence for the person."""
    book, recent = SettingsStore(layers), recent or RecentActivity()
    engine = engines.engine_for(find_database(layers, data))
    losses = () if sender_type is not Sender else await asyncio.to_thread(_losses, engine)
    store = await Store.open(engine, "alone" if sender_type is Sender else "shared")
    left_out = book.adopt(await store.read(overrides.load))
    set_level(book.effective().log_level)
    links = Links(store)
    bus = EventBus(links.followers)
    context = HookContext(
        lambda: book.effective().hooks,
        lambda key, text: bus.publish(key.home, Notice(text)),
        lambda key: conversations.in_memory(key),
    )
    plugins = load(plugins_folder(book.effective(), data), context)
    hide = make_hider(layers.secrets.to_mask())
    toolbox = Toolbox(plugins.tools.values(), hide)
    models = Models(credentials(layers))
    await keep_learnt(models.learnt, store)
    models.agent = lambda name: choice_of(book.with_agent(name)) if name in book.agents else None
    prompt = Prompt(plugins.prompt_hooks)
    by_name = {channel.name: channel for channel in channels}
    sender, shared = sender_type(store, by_name, data), SharedChanges()
    processes = Processes()
    languages = Languages(lambda key: book.effective(key).language, links)
    delivery = Delivery(store, by_name, sender, links, languages)
    forms = Forms(store, by_name, links)
    approvals = Approvals(
        delivery,
        lambda key: config.settings(key).tools.approve == "ask",
        lambda address: links.key_of(address).id,
    )
    meter = Meter()
    saving = Saving(
        book,
        models,
        lambda key, user: spending.accounts(key, user),
        lambda scope, text: spending.note_once(scope, text),
    )
    config = RuntimeConfig(
        book,
        models,
        prompt,
        toolbox,
        Library(data),
        data,
        approvals,
        plugins.offloader,
        MemoryPrompts(data, meter),
        plugins.services,
        saving,
        lambda address: access.find_limited_user(address),
        plugins.remote_tools,
    )

    spending = Spending(
        store, config.get_spending_limits, config.zone, lambda key: config.at(key).model.is_free
    )
    access = Access(store, config.rules)
    alerts = Alerts(store, delivery, access)
    summarizer = ModelSummarizer(
        config.summary_model,
        config.summary_window,
        lambda text, model: round(meter.count(text) * conversations.models.ratio(model)),
        alerts.model_refused_unheard,
        recent.summary_failed,
        lambda key: not config.settings(key).context.summary_brain.model,
    )
    distiller = ModelDistiller(
        config.model_for_distilling,
        config.window_for_distilling,
        summarizer.count,
        summarizer.on_refused,
    )

    def on_spent(key: ConversationKey, person: str, spent: Spent) -> None:
        spending.book(key, person, spent)
        recent.spent(spent)

    services = replace(
        _services(store, config, spending, summarizer, meter, Events(plugins.listeners), hide),
        on_change=lambda key: _show(
            bus, conversations.in_memory(key), conversations.branches.is_current(key)
        ),
        on_event=recent.view_changed,
        on_spent=on_spent,
        on_cut=CutNotices(store, delivery).tell,
        feature_rows=plugins.rows,
        distiller=ThriftyDistiller(
            distiller,
            lambda request: (
                spending.is_enough(request.key, request.person)
                and not config.model_for_distilling(request.key, request.model).is_free
            ),
        ),
    )
    conversations: Conversations = Conversations(services)
    runner = TurnRunner(bus, config.turn_rules(), recent, conversations.branches.is_current)
    answers = Answers(conversations, delivery, spending, access, runner.tasks, plugins.notes)
    runs = Runs(plugins.runs)
    turns = Turns(conversations, delivery, runner, answers, links, runs)
    turns.hearing = Hearing(conversations, config.ears, config.folder, spending, access)
    answers.speaking = Speaking(
        conversations, config.mouth, lambda name: _form_of_sound(by_name.get(name)), spending
    )
    sender.on_trouble, runner.on_trouble = alerts.channel_down, alerts.model_refused
    answers.tell_saving = lambda conversation: saving.tell(
        conversation.key, lambda: usage_of(conversation.context).tokens
    )
    sender.recent = alerts.recent = recent
    sender.on_aside = alerts.reply_put_aside
    models.on_refused, models.on_called = alerts.model_refused_unheard, recent.model_called
    forgetting = Forgetting(
        conversations, turns, by_name, lambda home, gone: bus.publish(home, TurnsDeleted(gone))
    )
    clock = ClockWatch(store, alerts.clock_jumped, config.zone)
    logins = Logins(store, access)

    def on_access_change() -> None:
        logins.wake()
        shared.on_change()

    access.on_change, links.on_change = on_access_change, lambda: shared.on_change()
    links.on_led = turns.leave
    spending.on_lift = lambda: shared.on_change()

    def on_setting_change(key: str) -> None:
        shared.on_change()
        plugins.tell_settings_changed()
        if key in ("model", "context.max_tokens"):
            conversations.models.forget_windows()
        for conversation in conversations.list_loaded():
            _show(bus, conversation, conversations.branches.is_current(conversation.key))

    async def is_clock_believed() -> bool:
        is_believed = await clock.look()
        if book.effective().session_retention_days:
            await clock.warn()
        return is_believed

    async def run_often() -> None:
        await clock.look()
        await conversations.settle_proposals()
        await conversations.rest()

    retention = Retention(
        forgetting, lambda: book.effective().session_retention_days, is_clock_believed
    )

    schedule = Schedule(config.zone, retention, run_often)

    queues = {"turns": turns.queues, "replies": delivery.queues}
    work = RecentWork(recent, turns, queues, conversations, data, by_name)
    ports = Ports(
        settings=StoredSettings(book, store, on_setting_change),
        turns=RunningTurns(
            turns,
            tuple(by_name),
            tuple(plugins.names),
            lambda key: (
                *left_out,
                *plugins.problems,
                *filter(None, [models.advise(config.choice(key)), saving.find_problem()]),
                *config.skills.describe_left_out(config.folder(key)),
            ),
            data,
            time.monotonic(),
        ),
        processes=processes,
        recent=work,
        models=ChosenModels(book, models, config.choice, saving.describe),
        agents=ConfiguredAgents(book, models),
        ledger=StoredLedger(store),
        spending=spending,
        forgetting=forgetting,
        branches=Branching(conversations, turns, book, lambda now: _show_branch(bus, now)),
        access=LetIn(access, delivery, links),
        visitors=PageVisitors(logins, lambda: _page_url(config, by_name)),
        links=LinkedChats(links, conversations, delivery, bus),
        tools=OfferedTools(config.agent),
        approvals=approvals,
        forms=forms,
        channels=ChannelWatch(StoredState(store), by_name),
        commands=plugins.commands,
        services=plugins.services,
        context_parts=plugins.context_parts,
        stops=plugins.stops,
        workspace=config.workspace,
        zone=config.zone,
        version=VERSION,
        remembered=config.memory_in_prompt,
        notify=context.notify,
    )
    completions = Completions(conversations, config.completion_rules(), spending, access)
    completions.recent = recent
    workspaces = Workspaces(
        config.folder, config.workspace, lambda key: config.settings(key).tools.files_quota
    )
    commands = CommandRunner(ports, conversations, delivery, access, forms, links, runs)
    queues["commands"] = commands.queues
    recent.work_begun(work)
    bot = RunningBot(
        Intake(
            *(access, delivery, turns, forms, workspaces),
            commands.takes_files,
            commands.find_excess,
        ),
        commands,
        turns,
        bus,
        access,
        conversations,
        ports.settings,
        ApiKeys(store, access),
        completions,
        workspaces,
        links,
        Listing(conversations, links),
        logins,
        languages,
        plugins,
        StoredState(store),
        alerts.channel_unreachable,
    )
    plugins.open(
        Kernel(
            data,
            layers.secrets,
            config,
            store,
            access,
            links,
            conversations,
            delivery,
            turns,
            bot,
            bus,
            alerts,
            spending,
            schedule,
            clock,
        )
    )
    for problem in (*left_out, *plugins.problems):
        log.warning("%s", problem)
    return App(
        store=store,
        config=config,
        access=access,
        links=links,
        alerts=alerts,
        conversations=conversations,
        delivery=delivery,
        sender=sender,
        turns=turns,
        bus=bus,
        bot=bot,
        channels=by_name,
        spending=spending,
        clock=clock,
        losses=losses,
        schedule=schedule,
        features=plugins,
        forms=forms,
        shared=shared,
        processes=processes,
    )


def _form_of_sound(channel: object) -> str:
    """In which form a channel plays sounds; "" where it plays none."""
    return channel.sound if isinstance(channel, WithSound) else ""


def _page_url(config: RuntimeConfig, channels: Mapping[str, Channel]) -> str:
    """Where people find the page; "" where nobody knows."""
    page: object = channels.get("web")
    own = page.url if isinstance(page, WithPage) else ""
    return config.book.effective().web.url.rstrip("/") or own


def _losses(engine: DatabaseEngine) -> tuple[str, ...]:
    """What the database may have lost when the process before ended."""
    losses = engine.list_losses()
    for lost in losses:
        log.warning("%s", lost)
    return tuple(losses)


def _services(
    store: Store,
    config: RuntimeConfig,
    spending: Spending,
    summarizer: ModelSummarizer,
    meter: Meter,
    events: Events,
    hide: Callable[[str], str],
) -> MemoryServices:
    """What memory is handed of all that stands above it."""

    def is_enough(key: ConversationKey) -> bool:
        return spending.is_enough(key) and not config.summary_model(key).is_free

    return MemoryServices(
        store,
        meter,
        ThriftySummarizer(summarizer, is_enough),
        config.limits,
        config.prefix,
        config.data,
        zone=config.zone,
        restores_exactly=lambda: config.book.effective().restore == "exact",
        events=events,
        keeps_files=lambda key: config.settings(key).context.context_files,
        offloader_for=config.offloader,
        plugin_offloader=config.plugin_offloader,
        hide=hide,
    )


def credentials(layers: Layers) -> Credentials:
    """Where models are served, and the key to it."""
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


def _show(bus: EventBus, conversation: Conversation | None, is_current: bool = True) -> None:
    """Tell whoever watches a conversation how full its context is."""
    if conversation is not None and is_current and bus.is_watched(conversation.key.home):
        bus.publish(conversation.key.home, ContextChanged(usage_of(conversation.context)))


def _show_branch(bus: EventBus, conversation: Conversation) -> None:
    """Tell whoever watches a chat that it leads to this conversation now."""
    bus.publish(conversation.key.home, BranchChanged(conversation.key.number))
    _show(bus, conversation)
