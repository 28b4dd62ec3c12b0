"""The available tools, and the one place where their calls are run."""

from __future__ import annotations

import difflib
import itertools
import logging
import re
from abc import ABC, abstractmethod
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import cached_property
from typing import Any

from msgspec.structs import replace
from pydantic_core import to_json

from agent.settings import ToolSettings
from agent.tools import ToolError
from agent.tools.base import Approve, Permission, RemoteTools, Tool, ToolContext
from agent.tools.lean import GUIDE, list_groups, make_lean_tools, unwrap_call
from agent.tools.schema import takes
from memory.messages import ToolCall
from memory.patterns import lazy
from memory.plain_text import without_controls
from memory.services import Redactor
from memory.tasks import is_stopped


class FileKeeper(ABC):
    """The feature that keeps versions of files, one of the services of features."""

    @abstractmethod
    def watch(self, context: ToolContext, path: str | None) -> AbstractAsyncContextManager[None]:
        """Keep versions of a tool's changes in `files/` in this context: of the file at `path`, as
        the model wrote it, or of any (None). It never prevents a tool from running."""


def watched(
    tool: Tool, arguments: Mapping[str, Any], context: ToolContext
) -> AbstractAsyncContextManager[None]:
    """Return the context in which a tool runs. Without a conversation nothing is kept, since there
    is no turn to undo."""
    if context.conversation is not None and tool.touches & {"writes", "shell"}:
        for one in context.services.values():
            if isinstance(one, FileKeeper):
                path = arguments.get(tool.target) if tool.target else None
                return one.watch(context, path if isinstance(path, str) else None)
    return nullcontext()


log = logging.getLogger(__name__)

LONGEST_QUESTION = 10_000
"""The maximum characters of a request for permission."""
_PER_TOKEN = 4  # characters of JSON in English
_NEAREST = 3  # tools that are suggested to a model for an unknown one
_TICKS = lazy("`+")

Begin = Callable[[bool], Awaitable[None]]
"""Stores that a call is about to run, and whether it must not run twice."""


async def _keep_nothing(is_once: bool) -> None:
    """Do nothing."""


class Toolbox:
    """Tools by name, in a constant order; `wire` is their schemas as sent to a model. `redactor`
    removes secrets from results. A lean toolbox sends the schemas of two tools that find and call
    all others, including `remote` ones; `listed` is the prompt's text about these."""

    def __init__(
        self,
        tools: Iterable[Tool],
        redactor: Redactor | None = None,
        is_lean: bool = False,
        remote: RemoteTools | None = None,
    ) -> None:
        """Create the toolbox. Raises ValueError if two tools have the same name."""
        ordered = sorted(tools, key=lambda tool: tool.name)
        for one, other in itertools.pairwise(ordered):
            if one.name == other.name:
                raise ValueError(f"two tools are named {one.name!r}")
        self._redactor, self._remote = redactor or Redactor(), remote
        self._is_lean = is_lean and bool(ordered)
        self._own = {tool.name: tool for tool in ordered}
        named = self._own if self._is_lean else {}
        lean = make_lean_tools(named, remote) if named or remote else ()
        self._tools = self._own | {tool.name: tool for tool in lean}
        sent = (*(() if named else ordered), *lean)
        self.wire: tuple[Mapping[str, Any], ...] = tuple(tool.to_wire() for tool in sent)
        own = f"{GUIDE}\n{list_groups(ordered)}" if named else ""
        parts = (own, remote.listed if remote else "")
        self.listed = "\n\n".join(filter(None, parts))
        self._offered: dict[tuple[frozenset[str], bool], Toolbox] = {}
        self._alone: Toolbox | None = None

    def has(self, name: str) -> bool:
        """Return whether there is a tool of this name."""
        return name in self._own

    def may_have(self, name: str) -> bool:
        """Return whether there is a tool of this name, or may be one on a remote server."""
        return self.has(name) or self._is_remote(name)

    def find_text_argument(self, name: str) -> str:
        """Return the argument of a tool for a single text: its only required one, if that is a
        string; otherwise ""."""
        tool = self._own.get(name)
        needed = tool.parameters.get("required", []) if tool else []
        if tool is None or len(needed) != 1:
            return ""
        is_text = tool.parameters["properties"][needed[0]].get("type") == "string"
        return str(needed[0]) if is_text else ""

    def without(self, name: str) -> Toolbox:
        """Return a toolbox without this tool."""
        tools = (t for t in self._own.values() if t.name != name)
        return Toolbox(tools, self._redactor, self._is_lean, self._remote)

    def beside(self, remote: RemoteTools | None) -> Toolbox:
        """Return these tools and those of other programs, if any are listed."""
        if remote is not None and not remote.listed:
            remote = None
        if remote is self._remote:
            return self
        return Toolbox(self._own.values(), self._redactor, self._is_lean, remote)

    def alone(self) -> Toolbox:
        """Return a toolbox of the tools that need no conversation, with all their schemas: a
        client's request goes to the model unchanged. Made once."""
        if self._alone is None:
            tools = (t for t in self._own.values() if not t.needs_conversation)
            self._alone = Toolbox(tools, self._redactor)
        return self._alone

    def select(self, settings: ToolSettings, window: int = 0) -> Toolbox:
        """Return the toolbox that the settings offer to a model with this window in tokens (0:
        unknown). Cached, since it is called at every step."""
        tools = self._own.values()
        if settings.offer == "none":
            return self._offer(frozenset(self._own), is_lean=False)
        off = frozenset(t.name for t in tools if t.switch and not getattr(settings, t.switch))
        if settings.offer != "auto":
            return self._offer(off, is_lean=settings.offer == "lean")
        whole = self._offer(off, is_lean=False)
        is_much = bool(window) and whole.size > settings.share * window
        return self._offer(off, is_lean=True) if is_much else whole

    def _offer(self, off: frozenset[str], *, is_lean: bool) -> Toolbox:
        if (off, is_lean) not in self._offered:
            chosen = (t for t in self._own.values() if t.name not in off)
            self._offered[off, is_lean] = Toolbox(chosen, self._redactor, is_lean)
        return self._offered[off, is_lean]

    @cached_property
    def size(self) -> int:
        """The approximate number of tokens of the schemas; an exact count is not needed."""
        return len(to_json(list(self.wire))) // _PER_TOKEN

    def unwrap(self, calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
        """Return the calls that a model means, with the real names of their tools."""
        named = tuple(map(self._with_real_name, calls))
        if self._is_lean or self._remote:
            return tuple(self._with_real_name(unwrap_call(call)) for call in named)
        return named

    def _with_real_name(self, call: ToolCall) -> ToolCall:
        name = call.name
        if name in self._tools or self._is_remote(name):  # the usual case
            return call
        real = resolve_name(name, self._tools)
        if real == name and self._is_remote(bare := strip_name(name)):
            real = bare
        return call if real == name else replace(call, name=real)

    async def run(
        self, call: ToolCall, context: ToolContext, begin: Begin = _keep_nothing
    ) -> tuple[str, bool]:
        """Run a call and return its result, as text for the model, and whether it is an error.
        `begin` is awaited before a tool runs, once it is allowed.

        Raises only the cancellation of the caller.
        """
        try:
            tool = await self._tool(call.name, context)
            arguments = _arguments(tool, call)
            context = replace(context, approve=_asking(tool.name, context.approve))
            if tool.asks_first:
                await context.approve(permission_for(tool, arguments, context.settings))
            await begin(tool.is_once)
            async with watched(tool, arguments, context):
                result = await tool.run(arguments, context)
            return self._redactor.hide(_as_text(result)), False
        except ToolError as refusal:
            return self._redactor.hide(_as_text(str(refusal))), True
        except (Exception, SystemExit, CancelledError) as error:  # the one boundary of all tools
            if isinstance(error, CancelledError) and is_stopped():
                raise
            log.exception("the tool %s failed", call.name)
            fault = type(error).__name__
            return (
                f"{call.name} failed because of an error inside it ({fault}); the log says more.",
                True,
            )

    def batches(self, calls: Sequence[ToolCall]) -> list[list[ToolCall]]:
        """Return the calls in order, in batches: consecutive parallel ones together, each other one
        alone."""
        groups = itertools.groupby(calls, key=self._is_parallel)
        return [
            batch
            for is_parallel, group in groups
            for batch in ([list(group)] if is_parallel else [[call] for call in group])
        ]

    def is_untrusted(self, call: ToolCall) -> bool:
        """Return whether the result of a call is untrusted."""
        tool = self._tools.get(call.name)
        if tool is None:
            return self._is_remote(call.name)
        return bool({"network", "shell"} & tool.touches)

    def _is_parallel(self, call: ToolCall) -> bool:
        if call.name in self._tools:
            return self._tools[call.name].is_parallel
        return not self._is_remote(call.name)

    def _is_remote(self, name: str) -> bool:
        return self._remote is not None and self._remote.owns(name)

    async def _tool(self, name: str, context: ToolContext) -> Tool:
        if name in self._tools:
            return self._tools[name]
        if self._remote is not None and self._remote.owns(name):
            if (found := await self._remote.find(name, context)) is not None:
                return found
            raise ToolError(f"There is no tool {name[:100]!r} here; look it up with tool_search.")
        nearest = difflib.get_close_matches(name[:100], self._tools, n=_NEAREST)
        guess = f" Did you mean {' or '.join(nearest)}?" if nearest else ""
        known = ", ".join(self._tools) or "none"
        raise ToolError(f"There is no tool {name[:100]!r}.{guess} Tools: {known}.")


def _arguments(tool: Tool, call: ToolCall) -> dict[str, Any]:
    try:
        return call.parse()
    except ValueError as error:
        raise ToolError(f"{call.name} was not run: {error}. {takes(tool.parameters)}") from None


def _asking(tool: str, approve: Approve) -> Approve:
    """Return a function that asks a person, and names the requesting tool."""

    async def ask(wanted: Permission) -> None:
        await approve(replace(wanted, tool=tool))

    return ask


def permission_for(tool: Tool, arguments: Mapping[str, Any], settings: ToolSettings) -> Permission:
    """Return the permission to request before a call. Raises ToolError if it is too long to be
    read."""
    lines = "\n".join(f"{name}: {_readable(value)}" for name, value in arguments.items())
    if len(lines) > LONGEST_QUESTION:
        raise ToolError(
            f"{tool.name} was not run: its arguments have more than {LONGEST_QUESTION:,} "
            "characters, too many for a person to check before saying yes. Make them shorter."
        )
    fence = "`" * (max((len(run) for run in _TICKS.findall(lines)), default=0) + 3)
    what = f"Run `{tool.name}` with exactly this:\n\n{fence}\n{lines}\n{fence}"
    return Permission(what, is_for_owner="shell" in tool.touches and settings.shell_unboxed)


def _readable(value: object) -> str:
    """Return a value without invisible characters, and without those that reorder the visible
    ones."""
    text = value if isinstance(value, str) else to_json(value).decode()
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


def _as_text(result: object) -> str:
    """Return a result as text without control characters, for the model and people. Other results
    become JSON."""
    if result is None:
        return "(no output)"
    text = result if isinstance(result, str) else to_json(result, fallback=str).decode()
    text = without_controls(text)
    return text if text.strip() else "(no output)"


# --- names as models write them -------------------------------------------------------------------

# With the namespace of another API, with tokens of a chat template after them, with dashes, in
# another case.

_TOKEN = lazy(r"<\|.*", re.DOTALL)
"""A token of a template, and everything after it: `current_time<|channel|>commentary` (gpt-oss)."""
_NAMESPACE = lazy(r"^(?:functions?|default_api|tools?|api|mcp)\s*(?:\.|::|/|:)\s*", re.I)
"""`functions.` (OpenAI), `default_api.` (Gemini), `tool.`."""
_CALLED = lazy(r"\s*\(\s*\)?$")
_LONGEST = 200


def resolve_name(name: str, known: Collection[str]) -> str:
    """Return the real tool that a name means, if there is exactly one; otherwise the name
    unchanged."""
    if name in known or len(name) > _LONGEST:
        return name
    bare = strip_name(name)
    if bare in known:
        return bare
    plain = _plain(bare)
    meant = [one for one in known if _plain(one) == plain] if plain else []
    return meant[0] if len(meant) == 1 else name


def strip_name(name: str) -> str:
    """Return a name without namespaces, tokens and quotes."""
    bare = _TOKEN.sub("", name).strip(" \t\r\n\"'`")
    bare = _CALLED.sub("", bare)
    while (shorter := _NAMESPACE.sub("", bare)) != bare:
        bare = shorter
    return bare


def _plain(name: str) -> str:
    return name.replace("-", "_").casefold()
