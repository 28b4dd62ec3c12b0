"""The assembled bot: `assemble` draws the pipeline, `App.run` lets it run."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import partial
from pathlib import Path

from agent.loop import Agent
from agent.models import catalogue
from agent.models.answer import MOST_CALLS
from agent.models.base import Model, ModelError, Wishes
from agent.models.providers import PROVIDERS
from agent.models.selection import Credentials, Models
from agent.pictures import UNSEEN, Pictures
from agent.prompt import PERSONA, Prompt, base, base_alone
from agent.skills import Library, listed
from agent.summarizer import ModelSummarizer
from agent.tools.base import Approve, ToolContext, allowed, unasked
from agent.tools.toolbox import Toolbox
from bot.access import Access, Rules
from bot.activity import Hub
from bot.alerts import Alerts
from bot.approvals import Approvals
from bot.clock import ClockWatch
from bot.completions import CompletionRules, Completions, clear_up
from bot.data_folder import DATABASE
from bot.delivery import Delivery
from bot.forgetting import Forgetting
from bot.keys import CHANNEL, ApiKeys
from bot.lanes import Lanes
from bot.logs import hiding, set_level
from bot.ports import (
    ChosenModels,
    ConfiguredAgents,
    LetIn,
    RunningTurns,
    StoredLedger,
    StoredSettings,
    choice_of,
    summary_choice_of,
    summary_window,
    window_in_force,
)
from bot.router import Requests, Router
from bot.schedule import Retention, Schedule
from bot.settings import Layers, Settings, SettingsBook
from bot.spending import Spending, SpendingLimits, ThriftySummarizer
from bot.turns import TurnRules, Turns
from channels.base import Channel, ChannelError, Closing, ContextChanged, Notice
from channels.completion import CompletionRequest
from channels.message import Address
from memory.context.limits import DEFAULT_WINDOW, Limits
from memory.context.meter import Meter, PromptPrefix
from memory.conversation import Conversation
from memory.conversations import Conversations
from memory.events import Events
from memory.keys import ConversationKey
from memory.record import overrides, soundness
from memory.record.offload import LocalWorkspace, Offloader
from memory.record.store import Store, StoreError
from memory.services import MemoryServices
from memory.settings import ContextSettings
from plugins.api import HookContext, Ports
from plugins.glance import glance_of
from plugins.loader import load
from plugins.rules import compacts

log = logging.getLogger(__name__)

VERSION = "0.1.0"
EXAMINED = 60.0
"""Seconds for which the database is looked through, at most, after the start."""
SAME_NAME = set(Limits.__dataclass_fields__) & set(ContextSettings.model_fields) - {
    "max_tokens",  # there it is a limit of trim, here the window
    "fold_turns",
    "auto_compact",
}


@dataclass(frozen=True, slots=True)
class InForce:
    """The settings and the models, asked anew at every step: what holds for a conversation now."""

    book: SettingsBook
    models: Models
    prompt: Prompt
    toolbox: Toolbox
    skills: Library
    data: Path
    approvals: Approvals
    known: dict[tuple[int, str, int, bool], tuple[Settings, Limits]] = field(default_factory=dict)

    def settings(self, key: ConversationKey) -> Settings:
        return self.book.effective(key.id)

    def model(self, key: ConversationKey) -> Model:
        return self.models.of(choice_of(self.settings(key)))

    def summary_model(self, key: ConversationKey) -> Model:
        return self.models.of(summary_choice_of(self.settings(key)))

    def summary_window(self, key: ConversationKey) -> int:
        return summary_window(self.settings(key), self.summary_model(key)) or DEFAULT_WINDOW

    def limits(self, key: ConversationKey) -> Limits:
        settings, model = self.settings(key), self.model(key)
        window = window_in_force(settings, model) or DEFAULT_WINDOW
        made_from = (id(settings), model.name, window, model.sees)
        if made_from not in self.known:
            limits = limits_of(settings, window, model.name)
            limits = limits if model.sees else replace(limits, picture=len(UNSEEN) // 4)
            if len(self.known) > 1_000:
                self.known.clear()
            self.known[made_from] = (settings, limits)  # held, so that no other gets its id
        return self.known[made_from][1]

    def prefix(self, key: ConversationKey) -> PromptPrefix:
        settings, takes_tools = self.settings(key), self.model(key).takes_tools
        context = settings.context
        system = base(
            settings.system_prompt,
            takes_tools,
            asks_terse=context.strategy == "slim",
            offloads=context.offload,
            skills=listed(self.skills.of(self.folder(key))) if takes_tools else "",
        )
        return self.prompt.prefix(key, system, self.tools(key).wire if takes_tools else ())

    def tools(self, key: ConversationKey) -> Toolbox:
        """The tools that the model is offered."""
        return self.toolbox.offered(self.settings(key).tools)

    def agent(self, conversation: Conversation, address: Address) -> Agent:
        """What the next turn of a conversation is answered with; who asks is at an address."""
        key = conversation.key
        workspace = self.workspace(key)
        return Agent(
            model=self.model(key),
            prefix=self.prefix(key),
            toolbox=self.tools(key),
            surroundings=ToolContext(
                key,
                workspace,
                self.settings(key).zone,
                conversation,
                skills=self.skills.of(workspace),
                settings=self.settings(key).tools,
                approve=self._approve(key, address),
            ),
            pictures=Pictures(workspace, lambda: self.settings(key).context.max_images),
            max_steps=lambda: self.settings(key).agent_max_steps,
            max_calls=lambda: self.settings(key).agent_max_calls,
        )

    def agent_alone(self, key: ConversationKey, request: CompletionRequest) -> Agent:
        """What a request that stands by itself is answered with: the client's tools, or those of
        the bot's own that need no conversation; and nobody who could be asked."""
        settings, workspace, model = self.settings(key), self.workspace(key), self.model(key)
        toolbox = self.tools(key).alone() if request.tools is None else Toolbox(())
        wire = toolbox.wire if request.tools is None else tuple(request.tools)
        has_system = any(one.role == "system" for one in request.messages)
        is_asked = settings.tools.approve == "ask"
        skills = self.skills.of(workspace) if toolbox.wire else ()
        system = base_alone(
            "" if has_system else settings.system_prompt or PERSONA,
            bool(toolbox.wire) and model.takes_tools,
            listed(skills),
        )
        tools = wire if model.takes_tools else ()
        return Agent(
            model=model,
            prefix=self.prompt.prefix(key, system, tools)
            if request.tools is None
            else PromptPrefix(system, tools),
            toolbox=toolbox,
            surroundings=ToolContext(
                key,
                workspace,
                settings.zone,
                skills=skills,
                settings=settings.tools,
                approve=unasked if is_asked else allowed,
            ),
            pictures=Pictures(workspace, lambda: settings.context.max_images),
            max_steps=lambda: self.settings(key).agent_max_steps,
            max_calls=lambda: (
                self.settings(key).agent_max_calls if request.tools is None else MOST_CALLS
            ),
            wishes=Wishes(request.max_tokens, request.temperature, request.parameters),
        )

    def completion_rules(self) -> CompletionRules:
        return CompletionRules(
            self.agent_alone, lambda key: self.settings(key).turn_timeout, self.folder
        )

    def _approve(self, key: ConversationKey, address: Address) -> Approve:
        """Who is asked there; whoever speaks through a key has no place to be asked in."""
        is_by_key = address.channel == CHANNEL and address.user
        if is_by_key and self.settings(key).tools.approve == "ask":
            return unasked
        return partial(self.approvals.ask, key, address)

    def workspace(self, key: ConversationKey) -> Path:
        """The folder of a conversation's audience, made on first use."""
        folder = self.folder(key)
        (folder / "files").mkdir(parents=True, exist_ok=True)
        return folder

    def folder(self, key: ConversationKey) -> Path:
        """Where the folder of a conversation's audience is, or will be."""
        return self.data / "audiences" / key.audience

    def offloader(self, key: ConversationKey) -> Offloader | None:
        """Who keeps what leaves the context of a conversation."""
        is_on = self.settings(key).context.offload
        return LocalWorkspace(self.workspace(key)) if is_on else None

    def spending_limits(self) -> SpendingLimits:
        settings = self.book.effective()
        return SpendingLimits(
            settings.spend_limit_chat, settings.spend_limit_total, settings.spend_limit_user
        )

    def rules(self) -> Rules:
        settings = self.book.effective()
        return Rules(settings.owners, settings.messages_per_minute)

    def zone(self) -> tzinfo:
        return self.book.effective().zone

    def turn_rules(self) -> TurnRules:
        return TurnRules(
            self.agent,
            timeout_for=lambda key: self.settings(key).turn_timeout,
            busy_for=lambda key: self.settings(key).when_busy,
            waited_for=self.approvals.waited,
        )

    @property
    def shutdown_timeout(self) -> float:
        return self.book.effective().shutdown_timeout


@dataclass(frozen=True, slots=True)
class App:
    """The bot, ready to run."""

    store: Store
    in_force: InForce
    access: Access
    alerts: Alerts
    conversations: Conversations
    delivery: Delivery
    turns: Turns
    hub: Hub
    router: Router
    channels: Mapping[str, Channel]
    spending: Spending
    clock: ClockWatch
    losses: tuple[str, ...]
    schedule: Schedule

    async def run(self, until: str = "") -> None:
        """Take up what was left, listen until the channels end (or the one that `until` names) or a
        signal comes, then finish. Raises what a channel failed with."""
        stopping = asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            with suppress(NotImplementedError):  # not on every system
                asyncio.get_running_loop().add_signal_handler(name, stopping.set)
        await self._take_up()
        listeners = {
            name: asyncio.create_task(self._listen(channel), name=f"listen {name}")
            for name, channel in self.channels.items()
        }
        warming = asyncio.create_task(self._warm_up())
        awaited = [listeners[until]] if until else [*listeners.values()]
        await _first_of(stopping, awaited, [*listeners.values()])
        await self._finish(stopping, warming)
        for task in listeners.values():
            task.result() if task.done() and not task.cancelled() else None

    async def _listen(self, channel: Channel) -> None:
        """Listen to one channel; if it breaks, the others go on, and who sits at them or owns the
        bot hears of it."""
        try:
            await channel.listen(self.router)
        except ChannelError as error:
            self._announce(str(error))
            await self.alerts.channel_down(channel.name, error)
            raise
        except Exception as error:
            if len(self.channels) > 1:
                log.exception("the channel %s has ended", channel.name)
                await self.alerts.channel_down(channel.name, error)
            raise

    async def _take_up(self) -> None:
        """Go on where the process before this one stopped."""
        await self.clock.look()  # before anything new happens, which would be the newest thing
        await asyncio.to_thread(clear_up, self.in_force.data)
        await self.access.take_up()
        await self.spending.take_up()
        await self.conversations.take_up()
        await self.delivery.send_unsent()
        for received in await self.delivery.unanswered():
            self.router.route(received)

    async def _warm_up(self) -> None:
        """Load what is slow, while the person reads the greeting."""
        await self.conversations.services.meter.ready()
        choice = choice_of(self.in_force.book.effective())
        try:
            if self.in_force.models.uses_embedded(choice):
                await self.in_force.models.start_embedded(self._announce)
        except ModelError as error:
            self._announce(str(error))
        await asyncio.to_thread(catalogue.load)
        await self._report_damage()
        await self.schedule.start()

    async def _report_damage(self) -> None:
        """Tell an owner what of the database is damaged or was put aside; look through it, which
        takes long where it is large, while the bot works already."""
        said = [*self.losses, *self.conversations.troubles, *self.delivery.troubles]
        found = await asyncio.to_thread(soundness.examined, self.store.path, EXAMINED)
        if found:
            said.append(f"{found} Stop the bot, and bring back a backup.")
            log.error("%s", found)
        for sentence in said:
            await self.alerts.damaged(sentence)

    def _announce(self, text: str) -> None:
        log.info("%s", text)
        self.hub.announce(Notice(text))

    @property
    def _work(self) -> tuple[Lanes, ...]:
        return (self.router.lanes, self.turns.lanes, self.delivery.lanes)

    async def idle(self) -> None:
        """Wait until nothing is left to do."""
        for lanes in self._work:
            await lanes.idle()
        await self.conversations.settle()

    async def _finish(self, stopping: asyncio.Event, warming: asyncio.Task[None]) -> None:
        """Let what is under way end, for as long as it takes, or for as long as there is patience
        after a signal; then close. What is cut short here goes on at the next start."""
        ending, stopped = map(asyncio.create_task, (self.idle(), stopping.wait()))
        await asyncio.wait((ending, stopped), return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait((ending,), timeout=self.in_force.shutdown_timeout)
        for task in (ending, stopped, warming):
            task.cancel()
        await asyncio.gather(ending, stopped, warming, return_exceptions=True)
        await self.schedule.stop()
        for lanes in self._work:
            await lanes.close()
        await self.delivery.excuse()
        with suppress(StoreError):
            await self.conversations.excuse()
        for channel in self.channels.values():
            if isinstance(channel, Closing):
                await channel.close()
        await self.conversations.close()
        with suppress(StoreError):
            await self.clock.look()  # it counts for how long the bot ran
        await self.in_force.models.close()
        await self.store.close()


async def assemble(layers: Layers, data: Path, channels: list[Channel]) -> App:
    """Draw the pipeline. Raises StoreError and SettingError with a sentence for the person."""
    losses = await asyncio.to_thread(_losses, data / DATABASE)
    store = await Store.open(data / DATABASE)
    book = SettingsBook(layers)
    left_out = book.adopt(await store.read(overrides.load))
    set_level(book.effective().log_level)
    folder = book.effective().plugins_dir
    hub = Hub()
    context = HookContext(
        lambda: book.effective().hooks,
        lambda key, text: hub.publish(key.id, Notice(text)),
        lambda key: conversations.in_memory(key),
    )
    plugins = load(Path(folder) if folder else data / "plugins", context)
    hide = hiding(layers.secrets.to_mask())
    toolbox = Toolbox(plugins.tools.values(), hide)
    models = Models(credentials(layers))
    prompt = Prompt(plugins.prompt_hooks)
    by_name = {channel.name: channel for channel in channels}
    delivery = Delivery(store, by_name)
    approvals = Approvals(delivery, lambda key: in_force.settings(key).tools.approve == "ask")
    in_force = InForce(book, models, prompt, toolbox, Library(data), data, approvals)

    spending = Spending(
        store, in_force.spending_limits, in_force.zone, lambda key: in_force.model(key).is_free
    )
    access = Access(store, in_force.rules)
    alerts = Alerts(store, delivery, access)
    meter = Meter()
    summarizer = ModelSummarizer(
        in_force.summary_model,
        in_force.summary_window,
        lambda text, model: round(meter.count(text) * conversations.models.ratio(model)),
        alerts.model_refused_unheard,
    )
    services = replace(
        _services(store, in_force, spending, summarizer, meter, Events(plugins.listeners), hide),
        on_change=lambda key: _show(hub, conversations.in_memory(key)),
        on_spent=spending.book,
    )
    conversations = Conversations(services)
    turns = Turns(conversations, delivery, hub, in_force.turn_rules(), spending, access)
    delivery.on_trouble, turns.on_trouble = alerts.channel_down, alerts.model_refused
    delivery.on_aside = alerts.reply_put_aside
    models.on_refused = alerts.model_refused_unheard
    forgetting = Forgetting(conversations, turns, by_name)
    clock = ClockWatch(store, alerts.clock_jumped, in_force.zone)

    async def is_clock_believed() -> bool:
        is_believed = await clock.look()
        if book.effective().session_retention_days:
            await clock.warn()
        return is_believed

    async def often() -> None:
        await clock.look()
        await conversations.rest()

    retention = Retention(
        forgetting, lambda: book.effective().session_retention_days, is_clock_believed
    )

    problems = (*left_out, *plugins.problems)
    ports = Ports(
        settings=StoredSettings(book, store),
        turns=RunningTurns(
            turns, tuple(by_name), tuple(plugins.names), problems, data, time.monotonic()
        ),
        models=ChosenModels(book, models),
        agents=ConfiguredAgents(book, models),
        ledger=StoredLedger(store),
        spending=spending,
        forgetting=forgetting,
        access=LetIn(access, delivery),
        approvals=approvals,
        commands=plugins.commands,
        workspace=in_force.workspace,
        zone=in_force.zone,
        version=VERSION,
    )
    completions = Completions(conversations, in_force.completion_rules(), spending, access)
    requests = Requests(ApiKeys(store, access), completions)
    router = Router(ports, conversations, delivery, turns, hub, access, requests)
    router.on_trouble = alerts.channel_unreachable
    for problem in problems:
        log.warning("%s", problem)
    return App(
        store=store,
        in_force=in_force,
        access=access,
        alerts=alerts,
        conversations=conversations,
        delivery=delivery,
        turns=turns,
        hub=hub,
        router=router,
        channels=by_name,
        spending=spending,
        clock=clock,
        losses=losses,
        schedule=Schedule(in_force.zone, retention, often),
    )


def _losses(database: Path) -> tuple[str, ...]:
    """What SQLite leaves out of the database without a word; one that can't be opened is for the
    store to explain."""
    try:
        if soundness.cut_short(database) or not (lost := soundness.lost_from_log(database)):
            return ()
    except OSError:
        return ()
    log.warning("%s", lost)
    return (lost,)


def _services(
    store: Store,
    in_force: InForce,
    spending: Spending,
    summarizer: ModelSummarizer,
    meter: Meter,
    events: Events,
    hide: Callable[[str], str],
) -> MemoryServices:
    """What memory is handed of all that stands above it."""

    def is_enough(key: ConversationKey) -> bool:
        return spending.is_enough(key) and not in_force.summary_model(key).is_free

    return MemoryServices(
        store,
        meter,
        ThriftySummarizer(summarizer, is_enough),
        in_force.limits,
        in_force.prefix,
        in_force.data,
        zone=in_force.zone,
        restores_exactly=lambda: in_force.book.effective().restore == "exact",
        events=events,
        keeps_files=lambda key: in_force.settings(key).context.context_files,
        offloader_for=in_force.offloader,
        hide=hide,
    )


def limits_of(settings: Settings, window: int, model: str) -> Limits:
    """The limits that these settings mean for a model with such a window."""
    context = settings.context
    named = {name: getattr(context, name) for name in SAME_NAME}
    return Limits(
        max_turns=settings.agent_max_context_turns,
        max_tokens=settings.agent_max_context_tokens,
        window=window,
        fold_turns=0 if context.fold_turns == "auto" else context.fold_turns,
        auto_compact=context.auto_compact and not compacts(settings.hooks),
        model=model,
        **named,
    )


def credentials(layers: Layers) -> Credentials:
    """Where models are served, and the key to it."""
    secrets = layers.secrets
    return Credentials(
        secrets.get("OPENAI_API_KEY", ""),
        secrets.get("OPENAI_BASE_URL", ""),
        {provider.key_name: secrets.get(provider.key_name, "") for provider in PROVIDERS.values()},
    )


def _show(hub: Hub, conversation: Conversation | None) -> None:
    """Tell whoever watches a conversation how full its context is."""
    if conversation is not None and hub.is_watched(conversation.key.id):
        hub.publish(conversation.key.id, ContextChanged(glance_of(conversation.context)))


async def _first_of(
    stopping: asyncio.Event, awaited: list[asyncio.Task[None]], listeners: list[asyncio.Task[None]]
) -> None:
    """Until a signal comes, or the channels that are awaited have ended; then all end."""
    waiting = asyncio.create_task(stopping.wait())
    everything = asyncio.create_task(asyncio.wait(awaited))
    await asyncio.wait((waiting, everything), return_when=asyncio.FIRST_COMPLETED)
    for task in (waiting, everything, *listeners):
        task.cancel()
    await asyncio.gather(waiting, everything, *listeners, return_exceptions=True)
