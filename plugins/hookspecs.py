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
from memory.record.database import Step
from memory.record.forget import FeatureRows
from memory.record.offload import Offloader
from memory.record.search.likeness import Likeness
from memory.services import Mirror, RequestLog
from memory.turn_log import OpenTurn
from plugins.api import (
    Command,
    ContextPart,
    HookContext,
    InForce,
    Offer,
    Person,
    Tool,
    UserWords,
    Verb,
)

hookspec = pluggy.HookspecMarker("parley")


class Background(Protocol):
    """Background work of a feature, beside the turns."""

    async def idle(self) -> None:
        """Wait until no work is running."""
        ...

    async def stop(self) -> None:
        """Stop running work; it resumes at the next start."""
        ...


RemoteToolsFor = Callable[[ConversationKey, Address | None], RemoteTools | None]
"""A function that finds the tools of other programs for a conversation; with an address, for the
person there. It returns None if there are none until the settings change. It is called at every
step, must be fast, and returns an equal object as long as nothing has changed."""


@hookspec
def parley_tables() -> Sequence[Step]:
    """Return the migrations of this plugin's own tables, oldest first: SQL statements, or functions
    of the database. New ones are applied before the plugin is opened. Append migrations, and never
    change one. Table names begin with the plugin's name."""
    raise NotImplementedError


@hookspec
def parley_open(kernel: Any) -> object:
    """Return an object of the plugin. Called once the kernel exists (`bot/app.py`) and before
    any message is accepted; it may be a coroutine, which is awaited. The object's methods may
    implement `parley_listeners` and the hooks below `parley_system_prompt`; commands, tools, the
    offloader and the system prompt must be functions of the module."""
    raise NotImplementedError


@hookspec
def parley_commands() -> list[Command]:
    """Return the slash commands that this plugin adds. A name that is already used is refused."""
    raise NotImplementedError


@hookspec
def parley_verbs() -> list[Verb]:
    """Return the subcommands that this plugin adds to commands such as `/context`. A name that is
    already used is refused."""
    raise NotImplementedError


@hookspec
def parley_tools() -> list[Tool]:
    """Return the tools for the model that this plugin adds. A name that is already used is
    refused."""
    raise NotImplementedError


@hookspec
def parley_listeners(context: HookContext) -> list[Listener]:
    """Return listeners to the events of conversations (`memory/events.py`); an implementation that
    does not need the context may omit the argument."""
    raise NotImplementedError


@hookspec
def parley_offloader() -> Offloader:
    """Return the offloader for content that is removed from the context, in place of files in the
    chat's folder: an object with the interface in `memory/record/offload.py`. Only one plugin may
    implement this."""
    raise NotImplementedError


@hookspec
def parley_ledger() -> object:
    """Return the ledger, which stores the cost of calls to models: an object, or a module, with the
    functions of `memory.ledger.Ledger`. Only one plugin may implement this."""
    raise NotImplementedError


@hookspec
def parley_request_log() -> type[RequestLog]:
    """Return the log of requests to the model: a subclass of `memory.services.RequestLog`, which
    is instantiated for each conversation. Only one plugin may implement this."""
    raise NotImplementedError


@hookspec
def parley_mirror() -> type[Mirror]:
    """Return the writer of the files of conversations: a subclass of `memory.services.Mirror`. Only
    one plugin may implement this."""
    raise NotImplementedError


@hookspec
def parley_likeness() -> type[Likeness]:
    """Return the comparison of a question's meaning with that of messages, for the search: a
    subclass of `memory.record.search.likeness.Likeness`. Only one plugin may implement this."""
    raise NotImplementedError


@hookspec
def parley_system_prompt(prompt: str, key: ConversationKey) -> str:
    """Return the changed system prompt of the conversation `key`, made from the `prompt` so far.
    Called at every step, in the order in which plugins are loaded, built-in ones first. It must be
    fast, and return the same text as long as nothing has changed, since any change invalidates the
    provider's cache (no clock, no counter). A hook that fails is skipped."""
    raise NotImplementedError


@hookspec
def parley_prompt_section() -> PromptSection:
    """Return a part of the system prompt that is placed at its end and counted separately
    (`agent.prompt.PromptSection`)."""
    raise NotImplementedError


@hookspec
def parley_said() -> Callable[[UserWords], Awaitable[None]]:
    """Return a function that is called with the words of a person, once they are added to a turn
    and before the model is called."""
    raise NotImplementedError


@hookspec
def parley_in_force() -> InForce:
    """Return a function that describes what stays in force when turns are removed from a
    context."""
    raise NotImplementedError


@hookspec
def parley_offers() -> Offer:
    """Return a function that makes an offer after a person has changed the last turn of a
    conversation: by `/undo`, in a branch, or by switching to one. It is awaited with the command's
    call, the conversation, and the turn (None: the conversation is unchanged)."""
    raise NotImplementedError


@hookspec
def parley_services() -> Sequence[object]:
    """Objects that commands and tools find by their class: `ask.service(Kind)`,
    `context.service(Kind)`. The object that `parley_open` returns is one of itself."""
    raise NotImplementedError


@hookspec
def parley_background() -> Background:
    """Return background work, which is awaited and stopped when the bot stops."""
    raise NotImplementedError


@hookspec
def parley_closing() -> Callable[[], Awaitable[None]]:
    """Return a function that releases resources of turns and commands, such as processes. It is
    awaited when the bot stops, after these have ended."""
    raise NotImplementedError


@hookspec
def parley_setting_changed() -> Callable[[], None]:
    """Return a function that is called when settings were changed while the bot runs, by this or
    another process."""
    raise NotImplementedError


@hookspec
def parley_remote_tools() -> RemoteToolsFor:
    """Return a function that finds the tools of other programs for a conversation. The prompt names
    their sources, and the model searches them."""
    raise NotImplementedError


@hookspec
def parley_context_parts() -> Mapping[str, ContextPart]:
    """Return parts of the output of `/context detail` and `/context search`, by the names of
    these."""
    raise NotImplementedError


@hookspec
def parley_stop() -> Callable[[ConversationKey], bool]:
    """Return a function for `/stop` that stops the work of this plugin in a conversation other than
    its turns; it returns whether there was any."""
    raise NotImplementedError


@hookspec
def parley_runs() -> object:
    """Return the handler (`bot/received.py`) of messages that this plugin itself puts into the
    inbox. Only one plugin may implement this."""
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
    """Return a function whose notes are shown below the answer of a turn; a `Reply` brings its
    buttons."""
    raise NotImplementedError


@hookspec
def parley_rows() -> FeatureRows:
    """Return the rows that this plugin stores for turns, so that `/forget` and retention delete
    them."""
    raise NotImplementedError


@hookspec
def parley_approvals() -> object:
    """Return a way to ask a person whether a tool may run (`bot.runtime.PermissionAsker`). If
    several plugins implement this, each must allow it; if none does, tools that need permission are
    refused."""
    raise NotImplementedError


@hookspec
def parley_logins() -> Logins:
    """Return the logins on the page, and the keys to OpenAI's protocol. Without them, nobody can
    sign in."""
    raise NotImplementedError


@hookspec
def parley_meant() -> Callable[[Inbound, ConversationKey, Person], str]:
    """Return a function that returns the command that a message in words stands for ("": none),
    such as a typed "yes" while a question waits in this conversation. It is called for each message
    that is neither a command nor has files, and must be fast."""
    raise NotImplementedError


@hookspec
def parley_spending() -> object:
    """Return the rules for spending (`bot.spending.SpendingRules`): notices, refusals, and a
    cheaper model. Only one plugin may implement this."""
    raise NotImplementedError


@hookspec
def parley_routes() -> Callable[[Any], Sequence[object]]:
    """Return a function from the bot (`channels.base.Bot`) to the operations that this plugin
    serves over HTTP (`channels.web.operations.Operation`)."""
    raise NotImplementedError


@hookspec
def parley_calls() -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
    """Return functions that run in the process which owns a conversation, by name, for
    `Bot.call_owner`. Their arguments and results are JSON."""
    raise NotImplementedError
