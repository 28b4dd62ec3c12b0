"""The section `mcp`: the servers, the chats that they serve, and their permissions."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from memory.patterns import lazy
from plugins.features import Fault, SettingFaults, SettingsSection
from plugins.rules.rule import quote

NAME = r"[a-z][a-z0-9-]{0,23}"
"""The pattern of a server's name. The names of its tools begin with it and two underscores."""
MOST_SERVERS = 100
SECRET = lazy(r"\{\{\s*secret\.(\w+)\s*\}\}", re.ASCII)
_SECRET_NAME = lazy(r"key|token|secret|pass|authorization|cookie", re.IGNORECASE)
_CHAT = r"(owners|users|groups|[a-z][a-z0-9_-]*/[^\s\p{C},]+)"
_Word = Annotated[str, StringConstraints(max_length=4_000, pattern=r"^[^\x00]*$")]
_Pattern = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class McpServer(BaseModel):
    """A server: a `command` to start, or a `url` to call. `tools` are patterns of the tools that it
    may offer, `allow` of those that need no permission; `serves` names the chats. `roots` passes it
    the folder of their people as its working folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, StringConstraints(pattern=f"^{NAME}$")]
    command: _Word = ""
    args: tuple[_Word, ...] = Field(default=(), max_length=100)
    env: Mapping[_Word, _Word] = Field(default_factory=dict, max_length=100)
    url: Annotated[str, StringConstraints(pattern=r"^(https?://\S+)?$", max_length=2_000)] = ""
    headers: Mapping[_Word, _Word] = Field(default_factory=dict, max_length=100)
    transport: Literal["auto", "http", "sse"] = "auto"
    roots: bool = False
    about: Annotated[str, StringConstraints(max_length=200, pattern=r"^\P{C}*$")] = ""
    tools: tuple[_Pattern, ...] = Field(default=("*",), max_length=200)
    serves: tuple[Annotated[str, StringConstraints(pattern=f"^{_CHAT}$")], ...] = ("owners",)
    approve: Literal["ask", "never"] = "ask"
    allow: tuple[_Pattern, ...] = Field(default=(), max_length=200)

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        if bool(self.command.strip()) == bool(self.url):
            raise ValueError("needs a command, or a url, and not both")
        return self

    @property
    def is_process(self) -> bool:
        """Return whether it runs on this machine, outside of the sandbox."""
        return bool(self.command)

    def offers(self, tool: str) -> bool:
        """Return whether this tool may be used at all."""
        return any(fnmatchcase(tool, pattern) for pattern in self.tools)

    def asks(self, tool: str) -> bool:
        """Return whether a person is asked before each call of this tool."""
        return self.approve == "ask" and not any(fnmatchcase(tool, one) for one in self.allow)


class ServerFaults(SettingFaults):
    """The errors in the settings of servers."""

    SETTING: ClassVar[str] = "mcp.servers"


def parse_servers(written: Any) -> tuple[McpServer, ...]:
    """Return the servers of the setting, which is a mapping by name, or a list in which each has a
    `name`. Raises ServerFaults."""
    named = _by_place(written)
    if len(named) > MOST_SERVERS:
        raise ServerFaults([Fault((), f"has {len(named)} servers; {MOST_SERVERS} may be.")])
    for place, one in named:
        if not isinstance(one, Mapping):
            wrong = f"is {quote(one)}; it needs a command or a url."
            raise ServerFaults([Fault((place,), wrong)])
    faults: list[Fault] = []
    found: dict[str, McpServer] = {}
    for place, one in named:
        try:
            server = McpServer.model_validate(one)
        except ValidationError as error:
            faults += (_fault(place, detail) for detail in error.errors(include_url=False))
            continue
        if server.name in found:
            faults.append(Fault((place,), f"is a second server {server.name!r}; rename it."))
        found[server.name] = server
    if faults:
        raise ServerFaults(faults)
    return tuple(found.values())


def _by_place(written: Any) -> list[tuple[str | int, Any]]:
    if isinstance(written, Mapping):
        return [
            (str(name), {**one, "name": name} if isinstance(one, Mapping) else one)
            for name, one in written.items()
        ]
    if isinstance(written, list | tuple):
        return list(enumerate(written))
    raise ServerFaults([Fault((), f"is {quote(written)}; it must be servers by their name.")])


def _fault(place: str | int, detail: Any) -> Fault:
    where = (place, *(part for part in detail["loc"] if isinstance(part, str)))
    match detail["type"]:
        case "extra_forbidden":
            near = difflib.get_close_matches(str(where[-1]), McpServer.model_fields, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            return Fault(where, f"is not known{hint}")
        case "missing":
            return Fault(where[:-1], f"has no {where[-1]}; add it.")
        case "value_error":
            return Fault(where, f"{detail['ctx']['error']}.")
    wants = _WANTS.get(str(where[1]) if len(where) > 1 else "")
    text = f"it must be {wants}" if wants else "it needs a command or a url"
    return Fault(where[:2], f"is {quote(detail['input'])}; {text}.")


_WANTS = {
    "name": "up to 24 small letters, digits and -, a letter first",
    "command": "the path or the name of a program",
    "args": "a list of texts",
    "env": "texts by their names",
    "url": "an address that begins with http:// or https://",
    "headers": "texts by their names",
    "transport": "http, sse or auto",
    "roots": "true or false",
    "about": "a line of at most 200 characters",
    "tools": "a list of names or patterns: search, read_*",
    "serves": "a list of owners, users, groups, or chats: telegram/-100123",
    "approve": "ask or never",
    "allow": "a list of names or patterns: search, read_*",
}


def find_plain_secret(written: Any) -> str:
    """Return the place of a plain-text key in the settings of servers ("files.env.TOKEN"); "" if
    there is none."""
    try:
        named = _by_place(written)
    except ServerFaults:
        return ""
    for place, one in named:
        for group in ("env", "headers"):
            values = one.get(group) if isinstance(one, Mapping) else None
            for name, value in values.items() if isinstance(values, Mapping) else ():
                is_secret = _SECRET_NAME.search(str(name)) and isinstance(value, str) and value
                if is_secret and not SECRET.search(value):
                    return f"{place}.{group}.{name}"
    return ""


_SERVERS = (
    "servers by their name, each with a command or a url "
    '(documentation: "Tools of other programs (MCP)")'
)
_TURN = {"holds": "from the next turn on"}


class McpSettings(SettingsSection):
    """The section `mcp`."""

    SECTION: ClassVar[str] = "mcp"
    ORDER: ClassVar[int] = 40
    servers: Annotated[tuple[McpServer, ...], BeforeValidator(parse_servers)] = Field(
        default=(),
        description="Servers whose tools the model may use (MCP).",
        json_schema_extra={"wants": _SERVERS, "fixed": True, "holds": "from the next start on"},
    )
    added: Annotated[tuple[McpServer, ...], BeforeValidator(parse_servers)] = Field(
        default=(),
        description="Servers that `/mcp add` added.",
        json_schema_extra={"wants": _SERVERS, **_TURN},
    )
    hidden: tuple[Annotated[str, StringConstraints(max_length=300)], ...] = Field(
        default=(),
        strict=False,
        max_length=20_000,
        description="Tools of servers that `/mcp trim` hides from the model.",
        json_schema_extra={"wants": "a list of SERVER/TOOL", **_TURN},
    )
    start_timeout: Annotated[int, Field(ge=1, le=600)] = Field(
        default=30,
        description="Time limit for the start of a server.",
        json_schema_extra={"unit": "seconds"},
    )
    call_timeout: Annotated[int, Field(ge=1, le=3_600)] = Field(
        default=60,
        description="Time limit for a call of a server's tool.",
        json_schema_extra={"unit": "seconds"},
    )
    idle: Annotated[int, Field(ge=0, le=86_400)] = Field(
        default=900,
        description="Time after which an unused server is stopped; 0: not before the bot stops.",
        json_schema_extra={"unit": "seconds"},
    )

    @property
    def all(self) -> Mapping[str, McpServer]:
        """Return the servers by name, sorted. A server of the configuration takes precedence over
        an added one of the same name."""
        found = {one.name: one for one in (*self.added, *self.servers)}
        return {name: found[name] for name in sorted(found)}

    @classmethod
    def find_plain_secret(cls, name: str, written: Any) -> str:
        return find_plain_secret(written) if name in ("servers", "added") else ""
