"""`/help`: the commands in groups, one command in detail, and a guide to the strategies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from channels.language import _
from plugins.api import Action, Ask, Command, Reply, command, hookimpl
from plugins.wording import cell, labelled, table

GROUPS: Mapping[str, Sequence[str]] = {
    "Conversation": (
        *("new", "retry", "undo", "edit", "regenerate", "files", "stop", "btw", "shell"),
        *("fork", "branches", "title", "pin", "archive", "cancel"),
    ),
    "Scheduling": ("remind", "jobs"),
    "Context and memory": (
        "context",
        "tour",
        "why",
        "without",
        "memory",
        "remember",
        "rules",
        "forget",
    ),
    "Settings, models and cost": ("config", "model", "agent", "mcp", "usage"),
}
"""The commands by purpose, the most used first. All other commands belong to `THE_BOT`."""
THE_BOT = "Access and status"
FIRST = (
    *("context", "config", "model", "usage", "undo", "retry", "edit", "new", "stop"),
    *("remember", "rules", "memory", "forget", "remind"),
)
"""The commands that `/help` explains; it lists all others by name."""

STRATEGIES: Mapping[str, tuple[str, str]] = {
    "trim": (
        "past a limit of turns or tokens, a summary replaces the oldest half",
        "you don't want to think about it: it is the default, and keeps costs steady",
    ),
    "slim": (
        "only the last turns are sent whole; older ones become one line each",
        "a chat goes on for weeks over many small things, and must stay cheap",
    ),
    "full": (
        "nothing is removed",
        "a chat is short, or not a word may be missing; each turn costs more than the one before",
    ),
    "truncate": (
        "near a limit, all but the newest messages are removed, without a summary",
        "earlier messages hardly matter, and no model call may be spent on a summary",
    ),
    "summarize": (
        "near a limit, a summary replaces all but the newest messages",
        "the newest messages matter word for word, and an outline of the rest is enough",
    ),
    "structured": (
        "near a limit, a summary in five fields replaces all but the newest part",
        "one long task is worked on: its goal, state, findings, next steps and rules stay apart",
    ),
    "stubs": (
        "old tool results become one line each; the model can read the full result again",
        "tools return long results (files, pages), and every message must stay",
    ),
}
"""Each strategy: its effect, and when to use it."""


@command(
    "help",
    "List all commands, or explain one",
    "[COMMAND | all | strategies]",
    [
        ("all", "all commands, with a description of each"),
        ("strategies", "the strategies for older turns, and when to use each"),
    ],
)
async def help_(ask: Ask) -> Reply:
    """List the commands in groups, in short or in full, or explain one of them."""
    wanted = ask.text.strip().lstrip("/").lower()
    commands = ask.bot.commands
    if wanted in commands:
        return Reply(_one(commands[wanted]), {"commands": [_data(commands[wanted])]})
    if wanted == "strategies":
        chosen = ask.bot.settings.describe("context.strategy", ask.conversation.key.id)
        return show_strategies(str(chosen.value))
    name, rest = (*wanted.split(" ", 1), "")[:2]
    subs = {sub.name: sub for sub in commands[name].subs} if name in commands else {}
    if found := subs.get(rest.strip()):
        one = {"name": f"{name} {found.name}", "summary": _(found.summary)}
        return Reply(f"`/{name} {found.name}`: {_(found.summary)}", {"commands": [one]})
    shown = _every(commands) if wanted == "all" else _first(commands)
    sections = [*shown, _more()]
    if wanted not in ("", "all"):
        sections.insert(0, _("There is no command /{name}. These are all of them:", name=wanted))
    groups = [{"name": _(group), "commands": names} for group, names in grouped(commands).items()]
    data = {
        "commands": [_data(commands[name]) for name in sorted(commands)],
        "groups": groups,
        "first": [name for name in FIRST if name in commands],
    }
    return Reply("\n\n".join(sections), data)


def _every(commands: Mapping[str, Command]) -> Iterator[str]:
    for group, names in grouped(commands).items():
        yield f"**{_(group)}**\n\n{_list([commands[name] for name in names])}"


def _first(commands: Mapping[str, Command]) -> Iterator[str]:
    """Yield the most important commands, and then the names of all, to fit on one screen."""
    yield _list([commands[name] for name in FIRST if name in commands])
    yield _("All commands by group; `/help all` says what each does:")
    for group, names in grouped(commands).items():
        yield labelled(f"**{_(group)}**", ", ".join(f"/{name}" for name in names))


def _more() -> str:
    return _(
        "`/help COMMAND` explains a command, `/help strategies` what can happen to older turns. A "
        "text without a slash goes to the model, and so does one after two: `//text`."
    )


def grouped(commands: Mapping[str, Command]) -> dict[str, list[str]]:
    """Return the names of all commands by their group, each once."""
    found = {group: [n for n in names if n in commands] for group, names in GROUPS.items()}
    placed = {name for names in found.values() for name in names}
    return {**found, THE_BOT: sorted(commands.keys() - placed)}


def _list(commands: Sequence[Command]) -> str:
    header = (_("command"), _("description"))
    return table(header, ((f"/{c.name}", cell(_(c.summary))) for c in commands))


def format_strategies(chosen: str = "") -> str:
    """Return a list of the strategies for older turns and when to use each, with the chosen one
    marked."""
    return "\n".join(
        _("- **{name}**: {what}. Use it when {when}.", name=name, what=_(what), when=_(when))
        if name != chosen
        else _(
            "- **{name}** (chosen here): {what}. Use it when {when}.",
            name=name,
            what=_(what),
            when=_(when),
        )
        for name, (what, when) in STRATEGIES.items()
    )


def show_strategies(chosen: str) -> Reply:
    """Return the list, with a button for each of the other strategies."""
    more = _(
        "`/config context.strategy NAME --here` chooses one for "
        "this conversation, without `--here` for all; `/context preview` shows what it would do."
    )
    text = f"{format_strategies(chosen)}\n\n{more}"
    data = {
        "strategies": [
            {"name": name, "what": what, "when": when} for name, (what, when) in STRATEGIES.items()
        ]
    }
    others = [name for name in STRATEGIES if name != chosen]
    actions = tuple(Action(name, f"/config context.strategy {name} --here") for name in others)
    return Reply(text, data, actions)


def _one(command: Command) -> str:
    subs = "".join(f"\n- `/{command.name} {sub.name}`: {_(sub.summary)}" for sub in command.subs)
    return f"`/{command.name} {command.usage}`".replace(" `", "`") + f": {_(command.summary)}{subs}"


def _data(command: Command) -> dict[str, object]:
    return {
        "name": command.name,
        "usage": command.usage,
        "summary": _(command.summary),
        "subcommands": [{"name": sub.name, "summary": _(sub.summary)} for sub in command.subs],
    }


@hookimpl
def parley_commands() -> list[Command]:
    return [help_]
