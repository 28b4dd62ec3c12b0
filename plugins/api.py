"""All that the author of a plugin may import, and all that a command may ask of the bot.

A plugin is a module with hooks (`plugins/hookspecs.py`):

    from plugins.api import Ask, Reply, command, hookimpl

    @command("roll", "Roll a die")
    async def roll(ask: Ask) -> Reply:
        return Reply("You rolled a 4.")

    @hookimpl
    def parley_commands():
        return [roll]
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import pluggy

from agent.tools.base import Tool, ToolContext, ToolError
from agent.tools.schema import tool
from channels.message import Action, Address, Reply
from memory.conversation import Conversation
from memory.keys import ConversationKey
from memory.record.ledger import Bill

__all__ = [
    "Action",
    "Address",
    "Ask",
    "Command",
    "CommandError",
    "Person",
    "Ports",
    "Reply",
    "SettingInfo",
    "Sub",
    "Tool",
    "ToolContext",
    "ToolError",
    "command",
    "hookimpl",
    "tool",
]

hookimpl = pluggy.HookimplMarker("parley")


class CommandError(Exception):
    """A command's refusal: the text is a sentence for the person who asked."""


@dataclass(frozen=True, slots=True)
class Person:
    """Who speaks: `id` as it stands in `owners` ("telegram/42"), and what they may do."""

    id: str
    role: Literal["owner", "user"]

    @property
    def is_owner(self) -> bool:
        return self.role == "owner"


@dataclass(frozen=True, slots=True)
class SettingInfo:
    """A setting as a person sees it. `layer` says where the value comes from, `wants` what may
    be set ("a whole number from 1 to 1000"); `choices` is empty where any value in a range is
    possible; `is_per_conversation` says whether `--here` may set it."""

    key: str
    value: Any
    default: Any
    layer: str
    meaning: str
    wants: str
    unit: str = ""
    choices: tuple[str, ...] = ()
    is_per_conversation: bool = False


class SettingsPort(Protocol):
    """The settings, as commands may see and change them. `scope` is "" for everywhere, else a
    conversation's id. A refused change raises CommandError and changes nothing."""

    def describe(self, key: str, scope: str) -> SettingInfo: ...

    def describe_all(self, scope: str) -> list[SettingInfo]: ...

    async def set(self, key: str, text: str, scope: str) -> SettingInfo: ...

    async def unset(self, key: str, scope: str) -> SettingInfo: ...


@dataclass(frozen=True, slots=True)
class Status:
    """The bot as a whole: seconds since its start, turns running and messages waiting."""

    uptime: float
    running: int
    waiting: int
    channels: tuple[str, ...]
    plugins: tuple[str, ...]
    problems: tuple[str, ...]
    data: str


class TurnsPort(Protocol):
    def stop(self, key: ConversationKey) -> bool:
        """Stop the turn that runs in this conversation; False when none does."""
        ...

    def status(self) -> Status: ...


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The model in force for a conversation. `window` in tokens, 0 where it is unknown."""

    name: str
    window: int
    fallbacks: tuple[str, ...]
    takes_tools: bool
    where: str


class ModelsPort(Protocol):
    def about(self, key: ConversationKey) -> ModelInfo: ...


class LedgerPort(Protocol):
    async def bill(self, since: float) -> Bill: ...

    async def by_model(self, since: float) -> list[tuple[str, str, Bill]]: ...


@dataclass(frozen=True, slots=True)
class Ports:
    """What commands may ask of the bot."""

    settings: SettingsPort
    turns: TurnsPort
    models: ModelsPort
    ledger: LedgerPort
    commands: Mapping[str, Command]
    version: str


@dataclass(frozen=True, slots=True)
class Ask:
    """What a command is handed: `text` is what follows its name."""

    text: str
    address: Address
    person: Person
    conversation: Conversation
    bot: Ports

    @property
    def words(self) -> list[str]:
        return self.text.split()

    def require_owner(self, what: str) -> None:
        """Refuse, unless an owner asks: `what` completes "Only an owner may …"."""
        if not self.person.is_owner:
            raise CommandError(f"Only an owner may {what}; you are {self.person.id}.")


Run = Callable[[Ask], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Sub:
    """A subcommand, for help and completion: "clear" of "/context clear"."""

    name: str
    summary: str


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command. `usage` shows its arguments ("[clear]")."""

    name: str
    summary: str
    run: Run
    usage: str = ""
    subs: tuple[Sub, ...] = ()


def command(
    name: str, summary: str, usage: str = "", subs: Sequence[tuple[str, str]] = ()
) -> Callable[[Run], Command]:
    """Make a command from a function: `subs` are pairs of a subcommand and its summary."""

    def make(run: Run) -> Command:
        return Command(name, summary, run, usage, tuple(Sub(*sub) for sub in subs))

    return make
