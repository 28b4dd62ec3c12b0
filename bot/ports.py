"""The questions that commands may ask of the bot (`plugins.api.Ports`), and their answers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import orjson
from msgspec import Struct
from msgspec.structs import replace

from agent.loop import Agent
from agent.models.base import Model, ModelError, Usage
from agent.models.brain import Brain
from agent.models.catalogue import cost_of, input_price, window_of
from agent.models.listed import ListedModel
from agent.models.long_context import long_context_of
from agent.models.selection import ModelChoice, Models
from bot.access import Access
from bot.delivery import Delivery
from bot.links import Links
from bot.queues import KeyedQueues
from bot.recent import RecentActivity
from bot.sending import address_of
from bot.settings import SettingError, Settings, SettingsStore
from bot.settings.book import OF_USERS
from bot.settings.schema import NO_AGENT
from bot.spending import Spending
from bot.turns import Turns
from channels.base import Channel, WithHealth
from channels.language import ENGLISH, _, explain, speaking
from channels.message import Address
from memory.context.limits import DEFAULT_WINDOW
from memory.conversation import Conversation
from memory.conversations import Conversations
from memory.keys import ConversationKey
from memory.messages import Message, ToolCall
from memory.record import overrides
from memory.record.people import Known, Pending, Role
from memory.record.store import Store
from plugins.api import (
    AgentInfo,
    Ask,
    CommandError,
    ModelInfo,
    ModelOption,
    OfferedModels,
    Person,
    RestingModel,
    SettingInfo,
    Status,
    ToolRun,
)
from plugins.health import ClusterInfo, RecentInfo

A_DAY = 86_400.0
"""Seconds for which failures are shown."""
WELCOME = "You are in now: just write to me, or send /start."


class StoredSettings:
    """The settings book, with every change on disk before it holds. `on_change` hears which setting
    was changed."""

    def __init__(
        self, book: SettingsStore, store: Store, on_change: Callable[[str], None] = lambda key: None
    ) -> None:
        self._book, self._store, self._on_change = book, store, on_change

    def describe(self, key: str, scope: str) -> SettingInfo:
        try:
            return self._book.describe(key, scope)
        except SettingError as error:
            raise CommandError(explain(str(error))) from None

    def describe_all(self, scope: str, keys: Iterable[str] | None = None) -> list[SettingInfo]:
        return list(self._book.describe_all(scope, keys))

    def may_set(self, key: str, scope: str) -> str | None:
        return self._book.may_set(key, scope)

    def once(self, values: Mapping[str, Any], scope: str, by: Person) -> dict[str, Any]:
        try:
            return self._book.once(values, scope, by_user=not by.is_owner)
        except SettingError as error:
            raise CommandError(
                _("Nothing was changed: {error}", error=explain(str(error)))
            ) from None

    async def set(self, key: str, text: str, scope: str, by: Person) -> SettingInfo:
        try:
            value = self._book.check(key, text, scope, by_user=not by.is_owner)
        except SettingError as error:
            raise CommandError(
                _("Nothing was changed: {error}", error=explain(str(error)))
            ) from None
        own = scope if by.is_owner else OF_USERS + scope
        gone = (OF_USERS + scope,)  # an owner's change takes the place of what users set there
        await self._store.write(lambda db: overrides.save(db, own, key, value, gone))
        self._book.set(key, value, scope, by_user=not by.is_owner)
        self._on_change(key)
        return self._book.describe(key, scope)

    async def unset(self, key: str, scope: str, by: Person) -> SettingInfo:
        try:
            self._book.unset(key, scope, by_user=not by.is_owner)
        except SettingError as error:
            raise CommandError(
                _("Nothing was changed: {error}", error=explain(str(error)))
            ) from None

        gone = (OF_USERS + scope, *([scope] if by.is_owner else []))
        await self._store.write(lambda db: overrides.remove(db, gone, key))
        self._on_change(key)
        return self._book.describe(key, scope)


def choice_of(settings: Settings) -> ModelChoice:
    """Return the settings of the model that answers."""
    fallbacks, timeout = settings.fallback_models, settings.request_timeout
    return ModelChoice(settings.model, fallbacks, timeout, settings.brain)


def summary_choice_of(settings: Settings) -> ModelChoice:
    """Return the settings of the model that writes summaries: a brain of its own, which is served
    where the other is unless it says where, or the model that answers."""
    own = settings.context.summary_brain
    if not own.model:
        return choice_of(settings)
    place = own if own.is_elsewhere else settings.brain
    brain = Brain(
        config=place.config,
        provider=place.provider,
        backend=place.backend,
        quirks=place.quirks,
        temperature=own.temperature,
        max_tokens=own.max_tokens,
    )
    choice = ModelChoice(own.model, (), settings.request_timeout, brain)
    return replace(choice, group="context.summary_brain") if own.is_elsewhere else choice


def window_in_force(settings: Settings, model: Model) -> int:
    """Return the context window in tokens: as set, as the model says, as is known of it, or 0."""
    return settings.context.max_tokens or own_window(model)


def summary_window(settings: Settings, model: Model) -> int:
    """Return the same for the model that writes summaries."""
    own = settings.context.summary_brain
    if not own.model:
        return window_in_force(settings, model)
    return own.context.max_tokens or own_window(model)


def own_window(model: Model) -> int:
    """Return the context window in tokens as the model says, or as is known of it where it is
    served; 0 where nobody knows."""
    return model.window or window_of(model.name, model.provider)


class ChosenModels:
    """The model in force for a conversation."""

    def __init__(
        self,
        book: SettingsStore,
        models: Models,
        choose: Callable[[ConversationKey], ModelChoice],
        spending: Spending,
    ) -> None:
        """`choose` says which model answers."""
        self._book, self._models = book, models
        self._choose, self._spending = choose, spending

    def about(self, key: ConversationKey) -> ModelInfo:
        settings = self._book.effective(key.id)
        choice = self._choose(key)
        model = self._models.of(choice)
        window = window_in_force(settings, model)
        where = self._models.where(choice)
        price = None if model.is_free else input_price(model.name, model.provider)
        return ModelInfo(
            model.name,
            window,
            choice.fallbacks,
            model.takes_tools,
            where,
            price,
            long_context_of(model.name),
            "\n\n".join(
                filter(None, (self._spending.describe_choice(key), self._models.advise(choice)))
            ),
            tuple(
                RestingModel(name, why, time.time() + seconds)
                for name, why, seconds in self._models.resting(choice)
            ),
            self._models.stand_in(choice),
            {
                name: said
                for name, learnt in self._models.list_learnt(choice)
                if (said := learnt.describe())
            },
        )

    def forget_learnt(self, key: ConversationKey) -> list[str]:
        """Forget what refusals have taught about the models in force; returns the names of those of
        which something was known."""
        found = self._models.list_learnt(self._choose(key))
        return [name for name, learnt in found if learnt.forget()]

    async def offered(self, key: ConversationKey) -> OfferedModels:
        """Return the models that the endpoint lists, those that are set before them."""
        choice = self._choose(key)
        own = [self._models.of(one) for one in choice.alone if not one.is_agents]
        listed, why_not = list[ListedModel](), ""
        if not self._models.uses_embedded(choice):
            try:
                listed = await self._models.list_models(choice.brain)
            except ModelError as error:
                why_not = str(error)
        provider = own[0].provider
        windows = {one.name: one.window for one in listed}
        names = dict.fromkeys((*(one.name for one in own), *sorted(windows)))
        known = {one.name: one.window for one in own}
        free = {one.name for one in own if one.is_free}
        options = [
            ModelOption(
                name,
                windows.get(name) or known.get(name) or window_of(name, provider),
                None if name in free else price(name, provider),
            )
            for name in names
        ]
        return OfferedModels(options, why_not)


def price(model: str, provider: str) -> tuple[float, float] | None:
    """US dollars for a million tokens that this model reads, and that it writes; None where that is
    unknown."""
    reads, writes = (
        cost_of(model, Usage(prompt, completion), provider)
        for prompt, completion in ((_THOUSANDS, 0), (0, _THOUSANDS))
    )
    if reads is None or writes is None:
        return None
    return reads / _THOUSANDS * 1e6, writes / _THOUSANDS * 1e6


_THOUSANDS = 10_000  # tokens: some prices rise with the size of a prompt


class ConfiguredAgents:
    """The agents of the configuration."""

    def __init__(self, book: SettingsStore, models: Models) -> None:
        self._book, self._models = book, models

    def all(self) -> list[AgentInfo]:
        default = self._info(NO_AGENT, _("what is set for everybody"))
        return [default, *(self._info(a.id, a.description) for a in self._book.agents.values())]

    def _info(self, name: str, description: str) -> AgentInfo:
        settings = self._book.with_agent(name)
        model = self._models.of(choice_of(settings))
        window = window_in_force(settings, model) or DEFAULT_WINDOW
        return AgentInfo(name, description, model.name, window, settings.context.strategy)


class LetIn:
    """The people who are let in; they are told of it."""

    def __init__(self, access: Access, delivery: Delivery, links: Links) -> None:
        self._access, self._delivery, self._links = access, delivery, links

    @property
    def known(self) -> Sequence[Known]:
        return self._access.known

    async def list_pending(self) -> Sequence[Pending]:
        await self._access.take_up()  # main.py lets people in and revokes keys, too
        return await self._access.list_pending()

    async def approve(self, code: str, role: Role, by: str) -> Pending:
        stranger = await self._access.approve(code, role, by)
        place = address_of(stranger.place)
        with self._delivery.speaking_to(place):
            welcome = _(WELCOME)
        await self._delivery.tell(place, welcome)
        return stranger

    async def open_chat(self, address: Address, by: str) -> None:
        await self._access.open_chat(address, by)

    async def revoke(self, who: str) -> Known:
        await self._access.take_up()
        known = self._access.known
        found = [one for one in known if who in (one.id, one.name, f"{one.kind} {one.id}")]
        if not found:
            raise CommandError(
                _("{who!r} is not among the people who were let in; /users lists them.", who=who)
            )
        if len(found) > 1:
            names = _(" and ").join(f"{one.kind} {one.id}" for one in found)
            raise CommandError(
                _("{who!r} could be {names}; give /revoke one of these.", who=who, names=names)
            )
        await self._access.revoke(found[0])
        await self._links.take_up()  # theirs are over
        return found[0]


async def _alone() -> ClusterInfo | None:
    """This process is all of the bot."""
    return None


class Owners(Protocol):
    """The processes that own the conversations of a bot of many."""

    def are_together(self, one: str, other: str) -> bool:
        """Return whether one process owns both identities: ids of conversations, or names."""
        ...

    async def call_owner(self, identity: str, name: str, body: bytes) -> bytes | None:
        """Have the owner of an identity carry out the call of a feature (`parley_calls`); None: it
        is this process. Raises CommandError."""
        ...


class Processes(Struct):
    """The processes that are this bot: one, unless there is a `survey` of many, or `owners`."""

    survey: Callable[[], Awaitable[ClusterInfo | None]] = _alone
    owners: Owners | None = None

    async def look(self) -> ClusterInfo | None:
        return await self.survey()

    def are_together(self, one: str, other: str) -> bool:
        return self.owners is None or self.owners.are_together(one, other)

    async def call_owner(self, identity: str, name: str, body: bytes) -> bytes | None:
        if self.owners is None:
            return None
        return await self.owners.call_owner(identity, name, body)


class OfferedTools(Struct, frozen=True):
    """The tools, for people who call one themselves."""

    agent: Callable[[Conversation, Address], Agent]

    def is_offered(self, ask: Ask, name: str) -> bool:
        return self.agent(ask.conversation, ask.address).toolbox.may_have(name)

    def takes_text(self, ask: Ask, name: str) -> bool:
        agent = self.agent(ask.conversation, ask.address)
        return bool(agent.toolbox.find_text_argument(name))

    async def run(self, ask: Ask, name: str, arguments: Mapping[str, Any]) -> ToolRun:
        agent = self.agent(ask.conversation, ask.address)
        if not agent.toolbox.has(name):
            raise CommandError(
                _(
                    "The tool `{name}` is not offered here; an owner switches it on with `/config "
                    "tools.{name} true`.",
                    name=name,
                )
            )
        shown: list[str] = []
        call = ToolCall(f"call_{uuid4().hex}", name, orjson.dumps(arguments).decode())
        with speaking(ENGLISH):  # the model reads it, too
            seen = replace(agent.surroundings, show=shown.append)
            text, is_error = await agent.toolbox.run(call, seen)
        return ToolRun(call, text, is_error, agent.toolbox.is_untrusted(call), tuple(shown))


class RunningTurns(Struct, frozen=True):
    """The turns under way, and the bot around them."""

    turns: Turns
    channels: tuple[str, ...]
    plugins: tuple[str, ...]
    problems_of: Callable[[ConversationKey], Sequence[str]]
    data: Path
    started: float

    def stop(self, key: ConversationKey) -> bool:
        return self.turns.stop(key)

    async def ask(self, key: ConversationKey, address: Address, said: Message) -> str:
        return await self.turns.ask(key, address, said)

    def status(self, key: ConversationKey) -> Status:
        return Status(
            uptime=time.monotonic() - self.started,
            running=self.turns.queues.running,
            waiting=self.turns.queues.waiting,
            channels=self.channels,
            plugins=self.plugins,
            problems=tuple(self.problems_of(key)),
            data=str(self.data),
        )


class RecentWork(Struct, frozen=True, eq=False, weakref=True):
    """The recent events of this process, and what waits there; `queues` and `channels` by their
    names."""

    recent: RecentActivity
    turns: Turns
    queues: dict[str, KeyedQueues]
    conversations: Conversations
    data: Path
    channels: Mapping[str, Channel]

    def look(self) -> RecentInfo:
        return RecentInfo(
            self.recent.times,
            self.recent.failures.since(time.time() - A_DAY),
            self.oldest,
            self.sizes["replies"],
            self.sizes["summaries"],
        )

    @property
    def oldest(self) -> float:
        """For how many seconds the message waits that waits for longest."""
        return self.turns.oldest

    @property
    def reached(self) -> dict[str, bool]:
        """Return whether channels reach their platforms; those that have not begun here are left
        out."""
        known = {n: one.health for n, one in self.channels.items() if isinstance(one, WithHealth)}
        return {n: one.state == "up" for n, one in known.items() if one.state != "starting"}

    @property
    def sizes(self) -> dict[str, int]:
        """Return how much waits or is under way."""
        loaded = self.conversations.list_loaded()
        summaries = sum(one.compactor.summaries.is_busy for one in loaded)
        return {name: one.size for name, one in self.queues.items()} | {"summaries": summaries}
