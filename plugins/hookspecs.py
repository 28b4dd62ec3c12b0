"""The hooks that a plugin may implement: functions of its module, or methods of the object that its
`parley_open` returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import pluggy

from agent.prompt import PromptSection
from agent.tools.base import RemoteTools
from channels.base import Logins
from channels.message import Address, Inbound, Reply
from memory.events import Listener
from memory.keys import ConversationKey
from memory.mirror import Mirror
from memory.record.feature_tables import Step
from memory.record.forget import FeatureRows
from memory.record.offload import Offloader
from memory.record.search.likeness import Likeness
from memory.request_log import RequestLog
from memory.turn_log import OpenTurn
from plugins.api import (
    Command,
    ContextPart,
    HookContext,
    InForce,
    Offer,
    Person,
    SaidWords,
    Tool,
    Verb,
)

hookspec = pluggy.HookspecMarker("parley")


class Background(Protocol):
    """Work of a feature beside the turns."""

    async def idle(self) -> None:
        """Wait until nothing is under way."""
        ...

    async def stop(self) -> None:
        """End what is under way; it goes on at the next start."""
        ...


RemoteToolsFor = Callable[[ConversationKey, Address | None], RemoteTools | None]
"""Finds the tools of other programs for a conversation; where an address is given, for the person
who asks there. None: there are none until the settings change. It is asked at every step, must be
quick, and returns an equal object as long as nothing has changed."""


@hookspec
def parley_tables() -> Sequence[Step]:
    """Return the migrations of this plugin's own tables, oldest first: SQL statements, or functions
    of the database. Those that were not carried out yet are, before the plugin is opened. Append,
    and never change one. Names of tables begin with the plugin's name."""
    raise NotImplementedError


@hookspec
def parley_open(kernel: Any) -> object:
    """Return an object of the plugin, made once the kernel is there (`bot/kernel.py`) and before
    anything is taken in; it may be a coroutine, which is awaited. Its methods may be
    `parley_listeners` and the hooks below `parley_system_prompt`; commands, tools, the offloader
    and the system prompt are the module's."""
    raise NotImplementedError


@hookspec
def parley_commands() -> list[Command]:
    """Slash commands that this plugin adds. A name that is taken already is refused."""
    raise NotImplementedError


@hookspec
def parley_verbs() -> list[Verb]:
    """Subcommands that this plugin adds to commands, such as `/context`. A name that is taken
    already is refused."""
    raise NotImplementedError


@hookspec
def parley_tools() -> list[Tool]:
    """Tools for the model that this plugin adds. A name that is taken already is refused."""
    raise NotImplementedError


@hookspec
def parley_listeners(context: HookContext) -> list[Listener]:
    """Return listeners to the events of conversations (`memory/events.py`); an implementation that
    needs nothing of the bot may leave the argument out."""
    raise NotImplementedError


@hookspec
def parley_offloader() -> Offloader:
    """Return the keeper of what leaves the context, in place of files in the chat's folder: an
    object of this shape (`memory/record/offload.py`). One plugin may bring one."""
    raise NotImplementedError


@hookspec
def parley_ledger() -> object:
    """Return the ledger, which keeps what calls to models cost: an object, or a module, with the
    functions of `memory.ledger.Ledger`. One plugin may bring one."""
    raise NotImplementedError


@hookspec
def parley_request_log() -> type[RequestLog]:
    """Return the log of what is sent to the model: a class derived from
    `memory.request_log.RequestLog`, of which each conversation has an object. One plugin may bring
    one."""
    raise NotImplementedError


@hookspec
def parley_mirror() -> type[Mirror]:
    """Return what writes the files of conversations: a class derived from `memory.mirror.Mirror`.
    One plugin may bring one."""
    raise NotImplementedError


@hookspec
def parley_likeness() -> type[Likeness]:
    """Return what compares the meaning of a question with that of messages, for the search: a class
    derived from `memory.record.search.likeness.Likeness`. One plugin may bring one."""
    raise NotImplementedError


@hookspec
def parley_system_prompt(prompt: str, key: ConversationKey) -> str:
    """Return the system prompt as this plugin wants it, made from what it is so far; `key` says for
    which conversation. Asked at every step, in the order in which plugins are loaded, the built-in
    ones first: it must be quick, and say the same as long as nothing has changed, since the
    provider's cache holds only as long as the prompt does (no clock, no counter). One that fails is
    skipped."""
    raise NotImplementedError


@hookspec
def parley_prompt_section() -> PromptSection:
    """Return a part of the system prompt that stands at its end and is counted by itself
    (`agent.prompt.PromptSection`)."""
    raise NotImplementedError


@hookspec
def parley_said() -> Callable[[SaidWords], Awaitable[None]]:
    """Return a function that hears what a person has said, when it was taken into a turn and before
    the model is asked."""
    raise NotImplementedError


@hookspec
def parley_in_force() -> InForce:
    """Return a function that says, where turns are removed from a context, what stays in force
    there."""
    raise NotImplementedError


@hookspec
def parley_offers() -> Offer:
    """Return a function that says what is offered where a person has let a conversation end with
    another turn: by `/undo`, in a branch, or by going to one. It is awaited with who asks, the
    conversation, and the turn (None: the conversation is as it was left)."""
    raise NotImplementedError


@hookspec
def parley_services() -> Sequence[object]:
    """Objects that commands and tools find by their class: `ask.service(Kind)`,
    `context.service(Kind)`. The object that `parley_open` returns is one of itself."""
    raise NotImplementedError


@hookspec
def parley_background() -> Background:
    """Work that is waited for, and ended, when the bot stops."""
    raise NotImplementedError


@hookspec
def parley_closing() -> Callable[[], Awaitable[None]]:
    """Return a function that releases what turns and commands have used, such as processes. It is
    awaited when the bot stops, after these have ended."""
    raise NotImplementedError


@hookspec
def parley_setting_changed() -> Callable[[], None]:
    """Return a function that is called when settings were changed while the bot runs, here or by
    another process."""
    raise NotImplementedError


@hookspec
def parley_remote_tools() -> RemoteToolsFor:
    """Return a function that finds the tools of other programs for a conversation. The prompt says
    where they are, and the model looks them up."""
    raise NotImplementedError


@hookspec
def parley_context_parts() -> Mapping[str, ContextPart]:
    """Parts of what `/context detail` and `/context search` show, by the names of these."""
    raise NotImplementedError


@hookspec
def parley_stop() -> Callable[[ConversationKey], bool]:
    """Return a function that ends what this plugin does in a conversation beside its turns, for
    `/stop`; it returns whether there was anything."""
    raise NotImplementedError


@hookspec
def parley_runs() -> object:
    """Return the handler (`bot/runs.py`) of messages that this plugin puts into the inbox by
    itself. One plugin may have such."""
    raise NotImplementedError


@hookspec
def parley_speech_to_text() -> object:
    """Return an object that transcribes voice messages before their turn
    (`bot.turns.SpeechToText`)."""
    raise NotImplementedError


@hookspec
def parley_text_to_speech() -> object:
    """Return an object that reads answers aloud (`bot.answers.TextToSpeech`)."""
    raise NotImplementedError


@hookspec
def parley_notes() -> Callable[[OpenTurn], Sequence[str | Reply]]:
    """Return a function that says, below the answer of a turn, what this plugin has to say of it; a
    `Reply` brings its buttons with it."""
    raise NotImplementedError


@hookspec
def parley_rows() -> FeatureRows:
    """Rows that this plugin keeps for turns, so that `/forget` and retention delete them."""
    raise NotImplementedError


@hookspec
def parley_approvals() -> object:
    """Return a way to ask a person whether a tool may run (`bot.runtime.PermissionAsker`). Where
    several plugins bring one, each has to allow it; where none does, what must be asked for is
    refused."""
    raise NotImplementedError


@hookspec
def parley_logins() -> Logins:
    """Return the logins on the page, and the keys to OpenAI's protocol. Without them nobody signs
    in."""
    raise NotImplementedError


@hookspec
def parley_meant() -> Callable[[Inbound, ConversationKey, Person], str]:
    """Return a function that says which command a message in words stands for ("": none), such as a
    typed "yes" where a question waits in this conversation. It is asked for each message that is
    neither a command nor has files, and must be quick."""
    raise NotImplementedError


@hookspec
def parley_spending() -> object:
    """Rules for spending (`bot.spending.SpendingRules`): what is told, refused, or answered by a
    cheaper model. One plugin may have such."""
    raise NotImplementedError


@hookspec
def parley_routes() -> Callable[[Any], Sequence[object]]:
    """Return a function from the bot (`channels.base.Bot`) to the operations that this plugin
    serves over HTTP (`channels.web.operations.Operation`)."""
    raise NotImplementedError


@hookspec
def parley_calls() -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
    """Work that the process does which owns a conversation, by name, for `Bot.call_owner`: what is
    handed over and what comes back is JSON."""
    raise NotImplementedError
