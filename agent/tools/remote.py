"""Tools of other programs, of which the prompt only says where they are: the interface that a
feature implements (`parley_remote_tools`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agent.tools.base import Tool, ToolContext


class RemoteTools(Protocol):
    """Tools that are found by `tool_search` and called by `use_tool` alone."""

    @property
    def listed(self) -> str:
        """Return the sentence of the prompt on where they are, whether these places can be reached
        or not; "" where there are none."""
        ...

    def owns(self, name: str) -> bool:
        """Return whether a tool of this name is one of theirs, if there is one."""
        ...

    async def all(self, context: ToolContext) -> tuple[Sequence[Tool], str]:
        """Return the tools that there are, and what is to be said of those that can't be
        reached."""
        ...

    async def find(self, name: str, context: ToolContext) -> Tool | None:
        """Return the tool of this name, for who asks there."""
        ...
