"""The hooks that a plugin may implement."""

from __future__ import annotations

import pluggy

from plugins.api import Command, Tool

hookspec = pluggy.HookspecMarker("parley")


@hookspec
def parley_commands() -> list[Command]:
    """Slash commands that this plugin adds. A name that is taken already is refused."""
    raise NotImplementedError


@hookspec
def parley_tools() -> list[Tool]:
    """Tools for the model that this plugin adds. A name that is taken already is refused."""
    raise NotImplementedError
