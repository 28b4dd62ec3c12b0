"""The interface of a tool, and its context at run time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar
from zoneinfo import ZoneInfo

from msgspec import Struct, field

from agent.prompt import Skill
from agent.settings import ToolSettings
from agent.tools import ToolError
from memory.conversation import Conversation
from memory.keys import ConversationKey
from memory.record.mailbox import AddressColumns

T = TypeVar("T")
NOT_RUN = "It was not run:"
"""The beginning of the result of a call that a person has denied."""
Touch = Literal["reads", "writes", "network", "shell"]
"""The kinds of resources that a tool uses outside the conversation."""

Delegate = Callable[[str], Awaitable[str]]
"""Has a sub-agent work on a task, and returns its result. Raises ToolError."""


class Permission(Struct, frozen=True):
    """A permission that a tool needs from a person: `what` shows exactly what it will do, in
    Markdown. `covers` is what is allowed together with it until the next start ("": nothing), such
    as a site; some may be granted by an owner alone. `tool` is the name of the requesting tool."""

    what: str
    covers: str = ""
    is_for_owner: bool = False
    tool: str = ""


Approve = Callable[[Permission], Awaitable[None]]
"""Asks a person; returns if it is allowed, and raises ToolError if it is denied."""


async def refuse_permission(permission: Permission) -> None:
    """Deny, because no person can be asked. Raises ToolError."""
    raise ToolError(f"{NOT_RUN} nobody can be asked for permission. {permission.what}")


async def grant_permission(permission: Permission) -> None:
    """Allow everything, if the settings require no permission."""


class ToolEffects:
    """The effects of a call besides its text. `pictures` are the pictures to show with the answer,
    by their paths ("data/….png"); None without a viewer."""

    def __init__(self, pictures: list[str] | None = None) -> None:
        self.pictures, self.is_untrusted = pictures, False

    @property
    def has_outside(self) -> bool:
        """Return whether the model may have seen untrusted text."""
        return True


class ToolContext(Struct, frozen=True):
    """The context of a tool: `workspace` is the audience's own folder, the only one it may access.

    Only its `files/` is writable. `conversation` is that of the running turn; `delegate` is None if
    no sub-agent may be started, as in a sub-agent itself. `skills` are those in the system prompt;
    `settings` is the current section `tools`. `approve` asks a person. A tool with a foreign result
    calls `from_outside`, so that the result is marked (not needed for a tool that uses the network
    or a shell); `has_outside` says whether the model's context has such text. `place` is the origin
    of the question; None if no person is there to ask, so that nothing may be set up. `services`
    are the objects opened by features, by their class.
    """

    key: ConversationKey
    workspace: Path
    timezone: ZoneInfo
    conversation: Conversation | None = None
    delegate: Delegate | None = None
    skills: tuple[Skill, ...] = ()
    settings: ToolSettings = field(default_factory=ToolSettings)
    approve: Approve = refuse_permission
    effects: ToolEffects = field(default_factory=ToolEffects)
    place: AddressColumns | None = None
    services: Mapping[type, object] = field(default_factory=dict)

    def from_outside(self) -> None:
        """Mark the result as untrusted text."""
        self.effects.is_untrusted = True

    def has_outside(self) -> bool:
        """Return whether the model may have seen untrusted text."""
        return self.effects.has_outside

    def service(self, kind: type[T]) -> T:
        """Return the object of this class that a feature has opened. Raises ToolError without that
        feature."""
        found = self.services.get(kind)
        if not isinstance(found, kind):
            raise ToolError(f"{NOT_RUN} this is not installed here.")
        return found

    def section(self, kind: type[T]) -> T:
        """Return the settings that a feature has added to the section `tools`."""
        assert isinstance(self.settings, kind)
        return self.settings


class Tool(Struct, frozen=True):
    """A function that the model may call.

    `parameters` is the JSON Schema of its arguments; `run` takes the checked arguments and a
    context and returns text for the model. A sync function runs in a thread. `is_parallel`: it may
    run concurrently with others of the same reply. `switch` names the setting in the section
    `tools` that enables it ("": always enabled). `asks_first`: a person must allow each call, and
    sees its arguments. `is_once`: it must not run twice; a call interrupted by a crash is not
    rerun, and the model is told so. `needs_conversation`: it works on a conversation, and is not
    offered without one. `target` is the argument with the one file of the workspace that it writes;
    a writing tool without it may change any file. `group` is the plugin that provides it.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[[dict[str, Any], ToolContext], Awaitable[str]]
    touches: frozenset[Touch] = frozenset()
    is_parallel: bool = True
    switch: str = ""
    asks_first: bool = False
    is_once: bool = False
    needs_conversation: bool = False
    target: str = ""
    group: str = ""

    def to_wire(self) -> dict[str, Any]:
        """Return the schema in the form sent to a model."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": dict(self.parameters),
            },
        }


class RemoteTools(Protocol):
    """Tools of other programs. The prompt only names their sources: they are found by `tool_search`
    and called by `use_tool` alone. A feature implements it (`parley_remote_tools`)."""

    @property
    def listed(self) -> str:
        """Return the sentence of the prompt on their sources, reachable or not; "" without any."""
        ...

    def owns(self, name: str) -> bool:
        """Return whether a tool of this name would be one of theirs."""
        ...

    async def all(self, context: ToolContext) -> tuple[Sequence[Tool], str]:
        """Return the tools, and a note on unreachable ones."""
        ...

    async def find(self, name: str, context: ToolContext) -> Tool | None:
        """Return the tool of this name, for the person there."""
        ...
