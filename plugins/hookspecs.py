"""The hooks that a plugin may implement."""

from __future__ import annotations

import pluggy

from memory.events import Listener
from memory.keys import ConversationKey
from memory.record.offload import Offloader
from plugins.api import Command, HookContext, Tool

hookspec = pluggy.HookspecMarker("parley")


@hookspec
def parley_commands() -> list[Command]:
    """Slash commands that this plugin adds. A name that is taken already is refused."""
    raise NotImplementedError


@hookspec
def parley_tools() -> list[Tool]:
    """Tools for the model that this plugin adds. A name that is taken already is refused."""
    raise NotImplementedError


@hookspec
def parley_listeners(context: HookContext) -> list[Listener]:
    """Who hears what happens in conversations (`memory/events.py`); what needs nothing of the
    bot may leave the argument out."""
    raise NotImplementedError


@hookspec
def parley_offloader() -> Offloader:
    """Who keeps what leaves the context, in place of files in the chat's folder: an object of this
    shape (`memory/record/offload.py`). One plugin may bring one."""
    raise NotImplementedError


@hookspec
def parley_system_prompt(prompt: str, key: ConversationKey) -> str:
    """The system prompt as this plugin wants it, made from what it is so far; `key` says for which
    conversation. Asked at every step, in the order in which plugins are loaded, the built-in ones
    first: it must be quick, and say the same as long as nothing has changed, since the provider's
    cache holds only as long as the prompt does (no clock, no counter). One that fails is skipped.
    """
    raise NotImplementedError
