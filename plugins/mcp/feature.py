"""The hooks of MCP servers, and `/mcp`.

`/mcp` shows and changes the servers whose tools the model may use.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from bot.app import Kernel
from bot.checks import Finding
from bot.settings import Settings
from channels.language import _, explain, format_datetime
from plugins.api import (
    Action,
    Ask,
    Command,
    CommandError,
    ContextPart,
    Reply,
    command,
    hookimpl,
    refusal,
)
from plugins.hookspecs import RemoteToolsFor
from plugins.mcp.health import ServerView, describe_cost, format_servers, format_tools, to_data
from plugins.mcp.offers import ManagedServers, ServerOffers
from plugins.mcp.pasted import make_name, read_pasted
from plugins.mcp.servers import Servers
from plugins.mcp.settings import NAME, McpServer, McpSettings, find_plain_secret
from plugins.wording import count, literal, sentences

ADDED, HIDDEN = "mcp.added", "mcp.hidden"
USAGE = (
    "Say `/mcp add NAME PROGRAM ARGUMENTS`, `/mcp add NAME https://…`, or `/mcp add` and the JSON "
    "of its documentation; a name has up to 24 small letters, digits and -."
)
_MOST_BUTTONS = 8


async def show(ask: Ask, rest: str) -> Reply:
    """Run `/mcp list`."""
    del rest
    servers = await _visible(ask)
    if not servers:
        text = _(
            "There are no MCP servers here; such servers offer tools to the model. An owner "
            "adds one with /mcp add, or in the configuration (mcp.servers)."
        )
        return Reply(text, {"servers": []})
    data = {"servers": [to_data(one) for one in servers]}
    actions = tuple(Action(one.name, f"/mcp tools {one.name}") for one in servers[:8])
    parts = (format_servers(servers), describe_cost(servers))
    return Reply("\n\n".join(parts), data, actions)


async def tools(ask: Ask, rest: str) -> Reply:
    """Run `/mcp tools [NAME]`."""
    if not rest.strip():
        return await show(ask, "")
    server = _find(await _visible(ask), rest)
    if not server.tools and server.is_served_here:
        if why := await ask.service(ManagedServers).probe(server.name, ask.conversation.key):
            raise CommandError(_describe_down(server.name, why))
        server = _find(await _visible(ask), rest)
    zone = ask.bot.zone()
    changes = "\n".join(
        f"- {format_datetime(at, zone)}: {literal(what)}" for at, what in server.changes
    )
    changed = _("Changes:\n\n{changes}", changes=changes) if changes else ""
    listed = format_tools(server) if server.tools else _("Nothing is known of its tools yet.")
    head = f"**{literal(server.name)}** ({literal(server.where)}): {server.state}"
    return Reply("\n\n".join(filter(None, (head, listed, changed))), to_data(server))


async def add(ask: Ask, rest: str) -> Reply:
    """Run `/mcp add` with NAME PROGRAM ARGUMENTS, an address, or JSON, also in other programs'
    formats."""
    ask.require_owner("add servers")
    servers = _read_servers(rest)
    for written in servers:
        await _refuse(ask, written)
    await _set_added(ask, [*_added(ask), *servers])
    replies = [await _probe(ask, written["name"]) for written in servers]
    texts = [text for text, _data in replies]
    unused = {one for found in read_pasted(rest) for one in found.unused}
    if unused:
        texts.append(_("Ignored: {fields}.", fields=", ".join(sorted(unused))))
    data = replies[0][1] if len(replies) == 1 else {"added": [one for _text, one in replies]}
    undo = [
        Action(_("Remove it"), f"/mcp remove {one['name']}")
        if len(servers) == 1
        else Action(_("Remove {name}", name=one["name"]), f"/mcp remove {one['name']}")
        for one in servers[:_MOST_BUTTONS]
    ]
    return Reply("\n\n".join(texts), data, tuple(undo))


async def _refuse(ask: Ask, written: Mapping[str, Any]) -> None:
    """Raise CommandError if a server can't be added."""
    name = written["name"]
    if not re.fullmatch(NAME, name):
        raise refusal(USAGE)
    if place := find_plain_secret([written]):
        raise refusal(
            "{place} holds a key as plain text; put it into .env as NAME=…, and write "
            "{secret} here.",
            place=place.partition(".")[2],
            secret="{{secret.NAME}}",
        )
    if any(one.name == name for one in await _all(ask)):
        raise refusal("There is a server {name} already; /mcp remove {name} removes it.", name=name)


async def _probe(ask: Ask, name: str) -> tuple[str, dict[str, Any]]:
    """Return the text and the data about a server that was added."""
    why = await ask.service(ManagedServers).probe(name, ask.conversation.key)
    server = _find(await _all(ask), name)
    risk = _(
        "It is a program that runs on the bot's machine, outside of the sandbox, with all rights "
        "of the bot's account."
    )
    if why:
        state = _("It does not work yet: {why}.", why=literal(explain(why)))
    else:
        known = count(len(server.tools), "tool")
        state = _("It has {tools}; the model looks them up when it needs them.", tools=known)
    parts = (
        _("The server {name} is added.", name=name),
        risk if server.is_process else "",
        state,
    )
    return sentences(*parts), to_data(server)


def _read_servers(rest: str) -> list[dict[str, Any]]:
    """Return the servers to add, in the form of the settings: one with its name, or all in a JSON
    text in other programs' formats. Raises CommandError."""
    name, _space, what = rest.strip().partition(" ")
    is_named = bool(re.fullmatch(NAME, name))
    found = read_pasted(rest)
    if is_named and what.lstrip()[:1] in ("{", "`", '"', "“"):
        found = [one for one in found if len(found) == 1 or make_name(one.name) == name]
        if found:
            return [{"name": name, **found[0].fields}]
    elif found and all(one.name for one in found):
        return [{"name": make_name(one.name), **one.fields} for one in found]
    return [{"name": name, **_read_server(what.strip())}]


def _read_server(what: str) -> dict[str, Any]:
    """Return the settings of a server, which follow its name. Raises CommandError."""
    try:
        if what.startswith("{"):
            read = json.loads(what)
            return dict(read)
        words = shlex.split(what)
    except ValueError:
        raise refusal(USAGE) from None
    if not words:
        raise refusal(USAGE)
    if words[0].startswith(("http://", "https://")):
        return {"url": words[0]}
    return {"command": words[0], **({"args": words[1:]} if words[1:] else {})}


async def remove(ask: Ask, rest: str) -> Reply:
    """Run `/mcp remove NAME`."""
    ask.require_owner("remove servers")
    server = _find(await _all(ask), rest)
    if not server.is_added:
        raise refusal(
            "The server {name} is in the configuration (mcp.servers); take it out there, and "
            "restart the bot.",
            name=server.name,
        )
    await _set_added(ask, [one for one in _added(ask) if one.get("name") != server.name])
    await ask.service(Servers).forget(server.name)
    return Reply(_("The server {name} is removed.", name=server.name), {"removed": server.name})


async def restart(ask: Ask, rest: str) -> Reply:
    """Run `/mcp restart NAME`."""
    ask.require_owner("restart servers")
    server = _find(await _all(ask), rest)
    if why := await ask.service(ManagedServers).restart(server.name, ask.conversation.key):
        raise CommandError(_describe_down(server.name, why))
    server = _find(await _all(ask), server.name)
    tools = count(len(server.tools), "tool")
    text = _("The server {name} runs again; it has {tools}.", name=server.name, tools=tools)
    return Reply(text, to_data(server))


async def trim(ask: Ask, rest: str) -> Reply:
    """Run `/mcp trim` or `/mcp trim undo`; with the mark of a list, as buttons send it, only if
    these tools are still hidden."""
    ask.require_owner("hide tools")
    verb, mark = (*rest.lower().split(None, 1), "", "")[:2]
    if verb == "undo":
        if mark and mark != _mark(ask.bot.settings.describe(HIDDEN, "").value):
            raise refusal(
                "Other tools are hidden by now, so nothing was changed; /mcp lists the tools."
            )
        await ask.bot.settings.unset(HIDDEN, "", ask.person)
        return Reply(_("All tools of all servers are offered again."), {"hidden": []})
    if verb:
        raise CommandError(_("/mcp trim takes nothing, or undo."))
    servers = await _all(ask)
    never = [
        f"{one.name}/{tool.own_name}" for one in servers for tool in one.offered if not tool.calls
    ]
    if not never:
        return Reply(_("Every tool that is offered was called before; none is hidden."), {})
    hidden = [*ask.bot.settings.describe(HIDDEN, "").value, *never]
    await ask.bot.settings.set(HIDDEN, json.dumps(hidden), "", ask.person)
    text = _(
        "{tools} that were never called are hidden: the model does not find them any more. /mcp "
        "trim undo brings them back.",
        tools=count(len(never), "tool"),
    )
    return Reply(text, {"hidden": hidden}, (Action(_("Undo"), f"/mcp trim undo {_mark(hidden)}"),))


def _mark(hidden: Sequence[str]) -> str:
    """Return a short digest of a list of hidden tools."""
    return hashlib.sha256(json.dumps([*hidden]).encode()).hexdigest()[:8]


VERBS: Mapping[str, tuple[Callable[[Ask, str], Awaitable[Reply]], str]] = {
    "list": (show, "all servers, with their tools, tokens and calls"),
    "tools": (tools, "the tools of one of them (tools notes)"),
    "add": (add, "add a program, an address or JSON (add notes python notes.py)"),
    "remove": (remove, "remove one that was added (remove notes)"),
    "restart": (restart, "end one, and start it again (restart notes)"),
    "trim": (trim, "hide the tools that were never called (trim undo brings them back)"),
}


@command(
    "mcp",
    "Servers whose tools the model may use (MCP)",
    "[WHAT]",
    [(name, summary) for name, (_verb, summary) in VERBS.items()],
    slow=("add", "tools", "restart"),
    bare=("list",),
)
async def mcp_command(ask: Ask) -> Reply:
    """Run the subcommand that the first word names; without one, list the servers."""
    name, rest = (*ask.text.split(None, 1), "", "")[:2]
    if not name:
        return await show(ask, "")
    if name.lower() not in VERBS:
        raise ask.refuse_word("mcp", name)
    return await VERBS[name.lower()][0](ask, rest)


async def describe_in_context(ask: Ask, rest: str) -> tuple[str, dict[str, Any]]:
    """Return the tokens of the servers' tools, by server and by tool, for `/context detail`."""
    del rest
    servers = [one for one in await _all(ask) if one.is_served_here]
    data = {"servers": [to_data(one) for one in servers]}
    if not servers:
        return "", data
    listed = [format_tools(one) for one in servers if one.tools]
    return "\n\n".join((describe_cost(servers), format_servers(servers), *listed)), data


async def _all(ask: Ask) -> list[ServerView]:
    return await ask.service(ManagedServers).all(ask.conversation.key, ask.address)


async def _visible(ask: Ask) -> list[ServerView]:
    """Return all servers for an owner, and for others those whose tools they may use here."""
    return [one for one in await _all(ask) if ask.person.is_owner or one.is_served_here]


def _find(servers: list[ServerView], rest: str) -> ServerView:
    name = rest.strip().lower()[:40]
    for one in servers:
        if one.name == name:
            return one
    names = ", ".join(one.name for one in servers) or _("none")
    raise refusal("There is no server {name!r}; there are: {names}.", name=name, names=names)


def _added(ask: Ask) -> list[dict[str, Any]]:
    """Return the servers that were added, in the form of the settings."""
    value = ask.bot.settings.describe(ADDED, "").value
    if isinstance(value, dict):  # grouped by name, in the configuration
        return [{**one, "name": name} for name, one in value.items()]
    return list(value)


async def _set_added(ask: Ask, servers: list[dict[str, Any]]) -> None:
    await ask.bot.settings.set(ADDED, json.dumps(servers), "", ask.person)


def _describe_down(name: str, why: str) -> str:
    return _("The server {name} does not work: {why}.", name=name, why=literal(explain(why)))


class McpFeature:
    """The feature's services, created from the kernel's."""

    def __init__(self, kernel: Kernel) -> None:
        meter = kernel.conversations.services.meter
        self._servers = Servers(kernel)
        self._offers = ServerOffers(self._servers, kernel.access)
        self._managed = ManagedServers(self._servers, self._offers, meter, kernel.config)

    @hookimpl
    def parley_services(self) -> Sequence[object]:
        return (self._servers, self._managed)

    @hookimpl
    def parley_remote_tools(self) -> RemoteToolsFor:
        return self._offers.offer

    @hookimpl
    def parley_setting_changed(self) -> Callable[[], None]:
        return self._servers.stop_unneeded

    @hookimpl
    def parley_closing(self) -> Callable[[], Awaitable[None]]:
        return self._servers.close


@hookimpl
def parley_open(kernel: Kernel) -> McpFeature:
    return McpFeature(kernel)


@hookimpl
def parley_commands() -> list[Command]:
    return [mcp_command]


@hookimpl
def parley_context_parts() -> Mapping[str, ContextPart]:
    return {"detail": describe_in_context}


async def examine(settings: Settings, may_connect: bool) -> Sequence[Finding]:
    """Check the requirements of the configured servers on this machine, without starting them."""
    del may_connect
    servers = settings.section(McpSettings).all.values()
    return [check_servers(servers, find_spec("mcp") is not None)] if servers else ()


def check_servers(servers: Collection[McpServer], has_sdk: bool) -> Finding:
    """Check the requirements of these servers, without starting them."""
    if not has_sdk:
        advice = "Run: python main.py add mcp"
        return Finding("MCP servers", "broken", "The package mcp is missing.", advice)
    programs = [one for one in servers if one.is_process]
    missing = [f"{one.name} ({one.command})" for one in programs if not shutil.which(one.command)]
    if missing:
        advice = "Install them, or correct mcp.servers."
        return Finding(
            "MCP servers", "broken", f"Programs are missing: {', '.join(missing)}.", advice
        )
    return Finding("MCP servers", "ok", f"What {len(servers)} of them need is there.")
