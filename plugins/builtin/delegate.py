"""`delegate`: the model hands a task to a sub-agent, and gets its result (flo.monster)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from plugins.api import Tool, ToolContext, ToolError, hookimpl, tool


@tool(needs_conversation=True)
async def delegate(
    context: ToolContext, task: Annotated[str, Field(min_length=1, max_length=100_000)]
) -> str:
    """Hand a task to a sub-agent that works on it alone, with the same tools and files, and tells
    you its result. Good for a task that takes many steps or much reading of which you only need the
    outcome. Tasks that do not depend on each other can be handed out in the same reply.

    Args:
        task: All that the sub-agent is told: it sees nothing of this conversation. Say what is to
            be done, what it needs to know, and what the result should hold.
    """
    if context.delegate is None:
        raise ToolError("No sub-agent can be sent from here: do the task yourself.")
    if not task.strip():
        raise ToolError("delegate wants a task: what the sub-agent shall do.")
    return await context.delegate(task)


@hookimpl
def parley_tools() -> list[Tool]:
    return [delegate]
