"""Tools that the prompt only names (`tools.offer: lean`): the model looks up their parameters with
`tool_search`, and calls them with `use_tool`.

The schemas are tool results, so the request's tools, and with them the prompt's beginning, stay the
same. A call by `use_tool` is converted into a call of the tool itself first: permissions, limits,
display and records concern the real tool. `View.to_wire` wraps it again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Annotated, Any

from msgspec.structs import replace
from pydantic import Field

from agent.tools import ToolError
from agent.tools.base import RemoteTools, Tool, ToolContext
from agent.tools.schema import tool
from memory.messages import TOOL_SEARCH, USE_TOOL, ToolCall
from memory.patterns import lazy

GUIDE = (
    f"Your tools, by group. Call them with {USE_TOOL}; look up with {TOOL_SEARCH} how, where the "
    "names of their parameters don't tell you."
)
_NAME = lazy(r"[A-Za-z0-9_-]{1,64}")
_BROKEN = lazy(
    r'\s*\{\s*"name"\s*:\s*"(?!use_tool")([A-Za-z0-9_-]{1,64})"\s*,\s*"arguments"\s*:\s*(.*)',
    re.DOTALL,
)
"""The arguments of a call of `use_tool` that are invalid JSON, with the name before them."""
_WORD = lazy(r"\w+")
_FOUND = 8
"""The maximum number of tools whose schemas one search returns."""
_MORE = 100
"""The maximum number of further tools that it names."""
_DETAILED = 8
"""The maximum size of a group for naming its tools' parameters, too."""
_NAMED = 25
"""The maximum number of tools of a group that are named."""


def make_lean_tools(
    tools: Mapping[str, Tool], remote: RemoteTools | None = None
) -> tuple[Tool, Tool]:
    """Return the two tools that represent all of these, and the remote ones."""

    @tool
    async def tool_search(
        query: Annotated[str, Field(max_length=200)], context: ToolContext
    ) -> str:
        """Say how tools are called.

        Args:
            query: A tool, a group, or words.
        """
        theirs, wrong = await remote.all(context) if remote else ((), "")
        found = find_tools([*tools.values(), *theirs], query)
        if wrong or any(remote and remote.owns(one.name) for one in found):
            context.from_outside()  # their descriptions are foreign text
        shown = [
            json.dumps(one.to_wire()["function"], ensure_ascii=False) for one in found[:_FOUND]
        ]
        if len(found) > _FOUND:
            shown.append(_name_more([one.name for one in found[_FOUND:]]))
        listed = (list_groups(tools.values()), remote.listed if remote else "")
        groups = "\n".join(filter(None, listed))
        nothing = f"No tool fits {query!r}. Groups:\n{groups}"
        return "\n".join(filter(None, ("\n".join(shown) or nothing, wrong)))

    @tool
    def use_tool(name: str, arguments: dict[str, Any]) -> str:
        """Call a tool."""
        del arguments  # it names no tool, or it would have been called
        raise ToolError(
            f"There is no tool {name[:100]!r}; {TOOL_SEARCH} finds those that there are."
        )

    return tool_search, use_tool


def _name_more(names: list[str]) -> str:
    left = len(names) - _MORE
    return f"More: {', '.join(names[:_MORE])}{f' and {left} others' if left > 0 else ''}"


def find_tools(tools: Iterable[Tool], query: str) -> list[Tool]:
    """Return the tools of these names, or else of these groups, or else those with the most and the
    rarest of the words, the best first."""
    words = set(_WORD.findall(query.casefold()))
    every = list(tools)
    named = [one for one in every if one.name.casefold() in words]
    grouped = [one for one in every if one.group.casefold() in words]
    if named or grouped:
        return named or grouped
    texts = {one.name: f"{one.name} {one.group} {one.description}".casefold() for one in every}
    holders = {word: [name for name, text in texts.items() if word in text] for word in words}
    scores = dict.fromkeys(texts, 0.0)
    for names in holders.values():
        for name in names:
            scores[name] += 1 / len(names)
    fitting = [one for one in every if scores[one.name]]
    return sorted(fitting, key=lambda one: -scores[one.name])


def list_groups(tools: Iterable[Tool]) -> str:
    """Return a line for each group, in a constant order."""
    ordered = sorted(tools, key=lambda one: (one.group, one.name))
    groups = groupby(ordered, key=lambda one: one.group)
    return "\n".join(
        f"- {name or 'other'}: {_name_tools(list(members))}" for name, members in groups
    )


def _name_tools(members: list[Tool]) -> str:
    if len(members) <= _DETAILED:
        return ", ".join(f"{one.name}({_name_parameters(one)})" for one in members)
    more = [f"and {len(members) - _NAMED} more"] if len(members) > _NAMED else []
    return ", ".join([*(one.name for one in members[:_NAMED]), *more])


def _name_parameters(one: Tool) -> str:
    required = one.parameters.get("required", ())
    parameters = one.parameters.get("properties", {})
    kinds = {name: "|".join(map(str, one.get("enum", ()))) for name, one in parameters.items()}
    optional = {name: "" if name in required else "?" for name in parameters}
    return ", ".join(f"{name}{optional[name]}{kind and f'={kind}'}" for name, kind in kinds.items())


def unwrap_call(call: ToolCall) -> ToolCall:
    """Return the real call in a call of `use_tool`, or the call itself if there is none. Arguments
    given as text, or beside the name, are accepted; invalid ones keep the name, and the call's
    result reports the error."""
    if call.name != USE_TOOL:
        return call
    try:
        wanted = call.parse()
    except ValueError:
        broken = _BROKEN.match(call.arguments)
        return replace(call, name=broken[1], arguments=broken[2]) if broken else call
    name = wanted.pop("name", "")
    if not isinstance(name, str) or name == USE_TOOL or not _NAME.fullmatch(name):
        return call
    arguments = wanted.get("arguments", wanted)
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments or {}, ensure_ascii=False)
    return replace(call, name=name, arguments=arguments)
