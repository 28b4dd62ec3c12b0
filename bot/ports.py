"""The bot's services for commands (`plugins.api.Ports`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from agent.models.base import ModelError
from agent.models.catalogue import input_price, long_context_of, window_of
from agent.models.listed import ListedModel
from agent.tools.base import ToolEffects
from bot.access import Access
from bot.choices import choice_of, price, window_in_force
from bot.delivery import Delivery
from bot.received import Links
from bot.recent import RecentActivity
from bot.runtime import RuntimeConfig
from bot.sending import address_of
from bot.settings import SettingError, SettingsStore
from bot.settings.book import OF_USERS
from bot.settings.schema import NO_AGENT
from bot.turns import Turns
from channels.base import Channel, WithHealth
from channels.language import ENGLISH, _, explain, speaking
from channels.message import Address
from memory.context.settings import DEFAULT_WINDOW
from memory.conversations import Conversations
from memory.keys import ConversationKey
from memory.messages import ToolCall
from memory.record import bot_state
from memory.record.people import KnownPerson, PendingPerson, Role
from memory.record.store import Store
from memory.tasks import KeyedQueues
from plugins.api import (
    AgentInfo,
    Ask,
    CommandError,
    ModelInCooldown,
    ModelInfo,
    ModelOption,
    OfferedModels,
    Person,
    SettingInfo,
    Status,
    ToolRun,
    refusal,
)
from plugins.health import ClusterInfo, ProcessesPort, RecentInfo
from plugins.loader import LoadedPlugins

A_DAY = 86_400.0
"""Seconds for which failures are shown."""
WELCOME = "You have access now: just write to me, or send /start."


class StoredSettings:
    """The settings, with every change on disk before it takes effect. `on_change` is called with
    the key of a changed setting."""

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
        with _refusing():
            return self._book.once(values, scope, by_user=not by.is_owner)

    async def set(self, key: str, text: str, scope: str, by: Person) -> SettingInfo:
        with _refusing():
            value = self._book.check(key, text, scope, by_user=not by.is_owner)
        own = scope if by.is_owner else OF_USERS + scope
        removed = (OF_USERS + scope,)  # an owner's change replaces those of users there
        await self._store.write(lambda db: bot_state.save_override(db, own, key, value, removed))
        self._book.set(key, value, scope, by_user=not by.is_owner)
        self._on_change(key)
        return self._book.describe(key, scope)

    async def unset(self, key: str, scope: str, by: Person) -> SettingInfo:
        with _refusing():
            self._book.unset(key, scope, by_user=not by.is_owner)
        removed = (OF_USERS + scope, *([scope] if by.is_owner else []))
        await self._store.write(lambda db: bot_state.remove_overrides(db, removed, key))
        self._on_change(key)
        return self._book.describe(key, scope)


@contextmanager
def _refusing() -> Iterator[None]:
    """Raise CommandError for a change that does not fit the settings."""
    try:
        yield
    except SettingError as error:
        raise refusal("Nothing was changed: {error}", error=explain(str(error))) from None


class ChosenModels(Struct, frozen=True):
    """The model in force for a conversation, and the models that may be chosen."""

    config: RuntimeConfig

    def about(self, key: ConversationKey) -> ModelInfo:
        config = self.config
        settings = config.book.effective(key.id)
        choice = config.choice(key)
        model = config.models.of(choice)
        window = window_in_force(settings, model)
        where = config.models.where(choice)
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
                filter(None, (config.spending.describe_choice(key), config.models.advise(choice)))
            ),
            tuple(
                ModelInCooldown(name, why, time.time() + seconds)
                for name, why, seconds in config.models.resting(choice)
            ),
            config.models.fallback_in_use(choice),
            {
                name: description
                for name, learnt in config.models.list_learnt(choice)
                if (description := learnt.describe())
            },
        )

    def forget_learnt(self, key: ConversationKey) -> list[str]:
        """Forget the facts learnt from refusals about the models in force; return the names of the
        models that had any."""
        found = self.config.models.list_learnt(self.config.choice(key))
        return [name for name, learnt in found if learnt.forget()]

    async def offered(self, key: ConversationKey) -> OfferedModels:
        """Return the models that the endpoint lists, preceded by the configured ones."""
        config = self.config
        choice = config.choice(key)
        own = [config.models.of(one) for one in choice.alone if not one.is_agents]
        listed, why_not = list[ListedModel](), ""
        if not config.models.uses_embedded(choice):
            try:
                listed = await config.models.list_models(choice.brain)
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
        return OfferedModels(options, why_not, tuple(windows))

    def agents(self) -> list[AgentInfo]:
        default = self._info(NO_AGENT, _("settings that apply to everybody"))
        known = self.config.book.agents.values()
        return [default, *(self._info(one.id, one.description) for one in known)]

    def _info(self, name: str, description: str) -> AgentInfo:
        settings = self.config.book.with_agent(name)
        model = self.config.models.of(choice_of(settings))
        window = window_in_force(settings, model) or DEFAULT_WINDOW
        return AgentInfo(name, description, model.name, window, settings.context.strategy)


class AccessCommands:
    """The people with access; they are notified of it."""

    def __init__(self, access: Access, delivery: Delivery, links: Links) -> None:
        self._access, self._delivery, self._links = access, delivery, links

    @property
    def known(self) -> Sequence[KnownPerson]:
        return self._access.known

    async def list_pending(self) -> Sequence[PendingPerson]:
        await self._access.load()  # main.py grants and revokes access, too
        return await self._access.list_pending()

    async def approve(self, code: str, role: Role, by: str) -> PendingPerson:
        stranger = await self._access.approve(code, role, by)
        place = address_of(stranger.place)
        with self._delivery.speaking_to(place):
            welcome = _(WELCOME)
        await self._delivery.notify(place, welcome)
        return stranger

    async def open_chat(self, address: Address, by: str) -> None:
        await self._access.open_chat(address, by)

    async def revoke(self, who: str) -> KnownPerson:
        await self._access.load()
        known = self._access.known
        found = [one for one in known if who in (one.id, one.name, f"{one.kind} {one.id}")]
        if not found:
            raise refusal("{who!r} has no access; /users lists the people who have.", who=who)
        if len(found) > 1:
            names = _(" and ").join(f"{one.kind} {one.id}" for one in found)
            raise refusal(
                "{who!r} could be {names}; give /revoke one of these.", who=who, names=names
            )
        await self._access.revoke(found[0])
        await self._links.load()  # their links are removed
        return found[0]


class Owners(Protocol):
    """The processes that own the conversations of a clustered bot."""

    def are_together(self, one: str, other: str) -> bool:
        """Return whether one process owns both identities: ids of conversations, or names."""
        ...

    async def call_owner(self, identity: str, name: str, body: bytes) -> bytes | None:
        """Have the owner of an identity execute a feature's call (`parley_calls`). None: this
        process is the owner. Raises CommandError."""
        ...


class Processes(Struct):
    """The processes of this bot: one, unless there is a `survey` of many, or `owners`."""

    survey: ProcessesPort | None = None
    owners: Owners | None = None

    async def status(self) -> ClusterInfo | None:
        return await self.survey.status() if self.survey else None

    def are_together(self, one: str, other: str) -> bool:
        return self.owners is None or self.owners.are_together(one, other)

    async def call_owner(self, identity: str, name: str, body: bytes) -> bytes | None:
        if self.owners is None:
            return None
        return await self.owners.call_owner(identity, name, body)


class OfferedTools(Struct, frozen=True):
    """The tools, for people who call one themselves."""

    config: RuntimeConfig

    def is_offered(self, ask: Ask, name: str) -> bool:
        return self.config.agent(ask.conversation, ask.address).toolbox.may_have(name)

    def takes_text(self, ask: Ask, name: str) -> bool:
        agent = self.config.agent(ask.conversation, ask.address)
        return bool(agent.toolbox.find_text_argument(name))

    async def run(self, ask: Ask, name: str, arguments: Mapping[str, Any]) -> ToolRun:
        agent = self.config.agent(ask.conversation, ask.address)
        if not agent.toolbox.has(name):
            raise refusal(
                "The tool `{name}` is not offered here; an owner switches it on with `/config "
                "tools.{name} true`.",
                name=name,
            )
        shown: list[str] = []
        call = ToolCall(f"call_{uuid4().hex}", name, orjson.dumps(arguments).decode())
        with speaking(ENGLISH):  # the model reads the result as well
            seen = replace(agent.surroundings, effects=ToolEffects(shown))
            text, is_error = await agent.toolbox.run(call, seen)
        return ToolRun(call, text, is_error, agent.toolbox.is_untrusted(call), tuple(shown))


class BotStatus(Struct, frozen=True):
    """The state of the bot as a whole; `left_out` are stored settings that no longer fit."""

    left_out: Sequence[str]
    plugins: LoadedPlugins
    config: RuntimeConfig
    queues: KeyedQueues
    channels: tuple[str, ...]
    started: float = field(default_factory=time.monotonic)

    def of(self, key: ConversationKey) -> Status:
        return Status(
            uptime=time.monotonic() - self.started,
            running=self.queues.running,
            waiting=self.queues.waiting,
            channels=self.channels,
            plugins=tuple(self.plugins.names),
            problems=tuple(self._list_problems(key)),
            data=str(self.config.data),
        )

    def _list_problems(self, key: ConversationKey) -> list[str]:
        """Return the problems of the installation, and of the conversation."""
        config = self.config
        advice = config.models.advise(config.choice(key))
        return [
            *self.left_out,
            *self.plugins.problems,
            *filter(None, [advice, config.spending.find_problem()]),
            *config.skills.describe_left_out(config.folder(key)),
        ]


class RecentWork(Struct, frozen=True, eq=False, weakref=True):
    """The recent events of this process, and its queues; `queues` and `channels` by their names."""

    recent: RecentActivity
    turns: Turns
    queues: dict[str, KeyedQueues]
    conversations: Conversations
    data: Path
    channels: Mapping[str, Channel]

    def status(self) -> RecentInfo:
        return RecentInfo(
            self.recent.times,
            self.recent.failures.since(time.time() - A_DAY),
            self.oldest,
            self.sizes["replies"],
            self.sizes["summaries"],
        )

    @property
    def oldest(self) -> float:
        """The seconds that the oldest message has waited."""
        return self.turns.oldest

    @property
    def reached(self) -> dict[str, bool]:
        """Return whether channels reach their platforms, except for channels that have not started
        here."""
        known = {n: one.health for n, one in self.channels.items() if isinstance(one, WithHealth)}
        return {n: one.state == "up" for n, one in known.items() if one.state != "starting"}

    @property
    def sizes(self) -> dict[str, int]:
        """Return the number of waiting and running items."""
        loaded = self.conversations.list_loaded()
        summaries = sum(one.compactor.summaries.is_busy for one in loaded)
        return {name: one.size for name, one in self.queues.items()} | {"summaries": summaries}
