"""The interface of a tool, and the context that it is handed when it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar
from zoneinfo import ZoneInfo

from msgspec import Struct, field

from agent.skills import Skill
from agent.tools import ToolError
from agent.tools.settings import ToolSettings
from memory.conversation import Conversation
from memory.keys import ConversationKey
from memory.record import fence
from memory.record.mailbox import AddressColumns

T = TypeVar("T")
NOT_RUN = "It was not run:"
"""The beginning of the result of a call that a person has not allowed."""
Touch = Literal["reads", "writes", "network", "shell"]
"""The kinds of things that a tool touches outside the conversation."""

Delegate = Callable[[str], Awaitable[str]]
"""Has a sub-agent work on a task, and returns its result. Raises ToolError."""


class Permission(Struct, frozen=True):
    """A permission that a tool needs of a person: `what` shows exactly what it wants to do, in
    Markdown. `covers` is what is allowed together with it until the next start ("": nothing), such
    as a site; some only an owner may allow. `tool` is the name of the one that asks."""

    what: str
    covers: str = ""
    is_for_owner: bool = False
    tool: str = ""


Approve = Callable[[Permission], Awaitable[None]]
"""Asks a person; returns when it is allowed, and raises ToolError when it is not."""


async def refuse_permission(permission: Permission) -> None:
    """Refuse, where nobody can be asked. Raises ToolError."""
    raise ToolError(f"{NOT_RUN} nobody can be asked for permission. {permission.what}")


async def grant_permission(permission: Permission) -> None:
    """Allow all, where the settings want nobody to be asked."""


def _mark_nothing() -> None:
    """Mark nothing, where no result is recorded."""


def _is_unknown() -> bool:
    """Return True: where nobody knows what the model has seen, it may be anything."""
    return True


class ToolContext(Struct, frozen=True):
    """The context of a tool: `workspace` is the audience's own folder, the only one it may touch.

    Only `files/` in it may be written. `conversation` is that of the running turn; `delegate` is
    None where no sub-agent may be sent, as in a sub-agent itself. `skills` are those that the
    system prompt lists, `settings` the section `tools` as it holds now. `approve` asks a person. A
    tool with a result that somebody else wrote calls `from_outside` (a tool that touches the
    network or a shell need not), so that the result is marked; `has_outside` says whether the model
    has such text before it. A tool that replaces a file calls `confirm` just before, in a thread:
    it raises where another process has taken the conversation over, and may have written there
    since. `place` is where the question came from; None where nobody is there to ask, so that
    nothing may be set up; `services` are the objects that features have opened, by their class.
    `show` shows a picture with the answer, by its path ("data/….png"); None where nobody sees it.
    """

    key: ConversationKey
    workspace: Path
    timezone: ZoneInfo
    conversation: Conversation | None = None
    delegate: Delegate | None = None
    skills: tuple[Skill, ...] = ()
    settings: ToolSettings = field(default_factory=ToolSettings)
    approve: Approve = refuse_permission
    from_outside: Callable[[], None] = _mark_nothing
    has_outside: Callable[[], bool] = _is_unknown
    confirm: Callable[[], None] = fence.confirm
    place: AddressColumns | None = None
    services: Mapping[type, object] = field(default_factory=dict)
    show: Callable[[str], None] | None = None

    def service(self, kind: type[T]) -> T:
        """Return the object of this class that a feature has opened. Raises ToolError where that
        feature is not there."""
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
    context and returns text for the model. A sync function is run in a thread by the mechanism.
    `is_parallel`: it may run beside others of the same reply. `switch` names the setting in the
    section `tools` without which it is not offered to the model ("": it always is).
    `asks_first`: a person is asked before each call, and shown its arguments. `is_once`: it must
    not run twice; a call of it that a crash cut short is not run again, and the model is told so.
    `needs_conversation`: it works on a conversation, and is not offered where there is none.
    `target` is the argument that names the one file of the workspace that it writes; one that
    writes without it may change any.
    `group` is the plugin that it comes from.
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
        """Return the schema as it is sent to a model."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": dict(self.parameters),
            },
        }


class RemoteTools(Protocol):
    """Tools of other programs, of which the prompt only says where they are: they are found by
    `tool_search` and called by `use_tool` alone. A feature implements it
    (`parley_remote_tools`)."""

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
