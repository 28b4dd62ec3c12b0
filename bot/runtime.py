"""The current rules of a conversation: its settings, model, limits and tools.

They are read at each step and never kept, so that `/config` applies from the next one on.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from agent.loop import Agent, StepLimits
from agent.models.base import Model, SamplingParams
from agent.models.partial_calls import MOST_CALLS
from agent.models.selection import ModelChoice, Models
from agent.pictures import UNSEEN_TOKENS, Pictures
from agent.prompt import (
    OFF_RECORD,
    PERSONA,
    Library,
    Prompt,
    Skill,
    base,
    format_skills,
    stateless_base,
)
from agent.tools.base import (
    Permission,
    RemoteTools,
    ToolContext,
    grant_permission,
    refuse_permission,
)
from agent.tools.toolbox import Toolbox
from bot.access import PAGE
from bot.choices import (
    choice_of,
    summary_choice_of,
    summary_window,
    window_in_force,
)
from bot.delivery import columns_of
from bot.settings import Settings, SettingsStore
from bot.spending import UNLIMITED, SpendingRules
from channels.message import Address, CompletionRequest
from memory.context.meter import PromptPrefix
from memory.context.settings import DEFAULT_WINDOW, Limits
from memory.conversation import Conversation
from memory.keys import ConversationKey
from memory.long_term.prompt import NOTHING, MemoryPrompts, PromptMemory
from memory.messages import PICTURE_TOKENS
from memory.record.offload import LocalWorkspace, Offloader
from plugins.hookspecs import RemoteToolsFor
from plugins.rules import find_compacting


class Waits:
    """The time for which turns of each conversation have waited for a person since the start."""

    def __init__(self) -> None:
        self._ended: defaultdict[str, float] = defaultdict(float)
        self._running: dict[str, tuple[float, int]] = {}  # since when, and how many

    def seconds(self, key: ConversationKey) -> float:
        """Return the seconds, including those of a wait that goes on."""
        since, _ = self._running.get(key.id, (time.monotonic(), 0))
        return self._ended.get(key.id, 0.0) + time.monotonic() - since

    @contextmanager
    def count(self, key: ConversationKey) -> Iterator[None]:
        """Add the time spent in the block; concurrent waits count once."""
        since, count = self._running.get(key.id, (time.monotonic(), 0))
        self._running[key.id] = (since, count + 1)
        try:
            yield
        finally:
            since, count = self._running.pop(key.id)
            if count > 1:
                self._running[key.id] = (since, count - 1)
            else:
                self._ended[key.id] += time.monotonic() - since


_MOST_KNOWN = 250  # conversations: somewhat more than stay open
MEMORY_SHARE = 16
"""The divisor for the part of the window that `MEMORY.md` may take in the prompt: a sixteenth."""


class PermissionAsker(Protocol):
    """The feature that asks a person whether a tool may run (hook `parley_approvals`)."""

    async def ask(self, key: ConversationKey, address: Address, wanted: Permission) -> None:
        """Wait for permission in the chat at this address. Raises ToolError if it is denied."""
        ...


class TurnConfig(Struct, frozen=True):
    """The settings and the model of a conversation at one step. `version` is that of the settings,
    `revision` that of the model, at its creation. `choice` is the model that answers; with
    `is_thrifty` it depends on the spending."""

    version: int
    settings: Settings
    model: Model
    revision: int
    limits: Limits
    toolbox: Toolbox
    choice: ModelChoice
    remote: RemoteTools | None = None
    is_thrifty: bool = False


class RuntimeConfig(Struct, frozen=True):
    """The settings and the models, as a conversation needs them."""

    book: SettingsStore
    models: Models
    prompt: Prompt
    toolbox: Toolbox
    skills: Library
    data: Path
    approvals: Sequence[PermissionAsker]
    plugin_offloader: Offloader | None = None
    memories: MemoryPrompts | None = None
    services: Mapping[type, object] = field(default_factory=dict)
    spending_rules: Sequence[SpendingRules] = ()
    remote_tools: Sequence[RemoteToolsFor] = ()
    waits: Waits = field(default_factory=Waits)
    _known: dict[str, TurnConfig] = field(default_factory=dict)
    _folders: dict[str, Path] = field(default_factory=dict)
    _prefixes: dict[str, tuple[TurnConfig, tuple[Skill, ...], str]] = field(default_factory=dict)

    @property
    def spending(self) -> SpendingRules:
        """Return the spending rules of a feature, which is opened after this."""
        return next(iter(self.spending_rules), UNLIMITED)

    def at(self, key: ConversationKey) -> TurnConfig:
        """Return the current settings and model. They are rebuilt only after a change, so a call is
        cheap."""
        known = self._known.get(key.id)
        if (
            known
            and known.version == self.book.version
            and (known.remote is None or known.remote == self.remote_for(key, None))
            and known.revision == known.model.revision
            and not (known.is_thrifty and known.choice != self.choice(key))
        ):
            return known
        settings = self.book.effective(key.id)
        thrifty = self.spending.choice(key, settings)
        choice = thrifty or choice_of(settings)
        remote = self.remote_for(key, None) if settings.tools.offer != "none" else None
        model = self.models.of(choice)
        window = window_in_force(settings, model) or DEFAULT_WINDOW
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
            self._prefixes.clear()
            self._folders.clear()
        made = self._known[key.id] = TurnConfig(
            self.book.version,
            settings,
            model,
            model.revision,
            limits_of(settings, window, model.name, model.sees),
            self.toolbox.select(settings.tools, window).beside(remote),
            choice,
            remote,
            thrifty is not None,
        )
        return made

    def remote_for(self, key: ConversationKey, address: Address | None) -> RemoteTools | None:
        """Return a conversation's tools of other programs, from the first feature that has some;
        with an address, for the person there."""
        found = (ask(key, address) for ask in self.remote_tools)
        return next((tools for tools in found if tools is not None), None)

    def choice(self, key: ConversationKey) -> ModelChoice:
        """Return the model that answers: the configured one, or a cheaper one if the budget is
        short."""
        settings = self.book.effective(key.id)
        return self.spending.choice(key, settings) or choice_of(settings)

    def summary_choice(self, key: ConversationKey) -> ModelChoice:
        """Return the model that writes summaries."""
        settings = self.book.effective(key.id)
        has_own = settings.context.summary_brain.model
        return summary_choice_of(settings) if has_own else self.choice(key)

    def summary_model(self, key: ConversationKey) -> Model:
        return self.models.of(self.summary_choice(key))

    def summary_window(self, key: ConversationKey) -> int:
        return (
            summary_window(self.book.effective(key.id), self.summary_model(key)) or DEFAULT_WINDOW
        )

    def prefix(self, key: ConversationKey) -> PromptPrefix:
        """Return the part of a request that precedes the conversation."""
        return self._prefix(key, self.at(key), self.skills.of(self.folder(key)))

    def _prefix(
        self, key: ConversationKey, now: TurnConfig, there: tuple[Skill, ...]
    ) -> PromptPrefix:
        """Return the prefix for these skills."""
        has_tools = now.model.takes_tools and now.settings.tools.offer != "none"
        skills = there if has_tools else ()
        known = self._prefixes.get(key.id)
        if known is None or known[0] is not now or known[1] != skills:
            system = base(
                now.settings.system_prompt,
                is_small=self.models.uses_embedded(now.choice),
                asks_terse=now.settings.context.strategy == "slim",
                offers=self._offers if now.settings.context.offload else "",
                skills=format_skills(skills),
                tools=now.toolbox.listed,
                has_tools=has_tools,
            )
            known = self._prefixes[key.id] = (now, skills, system)
        tools = now.toolbox.wire if has_tools else ()
        memory = ("memory", self._memory(key, now).text)
        return self.prompt.prefix(key, known[2], tools, (*self.prompt.sections(key), memory))

    def memory_in_prompt(self, key: ConversationKey) -> PromptMemory:
        """Return the part of `MEMORY.md` that is in the prompt."""
        return self._memory(key, self.at(key))

    def _memory(self, key: ConversationKey, now: TurnConfig) -> PromptMemory:
        if self.memories is None:
            return NOTHING
        most = min(now.settings.memory.prompt_tokens, now.limits.window // MEMORY_SHARE)
        return self.memories.of(key.audience, most, now.settings.memory.left_out)

    def agent(self, conversation: Conversation, address: Address) -> Agent:
        """Return the agent for the next turn of a conversation, asked by the person at this
        address."""
        key = conversation.key
        workspace, now = self.workspace(key), self.at(key)
        skills = self.skills.of(workspace)
        return Agent(
            model=now.model,
            prefix=self._prefix(key, now, skills),
            toolbox=now.toolbox.beside(self.remote_for(key, address))
            if now.remote
            else now.toolbox,
            surroundings=ToolContext(
                key,
                workspace,
                now.settings.zone,
                conversation,
                skills=skills,
                settings=now.settings.tools,
                approve=partial(self._approve, key, address),
                place=columns_of(address),
                services=self.services,
            ),
            pictures=Pictures(workspace),
            limits=partial(self._step_limits, key),
        )

    def _step_limits(self, key: ConversationKey, most_calls: int | None = None) -> StepLimits:
        settings = self.book.effective(key.id)
        most_calls = settings.agent_max_calls if most_calls is None else most_calls
        return StepLimits(settings.agent_max_steps, most_calls, settings.context.max_images)

    def stateless_agent(self, key: ConversationKey, request: CompletionRequest) -> Agent:
        """Return the agent for a stateless request. It has the client's tools, or the bot's tools
        that need no conversation; permission can't be asked for."""
        self.spending.begin(key)
        now, workspace = self.at(key), self.workspace(key)
        settings, model = now.settings, now.model
        toolbox = now.toolbox.alone() if request.tools is None else Toolbox(())
        wire = toolbox.wire if request.tools is None else tuple(request.tools)
        has_system = any(one.role == "system" for one in request.messages)
        is_asked = settings.tools.approve == "ask"
        skills = self.skills.of(workspace) if toolbox.wire else ()
        system = stateless_base(
            "" if has_system else settings.system_prompt or PERSONA,
            bool(toolbox.wire) and model.takes_tools,
            format_skills(skills),
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
                approve=refuse_permission if is_asked else grant_permission,
                services=self.services,
            ),
            pictures=Pictures(workspace),
            limits=partial(self._step_limits, key, None if request.tools is None else MOST_CALLS),
            wishes=SamplingParams(request.max_tokens, request.temperature, request.parameters),
        )

    def agent_off_record(self, key: ConversationKey, user: str) -> Agent:
        """Return the agent for a private conversation. It has no tools, since their effects are
        stored."""
        now, folder = self.at(key), self.folder(key)
        persona = now.settings.system_prompt
        is_small = self.models.uses_embedded(now.choice)
        system = base(persona, is_small=is_small, has_tools=False)
        sections = (*self.prompt.sections(key), ("memory", self._memory(key, now).text))
        return Agent(
            model=self.spending.limit(now.model, key, user),
            prefix=self.prompt.prefix(key, f"{system}\n\n{OFF_RECORD}", (), sections),
            toolbox=Toolbox(()),
            surroundings=ToolContext(key, folder, now.settings.zone),
            pictures=Pictures(folder),
            limits=partial(StepLimits, 1, 1),
        )

    async def _approve(
        self, key: ConversationKey, address: Address, permission: Permission
    ) -> None:
        """Ask the person there if the settings require it; the holder of a key can't be asked.
        Raises ToolError."""
        if self.book.effective(key.id).tools.approve != "ask":
            return
        is_by_key = address.channel == PAGE and address.user
        if is_by_key or not self.approvals:
            await refuse_permission(permission)
        for one in self.approvals:
            with self.waits.count(key):
                await one.ask(key, address, permission)

    def workspace(self, key: ConversationKey) -> Path:
        """Return the folder of a conversation's audience, created on first use."""
        folder = self.folder(key)
        if not os.path.isdir(f"{folder}/files"):  # checked for every message
            (folder / "files").mkdir(parents=True, exist_ok=True)
        return folder

    def folder(self, key: ConversationKey) -> Path:
        """Return the folder of a conversation's audience, which may not exist yet."""
        if (folder := self._folders.get(key.audience)) is None:
            folder = self._folders[key.audience] = self.data / "audiences" / key.audience
        return folder

    def offloader(self, key: ConversationKey) -> Offloader | None:
        """Return the offloader that stores the entries removed from a conversation's context."""
        if not self.book.effective(key.id).context.offload:
            return None
        return self.plugin_offloader or LocalWorkspace(self.workspace(key))

    @property
    def _offers(self) -> str:
        """Return the part of the prompt that says how to find removed entries."""
        return str(getattr(self.plugin_offloader or LocalWorkspace, "offers", ""))

    def restores_exactly(self) -> bool:
        return self.book.effective().restore == "exact"

    def files_quota(self, key: ConversationKey) -> int:
        """Return the megabytes of files that a conversation may store."""
        return self.book.effective(key.id).tools.files_quota

    def turn_timeout(self, key: ConversationKey) -> float:
        return self.book.effective(key.id).turn_timeout

    def summarizes_itself(self, key: ConversationKey) -> bool:
        """Return whether the model that answers writes the summaries, too."""
        return not self.book.effective(key.id).context.summary_brain.model

    def zone(self) -> tzinfo:
        return self.book.effective().zone

    @property
    def shutdown_timeout(self) -> float:
        return self.book.effective().shutdown_timeout


def limits_of(settings: Settings, window: int, model: str, sees: bool = True) -> Limits:
    """Return the limits that these settings mean for a model with this window."""
    context = settings.context
    return Limits(
        strategy=context.strategy,
        max_turns=settings.agent_max_context_turns,
        max_tokens=settings.agent_max_context_tokens,
        window=window,
        fold_turns=0 if context.fold_turns == "auto" else context.fold_turns,
        auto_compact=context.auto_compact and not find_compacting(settings.hooks),
        model=model,
        picture=PICTURE_TOKENS if sees else UNSEEN_TOKENS,
        context=context,
    )
