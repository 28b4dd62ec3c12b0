"""The hooks of the tour."""

from __future__ import annotations

from plugins.api import Command, hookimpl
from plugins.tour.commands import tour


@hookimpl
def parley_commands() -> list[Command]:
    return [tour]
