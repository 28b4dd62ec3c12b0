"""The tool with which the model reads a skill."""

from __future__ import annotations

import difflib

from plugins.api import Tool, ToolContext, ToolError, hookimpl, tool


@tool(touches={"reads"})
def read_skill(context: ToolContext, name: str) -> str:
    """Read the instructions of a skill.

    Args:
        name: The skill's name, as the system prompt lists it.
    """
    by_name = {skill.name: skill for skill in context.skills}
    if name in by_name:
        return by_name[name].text()
    near = difflib.get_close_matches(name, by_name, n=1)
    guess = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(by_name) or 'none'}."
    raise ToolError(f"There is no skill {name[:100]!r}; {guess}")


@hookimpl
def parley_tools() -> list[Tool]:
    return [read_skill]
