"""The interface of what keeps track of the files that tools change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from agent.tools.base import Tool, ToolContext


class FileKeeper(ABC):
    """The feature that keeps versions of files: one of the services that features have opened."""

    @abstractmethod
    def watch(self, context: ToolContext, path: str | None) -> AbstractAsyncContextManager[None]:
        """Keep what a tool changes in `files/` meanwhile: the file at `path`, as the model wrote
        it, or any (None). It never keeps a tool from running."""


def watched(
    tool: Tool, arguments: Mapping[str, Any], context: ToolContext
) -> AbstractAsyncContextManager[None]:
    """Return what is entered while a tool runs. Without a conversation nothing is kept: there is no
    turn that could be undone."""
    if context.conversation is not None and tool.touches & {"writes", "shell"}:
        for one in context.services.values():
            if isinstance(one, FileKeeper):
                path = arguments.get(tool.target) if tool.target else None
                return one.watch(context, path if isinstance(path, str) else None)
    return nullcontext()
