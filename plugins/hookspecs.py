"""The hooks that a plugin may implement."""

from __future__ import annotations

import pluggy

from memory.events import Listener
from plugins.api import Command, House, Tool

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
def parley_listeners(house: House) -> list[Listener]:
    """Who hears what happens in conversations (`memory/events.py`); what needs nothing of the
    house may leave the argument out."""
    raise NotImplementedError
